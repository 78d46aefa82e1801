/*
 * absent.h - a graph as it would be without one of its nodes, for queries that are rows of it.
 *
 * Applications' queries are hardly ever rows.  A row as a query finds too much by way of its own
 * node, which lists its neighbours.  If searches pass the node by, it finds too little, because
 * nodes near it have an edge to it in the place of one that leads on.  A build without the row
 * would have given them another edge there: to the nearest row that the RNG rule lets them have
 * beside the rest of their list.  In many dimensions that is hardly ever one of the absent node's
 * own neighbours, and edges among those would lead a query to all of its nearest rows at once.  So
 * each list that names the absent node is pruned anew, with the node's neighbours and their
 * neighbours for candidates, and names the first that the rule leaves, or, as a build fills lists,
 * the first.  test/bench/recall/results.md compares such searches with those of queries that are no
 * rows.
 */
#ifndef GRN_ABSENT_H
#define GRN_ABSENT_H

#include "graph/stored/search.h"

typedef struct GrnAbsent GrnAbsent;

/*
 * Reads a node and its neighbours from a store, and takes memory there.  NULL: there is no such
 * node.  codec: of the records' codes; where there are none the node is passed by and lists stay
 * as they are.
 */
extern GrnAbsent *grn_absent_begin(GrnStore *store, const GrnLayout *l, const GrnCodec *codec,
								   uint32_t id);
/* a may be NULL. */
extern void grn_absent_end(GrnStore *store, GrnAbsent *a);

/*
 * What a search is to see of record id: NULL, nothing, of the absent node; rec, or a copy with the
 * other edge.  The copy lasts until the record of the same slot of another page is seen.  Allocates
 * nothing.  a may be NULL.
 */
extern const GrnRecord *grn_absent_view(GrnAbsent *a, uint32_t id, const GrnRecord *rec);

#endif							/* GRN_ABSENT_H */
