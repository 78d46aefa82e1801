/*
 * scan_search.c - rows that the search finds, in the order of their values (README).
 */
#include "am/scan/scan_impl.h"

#include <math.h>

#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/index/index.h"
#include "am/test_point.h"

#define VISITS_LIMIT "grnnd.max_scan_tuples"

/*
 * Widths of nodes that a scan finds at most because rounding hides rows (hides_rows()).  Recall of
 * ten rows at ef 40 with one, two, four (this) and eight, and ms: 50 clusters of 200 rows in an
 * index created empty .898, .984, 1.000, 1.000 in .12, .21, .22, .31; 768 normal dimensions in
 * layout compact .424, .584, .733, .793 in .26, .43, 1.07, 1.47; sentences and log-normal lengths
 * equal, in equal time.
 */
#define MOST_WIDTHS 4

/* ---- begin and end ---- */

/* Number of index pages with nodes. */
static uint64
node_pages(const GrnndScan *so)
{
	const GrnLayout *l = &so->ix->layout;

	return (uint64) so->store.id_limit / l->per_page * l->span;
}

/*
 * Number of visits that cost as much as the rest.  A dead record, or a node without rows for this
 * scan, costs the rest only its share of a page.  So with all records dead the rest costs as much
 * as visits of all pages.
 */
static uint64
rest_visits(const GrnndScan *so)
{
	uint64		visits = (uint64) grnnd_all_rows_cost(so->ix, so->store.id_limit);
	uint64		wasted = so->search.run == NULL ? 0 : grn_search_wasted(so->search.run);
	uint64		total = so->results.found + wasted;
	uint64		cheap = wasted;

	if (grnnd_set_serves(so))
		return (uint64) Min((double) visits, ceil(grnnd_set_cost(so)));
	cheap += so->search.nempty;
	if (total == 0 || visits <= node_pages(so))
		return visits;
	return visits - (uint64) ((double) (visits - node_pages(so)) * cheap / total);
}

/* Number of visits that cost as much as the rest; 0: the user has set another limit. */
static uint64
most_visits(const GrnndScan *so)
{
	return so->asked.iterative == GRNND_ITERATIVE_OFF || so->asked.max_visits > 0 ? 0 : rest_visits(so);
}

/* pairingheap keeps the largest on top, so the nearest compares as the largest. */
static int
compare_results(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	double		x = pairingheap_const_container(ScanCandidate, node, a)->value;
	double		y = pairingheap_const_container(ScanCandidate, node, b)->value;

	return float8_cmp_internal(y, x);
}

void
grnnd_begin_results(GrnndScan *so)
{
	so->results.heap = pairingheap_allocate(compare_results, NULL);
	so->results.late = pairingheap_allocate(compare_results, NULL);
	so->results.last = -get_float8_infinity();
}

void
grnnd_begin_search(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	const GrnndIndex *ix = so->ix;
	GrnSearchParams params = {
		.layout = &ix->layout,
		.codec = &ix->codec,
		.metric = ix->key.metric,
		.ef = so->width.ef * grnnd_beam(ix),
		.ef_exact = so->width.ef_exact,
		.wanted = (uint32_t) Min(so->width.wanted, so->width.ef_exact),
		.resumable = so->asked.iterative != GRNND_ITERATIVE_OFF,
		.memory_limit = so->asked.memory_limit,
		.dead_limit = GRN_DEAD_LIMIT(so->width.ef * grnnd_beam(ix)),
		/* reading the rest reads each page once for all records, and dead records cost nothing */
		.wasted_limit = most_visits(so) > 0 ? Max(node_pages(so), 1) : 0,
		.max_visits = so->set.rows != NULL && so->asked.max_visits == 0 ? most_visits(so) : so->asked.max_visits,
		.tests_per_visit = so->asked.max_visits == 0 ? GRNND_TESTS_PER_VISIT : 0,
		.norms = so->query.norms,
		.share = so->set.share,
		.filter = so->filter != NULL ? &so->filter->base : NULL
	};
	const GrnndEntries *entries = grnnd_get_entries(scan->indexRelation, ix);
	const ItemPointerData *excluded = grnnd_excluded_row(RelationGetRelid(scan->indexRelation));

	so->store.pages++;
	grnnd_test_point("scan-entries");
	if (entries->count == 0)
	{
		/* no node is read, so the entry page must tell whether vacuum has removed rows */
		Buffer		buffer = grnnd_read(scan->indexRelation, ix->meta.entry_block,
										BUFFER_LOCK_SHARE, GRNND_ENTRIES, NULL);

		TestForOldSnapshot(scan->xs_snapshot, scan->indexRelation, BufferGetPage(buffer));
		UnlockReleaseBuffer(buffer);
		so->search.exhausted = true;
		return;
	}
	if (excluded != NULL)
		grnnd_exclude_node(so, &params, entries, excluded);
	if (!grnnd_reads_all(so))
		so->search.run = grnnd_begin_way(scan, &params, most_visits(so));
	if (so->search.run == NULL)
		grnnd_begin_rest(scan);
	else if (so->search.way != GRNND_WAY_LIST)
		grn_search_entries(so->search.run, entries->ids, entries->codes, entries->factors, entries->count);
}

void
grnnd_leave_search(GrnndScan *so, GrnndWay way)
{
	if (so->search.run == NULL)
		so->search.way = way;
	else
	{
		so->search.then = way;
		so->search.visits_before += grn_search_visits(so->search.run);
		grn_search_end(so->search.run);
	}
	so->search.run = NULL;
	so->search.exhausted = true;
	so->batch.size = 0;
	/* results that wait are read again, but for rows that the scan has read from the table */
	if (so->rerank != NULL)
		return;
	pairingheap_reset(so->results.heap);
	pairingheap_reset(so->results.late);
}

void
grnnd_end_search(IndexScanDesc scan, const char *limit)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;

	so->search.exhausted = true;
	if (so->asked.iterative == GRNND_ITERATIVE_OFF)
		return;
	if (so->asked.max_visits > 0)
		so->search.limit = limit;
	else
		grnnd_begin_rest(scan);
}

void
grnnd_report_limit(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;

	if (so->search.limit == NULL || so->limit_reported)
		return;
	so->limit_reported = true;
	ereport(NOTICE,
			(errmsg("the scan of index \"%s\" ended at the limit of %s",
					RelationGetRelationName(scan->indexRelation), so->search.limit),
			 errdetail("The query requested more rows, and the index may hold more."),
			 errhint("Set grnnd.max_scan_tuples to 0 for no limit.")));
}

/* ---- batches ---- */

/* The setting that ends the search before a further batch; NULL: none. */
static const char *
limit_reached(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	uint64		most = so->asked.max_visits > 0 ? so->asked.max_visits : rest_visits(so);

	if (grn_search_visits(so->search.run) >= most)
		return VISITS_LIMIT;
	if (so->asked.iterative == GRNND_ITERATIVE_OFF ||
		MemoryContextMemAllocated(so->context, false) >= so->asked.memory_limit)
		return GRNND_MEMORY_LIMIT;
	return so->list.reader != NULL && !grnnd_list_more(so->list.reader) ? VISITS_LIMIT : NULL;
}

/* Runs the search once more.  Returns the number of nodes found; 0: the search has ended. */
static uint32
run_search(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	bool		first = !so->search.resumed;
	const char *limit = first ? NULL : limit_reached(scan);
	uint32		n;
	bool		truncated;

	if (limit != NULL)
	{
		grnnd_end_search(scan, limit);
		return 0;
	}
	n = grn_search_run(so->search.run);
	if (first && grnnd_hand_over(scan))
		n = grn_search_run(so->search.run);
	if (first && grnnd_set_serves(so) && grn_search_dry(so->search.run))
	{
		grnnd_begin_set_rows(scan);
		return 0;
	}
	/* all rows of the groups read so far may be gone */
	while (n == 0 && so->list.reader != NULL && grnnd_list_has_more(so->list.reader) &&
		   !grn_search_truncated(so->search.run))
	{
		if (!grnnd_list_more(so->list.reader))
		{
			grnnd_end_search(scan, VISITS_LIMIT);
			return 0;
		}
		n = grn_search_run(so->search.run);
	}
	if (n > 0)
		return n;
	truncated = grn_search_truncated(so->search.run);
	limit = so->asked.max_visits > 0 &&
		(!truncated || grn_search_visits(so->search.run) >= so->asked.max_visits) ? VISITS_LIMIT : GRNND_MEMORY_LIMIT;
	/* a search by signatures skips failing nodes, so it may miss rows behind them */
	if (truncated || so->search.way == GRNND_WAY_GRAPH)
		grnnd_end_search(scan, limit);
	so->search.exhausted = true;
	return 0;
}

/* Adds the nodes of a run [n] to the results that wait. */
static void
add_results(IndexScanDesc scan, uint32 n)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	bool		several = scan->numberOfOrderBys > 1;
	const GrnFound *found = grn_search_found(so->search.run);
	ScanCandidate *results = MemoryContextAllocHuge(so->context, n * sizeof(ScanCandidate));
	uint32		ntids = 0;
	uint8	   *tids;

	for (uint32 i = 0; i < n; i++)
		ntids += found[i].ntids;
	tids = MemoryContextAllocHuge(so->context, Max((Size) ntids * GRN_TID_BYTES, 1));
	for (uint32 i = 0; i < n; i++)
	{
		const GrnFound *f = &found[i];
		ScanCandidate *r = &results[i];
		Size		bytes = (Size) f->ntids * GRN_TID_BYTES;

		r->exact = f->error == 0 && !several;
		r->id = f->id;
		r->version = f->version;
		r->ntids = f->ntids;
		r->next = f->next;
		/* the row of a node that fails a filter is not read, so its bound would stay */
		r->value = grnnd_operator_value(so, f, sqrt(f->norm2), !r->exact && !grnnd_is_empty(r));
		r->least = r->value;
		if ((r->exact || grnnd_is_empty(r)) && grnnd_has_threshold(so))
			r->least = grnnd_operator_value(so, f, sqrt(f->norm2), true);
		so->search.nempty += grnnd_is_empty(r);
		r->tids = tids;
		memcpy(tids, grn_search_tids(so->search.run) + (Size) f->tids * GRN_TID_BYTES, bytes);
		tids += bytes;
		if (so->rerank != NULL)
			grnnd_rerank_add(so, r);
		else
			pairingheap_add(so->results.heap, &r->node);
	}
	so->results.found += n;
	so->search.resumed = true;
	so->batch = (GrnndBatch) {.nodes = results, .size = n};
}

/* Runs one more batch of the search, or ends the search. */
static void
run_batch(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	uint32		n = run_search(scan);

	if (n == 0)
		return;
	if (!so->search.resumed)
	{
		so->search.beyond = Max(0, (int64) n - so->width.ef * grnnd_beam(so->ix));
		grnnd_widen(so, grn_search_found(so->search.run), n);
	}
	if (grnnd_reads_all(so))
		grnnd_begin_rest(scan);
	else
		add_results(scan, n);
}

/* ---- results ---- */

/* Number of nodes with rows that the search has found, in units of the beam. */
static double
found_nodes(const GrnndScan *so)
{
	return (double) so->results.found / grnnd_beam(so->ix);
}

bool
grnnd_is_due(const GrnndScan *so)
{
	double		found = found_nodes(so);
	uint64		taken = so->results.taken;

	if (so->asked.iterative == GRNND_ITERATIVE_OFF)
		return taken < so->width.ef;
	if (so->search.exhausted)
		return true;
	/* dead nodes may have ended the first search early */
	if (found < so->width.ef)
		return false;
	return taken < ceil(so->width.ef * so->width.first) + (found - so->width.ef) /
		grnnd_expansions_per_row(&so->ix->codec, so->asked.iterative == GRNND_ITERATIVE_STRICT);
}

/*
 * May rounding hide rows that are nearer than the next result?  The scan has read all found rows
 * whose bounds are below the value of that result.  If these are as many as the search is wide,
 * rows that the search has not found may have such bounds, too.
 */
static bool
hides_rows(IndexScanDesc scan)
{
	const GrnndScan *so = (const GrnndScan *) scan->opaque;

	return so->rerank != NULL && !so->search.exhausted && so->list.reader == NULL &&
		found_nodes(so) < MOST_WIDTHS * so->width.ef &&
		grnnd_rerank_unread(so) <= so->search.beyond && limit_reached(scan) == NULL;
}

/* No result is due: runs a batch, or turns to results found late.  Returns false at the end. */
static bool
find_more(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndResults *results = &so->results;
	pairingheap *empty = results->heap;

	if (!so->search.exhausted)
	{
		run_batch(scan);
		return true;
	}
	if (!pairingheap_is_empty(results->heap) || pairingheap_is_empty(results->late) || so->search.limit != NULL)
	{
		grnnd_report_limit(scan);
		return false;
	}
	results->heap = results->late;
	results->late = empty;
	results->last = -get_float8_infinity();
	return true;
}

/* The nearest result is beyond the threshold: runs a batch if too few nodes are found, or ends. */
static void
pass_threshold(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;

	if (so->asked.iterative != GRNND_ITERATIVE_OFF && !so->search.exhausted &&
		found_nodes(so) < GRNND_LEAST_WITHIN)
	{
		run_batch(scan);
		return;
	}
	/* all further results are beyond the threshold, except perhaps results in `late` */
	pairingheap_reset(so->results.heap);
	grnnd_rerank_stop(so);
	so->search.exhausted = true;
	so->search.limit = NULL;
}

/* Takes the nearest result, and makes its rows current unless the result has none or comes late. */
static bool
take_result(IndexScanDesc scan, ScanCandidate *r)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndResults *results = &so->results;

	pairingheap_remove_first(results->heap);
	results->taken++;
	if (so->rerank == NULL)
	{
		so->batch.taken++;
		grnnd_prefetch_results(scan);
	}
	/* a node without rows only held its place in the order */
	if (grnnd_is_empty(r))
	{
		if (so->rerank != NULL)
			grnnd_rerank_free(r);
		return false;
	}
	if (so->asked.iterative != GRNND_ITERATIVE_RELAXED && r->value < results->last)
	{
		pairingheap_add(results->late, &r->node);
		return false;
	}
	results->last = r->value;
	so->now.value = r->value;
	so->now.exact = r->exact;
	so->now.record = r->id;
	so->now.tids = r->tids;
	so->now.ntids = r->ntids;
	so->now.next = 0;
	if (so->rerank != NULL)
		grnnd_rerank_take(so, r);
	else
	{
		grnnd_add_number(&so->results.returned, so->context, r->id);
		grnnd_begin_chain(&so->now.chain, r->id, r->version, r->next);
	}
	return true;
}

bool
grnnd_next_result(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;

	for (;;)
	{
		pairingheap *heap;
		ScanCandidate *r;

		if (so->rerank != NULL)
			grnnd_rerank(scan);
		if (so->source != grnnd_next_result)
			return false;
		heap = so->results.heap;
		if (pairingheap_is_empty(heap) || !grnnd_is_due(so))
		{
			if (!find_more(scan))
				return false;
			continue;
		}
		r = pairingheap_container(ScanCandidate, node, pairingheap_first(heap));
		if (hides_rows(scan))
			run_batch(scan);
		else if (r->least > so->asked.threshold)
			pass_threshold(scan);
		else if (take_result(scan, r))
			return true;
	}
}
