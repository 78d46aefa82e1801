/*
 * scan_filter.c - the way of a scan with conditions on filter columns: over the graph, by a list
 * of the rows that have a value, or by all rows in turn.
 *
 * The sample of the index says what share of the rows passes.  A search of the graph costs the
 * more visits the fewer pass, a list the more pages the more rows it has.  Where the search runs
 * dry, because the rows that pass are far from the query, the list takes over.
 */
#include "am/scan_impl.h"

#include "utils/rel.h"

#include "am/entries.h"
#include "am/lists.h"
#include "am/sample.h"

/* Microseconds of a visit, a page of a list and a row of it (one core, SIFT descriptors). */
#define VISIT_COST 1.3
#define LIST_PAGE_COST 0.3
#define LIST_ROW_COST 0.005
/*
 * Visits of a search: up to an ef of 40 between those at recall .95 and at .99, 60 + 5 / share
 * (test/bench/tried.md).  A wider search, of a greater ef_search or LIMIT, makes more, as cost.c
 * counts them: of 20,000 sentences of which 10% pass 420 to 740 at ef 200, 770 to 1,270 at 400.
 */
#define USUAL_EF 40
#define GRAPH_VISITS(ef, share) (25 + Max(ef, USUAL_EF) * (0.875 + 0.125 / (share)))

/*
 * A list of more pages than this does not take over from a search that is at work.  By the prices
 * above, its 340,000 rows take 2.3 milliseconds, which is 1,800 visits.
 */
#define MOST_PAGES 2000
/*
 * From so many pages on more of a list's rows are visited: the more rows estimates choose from, the
 * more often they err.  Of 20,000 sentences on 181 pages the smaller number still finds .999.
 */
#define LONG_LIST 500

/*
 * Where the sample, which goes by signatures, lets so many times more rows pass than a list has,
 * the list is right: signatures that are hashes say nothing of ranges.
 */
#define SIGNATURES_ERR 2

/* Rows of a list that are visited at a time. */
static uint32
list_batch(const GrnndScan *so, uint64 pages)
{
	uint32		batch = Max(so->ef / 2, 10);

	return pages > LONG_LIST ? batch + batch / 2 : batch;
}

static double
list_cost(const GrnndScan *so, const GrnndListChoice *choice)
{
	double		rows = (double) choice->rows;
	/* a wide search takes further batches, until it has found ef rows */
	double		visits = Max(list_batch(so, choice->pages), (double) so->ef - USUAL_EF / 2);

	return LIST_PAGE_COST * (double) choice->pages + LIST_ROW_COST * rows +
		VISIT_COST * Min(visits, rows);
}

/* Finds the test, and of an array the element, whose lists cost least: so->list. */
static void
choose_list(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	const GrnndMeta *meta = &so->ix->meta;
	double		least = 0;

	so->list.listed.n = 0;
	for (uint32 t = 0; t < so->filter->ntests && grnnd_has_lists(meta); t++)
		for (uint32 c = 0; c < grnnd_filter_choices(so->filter, t); c++)
		{
			GrnndListChoice choice;
			GrnndListed *listed = &choice.listed;
			uint64		records;
			double		cost;

			listed->n = grnnd_filter_ranks(so->filter, t, c, &listed->column, listed->ranks,
										   GRNND_MOST_RANKS);
			if (listed->n == 0)
				continue;
			listed->covers = grnnd_ranks_cover(so->filter, t);
			records = grnnd_list_records(&so->store, listed);
			choice.rows = records * grn_list_rows(&so->ix->layout);
			choice.pages = records * so->ix->layout.span / so->ix->layout.per_page + listed->n;
			cost = list_cost(so, &choice);
			if (so->list.listed.n == 0 || cost < least)
			{
				so->list = choice;
				least = cost;
			}
		}
	so->list.cost = least;
}

/*
 * Begins a search of the list's rows alone; NULL: memory does not hold them, or a fit has begun
 * other lists.
 */
static GrnSearch *
search_list(IndexScanDesc scan, const GrnSearchParams *graph)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnSearchParams params = *graph;
	GrnSearch  *search;

	params.closed = true;
	params.ef = list_batch(so, so->list.pages) * grnnd_beam(so->ix);
	params.max_visits = 0;
	search = grn_search_begin(&params, &so->store.base, so->q);
	if (!grnnd_list_read(&so->store, &so->list.listed, &so->filter->base, search) ||
		grn_search_truncated(search))
	{
		grn_search_end(search);
		so->list.listed.n = 0;
		return NULL;
	}
	so->way = GRNND_WAY_LIST;
	return search;
}

/* ---- the ways ---- */

bool
grnnd_filters_by_signature(const GrnndScan *so)
{
	return so->filter != NULL && grn_has_codes(&so->ix->codec) && so->ix->meta.sample_pages > 0;
}

GrnSearch *
grnnd_begin_filtered(IndexScanDesc scan, GrnSearchParams *params, uint64 most_visits)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndSample *sample;
	GrnSearch  *search;
	double		listed;
	double		visits;

	/* a look costs a page, and a list may be far shorter than signatures make believe */
	choose_list(scan);
	listed = ((double) so->list.rows + 1) / (so->store.id_limit + 1.0);
	/* whatever the sample said, the share would be no more, and it costs some pages to ask */
	params->share = Min(SIGNATURES_ERR * listed, 1);
	visits = GRAPH_VISITS(so->ef, params->share);
	if (so->list.listed.n > 0 && so->list.cost <= VISIT_COST * visits &&
		(search = search_list(scan, params)) != NULL)
		return search;
	sample = grnnd_pick_sample(&so->store, &so->filter->base, &params->share);
	if (so->list.listed.n > 0 && listed < params->share / SIGNATURES_ERR)
		params->share = listed;
	visits = GRAPH_VISITS(so->ef, params->share);
	if (so->list.listed.n > 0 && so->list.cost <= VISIT_COST * visits &&
		(search = search_list(scan, params)) != NULL)
		return search;
	so->graph = *params;
	if (most_visits > 0)
	{
		if (so->list.listed.n == 0 && visits >= (double) most_visits)
			return NULL;
		params->max_visits = most_visits;
	}
	so->way = GRNND_WAY_GRAPH;
	search = grn_search_begin(params, &so->store.base, so->q);
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

	if (so->way != GRNND_WAY_GRAPH || so->list.listed.n == 0 ||
		!(grn_search_truncated(so->search) ||
		  (grn_search_dry(so->search) && so->list.pages <= MOST_PAGES)))
		return false;
	search = search_list(scan, &so->graph);
	if (search == NULL)
		return false;
	so->visits_before += grn_search_visits(so->search);
	grn_search_end(so->search);
	so->search = search;
	so->way = GRNND_WAY_HANDED_OVER;
	return true;
}
