/*
 * scan.h - the parts of scans that other files use.  The access method's callbacks are in
 * callbacks.h.
 */
#ifndef GRNND_SCAN_H
#define GRNND_SCAN_H

#include "postgres.h"

#include "nodes/nodes.h"
#include "storage/itemptr.h"
#include "utils/relcache.h"

/* ---- scan_threshold.c ---- */

/* Installs the hook that examines every plan when its execution starts. */
extern void grnnd_install_executor_hook(void);

/* ---- scan_report.c ---- */

/* The work of a scan, or of all scans of its plan node. */
typedef struct GrnndWork
{
	uint64		scans;
	uint64		ef;				/* search width of the last scan */
	uint64		visits;			/* records read by searches */
	uint64		pages;			/* pages of the index read, including repeated reads */
	uint64		list_pages;		/* pages of lists among them */
	uint64		reads;			/* rows of the table read for their distances */
	uint64		rests;			/* scans that read all rows in turn */
	uint64		bitmaps;		/* scans that compared all rows of a bitmap */
	const char *method;			/* the last scan's GrnndWay, by name */
	const char *then;			/* the way in which the last scan went on after that, or NULL */
} GrnndWork;

/*
 * Excludes the node of a row from all scans of an index (absent.h).  A query with the row's vector
 * is then answered as if the index did not hold the row.  InvalidOid: excludes nothing.  The TID
 * is kept by reference.
 */
extern void grnnd_exclude_row(Oid index, const ItemPointerData *tid);
extern const ItemPointerData *grnnd_excluded_row(Oid index);
/*
 * The work of this backend's last scan, and the scan's index.  NULL if no scan has ended since
 * grnnd_forget_work().
 */
extern const GrnndWork *grnnd_last_work(Oid *index);
extern void grnnd_forget_work(void);
/* From PostgreSQL 18 on, adds the work of each scan to EXPLAIN (ANALYZE). */
extern void grnnd_explain_scans(void);

/* ---- scan_quals.c ---- */

/* Does a scan test this clause of its plan node's filter? */
extern bool grnnd_tests_clause(Relation index, Node *clause, Index scanrelid);

#endif							/* GRNND_SCAN_H */
