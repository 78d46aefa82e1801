/*
 * prewarm.c - grnnd_prewarm(): reads pages of an index into shared buffers before the first
 * queries, for example after a restart or on a new standby.  Queries start at the entry points, so
 * pages near the entry points are read by more queries.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/spccache.h"

#include "am/index/index.h"
#include "am/write/write.h"

/* Level `hot` uses at most this part of shared buffers; the table needs the rest. */
#define HOT_PART 8

typedef enum Level
{
	ENTRIES,					/* the pages that every search reads: head and entry points */
	HOT,						/* also pages near the entry points */
	ALL
} Level;

/* A breadth-first walk over pages from the entry points. */
typedef struct PageWalk
{
	Relation	index;
	const GrnndIndex *ix;
	uint32		id_limit;
	GrnndSet	seen;			/* units already in the queue; a unit is a page, or a record of
								 * several pages */
	uint32	   *queue;			/* [room] units in the order of reading */
	uint32		room;
	uint32		count;
	int			ahead;			/* units to prefetch ahead of the reads */
	int64		pages;			/* pages read so far */
} PageWalk;

static uint32
unit_of(const GrnLayout *l, uint32 id)
{
	return l->span > 1 ? id : id / l->per_page;
}

static BlockNumber
first_block(const GrnndIndex *ix, uint32 unit)
{
	return ix->meta.first_node_block + (BlockNumber) unit * ix->layout.span;
}

static void
enqueue(PageWalk *w, uint32 id)
{
	if (id < w->id_limit && w->count < w->room && grnnd_set_add(&w->seen, unit_of(&w->ix->layout, id)))
		w->queue[w->count++] = unit_of(&w->ix->layout, id);
}

/* Reads the blocks [from, end) in order.  Returns their number. */
static int64
read_in_order(Relation index, BlockNumber from, BlockNumber end)
{
	int			ahead = get_tablespace_io_concurrency(index->rd_rel->reltablespace);

	for (BlockNumber block = from; block < end; block++)
	{
		CHECK_FOR_INTERRUPTS();
		if (ahead > 0 && end - block > (BlockNumber) ahead)
			PrefetchBuffer(index, MAIN_FORKNUM, block + ahead);
		ReleaseBuffer(ReadBuffer(index, block));
	}
	return end > from ? end - from : 0;
}

/* Reads a unit, and queues the units of its nodes' neighbors. */
static void
read_unit(PageWalk *w, uint32 unit)
{
	const GrnLayout *l = &w->ix->layout;
	BlockNumber block = first_block(w->ix, unit);
	Buffer		buffer = grnnd_read(w->index, block, BUFFER_LOCK_SHARE, GRNND_NODES, NULL);
	Page		page = BufferGetPage(buffer);

	for (uint32 slot = 0; slot < l->per_page && !PageIsNew(page); slot++)
	{
		const GrnRecord *rec = grnnd_page_record(page, w->ix, slot);
		uint32		id = unit * l->per_page + slot;
		const char *wrong = grn_record_check(l, rec, id, GRN_MAX_NODES);

		if (wrong != NULL)
			grnnd_corrupt(w->index, block, wrong);
		if (!grn_record_leads_on(rec))
			continue;
		for (uint32 i = 0; i < rec->count; i++)
			enqueue(w, grn_rec_ids(l, rec)[i]);
	}
	UnlockReleaseBuffer(buffer);
	w->pages++;
	if (l->span > 1)
		w->pages += read_in_order(w->index, block + 1, block + l->span);
}

/*
 * Reads node pages in breadth-first order from the entry points: at most `most` pages, or only the
 * entry points' pages if most is 0.  Returns the number of pages.
 */
static int64
read_near(Relation index, const GrnndIndex *ix, int64 most)
{
	GrnndEntries *entries = grnnd_get_entries(index, ix);
	PageWalk	w = {.index = index, .ix = ix, .id_limit = grnnd_id_limit(index, ix)};

	grnnd_set_init(&w.seen, w.id_limit);
	w.room = (uint32) Min(Max(most / ix->layout.span, entries->count), w.id_limit);
	w.queue = palloc((Size) Max(w.room, 1) * sizeof(uint32));
	w.ahead = get_tablespace_io_concurrency(index->rd_rel->reltablespace);
	for (uint32 i = 0; i < entries->count; i++)
		enqueue(&w, entries->ids[i]);
	if (most == 0)
		w.room = w.count;
	for (uint32 done = 0; done < w.count; done++)
	{
		CHECK_FOR_INTERRUPTS();
		if (w.ahead > 0 && w.count - done > (uint32) w.ahead)
			PrefetchBuffer(index, MAIN_FORKNUM, first_block(ix, w.queue[done + w.ahead]));
		read_unit(&w, w.queue[done]);
	}
	return w.pages;
}

static Level
level_named(const char *name)
{
	if (strcmp(name, "entries") == 0)
		return ENTRIES;
	if (strcmp(name, "hot") == 0)
		return HOT;
	if (strcmp(name, "all") == 0)
		return ALL;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown level \"%s\" of grnnd_prewarm()", name),
			 errhint("Levels are \"entries\", \"hot\" and \"all\".")));
}

/* A GrnndRightFn: owners of the index and readers of the table may. */
static void
must_own_or_read(Oid index, Oid table)
{
	if (!grnnd_owns(index) && pg_class_aclcheck(table, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to read index %s into memory",
						grnnd_name_of(index)),
				 errhint("The owner of the index and roles with the SELECT privilege on its table can call the function.")));
}

/*
 * grnnd_prewarm(index, level): returns the number of pages read, including pages that were in
 * shared buffers already.  For the owner of the index and roles that may read the table.
 */
PG_FUNCTION_INFO_V1(grnnd_prewarm);
Datum
grnnd_prewarm(PG_FUNCTION_ARGS)
{
	Level		level;
	Relation	heap;
	Relation	index;
	const GrnndIndex *ix;
	int64		pages;

	/* raise an error, so that a script that warms nothing does not go unnoticed */
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("index and level must not be null"),
				 errhint("Omit level to read all pages.")));
	level = level_named(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	index = grnnd_open_index(PG_GETARG_OID(0), must_own_or_read, AccessShareLock, false, &heap);
	ix = grnnd_index_anew(index);
	pages = read_in_order(index, 0, level == ALL ? RelationGetNumberOfBlocks(index)
						  : ix->meta.first_node_block);
	if (level != ALL)
		pages += read_near(index, ix, level == HOT ? NBuffers / HOT_PART : 0);
	grnnd_close_index(index, heap);
	PG_RETURN_INT64(pages);
}
