/*
 * page_order.h - an order of a graph's vertices that puts neighbours onto one page.
 */
#ifndef GRN_PAGE_ORDER_H
#define GRN_PAGE_ORDER_H

#include "graph/build/graph.h"

/*
 * The sources of the regions into which the order cuts a graph of n vertices, [GRN_MAX_SOURCES];
 * returns how many there are.
 */
extern uint32_t grn_page_sources(uint32_t n, uint32_t *sources);

#define GRN_PAGE_ORDER_BYTES(n) (14 * (size_t) (n))

/*
 * Graph-local order: position[i] is where vertex i goes, such that groups of
 * per_page consecutive positions hold vertices that are neighbours (greedy
 * packing).  workspace: GRN_PAGE_ORDER_BYTES(n).
 */
extern void grn_page_order(const GrnGraph *graph, uint32_t per_page, uint32_t *position,
						   GrnParallel *parallel, void *workspace);

#endif							/* GRN_PAGE_ORDER_H */
