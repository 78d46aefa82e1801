/*
 * in_backend.h - builds of few rows in the leader, without a builder process.
 */
#ifndef GRNND_IN_BACKEND_H
#define GRNND_IN_BACKEND_H

#include "am/create/build_state.h"

/* Whether the leader builds the graph of `rows` rows, unless settings demand a GPU or host. */
extern bool grnnd_builds_in_backend(const GrnndBuild *build, double rows);
/* Builds the graph like a builder: fills builder.result and segments.  Errors by ereport(). */
extern void grnnd_build_in_backend(GrnndBuild *build);
/* Puts the rows of such a build's lists, in segment LISTS, into groups. */
extern void grnnd_group_in_backend(GrnndBuild *build);

#endif							/* GRNND_IN_BACKEND_H */
