/*
 * row_elements.c - reads the elements of arrays from rows of the table by their TIDs.
 *
 * Lists are made without regard to visibility.  A standby's query may see a version that is dead
 * here, until replay of its removal.  Versions of a TID (HOT) from before the index may have other
 * arrays than the indexed version.
 */
#include "am/filter/filter.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "optimizer/optimizer.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "am/index/index.h"

struct GrnndRowElements
{
	const GrnndAttrs *attrs;
	Relation	heap;
	IndexFetchTableData *fetch;
	TupleTableSlot *slot;
	AttrNumber	numbers[INDEX_MAX_KEYS];	/* filter columns' numbers in the table; 0: an
											 * expression */
	ExprState  *expressions[INDEX_MAX_KEYS];	/* expressions of array columns */
	Bitmapset  *uses[INDEX_MAX_KEYS];	/* table columns in these expressions, as by
										 * pull_varattnos() */
	EState	   *estate;
	Snapshot	snapshot;
	bool		pushed;			/* this struct pushed a snapshot for functions */
	MemoryContext row;			/* memory for reading one row */
	uint8	   *elements;		/* [attrs->element_bytes] */
};

/* Fills the column numbers and prepares the expressions. */
static void
prepare_columns(GrnndRowElements *r, Relation index)
{
	IndexInfo  *info = BuildIndexInfo(index);
	ListCell   *next = list_head(info->ii_Expressions);

	for (int i = 0; i < info->ii_NumIndexKeyAttrs; i++)
	{
		Node	   *expression = NULL;

		if (info->ii_IndexAttrNumbers[i] == 0)
		{
			expression = lfirst(next);
			next = lnext(info->ii_Expressions, next);
		}
		if (i == 0)
			continue;
		r->numbers[i - 1] = info->ii_IndexAttrNumbers[i];
		if (expression == NULL || r->attrs->attr[i - 1].type->kind != GRNND_ATTR_ARRAY)
			continue;
		r->expressions[i - 1] = ExecPrepareExpr((Expr *) expression, r->estate);
		pull_varattnos(expression, 1, &r->uses[i - 1]);
	}
}

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
	r->estate = CreateExecutorState();
	r->row = AllocSetContextCreate(CurrentMemoryContext, "grnnd elements", ALLOCSET_SMALL_SIZES);
	r->elements = palloc(attrs->element_bytes);
	if (!ActiveSnapshotSet())
	{
		PushActiveSnapshot(GetTransactionSnapshot());
		r->pushed = true;
	}
	r->snapshot = snapshot != NULL ? snapshot : SnapshotAny;
	prepare_columns(r, index);
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

/* Does one of the arrays beside a TID have an element? */
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

/* Is a column of the table stored outside the row (TOAST)?  number 0: any column. */
static bool
lies_outside(GrnndRowElements *r, AttrNumber number)
{
	TupleDesc	desc = r->slot->tts_tupleDescriptor;
	int			first = number == 0 ? 1 : number;
	int			last = number == 0 ? desc->natts : number;

	for (int i = first; i <= last && i > 0; i++)
	{
		bool		isnull;
		Datum		value = slot_getattr(r->slot, i, &isnull);

		if (!isnull && TupleDescAttr(desc, i - 1)->attlen == -1 &&
			VARATT_IS_EXTERNAL(DatumGetPointer(value)))
			return true;
	}
	return false;
}

/*
 * May the array of a column, or a source column of its expression, be unreadable?  A version that
 * no snapshot of ours sees may have lost its TOAST data, and such an array mostly has many
 * elements.
 */
static bool
may_lack(GrnndRowElements *r, uint32 column)
{
	int			i = -1;

	if (r->snapshot != SnapshotAny)
		return false;
	if (r->expressions[column] == NULL)
		return lies_outside(r, r->numbers[column]);
	while ((i = bms_next_member(r->uses[column], i)) >= 0)
		if (lies_outside(r, (AttrNumber) (i + FirstLowInvalidHeapAttributeNumber)))
			return true;
	return false;
}

/* The index's value of a column, in r->row or in the slot's memory. */
static Datum
index_value(GrnndRowElements *r, uint32 column, bool *isnull)
{
	ExprContext *econtext = GetPerTupleExprContext(r->estate);

	if (r->expressions[column] == NULL)
		return slot_getattr(r->slot, r->numbers[column], isnull);
	ResetPerTupleExprContext(r->estate);
	econtext->ecxt_scantuple = r->slot;
	return ExecEvalExprSwitchContext(r->expressions[column], econtext, isnull);
}

/* Adds the elements of the version in the slot. */
static void
add_version(GrnndRowElements *r)
{
	MemoryContext old = MemoryContextSwitchTo(r->row);

	for (uint32 i = 0; i < r->attrs->n; i++)
	{
		const GrnndAttr *attr = &r->attrs->attr[i];
		bool		isnull;
		Datum		value;

		if (attr->type->kind != GRNND_ATTR_ARRAY)
			continue;
		if (may_lack(r, i))
			grnnd_set_many_elements(attr, r->elements);
		else
		{
			value = index_value(r, i, &isnull);
			if (!isnull)
				grnnd_add_elements(attr, value, r->elements);
		}
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(r->row);
}

const uint8 *
grnnd_read_elements(GrnndRowElements *r, const uint8 *tid, const uint8 *values)
{
	ItemPointerData at;
	bool		again = false;
	bool		found = false;

	memset(r->elements, 0, r->attrs->element_bytes);
	if (!has_elements(r->attrs, values))
		return r->elements;
	memcpy(&at, tid, GRN_TID_BYTES);
	if (!grnnd_has_row(r->heap, &at))
		return NULL;
	do
	{
		bool		dead = false;

		if (!table_index_fetch_tuple(r->fetch, &at, r->snapshot, r->slot, &again, &dead))
			break;
		found = true;
		add_version(r);
	} while (again);
	ExecClearTuple(r->slot);
	return found ? r->elements : NULL;
}
