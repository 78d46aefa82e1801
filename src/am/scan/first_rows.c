/*
 * first_rows.c - decides which queries may use an index that leaves out some rows.
 *
 * The index lacks rows whose vector is NULL (or zero, for cosine), and a scan returns a row that
 * is found late after farther rows.  A LIMIT on rows in the order of distance is not affected, if
 * each step between scan and LIMIT computes a row only from that row, its peers, earlier rows and
 * the next row.  A step that reads more rows would compute wrong values: an aggregate, a sort by
 * another key, or a window whose frame ends with a later row.
 */
#include "am/callbacks.h"

#include "catalog/pg_operator_d.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "utils/fmgroids.h"

/* Does the query have a LIMIT?  LIMIT NULL and LIMIT ALL do not count. */
static bool
has_limit(const Query *parse)
{
	const Node *limit = parse->limitCount;

	return limit != NULL && !(IsA(limit, Const) && ((const Const *) limit)->constisnull);
}

/* The order of the rows at a level of the query: a pathkey, or a column of the subquery below. */
typedef struct RowOrder
{
	const		PathKey *key;	/* NULL: ordered by the column */
	AttrNumber	column;			/* 0: the order is unknown */
} RowOrder;

/* Are rows in this order sorted by these clauses already?  *any: the clauses require a sort. */
static bool
sorts_as(PlannerInfo *root, List *clauses, const RowOrder *order, bool *any)
{
	const		SortGroupClause *first;
	const		Var *var;

	if (order->key != NULL)
	{
		List	   *keys = make_pathkeys_for_sortclauses(root, clauses, root->processed_tlist);

		*any = keys != NIL;
		return keys == NIL || linitial(keys) == order->key;
	}
	*any = clauses != NIL;
	if (clauses == NIL)
		return true;
	first = linitial(clauses);
	var = (const Var *) get_sortgroupclause_expr((SortGroupClause *) first, root->processed_tlist);
	return IsA(var, Var) && var->varlevelsup == 0 && var->varattno == order->column &&
		order->column != 0 && first->sortop == Float8LessOperator && !first->nulls_first;
}

/*
 * Does the window function need rows after the next row and the frame's end?  lead() with an
 * offset, and lag() with a negative offset, may reach beyond the rows of the index.
 */
static bool
needs_partition(const WindowFunc * function)
{
	switch (function->winfnoid)
	{
		case F_ROW_NUMBER:
		case F_RANK_:
		case F_DENSE_RANK_:
		case F_LAG_ANYELEMENT:
		case F_LEAD_ANYELEMENT:
		case F_FIRST_VALUE:
		case F_LAST_VALUE:
		case F_NTH_VALUE:
			return false;
		default:
			return !function->winagg;
	}
}

/* Does the function's result depend on the frame? */
static bool
uses_frame(const WindowFunc * function)
{
	return function->winagg || function->winfnoid == F_FIRST_VALUE ||
		function->winfnoid == F_LAST_VALUE || function->winfnoid == F_NTH_VALUE;
}

/* Can a window compute each row without reading all following rows? */
static bool
window_streams(PlannerInfo *root, const WindowClause * window, const List *functions,
			   const RowOrder *order)
{
	bool		sorted;
	bool		bounded;
	ListCell   *lc;

	if (!sorts_as(root, list_concat_copy(window->partitionClause, window->orderClause), order,
				  &sorted))
		return false;
	/* A frame of peers without a sort key has all rows.  An offset may pass the index's rows. */
	bounded = (window->frameOptions & (FRAMEOPTION_END_UNBOUNDED_FOLLOWING | FRAMEOPTION_END_OFFSET_FOLLOWING)) == 0 &&
		(sorted || (window->frameOptions & FRAMEOPTION_ROWS) != 0);
	foreach(lc, functions)
	{
		const		WindowFunc *function = lfirst(lc);

		if (needs_partition(function) || (uses_frame(function) && !bounded))
			return false;
	}
	return true;
}

/* Does each step of a level pass on rows in their order, without reading all rows first? */
static bool
level_streams(PlannerInfo *root, const RowOrder *order)
{
	const Query *parse = root->parse;
	bool		any;

	/* UNION ALL passes rows on; the planner has no target list for it yet */
	if (parse->setOperations != NULL)
		return parse->distinctClause == NIL && parse->sortClause == NIL;
	if (parse->hasAggs || parse->groupClause != NIL || parse->groupingSets != NIL ||
		!sorts_as(root, parse->distinctClause, order, &any) ||
		!sorts_as(root, parse->sortClause, order, &any))
		return false;
	if (parse->hasWindowFuncs)
	{
		WindowFuncLists *functions = find_window_functions((Node *) root->processed_tlist,
														   list_length(parse->windowClause));
		ListCell   *lc;

		foreach(lc, parse->windowClause)
		{
			const		WindowClause *window = lfirst(lc);
			const List *its = functions->windowFuncs[window->winref];

			if (its != NIL && !window_streams(root, window, its, order))
				return false;
		}
	}
	return true;
}

/* The order of a level's rows, as seen by the level above. */
static RowOrder
order_above(const PlannerInfo *root, const RowOrder *order)
{
	RowOrder	above = {NULL, 0};
	ListCell   *lc;

	foreach(lc, root->processed_tlist)
	{
		const		TargetEntry *entry = lfirst(lc);
		ListCell   *m;

		if (order->key == NULL && order->column != 0 && IsA(entry->expr, Var) &&
			((const Var *) entry->expr)->varattno == order->column)
			above.column = entry->resno;
		if (order->key != NULL)
			foreach(m, order->key->pk_eclass->ec_members)
				if (equal(((EquivalenceMember *) lfirst(m))->em_expr, entry->expr))
				above.column = entry->resno;
	}
	return above;
}

GrnndFirstRows
grnnd_first_rows(PlannerInfo *root, const IndexPath *path)
{
	RowOrder	order = {.key = path->path.pathkeys != NIL ? linitial(path->path.pathkeys) : NULL};

	if (!level_streams(root, &order))
		return GRNND_WRONG_VALUES;
	while (!has_limit(root->parse))
	{
		PlannerInfo *above = root->parent_root;

		/*
		 * A subquery in FROM without its own LIMIT may be ended by the LIMIT of the outer query,
		 * which passes its tuple_fraction down.  (The planner plans a subquery in an expression
		 * before the outer query's relations.)  A cursor's tuple_fraction is not a LIMIT, because
		 * a client may read all rows.
		 */
		if (root->tuple_fraction == 0 || above == NULL || above->simple_rel_array == NULL ||
			above->tuple_fraction != root->tuple_fraction)
			return GRNND_ALL_ROWS;
		order = order_above(root, &order);
		if (!level_streams(above, &order))
			return GRNND_ALL_ROWS;
		root = above;
	}
	return GRNND_FIRST_ROWS;
}
