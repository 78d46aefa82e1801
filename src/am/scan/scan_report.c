/*
 * scan_report.c - reports the work of scans, for EXPLAIN (ANALYZE) of PostgreSQL 18 and later and
 * for grnnd_last_scan().
 */
#include "am/scan/scan_impl.h"

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
#include "utils/tuplestore.h"

#include "am/callbacks.h"
#include "am/index/index.h"

static const char *const way_names[] = {"check", "graph", "list", "graph, then list", "all rows", "bitmap"};

/*
 * The last scan of this session.  Only the user of a scan may see it: after a change of role, or
 * in a function with its owner's rights, another user's scans must stay invisible.
 */
static struct
{
	Oid			user;
	Oid			index;			/* InvalidOid: no scan */
	GrnndWork	work;
}			last;

/*
 * A hidden portal that makes DISCARD ALL forget the last scan.  DISCARD ALL drops all portals,
 * and a portal's cleanup is the only hook that it calls.  The portal looks like a finished held
 * cursor's, so it outlives transactions.  (PORTAL_NEW does not do: minor releases of late 2026 end
 * new portals after an error, and leave new portals alone in DISCARD ALL.)
 */
static Portal reminder;

static void
forget_scan(Portal portal)
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
	reminder->status = PORTAL_DONE;
	reminder->visible = false;
	reminder->cleanup = forget_scan;
}

/* Number of list pages read, if each page's records are read together. */
static uint64
list_pages(const GrnndScan *so)
{
	const GrnLayout *l = &so->ix->layout;

	return so->list.reader == NULL ? 0
		: grnnd_list_records_read(so->list.reader) * l->span / l->per_page + so->list.listed.n;
}

/* The work of a scan that has started. */
static GrnndWork
work_of(const GrnndScan *so)
{
	GrnndWork	work = {.scans = 1};

	work.ef = so->width.ef;
	work.visits = so->search.visits_before +
		(so->search.run != NULL ? grn_search_visits(so->search.run) : 0);
	work.list_pages = list_pages(so);
	work.pages = so->store.pages + work.list_pages;
	work.reads = so->reads;
	work.rests = so->search.way == GRNND_WAY_REST || so->search.then == GRNND_WAY_REST;
	work.bitmaps = so->search.way == GRNND_WAY_SET || so->search.then == GRNND_WAY_SET;
	work.method = way_names[so->filter != NULL || so->search.way == GRNND_WAY_REST ? so->search.way
							: GRNND_WAY_GRAPH];
	if (so->search.then != GRNND_WAY_CHECK)
		work.then = way_names[so->search.then];
	return work;
}

static void
add_work(GrnndWork *to, const GrnndWork *work)
{
	GrnndWork	sum = *work;

	sum.scans += to->scans;
	sum.visits += to->visits;
	sum.pages += to->pages;
	sum.list_pages += to->list_pages;
	sum.reads += to->reads;
	sum.rests += to->rests;
	sum.bitmaps += to->bitmaps;
	*to = sum;
}

void
grnnd_note_scan(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;

	if (so->source == NULL)
		return;
	make_reminder();
	last.user = GetUserId();
	last.index = RelationGetRelid(scan->indexRelation);
	last.work = work_of(so);
	add_work(&so->work, &last.work);
	grnnd_count_scan(scan->indexRelation, &last.work);
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
grnnd_exclude_node(GrnndScan *so, const GrnSearchParams *params, const GrnndEntries *entries,
				   const ItemPointerData *tid)
{
	GrnSearchParams plain = *params;
	uint64		pages = so->store.pages;
	GrnSearch  *s;
	uint32		n;

	plain.resumable = false;
	plain.filter = NULL;
	so->store.base.absent = NULL;
	s = grn_search_begin(&plain, &so->store.base, so->query.q);
	grn_search_entries(s, entries->ids, entries->codes, entries->factors, entries->count);
	n = grn_search_run(s);
	for (uint32 i = 0; i < n; i++)
	{
		const GrnFound *f = &grn_search_found(s)[i];

		if (f->ntids == 1 && f->next == GRN_INVALID_ID &&
			memcmp(grn_search_tids(s) + (Size) f->tids * GRN_TID_BYTES, tid, GRN_TID_BYTES) == 0)
			so->store.base.absent = grn_absent_begin(&so->store.base, &so->ix->layout, &so->ix->codec,
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
method_text(const GrnndWork *work)
{
	return psprintf("%s%s%s", work->method, work->then != NULL ? ", then " : "", work->then != NULL ? work->then : "");
}

void
grnnd_explain_scan(const IndexScanState *node, ExplainState * es)
{
	const GrnndScan *so = node->iss_ScanDesc == NULL ? NULL : node->iss_ScanDesc->opaque;
	GrnndWork	work;

	if (so == NULL)
		return;
	work = so->work;
	if (so->source != NULL)
	{
		GrnndWork	current = work_of(so);

		add_work(&work, &current);
	}
	if (work.scans == 0)
		return;
	ExplainPropertyText("Search Method", method_text(&work), es);
	ExplainPropertyUInteger("ef_search", NULL, work.ef, es);
	ExplainPropertyUInteger("Records Visited", NULL, work.visits, es);
	ExplainPropertyUInteger("Index Pages Read", NULL, work.pages, es);
	if (work.list_pages > 0)
		ExplainPropertyUInteger("List Pages Read", NULL, work.list_pages, es);
	if (so->rerank != NULL || work.reads > 0)
		ExplainPropertyUInteger("Rows Rechecked", NULL, work.reads, es);
	if (work.rests > 0)
		ExplainPropertyUInteger("Scans of All Rows", NULL, work.rests, es);
}

#if PG_VERSION_NUM >= 180000
static explain_per_node_hook_type next_explain;

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
			grnnd_explain_scan((IndexScanState *) node, es);
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

/* grnnd_last_scan(): at most one row. */
PG_FUNCTION_INFO_V1(grnnd_last_scan);
Datum
grnnd_last_scan(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	const GrnndWork *work = &last.work;

	InitMaterializedSRF(fcinfo, 0);
	if (OidIsValid(last.index) && last.user == GetUserId())
	{
		Datum		values[] = {
			ObjectIdGetDatum(last.index), Int32GetDatum((int32) work->ef),
			CStringGetTextDatum(method_text(work)), Int64GetDatum((int64) work->visits),
			Int64GetDatum((int64) work->pages), Int64GetDatum((int64) work->list_pages),
			Int64GetDatum((int64) work->reads)
		};
		bool		nulls[lengthof(values)] = {false};

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
