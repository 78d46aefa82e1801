/*
 * breadth_first.h - breadth-first search of a graph from several vertices at once, by all
 * threads.
 */
#ifndef GRN_BREADTH_FIRST_H
#define GRN_BREADTH_FIRST_H

#include "graph/build/graph.h"

#define GRN_MAX_SOURCES 4096

/*
 * Labels each vertex with the number of the source from which it is reached in the
 * fewest steps, the smallest of equals, or GRN_INVALID_ID; returns how many are
 * reached.  The labels do not depend on the number of threads.  queue gets the
 * vertices reached, by distance, in no order among equals.  nsources <=
 * GRN_MAX_SOURCES; sources distinct; label, queue: [n].  parallel may be
 * NULL.
 */
extern size_t grn_breadth_first(const GrnGraph *graph, GrnParallel *parallel,
								const uint32_t *sources, uint32_t nsources,
								uint32_t *label, uint32_t *queue);

#endif							/* GRN_BREADTH_FIRST_H */
