/*
 * merge.h - one graph from the lists of its parts' graphs.
 */
#ifndef GRN_MERGE_H
#define GRN_MERGE_H

#include "graph/construct/cut.h"
#include "graph/construct/graph.h"
#include "graph/kernels/tile.h"

/*
 * Makes the graph of all rows from the lists of the parts' graphs, lists
 * [members][graph->degree], which name rows.  GRN_INVALID_ID ends a list that is shorter.
 * A row gets those of its neighbours in both parts that the RNG rule keeps.  The nearest of
 * the others follow, up to the degree.  Lists of rows that are on a disk are on it as well.
 */
extern void grn_parts_merge(const GrnTile *tile, const GrnParts *parts, const uint32_t *lists, GrnParallel *parallel,
							GrnGraph *graph);

#endif							/* GRN_MERGE_H */
