/*
 * in_backend.h - builds of few rows, without a builder process.
 */
#ifndef GRNND_IN_BACKEND_H
#define GRNND_IN_BACKEND_H

#include "am/create/build_state.h"

/*
 * Whether this backend makes the graph of so many rows itself, unless a setting demands another
 * place: a GPU (grnnd.build_device = gpu) or another host (grnnd.build_server).
 */
extern bool grnnd_builds_in_backend(const GrnndBuild *build, double rows);
/*
 * Makes the graph of the rows that are collected, as a builder process would: fills
 * build->builder.result, and the segments that the result names.
 */
extern void grnnd_build_in_backend(GrnndBuild *build);

#endif							/* GRNND_IN_BACKEND_H */
