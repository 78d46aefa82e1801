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

/* The relation's name; 42P01 where no such relation exists. */
extern const char *grnnd_existing_name(Oid relation);

/* A relation's name for messages, quoted where needed; of a relation that is gone its OID. */
extern const char *grnnd_name_of(Oid relation);

/* Ends with an error unless the user has the right to something that a function does. */
typedef void (*GrnndRightFn) (Oid index, Oid table);

/* A GrnndRightFn: 42501 for an index that is not the user's. */
extern void grnnd_must_own(Oid index, Oid table);

/*
 * 42501 unless the user may read a column, at least, of the relation; nothing where there is no
 * such relation.  For callers whose SELECT is checked in full after the relation is locked.
 */
extern void grnnd_must_read(Oid relation);

/*
 * Opens an index of ours that is good, in AccessShareLock, and its table, which comes first as
 * everyone else has it, with the lock wanted.  A table with one index of ours stands for the
 * index.  `right` is called before the locks are taken, so that nobody waits for or holds a lock
 * without the right, and again under them.  Errors: 42809 for another relation or a table with
 * several indexes, those of `right`, 0A000 for an index that this session cannot read, 55000 for an
 * index that is not valid.  With gone_ok an index that is not valid is opened too, and NULL is
 * returned where no such relation exists (any more).
 */
extern Relation grnnd_open_index(Oid oid, GrnndRightFn right, LOCKMODE mode, bool gone_ok,
								 Relation *heap);
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
