/* navigable.h - adds edges to an index where searches end far from their target. */
#ifndef GRNND_NAVIGABLE_H
#define GRNND_NAVIGABLE_H

#include "postgres.h"

#include "storage/bufmgr.h"
#include "utils/relcache.h"

/*
 * Searches for random nodes of the index, and adds edges where these searches end too early.
 * changed: rows of the table inserted or deleted since the last call; more changes mean more
 * searches. The caller holds GRNND_UPKEEP_LOCK.
 */
extern void grnnd_make_navigable(Relation index, BufferAccessStrategy strategy, double changed);

#endif							/* GRNND_NAVIGABLE_H */
