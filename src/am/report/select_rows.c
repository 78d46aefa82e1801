/*
 * select_rows.c - reads rows of a relation by a SELECT without names.
 */
#include "am/report/select_rows.h"

#include "access/tupdesc.h"
#include "catalog/heap.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "rewrite/rewriteHandler.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "am/compat.h"

/* The statement's text for extensions such as auto_explain. */
#define SOURCE_TEXT "SELECT by grnnd"

Expr *
grnnd_select_column(Relation rel, AttrNumber number)
{
	const		FormData_pg_attribute *column;

	if (number < 0)
		column = SystemAttributeDefinition(number);
	else
		column = TupleDescAttr(RelationGetDescr(rel), number - 1);
	return (Expr *) makeVar(1, number, column->atttypid, column->atttypmod, column->attcollation, 0);
}

/*
 * Adds the relation to the range table, with the columns of the expressions as selected columns.
 */
static void
add_relation(Query *query, const GrnndSelect *s)
{
	ParseState *pstate = make_parsestate(NULL);
	ParseNamespaceItem *item = addRangeTableEntryForRelation(pstate, s->rel, AccessShareLock, NULL,
															 !s->only, true);
	RangeTblRef *ref = makeNode(RangeTblRef);
	Bitmapset  *columns = NULL;

	pull_varattnos((Node *) s->values, 1, &columns);
	pull_varattnos((Node *) s->where, 1, &columns);
#if PG_VERSION_NUM >= 160000
	item->p_perminfo->selectedCols = columns;
	query->rteperminfos = pstate->p_rteperminfos;
#else
	item->p_rte->selectedCols = columns;
#endif
	query->rtable = pstate->p_rtable;
	ref->rtindex = 1;
	query->jointree = makeFromExpr(list_make1(ref),
								   s->where == NIL ? NULL : (Node *) make_ands_explicit(copyObject(s->where)));
	free_parsestate(pstate);
}

PlannedStmt *
grnnd_plan_select(const GrnndSelect *s)
{
	Query	   *query = makeNode(Query);
	ListCell   *lc;

	query->commandType = CMD_SELECT;
	query->querySource = QSRC_ORIGINAL;
	query->canSetTag = true;
	add_relation(query, s);
	foreach(lc, s->values)
	{
		int			number = foreach_current_index(lc) + 1;

		query->targetList = lappend(query->targetList,
									makeTargetEntry(copyObject(lfirst(lc)), (AttrNumber) number,
													psprintf("value%d", number), false));
	}
	if (s->limit > 0)
	{
		SortGroupClause *sort = makeNode(SortGroupClause);

		sort->tleSortGroupRef = llast_node(TargetEntry, query->targetList)->ressortgroupref = 1;
		sort->sortop = s->less;
		sort->eqop = get_equality_op_for_ordering_op(s->less, NULL);
		query->sortClause = list_make1(sort);
		query->limitCount = (Node *) makeConst(INT8OID, -1, InvalidOid, sizeof(int64),
											   Int64GetDatum(s->limit), false, FLOAT8PASSBYVAL);
		query->limitOption = LIMIT_OPTION_COUNT;
	}
	query = linitial_node(Query, QueryRewrite(query));
	return GRNND_PLAN_QUERY(query, SOURCE_TEXT);
}

/* ---- a run ---- */

typedef struct Receiver
{
	DestReceiver base;			/* must be first */
	GrnndRowFn	fn;
	void	   *arg;
	MemoryContext row;			/* reset after each row */
} Receiver;

/* DestReceiver.receiveSlot */
static bool
receive(TupleTableSlot *slot, DestReceiver * self)
{
	Receiver   *r = (Receiver *) self;
	MemoryContext old = MemoryContextSwitchTo(r->row);

	slot_getallattrs(slot);
	r->fn(r->arg, slot->tts_values, slot->tts_isnull);
	MemoryContextSwitchTo(old);
	MemoryContextReset(r->row);
	return true;
}

/* DestReceiver.rStartup */
static void
begin_rows(DestReceiver * self, int operation, TupleDesc desc)
{
}

/* DestReceiver.rShutdown and rDestroy */
static void
end_rows(DestReceiver * self)
{
}

void
grnnd_run_select(PlannedStmt * plan, ParamListInfo params, GrnndRowFn fn, void *arg)
{
	Receiver	r = {
		.base = {receive, begin_rows, end_rows, end_rows, DestTuplestore},
		.fn = fn,
		.arg = arg,
		.row = AllocSetContextCreate(CurrentMemoryContext, "grnnd row", ALLOCSET_DEFAULT_SIZES)
	};
	QueryDesc  *desc = CreateQueryDesc(plan, SOURCE_TEXT, GetActiveSnapshot(), InvalidSnapshot, &r.base,
									   params, NULL, 0);

	ExecutorStart(desc, 0);
	GRNND_EXECUTOR_RUN(desc);
	ExecutorFinish(desc);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
	MemoryContextDelete(r.row);
}
