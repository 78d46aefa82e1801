/*
 * scan_filter.c - how a scan with conditions on filter columns finds rows: by the graph, by a list
 * of the rows with a value, or by all rows in turn.
 *
 * The sample of the index tells the share of rows that pass.  A search of the graph takes more
 * visits the fewer rows pass.  A list takes more pages the more rows it has.  If the search runs
 * dry, because passing rows are far from the query, the scan goes on with the list.
 */
#include "am/scan_impl.h"

#include "utils/rel.h"

#include "am/entries.h"
#include "am/lists.h"
#include "am/sample.h"

/*
 * Microseconds of one core: a visit of the graph, a visit by a list, which reads no neighbors, a
 * page of a list, and a row of a list.  Measured on a million SIFT descriptors (records of 1,100
 * bytes, codes of 20) and a million sentence embeddings (2,000 and 40).
 */
#define VISIT_COST(l) (0.75 + 0.45 * (double) (l)->record_bytes / 1100)
#define LIST_VISIT_COST 0.9
#define LIST_PAGE_COST 0.3
#define GROUP_COST 1.0			/* the page of a group, at a random place */
#define LIST_ROW_COST(l) (0.005 * (12 + (double) (l)->code_bytes) / 32)
/* Visits of a search, by the share of rows that pass (300,000 and a million SIFT descriptors). */
#define GRAPH_VISITS(ef, share) (25 + (ef) * (0.875 + 0.2 / (share)))

/*
 * Most pages of a list with which a scan goes on after a search of the graph.  By the prices above
 * the 340,000 rows of 2,000 pages take 2.3 milliseconds, as long as 1,800 visits.
 */
#define MOST_PAGES 2000
/*
 * Pages from which on a search of a list is half as wide again: estimates err more often the more
 * rows they choose from.
 */
#define LONG_LIST 500

/*
 * If the sample lets this many times more rows pass than a list has, the length of the list counts:
 * the sample tests signatures, and signatures that are hashes say nothing of ranges.
 */
#define SIGNATURES_ERR 2

/* Computes the rows and pages that a search reads of a list, and returns their cost. */
static double
list_cost(const GrnndScan *so, GrnndListSize size, GrnndListChoice *choice)
{
	const GrnLayout *l = &so->ix->layout;
	double		room = grn_list_rows(l);
	uint32		group_room = grnnd_group_room(l);
	double		groups = 0;
	double		guide = ceil((double) size.groups / room);
	double		pages;

	if (size.groups > 0)
		groups = Min((double) size.groups,
					 grnnd_grouped_rows(so->ef * grnnd_beam(so->ix), (double) size.groups) / group_room);
	choice->rows = size.records * grn_list_rows(l) + grn_rows_of_groups(&so->ix->codec, size.groups, group_room);
	pages = ((double) size.records + guide) * l->span / l->per_page + choice->listed.n;
	choice->pages = (uint64) (pages + groups);
	return LIST_PAGE_COST * pages + GROUP_COST * groups +
		LIST_ROW_COST(l) * ((double) size.records * room + groups * group_room + (double) size.groups) +
		LIST_VISIT_COST * Min((double) so->ef, (double) choice->rows);
}

/* Finds the test, and for an array the element, with the cheapest lists.  Fills so->list. */
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
			double		cost;

			listed->n = grnnd_filter_ranks(so->filter, t, c, &listed->column, listed->ranks,
										   GRNND_MOST_RANKS);
			if (listed->n == 0)
				continue;
			listed->covers = grnnd_ranks_cover(so->filter, t);
			cost = list_cost(so, grnnd_list_size(&so->store, listed), &choice);
			if (so->list.listed.n == 0 || cost < least)
			{
				so->list = choice;
				least = cost;
			}
		}
	so->list.cost = least;
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
	params.ef = so->ef * grnnd_beam(so->ix);
	if (so->list.pages > LONG_LIST)
		params.ef += params.ef / 2;
	params.max_visits = 0;
	/* the list's own pages count as well */
	if (params.wasted_limit > 0)
		params.wasted_limit -= Min(so->list.pages, params.wasted_limit - 1);
	params.patience = GRNND_GROUPS_PATIENCE * so->ef * grnnd_beam(so->ix);
	params.nearest = params.patience / GRNND_ROWS_PER_NEAREST;
	search = grn_search_begin(&params, &so->store.base, so->q);
	so->reader = grnnd_list_read(&so->store, &so->list.listed, &so->filter->base, search);
	if (so->reader == NULL || grn_search_truncated(search))
	{
		so->reader = NULL;
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

/* Cost of a search whose query is far from all passing rows, in units of the usual cost. */
#define FAR_FROM_USUAL 3

/*
 * Returns the share of rows near the query that pass, by the NEAR rows of the sample that are
 * nearest to the query, or the share of all rows if the two shares differ little.  A filter may
 * select the topic of the query, or the opposite.  If a tenth of the rows passes at random, the
 * share near the query is out of bounds for one query in 20.
 */
#define NEAR 64
#define LEAST_NEAR 0.4
#define MOST_NEAR 2
static double
share_near(const GrnSearch *search, const GrnndSample *sample, uint32 code_bytes, double share)
{
	uint32		nearest[NEAR];	/* [n] ascending ordinals of estimates, the last bit: passes */
	float		estimates[GRNND_SAMPLE_ROWS];
	uint32		failing = GRNND_SAMPLE_ROWS - sample->nfailing;
	uint32		n = 0;
	uint32		passing = 0;

	grn_estimate(grn_search_code_query(search), sample->codes, sample->factors, sample->count, estimates);
	grn_estimate(grn_search_code_query(search), sample->codes + (Size) failing * code_bytes,
				 sample->factors + failing, sample->nfailing, estimates + failing);
	for (uint32 i = 0; i < GRNND_SAMPLE_ROWS; i++)
	{
		uint32		ordinal;
		uint32		at = 0;

		if (i == sample->count)
			i = failing;
		if (i == GRNND_SAMPLE_ROWS)
			break;
		ordinal = (grn_ordinal(estimates[i]) & ~UINT32_C(1)) | (i < sample->count);
		if (n == NEAR && ordinal >= nearest[n - 1])
			continue;
		/* compilers vectorize a loop without branches */
		for (uint32 k = 0; k < n; k++)
			at += nearest[k] < ordinal;
		n = Min(n + 1, NEAR);
		memmove(nearest + at + 1, nearest + at, (n - 1 - at) * sizeof(uint32));
		nearest[at] = ordinal;
	}
	for (uint32 i = 0; i < n; i++)
		passing += nearest[i] & 1;
	if (passing >= LEAST_NEAR * share * n && passing <= MOST_NEAR * share * n)
		return share;
	return (passing + 0.5) / (n + 1);
}

/* Returns the cost of the list in visits of the graph.  Infinity: no list serves. */
static double
list_in_visits(const GrnndScan *so)
{
	return so->list.listed.n > 0 ? so->list.cost / VISIT_COST(&so->ix->layout) : get_float8_infinity();
}

GrnSearch *
grnnd_begin_filtered(IndexScanDesc scan, GrnSearchParams *params, uint64 most_visits)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndSample *sample;
	GrnSearch  *search;
	GrnSearch  *list = NULL;
	double		listed;
	double		visits;

	/* a look costs a page, and a list may be far shorter than signatures make believe */
	choose_list(scan);
	listed = ((double) so->list.rows + 1) / (so->store.id_limit + 1.0);
	/* the graph is no cheaper whatever the sample says, and reading the sample costs some pages */
	if (list_in_visits(so) <= GRAPH_VISITS(so->ef, 1) && (list = search_list(scan, params)) != NULL)
		return list;
	/* an upper bound of the share; near the query the share may be smaller */
	visits = GRAPH_VISITS(so->ef, Min(SIGNATURES_ERR * listed, 1));
	sample = grnnd_pick_sample(&so->store, &so->filter->base, list_in_visits(so) <= FAR_FROM_USUAL * visits,
							   &params->share);
	if (so->list.listed.n > 0 && listed < params->share / SIGNATURES_ERR)
		params->share = listed;
	visits = GRAPH_VISITS(so->ef, params->share);
	if (so->list.listed.n == 0 && most_visits > 0 && visits >= (double) most_visits)
		return NULL;
	so->graph = *params;
	params->max_visits = most_visits > 0 ? most_visits : params->max_visits;
	search = grn_search_begin(params, &so->store.base, so->q);
	if (sample->nfailing > 0)
		visits = GRAPH_VISITS(so->ef, share_near(search, sample, so->ix->layout.code_bytes, params->share));
	if (list_in_visits(so) <= visits)
	{
		so->graph.code_query = grn_search_code_query(search);
		list = search_list(scan, &so->graph);
		so->graph.code_query = NULL;
	}
	if (list != NULL)
		grn_search_end(search);
	else
	{
		so->way = GRNND_WAY_GRAPH;
		grn_search_sample(search, sample->ids, sample->codes, sample->factors, sample->count);
	}
	pfree(sample->codes);
	pfree(sample);
	return list != NULL ? list : search;
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
	if (so->graph.wasted_limit > 0)
		so->graph.wasted_limit -= Min(grn_search_wasted(so->search), so->graph.wasted_limit - 1);
	search = search_list(scan, &so->graph);
	if (search == NULL)
		return false;
	so->visits_before += grn_search_visits(so->search);
	grn_search_end(so->search);
	so->search = search;
	so->way = GRNND_WAY_HANDED_OVER;
	return true;
}
