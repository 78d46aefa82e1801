/*
 * compat.h - the differences between PostgreSQL 15, 16, 17 and 18 that src/am
 * meets, so that no other file needs to name a version twice.
 */
#ifndef GRNND_COMPAT_H
#define GRNND_COMPAT_H

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "grnnd supports PostgreSQL 15 to 18"
#endif

#define GRNND_NORETURN __attribute__((noreturn))

#if PG_VERSION_NUM < 160000
#include "storage/relfilenode.h"
#define RelFileLocator RelFileNode
#define rd_locator rd_node
#endif

/* 17 has no old_snapshot_threshold any more. */
#if PG_VERSION_NUM >= 170000
#define TestForOldSnapshot(snapshot, relation, page) ((void) 0)
#endif

#endif							/* GRNND_COMPAT_H */
