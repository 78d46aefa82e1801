/*
 * scan_sort.c - rows in the order of their values, of which there may be more than memory holds.
 */
#include "am/scan/scan_impl.h"

#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/tuplesort.h"

#define COLUMNS 4

struct GrnndSort
{
	Tuplesortstate *state;		/* (late, value, TID, id) */
	TupleTableSlot *given;
	TupleTableSlot *next;
	bool		waits;			/* `next` holds a row that is not taken yet */
};

GrnndSort *
grnnd_sort_begin(void)
{
	GrnndSort  *sort = palloc0(sizeof(GrnndSort));
	AttrNumber	columns[] = {1, 2};
	Oid			operators[] = {Float8LessOperator, Float8LessOperator};
	Oid			collations[] = {InvalidOid, InvalidOid};
	bool		nulls_first[] = {false, false};
	TupleDesc	desc = CreateTemplateTupleDesc(COLUMNS);

	TupleDescInitEntry(desc, 1, "late", FLOAT8OID, -1, 0);
	TupleDescInitEntry(desc, 2, "value", FLOAT8OID, -1, 0);
	TupleDescInitEntry(desc, 3, "tid", INT8OID, -1, 0);
	TupleDescInitEntry(desc, 4, "id", INT8OID, -1, 0);
	TupleDescFinalize(desc);
	sort->state = tuplesort_begin_heap(desc, 2, columns, operators, collations, nulls_first,
									   work_mem, NULL, TUPLESORT_NONE);
	sort->given = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	sort->next = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	return sort;
}

void
grnnd_sort_put(GrnndSort *sort, bool late, double value, int64 tid, int64 id)
{
	TupleTableSlot *slot = sort->given;

	ExecClearTuple(slot);
	slot->tts_values[0] = Float8GetDatum(late);
	slot->tts_values[1] = Float8GetDatum(value);
	slot->tts_values[2] = Int64GetDatum(tid);
	slot->tts_values[3] = Int64GetDatum(id);
	memset(slot->tts_isnull, 0, COLUMNS * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	tuplesort_puttupleslot(sort->state, slot);
}

void
grnnd_sort_perform(GrnndSort *sort)
{
	ExecDropSingleTupleTableSlot(sort->given);
	tuplesort_performsort(sort->state);
}

bool
grnnd_sort_bound(GrnndSort *sort, double *value)
{
	bool		isnull;

	sort->waits = sort->waits || tuplesort_gettupleslot(sort->state, true, false, sort->next, NULL);
	if (sort->waits)
		*value = DatumGetFloat8(slot_getattr(sort->next, 2, &isnull));
	return sort->waits;
}

bool
grnnd_sort_next(GrnndSort *sort, double *value, int64 *tid, int64 *id)
{
	bool		isnull;

	if (!grnnd_sort_bound(sort, value))
		return false;
	sort->waits = false;
	*tid = DatumGetInt64(slot_getattr(sort->next, 3, &isnull));
	*id = DatumGetInt64(slot_getattr(sort->next, 4, &isnull));
	return true;
}

void
grnnd_sort_end(GrnndSort *sort)
{
	if (sort == NULL)
		return;
	ExecDropSingleTupleTableSlot(sort->next);
	tuplesort_end(sort->state);
}
