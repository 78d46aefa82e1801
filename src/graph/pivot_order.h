/*
 * pivot_order.h - computes a cheap order of rows in which near rows are often near each other.
 */
#ifndef GRN_PIVOT_ORDER_H
#define GRN_PIVOT_ORDER_H

#include "space/kernels/tile.h"

/*
 * Chooses some hundred or thousand rows at random as pivots.  Sorts rows [0, n) of the tile into
 * bins by their nearest pivot, found in two levels: order[i] is the row at position i.  The order
 * does not depend on the number of threads.  workspace: grn_pivot_order_bytes(n) bytes.
 */
extern size_t grn_pivot_order_bytes(size_t n);
extern void grn_pivot_order(const GrnTile *tile, size_t n, uint64_t seed, GrnParallel *parallel,
							uint32_t *order, void *workspace);

#endif							/* GRN_PIVOT_ORDER_H */
