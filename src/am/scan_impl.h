/*
 * scan_impl.h - the state of a scan, and what the files that serve it call of each other:
 *   scan.c            the search, its results, and the walk where no distance has an order
 *   scan_filter.c     the way of a scan with a filter: graph, list, or all rows
 *   scan_bound.c      operator's values and their bounds, by distances of stored vectors
 *   scan_threshold.c  the greatest distance that the query lets through
 *   scan_limit.c      the number of rows that the query asks for
 *   scan_quals.c      conditions that PostgreSQL does not hand over
 *   scan_chain.c      equal rows
 *   scan_rows.c       rows of the table that are going to be read
 *   scan_rest.c       rows that the search did not reach
 *   scan_killed.c     rows that the executor found to be dead
 *   scan_report.c     what a scan did
 *   rerank.c          exact distances from the table, where the index does not keep rows exactly
 */
#ifndef GRNND_SCAN_IMPL_H
#define GRNND_SCAN_IMPL_H

#include "am/lists.h"
#include "am/page_store.h"
#include "am/scan.h"

#include "access/relscan.h"
#include "lib/pairingheap.h"
#include "nodes/execnodes.h"
#include "utils/float.h"
#include "utils/tuplesort.h"

/* One expanded node that waits for its turn. */
typedef struct Candidate
{
	pairingheap_node node;
	double		value;			/* the operator's, or a lower bound of it */
	double		least;			/* a lower bound of what pgvector computes */
	bool		exact;			/* value is no bound */
	uint16		ntids;
	uint16		version;
	uint32		id;
	uint32		next;			/* chain of further TIDs */
	const uint8 *tids;			/* [ntids] of GRN_TID_BYTES */
} Candidate;

/*
 * The chain of further rows equal to a node's.  Vacuum may free a record between
 * two steps; then the chain is taken up again from the node, without the records
 * that have been read.
 */
typedef struct Chain
{
	uint32		node;			/* as its records name it */
	uint16		version;
	uint32		next;			/* record to read next, GRN_INVALID_ID at the end */
	uint32	   *seen;			/* [nseen] records read */
	uint32		nseen;
	uint32		seen_room;
	uint32		gone;			/* record that was another one's; GRN_INVALID_ID: none was */
	uint32		times;			/* it was so, one after the other */
	uint32		steps;			/* since then, to notice a cycle */
} Chain;

typedef struct GrnndRerank GrnndRerank;

/* How a scan with a filter goes. */
typedef enum GrnndWay
{
	GRNND_WAY_CHECK = 0,		/* as one without; values are tested at visits */
	GRNND_WAY_GRAPH,
	GRNND_WAY_LIST,
	GRNND_WAY_HANDED_OVER,		/* from graph to list */
	GRNND_WAY_REST				/* all rows in turn from the start */
} GrnndWay;

/* The lists by which a filter's rows can be had. */
typedef struct GrnndListChoice
{
	GrnndListed listed;			/* n 0: none */
	uint64		rows;			/* at most, about */
	uint64		pages;			/* that a search reads, about */
	double		cost;			/* microseconds, about */
} GrnndListChoice;

/* What the rest needs to know of a record. */
typedef struct RestRow
{
	GrnFound	found;			/* distance, error and id alone */
	double		norm;
	int64		tid;			/* the only one, or MANY_TIDS */
} RestRow;

typedef struct GrnndScan
{
	MemoryContext context;		/* all that one rescan allocates */
	bool		started;
	const GrnndIndex *ix;
	GrnndStore	store;
	float	   *q;				/* [dim] */
	double		q_norm;			/* |q| */
	double		q_share;		/* grn_own_query_share() */
	GrnndFilter *filter;		/* conditions on filter columns, or NULL */
	bool		norms;			/* bounds need rows' norms: see grnnd_measure_query() */

	/* the search and the results that wait */
	GrnSearch  *search;
	int			iterative;		/* GrnndIterative, ef and memory as at the start */
	uint32		ef;
	double		first;			/* rows after the first search, as a share of ef */
	uint64		wanted;			/* rows, by LIMIT; 0: it is not known how many */
	Size		memory_limit;
	uint64		max_visits;		/* grnnd.max_scan_tuples; 0: no limit */
	pairingheap *heap;
	GrnndRerank *rerank;		/* where rows are read for their distances, else NULL; lasts beyond
								 * a rescan */
	pairingheap *unread;		/* then: nodes whose rows are not in heap yet, by their bounds */
	bool		resumed;		/* the first batch has been run */
	uint64		taken;			/* nodes with rows that left the heap */
	uint64		found;			/* nodes with rows that the search has brought (grn_search_led()) */
	uint64		nmet;			/* all of them, */
	uint64		nempty;			/* and those that were killed */
	double		last;			/* value of the last one returned */
	ScanKey		keys;			/* by which the plan's node is known */
	double		threshold;		/* the greatest distance wanted, or infinity */
	bool		exhausted;		/* no more batches */
	pairingheap *late;			/* strict order: those that came too late for their turn */
	const char *limit;			/* the setting that ended the search, or NULL */
	bool		told;			/* the user knows; lasts beyond a rescan */
	uint64		reads;			/* rows read for their distances */
	GrnndWork	work;			/* of the scans that have ended; lasts beyond a rescan */
	uint32	   *returned;		/* [nreturned] nodes */
	uint32		nreturned;
	uint32		returned_room;

	/* with a filter */
	GrnndWay	way;
	GrnndListChoice list;
	GrnndListReader *reader;	/* of the list that the search goes by, or NULL */
	GrnSearchParams graph;		/* of the search that a list may take over from */
	uint64		visits_before;	/* that search's */

	/* the rest: (came too late, value, id and whether value is exact, TID), sorted */
	Tuplesortstate *rest;
	TupleTableSlot *rest_slot;
	bool		rest_waits;		/* rest_slot has a node that has not been returned */
	RestRow    *rest_rows;		/* [nrest_rows] of the page that is read */
	uint32		nrest_rows;
	void	   *rest_query;		/* the query by grn_query_make(), or NULL */
	uint32		rest_id;		/* of the record that is measured */

	/* the newest batch, for prefetching rows of the table */
	const Candidate *batch;		/* [batch_size], nearest first */
	uint32		batch_size;
	uint32		batch_taken;	/* results that left the heap since */
	uint32		batch_asked;	/* the first ones: the kernel was asked for their rows' pages */

	/* where no distance has an order (walk): all nodes, by id */
	bool		walk;
	bool		walk_null;		/* the query is NULL, else distances are NaN */
	uint32		walk_id;		/* the node that grnnd_read_node() reads */

	/* the node whose TIDs are being returned */
	double		value;
	bool		exact;
	const uint8 *tids;
	uint32		ntids;
	uint32		next_tid;
	Chain		chain;
	uint8	   *buffer;			/* room for the TIDs of one record */

	/* rows that are dead to every transaction */
	bool		skip_killed;	/* this snapshot may rely on GRN_KILLED */
	XLogRecPtr	begun_at;		/* the WAL's end when it began; invalid: it sets no GRN_KILLED */
	uint32		record;			/* whose TIDs are being returned, or GRN_INVALID_ID */
	bool		all_killed;		/* those returned of them */
	uint32		ndead_tids;		/* that the executor has met */
	uint64	   *killed;			/* [nkilled] records to be marked, the first ones found: id << 32
								 * and how many TIDs were dead */
	uint32		nkilled;

	Oid		   *types;			/* of the ORDER BY values */
	IndexOrderByDistance *distances;
} GrnndScan;

/* ---- scan.c, for rerank.c and scan_rest.c ---- */

/* Notes that the rest is not to read a node. */
extern void grnnd_remember_returned(GrnndScan *so, uint32 id);
/* The search has used up its memory: goes on to the rest, or ends where the user set a limit. */
extern void grnnd_end_search(IndexScanDesc scan);

/* ---- scan_rows.c ---- */

/*
 * Asks the kernel for table pages of the nodes to come, `width` at most: of the newest batch, and
 * as many as LIMIT wants, or as were taken where it is not known how many are wanted.
 */
extern void grnnd_prefetch_rows(IndexScanDesc scan, int width);
/* The same for the results to come, where pages of the index were missing. */
extern void grnnd_prefetch_results(IndexScanDesc scan);
/* Ends with an error if a heap TID lies beyond the table's end. */
extern void grnnd_check_row(IndexScanDesc scan, const ItemPointerData *tid);

/* ---- scan_report.c ---- */

/* At the end of a scan, and before the next of its node: notes what it did. */
extern void grnnd_note_scan(IndexScanDesc scan);
/*
 * Has the node of a row be absent from the scan's searches, for grnnd_hide_row().  params: of the
 * search that is about to begin; the entry points [count] with their codes.
 */
extern void grnnd_hide(GrnndScan *so, const GrnSearchParams *params, const uint32 *ids,
					   const uint8_t *codes, const GrnFactor *factors, uint32 count,
					   const ItemPointerData *tid);

/* ---- scan_filter.c ---- */

/* Does the scan's filter go by signatures? */
extern bool grnnd_filters_by_signature(const GrnndScan *so);
/*
 * Begins the search of a filter, by params but for what it adds; entry points are yet to be
 * offered.  NULL: all rows in turn are cheaper, which costs most_visits (0: there is no such way).
 */
extern GrnSearch *grnnd_begin_filtered(IndexScanDesc scan, GrnSearchParams *params,
									   uint64 most_visits);
/* Has a list take over from a search whose first batch was in vain; false: it goes on. */
extern bool grnnd_hand_over(IndexScanDesc scan);

/* ---- scan_bound.c ---- */

/* Notes what bounds need to know of the query, in q. */
extern void grnnd_measure_query(IndexScanDesc scan);
/* The norm of the search's found vector i, 0 where bounds need none. */
extern double grnnd_found_norm(const GrnndScan *so, uint32 i);
/*
 * The operator's value of a found node.  errors 1: a lower bound of what pgvector computes, by the
 * triangle inequality and the rounding of sums; where the stored vector is not the row's
 * (f->error > 0), that of the form.  Less: as if errors of stored vectors were that share of what
 * they may be.  0: the value of the stored vector.  norm: of that (inner product).
 */
extern double grnnd_operator_value(const GrnndScan *so, const GrnFound *f, double norm,
								   double errors);

/* ---- scan_threshold.c ---- */

/*
 * What a plan that is under way says of a scan of ours.  A scan finds it by the array of ORDER BY
 * keys that its plan node hands to amrescan.
 */
typedef struct GrnndPlanned
{
	ScanKey		keys;
	struct Threshold *thresholds;
	struct Condition *conditions;
	const		LimitState *limit;	/* right above the scan, or NULL */
	bool		filtered;		/* the plan node drops rows of the scan */
	MemoryContextCallback callback; /* when the execution ends */
} GrnndPlanned;

/* NULL: the plan says nothing. */
extern GrnndPlanned *grnnd_planned(ScanKey keys);
/* The same of a plan node, made if there is none. */
extern GrnndPlanned *grnnd_note_planned(const IndexScanState *node);

/*
 * The greatest distance from the query of key that the plan node with this array of ORDER BY
 * keys lets through; infinity where it sets no limit.
 */
extern double grnnd_threshold(ScanKey keys, ScanKey key);
static inline bool
grnnd_has_threshold(const GrnndScan *so)
{
	return so->threshold < get_float8_infinity();
}

/* May an expression be computed once for a scan of that relation?  NULL may. */
extern bool grnnd_is_fixed(Node *expression, Index scanrelid);

/* ---- scan_quals.c ---- */

/* Notes what conditions of a plan node's filter the index can test. */
extern void grnnd_note_quals(IndexScanState *node);
/* The conditions that the executor has handed to the scan, and those noted for its plan node. */
extern ScanKey grnnd_all_keys(IndexScanDesc scan, int *nkeys);

/* ---- scan_limit.c ---- */

/* Notes what a node of a plan that starts asks of a scan of ours, if one is right below it. */
extern void grnnd_note_limit(LimitState * node);
/*
 * The number of rows that LIMIT and OFFSET ask of the plan node with this array of ORDER BY
 * keys.  0: all, or it is not known.  *filtered: whether the plan node drops rows of the scan.
 */
extern uint64 grnnd_limit(ScanKey keys, bool *filtered);

/* ---- scan_chain.c ---- */

/* Makes those of a record's TIDs current that pass the filter; its page is locked. */
extern void grnnd_take_tids(GrnndScan *so, const GrnRecord *rec, uint32 id);
/* next: the first record behind the node, or GRN_INVALID_ID. */
extern void grnnd_begin_chain(Chain *chain, uint32 node, uint16 version, uint32 next);
/* Makes the TIDs of the chain's next record current; there may be none. */
extern void grnnd_read_chain(IndexScanDesc scan);

/* ---- scan_rest.c ---- */

/* Makes node walk_id current; false where it has no rows. */
extern bool grnnd_read_node(GrnndScan *so);
/* Ends the search: reads and sorts all nodes that were not returned. */
extern void grnnd_begin_rest(IndexScanDesc scan);
/* Makes the next node of the rest current; false after the last. */
extern bool grnnd_next_rest(GrnndScan *so);
/* Sorts ids in ascending order. */
extern void grnnd_sort_ids(uint32 *ids, uint32 n);
/* The value of that node; false where there is none. */
extern bool grnnd_rest_bound(GrnndScan *so, double *bound);
/* Gives back what is not memory of the scan's context. */
extern void grnnd_end_rest(GrnndScan *so);

/* ---- scan_killed.c ---- */

/* At the start: whether the scan relies on GRN_KILLED, and whether it may set it. */
extern void grnnd_begin_killed(IndexScanDesc scan);
/* Takes down what the executor says of the TID returned last. */
extern void grnnd_note_killed(IndexScanDesc scan);
/* The same of all TIDs of a record at once, by a scan that has read the rows itself. */
extern void grnnd_note_dead(GrnndScan *so, uint32 ndead);
/* At the end: marks records all of whose TIDs were dead. */
extern void grnnd_mark_killed(IndexScanDesc scan);

#endif							/* GRNND_SCAN_IMPL_H */
