/*
 * scan.c - ORDER BY distance scans.
 *
 * One search gives the first rows.  Further batches of the search give more rows, if
 * grnnd.iterative_scan allows.  Results wait in a heap ordered by distance.  The search expands
 * nodes by estimated distances, so a near node may be found late.  The search therefore stays
 * ahead of the returned rows: for each row it has expanded several nodes, and the nearest
 * remaining node is returned.  In strict order, a row found after a farther row was returned comes
 * last.
 *
 * A long scan ends with "the rest": the scan reads all rows not returned yet in the order of
 * pages, sorts them, and returns them.  So no row is lost, and memory is bounded.
 * grnnd.max_scan_tuples, if set, ends a scan earlier.
 */
#include "am/scan_impl.h"

#include <math.h>

#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/float.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "am/cache.h"
#include "am/entries.h"
#include "am/handler.h"
#include "am/page.h"
#include "am/query_sample.h"
#include "am/rerank.h"
#include "am/test_point.h"
#include "am/write/fit.h"

/* Size of a block whose release makes malloc keep twice this much free memory. */
#define KEPT_MEMORY (2 * 1024 * 1024)	/* bytes */

/*
 * Dead nodes that one batch may visit: eight for each live node of ef, and a constant for small
 * ef.  A scan that needs more rows runs the next batch.
 */
#define DEAD_LIMIT(ef) (8 * (ef) + 64)

/* pairingheap keeps the largest on top, so the nearest compares as the largest. */
static int
compare_results(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	double		x = pairingheap_const_container(ScanCandidate, node, a)->value;
	double		y = pairingheap_const_container(ScanCandidate, node, b)->value;

	return float8_cmp_internal(y, x);
}

/*
 * Makes malloc keep the memory that scans free.  By default glibc returns free memory at the
 * heap's end to the kernel from 128 kB on.  A search of a few thousand candidates uses more, so
 * each query would request its pages again: a third of the time of a scan of a list of 6,000 rows.
 * Freeing a mapped block raises both thresholds of glibc to the block's size.
 */
static void
keep_freed_memory(void)
{
	static bool done = false;

	if (!done)
		pfree(palloc(KEPT_MEMORY));
	done = true;
}

IndexScanDesc
grnnd_beginscan(Relation index, int nkeys, int norderbys)
{
	IndexScanDesc scan = RelationGetIndexScan(index, nkeys, norderbys);
	GrnndScan  *so = palloc0(sizeof(GrnndScan));

	keep_freed_memory();
	/* a small first block, so that memory is counted precisely */
	so->context = AllocSetContextCreate(CurrentMemoryContext, "grnnd scan",
										0, 8 * 1024, 256 * 1024);
	if (norderbys > 0)
	{
		scan->xs_orderbyvals = palloc0(sizeof(Datum) * norderbys);
		scan->xs_orderbynulls = palloc(sizeof(bool) * norderbys);
		so->types = palloc(sizeof(Oid) * norderbys);
		so->distances = palloc0(sizeof(IndexOrderByDistance) * norderbys);
		for (int i = 0; i < norderbys; i++)
		{
			scan->xs_orderbynulls[i] = true;
			so->types[i] = FLOAT8OID;
		}
	}
	scan->opaque = so;
	return scan;
}

void
grnnd_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;

	grnnd_mark_killed(scan);
	grnnd_note_scan(scan);
	grnnd_end_rest(so);
	grnnd_rerank_reset(so);
	/* all memory of the search is in this context */
	MemoryContextReset(so->context);
	memset(&so->started, 0, sizeof(GrnndScan) - offsetof(GrnndScan, started));
	so->keys = orderbys;

	if (keys && scan->numberOfKeys > 0)
		memmove(scan->keyData, keys, scan->numberOfKeys * sizeof(ScanKeyData));
	if (orderbys && scan->numberOfOrderBys > 0)
		memmove(scan->orderByData, orderbys, scan->numberOfOrderBys * sizeof(ScanKeyData));
}

void
grnnd_endscan(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;

	grnnd_mark_killed(scan);
	grnnd_note_scan(scan);
	grnnd_end_rest(so);
	grnnd_rerank_end(so);
	MemoryContextDelete(so->context);
	if (so->types)
	{
		pfree(so->types);
		pfree(so->distances);
	}
	pfree(so);
	scan->opaque = NULL;
}

/* ---- the search ---- */

static uint64 rest_visits(const GrnndScan *so);

/* Number of visits that cost as much as the rest; 0: the user has set another limit. */
static uint64
most_visits(const GrnndScan *so)
{
	return so->asked.iterative == GRNND_ITERATIVE_OFF || so->asked.max_visits > 0 ? 0 : rest_visits(so);
}

/* Number of index pages with nodes. */
static uint64
node_pages(const GrnndScan *so)
{
	const GrnLayout *l = &so->ix->layout;

	return (uint64) so->store.id_limit / l->per_page * l->span;
}

/* Begins a search for so->query.q at the entry points. */
static void
begin_search(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	const GrnndIndex *ix = so->ix;
	uint32		ids[GRN_MAX_ENTRIES];
	GrnFactor	factors[GRN_MAX_ENTRIES];
	uint8_t		codes[GRN_MAX_ENTRIES * GRN_MAX_CODE_DIMS / 2];
	GrnSearchParams params = {
		.layout = &ix->layout,
		.codec = &ix->codec,
		.metric = ix->key.metric,
		.ef = so->width.ef * grnnd_beam(ix),
		.ef_exact = so->width.ef_exact,
		.resumable = so->asked.iterative != GRNND_ITERATIVE_OFF,
		.memory_limit = so->asked.memory_limit,
		.dead_limit = DEAD_LIMIT(so->width.ef * grnnd_beam(ix)),
		/*
		 * reading the rest reads each page once for all of its records, and dead records cost
		 * nothing
		 */
		.wasted_limit = most_visits(so) > 0 ? Max(node_pages(so), 1) : 0,
		.max_visits = so->set.rows != NULL && so->asked.max_visits == 0 ? most_visits(so) : so->asked.max_visits,
		.tests_per_visit = so->asked.max_visits == 0 ? GRNND_TESTS_PER_VISIT : 0,
		.keep_vectors = so->query.norms,
		.skip_killed = so->killed.skip,
		.share = so->set.share,
		.filter = so->filter != NULL ? &so->filter->base : NULL
	};
	uint32		count = grnnd_read_entries(scan->indexRelation, ix, ids, factors, codes);

	so->store.pages++;
	grnnd_test_point("scan-entries");
	if (count == 0)
	{
		/*
		 * no page with nodes is read, so the entry page must tell whether vacuum has removed rows
		 */
		Buffer		buffer = grnnd_read(scan->indexRelation, ix->meta.entry_block,
										BUFFER_LOCK_SHARE, GRNND_ENTRIES, NULL);

		TestForOldSnapshot(scan->xs_snapshot, scan->indexRelation, BufferGetPage(buffer));
		UnlockReleaseBuffer(buffer);
		so->search.exhausted = true;
		return;
	}
	if (grnnd_excluded_row(RelationGetRelid(scan->indexRelation)) != NULL)
		grnnd_exclude_node(so, &params, ids, codes, factors, count,
						   grnnd_excluded_row(RelationGetRelid(scan->indexRelation)));
	if (grnnd_reads_all(so))
		so->search.run = NULL;
	else if (!grnnd_filters_by_signature(so))
	{
		so->search.run = grn_search_begin(&params, &so->store.base, so->query.q);
		/* the search leaves out failing nodes, so it may miss rows behind them */
		if (so->set.rows != NULL && grn_has_codes(&ix->codec))
			so->search.way = GRNND_WAY_GRAPH;
	}
	else
		so->search.run = grnnd_begin_filtered(scan, &params, most_visits(so));
	if (so->search.run == NULL)
		grnnd_begin_rest(scan);
	else if (so->search.way != GRNND_WAY_LIST)
		grn_search_entries(so->search.run, ids, codes, factors, count);
}

/* Takes the query's vector.  Returns false if no distance to the query has an order. */
static bool
has_query(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	ScanKey		key = &scan->orderByData[0];

	if (key->sk_flags & SK_ISNULL)
		return false;
	so->query.q = palloc(so->ix->meta.dim * sizeof(float));
	return grnnd_form_vector(&so->ix->key, so->ix->meta.column_dim, key->sk_argument, so->query.q, NULL);
}

/* Prepares a scan: takes the query from the scan key, and chooses between search and walk. */
static void
begin_scan(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	Relation	index = scan->indexRelation;
	double		memory = (double) work_mem * 1024.0 * grnnd_effective_scan_mem_multiplier();
	ScanKey		keys;
	int			nkeys;

	if (scan->numberOfOrderBys == 0 || scan->orderByData[0].sk_attno != 1)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" can only be scanned in order of distance",
						RelationGetRelationName(index)),
				 errhint("Use ORDER BY with the index's column and the operator of its operator class.")));

	/*
	 * Vacuum reuses a slot once all transactions that could hold its id have ended.  Only an MVCC
	 * snapshot protects the rows: otherwise a TID may belong to another row.
	 */
	if (!IsMVCCSnapshot(scan->xs_snapshot))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("grnnd indexes can be scanned under MVCC snapshots only"),
				 errhint("Scan the table instead.")));

	pgstat_count_index_scan(index);
#if PG_VERSION_NUM >= 180000
	if (scan->instrument)
		scan->instrument->nsearches++;
#endif

	so->started = true;
	/*
	 * Evaluate these expressions first: their functions may scan other indexes, which may free the
	 * arrays of this index's description (cache.h).
	 */
	keys = grnnd_all_keys(scan, &nkeys);
	so->asked.threshold = grnnd_threshold(so->keys, &scan->orderByData[0]);
	so->ix = grnnd_index(index);
	grnnd_store_init(&so->store, index, so->ix, so->context);
	so->store.snapshot = scan->xs_snapshot;
	so->now.buffer = palloc((Size) Max(so->ix->layout.chain_tids, so->ix->layout.tids_max) *
							GRN_TID_BYTES);
	so->filter = grnnd_make_filter(so->ix->attrs, so->ix->books, keys, nkeys);
	grnnd_begin_set(scan);
	so->asked.iterative = grnnd_effective_iterative_scan();
	so->asked.max_visits = (uint64) grnnd_effective_max_scan_tuples();
	/* a limit of at least all rows is no limit; the last page may be partly empty */
	if (so->asked.max_visits + so->ix->layout.per_page >= so->store.id_limit)
		so->asked.max_visits = 0;
	so->asked.memory_limit = memory < (double) MaxAllocHugeSize ? (Size) memory : MaxAllocHugeSize;
	so->results.heap = pairingheap_allocate(compare_results, NULL);
	so->results.late = pairingheap_allocate(compare_results, NULL);
	so->results.last = -get_float8_infinity();
	grnnd_set_width(so);
	so->now.chain.next = GRN_INVALID_ID;
	grnnd_begin_killed(scan);

	if (so->filter != NULL && so->filter->nothing)
	{
		so->search.exhausted = true;
		return;
	}
	/* NULL has no distance to any row, and a zero vector has no angle */
	so->walk = !has_query(scan);
	if (!so->walk && grnnd_set_is_small(so))
	{
		grnnd_begin_set_rows(scan);
		return;
	}
	if (so->set.rows != NULL)
		grnnd_tid_set_prepare(so->set.rows);
	if (so->walk)
		return;
	if (grnnd_offer_query(scan, so->ix))
		grnnd_request_measurement(index);
	if (grnnd_reranks(so->ix->key.type, so->ix->layout.form))
		grnnd_rerank_begin(scan);
	grnnd_measure_query(scan);
	begin_search(scan);
}

/*
 * Ends a search that has reached a limit.  Begins the rest, or ends the scan if the user has set a
 * limit.
 */
static void
end_search(IndexScanDesc scan, const char *limit)
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

#define MEMORY_LIMIT "work_mem"

void
grnnd_end_search(IndexScanDesc scan)
{
	end_search(scan, MEMORY_LIMIT);
}

/* Raises a NOTICE, once for each scan, that there may be more rows than the scan returned. */
static void
report_limit(IndexScanDesc scan)
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

void
grnnd_leave_search(GrnndScan *so, GrnndWay way)
{
	if (so->search.run != NULL)
	{
		so->search.visits_before += grn_search_visits(so->search.run);
		grn_search_end(so->search.run);
	}
	else
		so->search.way = way;
	so->search.run = NULL;
	so->search.exhausted = true;
	so->batch.size = 0;
}

/*
 * Number of visits that cost as much as the rest.  A dead record, or a node without rows for this
 * scan, costs the rest only its share of a page.  So with all records dead the rest costs as much
 * as visits of all pages.  With stand-ins the rest reads most rows from the table, so the search
 * goes on unless nodes are dead.
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
	if (!grnnd_has_stand_ins(so->ix->key.type))
		cheap += so->search.nempty;
	if (total == 0 || visits <= node_pages(so))
		return visits;
	return visits - (uint64) ((double) (visits - node_pages(so)) * cheap / total);
}

/* Runs one more batch of the search, or sets so->search.exhausted. */
static void
run_batch(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	bool		several = scan->numberOfOrderBys > 1;
	uint32		n;
	uint32		ntids = 0;
	const GrnFound *found;
	ScanCandidate *results;
	uint8	   *tids;

	if (so->search.resumed)
	{
		uint64		visits = grn_search_visits(so->search.run);

		if (visits >= (so->asked.max_visits > 0 ? so->asked.max_visits : rest_visits(so)))
		{
			end_search(scan, "grnnd.max_scan_tuples");
			return;
		}
		if (so->asked.iterative == GRNND_ITERATIVE_OFF ||
			MemoryContextMemAllocated(so->context, false) >= so->asked.memory_limit)
		{
			end_search(scan, MEMORY_LIMIT);
			return;
		}
	}
	if (so->search.resumed && so->list.reader != NULL && !grnnd_list_more(so->list.reader))
	{
		end_search(scan, "grnnd.max_scan_tuples");
		return;
	}
	n = grn_search_run(so->search.run);
	if (!so->search.resumed && grnnd_hand_over(scan))
		n = grn_search_run(so->search.run);
	if (!so->search.resumed && grnnd_set_serves(so) && grn_search_dry(so->search.run))
	{
		grnnd_begin_set_rows(scan);
		return;
	}
	/* all rows of the groups read so far may be gone */
	while (n == 0 && so->list.reader != NULL && grnnd_list_has_more(so->list.reader) &&
		   !grn_search_truncated(so->search.run))
	{
		if (!grnnd_list_more(so->list.reader))
		{
			end_search(scan, "grnnd.max_scan_tuples");
			return;
		}
		n = grn_search_run(so->search.run);
	}
	if (n == 0)
	{
		bool		truncated = grn_search_truncated(so->search.run);
		bool		limited = so->asked.max_visits > 0 &&
			(!truncated || grn_search_visits(so->search.run) >= so->asked.max_visits);

		/* a search by signatures skips failing nodes, so it may miss rows behind them */
		if (truncated || so->search.way == GRNND_WAY_GRAPH)
			end_search(scan, limited ? "grnnd.max_scan_tuples" : MEMORY_LIMIT);
		so->search.exhausted = true;
		return;
	}

	found = grn_search_found(so->search.run);
	if (!so->search.resumed)
		grnnd_widen(so, found, n);
	if (grnnd_reads_all(so))
	{
		grnnd_begin_rest(scan);
		return;
	}
	for (uint32 i = 0; i < n; i++)
		ntids += found[i].ntids;
	results = MemoryContextAllocHuge(so->context, n * sizeof(ScanCandidate));
	tids = MemoryContextAllocHuge(so->context, Max((Size) ntids * GRN_TID_BYTES, 1));
	for (uint32 i = 0; i < n; i++)
	{
		const GrnFound *f = &found[i];
		ScanCandidate *r = &results[i];
		Size		bytes = (Size) f->ntids * GRN_TID_BYTES;

		r->exact = f->error == 0 && !several && !grnnd_has_stand_ins(so->ix->key.type);
		r->id = f->id;
		r->version = f->version;
		r->ntids = f->ntids;
		r->next = f->next;
		r->value = grnnd_waiting_value(so, r, f, r->exact ? 0 : grnnd_found_norm(so, i));
		r->least = r->value;
		if ((r->exact || grnnd_is_empty(r)) && grnnd_has_threshold(so))
			r->least = grnnd_operator_value(so, f, grnnd_found_norm(so, i), 1);
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
	so->batch.nodes = results;
	so->batch.size = n;
	so->batch.taken = 0;
	so->batch.prefetched = 0;
}

/* Number of nodes with rows that the search has found, in units of the beam. */
static double
found_nodes(const GrnndScan *so)
{
	return (double) so->results.found / grnnd_beam(so->ix);
}

/* May the nearest result be returned before the next batch is run? */
static bool
is_due(const GrnndScan *so)
{
	double		found = found_nodes(so);

	if (so->asked.iterative == GRNND_ITERATIVE_OFF)
		return so->results.taken < so->width.ef;
	if (so->search.exhausted)
		return true;
	/* dead nodes may have ended the first search early */
	if (found < so->width.ef)
		return false;
	return so->results.taken < ceil(so->width.ef * so->width.first) + (found - so->width.ef) /
		grnnd_expansions_per_row(&so->ix->codec, so->asked.iterative == GRNND_ITERATIVE_STRICT);
}

void
grnnd_remember_returned(GrnndScan *so, uint32 id)
{
	if (so->results.nreturned == so->results.returned_room)
	{
		so->results.returned_room = Max(64, 2 * so->results.returned_room);
		so->results.returned = so->results.returned == NULL
			? palloc(so->results.returned_room * sizeof(uint32))
			: repalloc_huge(so->results.returned, so->results.returned_room * sizeof(uint32));
	}
	so->results.returned[so->results.nreturned++] = id;
}

/* Makes the next node current.  Returns false at the end of the scan. */
static bool
next_result(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;

	for (;;)
	{
		ScanCandidate *r = NULL;

		if (so->rerank != NULL)
			grnnd_rerank(scan);
		if (so->set.heap != NULL)
			return grnnd_next_set_row(so);
		if (so->rerank == NULL && so->rest != NULL)
			return grnnd_next_rest(so);
		if (grnnd_rerank_sorted(so))
		{
			if (is_due(so) && grnnd_next_sorted(so))
				return true;
			report_limit(scan);
			return false;
		}
		if (!pairingheap_is_empty(so->results.heap))
			r = pairingheap_container(ScanCandidate, node, pairingheap_first(so->results.heap));
		if (r == NULL || !is_due(so))
		{
			if (!so->search.exhausted)
				run_batch(scan);
			else if (r == NULL && so->search.limit == NULL && !pairingheap_is_empty(so->results.late))
			{
				pairingheap *empty = so->results.heap;

				so->results.heap = so->results.late;
				so->results.late = empty;
				so->results.last = -get_float8_infinity();
			}
			else
			{
				report_limit(scan);
				return false;
			}
			continue;
		}
		if (r->least > so->asked.threshold)
		{
			if (so->asked.iterative != GRNND_ITERATIVE_OFF && !so->search.exhausted &&
				found_nodes(so) < GRNND_LEAST_WITHIN)
			{
				run_batch(scan);
				continue;
			}
			/* all further results are beyond the threshold, except perhaps results in `late` */
			pairingheap_reset(so->results.heap);
			grnnd_rerank_stop(so);
			so->search.exhausted = true;
			so->search.limit = NULL;
			continue;
		}
		pairingheap_remove_first(so->results.heap);
		so->results.taken++;
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
			continue;
		}
		if (so->asked.iterative != GRNND_ITERATIVE_RELAXED && r->value < so->results.last)
		{
			pairingheap_add(so->results.late, &r->node);
			continue;
		}
		so->results.last = r->value;
		so->now.value = r->value;
		so->now.exact = r->exact;
		so->now.record = r->id;
		so->now.tids = r->tids;
		so->now.ntids = r->ntids;
		so->now.next = 0;
		if (so->rerank != NULL)
		{
			grnnd_rerank_take(so, r);
			return true;
		}
		grnnd_remember_returned(so, r->id);
		grnnd_begin_chain(&so->now.chain, r->id, r->version, r->next);
		return true;
	}
}

/* ---- the walk ---- */

/* Makes the next node by id current.  Returns false at the end. */
static bool
next_walked(GrnndScan *so)
{
	so->now.value = get_float8_nan();
	so->now.exact = true;
	while (so->walked < so->store.id_limit)
		if (grnnd_read_node(so, so->walked++))
			return true;
	return false;
}

/* ---- rows ---- */

/* Stores the current row's ORDER BY values for the executor. */
static void
store_values(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;

	so->distances[0].value = so->now.value;
	so->distances[0].isnull = (scan->orderByData[0].sk_flags & SK_ISNULL) != 0;
	/*
	 * further ORDER BY values are unknown: minus infinity makes the executor compute and sort them
	 */
	for (int i = 1; i < scan->numberOfOrderBys; i++)
	{
		so->distances[i].value = -get_float8_infinity();
		so->distances[i].isnull = false;
	}
	index_store_float8_orderby_distances(scan, so->types, so->distances,
										 !so->now.exact || scan->numberOfOrderBys > 1);
}

bool
grnnd_gettuple(IndexScanDesc scan, ScanDirection dir)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	MemoryContext old;

	if (!ScanDirectionIsForward(dir))
		elog(ERROR, "grnnd indexes cannot be scanned backward");

	old = MemoryContextSwitchTo(so->context);
	if (!so->started)
		begin_scan(scan);
	else
		grnnd_note_killed(scan);
	while (so->now.next >= so->now.ntids)
	{
		if (so->now.chain.next != GRN_INVALID_ID)
			grnnd_read_chain(scan);
		else if (!(so->walk ? next_walked(so) : next_result(scan)))
		{
			MemoryContextSwitchTo(old);
			return false;
		}
	}
	MemoryContextSwitchTo(old);

	memcpy(&scan->xs_heaptid, so->now.tids + (Size) so->now.next++ * GRN_TID_BYTES,
		   GRN_TID_BYTES);
	grnnd_check_row(scan, &scan->xs_heaptid);
	if (so->set.rows != NULL)
		grnnd_note_set_row(so, &scan->xs_heaptid);
	/* rows that are read from the table have passed no test of the index */
	scan->xs_recheck = so->filter != NULL && (so->filter->recheck || so->set.heap != NULL);
	store_values(scan);
	return true;
}
