/*
 * navigable.h - edges where searches of a graph end far from what they look for.
 */
#ifndef GRN_NAVIGABLE_H
#define GRN_NAVIGABLE_H

#include "graph/construct/graph.h"
#include "graph/kernels/tile.h"

/*
 * Searches for vertices from other ones, both drawn at random, and adds or replaces edges until
 * nearly all of them succeed.  The result does not depend on the number of threads.  What was
 * reachable need not stay so: grn_connect() comes after it.
 */
extern void grn_make_navigable(const GrnTile *tile, GrnGraph *graph, uint64_t seed,
							   GrnParallel *parallel);

#endif							/* GRN_NAVIGABLE_H */
