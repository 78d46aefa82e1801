/*
 * scan_filter.c - how a scan with conditions on filter columns finds rows: by the graph, by a list
 * of the rows with a value, or by all rows in turn.
 *
 * The sample of the index tells the share of rows that pass.  A search of the graph takes more
 * visits the fewer rows pass.  A list takes more pages the more rows it has.  If the search runs
 * dry, because passing rows are far from the query, the scan goes on with the list.
 */
#include "am/scan/scan_impl.h"

#include "utils/rel.h"

#include "am/filter/filter.h"
#include "am/index/index.h"

/*
 * Most pages of a list with which a scan goes on after a search of the graph.  By the prices of
 * filter_cost.c the 340,000 rows of 2,000 pages take 2.3 milliseconds, as long as 1,800 visits.
 */
#define MOST_PAGES 2000
/*
 * Pages from which on a search of a list is half as wide again: estimates err more often the more
 * rows they choose from.
 */
#define LONG_LIST 500

/* Candidates that the search needs: some that pass the filter are not in the set. */
static double
candidates(const GrnndScan *so)
{
	return (double) so->width.ef * grnnd_beam(so->ix) / so->set.share;
}

/* Notes that no list serves the filter. */
static void
no_list(GrnndScan *so)
{
	so->list.listed.n = 0;
	so->list.work = (GrnndListWork) {.cost = get_float8_infinity()};
}

/* Finds the test with the cheapest lists.  Fills so->list. */
static void
choose_list(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	const GrnndMeta *meta = &so->ix->meta;

	no_list(so);
	for (uint32 t = 0; t < so->filter->ntests && grnnd_has_lists(meta); t++)
	{
		GrnndListed listed;
		GrnndListWork work;

		listed.n = grnnd_filter_ranks(so->filter, t, &listed.column, listed.ranks, GRNND_MOST_RANKS);
		if (listed.n == 0)
			continue;
		listed.covers = grnnd_ranks_cover(so->filter, t);
		work = grnnd_list_work(so->ix, grnnd_list_size(&so->store, &listed), listed.n, candidates(so));
		if (work.cost >= so->list.work.cost)
			continue;
		so->list.listed = listed;
		so->list.work = work;
	}
}

/*
 * Begins a search of the list's rows alone.  Returns NULL if memory does not hold the rows, or if a
 * fit has begun new lists.
 */
static GrnSearch *
search_list(IndexScanDesc scan, const GrnSearchParams *graph)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnSearchParams params = *graph;
	GrnSearch  *search;

	params.closed = true;
	if (so->list.work.pages > LONG_LIST)
		params.ef += params.ef / 2;
	params.max_visits = so->set.rows != NULL ? graph->max_visits : 0;
	/* the list's own pages count as well */
	if (params.wasted_limit > 0)
		params.wasted_limit -= Min((uint64) so->list.work.pages, params.wasted_limit - 1);
	params.patience = (uint32) Min(GRNND_GROUPS_PATIENCE * graph->ef / so->set.share, PG_INT32_MAX);
	params.nearest = params.patience / GRNND_ROWS_PER_NEAREST;
	search = grn_search_begin(&params, &so->store.base, so->query.q);
	so->list.reader = grnnd_list_read(&so->store, &so->list.listed, &so->filter->base, search);
	if (so->list.reader == NULL || grn_search_truncated(search))
	{
		so->list.reader = NULL;
		grn_search_end(search);
		no_list(so);
		return NULL;
	}
	so->search.way = GRNND_WAY_LIST;
	return search;
}

/* ---- the ways ---- */

GrnSearch *
grnnd_begin_way(IndexScanDesc scan, GrnSearchParams *params, uint64 most_visits)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndSample *sample;
	GrnSearch  *search;
	GrnSearch  *list = NULL;
	double		ef = candidates(so);
	double		listed;
	double		graph;

	/* signatures cannot test the filter */
	if (so->filter == NULL || !grn_has_codes(&so->ix->codec) || so->ix->meta.sample_pages == 0)
	{
		/* the search leaves out failing nodes, so it may miss rows behind them */
		if (so->set.rows != NULL && grn_has_codes(&so->ix->codec))
			so->search.way = GRNND_WAY_GRAPH;
		return grn_search_begin(params, &so->store.base, so->query.q);
	}

	/* reading a list's size costs a page, and a list may be far shorter than signatures say */
	choose_list(scan);
	listed = (so->list.work.rows + 1) / (so->store.id_limit + 1.0);
	/* the graph is no cheaper whatever the sample says, and reading the sample costs some pages */
	if (so->list.work.cost <= grnnd_graph_cost(ef, 1) && (list = search_list(scan, params)) != NULL)
		return list;
	sample = grnnd_pick_sample(&so->store, &so->filter->base, &params->share);
	/* the sample tests signatures, and signatures that are hashes say nothing of ranges */
	if (so->list.listed.n > 0)
		params->share = Min(params->share, listed);
	graph = grnnd_graph_cost(ef, params->share);
	if (so->list.listed.n == 0 && most_visits > 0 && graph > (double) most_visits)
		return NULL;
	params->share *= so->set.share;
	so->list.graph = *params;
	if (so->list.work.cost <= graph && (list = search_list(scan, params)) != NULL)
		return list;
	params->max_visits = most_visits > 0 ? most_visits : params->max_visits;
	search = grn_search_begin(params, &so->store.base, so->query.q);
	so->search.way = GRNND_WAY_GRAPH;
	grn_search_sample(search, sample->ids, sample->codes, sample->factors, sample->count);
	pfree(sample->codes);
	pfree(sample);
	return search;
}

bool
grnnd_hand_over(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnSearch  *search;

	if (so->search.way != GRNND_WAY_GRAPH || so->list.listed.n == 0 ||
		!(grn_search_truncated(so->search.run) ||
		  (grn_search_dry(so->search.run) && so->list.work.pages <= MOST_PAGES)))
		return false;
	if (so->list.graph.wasted_limit > 0)
		so->list.graph.wasted_limit -= Min(grn_search_wasted(so->search.run), so->list.graph.wasted_limit - 1);
	search = search_list(scan, &so->list.graph);
	if (search == NULL)
		return false;
	so->search.visits_before += grn_search_visits(so->search.run);
	grn_search_end(so->search.run);
	so->search.run = search;
	so->search.way = GRNND_WAY_HANDED_OVER;
	return true;
}
