/*
 * absent.h - a view of a graph without one of its nodes, for recall measurements with a stored row
 * as the query.
 *
 * Queries of applications are seldom rows.  A row as a query finds too many of its neighbors,
 * because its own node lists them.  A search that skips the node finds too few, because nodes near
 * it have an edge to the skipped node in place of a useful edge.  A build without the row would
 * have given these nodes another edge: to the nearest row that the rule (prune.h) accepts beside
 * the rest of the list.  In many dimensions that row is seldom a neighbor of the absent node, and
 * edges among the absent node's neighbors would lead a query to all nearest rows at once.
 *
 * So each list that names the absent node is pruned again, with the node's neighbors and their
 * neighbors as candidates.  The first candidate that the rule accepts replaces the absent node.
 * If the rule accepts none, the nearest candidate does, as in a build.
 * test/bench/recall/results.md compares such searches with queries that are not rows.
 */
#ifndef GRN_ABSENT_H
#define GRN_ABSENT_H

#include "store/search.h"

typedef struct GrnAbsent GrnAbsent;

/*
 * Reads a node and its neighbors from a store, and allocates memory from the store.  Returns NULL
 * if the id is not a node.  codec: the codec of the records' codes; without codes searches skip
 * the node, and lists stay unchanged.
 */
extern GrnAbsent *grn_absent_begin(GrnStore *store, const GrnLayout *l, const GrnCodec *codec,
								   uint32_t id);
/* Frees the view. a may be NULL. */
extern void grn_absent_end(GrnStore *store, GrnAbsent *a);

/*
 * The view of record id: NULL (no record) for the absent node; rec, or a copy of rec with the
 * replaced edge.  A copy is valid until the next call.  Does not allocate.  a may be NULL.
 */
extern const GrnRecord *grn_absent_view(GrnAbsent *a, uint32_t id, const GrnRecord *rec);

#endif							/* GRN_ABSENT_H */
