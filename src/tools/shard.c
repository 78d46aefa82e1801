/*
 * shard.c - grnnd_on_shard(condition): hides the selectivity of a condition from the local
 * planner.
 *
 * postgres_fdw sends ORDER BY ... LIMIT k to another server only if it expects more than k rows.
 * For a foreign table that was never analyzed it expects some thousand rows, and hardly any that
 * pass a filter.  The LIMIT would then stay local, and a query without LIMIT does not use a vector
 * index (cost.c).
 *
 * The function returns its argument.  A plan for a foreign table keeps the function and assumes
 * that all rows pass.  The planner of the server with the table removes the function and plans the
 * plain condition.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "fmgr.h"
#include "nodes/pathnodes.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"

PG_FUNCTION_INFO_V1(grnnd_on_shard);
PG_FUNCTION_INFO_V1(grnnd_internal_on_shard_support);

Datum
grnnd_on_shard(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}

/* May the expression contain a column of a foreign table?  True if the query is unknown. */
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
grnnd_internal_on_shard_support(PG_FUNCTION_ARGS)
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
