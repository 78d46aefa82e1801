/*
 * scan.h - the parts of scans that other files use.  The access method's callbacks are in
 * callbacks.h.
 */
#ifndef GRNND_SCAN_H
#define GRNND_SCAN_H

#include "postgres.h"

#include "access/relscan.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/nodes.h"
#include "storage/itemptr.h"
#include "utils/relcache.h"

#include "am/grnnd.h"

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
 * Excludes the node of a row from all scans of an index (absent.c).  A query with the row's vector
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

/*
 * bitmap_scan.c: searches among the rows of other indexes' bitmaps: plans (bitmap_path.c) and
 * their execution (bitmap_scan.c).
 */

#define GRNND_BITMAP_NAME "grnnd bitmap"

extern const CustomScanMethods grnnd_bitmap_methods;

/* Installs the hook that adds paths, and makes plans known to the executor. */
extern void grnnd_install_bitmap_scan(void);
/* The index scan below a node of this kind; NULL: another kind of node. */
extern IndexScanState *grnnd_scan_with_bitmap(PlanState * node);

/*
 * query_sample.c: a sample of the queries of scans, for measurements of recall (fit_recall.c).
 * The sample is in shared memory, if the library is preloaded, and nowhere else.
 */

#define GRNND_SAMPLED_QUERIES 64	/* at most, for each index */
/*
 * Fewer queries measure recall too roughly, and would tell too much of each.  (Recall .95 is known
 * to .012 by 64 queries, to .016 and .008 by half and twice.)
 */
#define GRNND_LEAST_SAMPLE 24

/* Requests the shared memory, in _PG_init(). */
extern void grnnd_request_query_sample(void);
/*
 * Offers a scan's query.  Most queries of a busy index cost a draw of a random number; no query
 * waits.  Queries of tables with row security are left out, and of temporary tables.  Returns true
 * if the query is in the sample now and recall should be measured with the sample.
 */
extern bool grnnd_offer_query(IndexScanDesc scan, const GrnndIndex *ix);
/*
 * Copies the sampled queries of an index, values of the column's type, to palloc'd memory.  Returns
 * their number: 0 if row security applies to the table.
 */
extern int	grnnd_sampled_queries(Relation heap, const GrnndIndex *ix, Datum *queries);
/* Has the sample of the index with this metapage changed much since it last measured recall? */
extern bool grnnd_query_sample_due(const GrnndMeta *meta);
/* The sample has measured recall, or recall cannot be measured now. */
extern void grnnd_query_sample_done(const GrnndMeta *meta);

/*
 * width.c: the width (ef) of a search, from the session's settings, the index's storage
 * parameters, or a recall target.
 */

typedef struct GrnndWidth
{
	uint32		ef;
	uint32		all;			/* of a recall target: the ef at which the scan reads all records
								 * instead, which then costs no more; 0: ef is not chosen for a
								 * recall target */
} GrnndWidth;

/* The width for a query of `wanted` rows (0: unknown), before LIMIT widens the search. */
extern GrnndWidth grnnd_width(Relation index, const GrnndIndex *ix, double wanted);
/*
 * The factor by which the curve's width for a recall target grows for a query whose first search,
 * of width ef, had this contrast.  1 if nothing is known.
 */
extern double grnnd_widening(const GrnndNotes *notes, uint32 ef, double contrast);
/* The last measured curve of recall; queries 0: none. */
extern const GrnRecallCurve *grnnd_curve(const GrnndNotes *notes);
/*
 * The share of `ids` records of all kinds that were inserted one by one.  Slots freed by vacuum
 * count as if they held new rows, because they will: after many deletes, searches are somewhat too
 * wide until then.
 */
extern double grnnd_inserted(const GrnndNotes *notes, double ids);
/*
 * The factor by which searches must be wider than the curve says: the index has grown to `ids`
 * records of all kinds since the measurement, or rows were replaced.
 */
extern double grnnd_stretch(const GrnndNotes *notes, double ids);

/*
 * The recall of the ten nearest rows by the curve, for searches of width ef in an index of `ids`
 * records of all kinds.  NaN: no curve.
 */
extern double grnnd_curve_recall(const GrnndNotes *notes, double ids, double ef);

#endif							/* GRNND_SCAN_H */
