/*
 * fit.h - codes of an index that began with few rows: fits, and when.
 */
#ifndef GRNND_FIT_H
#define GRNND_FIT_H

#include "am/grnnd.h"

/* ---- fit_codes.c: fits and judges ---- */

/* Rows from which on a codec fits others like them, by dimensions. */
extern uint32 grnnd_fit_rows(uint32 dim);
/* Are codes to be fitted or judged, now that there is a node of this id? */
extern bool grnnd_fit_due(const GrnndMeta *meta, uint32 id);
/*
 * Is the curve of recall to be measured anew, by what VACUUM or grnnd_fit() find?  limit: ids of
 * nodes are below it.
 */
extern bool grnnd_recall_due(Relation index, const GrnndMeta *meta, const GrnndNotes *notes,
							 uint32 limit);
/* What grnnd_codes() calls the state of an index's codes (fit_schedule.c). */
extern const char *grnnd_codes_state(const GrnndMeta *meta);
/*
 * Fits a codec to the rows of an unfitted index and gives all records their codes, or judges
 * the codes of a fitted one; and measures recall.  It does nothing if nothing is due.  The caller
 * holds a lock on the table and the index, and none on a page.  It holds GRNND_UPKEEP_LOCK itself.
 * With heap given, the caller has both in ShareUpdateExclusiveLock and grnnd_try_lock_database(),
 * and it ends with an error (55P03) as soon as another session waits for one of all these locks,
 * or if GRNND_UPKEEP_LOCK is not to be had at once.
 */
extern void grnnd_fit_codes(Relation index, Relation heap, bool in_vacuum);

/* ---- fit_recall.c ---- */

/*
 * Measures the recall of an index that a build has just written, whose builder could not, by the
 * rows of the table, in a share of the seconds that the build took, and puts it into the build's
 * report.  Returns the seconds; *curve has no queries where nothing could be measured.
 */
extern float grnnd_measure_build(Relation index, double seconds, GrnRecallCurve *curve);

/* ---- fit_schedule.c: in which process, and when ---- */

/*
 * Starts a background worker that fits or judges codes, if node id makes that due and no
 * attempt was made lately; at the transaction's commit if it has the table locked.
 */
extern void grnnd_ask_for_fit(Relation index, Relation heap, uint32 id);
/*
 * The same, by the caller itself.  It holds the locks as for grnnd_fit_codes().  *begun: others are
 * to read the metapage anew, which the caller tells them, also after an error.
 */
extern void grnnd_fit_in_vacuum(Relation index, bool *begun);
/* Sets down on the metapage, whose copy this is, that codes were fitted or judged. */
extern void grnnd_note_success(Page page);

#endif							/* GRNND_FIT_H */
