/*
 * cut_order.h - an order of rows that puts near rows on one page.
 */
#ifndef GRN_CUT_ORDER_H
#define GRN_CUT_ORDER_H

#include "memory/arena.h"
#include "space/rows.h"
#include "store/group.h"

/* Can codes of this codec order rows?  Codes that are rows of bits cannot. */
extern bool grn_has_code_order(const GrnCodec *codec);

#define GRN_CUT_ORDER_BYTES(n) (12 * (size_t) (n) + 3 * GRN_ALIGNMENT)

/*
 * Computes position[i], the place of row i of n, such that each per_page consecutive places hold
 * rows near to each other.
 *
 * g: codes by row, or NULL; its `room` is ignored.  rows: the rows, or NULL if memory does not
 * hold them; the order is better with rows.  workspace: GRN_CUT_ORDER_BYTES(n).  Returns false if
 * both are NULL, or without memory for the threads, up to 2 MB each.
 */
extern bool grn_cut_order(const GrnGrouping *g, const GrnRows *rows, uint32_t n, uint32_t per_page,
						  uint32_t *position, GrnParallel *parallel, void *workspace);

#endif							/* GRN_CUT_ORDER_H */
