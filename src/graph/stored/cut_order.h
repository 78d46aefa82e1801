/*
 * cut_order.h - an order of rows that puts near ones onto one page.
 */
#ifndef GRN_CUT_ORDER_H
#define GRN_CUT_ORDER_H

#include "graph/arena.h"
#include "graph/rows.h"
#include "graph/stored/group.h"

/* Whether rows can be ordered by such codes: not by those that are the rows themselves (bits). */
extern bool grn_has_code_order(const GrnCodec *codec);

#define GRN_CUT_ORDER_BYTES(n) (12 * (size_t) (n) + 3 * GRN_ALIGNMENT)

/*
 * position[i] is where row i of n goes, such that each per_page consecutive positions hold rows
 * near to each other.  g: codes by row; its room does not matter.  NULL: there are none to order
 * by.  rows: the same, or NULL if memory does not hold them; with rows the order is better.
 * workspace: GRN_CUT_ORDER_BYTES(n).  False: there is neither of both, or no memory for what
 * threads need beside the workspace, up to 2 MB each.
 */
extern bool grn_cut_order(const GrnGrouping *g, const GrnRows *rows, uint32_t n, uint32_t per_page,
						  uint32_t *position, GrnParallel *parallel, void *workspace);

#endif							/* GRN_CUT_ORDER_H */
