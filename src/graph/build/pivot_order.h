/*
 * pivot_order.h - an order of rows in which near ones lie near each other, cheaply.
 */
#ifndef GRN_PIVOT_ORDER_H
#define GRN_PIVOT_ORDER_H

#include "graph/kernels/tile.h"

/*
 * Sorts rows [0, n) of the tile by the nearest of some hundred or thousand rows
 * chosen at random, found in two levels: order[i] is the row at place i.  The same for
 * a seed whatever the number of threads.  workspace: grn_pivot_order_bytes(n).
 */
extern size_t grn_pivot_order_bytes(size_t n);
extern void grn_pivot_order(const GrnTile *tile, size_t n, uint64_t seed, GrnParallel *parallel,
					 uint32_t *order, void *workspace);

#endif							/* GRN_PIVOT_ORDER_H */
