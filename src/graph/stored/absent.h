/*
 * absent.h - a graph as it would be without one of its nodes, for queries that are rows of it.
 *
 * Applications' queries are hardly ever rows.  A row as a query finds too much by way of its own
 * node, which lists its neighbours.  If searches pass the node by, it finds too little, because
 * nodes near it have an edge to it in the place of one that leads on.  A build without the row
 * would have given them another edge there: to a row that this one occludes.  So each list that
 * names the absent node gets that one of the node's own neighbours that is nearest to the list's
 * node and not in the list.  test/bench/recall/results.md compares such searches with those of
 * queries that are no rows.
 */
#ifndef GRN_ABSENT_H
#define GRN_ABSENT_H

#include "graph/metric.h"
#include "graph/stored/search.h"

typedef struct GrnAbsent GrnAbsent;

/*
 * Reads a node and its neighbours from a store, and takes memory there.  NULL: there is no such
 * node.  norm_unit: of scaled rows.
 */
extern GrnAbsent *grn_absent_begin(GrnStore *store, const GrnLayout *l, const GrnMetricInfo *metric,
								   double norm_unit, uint32_t id);
/* a may be NULL. */
extern void grn_absent_end(GrnStore *store, GrnAbsent *a);

/*
 * What a search is to see of record id, whose own vector is vec: NULL, nothing, of the absent node;
 * rec, or a copy with the other edge.  The copy lasts until the record of the same slot of another
 * page is seen.  Allocates nothing.  a may be NULL.
 */
extern const GrnRecord *grn_absent_view(GrnAbsent *a, uint32_t id, const GrnRecord *rec,
										const void *vec);

#endif							/* GRN_ABSENT_H */
