/*
 * build_graph.h - one graph, built where the choice of devices says.
 */
#ifndef GRN_BUILD_GRAPH_H
#define GRN_BUILD_GRAPH_H

#include "builder/job.h"

/*
 * Builds the graph of rows on the GPU (gpu not NULL) or the processor's cores; falls
 * back to the latter for GRN_DEVICE_AUTO where the GPU cannot.  params hold 0
 * for defaults and are completed.  Sets *on_gpu.
 */
extern bool grn_build_graph(GrnGraphJob *job, GrnFailure *failure);
/*
 * Gives a GPU a graph that it does not have, so that it finds what is reached and the order of
 * pages: for 100,000,000 vertices cores take as long as the build.  Returns the GPU, or NULL where
 * it has no memory for it: then cores do.
 */
extern GrnGpu *grn_load_graph(GrnGpu *gpu, const GrnGraph *graph, const GrnDeviceChoice *choice);
/* Frees what a GPU has of a graph, and the digests that it has kept of its rows. */
extern void grn_drop_graph(GrnGpu *gpu);
/* Whether the job's GPU would build it as a whole, by the memory that it has now. */
extern bool grn_builds_whole(const GrnGraphJob *job);

#endif							/* GRN_BUILD_GRAPH_H */
