/*
 * bitmap_path.c - plans in which the bitmap of other indexes is a condition of a search.
 *
 * The planner's own path in the order of distances tests conditions of other indexes on the rows
 * that the search returns.  This file adds a path: a custom scan over the index scan and the bitmap
 * plan that the planner has made for the conditions (Bitmap Index Scan, BitmapAnd, BitmapOr).  The
 * scan makes the bitmap first, and its search returns rows of the bitmap alone (scan_tids.c).
 *
 * The planner chooses the conditions of a bitmap under the rules of row security.  The index scan
 * keeps all conditions in its filter, so the executor tests each returned row as in any plan.
 */
#include "am/scan/scan.h"

#include "access/table.h"
#include "access/tableam.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "utils/rel.h"

#include "am/callbacks.h"
#include "am/grnnd.h"

static set_rel_pathlist_hook_type next_pathlist;

static bool
is_ours(const IndexOptInfo *info)
{
	return (void *) info->amcostestimate == (void *) grnnd_costestimate;
}

/* Only addresses of a heap's rows are sure to be those of its pages. */
static bool
is_heap(const RangeTblEntry *rte)
{
	Relation	table = table_open(rte->relid, NoLock);
	bool		heap = table->rd_tableam == GetHeapamTableAmRoutine();

	table_close(table, NoLock);
	return heap;
}

/* The paths of a relation of which a path of this file consists. */
typedef struct Parts
{
	List	   *ordered;		/* IndexPaths in the order of distances, of indexes of ours */
	BitmapHeapPath *bitmap;		/* NULL: none */
} Parts;

static Parts
find_parts(const List *paths)
{
	Parts		parts = {NIL, NULL};
	ListCell   *lc;

	foreach(lc, paths)
	{
		Path	   *path = lfirst(lc);

		if (path->param_info != NULL)
			continue;
		if (IsA(path, IndexPath) && ((IndexPath *) path)->indexorderbys != NIL &&
			is_ours(((IndexPath *) path)->indexinfo))
			parts.ordered = lappend(parts.ordered, path);
		else if (IsA(path, BitmapHeapPath) && !path->parallel_aware)
			parts.bitmap = (BitmapHeapPath *) path;
	}
	return parts;
}

/*
 * Makes the planner generate the index paths of a relation once more.  The paths of the first time
 * may be gone, because cheaper paths have replaced them: so other orders of distances are left out
 * here, and plain index scans are made expensive.
 */
static Parts
make_parts(PlannerInfo *root, RelOptInfo *rel)
{
	List	   *paths = rel->pathlist;
	List	   *indexes = rel->indexlist;
	bool		parallel = rel->consider_parallel;
	bool		plain = enable_indexscan;
	bool		only = enable_indexonlyscan;
	bool		seen = enable_bitmapscan;
	List	   *some = NIL;
	Parts		parts;
	ListCell   *lc;

	foreach(lc, indexes)
		if (is_ours(lfirst(lc)) || ((IndexOptInfo *) lfirst(lc))->amhasgetbitmap)
		some = lappend(some, lfirst(lc));
	PG_TRY();
	{
		rel->indexlist = some;
		rel->pathlist = NIL;
		rel->consider_parallel = false;
		enable_indexscan = false;
		enable_indexonlyscan = false;
		enable_bitmapscan = true;
		create_index_paths(root, rel);
		parts = find_parts(rel->pathlist);
	}
	PG_FINALLY();
	{
		rel->indexlist = indexes;
		rel->pathlist = paths;
		rel->consider_parallel = parallel;
		enable_indexscan = plain;
		enable_indexonlyscan = only;
		enable_bitmapscan = seen;
	}
	PG_END_TRY();
	foreach(lc, parts.ordered)
		cost_index(lfirst(lc), root, 1, false);
	return parts;
}

/* ---- the plan ---- */

/* A scan without the Result node that tests conditions without columns. */
static Plan *
scan_of(Plan * plan)
{
	return IsA(plan, Result) ? outerPlan(plan) : plan;
}

static Plan *
plan_path(PlannerInfo *root, RelOptInfo *rel, struct CustomPath *path, List *tlist, List *clauses,
		  List *plans)
{
	IndexScan  *scan = castNode(IndexScan, scan_of(linitial(plans)));
	BitmapHeapScan *heap = castNode(BitmapHeapScan, scan_of(lsecond(plans)));
	CustomScan *plan = makeNode(CustomScan);
	bool		residual = false;
	ListCell   *lc;

	/* the bitmap's plan tests these conditions on rows of the table */
	foreach(lc, scan->scan.plan.qual)
		residual |= list_member(heap->scan.plan.qual, lfirst(lc));
	/* rows that the scan reads of the bitmap may fail the predicate of a partial index */
	if (((IndexPath *) linitial(path->custom_paths))->indexinfo->indpred != NIL)
		scan->scan.plan.qual = extract_actual_clauses(clauses, false);
	plan->scan.plan.targetlist = tlist;
	plan->scan.scanrelid = 0;
	plan->flags = path->flags;
	plan->custom_plans = list_make2(scan, outerPlan(heap));
	plan->custom_scan_tlist = copyObject(scan->scan.plan.targetlist);
	plan->custom_private = list_make1(makeInteger(residual));
	plan->methods = &grnnd_bitmap_methods;
	return (Plan *) plan;
}

static const CustomPathMethods path_methods = {
	.CustomName = GRNND_BITMAP_NAME,
	.PlanCustomPath = plan_path
};

/* ---- the path ---- */

/* Returns NULL if the index does not have the wanted rows. */
static Path *
bitmap_path(PlannerInfo *root, RelOptInfo *rel, IndexPath *ordered, const BitmapHeapPath * bitmap)
{
	CustomPath *path = makeNode(CustomPath);
	BitmapHeapPath *copy = makeNode(BitmapHeapPath);

	/* add_path() may free the original */
	memcpy(copy, bitmap, sizeof(BitmapHeapPath));
	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.rows = rel->rows;
	path->path.pathkeys = ordered->path.pathkeys;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_paths = list_make2(ordered, copy);
	path->methods = &path_methods;
	if (!grnnd_bitmap_cost(root, ordered, copy, &path->path.startup_cost, &path->path.total_cost))
		return NULL;
#if PG_VERSION_NUM >= 180000
	path->path.disabled_nodes = !enable_indexscan + !enable_bitmapscan;
#else
	if (!enable_indexscan || !enable_bitmapscan)
	{
		path->path.startup_cost += disable_cost;
		path->path.total_cost += disable_cost;
	}
#endif
	return &path->path;
}

/* Is the order that of an operator's results, as the order of distances is? */
static bool
orders_by_operator(const PathKey * key)
{
	ListCell   *lc;

	foreach(lc, key->pk_eclass->ec_members)
		if (is_opclause(((EquivalenceMember *) lfirst(lc))->em_expr))
		return true;
	return false;
}

static void
add_paths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	bool		ours = false;
	bool		others = false;
	Parts		parts;
	ListCell   *lc;

	if (next_pathlist != NULL)
		next_pathlist(root, rel, rti, rte);
	if (!grnnd_enable_bitmap || rte->rtekind != RTE_RELATION || rte->inh || rte->tablesample != NULL ||
		IS_DUMMY_REL(rel) || rel->baserestrictinfo == NIL || root->query_pathkeys == NIL || !bms_is_empty(rel->lateral_relids) ||
		!orders_by_operator(linitial(root->query_pathkeys)))
		return;
	foreach(lc, rel->indexlist)
	{
		const IndexOptInfo *info = lfirst(lc);

		ours |= is_ours(info);
		others |= info->amhasgetbitmap && !info->hypothetical;
	}
	if (!ours || !others || !is_heap(rte))
		return;
	parts = find_parts(rel->pathlist);
	if (parts.ordered == NIL || parts.bitmap == NULL)
	{
		Parts		made = make_parts(root, rel);

		parts.ordered = parts.ordered != NIL ? parts.ordered : made.ordered;
		parts.bitmap = parts.bitmap != NULL ? parts.bitmap : made.bitmap;
	}
	if (parts.bitmap == NULL)
		return;
	foreach(lc, parts.ordered)
	{
		IndexPath  *ordered = lfirst(lc);
		Path	   *path = NULL;

		if (!ordered->indexinfo->hypothetical && grnnd_first_rows(root, ordered) == GRNND_FIRST_ROWS)
			path = bitmap_path(root, rel, ordered, parts.bitmap);
		if (path != NULL)
			add_path(rel, path);
	}
}

void
grnnd_install_bitmap_scan(void)
{
	next_pathlist = set_rel_pathlist_hook;
	set_rel_pathlist_hook = add_paths;
	RegisterCustomScanMethods(&grnnd_bitmap_methods);
}
