/*
 * build_graph.h - builds a graph on the device that the choice of devices demands.
 */
#ifndef GRN_BUILD_GRAPH_H
#define GRN_BUILD_GRAPH_H

#include "builder/job.h"

/*
 * Builds the graph of rows on the GPU (job->gpu not NULL) or on the processor's cores.  With
 * GRN_DEVICE_AUTO cores build if the GPU cannot.  A parameter of 0 means the default; the function
 * replaces 0 by the value used.  Sets job->on_gpu.  Errors: those of grn_gpu_refused() and of
 * memory.
 */
extern bool grn_build_graph(GrnGraphJob *job, GrnFailure *failure);
/*
 * Copies a graph to a GPU that has not built the graph as a whole, so that the GPU can find the
 * reachable vertices and order the pages.  On cores both take as long as the build for 100,000,000
 * vertices.  Returns the GPU, or NULL if the GPU's memory is too small; then cores do both.
 */
extern GrnGpu *grn_load_graph(GrnGpu *gpu, const GrnGraph *graph, const GrnDeviceChoice *choice);
/* Frees the GPU's copy of a graph and the digests of its rows. */
extern void grn_drop_graph(GrnGpu *gpu);
/* Whether the job's GPU can build the whole graph in the memory that is free now. */
extern bool grn_builds_whole(const GrnGraphJob *job);

#endif							/* GRN_BUILD_GRAPH_H */
