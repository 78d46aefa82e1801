/*
 * scan_quals.c - conditions on filter columns that PostgreSQL does not hand to the index.
 *
 * Before PostgreSQL 17 the planner does not give "column = ANY (array)" on later columns to index
 * scans that return rows in order.  PostgreSQL 15 treats "WHERE flag" as a comparison only for its
 * own access methods.  Such conditions stay in the plan node's filter.  A hook at the executor's
 * start (scan_threshold.c) finds them, and the scan tests them like scan keys.  The executor tests
 * them again.
 */
#include "am/scan/scan_impl.h"

#include "access/stratnum.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* A condition of a plan node's filter. */
typedef struct Condition
{
	struct Condition *next;		/* next condition of the plan node */
	ExprContext *econtext;
	ScanKeyData key;
	ExprState  *argument;		/* the key's argument; NULL: the key is complete */
} Condition;

/* The number (from 1) of the index column on this side of a condition; 0: none. */
static AttrNumber
index_column(Relation index, Node *side, Index scanrelid)
{
	const		Var *var;

	if (IsA(side, RelabelType))
		side = (Node *) ((RelabelType *) side)->arg;
	if (!IsA(side, Var))
		return 0;
	var = (const Var *) side;
	for (int i = 0; i < index->rd_index->indnkeyatts; i++)
		if (var->varno == (int) scanrelid && var->varattno != 0 &&
			var->varattno == index->rd_index->indkey.values[i])
			return (AttrNumber) (i + 1);
	return 0;
}

/* Makes a scan key from "column", "NOT column", "column IS TRUE" or "column IS FALSE". */
static bool
bool_key(Relation index, Node *clause, Index scanrelid, ScanKeyData *key)
{
	bool		wanted = true;
	AttrNumber	column;

	if (IsA(clause, BooleanTest))
	{
		const		BooleanTest *test = (const BooleanTest *) clause;

		if (test->booltesttype != IS_TRUE && test->booltesttype != IS_FALSE)
			return false;
		wanted = test->booltesttype == IS_TRUE;
		clause = (Node *) test->arg;
	}
	else if (is_notclause(clause))
	{
		wanted = false;
		clause = (Node *) get_notclausearg((Expr *) clause);
	}
	if (exprType(clause) != BOOLOID)
		return false;
	column = index_column(index, clause, scanrelid);
	if (column < 2)
		return false;
	ScanKeyEntryInitialize(key, 0, column, GRNND_EQUAL_STRATEGY, BOOLOID, InvalidOid, F_BOOLEQ,
						   BoolGetDatum(wanted));
	return true;
}

/* Makes a scan key from "column = ANY (array)", with any operator of the operator family. */
static bool
array_key(Relation index, Node *clause, Index scanrelid, ScanKeyData *key)
{
	const		ScalarArrayOpExpr *any = (const ScalarArrayOpExpr *) clause;
	AttrNumber	column;
	int			strategy;
	Oid			left;
	Oid			right;

	if (!IsA(clause, ScalarArrayOpExpr) || !any->useOr ||
		!grnnd_is_fixed(lsecond(any->args), scanrelid))
		return false;
	column = index_column(index, linitial(any->args), scanrelid);
	if (column < 2 ||
		!op_in_opfamily(any->opno, index->rd_opfamily[column - 1]) ||
		(OidIsValid(index->rd_indcollation[column - 1]) &&
		 index->rd_indcollation[column - 1] != any->inputcollid))
		return false;
	get_op_opfamily_properties(any->opno, index->rd_opfamily[column - 1], false,
							   &strategy, &left, &right);
	ScanKeyEntryInitialize(key, SK_SEARCHARRAY, column, (StrategyNumber) strategy, right,
						   any->inputcollid, any->opfuncid, (Datum) 0);
	return true;
}

/* Makes a scan key from a clause.  Returns false if the index cannot test the clause. */
static bool
clause_key(Relation index, Node *clause, Index scanrelid, ScanKeyData *key)
{
	return array_key(index, clause, scanrelid, key) || bool_key(index, clause, scanrelid, key);
}

bool
grnnd_tests_clause(Relation index, Node *clause, Index scanrelid)
{
	ScanKeyData key;

	return clause_key(index, clause, scanrelid, &key);
}

void
grnnd_note_quals(IndexScanState *node)
{
	const IndexScan *plan = (const IndexScan *) node->ss.ps.plan;
	MemoryContext old = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);
	ListCell   *lc;

	foreach(lc, plan->scan.plan.qual)
	{
		Node	   *clause = lfirst(lc);
		Relation	index = node->iss_RelationDesc;
		ScanKeyData key;
		Condition  *c;
		GrnndPlanned *note;

		if (!clause_key(index, clause, plan->scan.scanrelid, &key))
			continue;
		c = palloc(sizeof(Condition));
		c->econtext = node->ss.ps.ps_ExprContext;
		c->key = key;
		c->argument = NULL;
		if (IsA(clause, ScalarArrayOpExpr))
			c->argument = ExecInitExpr(lsecond(((ScalarArrayOpExpr *) clause)->args), &node->ss.ps);
		note = grnnd_note_planned(node);
		c->next = note->conditions;
		note->conditions = c;
	}
	MemoryContextSwitchTo(old);
}

ScanKey
grnnd_all_keys(IndexScanDesc scan, int *nkeys)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	const GrnndPlanned *note = grnnd_planned(so->keys);
	const Condition *conditions = note == NULL ? NULL : note->conditions;
	int			n = scan->numberOfKeys;
	ScanKey		keys;

	for (const Condition *c = conditions; c != NULL; c = c->next)
		n++;
	*nkeys = n;
	if (n == scan->numberOfKeys)
		return scan->keyData;
	keys = palloc(n * sizeof(ScanKeyData));
	memcpy(keys, scan->keyData, scan->numberOfKeys * sizeof(ScanKeyData));
	n = scan->numberOfKeys;
	for (const Condition *c = conditions; c != NULL; c = c->next, n++)
	{
		bool		isnull = false;

		keys[n] = c->key;
		if (c->argument != NULL)
			keys[n].sk_argument = ExecEvalExprSwitchContext(c->argument, c->econtext, &isnull);
		/* a NULL array makes the condition NULL, and no row passes */
		if (isnull)
			keys[n].sk_flags |= SK_ISNULL;
	}
	return keys;
}
