/*
 * rerank.c - exact distances from the table, where an index keeps stand-ins of the rows.
 *
 * The search orders nodes by their stand-ins.  A bound says how near the row is likely to be
 * at most.  Nodes wait in so->unread in the order of that bound.  A node that is read becomes
 * a candidate in so->heap for each of its rows that the snapshot sees, at the value that the
 * operator's own function gives.  The nearest of these may be returned as soon as no bound
 * of a node that is unread is below it, so nobody needs to know how many rows are wanted.
 * All else, the lead of the search before all, is as in other scans (scan.c).
 *
 * A node with a chain of further rows is read one record at a time.  Between two of them it
 * waits in so->unread as the others do: many equal rows need not be read for the first.
 *
 * In the rest nodes come from the sorted ones of scan_rest.c, in the order of the same bound.
 * Should more rows wait than the scan has memory for, all that is unread is read, and the
 * executor gets the rest from a sort by exact values.
 */
#include "am/rerank.h"

#include "access/tableam.h"
#include "catalog/index.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "utils/float.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/spccache.h"

/* Table pages are asked for in advance while some are missing: this many nodes after the last. */
#define PREFETCH_NODES 16

struct GrnndRerank
{
	/* these last for all rescans */
	IndexFetchTableData *fetch;
	TupleTableSlot *slot;
	IndexInfo  *info;
	EState	   *estate;			/* of the index's expressions */
	int			prefetch_width; /* effective_io_concurrency of the table */

	/* of one */
	MemoryContext rows;			/* the Row's */
	int			prefetch_left;	/* nodes */
	bool		stopped;		/* nothing that is unread is wanted */
	Tuplesortstate *sorted;		/* (came too late, value, TID), or NULL */
	TupleTableSlot *sorted_slot;
};

/* A row that has been read, in so->heap or so->late. */
typedef struct Row
{
	Candidate	c;
	uint8		tid[GRN_TID_BYTES];
} Row;

/* A node, some of whose chain is unread, in so->unread.  Its c.tids is NULL. */
typedef struct Reading
{
	Candidate	c;
	Chain		chain;
} Reading;

/* ---- begin and end ---- */

void
grnnd_rerank_begin(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndRerank *rr = so->rerank;

	if (rr == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(GetMemoryChunkContext(so));

		rr = palloc0(sizeof(GrnndRerank));
		rr->fetch = table_index_fetch_begin(scan->heapRelation);
		rr->slot = table_slot_create(scan->heapRelation, NULL);
		rr->info = BuildIndexInfo(scan->indexRelation);
		rr->estate = CreateExecutorState();
		rr->prefetch_width =
			get_tablespace_io_concurrency(scan->heapRelation->rd_rel->reltablespace);
		MemoryContextSwitchTo(old);
		so->rerank = rr;
	}
	rr->rows = SlabContextCreate(so->context, "grnnd rows", SLAB_DEFAULT_BLOCK_SIZE, sizeof(Row));
	rr->prefetch_left = 0;
	rr->stopped = false;
}

/* Lets go of the table's page. */
static void
release_page(GrnndRerank *rr)
{
	ExecClearTuple(rr->slot);
	table_index_fetch_reset(rr->fetch);
}

void
grnnd_rerank_reset(GrnndScan *so)
{
	GrnndRerank *rr = so->rerank;

	if (rr == NULL)
		return;
	release_page(rr);
	if (rr->sorted != NULL)
	{
		ExecDropSingleTupleTableSlot(rr->sorted_slot);
		tuplesort_end(rr->sorted);
		rr->sorted = NULL;
	}
}

void
grnnd_rerank_end(GrnndScan *so)
{
	GrnndRerank *rr = so->rerank;

	if (rr == NULL)
		return;
	grnnd_rerank_reset(so);
	table_index_fetch_end(rr->fetch);
	ExecDropSingleTupleTableSlot(rr->slot);
	FreeExecutorState(rr->estate);
	pfree(rr);
	so->rerank = NULL;
}

/* ---- reading ---- */

/* The operator's value of the row in the slot.  False: it is NULL. */
static bool
measure_row(IndexScanDesc scan, GrnndRerank *rr, double *value)
{
	ScanKey		key = &scan->orderByData[0];
	ExprContext *econtext = GetPerTupleExprContext(rr->estate);
	MemoryContext old;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	bool		known = false;

	ResetExprContext(econtext);
	econtext->ecxt_scantuple = rr->slot;
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	FormIndexDatum(rr->info, rr->slot, rr->estate, values, isnull);
	if (!isnull[0])
	{
		LOCAL_FCINFO(fcinfo, 2);

		InitFunctionCallInfoData(*fcinfo, &key->sk_func, 2, key->sk_collation, NULL, NULL);
		fcinfo->args[0].value = values[0];
		fcinfo->args[0].isnull = false;
		fcinfo->args[1].value = key->sk_argument;
		fcinfo->args[1].isnull = false;
		*value = DatumGetFloat8(FunctionCallInvoke(fcinfo));
		known = !fcinfo->isnull;
	}
	MemoryContextSwitchTo(old);
	return known;
}

/*
 * Makes a candidate of a node's row, if the snapshot sees it.  *dead: whether no snapshot does.
 */
static bool
read_row(IndexScanDesc scan, uint32 node, const uint8 *packed, bool *dead)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndRerank *rr = so->rerank;
	ItemPointerData tid;
	bool		again = false;
	double		value;
	Row		   *row;

	CHECK_FOR_INTERRUPTS();
	memcpy(&tid, packed, GRN_TID_BYTES);
	*dead = false;
	if (!table_index_fetch_tuple(rr->fetch, &tid, scan->xs_snapshot, rr->slot, &again, dead) ||
		!measure_row(scan, rr, &value))
		return false;
	row = MemoryContextAllocZero(rr->rows, sizeof(Row));
	row->c.value = value;
	row->c.least = value;
	row->c.exact = scan->numberOfOrderBys == 1;
	row->c.ntids = 1;
	row->c.id = node;
	row->c.next = GRN_INVALID_ID;
	row->c.tids = row->tid;
	/* where its HOT chain begins, as executors take it */
	memcpy(row->tid, packed, GRN_TID_BYTES);
	pairingheap_add(so->heap, &row->c.node);
	return true;
}

/*
 * Reads the current TIDs, which are a node's; its chain waits for its turn.  Returns how many
 * rows came of them.
 */
static uint32
read_tids(IndexScanDesc scan, uint32 node, double bound)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndRerank *rr = so->rerank;
	int64		misses = pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read;
	uint32		nrows = 0;
	uint32		ndead = 0;

	for (uint32 i = 0; i < so->ntids; i++)
	{
		bool		dead;

		nrows += read_row(scan, node, so->tids + (Size) i * GRN_TID_BYTES, &dead);
		ndead += dead;
	}
	grnnd_note_dead(so, ndead);
	if (pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read != misses)
		rr->prefetch_left = PREFETCH_NODES;
	so->ntids = 0;
	if (so->chain.next != GRN_INVALID_ID)
	{
		Reading    *reading = MemoryContextAllocZero(so->context, sizeof(Reading));

		reading->c.value = bound;
		reading->c.id = node;
		reading->chain = so->chain;
		pairingheap_add(so->unread, &reading->c.node);
		memset(&so->chain, 0, sizeof(Chain));
		so->chain.next = GRN_INVALID_ID;
	}
	return nrows;
}

/* Reads the nearest node, or the next record of its chain, that waits in so->unread. */
static void
read_waiting(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndRerank *rr = so->rerank;
	Candidate  *r = pairingheap_container(Candidate, node, pairingheap_remove_first(so->unread));
	uint32		node = r->id;
	double		bound = r->value;

	if (r->tids == NULL)
	{
		so->chain = ((Reading *) r)->chain;
		pfree(r);
		grnnd_read_chain(scan);
		/* the lead counts rows that may be returned: see below */
		so->found++;
	}
	else
	{
		so->batch_taken++;
		if (rr->prefetch_left > 0)
		{
			rr->prefetch_left--;
			grnnd_prefetch_rows(scan, so->batch_taken + rr->prefetch_width);
		}
		grnnd_remember_returned(so, node);
		so->record = node;
		so->tids = r->tids;
		so->ntids = r->ntids;
		grnnd_begin_chain(&so->chain, node, r->version, r->next);
	}
	/* it was found as one */
	so->found += read_tids(scan, node, bound);
	so->found--;
}

/*
 * Reads what is likely nearest, if that is nearer than `than` (NULL: whatever it is).  False:
 * there is nothing of the kind.
 */
static bool
read_nearest(IndexScanDesc scan, const double *than)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	bool		waiting = !pairingheap_is_empty(so->unread);
	double		bound = 0;
	double		rest;

	if (so->rerank->stopped)
		return false;
	if (waiting)
		bound = pairingheap_container(Candidate, node, pairingheap_first(so->unread))->value;
	if (so->rest != NULL && grnnd_rest_bound(so, &rest) &&
		(!waiting || float8_lt(rest, bound)))
	{
		if (than != NULL && !float8_lt(rest, *than))
			return false;
		if (grnnd_next_rest(so))
		{
			so->record = so->chain.node;
			(void) read_tids(scan, so->chain.node, so->value);
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
	pairingheap *keep = pairingheap_allocate(so->unread->ph_compare, NULL);

	while (!pairingheap_is_empty(so->unread))
	{
		pairingheap_node *node = pairingheap_remove_first(so->unread);

		/* the other records of nodes that were begun */
		if (pairingheap_container(Candidate, node, node)->tids == NULL)
			pairingheap_add(keep, node);
	}
	so->unread = keep;
}

/* ---- more rows than memory holds ---- */

static void
put_rows(GrnndScan *so, pairingheap *heap, bool late, TupleTableSlot *slot)
{
	while (!pairingheap_is_empty(heap))
	{
		Row		   *row = (Row *) pairingheap_container(Candidate, node,
														pairingheap_remove_first(heap));
		int64		tid = 0;

		memcpy(&tid, row->tid, GRN_TID_BYTES);
		ExecClearTuple(slot);
		slot->tts_values[0] = Float8GetDatum(late ||
											 (so->iterative != GRNND_ITERATIVE_RELAXED &&
											  float8_lt(row->c.value, so->last)));
		slot->tts_values[1] = Float8GetDatum(row->c.value);
		slot->tts_values[2] = Int64GetDatum(tid);
		memset(slot->tts_isnull, 0, 3 * sizeof(bool));
		ExecStoreVirtualTuple(slot);
		tuplesort_puttupleslot(so->rerank->sorted, slot);
		pfree(row);
	}
}

/* Reads and sorts all that is left. */
static void
sort_all(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndRerank *rr = so->rerank;
	AttrNumber	columns[] = {1, 2};
	Oid			operators[] = {Float8LessOperator, Float8LessOperator};
	Oid			collations[] = {InvalidOid, InvalidOid};
	bool		nulls_first[] = {false, false};
	TupleDesc	desc = CreateTemplateTupleDesc(3);
	TupleTableSlot *slot;

	TupleDescInitEntry(desc, 1, "late", FLOAT8OID, -1, 0);
	TupleDescInitEntry(desc, 2, "value", FLOAT8OID, -1, 0);
	TupleDescInitEntry(desc, 3, "tid", INT8OID, -1, 0);
	rr->sorted_slot = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	rr->sorted = tuplesort_begin_heap(desc, 2, columns, operators, collations, nulls_first,
									  work_mem, NULL, TUPLESORT_NONE);
	slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	put_rows(so, so->late, true, slot);
	do
		put_rows(so, so->heap, false, slot);
	while (read_nearest(scan, NULL));
	ExecDropSingleTupleTableSlot(slot);
	tuplesort_performsort(rr->sorted);
}

bool
grnnd_next_sorted(GrnndScan *so)
{
	GrnndRerank *rr = so->rerank;
	bool		isnull;
	int64		tid;

	if (!tuplesort_gettupleslot(rr->sorted, true, false, rr->sorted_slot, NULL))
		return false;
	so->value = DatumGetFloat8(slot_getattr(rr->sorted_slot, 2, &isnull));
	tid = DatumGetInt64(slot_getattr(rr->sorted_slot, 3, &isnull));
	so->exact = true;
	memcpy(so->buffer, &tid, GRN_TID_BYTES);
	so->tids = so->buffer;
	so->ntids = 1;
	so->next_tid = 0;
	so->taken++;
	return true;
}

bool
grnnd_rerank_sorted(const GrnndScan *so)
{
	return so->rerank != NULL && so->rerank->sorted != NULL;
}

/* ---- the whole ---- */

void
grnnd_rerank(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndRerank *rr = so->rerank;
	bool		any = false;

	while (rr->sorted == NULL)
	{
		const pairingheap_node *first = NULL;

		if (!pairingheap_is_empty(so->heap))
			first = pairingheap_first(so->heap);
		if (!read_nearest(scan, first == NULL ? NULL :
						  &pairingheap_const_container(Candidate, node, first)->value))
			break;
		any = true;
		if (MemoryContextMemAllocated(rr->rows, false) >= so->memory_limit)
		{
			if (!so->exhausted)
				grnnd_end_search(scan);
			sort_all(scan);
		}
	}
	if (any)
		release_page(rr);
}

void
grnnd_rerank_take(GrnndScan *so, Candidate *r)
{
	memcpy(so->buffer, r->tids, GRN_TID_BYTES);
	so->tids = so->buffer;
	pfree(r);
}
