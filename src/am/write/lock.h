/*
 * lock.h - heavyweight locks on an index, and on its database.
 */
#ifndef GRNND_LOCK_H
#define GRNND_LOCK_H

#include "postgres.h"

#include "storage/lmgr.h"

#include "space/grn.h"

/*
 * Heavyweight locks of one index (lock.c; src/README, "Lock order").
 * - GRNND_WRITERS_LOCK: every insert holds the lock while it runs, in RowExclusiveLock if the index
 *   is unfitted, else in RowShareLock. Vacuum takes the lock in ExclusiveLock for a moment, to wait
 *   for all earlier inserts; fit_codes.c in ShareLock, to wait for inserts that write no codes.
 *   grnnd_check() holds the lock in ExclusiveLock to keep inserts out.
 * - GRNND_FIRST_LOCK serializes inserts that find no live node to link to.
 * - GRNND_UPKEEP_LOCK: vacuum and fits hold the lock in ExclusiveLock while they change pages,
 *   grnnd_check() in ShareLock.
 * - GRNND_SURVEY_LOCK: vacuum holds the lock in ExclusiveLock while it relies on lists that it has
 *   read before. An insert holds the lock in ShareLock, or drops no edge in favor of a path that
 *   vacuum does not know.
 * - GRNND_EDGE_LOCKS: a process that removes an edge to a live node beside running inserts holds
 *   one of these locks for that node (grnnd_lock_edges()).
 */
typedef enum GrnndLockKind		/* above all column numbers */
{
	GRNND_EDGE_LOCKS = 0xFE00,	/* and the next 255 numbers */
	GRNND_WRITERS_LOCK = 0xFFF0,
	GRNND_FIRST_LOCK = 0xFFF1,
	GRNND_UPKEEP_LOCK = 0xFFF2,
	GRNND_SURVEY_LOCK = 0xFFF3
} GrnndLockKind;

/*
 * Takes a lock until grnnd_unlock() or the end of the transaction. A session that waits for the
 * lock cancels no autovacuum.
 */
extern void grnnd_lock(Relation index, GrnndLockKind kind, LOCKMODE mode);
/* Returns false instead of waiting. */
extern bool grnnd_try_lock(Relation index, GrnndLockKind kind, LOCKMODE mode);
extern void grnnd_unlock(Relation index, GrnndLockKind kind, LOCKMODE mode);
/* Returns whether grnnd_lock() would have to wait. */
extern bool grnnd_is_locked(Relation index, GrnndLockKind kind, LOCKMODE mode);
/* Returns whether a session waits for a lock that this session holds in this mode. */
extern bool grnnd_lock_is_wanted(Relation index, GrnndLockKind kind, LOCKMODE mode);

/* Locks of edges to some nodes, held until grnnd_unlock_edges(). */
typedef struct GrnndEdgeLocks
{
	uint32		count;
	uint8		locks[GRN_MAX_DEGREE];	/* ascending */
} GrnndEdgeLocks;

/*
 * Locks edges to the nodes ids [n], GRN_MAX_DEGREE at most, in ExclusiveLock: by hashes of the ids,
 * in order, so that no two sessions wait for each other. Must come after all other locks of the
 * index.
 */
extern void grnnd_lock_edges(Relation index, const uint32 *ids, uint32 n, GrnndEdgeLocks *locks);
extern void grnnd_unlock_edges(Relation index, const GrnndEdgeLocks *locks);

/* Waits until every earlier insert has ended. */
extern void grnnd_wait_for_inserts(Relation index);

/*
 * Locks this database until the transaction ends, as a starting session does. A session that drops,
 * renames or copies the database then waits for this lock, instead of failing because a background
 * worker is connected. Returns false if a session is already doing so.
 */
extern bool grnnd_try_lock_database(void);
/* Returns whether a session waits for the lock on this database. */
extern bool grnnd_database_is_wanted(void);

#endif							/* GRNND_LOCK_H */
