/*
 * scan_impl.h - the state of a scan, shared by the files that implement scans: see README.
 */
#ifndef GRNND_SCAN_IMPL_H
#define GRNND_SCAN_IMPL_H

#include "postgres.h"

#include "access/relscan.h"
#include "lib/pairingheap.h"
#include "nodes/execnodes.h"
#include "nodes/tidbitmap.h"
#include "storage/itemptr.h"
#include "utils/float.h"
#include "utils/memutils.h"

#include "am/filter/filter.h"
#include "am/index/page_store.h"
#include "am/scan/scan.h"

/* Growing arrays of numbers: records and rows that a scan has read or returned. */

/* All zero: an empty array. */
typedef struct GrnndNumbers
{
	uint64	   *items;			/* [n] */
	Size		n;
	Size		room;
} GrnndNumbers;

static inline void
grnnd_add_number(GrnndNumbers *to, MemoryContext context, uint64 number)
{
	if (to->n == to->room)
	{
		to->room = Max(16, 2 * to->room);
		to->items = to->items == NULL ? MemoryContextAllocHuge(context, to->room * sizeof(uint64))
			: repalloc_huge(to->items, to->room * sizeof(uint64));
	}
	to->items[to->n++] = number;
}

static inline int
grnnd_compare_numbers(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return (x > y) - (x < y);
}

static inline void
grnnd_sort_numbers(const GrnndNumbers *numbers)
{
	if (numbers->n > 0)
		qsort(numbers->items, numbers->n, sizeof(uint64), grnnd_compare_numbers);
}

/* Is the number in a sorted array?  *at: where the search of a smaller number ended, at first 0. */
static inline bool
grnnd_has_number(const GrnndNumbers *in, Size *at, uint64 number)
{
	while (*at < in->n && in->items[*at] < number)
		(*at)++;
	return *at < in->n && in->items[*at] == number;
}

/*
 * tid_set.c: the row addresses in a bitmap of other indexes, for tests by a search.
 *
 * PostgreSQL's TIDBitmap can list its rows, but cannot tell quickly whether a row is among these.
 * A set adds an array of bits: some bits for each page of the table, in chunks of pages.  Chunks
 * without rows take no bits.  A lossy page of the bitmap stands for all rows of the page, so tests
 * of these rows answer "perhaps", and the executor tests the rows again.
 */

#define GRNND_CHUNK_SHIFT 6		/* log2 of the pages of a chunk */

typedef struct GrnndTidSet
{
	TIDBitmap  *bitmap;			/* freed with the set */
	MemoryContext context;		/* memory of the bits */
	uint64		rows;			/* row addresses, without those of lossy pages */
	uint64		pages;			/* pages with rows, lossy pages included */
	uint64		lossy;			/* lossy pages */
	OffsetNumber last_offset;
	BlockNumber last_block;
	/* the bits; chunks is NULL before grnnd_tid_set_prepare() */
	uint32		shift;			/* log2 of the bits of a page */
	BlockNumber end;			/* pages from here on have no rows */
	uint32	   *chunks;			/* number of the chunk in `bits`; 0: the chunk has no rows */
	uint64	   *bits;
} GrnndTidSet;

/* Makes a set of a bitmap, palloc'd, and counts its rows.  The set owns the bitmap. */
extern GrnndTidSet *grnnd_tid_set(TIDBitmap * bitmap);
/* Makes the bits.  Must be called before grnnd_tid_set_has(). */
extern void grnnd_tid_set_prepare(GrnndTidSet *set);
extern void grnnd_tid_set_free(GrnndTidSet *set);

/* Calls fn for each page in order: [n] offsets, or n < 0: all rows.  fn ends it by false. */
typedef bool (*GrnndTidPageFn) (void *arg, BlockNumber block, const OffsetNumber *offsets, int n);
extern void grnnd_tid_set_each(const GrnndTidSet *set, GrnndTidPageFn fn, void *arg);

/* Is the row perhaps in the set?  tid: GRN_TID_BYTES at any address. */
static inline bool
grnnd_tid_set_has(const GrnndTidSet *set, const uint8 *tid)
{
	ItemPointerData row;
	BlockNumber block;
	uint32		last = (UINT32_C(1) << set->shift) - 1;
	uint64		bit;

	memcpy(&row, tid, sizeof(row));
	block = ItemPointerGetBlockNumberNoCheck(&row);
	if (block >= set->end)
		return false;
	/* all offsets beyond those of exact pages share the last bit, which lossy pages alone have */
	bit = (((uint64) set->chunks[block >> GRNND_CHUNK_SHIFT] << GRNND_CHUNK_SHIFT |
			(block & ((1 << GRNND_CHUNK_SHIFT) - 1))) << set->shift) +
		Min(ItemPointerGetOffsetNumberNoCheck(&row), last);
	return set->bits[bit >> 6] >> (bit & 63) & 1;
}

/* An expanded node that waits to be returned. */
typedef struct ScanCandidate
{
	pairingheap_node node;
	double		value;			/* the operator's value, or a lower bound of the value */
	double		least;			/* a lower bound of the value that pgvector computes */
	bool		exact;			/* `value` is not a bound */
	uint16		ntids;
	uint16		version;
	uint32		id;
	uint32		next;			/* first record of the chain of further TIDs */
	const uint8 *tids;			/* [ntids] of GRN_TID_BYTES */
} ScanCandidate;

/*
 * The chain of further rows equal to a node's row.  Vacuum may free a record between two steps.
 * The scan then follows the chain from the node again, and skips the records already read.
 */
typedef struct Chain
{
	uint32		node;			/* node and version, as the chain's records name them */
	uint16		version;
	uint32		next;			/* record to read next, GRN_INVALID_ID at the end */
	GrnndNumbers seen;			/* records read */
	uint32		gone;			/* the last record found to belong to another node; GRN_INVALID_ID:
								 * none */
	uint32		times;			/* number of times in a row that `gone` was found */
	uint32		steps;			/* steps since the (re)start, to detect a cycle */
} Chain;

/* ---- what a scan is asked for; fixed at its start ---- */

/* Limits of the user and of the query (scan.c). */
typedef struct GrnndAsked
{
	int			iterative;		/* GrnndIterative */
	Size		memory_limit;
	uint64		max_visits;		/* grnnd.max_scan_tuples; 0: no limit */
	double		threshold;		/* the greatest distance that the query accepts, or infinity */
} GrnndAsked;

/* The query's vector (scan_bound.c). */
typedef struct GrnndQuery
{
	float	   *q;				/* [dim] */
	double		norm;			/* |q| */
	double		share;			/* grn_own_query_share() */
	bool		norms;			/* bounds need the norms of rows */
} GrnndQuery;

/* The width of the search (scan_width.c). */
typedef struct GrnndScanWidth
{
	uint32		ef;
	uint32		ef_exact;		/* ef before LIMIT widened it */
	uint32		ef_all;			/* of a recall target: ef_exact at which the scan reads all records
								 * instead; 0: no target */
	double		first;			/* rows returned after the first search, as a share of ef */
	uint64		wanted;			/* rows that LIMIT asks for; 0: unknown */
} GrnndScanWidth;

/* ---- sources of rows, and what comes between them and the executor ---- */

/*
 * A source of rows: makes the next record with rows current.  Returns false if the source has
 * ended, or if so->source is another source now.
 */
typedef bool (*GrnndSource) (IndexScanDesc scan);

/* The search (scan_search.c; scan_filter.c chooses its way). */
typedef struct GrnndScanSearch
{
	GrnSearch  *run;			/* NULL: no search, or it has ended */
	GrnndWay	way;
	GrnndWay	then;			/* the way that followed the search; GRNND_WAY_CHECK: none */
	bool		resumed;		/* the first batch has been run */
	bool		exhausted;		/* no batch is left to run */
	int64		beyond;			/* nodes that the first run found beyond its width */
	uint64		nempty;			/* nodes found that have no rows for this scan */
	uint64		visits_before;	/* visits of searches that have ended */
	const char *limit;			/* name of the setting that ended the search, or NULL */
} GrnndScanSearch;

/* The lists that cover a filter (scan_filter.c). */
typedef struct GrnndScanList
{
	GrnndListed listed;			/* n = 0: no list */
	GrnndListWork work;
	GrnndListReader *reader;	/* reader of the list that the search uses, or NULL */
	GrnSearchParams graph;		/* parameters of the graph search that a list may replace */
} GrnndScanList;

/* The rows of a bitmap of other indexes (scan_tids.c). */
typedef struct GrnndScanSet
{
	GrnndTidSet *rows;			/* rows that may be returned; NULL: all */
	double		size;			/* rows of the set, about */
	double		share;			/* of the index's rows in the set, about; 1: no set */
	bool		filtered;		/* the executor drops rows that are not in the bitmap */
	struct SetRow *heap;		/* [n] the set's rows, read from the table, or NULL */
	Size		n;
	GrnndNumbers returned;		/* addresses of returned rows */
} GrnndScanSet;

/* Nodes, or rows of nodes, that wait in order (scan_search.c). */
typedef struct GrnndResults
{
	pairingheap *heap;
	pairingheap *late;			/* strict order: candidates found after a farther row was returned */
	double		last;			/* value of the last returned row */
	uint64		found;			/* candidates found */
	uint64		taken;			/* candidates taken from the heap */
	GrnndNumbers returned;		/* ids of nodes that were returned, for the rest */
} GrnndResults;

/* The last batch of the search, for prefetching rows of the table (scan_rows.c). */
typedef struct GrnndBatch
{
	const ScanCandidate *nodes; /* [size], nearest first */
	uint32		size;
	uint32		taken;			/* results taken from the heap */
	uint32		prefetched;		/* number of leading results whose rows were prefetched */
} GrnndBatch;

/* The record whose TIDs are being returned (scan_chain.c). */
typedef struct GrnndCurrent
{
	double		value;
	bool		exact;
	uint32		record;			/* the record's id, or GRN_INVALID_ID */
	const uint8 *tids;			/* [ntids] of GRN_TID_BYTES */
	uint32		ntids;
	uint32		next;			/* the next TID */
	Chain		chain;
	uint8	   *buffer;			/* room for the TIDs of one record */
} GrnndCurrent;

typedef struct GrnndSort GrnndSort;
typedef struct GrnndRerank GrnndRerank;
typedef struct GrnndTableReader GrnndTableReader;

typedef struct GrnndScan
{
	/* survive rescans */
	MemoryContext context;		/* all memory of one rescan */
	ScanKey		keys;			/* the array of ORDER BY keys, which identifies the plan node */
	GrnndTableReader *reader;	/* reader of rows of the table; NULL: no row was read yet */
	GrnndWork	work;			/* work of earlier scans */
	bool		limit_reported; /* the NOTICE about the limit was raised */
	Oid		   *types;			/* types of the ORDER BY values */
	IndexOrderByDistance *distances;

	/* zeroed by a rescan, from `source` on */
	GrnndSource source;			/* where rows come from; NULL: the scan has not started */
	const GrnndIndex *ix;
	GrnndStore	store;
	GrnndFilter *filter;		/* conditions on filter columns, or NULL */
	GrnndAsked	asked;
	GrnndQuery	query;
	GrnndScanWidth width;
	GrnndScanSearch search;
	GrnndScanList list;
	GrnndScanSet set;
	GrnndSort  *rest;			/* rows that the search has not returned; NULL: not begun */
	uint32		walked;			/* the next node of the walk */
	GrnndRerank *rerank;		/* set if the scan reads found rows for their distances, else NULL */
	GrnndResults results;
	GrnndBatch	batch;
	uint64		reads;			/* rows of the table read for their distances */
	GrnndCurrent now;
} GrnndScan;

/* ---- scan_search.c ---- */

extern void grnnd_begin_results(GrnndScan *so);
/* Begins the search at the entry points, or the rest if that is cheaper. */
extern void grnnd_begin_search(IndexScanDesc scan);
/* The source of what the search finds. */
extern bool grnnd_next_result(IndexScanDesc scan);
/* May the nearest result be returned before the next batch is run? */
extern bool grnnd_is_due(const GrnndScan *so);
/* Ends the search, if there is one.  way: in which the scan goes on. */
extern void grnnd_leave_search(GrnndScan *so, GrnndWay way);
/*
 * Ends a search that has reached the limit of a setting.  Begins the rest, or ends the scan if the
 * user has set a limit.
 */
#define GRNND_MEMORY_LIMIT "work_mem"
extern void grnnd_end_search(IndexScanDesc scan, const char *limit);
/* Raises a NOTICE, once for each scan, that there may be more rows than the scan returned. */
extern void grnnd_report_limit(IndexScanDesc scan);

/* ---- scan_width.c ---- */

/*
 * A threshold ends a scan only after this number of nodes, in units of ef, because the first nodes
 * of a narrow search may lie beyond the threshold although rows lie within.  Of 5,000 clustered
 * rows (16 dimensions) with 1, 5, 10 and 100 rows within, a scan at ef 1 has recall 1.00, and .71,
 * .61, .64 and .95 without this minimum.  L2 then reads 22, 42, 62 and 382 pages instead of 4, 8,
 * 16 and 332.
 */
#define GRNND_LEAST_WITHIN 20

/*
 * Sets the ef of this scan, wide enough that one search serves LIMIT.  If a threshold may end the
 * scan earlier, LIMIT widens the search only up to GRNND_LEAST_WITHIN.
 */
extern void grnnd_set_width(GrnndScan *so);
/*
 * Widens the scan if its first search, which has found these nodes [n] nearest first, shows that
 * the recall target needs a wider one.
 */
extern void grnnd_widen(GrnndScan *so, const GrnFound *found, uint32 n);
/* Does reading all records cost no more than the search that the recall target needs? */
extern bool grnnd_reads_all(const GrnndScan *so);

/* ---- scan_rows.c ---- */

/*
 * Reads a row of the table, and computes the operator's value.  Returns false if the snapshot does
 * not see the row, or if the value is NULL.  grnnd_end_reading() releases the row's page, and
 * grnnd_end_reader() releases what survives rescans.
 */
extern bool grnnd_read_value(IndexScanDesc scan, ItemPointer tid, double *value);
extern void grnnd_end_reading(GrnndScan *so);
extern void grnnd_end_reader(GrnndScan *so);

/*
 * Prefetches table pages of coming results, at most `width` nodes.  Covers the results of the last
 * batch that LIMIT asks for, or as many as were already taken if the limit is unknown.
 */
extern void grnnd_prefetch_rows(IndexScanDesc scan, int width);
/* effective_io_concurrency of the table's tablespace. */
extern int	grnnd_table_prefetch_width(IndexScanDesc scan);
/* Calls grnnd_prefetch_rows() while pages of the index are missing. */
extern void grnnd_prefetch_results(IndexScanDesc scan);
/* Raises an error if a heap TID lies beyond the table's end. */
extern void grnnd_check_row(IndexScanDesc scan, const ItemPointerData *tid);

/* ---- scan_report.c ---- */

/* Records the work of a scan.  Called at its end and before a rescan. */
extern void grnnd_note_scan(IndexScanDesc scan);
struct ExplainState;
/* Shows the work of all scans of a plan node of ours. */
extern void grnnd_explain_scan(const IndexScanState *node, struct ExplainState *es);
struct GrnndEntries;
/*
 * Removes the node of an excluded row from the scan's searches (grnnd_exclude_row()).  params: of
 * the coming search.
 */
extern void grnnd_exclude_node(GrnndScan *so, const GrnSearchParams *params, const struct GrnndEntries *entries,
							   const ItemPointerData *tid);

/* ---- scan_filter.c ---- */

/*
 * Begins the search with params, in the cheapest way if there is a filter, and sets further fields
 * of params.  Unless the way is a list, the caller must offer the entry points.  Returns NULL if
 * reading all rows in turn is cheaper.  most_visits: the price of that, in visits; 0: not allowed.
 */
extern GrnSearch *grnnd_begin_way(IndexScanDesc scan, GrnSearchParams *params,
								  uint64 most_visits);
/* Lets a list replace a graph search whose first batch found too little.  False: it goes on. */
extern bool grnnd_hand_over(IndexScanDesc scan);

/* ---- scan_tids.c ---- */

/* Makes the plan node's set, if there is one, a condition of the scan.  so->filter must be set. */
extern void grnnd_begin_set(IndexScanDesc scan);
/* Are so few rows in the set that reading them all is cheaper than a search? */
extern bool grnnd_set_is_small(const GrnndScan *so);
/* Can the scan read all rows of its set?  False without a set, or if memory does not hold them. */
extern bool grnnd_set_serves(const GrnndScan *so);
/* The cost of reading them (filter_cost.c). */
extern double grnnd_set_cost(const GrnndScan *so);
/* Ends the search.  Reads all rows of the set that the scan has not returned, and returns these. */
extern void grnnd_begin_set_rows(IndexScanDesc scan);
/* Notes a returned row, if there is a set. */
extern void grnnd_note_set_row(GrnndScan *so, const ItemPointerData *tid);

/* ---- scan_bound.c ---- */

/* Fills so->query.  Returns false if no distance to the query has an order. */
extern bool grnnd_take_query(IndexScanDesc scan);
/*
 * The operator's value of a found node's stored vector.  bound: a lower bound of pgvector's value
 * instead, by the triangle inequality and the rounding of sums, and by the form's rounding error if
 * the stored vector is not exact (f->error > 0).  norm: the stored vector's norm (inner product).
 */
extern double grnnd_operator_value(const GrnndScan *so, const GrnFound *f, double norm, bool bound);

/* Does the scan have no row of this node to return? */
static inline bool
grnnd_is_empty(const ScanCandidate *r)
{
	return r->ntids == 0 && r->next == GRN_INVALID_ID;
}

/* ---- scan_threshold.c ---- */

/*
 * Notes on a scan of ours in a running plan.  A scan finds its notes by the array of ORDER BY keys
 * that its plan node hands to amrescan.
 */
typedef struct GrnndPlanned
{
	ScanKey		keys;
	struct Threshold *thresholds;
	struct Condition *conditions;
	const		LimitState *limit;	/* the Limit node above the scan, or NULL */
	GrnndTidSet *set;			/* the only rows that pass the filter; NULL: unknown */
	bool		filtered;		/* the plan node drops rows by a filter */
	double		rows;			/* rows that pass the filter, as planned; 0: unknown, because the
								 * index tests conditions too */
	MemoryContextCallback callback; /* runs when the execution ends */
} GrnndPlanned;

/* The notes on a scan; NULL: none. */
extern GrnndPlanned *grnnd_planned(ScanKey keys);
/* The notes on a plan node, created if they do not exist. */
extern GrnndPlanned *grnnd_note_planned(const IndexScanState *node);

/*
 * The greatest distance from the query in `key` that the plan node with these ORDER BY keys
 * accepts.  Infinity if the node sets no limit.
 */
extern double grnnd_threshold(ScanKey keys, ScanKey key);
static inline bool
grnnd_has_threshold(const GrnndScan *so)
{
	return so->asked.threshold < get_float8_infinity();
}

/*
 * Number of rows that LIMIT and OFFSET ask of the plan node with these ORDER BY keys; 0: all rows,
 * or unknown.  *filtered: the plan node drops rows by a filter.  *rows: so many rows pass the
 * filter, by the planner's statistics; 0: unknown.
 */
extern uint64 grnnd_limit(ScanKey keys, bool *filtered, double *rows);
/* Has the expression one value for a whole scan of the relation?  True for NULL. */
extern bool grnnd_is_fixed(Node *expression, Index scanrelid);

/* ---- scan_quals.c ---- */

/* Notes the conditions of a plan node's filter that the index can test. */
extern void grnnd_note_quals(IndexScanState *node);
/* The scan keys from the executor, and keys for the conditions noted for the plan node. */
extern ScanKey grnnd_all_keys(IndexScanDesc scan, int *nkeys);

/* ---- scan_chain.c ---- */

/* Makes one TID of a record current, or of GRN_INVALID_ID if the record is unknown. */
extern void grnnd_take_row(GrnndScan *so, uint32 record, const void *tid);
/* Makes the TIDs of a node current.  Returns false if the node has no rows. */
extern bool grnnd_read_node(GrnndScan *so, uint32 id);
/* Begins the chain of a node.  next: its first record, or GRN_INVALID_ID. */
extern void grnnd_begin_chain(Chain *chain, uint32 node, uint16 version, uint32 next);
/* Makes the TIDs of the chain's next record current; the record may have none. */
extern void grnnd_read_chain(IndexScanDesc scan);

/* ---- scan_rest.c ---- */

/* Ends the search, reads and sorts all nodes not returned yet, and goes on with these. */
extern void grnnd_begin_rest(IndexScanDesc scan);
/* The source of these nodes. */
extern bool grnnd_next_rest(IndexScanDesc scan);

/* ---- scan_sort.c ---- */

extern GrnndSort *grnnd_sort_begin(void);
/* Adds a row, with its TID and an id.  Late rows come after all others. */
extern void grnnd_sort_put(GrnndSort *sort, bool late, double value, int64 tid, int64 id);
/* Sorts the rows added. */
extern void grnnd_sort_perform(GrnndSort *sort);
/* The value of the next row.  Returns false at the end. */
extern bool grnnd_sort_bound(GrnndSort *sort, double *value);
/* Takes the next row.  Returns false at the end. */
extern bool grnnd_sort_next(GrnndSort *sort, double *value, int64 *tid, int64 *id);
/* Frees what is not in the scan's context.  NULL: does nothing. */
extern void grnnd_sort_end(GrnndSort *sort);

/* ---- rerank.c: exact distances from the table, for indexes that do not keep exact rows ---- */

/* Begins the re-ranking of a scan: makes so->rerank. */
extern void grnnd_rerank_begin(IndexScanDesc scan);
/* Adds a node whose rows are to be read. */
extern void grnnd_rerank_add(GrnndScan *so, ScanCandidate *r);
/* Number of nodes whose rows may still be read. */
extern int64 grnnd_rerank_unread(const GrnndScan *so);
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
/* Frees the sort, which is not in the scan's context. */
extern void grnnd_rerank_end(GrnndScan *so);

#endif							/* GRNND_SCAN_IMPL_H */
