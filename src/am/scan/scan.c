/*
 * scan.c - ORDER BY distance scans.
 *
 * A scan takes rows from a source (GrnndSource): the results of a search, all rows of a bitmap, all
 * rows that the search has not returned, or all nodes by id.  A source makes a record current; the
 * scan returns the rows of the record and of its chain.
 */
#include "am/scan/scan_impl.h"

#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "am/callbacks.h"
#include "am/index/index.h"
#include "am/scan/scan.h"
#include "am/write/write.h"

/*
 * Size of a block whose release makes malloc keep twice this much free memory.  Searches of lists
 * of 6,000 rows take as long with half and twice.
 */
#define KEPT_MEMORY (2 * 1024 * 1024)	/* bytes */

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
			/* ORDER BY values behind the first are unknown: the executor computes and sorts them */
			so->distances[i].value = -get_float8_infinity();
		}
	}
	scan->opaque = so;
	return scan;
}

void
grnnd_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;

	grnnd_note_scan(scan);
	grnnd_sort_end(so->rest);
	grnnd_rerank_end(so);
	grnnd_end_reading(so);
	/* all memory of the search is in this context */
	MemoryContextReset(so->context);
	memset(&so->source, 0, sizeof(GrnndScan) - offsetof(GrnndScan, source));
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

	grnnd_note_scan(scan);
	grnnd_sort_end(so->rest);
	grnnd_rerank_end(so);
	grnnd_end_reader(so);
	MemoryContextDelete(so->context);
	pfree(so);
	scan->opaque = NULL;
}

/* ---- the walk: all nodes by id ---- */

static bool
next_walked(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;

	so->now.value = get_float8_nan();
	so->now.exact = true;
	while (so->walked < so->store.id_limit)
		if (grnnd_read_node(so, so->walked++))
			return true;
	return false;
}

/* ---- begin ---- */

/* Raises an error if the index cannot answer the scan. */
static void
check_scan(IndexScanDesc scan)
{
	if (scan->numberOfOrderBys == 0 || scan->orderByData[0].sk_attno != 1)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" can only be scanned in order of distance",
						RelationGetRelationName(scan->indexRelation)),
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
}

/* Prepares a scan: takes what the query asks for, and begins the first source of rows. */
static void
begin_scan(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	Relation	index = scan->indexRelation;
	ScanKey		keys;
	int			nkeys;

	check_scan(scan);
	pgstat_count_index_scan(index);
#if PG_VERSION_NUM >= 180000
	if (scan->instrument)
		scan->instrument->nsearches++;
#endif

	so->source = grnnd_next_result;
	/*
	 * Evaluate these expressions first: their functions may scan other indexes, which may free the
	 * arrays of this index's description (cache.c).
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
	so->asked.iterative = grnnd_iterative_scan;
	so->asked.max_visits = (uint64) grnnd_max_scan_tuples;
	/* a limit of at least all rows is no limit; the last page may be partly empty */
	if (so->asked.max_visits + so->ix->layout.per_page >= so->store.id_limit)
		so->asked.max_visits = 0;
	so->asked.memory_limit = (Size) work_mem * 1024;
	grnnd_begin_results(so);
	grnnd_set_width(so);
	so->now.chain.next = GRN_INVALID_ID;

	if (so->filter != NULL && so->filter->nothing)
		so->search.exhausted = true;
	else if (!grnnd_take_query(scan))
	{
		/* NULL has no distance to any row, and a zero vector has no angle */
		so->source = next_walked;
		if (so->set.rows != NULL)
			grnnd_tid_set_prepare(so->set.rows);
	}
	else if (grnnd_set_is_small(so))
		grnnd_begin_set_rows(scan);
	else
	{
		if (so->set.rows != NULL)
			grnnd_tid_set_prepare(so->set.rows);
		if (grnnd_offer_query(scan, so->ix))
			grnnd_request_measurement(index);
		if (grnnd_reranks(so->ix->key.type, so->ix->layout.form))
			grnnd_rerank_begin(scan);
		grnnd_begin_search(scan);
	}
}

/* ---- rows ---- */

/* Makes the next record current.  Returns false at the end of the scan. */
static bool
next_record(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndSource source;

	do
	{
		source = so->source;
		if (source(scan))
			return true;
	} while (so->source != source);
	return false;
}

bool
grnnd_gettuple(IndexScanDesc scan, ScanDirection dir)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	MemoryContext old;

	if (!ScanDirectionIsForward(dir))
		elog(ERROR, "grnnd indexes cannot be scanned backward");

	old = MemoryContextSwitchTo(so->context);
	if (so->source == NULL)
		begin_scan(scan);
	while (so->now.next >= so->now.ntids)
	{
		if (so->now.chain.next != GRN_INVALID_ID)
			grnnd_read_chain(scan);
		else if (!next_record(scan))
		{
			MemoryContextSwitchTo(old);
			return false;
		}
	}
	MemoryContextSwitchTo(old);

	memcpy(&scan->xs_heaptid, so->now.tids + (Size) so->now.next++ * GRN_TID_BYTES,
		   GRN_TID_BYTES);
	grnnd_check_row(scan, &scan->xs_heaptid);
	grnnd_note_set_row(so, &scan->xs_heaptid);
	/* rows that are read from the table have passed no test of the index */
	scan->xs_recheck = so->filter != NULL && (so->filter->recheck || so->set.heap != NULL);
	so->distances[0].value = so->now.value;
	so->distances[0].isnull = (scan->orderByData[0].sk_flags & SK_ISNULL) != 0;
	index_store_float8_orderby_distances(scan, so->types, so->distances,
										 !so->now.exact || scan->numberOfOrderBys > 1);
	return true;
}
