/*
 * repair.c - takes dead nodes out of the graph.
 *
 * First every live node is made reachable over live nodes alone, by new edges: before any node dies
 * (grnnd_prepare), and again for later changes (connect_all). Then a pass over all pages
 * drops the edges to dead nodes and fills the free room from the dead nodes' own neighbors
 * (fix_page). Nodes left with few live neighbors search for new neighbors instead (enrich). In this
 * order an interruption leaves every row reachable.
 */
#include "am/write/vacuum.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/index/index.h"
#include "am/test_point.h"
#include "am/write/write.h"
#include "store/prune.h"
#include "store/search.h"

typedef struct Repair
{
	GrnndStore	store;			/* must be first */
	GrnndVacuum *v;
	const GrnndIndex *ix;
	GrnndRefill *refill;
	GrnndSet	late;			/* nodes inserted since the survey */
	uint32		enough;			/* live neighbors with which a node need not search */
	GrnndSet	poor;			/* nodes with fewer that are to search */
} Repair;

/* ---- connecting ---- */

/* GrnStore.edit(): the noted list of a changed node is no longer trusted. */
static void
edit(GrnStore *self, uint32_t id, GrnEditFn fn, void *arg)
{
	grnnd_set_remove(&((Repair *) self)->v->reach.noted, id);
	grnnd_store_edit(self, id, fn, arg);
}

/*
 * Gives a node that is unreachable over live nodes an edge from a reachable node, `near` (may be
 * GRN_INVALID_ID) or another (store/connect.c).  Returns false if the node is gone, because its
 * insert has taken it back (withdraw()).
 */
static bool
connect_node(Repair *r, uint32 id, uint32 root, uint32 near)
{
	GrnndVacuum *v = r->v;
	GrnStore   *store = &r->store.base;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "grnnd connect",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	GrnUpkeep	u = {.graph = grnnd_stored_graph(v->index, r->ix, &store), .reached = v->reach.reached.words,
		.limit = v->reach.reached.limit, .hold = grnnd_hold_edges, .arg = v->index};
	bool		linked = grn_connect_node(&u, root, id, near);
	bool		is_node = linked ||
		grnnd_copy_record(v->index, r->ix, id, palloc(grnnd_copy_bytes(r->ix)), v->strategy) == GRN_NODE;

	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	if (!is_node)
		return false;
	if (!linked)
		ereport(WARNING,
				(errmsg("a node of index \"%s\" could not be connected to the others",
						RelationGetRelationName(v->index)),
				 errhint("REINDEX the index.")));
	/* the node's neighbors are reachable now */
	grnnd_reach_mark(&v->reach, id);
	grnnd_reach_run(&v->reach);
	return true;
}

/* ---- making every live node reachable ---- */

/* The first unreachable live node from id on, or GRN_INVALID_ID. */
static uint32
next_cut_off(const GrnndVacuum *v, uint32 id)
{
	for (id = grnnd_set_next(&v->live, id); id != GRN_INVALID_ID;
		 id = grnnd_set_next(&v->live, id + 1))
		if (!grnnd_set_has(&v->dead, id) && !grnnd_set_has(&v->reach.reached, id))
			break;
	return id;
}

/*
 * Connects live nodes that are reachable through dead nodes alone. A breadth-first search goes from
 * all reached nodes through the dead nodes, and remembers for each dead node the live node from
 * which the search came. When the search arrives at an unreachable live node, the remembered node
 * gets an edge to the live node: by edges, both are near. Each node is expanded once, so the time
 * is proportional to the graph however few nodes live.
 */
static void
cross_dead(Repair *r, uint32 root)
{
	GrnndVacuum *v = r->v;
	GrnndReach *reach = &v->reach;
	uint32		limit = reach->reached.limit;
	uint32	   *origins;		/* [limit] live origins of dead nodes */
	GrnndSet	sets[2];
	GrnndSet   *now = &sets[0];
	GrnndSet   *next = &sets[1];

	if (next_cut_off(v, 0) == GRN_INVALID_ID)
		return;
	origins = palloc_extended((Size) limit * sizeof(uint32), MCXT_ALLOC_HUGE);
	memset(origins, 0xFF, (Size) limit * sizeof(uint32));
	grnnd_set_init(now, limit);
	grnnd_set_init(next, limit);
	grnnd_note_memory(v);
	for (uint32 id = grnnd_set_next(&reach->reached, 0); id != GRN_INVALID_ID;
		 id = grnnd_set_next(&reach->reached, id + 1))
		grnnd_set_add(now, id);
	while (now->count > 0)
	{
		GrnndSet   *done = now;

		for (uint32 id = grnnd_set_next(now, 0); id != GRN_INVALID_ID;
			 id = grnnd_set_next(now, id + 1))
		{
			uint32		ids[GRN_MAX_DEGREE];
			uint32		count = grnnd_reach_list(reach, id, ids);
			uint32		origin = grnnd_set_has(&reach->reached, id) ? id : origins[id];

			if (id % 64 == 0)
				CHECK_FOR_INTERRUPTS();
			for (uint32 i = 0; i < count; i++)
			{
				uint32		y = ids[i];

				if (y >= limit || origins[y] != GRN_INVALID_ID ||
					grnnd_set_has(&reach->reached, y))
					continue;
				if (grnnd_set_has(&v->live, y) && !grnnd_set_has(&v->dead, y))
				{
					grnnd_delay_point();
					reach->fresh = next;
					if (!connect_node(r, y, root, origin))
						grnnd_set_add(&v->dead, y);
					reach->fresh = NULL;
				}
				else
				{
					origins[y] = origin;
					grnnd_set_add(next, y);
				}
			}
		}
		grnnd_set_clear(done);
		now = next;
		next = done;
	}
	pfree(origins);
	pfree(now->words);
	pfree(next->words);
}

/* Makes every live node reachable from root, which is alive, over live nodes. */
static void
connect_to(Repair *r, uint32 root)
{
	GrnndVacuum *v = r->v;

	grnnd_reach_mark(&v->reach, root);
	grnnd_reach_run(&v->reach);
	cross_dead(r, root);
	/* nodes to which no edge leads: an insert was interrupted */
	for (uint32 id = next_cut_off(v, 0); id != GRN_INVALID_ID; id = next_cut_off(v, id + 1))
	{
		grnnd_delay_point();
		if (!connect_node(r, id, root, GRN_INVALID_ID))
			grnnd_set_add(&v->dead, id);
	}
}

static void
connect_all(Repair *r)
{
	GrnndVacuum *v = r->v;
	GrnndRoot	root;

	for (;;)
	{
		uint32		now;
		GrnndEntries *entries;

		grnnd_choose_root(v, &root);
		if (root.id == GRN_INVALID_ID)
			return;				/* no row remains */
		connect_to(r, root.id);
		grnnd_publish_root(v, &root);

		/* an insert that found no live node may have become entries[0] */
		entries = grnnd_get_entries(v->index, r->ix);
		now = entries->count > 0 ? entries->ids[0] : GRN_INVALID_ID;
		if (now == root.id)
			return;
		/* nodes reachable from the old root must be reached from the new root */
		grnnd_set_clear(&v->reach.reached);
	}
}

static Repair *
begin_repair(GrnndVacuum *v)
{
	Repair	   *r = palloc0(sizeof(Repair));
	uint32		limit;

	r->v = v;
	r->ix = v->ix;
	grnnd_store_init(&r->store, v->index, v->ix, CurrentMemoryContext);
	r->store.strategy = v->strategy;
	r->store.base.edit = edit;
	r->enough = grnnd_shares(r->ix).least_edges;
	/* including rows inserted since the survey */
	limit = grnnd_id_limit(v->index, v->ix);
	grnnd_set_grow(&v->reach.reached, limit);
	grnnd_set_grow(&v->reach.pending, limit);
	return r;
}

/* See cross_dead(). */
Size
grnnd_prepare_bytes(uint32 limit)
{
	return (Size) limit * sizeof(uint32) + 2 * grnnd_set_bytes(limit);
}

void
grnnd_prepare(GrnndVacuum *v)
{
	Repair	   *r = begin_repair(v);
	GrnndRoot	root;

	grnnd_choose_root(v, &root);
	if (root.id != GRN_INVALID_ID)
	{
		connect_to(r, root.id);
		/* entries[0] stays until repair, though it will die: new rows may depend on such nodes */
		grnnd_prepare_entries(v, &root);
	}
	grnnd_set_clear(&v->reach.reached);
	grnnd_test_point("vacuum-prepared");
}

/* ---- the last pass ---- */

static uint32
count_live(const GrnndVacuum *v, const GrnRecord *rec)
{
	const uint32 *ids = grn_rec_ids(&v->ix->layout, rec);
	uint32		live = rec->count;

	for (uint32 i = 0; i < rec->count; i++)
		live -= grnnd_set_has(&v->dead, ids[i]);
	return live;
}

static bool
same_list(const GrnLayout *l, const GrnRecord *a, const GrnRecord *b)
{
	return a->state == b->state && a->version == b->version && a->count == b->count &&
		memcmp(grn_rec_ids(l, a), grn_rec_ids(l, b), a->count * sizeof(uint32)) == 0;
}

/* Writes the fixed lists to a page. Returns false if a list has changed since it was read. */
static bool
write_fixes(Repair *r, BlockNumber block, const char *copy, char *fixes,
			const bool *fix)
{
	const GrnLayout *l = &r->ix->layout;
	Buffer		buffer = grnnd_read(r->v->index, block, BUFFER_LOCK_EXCLUSIVE,
									GRNND_NODES, r->v->strategy);
	GenericXLogState *xlog = GenericXLogStart(r->v->index);
	Page		page = GenericXLogRegisterBuffer(xlog, buffer, 0);
	bool		all = true;

	for (uint32 i = 0; i < l->per_page; i++)
	{
		GrnRecord  *rec = grnnd_page_record(page, r->ix, i);
		GrnRecord  *fixed = (GrnRecord *) (fixes + (Size) i * l->hot_bytes);

		if (!fix[i])
			continue;
		if (!same_list(l, rec, (const GrnRecord *) (copy + (Size) i * l->record_bytes)))
		{
			all = false;
			continue;
		}
		rec->count = fixed->count;
		memcpy(GRN_REC_PTR(rec, l->off_ids), GRN_REC_PTR(fixed, l->off_ids),
			   l->hot_bytes - l->off_ids);
	}
	GenericXLogFinish(xlog);
	UnlockReleaseBuffer(buffer);
	return all;
}

/*
 * Notes what the last pass needs to know of a live node with `live` live neighbors.  An id past the
 * limits is a newer row's.  A late node is not to search: its insert may still take it back.
 */
static void
note_node(Repair *r, const GrnRecord *rec, uint32 id, uint32 live)
{
	GrnndVacuum *v = r->v;
	const uint32 *ids = grn_rec_ids(&r->ix->layout, rec);
	bool		late = !grnnd_set_has(&v->live, id);

	if (late && id < r->late.limit)
		grnnd_set_add(&r->late, id);
	/* every node of the survey is reached by now, and so are its neighbors */
	for (uint32 i = 0; i < rec->count && !late; i++)
		grnnd_reach_mark(&v->reach, ids[i]);
	/*
	 * A node that loses no edge has a short list from a canceled vacuum or from its build, which gives
	 * one to a row on a line.  Dead nodes cannot have had more neighbors than their degree.
	 */
	if (!late && live < r->enough &&
		(live < rec->count || r->poor.count < (uint64) v->dead.count * r->ix->layout.degree))
		grnnd_set_add(&r->poor, id);
	grnnd_note_length(r->ix, &v->longest, id, rec->factor);
}

static void
fix_page(Repair *r, BlockNumber block, uint32 first, char *copy, char *fixes)
{
	GrnndVacuum *v = r->v;
	const GrnLayout *l = &r->ix->layout;
	bool		done;

	do
	{
		bool		fix[GRNND_PAYLOAD / sizeof(GrnRecord)];
		bool		any = false;
		uint32		limit = 0;
		Buffer		buffer = grnnd_read(v->index, block, BUFFER_LOCK_SHARE, GRNND_NODES, v->strategy);
		bool		is_new = PageIsNew(BufferGetPage(buffer));

		memcpy(copy, GrnndPagePayload(BufferGetPage(buffer)), l->per_page * grnnd_copy_bytes(r->ix));
		UnlockReleaseBuffer(buffer);
		if (is_new)
			return;

		for (uint32 i = 0; i < l->per_page; i++)
		{
			GrnRecord  *rec = (GrnRecord *) (copy + (Size) i * l->record_bytes);
			uint32		live;

			grnnd_check_record(v->index, r->ix, first + i, rec, &limit);
			fix[i] = false;
			if (rec->state != GRN_NODE)
				continue;
			live = count_live(v, rec);
			fix[i] = live < rec->count;
			if (fix[i])
				grnnd_refill_list(r->refill, rec, first + i, live >= r->enough,
								  (GrnRecord *) (fixes + (Size) i * l->hot_bytes));
			any |= fix[i];
			note_node(r, rec, first + i, live);
		}
		if (any)
			grnnd_test_point("repair-fix");
		done = !any || write_fixes(r, block, copy, fixes, fix);
	} while (!done);
}

/* The first late node from id on that is not reached, or GRN_INVALID_ID. */
static uint32
next_late(const Repair *r, uint32 id)
{
	for (id = grnnd_set_next(&r->late, id); grnnd_set_has(&r->v->reach.reached, id);)
		id = grnnd_set_next(&r->late, id + 1);
	return id;
}

/*
 * Returns the node to which late rows are connected: entries[0] while it lives. Else no other node
 * is alive after the last pass, and one of the late rows becomes entries[0]. GRN_INVALID_ID: no row
 * remains.
 */
static uint32
late_root(Repair *r)
{
	GrnndRoot	root;

	for (;;)
	{
		bool		found = false;

		grnnd_read_root(r->v, &root);
		if (root.id == GRN_INVALID_ID || !grnnd_set_has(&r->v->dead, root.id))
			return root.id;
		for (uint32 id = next_late(r, 0); id != GRN_INVALID_ID && !found; id = next_late(r, id + 1))
			found = grnnd_take_root(r->v, id, &root);
		if (!found)
			return GRN_INVALID_ID;
		if (grnnd_publish_root(r->v, &root))
			return root.id;
	}
}

/* Connects rows that were inserted since the survey and whose neighbors have all died since. */
static void
connect_late(Repair *r)
{
	GrnndVacuum *v = r->v;
	uint32		root;

	grnnd_reach_run(&v->reach);
	if (next_late(r, 0) == GRN_INVALID_ID)
		return;

	/*
	 * Some of these rows may not be linked yet, and their inserts may still take them back. No node
	 * may be reachable through such a row alone, so wait before edges are made.
	 */
	grnnd_wait_for_inserts(v->index);
	root = late_root(r);
	if (root == GRN_INVALID_ID)
		return;
	grnnd_reach_mark(&v->reach, root);
	grnnd_reach_run(&v->reach);
	for (uint32 id = next_late(r, 0); id != GRN_INVALID_ID; id = next_late(r, id + 1))
		(void) connect_node(r, id, root, GRN_INVALID_ID);
}

/* A node with few edges searches for neighbors and gets links from them, as a new row does. */
static void
enrich(Repair *r, uint32 id)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "grnnd enrich",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	float	   *x = palloc(r->ix->meta.dim * sizeof(float));
	GrnRecord	rec;
	GrnndPoint	p;
	bool		alone;

	if (grn_read_record(&r->store.base, &r->ix->layout, id, &rec, sizeof(rec), x) && rec.state == GRN_NODE)
	{
		grnnd_make_point(r->ix, x, grnnd_rounding_error(r->ix, &rec), &p);
		(void) grnnd_link_anew(&r->store, &p, grnnd_get_entries(r->v->index, r->ix), id, rec.version,
							   true, &alone);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

void
grnnd_repair(GrnndVacuum *v)
{
	const GrnLayout *l = &v->ix->layout;
	Repair	   *r = begin_repair(v);
	char	   *copy = palloc(GRNND_PAYLOAD);
	char	   *fixes = palloc((Size) l->per_page * l->hot_bytes);
	uint32		limit;
	GrnndRoot	root;

	connect_all(r);
	grnnd_test_point("repair-connected");
	r->refill = grnnd_refill_begin(v, &r->store);
	limit = grnnd_id_limit(v->index, v->ix);
	grnnd_set_init(&r->late, v->reach.reached.limit);
	grnnd_set_init(&r->poor, v->live.limit);
	for (uint32 first = 0; first < limit; first += l->per_page)
	{
		grnnd_delay_point();
		fix_page(r, grnnd_node_block(v->ix, first), first, copy, fixes);
	}

	connect_late(r);
	grnnd_renew_entries(v);
	/* an insert that found no live entry point made an edge to a dead node: insert_first() */
	grnnd_read_root(v, &root);
	if (root.id != GRN_INVALID_ID)
		fix_page(r, grnnd_node_block(v->ix, root.id),
				 root.id - grn_node_slot(l, root.id), copy, fixes);
	for (uint32 id = grnnd_set_next(&r->poor, 0); id != GRN_INVALID_ID; id = grnnd_set_next(&r->poor, id + 1))
	{
		grnnd_delay_point();
		enrich(r, id);
	}
}
