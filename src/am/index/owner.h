/*
 * owner.h - opens indexes for functions, checks privileges, and switches to a table's owner.
 */
#ifndef GRNND_OWNER_H
#define GRNND_OWNER_H

#include "postgres.h"

#include "storage/lockdefs.h"
#include "utils/relcache.h"

/* Does the current user own the relation, or belong to the owning role? */
extern PGDLLEXPORT bool grnnd_owns(Oid relation);

/* The relation's name.  Error: 42P01 if the relation does not exist. */
extern PGDLLEXPORT const char *grnnd_existing_name(Oid relation);

/* A relation's name for messages, quoted if needed; the OID if the relation does not exist. */
extern const char *grnnd_name_of(Oid relation);

/* Raises an error unless the user has the privilege that a function needs. */
typedef void (*GrnndRightFn) (Oid index, Oid table);

/* A GrnndRightFn: raises 42501 unless the user owns the index. */
extern void grnnd_must_own(Oid index, Oid table);

/*
 * Raises 42501 unless the user may read at least one column of the relation.  Does nothing if the
 * relation does not exist.  The caller's SELECT must check all privileges after the relation is
 * locked.
 */
extern PGDLLEXPORT void grnnd_must_read(Oid relation);

/*
 * Opens an index of ours in AccessShareLock, and its table in `mode`, the table first as
 * everywhere.  If oid is a table with one index of ours, opens that index.  Calls `right` before
 * taking locks, so that a user without the privilege never waits for a lock or holds one, and
 * again under the locks.
 *
 * Errors: 42809 for another relation or a table with several indexes of ours, the errors of
 * `right`, 0A000 for an index that this session cannot read, 55000 for an invalid index.  gone_ok:
 * also opens an invalid index, and returns NULL if the relation does not exist.
 */
extern Relation grnnd_open_index(Oid oid, GrnndRightFn right, LOCKMODE mode, bool gone_ok,
								 Relation *heap);
/* Closes index and table.  The locks stay until the end of the transaction. */
extern void grnnd_close_index(Relation index, Relation heap);

/* The state before grnnd_become_owner(). */
typedef struct GrnndUser
{
	Oid			user;
	int			context;
	int			guc_level;
} GrnndUser;

/*
 * Switches to the table's owner, because index functions belong to the owner and must not run with
 * the caller's privileges.  An error restores the caller.
 */
extern void grnnd_become_owner(Relation heap, GrnndUser *before);
extern void grnnd_restore_user(const GrnndUser *before);

#endif							/* GRNND_OWNER_H */
