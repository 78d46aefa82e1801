/*
 * merge.h - makes one graph of the lists of the parts' graphs.
 */
#ifndef GRN_MERGE_H
#define GRN_MERGE_H

#include "graph/construct/cut.h"
#include "graph/construct/graph.h"
#include "graph/kernels/tile.h"

/*
 * Merges parts' lists [members][graph->degree] of rows, GRN_INVALID_ID behind the last: neighbors
 * of both that pass the RNG rule, then the nearest, up to the degree.  Lists are where rows are, in
 * memory or on a disk.
 */
extern void grn_parts_merge(const GrnTile *tile, const GrnParts *parts, const uint32_t *lists, GrnParallel *parallel,
							GrnGraph *graph);

#endif							/* GRN_MERGE_H */
