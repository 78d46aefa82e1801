/*
 * scan_filter.c - the way of a scan with conditions on filter columns: over the graph, by a list
 * of the rows that have a value, or by all rows in turn.
 *
 * The sample of the index says what share of the rows passes.  A search of the graph costs the
 * more visits the fewer pass, a list the more pages the more rows it has.  Where the search runs
 * dry, because the rows that pass are far from the query, the list takes over.
 */
#include "am/scan.h"

#include "access/htup_details.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain.h"
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "am/entries.h"
#include "am/handler.h"
#include "am/lists.h"
#include "am/sample.h"

/*
 * Microseconds: a visit, a page of a list, a row of it (one core, SIFT descriptors).  A search
 * makes 60 visits and 5 over the share that passes.
 */
#define VISIT_COST 1.3
#define LIST_PAGE_COST 0.5
#define LIST_ROW_COST 0.03
#define GRAPH_VISITS(share) (60 + 5 / (share))

/* Lists that are looked up in the directory for a price, which takes a page each. */
#define MOST_HEADS 8

/* A list of more pages than this does not take over from a search that is at work. */
#define MOST_PAGES 2000
/* From so many pages on more of a list's rows are visited, because estimates err more often. */
#define LONG_LIST 500

/* Rows of a list that are visited at a time. */
static uint32
list_batch(const GrnndScan *so, uint64 pages)
{
	uint32		batch = Max(so->ef / 2, 10);

	return pages > LONG_LIST ? batch + batch / 2 : batch;
}

static double
list_cost(const GrnndScan *so, uint64 pages, uint64 records)
{
	return LIST_PAGE_COST * (double) pages +
		LIST_ROW_COST * (double) records * grn_list_rows(&so->ix->layout) +
		VISIT_COST * list_batch(so, pages);
}

/* Finds the test whose lists cost least: so->list. */
static void
choose_list(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	const GrnndMeta *meta = &so->ix->meta;
	double		least = 0;

	so->list.n = 0;
	for (uint32 t = 0; t < so->filter->ntests && meta->list_pages > 0; t++)
	{
		GrnndListChoice choice = {0};
		uint64		records = 0;
		uint32		looked;
		double		cost;

		choice.n = grnnd_filter_hashes(so->filter, t, &choice.column, choice.hashes,
									   GRNND_MOST_LISTS);
		if (choice.n == 0)
			continue;
		looked = Min(choice.n, MOST_HEADS);
		for (uint32 i = 0; i < looked; i++)
			records += grnnd_list_head(scan->indexRelation, so->ix,
									   grnnd_list_bucket(meta, choice.column,
														 choice.hashes[i * choice.n / looked])).records;
		records = records * choice.n / looked;
		choice.pages = records * so->ix->layout.span / so->ix->layout.per_page + choice.n;
		cost = list_cost(so, choice.pages, records);
		if (so->list.n == 0 || cost < least)
		{
			so->list = choice;
			least = cost;
		}
	}
	so->list.cost = least;
}

/* Begins a search of the list's rows alone; NULL: memory does not hold them. */
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
	for (uint32 i = 0; i < so->list.n; i++)
		grnnd_list_read(scan->indexRelation, so->ix,
						grnnd_list_bucket(&so->ix->meta, so->list.column, so->list.hashes[i]),
						so->list.hashes[i], &so->filter->base, search);
	if (grn_search_truncated(search))
	{
		grn_search_end(search);
		so->list.n = 0;
		return NULL;
	}
	so->way = GRNND_WAY_LIST;
	return search;
}

/* ---- what a scan did ---- */

static const char *const way_names[] = {"check", "graph", "list", "graph, then list", "all rows"};

typedef struct Taken
{
	const char *way;			/* NULL: no scan, or one without a filter */
	bool		rest;			/* and then all rows in turn */
	uint64		visits;
	uint64		list_pages;
} Taken;

static Taken last;				/* in this backend */

static Taken
way_taken(const GrnndScan *so)
{
	Taken		taken = {0};

	if (!so->started || so->filter == NULL)
		return taken;
	taken.way = way_names[so->way];
	taken.rest = so->rest != NULL && so->way != GRNND_WAY_REST;
	taken.visits = so->visits_before +
		(so->search != NULL ? grn_search_visits(so->search) : 0);
	taken.list_pages = so->way == GRNND_WAY_LIST || so->way == GRNND_WAY_HANDED_OVER
		? so->list.pages : 0;
	return taken;
}

void
grnnd_note_way(GrnndScan *so)
{
	Taken		taken = way_taken(so);

	if (taken.way != NULL)
		last = taken;
}

static char *
way_text(const Taken *taken)
{
	return psprintf("%s%s", taken->way, taken->rest ? ", then all rows" : "");
}

#if PG_VERSION_NUM >= 180000
static explain_per_node_hook_type next_explain;

/* EXPLAIN (ANALYZE) says it of each scan. */
static void
explain_way(PlanState * node, List *ancestors, const char *relationship, const char *plan_name,
			struct ExplainState *es)
{
	if (next_explain != NULL)
		next_explain(node, ancestors, relationship, plan_name, es);
	if (es->analyze && IsA(node, IndexScanState))
	{
		IndexScanDesc scan = ((IndexScanState *) node)->iss_ScanDesc;
		Taken		taken = {0};

		if (scan != NULL && scan->indexRelation->rd_indam->amgettuple == grnnd_gettuple)
			taken = way_taken((GrnndScan *) scan->opaque);
		if (taken.way != NULL)
		{
			ExplainPropertyText("Filter Way", way_text(&taken), es);
			ExplainPropertyUInteger("Filter Visits", NULL, taken.visits, es);
			if (taken.list_pages > 0)
				ExplainPropertyUInteger("Filter List Pages", NULL, taken.list_pages, es);
		}
	}
}
#endif

void
grnnd_explain_ways(void)
{
#if PG_VERSION_NUM >= 180000
	next_explain = explain_per_node_hook;
	explain_per_node_hook = explain_way;
#endif
}

PG_FUNCTION_INFO_V1(grnnd_last_filter);
Datum
grnnd_last_filter(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[3];
	bool		nulls[3] = {false, false, false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (last.way == NULL)
		PG_RETURN_NULL();
	values[0] = PointerGetDatum(cstring_to_text(way_text(&last)));
	values[1] = Int64GetDatum((int64) last.visits);
	values[2] = Int64GetDatum((int64) last.list_pages);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
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
	GrnndSample *sample = grnnd_get_sample(scan->indexRelation, so->ix);
	GrnSearch  *search;
	double		visits;

	params->share = grnnd_sample_share(so->ix, sample, &so->filter->base);
	visits = GRAPH_VISITS(params->share);
	choose_list(scan);
	if (so->list.n > 0 && so->list.cost <= VISIT_COST * visits &&
		(search = search_list(scan, params)) != NULL)
		return search;
	so->graph = *params;
	if (most_visits > 0)
	{
		if (so->list.n == 0 && visits >= (double) most_visits)
			return NULL;
		params->max_visits = most_visits;
	}
	so->way = GRNND_WAY_GRAPH;
	search = grn_search_begin(params, &so->store.base, so->q);
	grn_search_sample(search, sample->ids, sample->codes, sample->factors, sample->sigs,
					  sample->count);
	pfree(sample->codes);
	pfree(sample->sigs);
	pfree(sample);
	return search;
}

bool
grnnd_hand_over(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnSearch  *search;

	if (so->way != GRNND_WAY_GRAPH || so->list.n == 0 ||
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
