/*
 * check_tids.c - the check of heap TIDs, for grnnd_check().  The TIDs of the index and of the
 * table are sorted, on disk if necessary, and compared in their order.  Each TID comes with two
 * digests: of the values beside the TID, and of the record's vector, or the digests that the
 * table's row should have.  If the vectors' digests differ, the two vectors are compared.
 */
#include "am/report/check_impl.h"

#include "catalog/index.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/index/index.h"

/* In place of a record's id: the TID comes from the table. */
#define IN_TABLE (-1)

#define TID_COLUMNS 4			/* columns of the sort */

/* ---- the sort ---- */

void
grnnd_begin_tids(IndexCheck *c, Size memory)
{
	TupleDesc	desc = CreateTemplateTupleDesc(TID_COLUMNS);
	AttrNumber	columns[2] = {1, 2};
	Oid			operators[2] = {Int8LessOperator, Int8LessOperator};
	Oid			collations[2] = {InvalidOid, InvalidOid};
	bool		nulls_first[2] = {false, false};

	TupleDescInitEntry(desc, 1, "tid", INT8OID, -1, 0);
	TupleDescInitEntry(desc, 2, "id", INT8OID, -1, 0);
	TupleDescInitEntry(desc, 3, "values", INT8OID, -1, 0);
	TupleDescInitEntry(desc, 4, "digest", INT8OID, -1, 0);
	TupleDescFinalize(desc);
	c->tid_slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	c->tids = tuplesort_begin_heap(desc, 2, columns, operators, collations, nulls_first,
								   (int) Max(Min(memory, (Size) MAX_KILOBYTES * 1024) / 1024, 64),
								   NULL, TUPLESORT_NONE);
}

void
grnnd_put_tid(IndexCheck *c, ItemPointer tid, int64 id, const uint8 *attrs, uint64 digest)
{
	uint32		bytes = c->ix->layout.attr_bytes;

	ExecClearTuple(c->tid_slot);
	c->tid_slot->tts_values[0] = Int64GetDatum((int64) ItemPointerGetBlockNumber(tid) << 16 |
											   ItemPointerGetOffsetNumber(tid));
	c->tid_slot->tts_values[1] = Int64GetDatum(id);
	c->tid_slot->tts_values[2] = Int64GetDatum(bytes == 0 ? 0 :
											   (int64) hash_bytes_extended(attrs, (int) bytes, 0));
	c->tid_slot->tts_values[3] = Int64GetDatum((int64) digest);
	memset(c->tid_slot->tts_isnull, false, TID_COLUMNS * sizeof(bool));
	ExecStoreVirtualTuple(c->tid_slot);
	tuplesort_puttupleslot(c->tids, c->tid_slot);
}

/* ---- rows that exist ---- */

/* Reads the row at a heap TID into c->slot, if the snapshot sees it. */
static bool
fetch_row(IndexCheck *c, uint64 tid)
{
	ItemPointerData pointer;
	bool		again = false;
	bool		dead = false;
	bool		found;

	ItemPointerSet(&pointer, (BlockNumber) (tid >> 16), (OffsetNumber) (tid & 0xFFFF));
	if (!grnnd_has_row(c->heap, &pointer))
		return false;
	do
	{
		found = table_index_fetch_tuple(c->fetch, &pointer, c->snapshot, c->slot,
										&again, &dead);
	} while (!found && again);
	return found;
}

/*
 * Reports a record that no search finds if the record holds a row visible to the snapshot.  Rows of
 * an aborted transaction, or of an insert interrupted by a crash, do not count.
 */
static void
check_reached(IndexCheck *c, uint32 id, uint64 tid)
{
	bool		chain = grnnd_set_has(&c->chains, id);
	bool		found = chain ? grnnd_set_has(&c->chained, id)
		: grnnd_set_has(&c->reach.reached, id);
	bool		unlisted = grnnd_set_has(&c->unlisted, id);

	if ((found && !unlisted) || grnnd_set_has(&c->reported, id) || !fetch_row(c, tid))
		return;
	ExecClearTuple(c->slot);
	grnnd_set_add(&c->reported, id);
	grnnd_report_record(c, id, found ? "node is in no list of a value that it has"
						: chain ? "in no node's chain"
						: "cannot be reached from the first entry point", GRN_INVALID_ID);
}

/* Reports a record whose own vector and error do not match the table's row. */
static void
check_own(IndexCheck *c, uint32 id, uint64 tid)
{
	const GrnRecord *rec = grnnd_set_has(&c->chains, id) ? grnnd_chain_record(c, id) : NULL;
	const void *vec;
	uint16		version;

	if (rec != NULL)
		id = grn_tids_owner(rec, &version);
	/* unreadable records are reported already; check_chain() reports foreign chains */
	if (id >= c->limit || grnnd_set_has(&c->damaged, id) || grnnd_set_has(&c->reported, id))
		return;
	rec = c->record;
	if (grnnd_copy_record(c->index, c->ix, id, c->record, c->strategy) != GRN_NODE ||
		(vec = grnnd_own_vector(c, rec, id)) == NULL)
		return;
	if (fetch_row(c, tid) && !grnnd_own_matches(c->own, c->slot, vec, rec->error))
	{
		grnnd_set_add(&c->reported, id);
		grnnd_report(c, grnnd_node_block(c->ix, id), grn_node_slot(&c->ix->layout, id),
					 "record %u: keeps another vector than row (%u,%u) of the table has", id,
					 (BlockNumber) (tid >> 16), (OffsetNumber) (tid & 0xFFFF));
	}
	ExecClearTuple(c->slot);
}

static void
report_missing(IndexCheck *c, uint64 tid)
{
	grnnd_report(c, InvalidBlockNumber, -1, "row (%u,%u) of the table is not in the index",
				 (BlockNumber) (tid >> 16), (OffsetNumber) (tid & 0xFFFF));
}

/* Compares all heap TIDs in order; a TID of the table comes before its record in the index. */
void
grnnd_check_tids(IndexCheck *c)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(c->tid_slot->tts_tupleDescriptor,
													&TTSOpsMinimalTuple);
	uint64		last = 0;		/* no TID has this value */
	int64		last_id = 0;
	uint64		wanted = 0;		/* digests of the table's row `last` */
	int64		wanted_values = 0;

	tuplesort_performsort(c->tids);
	while (tuplesort_gettupleslot(c->tids, true, false, slot, NULL))
	{
		bool		isnull;
		uint64		tid = (uint64) DatumGetInt64(slot_getattr(slot, 1, &isnull));
		int64		id = DatumGetInt64(slot_getattr(slot, 2, &isnull));
		int64		values = DatumGetInt64(slot_getattr(slot, 3, &isnull));
		uint64		digest = (uint64) DatumGetInt64(slot_getattr(slot, 4, &isnull));

		CHECK_FOR_INTERRUPTS();
		if (last_id == IN_TABLE && tid != last)
			report_missing(c, last);
		if (id != IN_TABLE)
		{
			check_reached(c, (uint32) id, tid);
			if (tid == last && last_id != IN_TABLE)
				grnnd_report_record(c, (uint32) id, "shares a heap TID with record", (uint32) last_id);
			if (tid == last && last_id == IN_TABLE && values != wanted_values)
				grnnd_report_record(c, (uint32) id, "values of filter columns are not those of the table",
									GRN_INVALID_ID);
			if (tid == last && last_id == IN_TABLE && digest != wanted)
				check_own(c, (uint32) id, tid);
		}
		else
		{
			wanted = digest;
			wanted_values = values;
		}
		last = tid;
		last_id = id;
	}
	if (last_id == IN_TABLE)
		report_missing(c, last);
	ExecDropSingleTupleTableSlot(slot);
}

static void
check_heap_row(Relation index, ItemPointer tid, Datum *values, bool *isnull,
			   bool alive, void *arg)
{
	IndexCheck *c = arg;
	uint64		digest;

	if (!isnull[0] && grnnd_own_wanted(c->own, values[0], &digest))
	{
		MemoryContext old = MemoryContextSwitchTo(c->values);

		grnnd_form_attrs(c->ix->attrs, values, isnull, c->attrs);
		MemoryContextSwitchTo(old);
		MemoryContextReset(c->values);
		grnnd_put_tid(c, tid, IN_TABLE, c->attrs, digest);
	}
}

void
grnnd_check_heap(IndexCheck *c)
{
	IndexInfo  *info = BuildIndexInfo(c->index);
	TableScanDesc scan = table_beginscan_strat(c->heap, c->snapshot, 0, NULL, true, true);

	/* take the rows that the snapshot sees, as a concurrent build does */
	info->ii_Concurrent = true;
	info->ii_Unique = false;
	info->ii_ExclusionOps = NULL;
	c->attrs = palloc(Max(c->ix->attrs->bytes, 1));
	c->values = AllocSetContextCreate(CurrentMemoryContext, "grnnd filter columns",
									  ALLOCSET_SMALL_SIZES);
	table_index_build_scan(c->heap, c->index, info, true, false, check_heap_row, c, scan);
}
