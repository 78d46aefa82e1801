/*
 * navigable.h - adds edges where searches of a graph end far from their targets.
 */
#ifndef GRN_NAVIGABLE_H
#define GRN_NAVIGABLE_H

#include "graph/construct/graph.h"
#include "graph/kernels/tile.h"

/*
 * Searches for random vertices from random vertices, and adds or replaces edges until nearly
 * all searches succeed.  The result does not depend on the number of threads.  Vertices may
 * become unreachable, so grn_connect() must follow.
 */
extern void grn_make_navigable(const GrnTile *tile, GrnGraph *graph, uint64_t seed,
							   GrnParallel *parallel);

#endif							/* GRN_NAVIGABLE_H */
