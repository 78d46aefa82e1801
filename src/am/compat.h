/*
 * compat.h - the differences between PostgreSQL 15, 16, 17, 18 and 19 that src/am
 * meets, so that no other file needs to name a version twice.
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
#endif

/* The path of a relation's first file, into an array of char. */
#if PG_VERSION_NUM >= 180000
#define GRNND_MAIN_PATH(path, rel) \
	strlcpy(path, relpathbackend((rel)->rd_locator, (rel)->rd_backend, MAIN_FORKNUM).str, sizeof(path))
#else
#define GRNND_MAIN_PATH(path, rel) \
	do { \
		char	   *path_ = relpathbackend((rel)->rd_locator, (rel)->rd_backend, MAIN_FORKNUM); \
		strlcpy(path, path_, sizeof(path)); \
		pfree(path_); \
	} while (0)
#endif

/* 17 has no old_snapshot_threshold any more. */
#if PG_VERSION_NUM >= 170000
#define TestForOldSnapshot(snapshot, relation, page) ((void) 0)
#endif

/* Before 17 blocks are asked for one by one. */
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

/* 17 numbers processes, not backends. */
#if PG_VERSION_NUM >= 170000
#define GRNND_PROC_OF(vxid) ProcNumberGetProc((vxid).procNumber)
#else
#define GRNND_PROC_OF(vxid) BackendIdGetProc((vxid).backendId)
#endif

/* Before 18 an executor may stop and go on. */
#if PG_VERSION_NUM >= 180000
#define GRNND_EXECUTOR_RUN(desc) ExecutorRun(desc, ForwardScanDirection, 0)
#else
#define GRNND_EXECUTOR_RUN(desc) ExecutorRun(desc, ForwardScanDirection, 0, true)
#endif

/*
 * 19 asks what a scan is for (SO_NONE: nothing more), wants descriptors of tuples to be finished,
 * has another name for checksums, and keeps what is an enum's alone inside of the setting.
 */
#if PG_VERSION_NUM >= 190000
#define GRNND_BEGINSCAN_PARALLEL(rel, scan) table_beginscan_parallel(rel, scan, SO_NONE)
#define GRNND_INDEX_FETCH_BEGIN(rel) table_index_fetch_begin(rel, SO_NONE)
#define PageSetChecksumInplace PageSetChecksum
#define GRNND_ENUM_SETTING(generic) (&(generic)->_enum)
#else
#define GRNND_BEGINSCAN_PARALLEL(rel, scan) table_beginscan_parallel(rel, scan)
#define GRNND_INDEX_FETCH_BEGIN(rel) table_index_fetch_begin(rel)
#define TupleDescFinalize(desc) ((void) 0)
#define GRNND_ENUM_SETTING(generic) ((struct config_enum *) (generic))
#endif

#endif							/* GRNND_COMPAT_H */
