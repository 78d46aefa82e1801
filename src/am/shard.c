/*
 * shard.c - grnnd_on_shard(condition): a condition whose selectivity the server that asks does not
 * estimate.
 *
 * postgres_fdw sends ORDER BY ... LIMIT k to another server only where it expects more than k rows.
 * Of a foreign table that was never analyzed it expects some thousand, and hardly any that pass a
 * filter: so the LIMIT would stay behind, and a query without one does not use a vector index
 * (cost.c).  The function returns its argument.  A plan for a foreign table keeps it, and takes it
 * that all rows pass; the planner of the server that has the table removes it, and sees the plain
 * condition.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "fmgr.h"
#include "nodes/pathnodes.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"

PG_FUNCTION_INFO_V1(grnnd_on_shard);
PG_FUNCTION_INFO_V1(grnnd_on_shard_support);

Datum
grnnd_on_shard(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}

/*
 * Is a column of a foreign table of this query in the expression?  Where the query is unknown,
 * it may be.
 */
static bool
may_be_foreign(PlannerInfo *root, Node *expression)
{
	Relids		relids;
	int			relid = -1;

	if (root == NULL || root->parse == NULL)
		return true;
	relids = pull_varnos(root, expression);
	while ((relid = bms_next_member(relids, relid)) >= 0)
	{
		const RangeTblEntry *rte = rt_fetch(relid, root->parse->rtable);

		if (rte->rtekind != RTE_RELATION || rte->relkind == RELKIND_FOREIGN_TABLE)
			return true;
	}
	return false;
}

Datum
grnnd_on_shard_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);
	Node	   *answer = NULL;

	if (IsA(request, SupportRequestSimplify))
	{
		SupportRequestSimplify *simplify = (SupportRequestSimplify *) request;
		Node	   *condition = linitial(simplify->fcall->args);

		if (!may_be_foreign(simplify->root, condition))
			answer = condition;
	}
	else if (IsA(request, SupportRequestSelectivity))
	{
		((SupportRequestSelectivity *) request)->selectivity = 1;
		answer = request;
	}
	PG_RETURN_POINTER(answer);
}
