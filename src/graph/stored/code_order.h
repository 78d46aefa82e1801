/*
 * code_order.h - an order of coded rows that puts near ones onto one page.
 */
#ifndef GRN_CODE_ORDER_H
#define GRN_CODE_ORDER_H

#include "graph/arena.h"
#include "graph/rows.h"
#include "graph/stored/group.h"

/* Whether rows can be ordered by such codes: not by those of bits, which take long to cut by. */
extern bool grn_has_code_order(const GrnCodec *codec);

#define GRN_CODE_ORDER_BYTES(n) (12 * (size_t) (n) + 3 * GRN_ALIGNMENT)

/*
 * position[i] is where row i of n goes, such that each per_page consecutive positions hold rows
 * near to each other.  g: codes by row; its room does not matter.  rows: the same, or NULL if
 * memory does not hold them; with them the order is better.  To reach recall .95, searches then
 * take an eighth to a fifth fewer pages than in the order by a graph's edges (page_order.h).
 * workspace: GRN_CODE_ORDER_BYTES(n).  False: there is no memory for what threads need beside it,
 * up to 2 MB each.
 */
extern bool grn_code_order(const GrnGrouping *g, const GrnRows *rows, uint32_t n, uint32_t per_page,
						   uint32_t *position, GrnParallel *parallel, void *workspace);

#endif							/* GRN_CODE_ORDER_H */
