/*
 * build_graph.h - builds a graph on the device that the choice of devices demands.
 */
#ifndef GRN_BUILD_GRAPH_H
#define GRN_BUILD_GRAPH_H

#include "builder/job.h"

/*
 * Builds the graph on the GPU (job->gpu) or, also if AUTO's GPU cannot, on cores.  Parameters of 0
 * become the values used.  Errors: grn_gpu_refused(), memory.
 */
extern bool grn_build_graph(GrnGraphJob *job, GrnFailure *failure);
/*
 * Copies a graph to a GPU for reachable vertices and the order of pages, as long as a build on
 * cores.  NULL: too little memory.
 */
extern GrnGpu *grn_load_graph(GrnGpu *gpu, const GrnGraph *graph, const GrnDeviceChoice *choice);
/* Frees the GPU's copy of a graph and the digests of its rows. */
extern void grn_drop_graph(GrnGpu *gpu);
/* Whether the job's GPU can build the whole graph in the memory that is free now. */
extern bool grn_builds_whole(const GrnGraphJob *job);

#endif							/* GRN_BUILD_GRAPH_H */
