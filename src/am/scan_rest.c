/*
 * scan_rest.c - the end of a long scan: all rows that the search did not return, read in the order
 * of pages and sorted.  The rest costs as much as reading the index once, and takes no more memory
 * than work_mem.  No row is lost.
 */
#include "am/scan_impl.h"

#include <math.h>

#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "am/page.h"
#include "am/rerank.h"
#include "graph/space.h"

static void
take_record(void *arg, const GrnRecord *rec, const void *vec)
{
	GrnndScan  *so = (GrnndScan *) arg;

	if (rec->state != GRN_NODE)
		return;
	grnnd_take_tids(so, rec, so->walk_id);
	grnnd_begin_chain(&so->chain, so->walk_id, rec->version, rec->next);
}

bool
grnnd_read_node(GrnndScan *so)
{
	so->tids = so->buffer;
	so->ntids = 0;
	so->next_tid = 0;
	so->chain.next = GRN_INVALID_ID;
	so->store.base.visit(&so->store.base, so->walk_id, take_record, so);
	return so->ntids > 0 || so->chain.next != GRN_INVALID_ID;
}

/* In place of a TID: the node has several TIDs or a chain and must be visited again. */
#define MANY_TIDS (-1)

/* Stores a record's distance, norm and TID for the sort.  The record's page is locked. */
static void
measure_record(void *arg, const GrnRecord *rec, const void *vec)
{
	GrnndScan  *so = (GrnndScan *) arg;
	const GrnLayout *l = &so->ix->layout;
	GrnComparison comparison = so->ix->key.metric->comparison;
	RestRow    *row = &so->rest_rows[so->nrest_rows];

	if (rec->state != GRN_NODE)
		return;
	if (so->skip_killed && (rec->flags & GRN_KILLED) != 0 && rec->next == GRN_INVALID_ID)
		return;
	row->tid = MANY_TIDS;
	if (rec->ntids == 1 && rec->next == GRN_INVALID_ID)
	{
		if (so->filter != NULL &&
			!grn_row_passes(&so->filter->base, (const uint8 *) rec + l->off_tids, grn_rec_attrs(l, rec)))
			return;
		row->tid = 0;
		memcpy(&row->tid, (const uint8 *) rec + l->off_tids, GRN_TID_BYTES);
	}
	row->found.error = rec->error;
	row->found.distance = so->rest_query != NULL
		? grn_query_compare(comparison, l->form, so->rest_query, vec, l->dim)
		: grn_compare(comparison, l->form, so->q, vec, l->dim);
	row->norm = 0;
	if (so->norms)
		row->norm = sqrt(grn_own_norm2(l, vec));
	row->found.id = so->rest_id;
	so->nrest_rows++;
}

/* Measures the records of a page that were not returned.  *skip: position in so->returned. */
static void
measure_page(IndexScanDesc scan, uint32 first, uint32 *skip)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	const GrnLayout *l = &so->ix->layout;
	Buffer		buffer = InvalidBuffer;
	Page		page = NULL;

	CHECK_FOR_INTERRUPTS();
	if (l->span == 1)
	{
		buffer = grnnd_read(scan->indexRelation, grnnd_node_block(so->ix, first),
							BUFFER_LOCK_SHARE, GRNND_NODES, so->store.strategy);
		so->store.pages++;
		page = BufferGetPage(buffer);
		TestForOldSnapshot(scan->xs_snapshot, scan->indexRelation, page);
	}
	so->nrest_rows = 0;
	for (uint32 id = first; id < first + l->per_page; id++)
	{
		while (*skip < so->nreturned && so->returned[*skip] < id)
			(*skip)++;
		if (*skip < so->nreturned && so->returned[*skip] == id)
			continue;
		so->rest_id = id;
		if (page == NULL)
			so->store.base.visit(&so->store.base, id, measure_record, so);
		else if (!PageIsNew(page))
		{
			const GrnRecord *rec = grnnd_page_record(page, so->ix, id - first);
			/* edges and chains are not followed here, so their ids need no limit */
			const char *what = grn_record_check(l, rec, id, GRN_MAX_NODES);

			if (what != NULL)
				grnnd_corrupt(scan->indexRelation, grnnd_node_block(so->ix, id), what);
			measure_record(so, rec, (const char *) rec + l->off_vec);
		}
	}
	if (page != NULL)
		UnlockReleaseBuffer(buffer);
}

static void
sort_row(IndexScanDesc scan, const RestRow *row, TupleTableSlot *slot)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	bool		exact = row->found.error == 0 && scan->numberOfOrderBys == 1 &&
		!grnnd_has_stand_ins(so->ix->key.type);
	double		value = grnnd_operator_value(so, &row->found, row->norm, exact ? 0 : 1);

	ExecClearTuple(slot);
	slot->tts_values[0] = Float8GetDatum(so->rerank == NULL &&
										 so->iterative == GRNND_ITERATIVE_STRICT &&
										 value < so->last);
	slot->tts_values[1] = Float8GetDatum(value);
	slot->tts_values[2] = Int64GetDatum((int64) row->found.id << 1 | exact);
	slot->tts_values[3] = Int64GetDatum(row->tid);
	memset(slot->tts_isnull, 0, 4 * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	tuplesort_puttupleslot(so->rest, slot);
}

/*
 * Prepares the query for comparisons with stored vectors.  Without preparation grn_compare() would
 * rotate the query for each record: 1.7 s instead of 0.1 s for 20,800 sketches.
 */
static void
make_query(GrnndScan *so)
{
	const GrnLayout *l = &so->ix->layout;
	size_t		bytes = grn_query_bytes(so->ix->key.metric->comparison, l->form, l->dim);

	so->rest_query = bytes > 0 ? palloc(bytes) : NULL;
	if (bytes > 0 && !grn_own_query(l, so->q, so->rest_query))
	{
		pfree(so->rest_query);
		so->rest_query = NULL;
	}
}

static int
compare_ids(const void *a, const void *b)
{
	uint32		x = *(const uint32 *) a;
	uint32		y = *(const uint32 *) b;

	return (x > y) - (x < y);
}

void
grnnd_sort_ids(uint32 *ids, uint32 n)
{
	qsort(ids, n, sizeof(uint32), compare_ids);
}

void
grnnd_leave_search(GrnndScan *so, GrnndWay way)
{
	if (so->search != NULL)
	{
		so->visits_before += grn_search_visits(so->search);
		grn_search_end(so->search);
	}
	else
		so->way = way;
	so->search = NULL;
	so->exhausted = true;
	so->batch_size = 0;
}

void
grnnd_begin_rest(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	AttrNumber	columns[] = {1, 2};
	Oid			operators[] = {Float8LessOperator, Float8LessOperator};
	Oid			collations[] = {InvalidOid, InvalidOid};
	bool		nulls_first[] = {false, false};
	TupleDesc	desc = CreateTemplateTupleDesc(4);
	TupleTableSlot *slot;
	uint32		skip = 0;

	if (grnnd_set_serves(so))
	{
		grnnd_begin_set_rows(scan);
		return;
	}
	grnnd_leave_search(so, GRNND_WAY_REST);
	/* results that wait are read again by the rest */
	if (so->rerank != NULL)
		grnnd_rerank_rest(so);
	else
	{
		pairingheap_reset(so->heap);
		pairingheap_reset(so->late);
	}
	if (so->nreturned > 0)
		grnnd_sort_ids(so->returned, so->nreturned);

	TupleDescInitEntry(desc, 1, "late", FLOAT8OID, -1, 0);
	TupleDescInitEntry(desc, 2, "value", FLOAT8OID, -1, 0);
	TupleDescInitEntry(desc, 3, "id", INT8OID, -1, 0);
	TupleDescInitEntry(desc, 4, "tid", INT8OID, -1, 0);
	TupleDescFinalize(desc);
	so->rest = tuplesort_begin_heap(desc, 2, columns, operators, collations, nulls_first,
									work_mem, NULL, TUPLESORT_NONE);
	so->rest_slot = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	so->rest_waits = false;
	slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	/* use a ring of buffers for a large index, as sequential scans do */
	if (RelationGetNumberOfBlocks(scan->indexRelation) > (BlockNumber) NBuffers / 4)
		so->store.strategy = GetAccessStrategy(BAS_BULKREAD);
	so->rest_rows = palloc(so->ix->layout.per_page * sizeof(RestRow));
	make_query(so);
	for (uint32 first = 0; first < so->store.id_limit; first += so->ix->layout.per_page)
	{
		measure_page(scan, first, &skip);
		for (uint32 i = 0; i < so->nrest_rows; i++)
			sort_row(scan, &so->rest_rows[i], slot);
	}
	pfree(so->rest_rows);
	if (so->rest_query != NULL)
		pfree(so->rest_query);
	if (so->store.strategy != NULL)
		FreeAccessStrategy(so->store.strategy);
	so->store.strategy = NULL;
	ExecDropSingleTupleTableSlot(slot);
	tuplesort_performsort(so->rest);
}

bool
grnnd_rest_bound(GrnndScan *so, double *bound)
{
	bool		isnull;

	so->rest_waits = so->rest_waits ||
		tuplesort_gettupleslot(so->rest, true, false, so->rest_slot, NULL);
	if (so->rest_waits)
		*bound = DatumGetFloat8(slot_getattr(so->rest_slot, 2, &isnull));
	return so->rest_waits;
}

bool
grnnd_next_rest(GrnndScan *so)
{
	while (so->rest_waits ||
		   tuplesort_gettupleslot(so->rest, true, false, so->rest_slot, NULL))
	{
		bool		isnull;
		int64		id = DatumGetInt64(slot_getattr(so->rest_slot, 3, &isnull));
		int64		tid = DatumGetInt64(slot_getattr(so->rest_slot, 4, &isnull));

		so->value = DatumGetFloat8(slot_getattr(so->rest_slot, 2, &isnull));
		so->exact = id & 1;
		so->walk_id = (uint32) (id >> 1);
		so->rest_waits = false;
		if (tid != MANY_TIDS)
		{
			memcpy(so->buffer, &tid, GRN_TID_BYTES);
			so->record = so->walk_id;
			so->tids = so->buffer;
			so->ntids = 1;
			so->next_tid = 0;
			grnnd_begin_chain(&so->chain, so->walk_id, 0, GRN_INVALID_ID);
			return true;
		}
		if (grnnd_read_node(so))
			return true;
	}
	return false;
}

void
grnnd_end_rest(GrnndScan *so)
{
	if (so->rest == NULL)
		return;
	ExecDropSingleTupleTableSlot(so->rest_slot);
	tuplesort_end(so->rest);
	so->rest = NULL;
}
