/*
 * pivot_order.h - computes a cheap order of rows in which near rows are often near each other.
 */
#ifndef GRN_PIVOT_ORDER_H
#define GRN_PIVOT_ORDER_H

#include "graph/kernels/tile.h"

/*
 * Sorts rows [0, n) into bins by the nearest of some hundred random pivots, in two levels: order[i]
 * is the row at i, whatever the threads.  workspace: grn_pivot_order_bytes(n).
 */
extern size_t grn_pivot_order_bytes(size_t n);
extern void grn_pivot_order(const GrnTile *tile, size_t n, uint64_t seed, GrnParallel *parallel,
							uint32_t *order, void *workspace);

#endif							/* GRN_PIVOT_ORDER_H */
