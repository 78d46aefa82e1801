/*
 * vacuum.c - ambulkdelete and amvacuumcleanup.
 *
 * 1. A survey of all node pages, without changes, finds the nodes that will die.
 * 2. repair.c makes all other nodes reachable without the dying nodes (grnnd_prepare()).
 * 3. Dead TIDs are removed from their pages, and nodes without rows become GRN_DEAD. Then lists on
 *    these pages drop most of their edges to dead nodes.
 * 4. Chains of TIDs drop their empty records.
 * 5. Vacuum waits for inserts that began before, because an insert may have chosen a node that has
 *    died since. A later insert sees that the node is dead, and makes no edge to the node.
 * 6. repair.c takes the dead nodes out of the graph (another pass).
 * 7. vacuum_lists.c takes rows of dead nodes, and stale rows, out of the lists of values.
 * 8. Dead nodes and empty records of chains and lists are freed.
 *
 * Searches need not pass through dead nodes, because step 2 comes before step 3. So after a vacuum
 * that ends early, searches visit few dead nodes.
 *
 * After an interruption at any point, the index is sound and the next vacuum goes on.
 */
#include "am/write/vacuum.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "storage/indexfsm.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"

#include "am/callbacks.h"
#include "am/filter/filter.h"
#include "am/index/index.h"
#include "am/test_point.h"
#include "am/write/write.h"

/* ---- survey and cleaning ---- */

/* The place and number of a record's heap TIDs. */
static uint8_t *
record_tids(const GrnLayout *l, const GrnRecord *rec, uint32 *n)
{
	*n = rec->state == GRN_TIDS ? rec->ntids16 : rec->state == GRN_NODE ? rec->ntids : 0;
	return GRN_REC_PTR(rec, l->off_tids);
}

static bool
is_dead_tid(GrnndVacuum *v, const uint8_t *bytes)
{
	ItemPointerData tid;

	memcpy(&tid, bytes, sizeof(tid));
	return v->callback(&tid, v->callback_state);
}

static bool
is_bare(const GrnRecord *rec)
{
	return rec->state == GRN_NODE && rec->ntids == 0 && rec->next == GRN_INVALID_ID;
}

/* The number of TIDs that a record keeps. */
static uint32
count_kept(GrnndVacuum *v, const GrnRecord *rec, uint32 *dead)
{
	uint32		n;
	uint8_t    *tids = record_tids(&v->ix->layout, rec, &n);
	uint32		kept = 0;

	/* keep all: validate_index must see every TID */
	for (uint32 i = 0; i < n; i++)
		if (!is_dead_tid(v, tids + i * GRN_TID_BYTES))
			kept++;
	*dead = n - kept;
	return kept;
}

/*
 * Dead nodes that a live node's list keeps. Repair takes new neighbors from the neighbors of dead
 * nodes, but searches visit dead nodes in vain. A search passes through two dead nodes for each
 * live node as if the dead nodes lived (search_dead.c). Recall at ef 40 with half as many and twice
 * as many is within .004 (10,000 uniform rows and words, a half and three quarters deleted).
 */
#define MOST_DEAD(live) (4 + 2 * (live))

/* The number of edges to dead nodes that a list with too many keeps, or the length of the list. */
static uint32
most_dead(const GrnndVacuum *v, const GrnRecord *rec)
{
	const uint32 *ids = grn_rec_ids(&v->ix->layout, rec);
	uint32		ndead = 0;
	uint32		most;

	for (uint32 i = 0; i < rec->count; i++)
		ndead += grnnd_set_has(&v->dead, ids[i]);
	most = MOST_DEAD(rec->count - ndead);
	return ndead > most ? most : rec->count;
}

/* Drops the farthest edges to dead nodes if a list has too many; lists are mostly in order. */
static void
thin_list(GrnndVacuum *v, GrnRecord *rec)
{
	const GrnLayout *l = &v->ix->layout;
	const uint32 *ids = grn_rec_ids(l, rec);
	uint32		most = most_dead(v, rec);
	uint32		ndead = 0;
	uint32		n = 0;

	if (most == rec->count)
		return;
	for (uint32 i = 0; i < rec->count; i++)
	{
		if (grnnd_set_has(&v->dead, ids[i]) && ndead++ >= most)
			continue;
		if (n < i)
		{
			GrnEdge		edge = grn_get_edge(l, rec, i);

			grn_set_edge(l, rec, n, &edge);
		}
		n++;
	}
	rec->count = n;
}

/* Removes dead TIDs from a record of a page copy. Returns false if the record has no dead TID. */
static bool
clean_record(GrnndVacuum *v, GrnRecord *rec)
{
	uint32		n;
	uint32		left = 0;
	Size		attr_bytes = v->ix->layout.attr_bytes;
	uint8_t    *tids = record_tids(&v->ix->layout, rec, &n);
	uint8_t    *attrs = grn_rec_attrs(&v->ix->layout, rec);

	for (uint32 i = 0; i < n; i++)
	{
		uint8_t    *tid = tids + i * GRN_TID_BYTES;

		if (is_dead_tid(v, tid))
			continue;
		memmove(tids + left * GRN_TID_BYTES, tid, GRN_TID_BYTES);
		memmove(attrs + left * attr_bytes, attrs + i * attr_bytes, attr_bytes);
		left++;
	}
	v->stats->tuples_removed += n - left;
	if (rec->state == GRN_TIDS)
		rec->ntids16 = left;
	else if (rec->state == GRN_NODE)
		rec->ntids = left;
	if (is_bare(rec))
	{
		rec->state = GRN_DEAD;
		rec->flags = 0;
	}
	return left < n;
}

/* Notes the node of record id, because the node has lost rows and may keep others. */
static void
note_changed(GrnndVacuum *v, const GrnRecord *rec, uint32 id)
{
	uint16		unused;
	uint32		node = rec->state == GRN_TIDS ? grn_tids_owner(rec, &unused) : id;

	if (rec->state != GRN_DEAD && node < v->changed.limit)
		grnnd_set_add(&v->changed, node);
}

/* Notes the state of a record, with `left` TIDs kept; the caller holds the page's lock. */
static void
tally_record(GrnndVacuum *v, const GrnRecord *rec, uint32 id, uint32 left)
{
	switch ((GrnState) rec->state)
	{
		case GRN_FREE:
			break;
		case GRN_NODE:
			if (left == 0 && rec->next == GRN_INVALID_ID)
			{
				grnnd_set_add(&v->dead, id);
				break;
			}
			grnnd_set_add(&v->live, id);
			grnnd_reach_note(&v->reach, id, grn_rec_ids(&v->ix->layout, rec), rec->count);
			if (rec->next != GRN_INVALID_ID)
			{
				grnnd_set_add(&v->chained, id);
				v->bare |= left == 0;
			}
			break;
		case GRN_DEAD:
			grnnd_set_add(&v->dead, id);
			break;
		case GRN_TIDS:
			if (left == 0)
				grnnd_set_add(&v->empty, id);
			break;
		case GRN_LIST:
			grnnd_set_add(&v->listed, id / v->ix->layout.per_page);
			/* a guide's record that names no group may have to stay */
			v->has_empty_list |= (rec->ntids16 == 0 && (rec->flags & GRN_GUIDE) == 0) ||
				!grnnd_is_listing(v->ix, rec);
			break;
	}
}

static void
survey_page(GrnndVacuum *v, BlockNumber block, uint32 first)
{
	const GrnLayout *l = &v->ix->layout;
	Buffer		buffer = grnnd_read(v->index, block, BUFFER_LOCK_SHARE, GRNND_NODES, v->strategy);
	Page		page = BufferGetPage(buffer);
	uint32		limit = 0;
	GrnndRoom	room;

	for (uint32 i = 0; i < l->per_page && !PageIsNew(page); i++)
	{
		const GrnRecord *rec = grnnd_page_record(page, v->ix, i);
		uint32		dead;
		uint32		left;

		grnnd_check_record(v->index, v->ix, first + i, rec, &limit);
		left = count_kept(v, rec, &dead);
		v->stats->num_index_tuples += left;
		if (dead > 0 || is_bare(rec))
			grnnd_set_add(&v->dirty, first / l->per_page);
		tally_record(v, rec, first + i, left);
		/* slots freed since then have another version */
		if (grnnd_set_has(&v->live, first + i) && rec->version == 0 && first + i < v->ix->notes.report.ids)
			v->built++;
	}
	room = grnnd_page_room(v->heap, v->ix, page);
	UnlockReleaseBuffer(buffer);
	if (room != GRNND_NO_ROOM)
	{
		grnnd_note_room(v->index, block, room);
		v->stats->pages_free++;
	}
}

/* Writes the number of the build's nodes that are gone, on which widths depend (width.c). */
static void
note_gone(GrnndVacuum *v)
{
	uint32		nodes = v->ix->meta.build_nodes;
	uint32		gone = nodes - Min(v->built, nodes);
	Buffer		buffer;
	GenericXLogState *xlog;
	Page		page;

	/* an index without a report has no curve either; the number never falls */
	if (v->ix->notes.report.built == 0 || gone == v->ix->notes.gone)
		return;
	buffer = grnnd_read(v->index, 0, BUFFER_LOCK_EXCLUSIVE, GRNND_META, NULL);
	xlog = GenericXLogStart(v->index);
	page = GenericXLogRegisterBuffer(xlog, buffer, 0);
	((GrnndAttempt *) (GrnndPagePayload(page) + GRNND_META_OFF_ATTEMPT))->gone = gone;
	GenericXLogFinish(xlog);
	UnlockReleaseBuffer(buffer);
	/* a parallel worker cannot: backends then get the message when the leader writes pg_class */
	if (!IsParallelWorker())
		CacheInvalidateRelcache(v->index);
}

/* Cleans a page. Since the survey, inserts may have given a dying node another row. */
static void
clean_page(GrnndVacuum *v, BlockNumber block, uint32 first)
{
	const GrnLayout *l = &v->ix->layout;
	Buffer		buffer = grnnd_read(v->index, block, BUFFER_LOCK_EXCLUSIVE, GRNND_NODES,
									v->strategy);
	GenericXLogState *xlog = GenericXLogStart(v->index);
	Page		page = GenericXLogRegisterBuffer(xlog, buffer, 0);
	uint32		limit = 0;

	for (uint32 i = 0; i < l->per_page; i++)
	{
		GrnRecord  *rec = grnnd_page_record(page, v->ix, i);
		uint32		id = first + i;
		uint32		n;

		grnnd_check_record(v->index, v->ix, id, rec, &limit);
		if (clean_record(v, rec))
			note_changed(v, rec, id);
		v->returned |= rec->state == GRN_NODE && grnnd_set_has(&v->dead, id);
		if (rec->state == GRN_NODE && most_dead(v, rec) < rec->count)
			grnnd_set_add(&v->crowded, first / l->per_page);
		grnnd_set_remove(&v->live, id);
		grnnd_set_remove(&v->dead, id);
		grnnd_set_remove(&v->empty, id);
		record_tids(l, rec, &n);
		tally_record(v, rec, id, n);
	}
	GenericXLogFinish(xlog);
	UnlockReleaseBuffer(buffer);
}

/*
 * Runs after the whole sweep. Only then is certain which nodes have died, and which nodes got
 * another row since the survey and still need the edges to them.
 */
static void
thin_page(GrnndVacuum *v, BlockNumber block)
{
	Buffer		buffer = grnnd_read(v->index, block, BUFFER_LOCK_EXCLUSIVE, GRNND_NODES,
									v->strategy);
	GenericXLogState *xlog = GenericXLogStart(v->index);
	Page		page = GenericXLogRegisterBuffer(xlog, buffer, 0);

	for (uint32 i = 0; i < v->ix->layout.per_page; i++)
	{
		GrnRecord  *rec = grnnd_page_record(page, v->ix, i);

		if (rec->state == GRN_NODE)
			thin_list(v, rec);
	}
	GenericXLogFinish(xlog);
	UnlockReleaseBuffer(buffer);
}

/* ---- chains ---- */

/* Changes `next` of prev (a node, or a chained record of the node) from old to new. */
static bool
relink(GrnndVacuum *v, uint32 prev, uint32 old, uint32 new)
{
	GrnndEdit	e;
	bool		same;

	grnnd_edit_begin(&e, v->index, v->ix, prev);
	same = (e.rec->state == GRN_NODE || e.rec->state == GRN_TIDS) && e.rec->next == old;
	if (same)
		grnnd_edit_change(&e)->next = new;
	grnnd_edit_end(&e);
	return same;
}

/*
 * Takes empty records out of a node's chain, and marks the node as dead if no TID is left. Begins
 * again if an insert puts a new record in front meanwhile.
 */
static void
clean_chain(GrnndVacuum *v, uint32 head, GrnRecord *rec)
{
	uint32		limit;
	uint32		steps;
	uint32		prev;
	uint32		cur;
	uint16		version;
	GrnndEdit	e;

again:
	if (grnnd_copy_record(v->index, v->ix, head, rec, v->strategy) != GRN_NODE)
		return;
	version = rec->version;
	prev = head;
	limit = grnnd_id_limit(v->index, v->ix);
	steps = 0;
	for (cur = rec->next; cur != GRN_INVALID_ID; cur = rec->next)
	{
		grnnd_delay_point();
		grnnd_copy_record(v->index, v->ix, cur, rec, v->strategy);
		if (!grn_tids_owned_by(rec, head, version))
			grnnd_corrupt(v->index, grnnd_node_block(v->ix, cur),
						  "chain of heap TIDs holds a foreign record");
		if (++steps > limit)
			grnnd_corrupt(v->index, grnnd_node_block(v->ix, cur),
						  "chain of heap TIDs has no end");
		if (rec->ntids16 > 0)
			prev = cur;
		else if (!relink(v, prev, cur, rec->next))
			goto again;
	}

	grnnd_edit_begin(&e, v->index, v->ix, head);
	if (e.rec->version == version && is_bare(e.rec))
	{
		GrnRecord  *bare = grnnd_edit_change(&e);

		bare->state = GRN_DEAD;
		bare->flags = 0;
		grnnd_set_add(&v->dead, head);
	}
	grnnd_edit_end(&e);
}

/* ---- freeing ---- */

static void
free_page(GrnndVacuum *v, uint32 id, FullTransactionId stamp)
{
	const GrnLayout *l = &v->ix->layout;
	uint32		first = id - grn_node_slot(l, id);
	BlockNumber block = grnnd_node_block(v->ix, id);
	Buffer		buffer = grnnd_read(v->index, block, BUFFER_LOCK_EXCLUSIVE,
									GRNND_NODES, v->strategy);
	GenericXLogState *xlog = GenericXLogStart(v->index);
	Page		page = GenericXLogRegisterBuffer(xlog, buffer, 0);
	GrnndRoom	room;

	for (uint32 i = 0; i < l->per_page; i++)
	{
		GrnRecord  *rec = grnnd_page_record(page, v->ix, i);

		if ((grnnd_set_has(&v->dead, first + i) && rec->state == GRN_DEAD) ||
			(grnnd_set_has(&v->empty, first + i) &&
			 (rec->state == GRN_TIDS || rec->state == GRN_LIST) && rec->ntids16 == 0))
			grnnd_free_slot(rec, stamp);
	}
	GenericXLogFinish(xlog);
	page = BufferGetPage(buffer);
	room = grnnd_page_room(v->heap, v->ix, page);
	UnlockReleaseBuffer(buffer);
	grnnd_note_room(v->index, block, room);
	v->stats->pages_deleted++;
}

/* Nothing leads to these records any more; README says when new rows may take the slots. */
static void
free_all(GrnndVacuum *v)
{
	FullTransactionId stamp = ReadNextFullTransactionId();
	uint32		id = 0;

	for (;;)
	{
		uint32		a = grnnd_set_next(&v->dead, id);
		uint32		b = grnnd_set_next(&v->empty, id);

		id = Min(a, b);
		if (id == GRN_INVALID_ID)
			break;
		grnnd_delay_point();
		free_page(v, id, stamp);
		/* continue with the next page */
		id += v->ix->layout.per_page - grn_node_slot(&v->ix->layout, id);
	}
}

/* ---- callbacks ---- */

void
grnnd_note_memory(GrnndVacuum *v)
{
	v->memory.peak = Max(v->memory.peak, MemoryContextMemAllocated(v->memory.context, true));
}

static void
run_vacuum(GrnndVacuum *v)
{
	const GrnLayout *l = &v->ix->layout;
	Size		memory = grnnd_maintenance_memory();
	Size		sets;
	MemoryContext old;

	v->limit = grnnd_id_limit(v->index, v->ix);
	grnnd_set_init(&v->live, v->limit);
	grnnd_set_init(&v->dead, v->limit);
	grnnd_set_init(&v->empty, v->limit);
	grnnd_set_init(&v->dirty, v->limit / l->per_page + 1);
	grnnd_set_init(&v->crowded, v->dirty.limit);
	grnnd_set_init(&v->listed, v->dirty.limit);
	grnnd_set_init(&v->chained, v->limit);
	grnnd_set_init(&v->changed, grnnd_keeps_lists(&v->ix->meta) ? v->limit : 0);
	sets = 5 * grnnd_set_bytes(v->limit) + 3 * grnnd_set_bytes(v->dirty.limit) +
		grnnd_prepare_bytes(v->limit);
	v->memory.limit = memory > sets ? memory - sets : 0;
	grnnd_reach_init(&v->reach, v->index, v->ix, v->limit, v->memory.limit, v->strategy);
	v->reach.without = &v->dead;

	for (uint32 first = 0; first < v->limit; first += l->per_page)
	{
		grnnd_delay_point();
		survey_page(v, grnnd_node_block(v->ix, first), first);
	}
	grnnd_test_point("vacuum-surveyed");
	note_gone(v);
	if (v->dirty.count > 0 && v->dead.count > 0)
	{
		/* a running insert may take back a node that the survey noted */
		grnnd_wait_for_inserts(v->index);
		grnnd_prepare(v);
	}
	for (uint32 page = grnnd_set_next(&v->dirty, 0); page != GRN_INVALID_ID;
		 page = grnnd_set_next(&v->dirty, page + 1))
	{
		uint32		first = page * l->per_page;

		grnnd_delay_point();
		grnnd_test_point("vacuum-sweep");
		clean_page(v, grnnd_node_block(v->ix, first), first);
	}
	for (uint32 page = grnnd_set_next(&v->crowded, 0); page != GRN_INVALID_ID;
		 page = grnnd_set_next(&v->crowded, page + 1))
	{
		grnnd_delay_point();
		thin_page(v, grnnd_node_block(v->ix, page * l->per_page));
	}

	if (v->empty.count > 0 || v->bare)
	{
		GrnRecord  *rec = palloc(grnnd_copy_bytes(v->ix));

		for (uint32 id = grnnd_set_next(&v->chained, 0); id != GRN_INVALID_ID;
			 id = grnnd_set_next(&v->chained, id + 1))
			clean_chain(v, id, rec);
	}
	if (v->dead.count == 0 && v->empty.count == 0 && !v->returned && !v->has_empty_list &&
		v->changed.count == 0)
		return;

	grnnd_test_point("vacuum-swept");
	grnnd_wait_for_inserts(v->index);

	old = MemoryContextSwitchTo(AllocSetContextCreate(v->memory.context, "grnnd repair",
													  ALLOCSET_DEFAULT_SIZES));
	if (v->dead.count > 0)
		grnnd_repair(v);
	else if (v->returned)
		grnnd_prepare(v);		/* the first call ran without the nodes that were to die */
	grnnd_note_memory(v);
	MemoryContextDelete(MemoryContextSwitchTo(old));
	grnnd_test_point("vacuum-repaired");
	if (v->dead.count > 0)
		grnnd_renew_sample(v->index, v->ix, v->strategy);
	if (v->reach.room > 0)
		pfree(v->reach.lists);	/* vacuum_lists.c needs the memory */
	if (v->dead.count > 0 || v->has_empty_list || v->changed.count > 0)
		grnnd_clean_lists(v);
	free_all(v);
}

IndexBulkDeleteResult *
grnnd_bulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
				 IndexBulkDeleteCallback callback, void *callback_state)
{
	MemoryContext context;
	MemoryContext old;
	GrnndVacuum v = {
		.index = info->index,
		.strategy = info->strategy,
		.callback = callback,
		.callback_state = callback_state
	};

	if (stats == NULL)
		stats = palloc0(sizeof(IndexBulkDeleteResult));
	/* counted anew by each call */
	stats->num_index_tuples = 0;
	stats->pages_free = 0;
	stats->estimated_count = false;
	v.stats = stats;
#if PG_VERSION_NUM >= 160000
	v.heap = info->heaprel;
#endif

	context = AllocSetContextCreate(CurrentMemoryContext, "grnnd vacuum",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	v.memory.context = context;
	grnnd_lock(info->index, GRNND_UPKEEP_LOCK, ExclusiveLock);
	/* Reread the metapage: a failed fit sends no invalidation, and its lists are no garbage. */
	v.ix = grnnd_index_anew(info->index);
	grnnd_lock(info->index, GRNND_SURVEY_LOCK, ExclusiveLock);
	run_vacuum(&v);
	grnnd_unlock(info->index, GRNND_SURVEY_LOCK, ExclusiveLock);
	grnnd_unlock(info->index, GRNND_UPKEEP_LOCK, ExclusiveLock);
	grnnd_note_memory(&v);
	ereport(DEBUG1,
			(errmsg_internal("grnnd vacuum: ids %u, memory %zu", v.limit, v.memory.peak)));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return stats;
}

/* Rows inserted into the table since its last vacuum, as far as the server counts. */
static double
rows_since_vacuum(Relation index)
{
	Datum		heap = ObjectIdGetDatum(index->rd_index->indrelid);

	return (double) DatumGetInt64(DirectFunctionCall1(pg_stat_get_ins_since_vacuum, heap));
}

/* ---- edges and fits, which may fail ---- */

typedef struct Extra
{
	Relation	index;
	BufferAccessStrategy strategy;
	double		changed;		/* rows changed since the last vacuum, about */
	bool		fits;
} Extra;

static void
add_edges(Extra *extra)
{
	/* if the table has not changed, do not read the index */
	if (extra->changed <= 0)
		return;
	grnnd_lock(extra->index, GRNND_UPKEEP_LOCK, ExclusiveLock);
	grnnd_make_navigable(extra->index, extra->strategy, extra->changed);
	grnnd_unlock(extra->index, GRNND_UPKEEP_LOCK, ExclusiveLock);
}

static void
fit_codes(Extra *extra)
{
	grnnd_fit_in_vacuum(extra->index, &extra->fits);
}

/*
 * Runs work on which VACUUM does not depend, and which may lack memory or space on disk. An error
 * becomes a WARNING, unless the statement is canceled. The work runs in a subtransaction that is
 * always rolled back, because a commit would begin a new command, which parallel mode forbids.
 * Pages that the work has changed stay changed.
 */
static void
try_extra(Extra *extra, void (*work) (Extra *))
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *error = NULL;

#if PG_VERSION_NUM < 170000
	/* parallel mode allows no subtransaction */
	if (IsInParallelMode())
	{
		work(extra);
		return;
	}
#endif
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		work(extra);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	if (error == NULL)
		return;
	if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		ReThrowError(error);
	ereport(WARNING,
			(errcode(error->sqlerrcode),
			 errmsg("maintenance of index \"%s\" failed: %s",
					RelationGetRelationName(extra->index), error->message),
			 error->detail != NULL ? errdetail_internal("%s", error->detail) : 0,
			 error->context != NULL ? errcontext("%s", error->context) : 0,
			 errhint("%s", error->hint != NULL ? error->hint : "A later VACUUM tries again.")));
	FreeErrorData(error);
}

IndexBulkDeleteResult *
grnnd_vacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	Extra		extra = {.index = info->index, .strategy = info->strategy};

	if (info->analyze_only)
		return stats;
	if (stats == NULL)
	{
		/* nothing was deleted: use the table's own count */
		stats = palloc0(sizeof(IndexBulkDeleteResult));
		stats->num_index_tuples = info->num_heap_tuples;
		stats->estimated_count = true;
	}
	else if (stats->pages_deleted > 0 && !IsInParallelMode() &&
			 !(SyncRepRequested() && SyncRepStandbyNames[0] != '\0'))
	{
		/*
		 * Freed slots wait until their stamp, the next transaction ID at that time, is older than
		 * every snapshot. Use this ID up now, so that the slots need not wait for yet another
		 * transaction. But not if the commit of a transaction with an ID waits for synchronous
		 * standbys, perhaps for ever.
		 */
		(void) GetTopTransactionId();
	}
	IndexFreeSpaceMapVacuum(info->index);
	extra.changed = stats->tuples_removed + rows_since_vacuum(info->index);
	try_extra(&extra, add_edges);
	try_extra(&extra, fit_codes);
	/* a subtransaction that is rolled back sends no message */
	if (extra.fits)
		CacheInvalidateRelcache(info->index);
	stats->num_pages = RelationGetNumberOfBlocks(info->index);
	return stats;
}
