/*
 * scan.h - what others ask of scans.  The access method's callbacks are in handler.h.
 */
#ifndef GRNND_SCAN_H
#define GRNND_SCAN_H

#include "postgres.h"

#include "nodes/nodes.h"
#include "storage/itemptr.h"
#include "utils/relcache.h"

/* ---- scan_threshold.c ---- */

/* Has every plan looked at when it starts. */
extern void grnnd_watch_thresholds(void);

/* ---- scan_report.c ---- */

/* What a scan did, and all scans of its plan node. */
typedef struct GrnndWork
{
	uint64		scans;
	uint64		ef;				/* the width of the last one's search */
	uint64		visits;			/* records that searches read */
	uint64		pages;			/* of the index, each time that one was read */
	uint64		reads;			/* rows of the table that were read for their distances */
	uint64		rests;			/* scans that read all rows in turn */
} GrnndWork;

/*
 * Has scans of that index take the node of a row for absent (absent.h), so that a query that is
 * this row is answered as if the index did not hold it.  InvalidOid: of none.  The TID is kept by
 * reference.
 */
extern void grnnd_hide_row(Oid index, const ItemPointerData *tid);
extern const ItemPointerData *grnnd_hidden_row(Oid index);
/*
 * What this backend's last scan did, and of which index; NULL: none has ended since it was
 * forgotten.
 */
extern const GrnndWork *grnnd_last_work(Oid *index);
extern void grnnd_forget_work(void);
/* From PostgreSQL 18 on, has EXPLAIN (ANALYZE) say of each scan what it did. */
extern void grnnd_explain_scans(void);

/* ---- scan_quals.c ---- */

/* Whether a scan tests a clause of its plan node's filter. */
extern bool grnnd_tests_clause(Relation index, Node *clause, Index scanrelid);

#endif							/* GRNND_SCAN_H */
