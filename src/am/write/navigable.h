/* navigable.h - adds edges to an index where searches end far from their target. */
#ifndef GRNND_NAVIGABLE_H
#define GRNND_NAVIGABLE_H

#include "postgres.h"

#include "storage/bufmgr.h"
#include "utils/relcache.h"

/*
 * Searches for random nodes, and adds edges where searches end too early.  changed: rows since the
 * last call, for more searches.  Under GRNND_UPKEEP_LOCK.
 */
extern void grnnd_make_navigable(Relation index, BufferAccessStrategy strategy, double changed);

#endif							/* GRNND_NAVIGABLE_H */
