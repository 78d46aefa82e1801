/*
 * owner.h - who owns a relation, and acting as a table's owner.
 */
#ifndef GRNND_OWNER_H
#define GRNND_OWNER_H

#include "postgres.h"

#include "storage/lockdefs.h"
#include "utils/relcache.h"

/* Is the current user the relation's owner, or a member of that role? */
extern bool grnnd_owns(Oid relation);

/* 42501 for an index that is not the user's; nothing of what is no index. */
extern void grnnd_must_own(Oid index);

/*
 * Opens an index of ours that is good, in AccessShareLock, and its table, which comes first as
 * everyone else has it, with the lock wanted.  The caller looks at the user's rights.  Errors:
 * 42809 for another relation, 0A000 for one that this session cannot read, 55000 for an index that
 * is not valid.  With gone_ok NULL, and nothing is open, where there is no such relation (any
 * more) or the index is not valid, as one is that goes concurrently.
 */
extern Relation grnnd_open_index(Oid oid, LOCKMODE mode, bool gone_ok, Relation *heap);
/* The reverse; the locks last until the end of the transaction. */
extern void grnnd_close_index(Relation index, Relation heap);

/* The user before grnnd_become_owner(). */
typedef struct GrnndUser
{
	Oid			user;
	int			context;
	int			guc_level;
} GrnndUser;

/*
 * Goes on as the table's owner, because the functions of its indexes are the owner's and not to
 * be run with the caller's rights.  An error undoes it.
 */
extern void grnnd_become_owner(Relation heap, GrnndUser *before);
extern void grnnd_become_again(const GrnndUser *before);

#endif							/* GRNND_OWNER_H */
