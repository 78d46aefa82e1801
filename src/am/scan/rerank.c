/*
 * rerank.c - exact distances from the table, for indexes with rounded rows.
 *
 * The search orders nodes by their stored vectors.  A bound tells the least distance that the row
 * may have: certainly, or likely (GrnFormInfo.deviations).  Nodes wait in `unread` in the order of
 * their bounds.  When a node is read, each row that the snapshot sees becomes a candidate in
 * results.heap with the value of the operator's own function.  The nearest candidate may be
 * returned as soon as no unread node has a smaller bound, so the number of wanted rows need not be
 * known.  All other steps, above all the lead of the search, are as in other scans (scan_search.c,
 * scan_width.c).
 *
 * The executor could sort the rows by certain bounds (xs_recheckorderby).  But the executor would
 * then not know the rows' places in the table, and could not lock rows for SELECT ... FOR UPDATE.
 *
 * A node with an exact vector waits at its own distance and is not read.  A node with a chain is
 * read one record at a time, and waits in `unread` between two records, so that one of many
 * equal rows can be returned without reading all.  In the rest, nodes come from the sort of
 * scan_rest.c in the order of their bounds.  If the waiting rows exceed the scan's memory, all
 * unread rows are read, and the executor gets the remaining rows from a sort by exact values.
 */
#include "am/scan/scan_impl.h"

#include "executor/instrument.h"
#include "miscadmin.h"
#include "utils/memutils.h"

/*
 * Number of nodes for which table pages are prefetched after the last node whose page was missing,
 * as page_store.c does for pages of the index.
 */
#define PREFETCH_NODES GRNND_MISSING_VISITS

struct GrnndRerank
{
	MemoryContext rows;			/* holds ReadRows */
	MemoryContext lists;		/* holds arrays of TIDs, for ReadRows with several TIDs */
	int			prefetch_left;	/* nodes for which prefetching goes on */
	pairingheap *unread;		/* nodes whose rows are not in so->results.heap yet, by bounds */
	int64		nunread;		/* these nodes, except where only a chain is left */
	bool		stopped;		/* no unread row is wanted */
	GrnndSort  *sorted;			/* all rows left, or NULL */
};

/* A row that was read, or the rows of a record that need not be read; in a heap of so->results. */
typedef struct ReadRow
{
	ScanCandidate c;
	uint8		tid[GRN_TID_BYTES]; /* the TID if there is only one */
} ReadRow;

/* A node with unread records of its chain, in `unread`.  c.tids is NULL. */
typedef struct ChainReading
{
	ScanCandidate c;
	Chain		chain;
} ChainReading;

/* ---- begin and end ---- */

void
grnnd_rerank_begin(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndRerank *rr = palloc0(sizeof(GrnndRerank));

	so->rerank = rr;
	rr->rows = SlabContextCreate(so->context, "grnnd rows", SLAB_DEFAULT_BLOCK_SIZE, sizeof(ReadRow));
	rr->lists = AllocSetContextCreate(so->context, "grnnd TIDs", ALLOCSET_SMALL_SIZES);
	rr->unread = pairingheap_allocate(so->results.heap->ph_compare, NULL);
}

void
grnnd_rerank_end(GrnndScan *so)
{
	if (so->rerank != NULL)
		grnnd_sort_end(so->rerank->sorted);
}

void
grnnd_rerank_add(GrnndScan *so, ScanCandidate *r)
{
	pairingheap_add(so->rerank->unread, &r->node);
	so->rerank->nunread++;
}

int64
grnnd_rerank_unread(const GrnndScan *so)
{
	return so->rerank->nunread;
}

/* ---- reading ---- */

/* Adds TIDs of one record to results.heap.  of: their value, and the record's id if known. */
static void
put_row(GrnndScan *so, const ScanCandidate *of, const uint8 *tids, uint32 ntids)
{
	ReadRow    *row = MemoryContextAllocZero(so->rerank->rows, sizeof(ReadRow));
	uint8	   *to = row->tid;

	if (ntids > 1)
		to = MemoryContextAlloc(so->rerank->lists, (Size) ntids * GRN_TID_BYTES);
	memcpy(to, tids, (Size) ntids * GRN_TID_BYTES);
	row->c.value = of->value;
	row->c.least = of->least;
	row->c.exact = of->exact;
	row->c.id = of->id;
	row->c.ntids = ntids;
	row->c.next = GRN_INVALID_ID;
	row->c.tids = to;
	pairingheap_add(so->results.heap, &row->c.node);
}

/* Reads a row, and makes a candidate if the snapshot sees the row. */
static bool
read_row(IndexScanDesc scan, const uint8 *packed)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	ItemPointerData tid;
	ScanCandidate row = {.exact = scan->numberOfOrderBys == 1, .id = GRN_INVALID_ID};

	CHECK_FOR_INTERRUPTS();
	memcpy(&tid, packed, GRN_TID_BYTES);
	grnnd_check_row(scan, &tid);
	if (!grnnd_read_value(scan, &tid, &row.value))
		return false;
	row.least = row.value;
	/* use the TID at the start of the HOT chain, as the executor expects */
	put_row(so, &row, packed, 1);
	return true;
}

/* Reads the rows of the current TIDs.  Returns the number of rows that the snapshot sees. */
static uint32
read_rows(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndRerank *rr = so->rerank;
	int64		misses = pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read;
	uint32		nrows = 0;

	for (uint32 i = 0; i < so->now.ntids; i++)
		nrows += read_row(scan, so->now.tids + (Size) i * GRN_TID_BYTES);
	if (pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read != misses)
		rr->prefetch_left = PREFETCH_NODES;
	return nrows;
}

/*
 * Moves the current TIDs of a node into results.heap, and reads their rows unless `of` has an exact
 * value.  The node's chain is put back into `unread`.  Returns the number of candidates, at
 * least one: a candidate without TIDs takes the place of invisible rows.
 */
static uint32
put_tids(IndexScanDesc scan, const ScanCandidate *of)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	ScanCandidate all = *of;
	uint32		nrows = 0;

	if (!of->exact && so->now.ntids > 0)
		nrows = read_rows(scan);
	if (nrows == 0)
	{
		all.id = so->now.record;
		put_row(so, &all, so->now.tids, of->exact ? so->now.ntids : 0);
		nrows = 1;
	}
	so->now.ntids = 0;
	if (so->now.chain.next != GRN_INVALID_ID)
	{
		ChainReading *reading = MemoryContextAllocZero(so->context, sizeof(ChainReading));

		reading->c.value = of->value;
		reading->c.least = of->least;
		reading->c.exact = of->exact;
		reading->chain = so->now.chain;
		pairingheap_add(so->rerank->unread, &reading->c.node);
		memset(&so->now.chain, 0, sizeof(Chain));
		so->now.chain.next = GRN_INVALID_ID;
	}
	return nrows;
}

/*
 * Are pages of the table probably missing?  If pages of the index are missing, the first row of a
 * batch is prefetched too.
 */
static bool
misses_pages(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndRerank *rr = so->rerank;

	if (so->batch.taken == 1 && so->store.missing_left > 0)
		rr->prefetch_left = PREFETCH_NODES;
	return rr->prefetch_left > 0;
}

/* Reads the nearest node in `unread`, or the next record of its chain. */
static void
read_waiting(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndRerank *rr = so->rerank;
	ScanCandidate *r = pairingheap_container(ScanCandidate, node, pairingheap_remove_first(rr->unread));
	ScanCandidate of = *r;

	if (r->tids == NULL)
	{
		so->now.chain = ((ChainReading *) r)->chain;
		pfree(r);
		grnnd_read_chain(scan);
		/* so->results.found counts rows that may be returned, so a chain's record adds to it */
		so->results.found++;
	}
	else
	{
		so->batch.taken++;
		rr->nunread--;
		if (of.exact)
			grnnd_prefetch_results(scan);
		else if (misses_pages(scan))
		{
			rr->prefetch_left--;
			grnnd_prefetch_rows(scan, grnnd_table_prefetch_width(scan));
		}
		grnnd_add_number(&so->results.returned, so->context, of.id);
		so->now.record = of.id;
		so->now.tids = of.tids;
		so->now.ntids = of.ntids;
		grnnd_begin_chain(&so->now.chain, of.id, of.version, of.next);
	}
	/* the search counted the node as one */
	so->results.found += put_tids(scan, &of) - 1;
}

/*
 * Reads the node with the smallest bound if the bound is less than *than (NULL: in any case).
 * Returns false if no such node is left.
 */
static bool
read_nearest(IndexScanDesc scan, const double *than)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	pairingheap *unread = so->rerank->unread;
	bool		waiting = !pairingheap_is_empty(unread);
	double		bound = 0;
	double		rest;

	if (so->rerank->stopped)
		return false;
	if (waiting)
		bound = pairingheap_container(ScanCandidate, node, pairingheap_first(unread))->value;
	if (so->rest != NULL && grnnd_sort_bound(so->rest, &rest) &&
		(!waiting || float8_lt(rest, bound)))
	{
		if (than != NULL && !float8_lt(rest, *than))
			return false;
		if (grnnd_next_rest(scan))
		{
			/* the difference between an exact value and pgvector's value is unknown */
			ScanCandidate of = {.value = so->now.value, .exact = so->now.exact,
				.least = -get_float8_infinity()};

			(void) put_tids(scan, &of);
		}
		return true;
	}
	if (!waiting || (than != NULL && !float8_lt(bound, *than)))
		return false;
	read_waiting(scan);
	return true;
}

void
grnnd_rerank_stop(GrnndScan *so)
{
	if (so->rerank != NULL)
		so->rerank->stopped = true;
}

void
grnnd_rerank_rest(GrnndScan *so)
{
	pairingheap *unread = so->rerank->unread;
	pairingheap *keep = pairingheap_allocate(unread->ph_compare, NULL);

	while (!pairingheap_is_empty(unread))
	{
		pairingheap_node *node = pairingheap_remove_first(unread);

		/* keep nodes whose chains are partly read */
		if (pairingheap_container(ScanCandidate, node, node)->tids == NULL)
			pairingheap_add(keep, node);
	}
	so->rerank->unread = keep;
}

/* ---- more rows than memory holds ---- */

static void
put_rows(GrnndScan *so, pairingheap *heap, bool late)
{
	while (!pairingheap_is_empty(heap))
	{
		ScanCandidate *r = pairingheap_container(ScanCandidate, node, pairingheap_remove_first(heap));
		bool		comes_late = late || (so->asked.iterative != GRNND_ITERATIVE_RELAXED &&
										  float8_lt(r->value, so->results.last));

		for (uint32 i = 0; i < r->ntids; i++)
		{
			int64		tid = 0;

			memcpy(&tid, r->tids + (Size) i * GRN_TID_BYTES, GRN_TID_BYTES);
			grnnd_sort_put(so->rerank->sorted, comes_late, r->value, tid, 0);
		}
		grnnd_rerank_free(r);
	}
}

/* The source of the sorted rows. */
static bool
next_sorted(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	int64		tid;
	int64		unused;

	if (!grnnd_is_due(so) || !grnnd_sort_next(so->rerank->sorted, &so->now.value, &tid, &unused))
	{
		grnnd_report_limit(scan);
		return false;
	}
	so->now.exact = true;
	grnnd_take_row(so, GRN_INVALID_ID, &tid);
	so->results.taken++;
	return true;
}

/* Reads and sorts all remaining rows. */
static void
sort_all(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;

	so->rerank->sorted = grnnd_sort_begin();
	put_rows(so, so->results.late, true);
	do
		put_rows(so, so->results.heap, false);
	while (read_nearest(scan, NULL));
	grnnd_sort_perform(so->rerank->sorted);
	so->source = next_sorted;
}

/* ---- the loop ---- */

void
grnnd_rerank(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndRerank *rr = so->rerank;
	bool		any = false;

	while (rr->sorted == NULL)
	{
		const pairingheap_node *first = NULL;

		/* if LIMIT takes all found rows, read all nodes first: a likely bound may be wrong */
		if ((so->rest != NULL || so->results.found > so->width.wanted) && !pairingheap_is_empty(so->results.heap))
			first = pairingheap_first(so->results.heap);
		if (!read_nearest(scan, first == NULL ? NULL :
						  &pairingheap_const_container(ScanCandidate, node, first)->value))
			break;
		any = true;
		if (MemoryContextMemAllocated(rr->rows, false) +
			MemoryContextMemAllocated(rr->lists, false) >= so->asked.memory_limit)
		{
			if (!so->search.exhausted)
				grnnd_end_search(scan, GRNND_MEMORY_LIMIT);
			/* the rows of the set have taken over */
			if (so->rerank == NULL)
				break;
			sort_all(scan);
		}
	}
	if (any)
		grnnd_end_reading(so);
}

void
grnnd_rerank_take(GrnndScan *so, ScanCandidate *r)
{
	memcpy(so->now.buffer, r->tids, (Size) r->ntids * GRN_TID_BYTES);
	so->now.tids = so->now.buffer;
	grnnd_rerank_free(r);
}

void
grnnd_rerank_free(ScanCandidate *r)
{
	ReadRow    *row = (ReadRow *) r;

	if (r->tids != row->tid)
		pfree(unconstify(uint8 *, r->tids));
	pfree(row);
}
