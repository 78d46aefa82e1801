/*
 * lock.h - heavyweight locks on an index, and on its database.
 */
#ifndef GRNND_LOCK_H
#define GRNND_LOCK_H

#include "postgres.h"

#include "storage/lmgr.h"

#include "graph/grn.h"

/*
 * Heavyweight locks of one index (lock.c; src/README, "Lock order").  Every insert holds
 * GRNND_WRITERS_LOCK while it runs: in RowShareLock where it writes codes, or the index has
 * none, and in RowExclusiveLock where the index is unfitted.  Vacuum takes it for a moment in
 * ExclusiveLock, to know that inserts from before have ended, and fit_codes.c in ShareLock, to
 * know that those have ended which write no codes.  grnnd_check() holds it in ExclusiveLock, to
 * keep inserts out.  GRNND_FIRST_LOCK serialises inserts that find no live node to link to.
 * Vacuum and fits hold GRNND_UPKEEP_LOCK in ExclusiveLock while they change pages, grnnd_check()
 * holds it in ShareLock.  Vacuum holds GRNND_SURVEY_LOCK in ExclusiveLock while it goes by lists
 * that it has read before; an insert has it in ShareLock, or lets no edge give way to a path that
 * vacuum does not know.  Who takes an edge to a live node out of a list, beside other inserts,
 * holds one of GRNND_EDGE_LOCKS for it (grnnd_lock_edges()).
 */
typedef enum GrnndLockKind		/* beyond the numbers of columns */
{
	GRNND_EDGE_LOCKS = 0xFE00,	/* and the 255 numbers behind it */
	GRNND_WRITERS_LOCK = 0xFFF0,
	GRNND_FIRST_LOCK = 0xFFF1,
	GRNND_UPKEEP_LOCK = 0xFFF2,
	GRNND_SURVEY_LOCK = 0xFFF3
} GrnndLockKind;

/*
 * Held until grnnd_unlock() or the end of the transaction.  A session that waits for the lock
 * cancels no autovacuum.
 */
extern void grnnd_lock(Relation index, GrnndLockKind kind, LOCKMODE mode);
/* False where it would have to wait. */
extern bool grnnd_try_lock(Relation index, GrnndLockKind kind, LOCKMODE mode);
extern void grnnd_unlock(Relation index, GrnndLockKind kind, LOCKMODE mode);
/* Would it have to wait? */
extern bool grnnd_is_locked(Relation index, GrnndLockKind kind, LOCKMODE mode);
/* Is somebody waiting for a lock that this session holds in that mode? */
extern bool grnnd_lock_is_wanted(Relation index, GrnndLockKind kind, LOCKMODE mode);

/* Locks of edges to some nodes, until grnnd_unlock_edges(). */
typedef struct GrnndEdgeLocks
{
	uint32		count;
	uint8		locks[GRN_MAX_DEGREE];	/* ascending */
} GrnndEdgeLocks;

/*
 * Locks edges to the nodes ids [n], GRN_MAX_DEGREE at most, in ExclusiveLock: their heads' hashes,
 * in order, so that no two sessions wait for each other.  Comes after all other locks of the index.
 */
extern void grnnd_lock_edges(Relation index, const uint32 *ids, uint32 n, GrnndEdgeLocks *locks);
extern void grnnd_unlock_edges(Relation index, const GrnndEdgeLocks *locks);

/* Waits until every insert that began before has ended. */
extern void grnnd_wait_for_inserts(Relation index);

/*
 * Locks this database until the transaction ends, as a session does while it starts.  So a
 * session that drops, renames or copies it waits for this lock, instead of failing because a
 * background worker is connected.  False where somebody is at that already.
 */
extern bool grnnd_try_lock_database(void);
/* Is somebody waiting for it? */
extern bool grnnd_database_is_wanted(void);

#endif							/* GRNND_LOCK_H */
