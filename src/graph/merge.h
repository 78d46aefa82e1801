/*
 * merge.h - makes one graph of the lists of the parts' graphs.
 */
#ifndef GRN_MERGE_H
#define GRN_MERGE_H

#include "graph/cut.h"
#include "graph/graph.h"
#include "space/kernels/tile.h"

/*
 * Makes the graph of all rows from the lists of the parts' graphs: lists [members][graph->degree]
 * of rows, with GRN_INVALID_ID after the last neighbor of a short list.  A row gets the
 * neighbors from both of its lists that pass the RNG rule, and then the nearest remaining
 * neighbors, up to the degree.
 */
extern void grn_parts_merge(const GrnTile *tile, const GrnParts *parts, const uint32_t *lists, GrnParallel *parallel,
							GrnGraph *graph);

#endif							/* GRN_MERGE_H */
