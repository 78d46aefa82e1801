/*
 * connect.h - makes every vertex of a graph reachable from the entry.
 */
#ifndef GRN_CONNECT_H
#define GRN_CONNECT_H

#include "graph/graph.h"
#include "space/rows.h"

/*
 * Makes every vertex reachable from entry by adding or replacing edges.  The end of a
 * replaced edge remains reachable by another path.  Returns the number of vertices that were
 * not reachable.  parallel may be NULL here and below.  workspace: grn_connect_bytes(n) bytes.
 */
extern size_t grn_connect_bytes(size_t n);
extern size_t grn_connect(const GrnRows *rows, GrnGraph *graph, uint32_t entry,
						  GrnParallel *parallel, void *workspace);
/*
 * Does the same if the caller knows the reached vertices: the workspace begins with the set
 * (reach.h) of the nreached vertices that entry reaches.
 */
extern size_t grn_connect_rest(const GrnRows *rows, GrnGraph *graph, uint32_t entry,
							   size_t nreached, GrnParallel *parallel, void *workspace);
/* Returns the number of vertices reachable from entry.  workspace: grn_connect_bytes(n) bytes. */
extern size_t grn_reachable(const GrnGraph *graph, uint32_t entry,
							GrnParallel *parallel, void *workspace);

#endif							/* GRN_CONNECT_H */
