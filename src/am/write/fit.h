/* fit.h - fits of codes for an index that began with few rows, and when a fit is due. */
#ifndef GRNND_FIT_H
#define GRNND_FIT_H

#include "am/grnnd.h"

/* ---- fit_codes.c: fits and judges ---- */

/* The number of rows, by dimensions, at which a codec fits later rows of the same kind. */
extern PGDLLEXPORT uint32 grnnd_fit_rows(uint32 dim);
/* Returns whether codes are due to be fitted or judged, given that a node of this id exists. */
extern bool grnnd_fit_due(const GrnndMeta *meta, uint32 id);
/* Must VACUUM or grnnd_fit() measure the curve of recall anew?  limit: above all node ids. */
extern bool grnnd_recall_due(Relation index, const GrnndMeta *meta, const GrnndNotes *notes,
							 uint32 limit);
/* The state of an index's codes, as grnnd_codes() reports the state (fit_schedule.c). */
extern const char *grnnd_codes_state(const GrnndMeta *meta);
/*
 * Fits a codec to the rows of an unfitted index and gives all records their codes, or judges the
 * codes of a fitted index; then measures recall. Does nothing if nothing is due.
 *
 * Locks: the caller holds a lock on the table and on the index, and no lock on a page. The function
 * takes GRNND_UPKEEP_LOCK. With a heap, the caller holds table and index in
 * ShareUpdateExclusiveLock, and grnnd_try_lock_database(). The function then fails with 55P03 as
 * soon as another session waits for any of these locks, or if GRNND_UPKEEP_LOCK is taken.
 */
extern void grnnd_fit_codes(Relation index, Relation heap, bool in_vacuum);

/* ---- fit_schedule.c: in which process, and when ---- */

/*
 * Starts a background worker that fits or judges codes, if node id makes a fit due and no attempt
 * was made lately. If this transaction has locked the table, the worker starts at commit.
 */
extern void grnnd_request_fit(Relation index, Relation heap, uint32 id);
/*
 * Starts a background worker that measures recall with the queries of scans, if nothing speaks
 * against it.  Changes nothing itself, because a scan calls it.
 */
extern void grnnd_request_measurement(Relation index);
/*
 * Fits or judges codes in the calling process, with the locks of grnnd_fit_codes(). Sets *begun if
 * backends must read the metapage anew: the caller then sends the invalidation, also after an
 * error.
 */
extern void grnnd_fit_in_vacuum(Relation index, bool *begun);
/* Notes on the metapage, of which `page` is a copy, that codes were fitted or judged. */
extern void grnnd_note_success(Page page);

#endif							/* GRNND_FIT_H */
