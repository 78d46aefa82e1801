/*
 * lock.c - heavyweight locks on an index (its inserts, its first row, its upkeep) and on its
 * database.
 *
 * A lock on an index is a lock on a database object: the index's OID, and a number that no column
 * has. Core locks relations by relation locks, so no lock of the core has these tags. (Page locks
 * would not do: some releases of PostgreSQL 15 assert that a backend holds no page lock when it
 * requests another lock, and page locks conflict within a group of parallel processes.)
 */
#include "am/write/write.h"

#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/sinvaladt.h"
#include "utils/rel.h"

#include "am/compat.h"
#include "am/test_point.h"

static LOCKTAG
tag_of(Relation index, GrnndLockKind kind)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, index->rd_lockInfo.lockRelId.dbId, RelationRelationId,
					   RelationGetRelid(index), kind);
	return tag;
}

bool
grnnd_try_lock(Relation index, GrnndLockKind kind, LOCKMODE mode)
{
	LOCKTAG		tag = tag_of(index, kind);

	return LockAcquire(&tag, mode, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

static bool
is_held_by_autovacuum(const LOCKTAG *tag, LOCKMODE mode)
{
	bool		found = false;
	int			n;
	VirtualTransactionId *holders = GetLockConflicts(tag, mode, &n);

	for (int i = 0; i < n; i++)
	{
		const		PGPROC *proc = GRNND_PROC_OF(holders[i]);

		found |= proc != NULL && (proc->statusFlags & PROC_IS_AUTOVACUUM) != 0;
	}
	pfree(holders);
	return found;
}

/*
 * A session that has waited for deadlock_timeout searches for a deadlock, and on this occasion
 * cancels an autovacuum that holds the lock. An insert or a check must not end the index's upkeep,
 * so the session waits for an autovacuum without that search. The session keeps its place in the
 * queue, lock_timeout counts, and pg_blocking_pids() names the holder. For any other holder the
 * session searches for a deadlock: the holder may wait, in a function of the index, for a lock of
 * the session, and has searched before the session closed the circle.
 */
void
grnnd_lock(Relation index, GrnndLockKind kind, LOCKMODE mode)
{
	LOCKTAG		tag = tag_of(index, kind);
	int			timeout = DeadlockTimeout;

	if (grnnd_try_lock(index, kind, mode))
		return;
	if (is_held_by_autovacuum(&tag, mode))
		DeadlockTimeout = INT_MAX;
	PG_TRY();
	{
		(void) LockAcquire(&tag, mode, false, false);
	}
	PG_FINALLY();
	{
		DeadlockTimeout = timeout;
	}
	PG_END_TRY();
}

void
grnnd_unlock(Relation index, GrnndLockKind kind, LOCKMODE mode)
{
	LOCKTAG		tag = tag_of(index, kind);

	(void) LockRelease(&tag, mode, false);
}

bool
grnnd_is_locked(Relation index, GrnndLockKind kind, LOCKMODE mode)
{
	if (!grnnd_try_lock(index, kind, mode))
		return true;
	grnnd_unlock(index, kind, mode);
	return false;
}

bool
grnnd_lock_is_wanted(Relation index, GrnndLockKind kind, LOCKMODE mode)
{
	LOCKTAG		tag = tag_of(index, kind);

	return LockHasWaiters(&tag, mode, false);
}

void
grnnd_lock_edges(Relation index, const uint32 *ids, uint32 n, GrnndEdgeLocks *locks)
{
	locks->count = 0;
	for (uint32 i = 0; i < n; i++)
	{
		uint8		lock = (uint8) murmurhash32(ids[i]);
		uint32		at = locks->count;

		while (at > 0 && locks->locks[at - 1] > lock)
			at--;
		if (at > 0 && locks->locks[at - 1] == lock)
			continue;
		memmove(locks->locks + at + 1, locks->locks + at, locks->count - at);
		locks->locks[at] = lock;
		locks->count++;
	}
	for (uint32 i = 0; i < locks->count; i++)
		grnnd_lock(index, GRNND_EDGE_LOCKS + locks->locks[i], ExclusiveLock);
}

void
grnnd_unlock_edges(Relation index, const GrnndEdgeLocks *locks)
{
	for (uint32 i = 0; i < locks->count; i++)
		grnnd_unlock(index, GRNND_EDGE_LOCKS + locks->locks[i], ExclusiveLock);
}

void
grnnd_hold_edges(void *index, uint32_t id, bool begin)
{
	GrnndLockKind kind = GRNND_EDGE_LOCKS + (uint8) murmurhash32(id);

	if (begin)
		grnnd_lock(index, kind, ExclusiveLock);
	else
		grnnd_unlock(index, kind, ExclusiveLock);
}

void
grnnd_wait_for_inserts(Relation index)
{
	grnnd_lock(index, GRNND_WRITERS_LOCK, ExclusiveLock);
	grnnd_test_point("writers-locked");
	grnnd_unlock(index, GRNND_WRITERS_LOCK, ExclusiveLock);
}

static LOCKTAG
database_tag(void)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, MyDatabaseId, 0);
	return tag;
}

bool
grnnd_try_lock_database(void)
{
	LOCKTAG		tag = database_tag();

	return LockAcquire(&tag, RowExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

bool
grnnd_database_is_wanted(void)
{
	LOCKTAG		tag = database_tag();

	return LockHasWaiters(&tag, RowExclusiveLock, false);
}
