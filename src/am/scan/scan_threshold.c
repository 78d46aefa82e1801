/*
 * scan_threshold.c - what the plan above a scan asks for: the greatest distance that WHERE accepts,
 * and the number of rows of LIMIT.
 *
 * "WHERE e <-> q < r ORDER BY e <-> q LIMIT k" with fewer than k such rows would read the whole
 * index, because PostgreSQL does not tell an access method of conditions outside its operator
 * family.  So a hook examines each plan at the executor's start.  If a scan of one of our indexes
 * has such a condition on the distance of its order, the scan ends at that distance.  The executor
 * still checks the condition for every row.
 *
 * A scan finds its notes by the array of scan keys that its plan node hands to amrescan.  Nodes
 * started in another way (rows checked again by EvalPlanQual) have no notes, and their scans go on
 * to the end.
 */
#include "am/scan/scan_impl.h"

#include <float.h>
#include <math.h>

#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/datum.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "am/callbacks.h"
#include "am/scan/scan.h"

/*
 * A condition of a scan: "distance < limit"; or, for a similarity that falls as the distance
 * grows, "term - distance > limit" or "distance * factor > limit" with a negative factor.
 */
typedef struct Threshold
{
	struct Threshold *next;		/* next condition of the plan node */
	ExprContext *econtext;
	Oid			query_type;
	bool		below;			/* "< limit"; otherwise "> limit" */
	ExprState  *query;			/* query of the condition's distance */
	ExprState  *limit;			/* float8, as are `term` and `factor`, of which at least one is
								 * NULL */
	ExprState  *term;
	ExprState  *factor;
} Threshold;

static HTAB * planned;			/* GrnndPlanned of all running executions */
static ExecutorStart_hook_type next_executor_start;

/* Callback for the end of the executor's memory: removes the notes. */
static void
forget_notes(void *arg)
{
	hash_search(planned, &((GrnndPlanned *) arg)->keys, HASH_REMOVE, NULL);
}

GrnndPlanned *
grnnd_planned(ScanKey keys)
{
	return planned == NULL ? NULL : hash_search(planned, &keys, HASH_FIND, NULL);
}

GrnndPlanned *
grnnd_note_planned(const IndexScanState *node)
{
	GrnndPlanned *note = grnnd_planned(node->iss_OrderByKeys);
	HASHCTL		control = {.keysize = sizeof(ScanKey), .entrysize = sizeof(GrnndPlanned)};

	if (note != NULL)
		return note;
	if (planned == NULL)
		planned = hash_create("grnnd scans", 16, &control, HASH_ELEM | HASH_BLOBS);
	note = hash_search(planned, &node->iss_OrderByKeys, HASH_ENTER, NULL);
	note->thresholds = NULL;
	note->conditions = NULL;
	note->limit = NULL;
	note->set = NULL;
	note->filtered = node->ss.ps.qual != NULL;
	note->rows = ((IndexScan *) node->ss.ps.plan)->indexqual == NIL ? node->ss.ps.plan->plan_rows : 0;
	note->callback.func = forget_notes;
	note->callback.arg = note;
	MemoryContextRegisterResetCallback(node->ss.ps.state->es_query_cxt, &note->callback);
	return note;
}

bool
grnnd_is_fixed(Node *expression, Index scanrelid)
{
	return expression == NULL ||
		(!bms_is_member(scanrelid, pull_varnos(NULL, expression)) &&
		 !contain_volatile_functions(expression) &&
		 !contain_subplans(expression));
}

/* The parts of a condition, as expressions. */
typedef struct Parts
{
	bool		below;
	Node	   *query;
	Node	   *limit;
	Node	   *term;
	Node	   *factor;
} Parts;

static bool
is_operator(Node *node, Oid function)
{
	return is_opclause(node) && list_length(((OpExpr *) node)->args) == 2 &&
		get_opcode(((OpExpr *) node)->opno) == function;
}

/* Is the expression the distance in `orderby`, by operator and key?  Returns its query. */
static bool
is_distance(Node *node, const OpExpr *orderby, Node **query)
{
	const OpExpr *distance = (const OpExpr *) node;
	Node	   *key = linitial(orderby->args);

	if (!is_opclause(node) || list_length(distance->args) != 2)
		return false;
	if (distance->opno == orderby->opno && equal(linitial(distance->args), key))
		*query = lsecond(distance->args);
	else if (get_commutator(distance->opno) == orderby->opno && equal(lsecond(distance->args), key))
		*query = linitial(distance->args);
	else
		return false;
	return true;
}

/* Is the expression the distance, or a similarity made from the distance? */
static bool
is_of_distance(Node *node, const OpExpr *orderby, Parts *parts)
{
	List	   *args;

	if (is_distance(node, orderby, &parts->query))
		return true;
	if (!is_operator(node, F_FLOAT8MI) && !is_operator(node, F_FLOAT8MUL))
		return false;
	args = ((OpExpr *) node)->args;
	if (is_operator(node, F_FLOAT8MI))
	{
		parts->term = linitial(args);
		return is_distance(lsecond(args), orderby, &parts->query);
	}
	parts->factor = lsecond(args);
	if (is_distance(linitial(args), orderby, &parts->query))
		return true;
	parts->factor = linitial(args);
	return is_distance(lsecond(args), orderby, &parts->query);
}

/* Splits a clause into its parts.  Returns false if the clause is no threshold. */
static bool
is_threshold(Node *clause, const OpExpr *orderby, Index scanrelid, Parts *parts)
{
	Node	   *left;
	Node	   *right;

	memset(parts, 0, sizeof(Parts));
	parts->below = is_operator(clause, F_FLOAT8LT) || is_operator(clause, F_FLOAT8LE);
	if (!parts->below && !is_operator(clause, F_FLOAT8GT) && !is_operator(clause, F_FLOAT8GE))
		return false;
	left = linitial(((OpExpr *) clause)->args);
	right = lsecond(((OpExpr *) clause)->args);
	parts->limit = right;
	if (!is_of_distance(left, orderby, parts))
	{
		bool		below = !parts->below;

		memset(parts, 0, sizeof(Parts));
		parts->below = below;
		parts->limit = left;
		if (!is_of_distance(right, orderby, parts))
			return false;
	}
	return grnnd_is_fixed(parts->query, scanrelid) && grnnd_is_fixed(parts->limit, scanrelid) &&
		grnnd_is_fixed(parts->term, scanrelid) && grnnd_is_fixed(parts->factor, scanrelid);
}

/* Notes the thresholds of a scan. */
static void
note_thresholds(IndexScanState *node)
{
	const IndexScan *plan = (const IndexScan *) node->ss.ps.plan;
	EState	   *estate = node->ss.ps.state;
	const OpExpr *orderby;
	MemoryContext old;
	ListCell   *lc;

	if (node->iss_NumOrderByKeys != 1)
		return;
	orderby = linitial(plan->indexorderbyorig);
	if (!IsA(orderby, OpExpr) || list_length(orderby->args) != 2)
		return;

	old = MemoryContextSwitchTo(estate->es_query_cxt);
	foreach(lc, plan->scan.plan.qual)
	{
		Parts		parts;
		Threshold  *t;
		GrnndPlanned *note;

		if (!is_threshold(lfirst(lc), orderby, plan->scan.scanrelid, &parts))
			continue;
		t = palloc(sizeof(Threshold));
		t->econtext = node->ss.ps.ps_ExprContext;
		t->query_type = exprType(parts.query);
		t->below = parts.below;
		t->query = ExecInitExpr((Expr *) parts.query, &node->ss.ps);
		t->limit = ExecInitExpr((Expr *) parts.limit, &node->ss.ps);
		/* ExecInitExpr() returns NULL for NULL */
		t->term = ExecInitExpr((Expr *) parts.term, &node->ss.ps);
		t->factor = ExecInitExpr((Expr *) parts.factor, &node->ss.ps);
		note = grnnd_note_planned(node);
		t->next = note->thresholds;
		note->thresholds = t;
	}
	MemoryContextSwitchTo(old);
}

static bool
is_ours(const IndexScanState *node)
{
	return node->iss_NumOrderByKeys > 0 && node->iss_RelationDesc != NULL &&
		node->iss_RelationDesc->rd_indam->amgettuple == grnnd_gettuple;
}

/*
 * ---- the number of rows that the LIMIT above a scan asks for ----
 *
 * A search too narrow for LIMIT goes on in batches, with more visits than one wider search.  So the
 * hook notes a Limit node above a scan of ours, if no node between them drops or adds rows.  If a
 * filter drops rows, the scan needs at least LIMIT rows.
 */

/* The scan below a node that passes rows on one by one, or NULL. */
static IndexScanState *
scan_below(PlanState * node)
{
	for (;;)
	{
		if (node == NULL || IsA(node, IndexScanState))
			return (IndexScanState *) node;
		if (IsA(node, SubqueryScanState))
			node = ((SubqueryScanState *) node)->subplan;
		else if (IsA(node, ResultState) || IsA(node, LockRowsState))
			node = outerPlanState(node);
		else
			return grnnd_scan_with_bitmap(node);
	}
}

/* Notes a Limit node if a scan of ours is below it. */
static void
note_limit(LimitState * node)
{
	const IndexScanState *scan = scan_below(outerPlanState(node));

	if (scan != NULL && is_ours(scan))
		grnnd_note_planned(scan)->limit = node;
}

uint64
grnnd_limit(ScanKey keys, bool *filtered, double *rows)
{
	const GrnndPlanned *note = grnnd_planned(keys);
	const		LimitState *limit = note == NULL ? NULL : note->limit;

	*filtered = limit != NULL && note->filtered;
	*rows = *filtered ? note->rows : 0;
	/* the executor computes both before it asks for the first row */
	return limit == NULL || limit->noCount ? 0 : (uint64) limit->count + (uint64) limit->offset;
}

/* ---- the hook ---- */

static bool
find_scans(PlanState * node, void *context)
{
	if (IsA(node, IndexScanState) && is_ours((IndexScanState *) node))
	{
		note_thresholds((IndexScanState *) node);
		grnnd_note_quals((IndexScanState *) node);
	}
	else if (IsA(node, LimitState))
		note_limit((LimitState *) node);
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
grnnd_install_executor_hook(void)
{
	next_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
}

/* Computes an expression of a threshold.  *null: the condition is NULL, and no row passes. */
static double
compute(const Threshold *t, ExprState * expression, bool *null)
{
	bool		isnull;
	Datum		value = ExecEvalExprSwitchContext(expression, t->econtext, &isnull);

	*null |= isnull;
	return isnull ? 0 : DatumGetFloat8(value);
}

/* Upper bound of the rounding error of a condition with a number of this size. */
static double
rounding(double of)
{
	return isfinite(of) ? 2 * DBL_EPSILON * of : 0;
}

/*
 * The greatest distance that passes a condition.  Infinity: no limit, or unknown.  Minus infinity:
 * hardly any row passes.  For a similarity the result is slightly larger, because the executor's
 * condition rounds too, and rounding may let a row pass.
 */
static double
greatest_distance(const Threshold *t)
{
	bool		null = false;
	bool		below = t->below;
	double		limit = compute(t, t->limit, &null);

	if (t->term != NULL)
	{
		double		term = compute(t, t->term, &null);

		limit = term - limit + rounding(fabs(term)) + rounding(fabs(limit));
		below = !below;
	}
	else if (t->factor != NULL)
	{
		double		factor = compute(t, t->factor, &null);

		if (factor == 0 && !null)
			return get_float8_infinity();
		limit /= factor;
		limit += rounding(fabs(limit));
		below = factor > 0 ? below : !below;
	}
	if (null)
		return -get_float8_infinity();
	return below && !isnan(limit) ? limit : get_float8_infinity();
}

double
grnnd_threshold(ScanKey keys, ScanKey key)
{
	const GrnndPlanned *note = grnnd_planned(keys);
	double		least = get_float8_infinity();

	if (note == NULL || (key->sk_flags & SK_ISNULL))
		return least;
	for (const Threshold *t = note->thresholds; t != NULL; t = t->next)
	{
		bool		isnull;
		int16		length;
		bool		by_value;
		Datum		query;

		query = ExecEvalExprSwitchContext(t->query, t->econtext, &isnull);
		get_typlenbyval(t->query_type, &length, &by_value);
		if (!isnull && datum_image_eq(query, key->sk_argument, by_value, length))
			least = Min(least, greatest_distance(t));
	}
	return least;
}
