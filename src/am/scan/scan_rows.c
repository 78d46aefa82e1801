/*
 * scan_rows.c - rows of the table: reads rows for the operator's values, and prefetches rows for a
 * scan or its executor, while pages are missing from shared buffers.
 */
#include "am/scan/scan_impl.h"

#include "access/tableam.h"
#include "executor/executor.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/spccache.h"

#include "am/index/index.h"

/* What reads rows.  Survives rescans. */
struct GrnndTableReader
{
	IndexFetchTableData *fetch;
	TupleTableSlot *slot;
	AttrNumber	column;			/* column of the table, or 0: the index's first key is an
								 * expression */
	ExprState  *expression;		/* the expression if column is 0, else NULL */
	EState	   *estate;
	MemoryContext value;		/* memory for measuring one row */
	int			prefetch_width; /* effective_io_concurrency of the table's tablespace */
};

/* ---- reading ---- */

/* The scan's reader, made for the first row. */
static GrnndTableReader *
table_reader(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	MemoryContext old;
	GrnndTableReader *r;

	if (so->reader != NULL)
		return so->reader;
	old = MemoryContextSwitchTo(GetMemoryChunkContext(so));
	r = palloc0(sizeof(GrnndTableReader));
	r->fetch = GRNND_INDEX_FETCH_BEGIN(scan->heapRelation);
	r->slot = table_slot_create(scan->heapRelation, NULL);
	r->value = AllocSetContextCreate(CurrentMemoryContext, "grnnd value", ALLOCSET_SMALL_SIZES);
	r->column = scan->indexRelation->rd_index->indkey.values[0];
	if (r->column == 0)
	{
		/*
		 * Prepare only the first expression of the index: the query itself names this expression
		 * in ORDER BY.  The user must not run other functions of the table's owner unknowingly.
		 */
		Expr	   *first = linitial(RelationGetIndexExpressions(scan->indexRelation));

		r->estate = CreateExecutorState();
		r->expression = ExecPrepareExpr(first, r->estate);
	}
	r->prefetch_width = get_tablespace_io_concurrency(scan->heapRelation->rd_rel->reltablespace);
	MemoryContextSwitchTo(old);
	so->reader = r;
	return r;
}

/*
 * Computes the operator's value of the row in the slot.  Returns false if the row or the value is
 * NULL.
 */
static bool
measure_row(IndexScanDesc scan, GrnndTableReader *r, double *value)
{
	ScanKey		key = &scan->orderByData[0];
	MemoryContext old = MemoryContextSwitchTo(r->value);
	Datum		row;
	bool		isnull;
	bool		known = false;

	if (r->column != 0)
		row = slot_getattr(r->slot, r->column, &isnull);
	else
	{
		ExprContext *econtext = GetPerTupleExprContext(r->estate);

		ResetExprContext(econtext);
		econtext->ecxt_scantuple = r->slot;
		row = ExecEvalExprSwitchContext(r->expression, econtext, &isnull);
	}
	if (!isnull)
	{
		LOCAL_FCINFO(fcinfo, 2);

		InitFunctionCallInfoData(*fcinfo, &key->sk_func, 2, key->sk_collation, NULL, NULL);
		fcinfo->args[0].value = row;
		fcinfo->args[0].isnull = false;
		fcinfo->args[1].value = key->sk_argument;
		fcinfo->args[1].isnull = false;
		*value = DatumGetFloat8(FunctionCallInvoke(fcinfo));
		known = !fcinfo->isnull;
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(r->value);
	return known;
}

bool
grnnd_read_value(IndexScanDesc scan, ItemPointer tid, double *value)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndTableReader *r = table_reader(scan);
	bool		again = false;
	bool		dead;

	so->reads++;
	return table_index_fetch_tuple(r->fetch, tid, scan->xs_snapshot, r->slot, &again, &dead) &&
		measure_row(scan, r, value);
}

void
grnnd_end_reading(GrnndScan *so)
{
	if (so->reader == NULL)
		return;
	ExecClearTuple(so->reader->slot);
	table_index_fetch_reset(so->reader->fetch);
}

void
grnnd_end_reader(GrnndScan *so)
{
	GrnndTableReader *r = so->reader;

	if (r == NULL)
		return;
	grnnd_end_reading(so);
	table_index_fetch_end(r->fetch);
	ExecDropSingleTupleTableSlot(r->slot);
	MemoryContextDelete(r->value);
	if (r->estate != NULL)
		FreeExecutorState(r->estate);
	pfree(r);
}

/* ---- prefetching ---- */

/* Number of coming nodes that the scan will probably take. */
static uint32
likely_taken(const GrnndScan *so)
{
	double		likely = (double) so->width.wanted;

	/* the same number as in cost.c */
	if (so->rerank != NULL)
		likely = ceil(likely * Max(grn_form(so->ix->layout.form)->reads, 1));
	if (likely > so->batch.taken)
		return (uint32) Min(likely - so->batch.taken, so->batch.size);
	return likely > 0 ? 1 + so->batch.taken / 4 : so->batch.taken;
}

void
grnnd_prefetch_rows(IndexScanDesc scan, int width)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	uint32		until = Min(so->batch.taken + Min((uint32) width, likely_taken(so)), so->batch.size);

	if (scan->heapRelation == NULL || scan->heapRelation->rd_tableam != GetHeapamTableAmRoutine())
		return;
	for (; so->batch.prefetched < until; so->batch.prefetched++)
	{
		const ScanCandidate *r = &so->batch.nodes[so->batch.prefetched];

		for (uint32 i = 0; i < r->ntids; i++)
		{
			ItemPointerData tid;

			memcpy(&tid, r->tids + i * GRN_TID_BYTES, GRN_TID_BYTES);
			if (grnnd_has_row(scan->heapRelation, &tid))
				PrefetchBuffer(scan->heapRelation, MAIN_FORKNUM, ItemPointerGetBlockNumber(&tid));
		}
	}
}

int
grnnd_table_prefetch_width(IndexScanDesc scan)
{
	return table_reader(scan)->prefetch_width;
}

void
grnnd_prefetch_results(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;

	if (so->store.missing_left > 0)
		grnnd_prefetch_rows(scan, so->store.prefetch_width);
}

/* ---- checks ---- */

void
grnnd_check_row(IndexScanDesc scan, const ItemPointerData *tid)
{
	const GrnndScan *so = (const GrnndScan *) scan->opaque;

	if (scan->heapRelation != NULL && !grnnd_has_row(scan->heapRelation, tid))
		grnnd_corrupt(scan->indexRelation,
					  so->now.record == GRN_INVALID_ID ? 0 : grnnd_node_block(so->ix, so->now.record),
					  "a row beyond the end of the table");
}
