/*
 * cost.c - what the planner is told of a scan.
 *
 * A search visits about ef_search records and a short path to them; each further
 * row wanted costs about one more.  So the start-up cost is that of one
 * search, and the total cost that of visiting every record: the planner takes
 * the share of it that LIMIT and filters ask for.
 *
 * This is told for every setting of grnnd.iterative_scan.  Where a scan ends
 * before it has all the rows wanted (off, or max_scan_tuples where it is set), a price that
 * went on rising lets the planner prefer a plan that returns them.
 */
#include "am/handler.h"

#include <math.h>

#include "nodes/pathnodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "utils/float.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"

#include "am/cache.h"

/*
 * Records visited beyond ef_search on the way from the entry points: about 5 of
 * 100,000 rows in the feasibility study, growing with the logarithm of the rows.
 */
#define PATH_PER_LOG2_ROWS 0.3

/*
 * Without codes each neighbour met for the first time is visited: 0.75 of
 * them, by the same study (678 visits for 28 expansions of degree 32).
 */
#define NEW_NEIGHBOURS 0.75

/* CPU time of a distance estimated from a code, in exact distances. */
#define ESTIMATE_COST 0.1

/* What the model needs to know of an index. */
typedef struct Shape
{
	double		rows;			/* entries of the index */
	double		pages;
	double		degree;
	bool		codes;
	uint32		span;			/* pages a record */
} Shape;

static Shape
index_shape(IndexOptInfo *info)
{
	Relation	rel;
	const GrnndIndex *ix;
	Shape		shape = {
		.rows = Max(info->tuples, 1),
		.pages = Max(info->pages, 1),
		.degree = GRN_MIN_DEGREE,
		.codes = true,
		.span = 1
	};

	/* an index that exists only in an advisor's head */
	if (info->hypothetical)
		return shape;
	rel = index_open(info->indexoid, NoLock);
	ix = grnnd_index_shape(rel);
	shape.degree = ix->meta.degree;
	shape.codes = ix->codec.code_dims > 0;
	shape.span = ix->layout.span;
	index_close(rel, NoLock);
	return shape;
}

/*
 * Cost of visits records, as one of loop_count scans.  Pages are counted as for
 * any index that is read in no order (Mackert and Lohman), so what stays in the
 * cache is paid once.
 */
static Cost
visit_cost(PlannerInfo *root, const Shape *shape, double visits, double loop_count,
		   double random_page_cost_here)
{
	double		touched = visits * shape->span * loop_count;
	double		pages = index_pages_fetched(touched, (BlockNumber) shape->pages,
											shape->pages, root) / loop_count;
	double		distances = shape->codes ? 1 + shape->degree * ESTIMATE_COST : 1;

	return pages * random_page_cost_here +
		visits * (cpu_index_tuple_cost + distances * cpu_operator_cost);
}

/* LIMIT NULL and LIMIT ALL are none. */
static bool
has_limit(const Query *parse)
{
	const Node *limit = parse->limitCount;

	return limit != NULL && !(IsA(limit, Const) && ((const Const *) limit)->constisnull);
}

/*
 * Does the query want the first rows alone?  Else another plan is preferred, whatever it
 * costs: a scan brings rows in the order in which a search finds them, those found too
 * late come last, and rows that have no place in the index (NULL) do not come at all.
 *
 * A cursor's tuple_fraction is no LIMIT: who has it may read to its end.  Without a LIMIT of
 * its own a subquery may be ended by the outer query's, which then hands its
 * tuple_fraction down.  Groups and aggregates are wrong where one row is missing.
 */
static bool
wants_first_rows(PlannerInfo *root)
{
	const Query *parse = root->parse;

	if (parse->hasAggs || parse->groupClause != NIL || parse->groupingSets != NIL)
		return false;
	while (!has_limit(root->parse))
	{
		if (root->tuple_fraction == 0 || root->parent_root == NULL ||
			root->parent_root->tuple_fraction != root->tuple_fraction)
			return false;
		root = root->parent_root;
	}
	return true;
}

void
grnnd_costestimate(struct PlannerInfo *root, struct IndexPath *path, double loop_count,
				   Cost *startup, Cost *total, Selectivity *selectivity,
				   double *correlation, double *pages)
{
	GenericCosts generic;
	Shape		shape;
	double		first;
	double		page_cost;

	*correlation = 0;			/* neighbours lie anywhere in the table */
	if (path->indexorderbys == NIL)
	{
		*startup = get_float8_infinity();
		*total = get_float8_infinity();
		*selectivity = 0;
		*pages = 0;
#if PG_VERSION_NUM >= 180000
		/* more than any enable_* setting can disable another path */
		path->path.disabled_nodes = 2;
#endif
		return;
	}

	/* for the selectivity, which a partial index's predicate lowers */
	memset(&generic, 0, sizeof(generic));
	genericcostestimate(root, path, loop_count, &generic);

	shape = index_shape(path->indexinfo);
	get_tablespace_page_costs(path->indexinfo->reltablespace, &page_cost, NULL);
	first = grnnd_effective_ef_search() + PATH_PER_LOG2_ROWS * log2(shape.rows + 1);
	if (!shape.codes)
		first *= NEW_NEIGHBOURS * shape.degree;
	first = Min(first, shape.rows);

	*startup = visit_cost(root, &shape, first, loop_count, page_cost);
	*total = Max(*startup, visit_cost(root, &shape, shape.rows, loop_count, page_cost));

	if (!wants_first_rows(root))
	{
		*startup += disable_cost;
		*total += disable_cost;
	}
	*selectivity = generic.indexSelectivity;
	*pages = shape.pages;
}
