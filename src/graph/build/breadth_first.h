/*
 * breadth_first.h - breadth-first search of a graph from several vertices at once, by all
 * threads.
 */
#ifndef GRN_REACH_H
#define GRN_REACH_H

#include "graph/build/descent.h"

#define GRN_REACH_MAX_SOURCES 4096

/*
 * Labels each vertex with the number of the source from which it is reached in the
 * fewest steps, the smallest of equals, or GRN_INVALID_ID; returns how many are
 * reached.  The labels do not depend on the number of threads.  queue gets the
 * vertices reached, by distance, in no order among equals.  nsources <=
 * GRN_REACH_MAX_SOURCES; sources distinct; label, queue: [n].  parallel may be
 * NULL.
 */
extern size_t grn_reach(const GrnGraph *graph, GrnParallel *parallel,
						const uint32_t *sources, uint32_t nsources,
						uint32_t *label, uint32_t *queue);

#endif							/* GRN_REACH_H */
