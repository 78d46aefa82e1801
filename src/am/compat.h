/*
 * compat.h - the differences between PostgreSQL 15 to 19 that affect src/am, so that other files
 * need not test versions.
 */
#ifndef GRNND_COMPAT_H
#define GRNND_COMPAT_H

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 200000
#error "grnnd supports PostgreSQL 15 to 19"
#endif

#define GRNND_NORETURN __attribute__((noreturn))

#if PG_VERSION_NUM < 160000
#include "storage/relfilenode.h"
#define RelFileLocator RelFileNode
#define rd_locator rd_node
/* fields of PgStat_StatTabEntry */
#define mod_since_analyze changes_since_analyze
#define autovacuum_count autovac_vacuum_count
#define autoanalyze_count autovac_analyze_count
#endif

/* PostgreSQL 17 removed old_snapshot_threshold. */
#if PG_VERSION_NUM >= 170000
#define old_snapshot_threshold (-1)
#define TestForOldSnapshot(snapshot, relation, page) ((void) 0)
#endif

/* Before PostgreSQL 17 each block is prefetched by a call of its own. */
#if PG_VERSION_NUM >= 170000
#define GRNND_PREFETCH(rel, block, n) \
	((void) smgrprefetch(RelationGetSmgr(rel), MAIN_FORKNUM, block, (int) (n)))
#else
#define GRNND_PREFETCH(rel, block, n) \
	do { \
		for (BlockNumber i_ = 0; i_ < (n); i_++) \
			(void) PrefetchBuffer(rel, MAIN_FORKNUM, (block) + i_); \
	} while (0)
#endif

/* PostgreSQL 17 identifies processes instead of backends. */
#if PG_VERSION_NUM >= 170000
#define GRNND_PROC_OF(vxid) ProcNumberGetProc((vxid).procNumber)
#else
#define GRNND_PROC_OF(vxid) BackendIdGetProc((vxid).backendId)
#endif

/* Before PostgreSQL 18 an executor run could be continued. */
#if PG_VERSION_NUM >= 180000
#define GRNND_EXECUTOR_RUN(desc) ExecutorRun(desc, ForwardScanDirection, 0)
#else
#define GRNND_EXECUTOR_RUN(desc) ExecutorRun(desc, ForwardScanDirection, 0, true)
#endif

/*
 * PostgreSQL 19 has flags for scans (SO_NONE: no flags), requires TupleDescFinalize(), renames a
 * checksum function, moves the fields of enum settings, keeps a buffer's state in 64 bits, and
 * calls another hook after a relation's indexes are known (get_relation_info_hook before).
 */
#if PG_VERSION_NUM >= 190000
#define GRNND_BEGINSCAN_PARALLEL(rel, scan) table_beginscan_parallel(rel, scan, SO_NONE)
#define GRNND_INDEX_FETCH_BEGIN(rel) table_index_fetch_begin(rel, SO_NONE)
#define GRNND_BEGINSCAN_TIDRANGE(rel, snapshot, first, last) \
	table_beginscan_tidrange(rel, snapshot, first, last, SO_NONE)
#define GRNND_PLAN_QUERY(query, text) pg_plan_query(query, text, 0, NULL, NULL)
#define GRNND_REL_HOOK build_simple_rel_hook
#define GRNND_REL_HOOK_TYPE build_simple_rel_hook_type
#define GRNND_REL_HOOK_PARAMS PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte
#define GRNND_REL_HOOK_ARGS root, rel, rte
#define GRNND_REL_HOOK_TABLE (rte->relid)
#define PageSetChecksumInplace PageSetChecksum
#define GRNND_BUFFER_STATE(buffer) pg_atomic_read_u64(&(buffer)->state)
#else
#define GRNND_BEGINSCAN_PARALLEL(rel, scan) table_beginscan_parallel(rel, scan)
#define GRNND_INDEX_FETCH_BEGIN(rel) table_index_fetch_begin(rel)
#define GRNND_BEGINSCAN_TIDRANGE(rel, snapshot, first, last) \
	table_beginscan_tidrange(rel, snapshot, first, last)
#define GRNND_PLAN_QUERY(query, text) pg_plan_query(query, text, 0, NULL)
#define GRNND_REL_HOOK get_relation_info_hook
#define GRNND_REL_HOOK_TYPE get_relation_info_hook_type
#define GRNND_REL_HOOK_PARAMS PlannerInfo *root, Oid relation, bool inhparent, RelOptInfo *rel
#define GRNND_REL_HOOK_ARGS root, relation, inhparent, rel
#define GRNND_REL_HOOK_TABLE relation
#define TupleDescFinalize(desc) ((void) 0)
#define GRNND_BUFFER_STATE(buffer) pg_atomic_read_u32(&(buffer)->state)
#endif

#endif							/* GRNND_COMPAT_H */
