/*
 * rerank.h - exact distances from the table, where an index does not keep the rows exactly.
 */
#ifndef GRNND_RERANK_H
#define GRNND_RERANK_H

#include "am/scan_impl.h"

/* At the start of a scan that re-ranks: makes so->rerank, or takes up that of the last rescan. */
extern void grnnd_rerank_begin(IndexScanDesc scan);
/*
 * Reads rows of the table, nearest by their likely bounds first, until none that is unread is
 * likely nearer than the nearest in so->heap, or nothing is left to read.  Nodes whose vector is
 * exact are not read.  In the place of a record of which the snapshot sees no row there
 * is a candidate without TIDs.
 */
extern void grnnd_rerank(IndexScanDesc scan);
/* Makes what grnnd_rerank() has put into so->heap current, and frees it. */
extern void grnnd_rerank_take(GrnndScan *so, Candidate *r);
/* Frees it alone. */
extern void grnnd_rerank_free(Candidate *r);
/* No unread row is wanted any more, as what has been read is too far away already. */
extern void grnnd_rerank_stop(GrnndScan *so);
/* Begins the rest: what was read stays, what was not is in so->rest. */
extern void grnnd_rerank_rest(GrnndScan *so);
/* Whether rows exceeded the memory, so that what is left has been read and sorted. */
extern bool grnnd_rerank_sorted(const GrnndScan *so);
/* Makes the next of these current; false after the last. */
extern bool grnnd_next_sorted(GrnndScan *so);
/* Before the scan's context goes; at its end with what outlives rescans. */
extern void grnnd_rerank_reset(GrnndScan *so);
extern void grnnd_rerank_end(GrnndScan *so);

#endif							/* GRNND_RERANK_H */
