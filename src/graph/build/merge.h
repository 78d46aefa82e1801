/*
 * merge.h - one graph from the lists of its parts' graphs.
 */
#ifndef GRN_MERGE_H
#define GRN_MERGE_H

#include "graph/build/cut.h"
#include "graph/build/graph.h"
#include "graph/kernels/tile.h"

/*
 * The graph from the lists of the parts' graphs, [members][graph->degree], by rows,
 * each ended by GRN_INVALID_ID where it is short: of a row's neighbours in both
 * its parts those that the RNG rule keeps, then, up to the degree, the nearest of
 * the others.
 */
extern void grn_parts_merge(const GrnTile *tile, const GrnParts *parts, const uint32_t *lists,
							GrnParallel *parallel, GrnGraph *graph);

#endif							/* GRN_MERGE_H */
