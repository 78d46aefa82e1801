/*
 * in_backend.h - builds of few rows in the leader, without a builder process.
 */
#ifndef GRNND_IN_BACKEND_H
#define GRNND_IN_BACKEND_H

#include "am/create/build_state.h"

/*
 * Whether the leader itself builds the graph of `rows` rows.  A setting may demand another place: a
 * GPU (grnnd.build_device = gpu) or another host (grnnd.build_server).
 */
extern bool grnnd_builds_in_backend(const GrnndBuild *build, double rows);
/*
 * Builds the graph of the collected rows like a builder process: fills build->builder.result, and
 * the segments that the result names.  Errors: those of the pipeline, as ereport().
 */
extern void grnnd_build_in_backend(GrnndBuild *build);
/* Puts the rows of such a build's lists, in segment LISTS, into groups. */
extern void grnnd_group_in_backend(GrnndBuild *build);

#endif							/* GRNND_IN_BACKEND_H */
