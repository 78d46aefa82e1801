/*
 * parallel.c - parallel workers of CREATE INDEX; see create.h.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "nodes/pathnodes.h"
#include "optimizer/clauses.h"
#include "optimizer/paths.h"
#include "optimizer/optimizer.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "tcop/tcopprot.h"
#include "utils/rel.h"

#include "am/create/create.h"

#define KEY_SHARED UINT64CONST(0x6772000000000001)
#define KEY_QUERY UINT64CONST(0x6772000000000002)
#define KEY_BUFFER_USAGE UINT64CONST(0x6772000000000003)
#define KEY_WAL_USAGE UINT64CONST(0x6772000000000004)

/*
 * Index pages that pay for the start of a worker, which takes some milliseconds.  10,000 sentences
 * on 2,545 pages take the same time with a worker.
 */
#define LOAD_PAGES_PER_WORKER 4096

/* Workers run the user's functions in the index's expressions and predicate. */
static bool
expressions_parallel_safe(Relation index)
{
	PlannerInfo *root = makeNode(PlannerInfo);

	root->glob = makeNode(PlannerGlobal);
	return is_parallel_safe(root, (Node *) RelationGetIndexExpressions(index)) &&
		is_parallel_safe(root, (Node *) RelationGetIndexPredicate(index));
}

/*
 * Number of workers that may read the table beside the leader.  In contrast to PostgreSQL's rule
 * for sorts, maintenance_work_mem does not limit the number, because all processes share the same
 * mapping.  Pages of TOASTed vectors count like the table's own pages.
 */
int
grnnd_collect_workers(Relation heap, Relation index)
{
	BlockNumber pages = RelationGetNumberOfBlocks(heap);
	Oid			toast = heap->rd_rel->reltoastrelid;
	int			wanted;

	if (max_parallel_maintenance_workers == 0 || IsInParallelMode() ||
		RelationUsesLocalBuffers(heap) || !expressions_parallel_safe(index))
		return 0;

	wanted = RelationGetParallelWorkers(heap, -1);
	if (wanted < 0)
	{
		if (OidIsValid(toast))
		{
			Relation	rel = table_open(toast, AccessShareLock);

			pages += RelationGetNumberOfBlocks(rel);
			table_close(rel, AccessShareLock);
		}
		/* A worker for every min_parallel_table_scan_size, and at least every 8 MB. */
		wanted = pages / Max(min_parallel_table_scan_size, 1024);
	}
	return Min(wanted, max_parallel_maintenance_workers);
}

int
grnnd_write_workers(const GrnndBuild *build, uint64 index_pages)
{
	if (IsInParallelMode() || (build->index != NULL && RelationUsesLocalBuffers(build->index)))
		return 0;
	return (int) Min(index_pages / LOAD_PAGES_PER_WORKER,
					 (uint64) max_parallel_maintenance_workers);
}

GrnndWorkers *
grnnd_workers_prepare(const char *function, int nworkers, Size shared_bytes,
					  void **shared)
{
	GrnndWorkers *w = palloc0(sizeof(GrnndWorkers));
	ParallelContext *pcxt;
	Size		query_bytes = debug_query_string ? strlen(debug_query_string) + 1 : 0;

	EnterParallelMode();
	pcxt = w->pcxt = CreateParallelContext("grnnd", function, nworkers);
	shm_toc_estimate_chunk(&pcxt->estimator, shared_bytes);
	shm_toc_estimate_chunk(&pcxt->estimator, mul_size(sizeof(BufferUsage), nworkers));
	shm_toc_estimate_chunk(&pcxt->estimator, mul_size(sizeof(WalUsage), nworkers));
	shm_toc_estimate_keys(&pcxt->estimator, 3);
	if (query_bytes > 0)
	{
		shm_toc_estimate_chunk(&pcxt->estimator, query_bytes);
		shm_toc_estimate_keys(&pcxt->estimator, 1);
	}
	InitializeParallelDSM(pcxt);
	if (pcxt->seg == NULL)
	{
		DestroyParallelContext(pcxt);
		ExitParallelMode();
		pfree(w);
		return NULL;
	}

	*shared = shm_toc_allocate(pcxt->toc, shared_bytes);
	memset(*shared, 0, shared_bytes);
	shm_toc_insert(pcxt->toc, KEY_SHARED, *shared);
	w->buffer_usage = shm_toc_allocate(pcxt->toc, mul_size(sizeof(BufferUsage), nworkers));
	shm_toc_insert(pcxt->toc, KEY_BUFFER_USAGE, w->buffer_usage);
	w->wal_usage = shm_toc_allocate(pcxt->toc, mul_size(sizeof(WalUsage), nworkers));
	shm_toc_insert(pcxt->toc, KEY_WAL_USAGE, w->wal_usage);
	if (query_bytes > 0)
	{
		char	   *query = shm_toc_allocate(pcxt->toc, query_bytes);

		memcpy(query, debug_query_string, query_bytes);
		shm_toc_insert(pcxt->toc, KEY_QUERY, query);
	}
	return w;
}

void
grnnd_workers_launch(GrnndWorkers *w)
{
	LaunchParallelWorkers(w->pcxt);
	w->launched = w->pcxt->nworkers_launched;
}

void
grnnd_workers_finish(GrnndWorkers *w)
{
	WaitForParallelWorkersToFinish(w->pcxt);
	for (int i = 0; i < w->launched; i++)
		InstrAccumParallelQuery(&w->buffer_usage[i], &w->wal_usage[i]);
	DestroyParallelContext(w->pcxt);
	ExitParallelMode();
	pfree(w);
}

void *
grnnd_worker_begin(shm_toc *toc)
{
	debug_query_string = shm_toc_lookup(toc, KEY_QUERY, true);
	pgstat_report_activity(STATE_RUNNING, debug_query_string);
	InstrStartParallelQuery();
	return shm_toc_lookup(toc, KEY_SHARED, false);
}

void
grnnd_worker_end(shm_toc *toc)
{
	BufferUsage *buffer_usage = shm_toc_lookup(toc, KEY_BUFFER_USAGE, false);
	WalUsage   *wal_usage = shm_toc_lookup(toc, KEY_WAL_USAGE, false);

	InstrEndParallelQuery(&buffer_usage[ParallelWorkerNumber],
						  &wal_usage[ParallelWorkerNumber]);
}
