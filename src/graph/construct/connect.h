/*
 * connect.h - every vertex of a graph made reachable from its entry.
 */
#ifndef GRN_CONNECT_H
#define GRN_CONNECT_H

#include "graph/construct/graph.h"
#include "graph/rows.h"

/*
 * Makes every vertex reachable from entry by adding or replacing edges.  A replaced edge is
 * redirected, so that what it led to stays reachable.  Returns the number of vertices that
 * had to be connected.  parallel may be NULL here and below.  workspace:
 * grn_connect_bytes(n) bytes.
 */
extern size_t grn_connect_bytes(size_t n);
extern size_t grn_connect(const GrnRows *rows, GrnGraph *graph, uint32_t entry,
						  GrnParallel *parallel, void *workspace);
/*
 * The same where the workspace begins with the set (reach.h) of what entry reaches: nreached
 * vertices.
 */
extern size_t grn_connect_rest(const GrnRows *rows, GrnGraph *graph, uint32_t entry,
							   size_t nreached, GrnParallel *parallel, void *workspace);
/* Number of vertices reachable from entry. workspace: grn_connect_bytes(n). */
extern size_t grn_reachable(const GrnGraph *graph, uint32_t entry,
							GrnParallel *parallel, void *workspace);

#endif							/* GRN_CONNECT_H */
