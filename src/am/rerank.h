/*
 * rerank.h - exact distances from the table, for indexes that do not keep exact rows.
 */
#ifndef GRNND_RERANK_H
#define GRNND_RERANK_H

#include "am/scan_impl.h"

/* Begins the re-ranking of a scan: makes so->rerank, or reuses so->rerank of the last rescan. */
extern void grnnd_rerank_begin(IndexScanDesc scan);
/* Adds a node whose rows are to be read. */
extern void grnnd_rerank_add(GrnndScan *so, ScanCandidate *r);
/*
 * Reads rows of the table in the order of their likely bounds, until the nearest candidate in
 * results.heap is likely nearer than all unread rows, or all rows are read.  Nodes with exact
 * vectors are not read.  A record without a row visible to the snapshot gets a candidate without
 * TIDs.
 */
extern void grnnd_rerank(IndexScanDesc scan);
/* Makes a candidate from grnnd_rerank() in so->results.heap current, and frees the candidate. */
extern void grnnd_rerank_take(GrnndScan *so, ScanCandidate *r);
/* Frees a candidate from grnnd_rerank(). */
extern void grnnd_rerank_free(ScanCandidate *r);
/* Ends reading, because all unread rows are beyond the threshold. */
extern void grnnd_rerank_stop(GrnndScan *so);
/* Begins the rest: rows already read stay, and unread rows come from so->rest. */
extern void grnnd_rerank_rest(GrnndScan *so);
/*
 * Reads a row of the table, and computes the operator's value.  Returns false if the snapshot does
 * not see the row, or if the value is NULL.  grnnd_end_reading() releases the row's page.
 */
extern bool grnnd_read_value(IndexScanDesc scan, ItemPointer tid, double *value);
extern void grnnd_end_reading(GrnndScan *so);
/* True if rows exceeded the memory, so that all remaining rows were read and sorted. */
extern bool grnnd_rerank_sorted(const GrnndScan *so);
/* Makes the next sorted row current.  Returns false at the end. */
extern bool grnnd_next_sorted(GrnndScan *so);
/*
 * grnnd_rerank_reset() must run before the scan's context is reset.  grnnd_rerank_end() also frees
 * the state that survives rescans.
 */
extern void grnnd_rerank_reset(GrnndScan *so);
extern void grnnd_rerank_end(GrnndScan *so);

#endif							/* GRNND_RERANK_H */
