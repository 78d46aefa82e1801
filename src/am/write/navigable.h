/*
 * navigable.h - edges where searches of an index end far from what they look for.
 */
#ifndef GRNND_NAVIGABLE_H
#define GRNND_NAVIGABLE_H

#include "postgres.h"

#include "storage/bufmgr.h"
#include "utils/relcache.h"

/*
 * Searches for some nodes of the index, drawn at random, and adds edges where these searches end
 * too early.  changed: rows of the table that have come or gone since this was done last; more of
 * them have more searches.  The caller holds GRNND_UPKEEP_LOCK.
 */
extern void grnnd_make_navigable(Relation index, BufferAccessStrategy strategy, double changed);

#endif							/* GRNND_NAVIGABLE_H */
