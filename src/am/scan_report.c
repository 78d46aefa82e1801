/*
 * scan_report.c - reports the work of scans: for EXPLAIN (ANALYZE) of PostgreSQL 18 and later,
 * grnnd_last_scan() and grnnd_last_filter().
 */
#include "am/scan_impl.h"

#include "access/htup_details.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain.h"
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/portal.h"
#include "utils/rel.h"
#include "utils/resowner.h"

#include "am/handler.h"

static const char *const way_names[] = {"check", "graph", "list", "graph, then list", "all rows"};

/* The work of a scan with conditions on filter columns. */
typedef struct Filtered
{
	const char *way;			/* NULL: no scan, or a scan without a filter */
	bool		rest;			/* the scan read all rows in the end */
	uint64		visits;
	uint64		list_pages;
} Filtered;

/*
 * The last scans of this session.  Only the user of a scan may see it: after a change of role, or
 * in a function with its owner's rights, another user's scans must stay invisible.
 */
static struct
{
	Oid			user;
	Oid			index;			/* InvalidOid: no scan */
	GrnndWork	work;
	Filtered	way;			/* way NULL: the scan had no filter */
	Filtered	filtered;		/* the last scan with a filter */
}			last;

/*
 * A hidden portal that makes DISCARD ALL forget the last scans.  DISCARD ALL drops all portals,
 * and a portal's cleanup is the only hook that it calls.  The portal looks like a held cursor's,
 * so it outlives transactions.
 */
static Portal reminder;

static void
forget_scans(Portal portal)
{
	memset(&last, 0, sizeof(last));
	reminder = NULL;
}

static void
make_reminder(void)
{
	if (reminder != NULL)
		return;
	reminder = CreateNewPortal();
	ResourceOwnerDelete(reminder->resowner);
	reminder->resowner = NULL;
	reminder->createSubid = InvalidSubTransactionId;
	reminder->activeSubid = InvalidSubTransactionId;
	reminder->visible = false;
	reminder->cleanup = forget_scans;
}

/* Number of list pages read, if each page's records are read together. */
static uint64
list_pages(const GrnndScan *so)
{
	const GrnLayout *l = &so->ix->layout;

	return so->reader == NULL ? 0
		: grnnd_list_records_read(so->reader) * l->span / l->per_page + so->list.listed.n;
}

/* The work of a scan that has started. */
static GrnndWork
work_of(const GrnndScan *so)
{
	GrnndWork	work = {.scans = 1};

	work.ef = so->ef;
	work.visits = so->visits_before +
		(so->search != NULL ? grn_search_visits(so->search) : 0);
	work.pages = so->store.pages;
	work.pages += list_pages(so);
	work.reads = so->reads;
	work.rests = so->rest != NULL;
	return work;
}

static void
add_work(GrnndWork *to, const GrnndWork *work)
{
	to->scans += work->scans;
	to->ef = work->ef;
	to->visits += work->visits;
	to->pages += work->pages;
	to->reads += work->reads;
	to->rests += work->rests;
}

static Filtered
describe_filter(const GrnndScan *so)
{
	Filtered	f = {0};

	if (!so->started || so->filter == NULL)
		return f;
	f.way = way_names[so->way];
	f.rest = so->rest != NULL && so->way != GRNND_WAY_REST;
	f.visits = work_of(so).visits;
	f.list_pages = list_pages(so);
	return f;
}

void
grnnd_note_scan(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	Filtered	f = describe_filter(so);

	if (!so->started)
		return;
	make_reminder();
	if (last.user != GetUserId())
		memset(&last, 0, sizeof(last));
	if (f.way != NULL)
		last.filtered = f;
	last.user = GetUserId();
	last.way = f;
	last.index = RelationGetRelid(scan->indexRelation);
	last.work = work_of(so);
	add_work(&so->work, &last.work);
}

static Oid	excluded_index = InvalidOid;
static const ItemPointerData *excluded_row;

void
grnnd_exclude_row(Oid index, const ItemPointerData *tid)
{
	excluded_index = index;
	excluded_row = tid;
}

const ItemPointerData *
grnnd_excluded_row(Oid index)
{
	return OidIsValid(excluded_index) && excluded_index == index ? excluded_row : NULL;
}

/*
 * A search like the scan's own finds the node of the row.  The node stays if it also represents
 * other rows, or if the search does not find the node.
 */
void
grnnd_exclude_node(GrnndScan *so, const GrnSearchParams *params, const uint32 *ids, const uint8_t *codes,
				   const GrnFactor *factors, uint32 count, const ItemPointerData *tid)
{
	GrnSearchParams plain = *params;
	uint64		pages = so->store.pages;
	GrnSearch  *s;
	uint32		n;

	plain.resumable = false;
	plain.filter = NULL;
	so->store.absent = NULL;
	s = grn_search_begin(&plain, &so->store.base, so->q);
	grn_search_entries(s, ids, codes, factors, count);
	n = grn_search_run(s);
	for (uint32 i = 0; i < n; i++)
	{
		const GrnFound *f = &grn_search_found(s)[i];

		if (f->ntids == 1 && f->next == GRN_INVALID_ID &&
			memcmp(grn_search_tids(s) + (Size) f->tids * GRN_TID_BYTES, tid, GRN_TID_BYTES) == 0)
			so->store.absent = grn_absent_begin(&so->store.base, &so->ix->layout, &so->ix->codec,
												f->id);
	}
	grn_search_end(s);
	so->store.pages = pages;
}

const GrnndWork *
grnnd_last_work(Oid *index)
{
	*index = last.index;
	return OidIsValid(last.index) ? &last.work : NULL;
}

void
grnnd_forget_work(void)
{
	last.index = InvalidOid;
}

static char *
way_text(const Filtered *f)
{
	return psprintf("%s%s", f->way, f->rest ? ", then all rows" : "");
}

#if PG_VERSION_NUM >= 180000
static explain_per_node_hook_type next_explain;

/* Shows the work of all scans of a plan node. */
static void
explain_scan(const GrnndScan *so, struct ExplainState *es)
{
	Filtered	f = describe_filter(so);
	GrnndWork	work = so->work;

	if (so->started)
	{
		GrnndWork	current = work_of(so);

		add_work(&work, &current);
	}
	if (f.way != NULL)
	{
		ExplainPropertyText("Filter Way", way_text(&f), es);
		if (f.list_pages > 0)
			ExplainPropertyUInteger("Filter List Pages", NULL, f.list_pages, es);
	}
	if (work.scans == 0)
		return;
	ExplainPropertyUInteger("Search Width", NULL, work.ef, es);
	ExplainPropertyUInteger("Records Visited", NULL, work.visits, es);
	ExplainPropertyUInteger("Index Pages Read", NULL, work.pages, es);
	if (so->rerank != NULL || work.reads > 0)
		ExplainPropertyUInteger("Rows Re-ranked", NULL, work.reads, es);
	if (work.rests > 0)
		ExplainPropertyUInteger("Scans of All Rows", NULL, work.rests, es);
}

static void
explain_node(PlanState * node, List *ancestors, const char *relationship, const char *plan_name,
			 struct ExplainState *es)
{
	if (next_explain != NULL)
		next_explain(node, ancestors, relationship, plan_name, es);
	if (es->analyze && IsA(node, IndexScanState))
	{
		IndexScanDesc scan = ((IndexScanState *) node)->iss_ScanDesc;

		if (scan != NULL && scan->indexRelation->rd_indam->amgettuple == grnnd_gettuple)
			explain_scan((GrnndScan *) scan->opaque, es);
	}
}
#endif

void
grnnd_explain_scans(void)
{
#if PG_VERSION_NUM >= 180000
	next_explain = explain_per_node_hook;
	explain_per_node_hook = explain_node;
#endif
}

PG_FUNCTION_INFO_V1(grnnd_last_scan);
Datum
grnnd_last_scan(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[7];
	bool		nulls[7] = {false};
	Filtered	way = last.way;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (!OidIsValid(last.index) || last.user != GetUserId())
		PG_RETURN_NULL();
	values[0] = ObjectIdGetDatum(last.index);
	values[1] = Int32GetDatum((int32) last.work.ef);
	values[2] = Int64GetDatum((int64) last.work.visits);
	values[3] = Int64GetDatum((int64) last.work.pages);
	values[4] = Int64GetDatum((int64) last.work.reads);
	values[5] = BoolGetDatum(last.work.rests > 0);
	if (way.way == NULL)
	{
		way.way = way_names[GRNND_WAY_GRAPH];
		way.rest = last.work.rests > 0;
	}
	values[6] = PointerGetDatum(cstring_to_text(way_text(&way)));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
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
	if (last.filtered.way == NULL || last.user != GetUserId())
		PG_RETURN_NULL();
	values[0] = PointerGetDatum(cstring_to_text(way_text(&last.filtered)));
	values[1] = Int64GetDatum((int64) last.filtered.visits);
	values[2] = Int64GetDatum((int64) last.filtered.list_pages);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
