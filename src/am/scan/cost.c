/*
 * cost.c - the planner's cost of a scan.
 *
 * The start-up cost is the cost of one search, which visits about ef_search records.  A scan that
 * ranks rows by values of the table (rerank.c) also pays for reading the rows, TOAST included:
 * somewhat more rows than the executor reads anyway.  The total cost is the cost of returning all
 * rows.  Each row costs the visits by which the search stays ahead.  The planner takes the share of
 * the total that LIMIT and filters ask for.  The end of a long scan, which reads the rest in order
 * (scan_rest.c), is cheaper, but another plan serves a query better that needs the rest.
 *
 * Conditions on filter columns let a share of the rows pass.  Without signatures a search makes the
 * same visits as without conditions, and the planner scales the price of a row by the share, as for
 * any filter.  With signatures a search makes fewer visits, or reads the list of a value: the
 * start-up cost is the cost of the cheaper way (filter_cost.c, which scans use too).
 *
 * The planner believes that a sequential scan reads the table's own pages alone, each from a disk,
 * and that a distance costs no more than an integer comparison.  If rows are wide, a page in memory
 * costs a quarter of the believed price, and vectors in a TOAST table are read too.  So the costs
 * here are in the currency of the sequential scan: the planner's price of a sequential scan,
 * divided by the real time of a sequential scan, is the unit.
 *
 * All constants are in units of a sequential scan's row, which costs cpu_tuple_cost: 1.6
 * microseconds of the machine of test/bench/plans, on which processor times were measured.  A line
 * such as "half 12 (3, 3)" says what half of a constant changes among 324 queries, 12 of each of 27
 * tables (vectors of 3 to 1,536 dimensions, bits, sparse rows, layout compact, 1,000 to 20,000
 * rows): 12 plans, of which 3 take over 1.2 times as long and 3 less than 1 / 1.2.
 *
 * The cost is the same for every setting of grnnd.iterative_scan.  If a scan ends before it has all
 * wanted rows (off, or max_scan_tuples), a rising price lets the planner prefer a plan that returns
 * all rows.
 */
#include "am/callbacks.h"

#include <math.h>

#include "access/table.h"
#include "nodes/pathnodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "storage/bufmgr.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"

#include "am/filter/filter.h"
#include "am/index/index.h"
#include "am/scan/scan.h"

/*
 * The share of new neighbors, each of which is visited without codes.  EXPLAIN counts for 40
 * expansions of degree 32: 838 visits of 20,000 sentences, 1,078 of 5,000 random rows of 384
 * dimensions.  Half 5 (0, 4), twice 2 (1, 0).
 */
#define NEW_NEIGHBORS 0.75

/*
 * The cost of a neighbor in a visit, in operators: the estimate from a code, and the place among
 * the candidates.  A visit takes 0.7 to 1.4 microseconds at degree 32, 0.4 of the time for the
 * page.  Half 4 (2, 1), twice 7 (2, 3).
 */
#define NEIGHBOR_COST 2

/*
 * The price of a page in memory, in prices of a page that is read in order: 0.4 microseconds.
 * PostgreSQL has no price for a page in memory.  Half 12 (3, 3), twice 21 (5, 5).
 */
#define PAGE_IN_MEMORY 0.25
/*
 * The share of a page's price that a visit without codes pays: a visit sorts in one candidate, and
 * an expansion visits many records of few pages.  384 to 1,536 floats 0.5 to 1.3.  Half 8 (0, 3),
 * twice 12 (4, 2).
 */
#define PLAIN_VISIT 0.5

/*
 * A distance, in operators, and each number: in a scan 0.06 us at 3 dimensions, 0.3 at 384.  Half
 * 6 (2, 2) and 8 (1, 3), twice 7 (2, 0) and 7 (2, 3).
 */
#define DISTANCE_COST 12
#define NUMBER_COST 0.12

/*
 * A further row, in visits for each expansion that the search makes for the row
 * (grnnd_expansions_per_row()).  Found rows wait in a heap, and the executor computes the distance
 * once more: 8 to 15 and 3 microseconds a row with codes that are the rows or are not.  Half and
 * twice no plan; a fifth 5, of which 4 take 2 to 18 times as long.
 */
#define VISITS_PER_EXPANSION 2.5

/*
 * The cost of a value in a TOAST table, in pages read in order: the search for the first chunk by
 * an index, and each page; 2.5 microseconds at 768 dimensions, 3.3 at 1,536.  Half 5 (2, 1) and
 * 1 (0, 1), twice 6 (0, 2) and 6 (0, 2).
 */
#define TOAST_VALUE_COST 1.0
#define TOAST_PAGE_COST 1.0
/*
 * A word of a sparse row, in numbers of a distance: rows of 10 and of 66 elements take 0.15 and
 * 0.55 microseconds of a sequential scan.  Half 7 (2, 1), twice 4 (0, 2).
 */
#define NUMBERS_PER_WORD 10
/* Bytes of a value that a page of a TOAST table holds. */
#define TOAST_PAGE_BYTES (4 * 1996)

/*
 * The cost of an impossible scan, more than the cost of any other plan.  Not infinite: conditions
 * on filter columns make paths for joins as well, and infinity less infinity is no cost.
 */
#define IMPOSSIBLE_COST 1e200

/* The properties of an index that the model needs. */
typedef struct Shape
{
	const GrnndIndex *ix;		/* NULL: the index is hypothetical */
	double		ef;				/* of a search */
	double		rows;			/* entries of the index */
	double		pages;
	double		degree;
	bool		codes;
	bool		signatures;		/* searches go by them */
	bool		lists;			/* or by lists of values */
	double		expansions;		/* for a further row */
	uint32		beam;			/* candidates for each of ef_search */
	uint32		span;			/* pages a record */
	double		bytes;			/* of a row of the table; 0: not known */
	double		numbers;		/* of a row, as distances have them, each two bytes at least */
	double		stored;			/* the same of a record's vector */
	double		reads;			/* rows of the table that a scan reads for each that it returns */
	List	   *filter;			/* conditions that a scan tests though they are no index clauses */
} Shape;

/* Returns the conditions of the plan's filter that the index tests too (scan_quals.c). */
static List *
tested_filter(Relation index, const IndexPath *path)
{
	RelOptInfo *rel = path->indexinfo->rel;
	List	   *tested = NIL;
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst(lc);
		bool		handed = rinfo->pseudoconstant;
		ListCell   *i;

		foreach(i, path->indexclauses)
			handed |= ((IndexClause *) lfirst(i))->rinfo == rinfo;
		if (!handed && grnnd_tests_clause(index, (Node *) rinfo->clause, rel->relid))
			tested = lappend(tested, rinfo);
	}
	return tested;
}

static Shape
index_shape(PlannerInfo *root, const IndexPath *path)
{
	IndexOptInfo *info = path->indexinfo;
	Relation	rel;
	const GrnndIndex *ix;
	Shape		shape = {
		.ef = grnnd_ef_search,
		.rows = Max(info->tuples, 1),
		.pages = Max(info->pages, 1),
		.degree = GRN_MIN_DEGREE,
		.codes = true,
		.expansions = 3.5,
		.beam = 1,
		.span = 1
	};

	/* an index that exists only in an advisor's head */
	if (info->hypothetical)
		return shape;
	rel = index_open(info->indexoid, NoLock);
	ix = shape.ix = grnnd_index_shape(rel);
	shape.ef = grnnd_width(rel, ix, Max(root->limit_tuples, 0)).ef;
	shape.degree = ix->meta.degree;
	shape.codes = grn_has_codes(&ix->codec);
	shape.signatures = shape.codes && ix->layout.sig_bytes > 0;
	shape.lists = shape.signatures && grnnd_has_lists(&ix->meta);
	shape.expansions = grnnd_expansions_per_row(&ix->codec, true);
	shape.beam = grnnd_beam(ix);
	shape.span = ix->layout.span;
	shape.bytes = grn_form_bytes(ix->key.type->form, ix->meta.dim);
	shape.numbers = Min(ix->meta.dim, shape.bytes / 2) * (ix->key.type->words != NULL ? NUMBERS_PER_WORD : 1);
	shape.stored = Min(ix->meta.dim, ix->layout.vec_bytes / 2.0);
	if (grnnd_reranks(ix->key.type, ix->layout.form))
	{
		/* the first row takes as many as a further one (test/bench/decisions.md) */
		shape.reads = grn_form(ix->layout.form)->reads;
	}
	shape.filter = tested_filter(rel, path);
	index_close(rel, NoLock);
	return shape;
}

/* The share of `pages` pages that is probably in memory. */
static double
cached_share(double pages)
{
	return Min(1, effective_cache_size / Max(pages, 1));
}

/* Returns the mean cost of reading from a disk for one of `pages` pages. */
static Cost
missing_cost(double pages, double random_page)
{
	return (1 - cached_share(pages)) * random_page;
}

/* Returns the cost of reading one of `pages` pages, from memory or at random from a disk. */
static Cost
page_cost(double pages, double random_page, double seq_page)
{
	return cached_share(pages) * PAGE_IN_MEMORY * Min(seq_page, random_page) + missing_cost(pages, random_page);
}

/* Returns the cost of a distance of `numbers` numbers. */
static Cost
distance_cost(double numbers)
{
	return (DISTANCE_COST + NUMBER_COST * numbers) * cpu_operator_cost;
}

/* Cost of a visit. */
static Cost
visit_cost(const Shape *shape, double random_page, double seq_page)
{
	double		page = shape->span * page_cost(shape->pages, random_page, seq_page);

	if (shape->codes)
		return page + cpu_index_tuple_cost + shape->degree * NEIGHBOR_COST * cpu_operator_cost;
	return page * PLAIN_VISIT + cpu_index_tuple_cost + distance_cost(shape->stored);
}

/*
 * Returns the mean number of TOAST pages that the distance of a row reads: 0 if the table's own
 * pages have room for vectors.  Values of other columns may be in the TOAST table too.
 */
static double
toast_pages(PlannerInfo *root, const RelOptInfo *rel, const Shape *shape)
{
	double		bytes = shape->bytes;
	RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);
	double		pages = 0;
	Relation	table;

	if (rel->pages * (double) BLCKSZ >= rel->tuples * bytes)
		return 0;
	if (rel->tuples < 1)
		return 0;
	table = table_open(rte->relid, NoLock);
	if (OidIsValid(table->rd_rel->reltoastrelid))
	{
		Relation	toast = table_open(table->rd_rel->reltoastrelid, AccessShareLock);

		pages = RelationGetNumberOfBlocks(toast) / rel->tuples;
		table_close(toast, AccessShareLock);
	}
	table_close(table, NoLock);
	return Min(pages, bytes / TOAST_PAGE_BYTES);
}

/* Returns the cost of a row's distance, with the cost of reading the value from TOAST. */
static Cost
exact_cost(PlannerInfo *root, const RelOptInfo *rel, const Shape *shape, double seq_page)
{
	double		toast = toast_pages(root, rel, shape);
	Cost		cost = distance_cost(shape->numbers);

	return toast > 0 ? cost + (TOAST_VALUE_COST + toast * TOAST_PAGE_COST) * seq_page : cost;
}

/* Returns the cost of reading a row of the table for a distance.  *page: the table page's part. */
static Cost
row_cost(PlannerInfo *root, const RelOptInfo *rel, const Shape *shape, Cost *page)
{
	double		random_page;
	double		seq_page;

	get_tablespace_page_costs(rel->reltablespace, &random_page, &seq_page);
	*page = page_cost(rel->pages, random_page, seq_page);
	return *page + cpu_tuple_cost + exact_cost(root, rel, shape, seq_page);
}

/* Returns the planner's cost of a sequential scan, divided by the cost by this file's prices. */
static double
known_part(PlannerInfo *root, const RelOptInfo *rel, const Shape *shape)
{
	double		random_page;
	double		page;
	double		rows;
	double		known;
	double		takes;

	get_tablespace_page_costs(rel->reltablespace, &random_page, &page);
	rows = rel->tuples * (cpu_tuple_cost + cpu_operator_cost);
	known = rel->pages * page + rows;
	/* distances are computed of the rows that pass the filter */
	takes = rel->pages * page_cost(rel->pages, page, page) + rows +
		rel->rows * exact_cost(root, rel, shape, page);
	return takes > 0 ? known / takes : 1;
}

/*
 * Returns the visits of `expansions` expansions.  Without codes each new neighbor is visited, and
 * new neighbors become rare as visits increase.
 */
static double
visits_of(const Shape *shape, double expansions)
{
	if (shape->codes)
		return Min(expansions, shape->rows);
	return shape->rows *
		(1 - exp(-expansions * NEW_NEIGHBORS * shape->degree / shape->rows));
}

/*
 * Returns the ef to which a scan that knows LIMIT widens the search (scan_width.c).  0: the scan
 * does not know LIMIT, or a condition that the index does not test may make the scan go on.
 */
static double
known_width(const PlannerInfo *root, const IndexPath *path, const Shape *shape)
{
	double		wanted = 2 * root->limit_tuples;
	ListCell   *lc;

	if (wanted <= 0 || wanted > GRNND_MAX_EF || grnnd_iterative_scan == GRNND_ITERATIVE_OFF)
		return 0;
	/* conditions that a partial index's predicate implies drop no row */
	foreach(lc, path->indexinfo->indrestrictinfo)
	{
		bool		tested = shape->signatures && list_member_ptr(shape->filter, lfirst(lc));
		ListCell   *i;

		foreach(i, path->indexclauses)
			tested |= shape->signatures && ((IndexClause *) lfirst(i))->rinfo == lfirst(lc);
		if (!tested)
			return 0;
	}
	return Max(shape->ef, wanted);
}

/* Whether a condition wants vectors to be NULL.  The index does not have such rows. */
static bool
wants_no_vector(const IndexPath *path)
{
	ListCell   *lc;

	foreach(lc, path->indexclauses)
	{
		const		IndexClause *clause = lfirst(lc);
		const Node *node = (const Node *) clause->rinfo->clause;

		if (clause->indexcol == 0 && IsA(node, NullTest) &&
			((const NullTest *) node)->nulltesttype == IS_NULL)
			return true;
	}
	return false;
}

/* Does one value of filter column `column` pass an index clause, or some single values? */
static bool
is_equality(const IndexOptInfo *info, int column, const IndexClause * clause)
{
	const Node *node = (const Node *) ((const RestrictInfo *) linitial(clause->indexquals))->clause;
	Oid			op = IsA(node, OpExpr) ? ((const OpExpr *) node)->opno
		: IsA(node, ScalarArrayOpExpr) ? ((const ScalarArrayOpExpr *) node)->opno : InvalidOid;

	return !OidIsValid(op) || get_op_opfamily_strategy(op, info->opfamily[column]) == GRNND_EQUAL_STRATEGY;
}

/* Takes the list, or several, of a share of the rows in place of *least if they cost less. */
static void
take_cheaper(const Shape *shape, bool several, double share, GrnndListSize *least, double *cost)
{
	GrnndListSize size = grnnd_size_of_list(shape->ix, several, share * shape->rows, shape->rows);
	double		now = grnnd_list_work(shape->ix, size, 1, shape->ef * shape->beam).cost;

	if (share < 1 && now < *cost)
	{
		*least = size;
		*cost = now;
	}
}

/*
 * Finds the lists with the least cost: of a condition of the filter, or of all conditions on a
 * column.  Returns false if no list serves.
 */
static bool
least_list(PlannerInfo *root, const IndexPath *path, const Shape *shape, GrnndListSize *least)
{
	const IndexOptInfo *info = path->indexinfo;
	int			relid = (int) info->rel->relid;
	double		cost = get_float8_infinity();
	ListCell   *lc;

	if (!shape->lists)
		return false;
	foreach(lc, shape->filter)
		take_cheaper(shape, false, clause_selectivity(root, lfirst(lc), relid, JOIN_INNER, NULL),
					 least, &cost);
	for (int i = 1; i < info->nkeycolumns; i++)
	{
		List	   *conditions = NIL;
		bool		several = false;

		foreach(lc, path->indexclauses)
		{
			const		IndexClause *clause = lfirst(lc);

			if (clause->indexcol != i)
				continue;
			conditions = lappend(conditions, clause->rinfo);
			several |= !is_equality(info, i, clause);
		}
		if (conditions != NIL && grnnd_has_list(&shape->ix->attrs->attr[i - 1]))
			take_cheaper(shape, several, clauselist_selectivity(root, conditions, relid, JOIN_INNER, NULL),
						 least, &cost);
	}
	return cost < get_float8_infinity();
}

/* The visits of a search until the first rows and for a further row, and pages read besides. */
typedef struct SearchVisits
{
	double		first;
	double		row;
	double		pages;
} SearchVisits;

/* Returns the visits of the cheapest way if a share of the rows passes.  all: without a filter. */
static SearchVisits
filtered_visits(PlannerInfo *root, const IndexPath *path, const Shape *shape, const SearchVisits *all, double share)
{
	const GrnndIndex *ix = shape->ix;
	double		ef = shape->ef * shape->beam;
	double		wide = known_width(root, path, shape) * shape->beam;
	double		expansions = shape->expansions * shape->beam;
	double		rest = grnnd_all_rows_cost(ix, shape->rows);
	SearchVisits graph = {.first = Min(grnnd_graph_cost(ef, share), rest)};
	SearchVisits list = {.first = get_float8_infinity()};
	GrnndListSize size;

	if (wide > 0)
		graph.row = (Min(grnnd_graph_cost(wide, share), rest) - graph.first) / root->limit_tuples;
	else
		graph.row = all->row + expansions * (grnnd_graph_visits(1, share) - grnnd_graph_visits(1, 1));
	if (least_list(root, path, shape, &size))
	{
		GrnndListWork work = grnnd_list_work(ix, size, 1, ef);

		list.first = work.cost;
		list.pages = work.pages;
		if (wide > 0)
			list.row = (grnnd_list_work(ix, size, 1, wide).cost - work.cost) / root->limit_tuples;
		else
			list.row = expansions * grnnd_list_visit_cost(&ix->layout);
	}
	return list.first <= graph.first ? list : graph;
}

void
grnnd_costestimate(struct PlannerInfo *root, struct IndexPath *path, double loop_count,
				   Cost *startup, Cost *total, Selectivity *selectivity,
				   double *correlation, double *pages)
{
	GenericCosts generic;
	Shape		shape;
	double		random_page;
	double		seq_page;
	double		wide;
	double		known;
	Cost		visit;
	Cost		reread = 0;
	Cost		page = 0;
	SearchVisits search = {0};
	double		returned;
	GrnndFirstRows wanted = path->indexorderbys == NIL ? GRNND_WRONG_VALUES
		: grnnd_first_rows(root, path);

	*correlation = 0;			/* neighbors lie anywhere in the table */
	if (wanted == GRNND_WRONG_VALUES || wants_no_vector(path))
	{
		*startup = IMPOSSIBLE_COST;
		*total = IMPOSSIBLE_COST;
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

	shape = index_shape(root, path);
	get_tablespace_page_costs(path->indexinfo->reltablespace, &random_page, &seq_page);
	known = known_part(root, path->indexinfo->rel, &shape);
	visit = visit_cost(&shape, random_page, seq_page) * known;
	if (shape.reads > 0)
		reread = row_cost(root, path->indexinfo->rel, &shape, &page) * known;
	/* a rounded row that is returned is on a page for which the executor pays */
	page = page * known;
	search.first = visits_of(&shape, shape.ef * shape.beam);
	search.row = VISITS_PER_EXPANSION * shape.expansions * shape.beam;
	if (!shape.codes)
		search.row += shape.expansions * NEW_NEIGHBORS * shape.degree;
	wide = known_width(root, path, &shape);
	if (wide > 0)
		search.row = Min(search.row, (visits_of(&shape, wide * shape.beam) - visits_of(&shape, shape.ef * shape.beam)) /
						 root->limit_tuples);
	else if (path->indexclauses == NIL && shape.filter == NIL)
	{
		double		share = Min(path->indexinfo->rel->rows / shape.rows, 1);

		wide = grnnd_filtered_width(shape.ef, root->limit_tuples, share);
		if (wide > 0)
			search.row = Min(search.row, (visits_of(&shape, wide * shape.beam) - visits_of(&shape, shape.ef * shape.beam)) *
							 share / root->limit_tuples);
	}
	returned = shape.rows;
	generic.indexSelectivity *= clauselist_selectivity(root, shape.filter,
													   (int) path->indexinfo->rel->relid,
													   JOIN_INNER, NULL);
	if (shape.signatures && (path->indexclauses != NIL || shape.filter != NIL))
	{
		/* a partial index has been chosen for its predicate already */
		double		share = generic.indexSelectivity * path->indexinfo->rel->tuples / shape.rows;

		share = Min(Max(share, 1 / shape.rows), 1);
		search = filtered_visits(root, path, &shape, &search, share);
		/* rows that fail are no rows of this scan */
		returned *= share;
	}
	*startup = search.first * visit + search.pages * missing_cost(shape.pages, random_page) * known;
	*total = *startup + returned * (search.row * visit + shape.reads * reread - page);

	/* any other plan is preferred, whatever it costs, unless the user has disabled it */
	if (wanted == GRNND_ALL_ROWS)
	{
		*startup += disable_cost;
		*total += disable_cost;
	}
	*selectivity = generic.indexSelectivity;
	*pages = shape.pages;
}

/*
 * A row of a bitmap, in operators: 0.06 to 0.1 microseconds when the index adds the row, and as
 * much again for the order of pages and the search's copy.  The planner reckons far less.  Half
 * 6 (0, 3), twice 5 (0, 2).
 */
#define BITMAP_ROW_COST 40
/*
 * The cost of a row's distance, and of its place in the order, in operators.  None at all 4 (2, 0),
 * half no plan, twice 3 (0, 3).
 */
#define SET_ROW_COST 16
/* The cost of the scan's own preparations, in operators: 10 us.  Half 9 (3, 0), twice 7 (0, 2). */
#define BITMAP_START_COST 400
/*
 * PostgreSQL takes costs that differ by less than 1% for equal, and keeps the earlier path.  With
 * 1, 19 of 432 plans change, in .94 of the time, but not if rows are more than expected.
 */
#define NO_DEARER 0.97
/*
 * The share of a row's cost that the row costs when the executor reads the row once more.  Half
 * 7 (3, 0), twice 11 (0, 3).
 */
#define READ_AGAIN 0.1

bool
grnnd_bitmap_cost(PlannerInfo *root, IndexPath *path, BitmapHeapPath * heap, Cost *startup, Cost *total)
{
	const RelOptInfo *rel = path->indexinfo->rel;
	Shape		shape;
	double		random_page;
	double		seq_page;
	double		known;
	double		rows;
	double		share;
	double		kept;
	Cost		visit;
	Cost		made;
	Cost		all;
	Cost		first;
	SearchVisits search = {0};
	Selectivity selectivity;

	if (wants_no_vector(path))
		return false;
	shape = index_shape(root, path);
	get_tablespace_page_costs(path->indexinfo->reltablespace, &random_page, &seq_page);
	known = known_part(root, rel, &shape);
	visit = visit_cost(&shape, random_page, seq_page) * known;
	cost_bitmap_tree_node(heap->bitmapqual, &made, &selectivity);
	rows = clamp_row_est(selectivity * rel->tuples);
	/* the planner's own plan reads all rows of the bitmap too, and sorts them */
	all = Max(heap->path.total_cost - made, 0) + rows * SET_ROW_COST * cpu_operator_cost;
	made += rows * BITMAP_ROW_COST * cpu_operator_cost * known;
	share = Min(rows / shape.rows, 1);
	/* of the rows in the bitmap, those that pass all conditions */
	kept = Min(Max(rel->rows / rows, 1 / rows), 1);

	/* the search goes on until ef rows of the bitmap are found */
	search.first = grnnd_set_visits(shape.ix, shape.ef * shape.beam, share);
	search.row = VISITS_PER_EXPANSION * shape.expansions * shape.beam *
		(grnnd_set_visits(shape.ix, 1, share) - grnnd_set_visits(shape.ix, 0, share));
	shape.ef /= share;
	if (shape.signatures && (path->indexclauses != NIL || shape.filter != NIL))
		search = filtered_visits(root, path, &shape, &search,
								 Min(Max(path->indexselectivity, 1 / shape.rows), 1));
	first = Min(search.first * visit + search.pages * missing_cost(shape.pages, random_page) * known, all);
	*startup = made + first;
	/* a row that is returned is read as a row of the planner's plan is */
	*total = *startup + Min(rel->rows * (search.row * visit / kept + all / rows), all);
	/*
	 * A scan that reads all rows of the bitmap does what the planner's own plan does, for which the
	 * planner reckons no more than this.  Only the scan finds out if the rows are more than expected, so
	 * the scan is to be preferred where both plans cost the same.
	 */
	if (first >= all)
	{
		*startup = Min(*startup, NO_DEARER * heap->path.total_cost + (rel->rows + BITMAP_START_COST) * cpu_operator_cost);
		*total = Min(*total, *startup + rel->rows * all / rows * READ_AGAIN);
	}
	return true;
}
