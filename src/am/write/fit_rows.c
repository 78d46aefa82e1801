/*
 * fit_rows.c - distances of the table's rows, for indexes whose stored vectors are too coarse to
 * measure recall (fit_recall.c).
 *
 * VACUUM does not measure recall by rows: other backends do not wait for VACUUM's snapshot before
 * they remove values stored out of line.
 */
#include "am/write/fit_impl.h"

#include "access/table.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "catalog/pg_amop.h"
#include "executor/executor.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "am/callbacks.h"
#include "am/compat.h"
#include "am/index/index.h"

struct FitRows
{
	Relation	heap;
	IndexFetchTableData *fetch;
	TupleTableSlot *slot;
	IndexInfo  *info;
	EState	   *estate;
	FmgrInfo	distance;
	Oid			collation;
	MemoryContext value;		/* reset after each row */
};

FitRows *
grnnd_fit_rows_begin(const Fit *f)
{
	FitRows    *r = palloc0(sizeof(FitRows));
	Oid			type = f->index->rd_opcintype[0];

	r->heap = table_open(f->index->rd_index->indrelid, NoLock);
	PushActiveSnapshot(GetTransactionSnapshot());
	r->fetch = GRNND_INDEX_FETCH_BEGIN(r->heap);
	r->slot = table_slot_create(r->heap, NULL);
	r->info = BuildIndexInfo(f->index);
	r->estate = CreateExecutorState();
	r->collation = f->index->rd_indcollation[0];
	fmgr_info(get_opcode(get_opfamily_member(f->index->rd_opfamily[0], type, type,
											 GRNND_DISTANCE_STRATEGY)), &r->distance);
	r->value = AllocSetContextCreate(CurrentMemoryContext, "grnnd value", ALLOCSET_SMALL_SIZES);
	return r;
}

void
grnnd_fit_rows_end(FitRows *r)
{
	ExecDropSingleTupleTableSlot(r->slot);
	table_index_fetch_end(r->fetch);
	FreeExecutorState(r->estate);
	MemoryContextDelete(r->value);
	PopActiveSnapshot();
	table_close(r->heap, NoLock);
}

/* Returns the value of a row, in the slot or r->value.  Returns false if it is invisible. */
static bool
fetch_value(FitRows *r, const ItemPointerData *tid, Datum *value)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	ItemPointerData at = *tid;
	bool		again = false;
	bool		dead;

	if (!grnnd_has_row(r->heap, &at) ||
		!table_index_fetch_tuple(r->fetch, &at, GetActiveSnapshot(), r->slot, &again, &dead))
		return false;
	ResetPerTupleExprContext(r->estate);
	GetPerTupleExprContext(r->estate)->ecxt_scantuple = r->slot;
	FormIndexDatum(r->info, r->slot, r->estate, values, isnull);
	*value = values[0];
	return !isnull[0];
}

bool
grnnd_fit_rows_query(FitRows *r, const ItemPointerData *tid, Datum *value)
{
	bool		found = fetch_value(r, tid, value);

	if (found)
		*value = PointerGetDatum(PG_DETOAST_DATUM_COPY(*value));
	ExecClearTuple(r->slot);
	return found;
}

double
grnnd_fit_rows_distance(FitRows *r, Datum query, const ItemPointerData *tid)
{
	MemoryContext old = MemoryContextSwitchTo(r->value);
	double		d = get_float8_infinity();
	Datum		value;

	if (fetch_value(r, tid, &value))
		d = DatumGetFloat8(FunctionCall2Coll(&r->distance, r->collation, value, query));
	ExecClearTuple(r->slot);
	MemoryContextSwitchTo(old);
	MemoryContextReset(r->value);
	return d;
}
