/*
 * scan_threshold.c - the greatest distance that a query's WHERE clause lets through.
 *
 * "WHERE e <-> q < r ORDER BY e <-> q LIMIT k" with fewer than k such rows would read the whole
 * index, because an access method is not told of conditions that its operators do not answer.
 * So the executor's start is looked at: where a scan of one of our indexes has such a
 * condition on the distance it orders by, the scan ends at that distance.  The executor still
 * checks the condition for every row.
 *
 * A scan knows its plan node by the array of scan keys that the node hands to amrescan.  Nodes
 * that are started in another way (rows checked again by EvalPlanQual) are not found; their
 * scans go on to the end.
 */
#include "am/scan.h"

#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/datum.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "am/handler.h"

/* One condition "distance < limit" of a scan. */
typedef struct Threshold
{
	struct Threshold *next;		/* of all nodes */
	ScanKey		keys;			/* the node's array of ORDER BY keys */
	ExprContext *econtext;
	Oid			query_type;
	ExprState  *query;			/* from which the condition measures */
	ExprState  *limit;			/* float8 */
	MemoryContextCallback callback; /* when the execution ends */
} Threshold;

static Threshold *thresholds;	/* of all executions that are under way */
static ExecutorStart_hook_type next_executor_start;

/* The executor's memory goes: so do its conditions. */
static void
forget(void *arg)
{
	Threshold  *mine = arg;

	for (Threshold **t = &thresholds; *t != NULL; t = &(*t)->next)
		if (*t == mine)
		{
			*t = mine->next;
			break;
		}
}

/* May it be computed once for a scan? */
static bool
is_fixed(Node *expression, Index scanrelid)
{
	return !bms_is_member(scanrelid, pull_varnos(NULL, expression)) &&
		!contain_volatile_functions(expression) &&
		!contain_subplans(expression);
}

/*
 * If the clause is "distance < limit" by the operator of orderby, with the same key: the
 * query from which it measures, and the limit.
 */
static bool
is_threshold(Node *clause, const OpExpr *orderby, Index scanrelid, Node **query, Node **limit)
{
	OpExpr	   *compare = (OpExpr *) clause;
	OpExpr	   *distance;
	Node	   *key = linitial(orderby->args);
	Oid			function;

	if (!is_opclause(clause) || list_length(compare->args) != 2)
		return false;
	function = get_opcode(compare->opno);
	if (function == F_FLOAT8LT || function == F_FLOAT8LE)
	{
		distance = linitial(compare->args);
		*limit = lsecond(compare->args);
	}
	else if (function == F_FLOAT8GT || function == F_FLOAT8GE)
	{
		distance = lsecond(compare->args);
		*limit = linitial(compare->args);
	}
	else
		return false;

	if (!is_opclause(distance) || list_length(distance->args) != 2)
		return false;
	if (distance->opno == orderby->opno && equal(linitial(distance->args), key))
		*query = lsecond(distance->args);
	else if (get_commutator(distance->opno) == orderby->opno && equal(lsecond(distance->args), key))
		*query = linitial(distance->args);
	else
		return false;
	return is_fixed(*query, scanrelid) && is_fixed(*limit, scanrelid);
}

/* Notes the conditions of a scan. */
static void
note_thresholds(IndexScanState *node)
{
	const IndexScan *plan = (const IndexScan *) node->ss.ps.plan;
	EState	   *estate = node->ss.ps.state;
	const OpExpr *orderby;
	MemoryContext old;
	ListCell   *lc;

	if (node->iss_NumOrderByKeys != 1 || node->iss_RelationDesc == NULL ||
		node->iss_RelationDesc->rd_indam->amgettuple != grnnd_gettuple)
		return;
	orderby = linitial(plan->indexorderbyorig);
	if (!IsA(orderby, OpExpr) || list_length(orderby->args) != 2)
		return;

	old = MemoryContextSwitchTo(estate->es_query_cxt);
	foreach(lc, plan->scan.plan.qual)
	{
		Node	   *query;
		Node	   *limit;
		Threshold  *t;

		if (!is_threshold(lfirst(lc), orderby, plan->scan.scanrelid, &query, &limit))
			continue;
		t = palloc(sizeof(Threshold));
		t->keys = node->iss_OrderByKeys;
		t->econtext = node->ss.ps.ps_ExprContext;
		t->query_type = exprType(query);
		t->query = ExecInitExpr((Expr *) query, &node->ss.ps);
		t->limit = ExecInitExpr((Expr *) limit, &node->ss.ps);
		t->callback.func = forget;
		t->callback.arg = t;
		t->next = thresholds;
		thresholds = t;
		MemoryContextRegisterResetCallback(estate->es_query_cxt, &t->callback);
	}
	MemoryContextSwitchTo(old);
}

static bool
find_scans(PlanState * node, void *context)
{
	if (IsA(node, IndexScanState))
		note_thresholds((IndexScanState *) node);
	return planstate_tree_walker(node, find_scans, context);
}

static void
executor_start(QueryDesc * query, int eflags)
{
	if (next_executor_start != NULL)
		next_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
	if (!(eflags & EXEC_FLAG_EXPLAIN_ONLY) && query->planstate != NULL)
		find_scans(query->planstate, NULL);
}

void
grnnd_watch_thresholds(void)
{
	next_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
}

double
grnnd_threshold(ScanKey keys, ScanKey key)
{
	double		least = get_float8_infinity();

	if (key->sk_flags & SK_ISNULL)
		return least;
	for (const Threshold *t = thresholds; t != NULL; t = t->next)
	{
		bool		isnull;
		int16		length;
		bool		by_value;
		Datum		query;
		double		limit;

		if (t->keys != keys)
			continue;
		query = ExecEvalExprSwitchContext(t->query, t->econtext, &isnull);
		get_typlenbyval(t->query_type, &length, &by_value);
		if (isnull || !datum_image_eq(query, key->sk_argument, by_value, length))
			continue;
		limit = DatumGetFloat8(ExecEvalExprSwitchContext(t->limit, t->econtext, &isnull));
		/* no distance is less than NULL; NaN is more than every other */
		if (isnull)
			limit = -get_float8_infinity();
		if (!isnan(limit))
			least = Min(least, limit);
	}
	return least;
}
