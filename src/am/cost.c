/*
 * cost.c - what the planner is told of a scan.
 *
 * The start-up cost is that of one search, which visits about ef_search records and a short
 * path to them.  A scan that ranks rows by what it reads of the table (rerank.c) also pays for
 * those, TOAST included: of stand-ins ef_search rows before the first, of rounded rows some more
 * than the executor reads anyway.  The total cost is that of returning all rows, each at the price of the visits
 * by which the search stays ahead of it; the planner takes the share of it that LIMIT and filters
 * ask for.  The end of a long scan, which reads what is left in order (scan_rest.c), is cheaper
 * than that, but who needs it is better served by another plan.
 *
 * The planner believes that a sequential scan reads the table's own pages alone and that a
 * distance costs no more than an integer comparison.  Vectors that are kept in a TOAST table are
 * read, too.  So a scan of this index is told at the fraction of its price that the
 * sequential scan's price is of what that scan takes.
 *
 * This is told for every setting of grnnd.iterative_scan.  Where a scan ends
 * before it has all the rows wanted (off, or max_scan_tuples where it is set), a price that
 * went on rising lets the planner prefer a plan that returns them.
 */
#include "am/handler.h"

#include <math.h>

#include "access/table.h"
#include "nodes/pathnodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "storage/bufmgr.h"
#include "utils/float.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"

#include "am/cache.h"

/*
 * Records visited beyond ef_search on the way from the entry points, growing with the logarithm of
 * the rows.  EXPLAIN (ANALYZE, BUFFERS) counts 3 of 20,000 sentences and 60,000 SIFT descriptors.
 */
#define PATH_PER_LOG2_ROWS 0.3

/*
 * Without codes each neighbour met for the first time is visited.  By the same means, for 40
 * expansions of degree 32: 838 visits for 20,000 sentences, 1,078 for 5,000 random rows of 384
 * dimensions.
 */
#define NEW_NEIGHBOURS 0.75

/*
 * CPU time of a distance estimated from a code, in exact distances.  By the clock, with AVX-512 and
 * all in cache, .25 of 128 or 384 dimensions (5 and 18 ns), .05 of 1,536 (85 ns).
 */
#define ESTIMATE_COST 0.1

/*
 * What a page in memory costs of one that is read in order.  PostgreSQL has no price for it,
 * and small tables are decided by it.  By the clock a visit takes 1 to 2 microseconds, and a row of
 * a sequential scan 0.1 to 0.4, at 0.0125 a row: that makes 0.1 (test/bench/plans).
 * The rest is for pages that are not in memory after all.
 */
#define PAGE_IN_MEMORY 0.25

/*
 * A further row in visits: by the clock of the same, 2.5 to 5.8 microseconds for rows 11 to
 * 100.  The search visits three (leads in scan.c), in batches; the row takes the rest.
 */
#define ROW_IN_VISITS 5
/* Where stand-ins' rows are read for their distances: the lead of the search (leads in scan.c). */
#define ROW_IN_READS 3
/* Of rounded rows, those read before the first, in those that a further one takes. */
#define FIRST_IN_ROWS 5
/* Without codes also this share of its neighbours: half of them have been visited by then. */
#define ROW_NEIGHBOURS (NEW_NEIGHBOURS / 2)

/*
 * What a page of a TOAST table costs, in pages read in order: its chunks are found by an
 * index, each, and put together.  By the clock it is four of them in memory (5,000 rows of 1,536
 * dimensions: 40 ms instead of 9), and one where they come from a disk.
 */
#define TOAST_PAGE_COST 1.0
/* Bytes of a value that a page of a TOAST table holds. */
#define TOAST_PAGE_BYTES (4 * 1996)

/*
 * Of what a scan cannot do.  More than any other plan costs, and not infinite: conditions on
 * filter columns make paths for joins as well, and infinity less infinity is no cost.
 */
#define IMPOSSIBLE_COST 1e200

/* What the model needs to know of an index. */
typedef struct Shape
{
	double		rows;			/* entries of the index */
	double		pages;
	double		degree;
	bool		codes;
	uint32		beam;			/* candidates for each of ef_search */
	uint32		span;			/* pages a record */
	uint32		dim;			/* 0: not known */
	bool		stand_ins;
	double		first_reads;	/* rows of the table that a scan reads before the first */
	double		reads;			/* and for each further one; 0: none */
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
		.beam = 1,
		.span = 1,
		.dim = 0
	};

	/* an index that exists only in an advisor's head */
	if (info->hypothetical)
		return shape;
	rel = index_open(info->indexoid, NoLock);
	ix = grnnd_index_shape(rel);
	shape.degree = ix->meta.degree;
	shape.codes = grn_has_codes(&ix->codec);
	shape.beam = grnnd_beam(ix);
	shape.span = ix->layout.span;
	shape.dim = ix->meta.dim;
	if (grnnd_has_stand_ins(ix->key.type))
	{
		shape.stand_ins = true;
		shape.first_reads = grnnd_effective_ef_search();
		shape.reads = ROW_IN_READS;
	}
	else if (grnnd_reranks(ix->key.type, ix->layout.form))
	{
		shape.reads = grn_form(ix->layout.form)->reads;
		/* the first waits for about as many as the next few do */
		shape.first_reads = FIRST_IN_ROWS * (shape.reads - 1);
	}
	index_close(rel, NoLock);
	return shape;
}

/*
 * Cost of a page of so many.  It is in memory with the probability that effective_cache_size
 * gives it, else it is read at random.
 */
static Cost
page_cost(double pages, double random_page, double seq_page)
{
	double		cached = Min(1, effective_cache_size / Max(pages, 1));

	return cached * PAGE_IN_MEMORY * Min(seq_page, random_page) + (1 - cached) * random_page;
}

/* Cost of a visit. */
static Cost
visit_cost(const Shape *shape, double random_page, double seq_page)
{
	double		page = page_cost(shape->pages, random_page, seq_page);
	double		distances = shape->codes ? 1 + shape->degree * ESTIMATE_COST : 1;

	return shape->span * page + cpu_index_tuple_cost + distances * cpu_operator_cost;
}

/*
 * Pages of TOAST that the distance of a row takes, on average: none where the table's own pages
 * have room for vectors.  Other columns' values may be in the TOAST table, too.
 */
static double
toast_pages(PlannerInfo *root, const RelOptInfo *rel, const Shape *shape)
{
	double		bytes = shape->dim * sizeof(float);
	RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);
	double		pages = 0;
	Relation	table;

	/* of stand-ins nobody knows what the rows take */
	if (shape->stand_ins)
		bytes = get_float8_infinity();
	else if (rel->pages * (double) BLCKSZ >= rel->tuples * bytes)
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

/* Cost of reading a row of the table for its distance.  *page: that of the table's page in it. */
static Cost
row_cost(PlannerInfo *root, const RelOptInfo *rel, const Shape *shape, Cost *page)
{
	double		random_page;
	double		seq_page;

	get_tablespace_page_costs(rel->reltablespace, &random_page, &seq_page);
	*page = page_cost(rel->pages, random_page, seq_page);
	return *page + toast_pages(root, rel, shape) * seq_page * TOAST_PAGE_COST +
		cpu_tuple_cost + cpu_operator_cost;
}

/* The part of a sequential scan's price that the planner knows of. */
static double
known_part(PlannerInfo *root, const RelOptInfo *rel, const Shape *shape)
{
	double		page;
	double		known;
	double		toast;

	get_tablespace_page_costs(rel->reltablespace, NULL, &page);
	known = rel->pages * page + rel->tuples * (cpu_tuple_cost + cpu_operator_cost);
	/* distances are computed of the rows that pass the filter */
	toast = rel->rows * toast_pages(root, rel, shape) * page * TOAST_PAGE_COST;
	return known > 0 ? known / (known + toast) : 1;
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
 * late come last, and rows that the index leaves out (NULL) do not come at all.
 *
 * A cursor's tuple_fraction is no LIMIT: a client may read it to its end.  Without a LIMIT of
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

/*
 * Expansions beyond ef for each row, where the scan will know of LIMIT and widen its search for it
 * (scan_limit.c); infinity where it will not, or where a filter makes it go on after that.
 */
static double
known_limit_price(const PlannerInfo *root, const RelOptInfo *rel)
{
	double		ef = grnnd_effective_ef_search();
	double		wanted = 2 * root->limit_tuples;

	if (wanted <= 0 || wanted > GRNND_WIDEST || rel->baserestrictinfo != NIL ||
		grnnd_effective_iterative_scan() == GRNND_ITERATIVE_OFF)
		return get_float8_infinity();
	return (Max(ef, wanted) - ef) / root->limit_tuples;
}

/* Is there a condition that the vector is NULL?  Such rows are not in the index. */
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

void
grnnd_costestimate(struct PlannerInfo *root, struct IndexPath *path, double loop_count,
				   Cost *startup, Cost *total, Selectivity *selectivity,
				   double *correlation, double *pages)
{
	GenericCosts generic;
	Shape		shape;
	double		first;
	double		random_page;
	double		seq_page;
	double		row;
	double		known;
	Cost		visit;
	Cost		reread = 0;
	Cost		page = 0;

	*correlation = 0;			/* neighbours lie anywhere in the table */
	if (path->indexorderbys == NIL || wants_no_vector(path))
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

	shape = index_shape(path->indexinfo);
	get_tablespace_page_costs(path->indexinfo->reltablespace, &random_page, &seq_page);
	known = known_part(root, path->indexinfo->rel, &shape);
	visit = visit_cost(&shape, random_page, seq_page) * known;
	if (shape.reads > 0)
		reread = row_cost(root, path->indexinfo->rel, &shape, &page) * known;
	/* a rounded row that is returned is on a page for which the executor pays */
	page = shape.stand_ins ? 0 : page * known;
	row = ROW_IN_VISITS * shape.beam;
	first = grnnd_effective_ef_search() * shape.beam + PATH_PER_LOG2_ROWS * log2(shape.rows + 1);
	if (!shape.codes)
	{
		first *= NEW_NEIGHBOURS * shape.degree;
		row += ROW_NEIGHBOURS * shape.degree;
	}
	first = Min(first, shape.rows);
	row = Min(row, known_limit_price(root, path->indexinfo->rel) * shape.beam *
			  (shape.codes ? 1 : NEW_NEIGHBOURS * shape.degree));

	*startup = first * visit + Min(shape.first_reads, shape.rows) * reread;
	*total = *startup + shape.rows * (row * visit + shape.reads * reread - page);

	if (!wants_first_rows(root))
	{
		*startup += disable_cost;
		*total += disable_cost;
	}
	*selectivity = generic.indexSelectivity;
	*pages = shape.pages;
}
