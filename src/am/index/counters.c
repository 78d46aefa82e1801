/*
 * counters.c - cumulative statistics of an index, for the view grnnd_stat_indexes.
 *
 * PostgreSQL keeps one entry of cumulative statistics for each relation.  In the entry of an index,
 * the server leaves the counters of changed rows, VACUUM and ANALYZE at 0, and grnnd counts there.
 * So the server keeps the counts over a restart and REINDEX CONCURRENTLY, resets the counts with
 * pg_stat_reset() and pg_stat_reset_single_table_counters(), and drops the counts with the index.
 * The view reads the counters by pg_stat_get_tuples_inserted() and similar functions.
 */
#include "am/index/index.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/pgstat_internal.h"
#include "utils/rel.h"

#include "am/compat.h"

/* The counters in the server's names, as the view grnnd_stat_indexes has them. */
#define INSERTS tuples_inserted
#define LINKS tuples_updated
#define RECORDS_VISITED tuples_deleted
#define ROWS_RECHECKED tuples_hot_updated
#define GRAPH_SCANS vacuum_count
#define LIST_SCANS analyze_count
#define ALL_ROWS_SCANS autovacuum_count
#define BITMAP_SCANS mod_since_analyze
#define PAGES_READ autoanalyze_count

/* The index's entry, locked; NULL if the server collects no statistics. */
static PgStat_EntryRef *
lock_entry(Relation index, PgStat_StatTabEntry * *counters)
{
	PgStat_EntryRef *entry;

	if (!pgstat_track_counts)
		return NULL;
	entry = pgstat_get_entry_ref_locked(PGSTAT_KIND_RELATION, MyDatabaseId,
										RelationGetRelid(index), false);
	*counters = &((PgStatShared_Relation *) entry->shared_stats)->stats;
	return entry;
}

void
grnnd_count_scan(Relation index, const GrnndWork *work)
{
	PgStat_StatTabEntry *c;
	PgStat_EntryRef *entry = lock_entry(index, &c);

	if (entry == NULL)
		return;
	c->RECORDS_VISITED += work->visits;
	c->PAGES_READ += work->pages;
	c->ROWS_RECHECKED += work->reads;
	if (work->rests > 0)
		c->ALL_ROWS_SCANS++;
	else if (work->bitmaps > 0)
		c->BITMAP_SCANS++;
	else if (work->list_pages > 0)
		c->LIST_SCANS++;
	else
		c->GRAPH_SCANS++;
	pgstat_unlock_entry(entry);
}

void
grnnd_count_insert(Relation index, uint32 links)
{
	PgStat_StatTabEntry *c;
	PgStat_EntryRef *entry = lock_entry(index, &c);

	if (entry == NULL)
		return;
	c->INSERTS++;
	c->LINKS += links;
	pgstat_unlock_entry(entry);
}

/* grnnd_stat_reset(index): for the owner, who may not call the server's functions. */
PG_FUNCTION_INFO_V1(grnnd_stat_reset);
Datum
grnnd_stat_reset(PG_FUNCTION_ARGS)
{
	Relation	heap;
	Relation	index = grnnd_open_index(PG_GETARG_OID(0), grnnd_must_own, AccessShareLock, false, &heap);

	pgstat_reset(PGSTAT_KIND_RELATION, MyDatabaseId, RelationGetRelid(index));
	grnnd_close_index(index, heap);
	PG_RETURN_VOID();
}
