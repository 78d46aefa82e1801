/*
 * cut_order.h - an order of rows that puts near rows on one page.
 */
#ifndef GRN_CUT_ORDER_H
#define GRN_CUT_ORDER_H

#include "memory/arena.h"
#include "space/rows.h"

#define GRN_CUT_ORDER_BYTES(n) (12 * (size_t) (n) + 3 * GRN_ALIGNMENT)

/*
 * Computes position[i], the place of row i, such that each per_page consecutive places hold rows
 * near to each other.  workspace: GRN_CUT_ORDER_BYTES(rows->n).  Returns false without memory for
 * the threads, up to 2 MB each.
 */
extern bool grn_cut_order(const GrnRows *rows, uint32_t per_page, uint32_t *position, GrnParallel *parallel,
						  void *workspace);

#endif							/* GRN_CUT_ORDER_H */
