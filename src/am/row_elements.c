/*
 * row_elements.c - elements of arrays, read from rows of the table by their TIDs.
 */
#include "am/row_elements.h"

#include "access/table.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

struct GrnndRowElements
{
	const GrnndAttrs *attrs;
	Relation	heap;
	IndexFetchTableData *fetch;
	TupleTableSlot *slot;
	IndexInfo  *info;
	EState	   *estate;
	Snapshot	snapshot;
	SnapshotData anybody;		/* where it is not another one */
	bool		pushed;			/* a snapshot for functions */
	MemoryContext row;			/* while one is read */
	uint8	   *elements;		/* [attrs->element_bytes] */
};

GrnndRowElements *
grnnd_elements_begin(Relation index, const GrnndAttrs *attrs, Snapshot snapshot)
{
	GrnndRowElements *r;

	if (attrs->element_bytes == 0)
		return NULL;
	r = palloc0(sizeof(GrnndRowElements));
	r->attrs = attrs;
	r->heap = table_open(index->rd_index->indrelid, AccessShareLock);
	r->fetch = GRNND_INDEX_FETCH_BEGIN(r->heap);
	r->slot = table_slot_create(r->heap, NULL);
	r->info = BuildIndexInfo(index);
	r->estate = CreateExecutorState();
	r->row = AllocSetContextCreate(CurrentMemoryContext, "grnnd elements", ALLOCSET_SMALL_SIZES);
	r->elements = palloc(attrs->element_bytes);
	if (!ActiveSnapshotSet())
	{
		PushActiveSnapshot(GetTransactionSnapshot());
		r->pushed = true;
	}
	r->snapshot = snapshot;
	if (snapshot == NULL)
	{
		InitNonVacuumableSnapshot(r->anybody, GlobalVisTestFor(r->heap));
		r->snapshot = &r->anybody;
	}
	return r;
}

void
grnnd_elements_end(GrnndRowElements *r)
{
	if (r == NULL)
		return;
	if (r->pushed)
		PopActiveSnapshot();
	table_index_fetch_end(r->fetch);
	ExecDropSingleTupleTableSlot(r->slot);
	FreeExecutorState(r->estate);
	MemoryContextDelete(r->row);
	table_close(r->heap, NoLock);
	pfree(r->elements);
	pfree(r);
}

/* Puts the row into the slot. */
static bool
fetch_row(GrnndRowElements *r, const uint8 *packed)
{
	ItemPointerData tid;
	bool		again = false;
	bool		dead = false;
	bool		found;

	memcpy(&tid, packed, GRN_TID_BYTES);
	do
		found = table_index_fetch_tuple(r->fetch, &tid, r->snapshot, r->slot, &again, &dead);
	while (!found && again);
	return found;
}

/* Has one of the arrays beside a TID an element? */
static bool
has_elements(const GrnndAttrs *attrs, const uint8 *values)
{
	for (uint32 i = 0; i < attrs->n; i++)
	{
		int64		key;

		if (attrs->attr[i].type->kind == GRNND_ATTR_ARRAY &&
			grnnd_attr_key(attrs, i, values, &key) && key != 0)
			return true;
	}
	return false;
}

/*
 * The index's value of a column.  *many: it is an array of the table that lies outside of the row,
 * and no snapshot of ours sees that.  Its TOAST may be gone, and it mostly has many elements.
 */
static Datum
index_value(GrnndRowElements *r, uint32 column, const Datum *formed, const bool *formed_null,
			bool *isnull, bool *many)
{
	AttrNumber	number = r->info->ii_IndexAttrNumbers[column + 1];
	Datum		value;

	*many = false;
	if (number == 0)
	{
		*isnull = formed_null[column + 1];
		return formed[column + 1];
	}
	value = slot_getattr(r->slot, number, isnull);
	*many = !*isnull && r->snapshot == &r->anybody && VARATT_IS_EXTERNAL(DatumGetPointer(value));
	return value;
}

const uint8 *
grnnd_read_elements(GrnndRowElements *r, const uint8 *tid, const uint8 *values)
{
	Datum		formed[INDEX_MAX_KEYS];
	bool		formed_null[INDEX_MAX_KEYS];
	bool		expressions = r->info->ii_Expressions != NIL;
	MemoryContext old;

	memset(r->elements, 0, r->attrs->element_bytes);
	if (!has_elements(r->attrs, values))
		return r->elements;
	if (!fetch_row(r, tid))
		return NULL;
	old = MemoryContextSwitchTo(r->row);
	if (expressions)
	{
		ResetPerTupleExprContext(r->estate);
		GetPerTupleExprContext(r->estate)->ecxt_scantuple = r->slot;
		FormIndexDatum(r->info, r->slot, r->estate, formed, formed_null);
	}
	for (uint32 i = 0; i < r->attrs->n; i++)
	{
		const GrnndAttr *attr = &r->attrs->attr[i];
		bool		isnull;
		bool		many;
		Datum		value;

		if (attr->type->kind != GRNND_ATTR_ARRAY)
			continue;
		value = index_value(r, i, formed, formed_null, &isnull, &many);
		if (many)
			grnnd_set_many_elements(attr, r->elements);
		else if (!isnull)
			grnnd_set_elements(attr, value, r->elements);
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(r->row);
	ExecClearTuple(r->slot);
	return r->elements;
}
