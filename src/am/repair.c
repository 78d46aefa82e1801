/*
 * repair.c - takes dead nodes out of the graph.
 *
 * First every live node is made reachable over live nodes alone, by edges that are
 * only added (connect_all).  Then a pass over all pages drops the edges to dead
 * nodes and fills their places from the dead nodes' own neighbours (fix_page).
 * In this order an interruption leaves every row reachable.
 */
#include "write.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* Nodes asked for an edge to one that cannot be reached. */
#define MAX_FROM 4

typedef struct Repair
{
	GrnndVacuum *v;
	const GrnndIndex *ix;
	GrnndStore	store;
	GrnndRefill *refill;
	GrnRecord  *rec;			/* for records read on the way */
	uint32	   *late;			/* nodes inserted since pass 1 */
	Size		nlate;
	Size		late_room;
} Repair;

/* ---- connecting ---- */

/*
 * Takes an edge of a full node that nobody can reach, to make room for edges that
 * linking it needs: to a node that is reached without it, else one that vacuum
 * is to drop anyway, or that has its own turn to be connected.
 */
static void
make_room(Repair *r, uint32 id)
{
	const GrnLayout *l = &r->ix->layout;
	GrnndEdit	e;

	grnnd_edit_begin(&e, r->v->index, r->ix, id);
	if (e.rec->state == GRN_NODE && e.rec->count == l->degree)
	{
		GrnRecord  *rec = grnnd_edit_change(&e);
		uint32	   *ids = grn_rec_ids(l, rec);
		uint32		last = rec->count - 1;
		int			place = -1;

		for (uint32 i = 0; i < rec->count; i++)
			if (grnnd_set_has(&r->v->reach.reached, ids[i]))
				place = (int) i;
		for (uint32 i = 0; i < rec->count && place < 0; i++)
			if (grnnd_set_has(&r->v->dead, ids[i]) || grnnd_set_has(&r->v->live, ids[i]))
				place = (int) i;
		if (place >= 0)
		{
			grnnd_set_edge(l, rec, place, ids[last],
						   grn_rec_codes(l, rec) + last * l->code_bytes,
						   grn_rec_factors(l, rec)[last]);
			rec->count--;
		}
	}
	grnnd_edit_end(&e);
}

/* Reached nodes among id's own neighbours; the list is nearest first as a rule. */
static uint32
reached_neighbours(Repair *r, uint32 id, uint32 *from)
{
	uint32		n = 0;

	grnnd_copy_record(r->v->index, r->ix, id, r->rec, r->v->strategy);
	for (uint32 i = 0; i < r->rec->count && n < MAX_FROM; i++)
	{
		uint32		y = grn_rec_ids(&r->ix->layout, r->rec)[i];

		if (grnnd_set_has(&r->v->reach.reached, y))
			from[n++] = y;
	}
	return n;
}

/* Reached nodes near p, by a search. */
static uint32
reached_nearby(Repair *r, const GrnndPoint *p, uint32 id, uint32 *from)
{
	GrnndEntries *entries = grnnd_get_entries(r->v->index, r->ix);
	uint32		nfound;
	uint32		nlive;
	uint32		n = 0;
	GrnSearch  *search = grnnd_find_near(&r->store, p, 2 * r->ix->layout.degree,
										 entries, &nfound, &nlive);

	for (uint32 i = 0; i < nfound && n < MAX_FROM; i++)
	{
		const GrnFound *f = &grn_search_found(search)[i];

		if (f->state == GRN_NODE && f->id != id &&
			grnnd_set_has(&r->v->reach.reached, f->id))
			from[n++] = f->id;
	}
	grn_search_end(search);
	return n;
}

/*
 * Gives a node that cannot be reached over live nodes an edge from one that can.
 * False: it is no node any more, for its insert has taken it back (withdraw()).
 */
static bool
connect_node(Repair *r, uint32 id, uint32 root)
{
	GrnndVacuum *v = r->v;
	uint32		from[MAX_FROM];
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "grnnd connect",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	float	   *x = palloc(r->ix->meta.dim * sizeof(float));
	GrnState	state;
	uint16		version;
	bool		is_node;
	bool		linked = false;

	is_node = grnnd_store_fetch(&r->store, id, x, &state, &version) && state == GRN_NODE;
	if (is_node)
	{
		GrnndPoint	p;
		GrnndLinkPlan plan = {.p = &p, .from = from, .dead_allowed = true};

		grnnd_make_point(r->ix, x, &p);
		make_room(r, id);
		plan.nfrom = reached_neighbours(r, id, from);
		linked = plan.nfrom > 0 && grnnd_link_node(v->index, r->ix, &plan, id, version);
		if (!linked)
		{
			plan.nfrom = reached_nearby(r, &p, id, from);
			linked = plan.nfrom > 0 && grnnd_link_node(v->index, r->ix, &plan, id, version);
		}
		if (!linked)
		{
			from[0] = root;
			plan.nfrom = 1;
			linked = grnnd_link_node(v->index, r->ix, &plan, id, version);
		}
		if (!linked)
			ereport(WARNING,
					(errmsg("a node of index \"%s\" could not be connected to the others",
							RelationGetRelationName(v->index)),
					 errhint("REINDEX the index.")));
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	if (!is_node)
		return false;
	/* whatever it leads to is reached now */
	grnnd_reach_mark(&v->reach, id);
	grnnd_reach_run(&v->reach);
	return true;
}

/* ---- making every live node reachable ---- */

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
			return;				/* no row is left */
		grnnd_reach_mark(&v->reach, root.id);
		grnnd_reach_run(&v->reach);
		for (uint32 id = grnnd_set_next(&v->live, 0); id != GRN_INVALID_ID;
			 id = grnnd_set_next(&v->live, id + 1))
		{
			if (grnnd_set_has(&v->dead, id) || grnnd_set_has(&v->reach.reached, id))
				continue;
			grnnd_delay_point();
			if (!connect_node(r, id, root.id))
				grnnd_set_add(&v->dead, id);
		}
		grnnd_publish_root(v, &root);

		/* an insert that found no live node may have put itself there */
		entries = grnnd_get_entries(v->index, r->ix);
		now = entries->count > 0 ? entries->ids[0] : GRN_INVALID_ID;
		if (now == root.id)
			return;
		/* what the old root leads to is yet to be reached from the new one */
		grnnd_set_clear(&v->reach.reached);
	}
}

/* ---- pass 2 ---- */

static bool
has_dead_edge(const GrnndVacuum *v, const GrnRecord *rec)
{
	const uint32 *ids = grn_rec_ids(&v->ix->layout, rec);

	for (uint32 i = 0; i < rec->count; i++)
		if (grnnd_set_has(&v->dead, ids[i]))
			return true;
	return false;
}

static bool
same_list(const GrnLayout *l, const GrnRecord *a, const GrnRecord *b)
{
	return a->state == b->state && a->version == b->version && a->count == b->count &&
		memcmp(grn_rec_ids(l, a), grn_rec_ids(l, b), a->count * sizeof(uint32)) == 0;
}

/* Puts the fixed lists of a page in place.  False: some list has changed since. */
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

/* What the second pass learns of nodes that came after the first. */
static void
note_late(Repair *r, const GrnRecord *rec, uint32 id)
{
	GrnndReach *reach = &r->v->reach;
	const uint32 *ids = grn_rec_ids(&r->ix->layout, rec);

	if (grnnd_set_has(&r->v->live, id))
	{
		/* every node of pass 1 is reached by now, so its neighbours are, too */
		for (uint32 i = 0; i < rec->count; i++)
			grnnd_reach_mark(reach, ids[i]);
		return;
	}
	if (r->nlate == r->late_room)
	{
		r->late_room = Max(1024, 2 * r->late_room);
		r->late = r->late == NULL ? palloc(r->late_room * sizeof(uint32))
			: repalloc_huge(r->late, r->late_room * sizeof(uint32));
	}
	r->late[r->nlate++] = id;
}

static void
fix_page(Repair *r, BlockNumber block, uint32 first, char *copy, char *fixes)
{
	GrnndVacuum *v = r->v;
	const GrnLayout *l = &r->ix->layout;
	Size		late = r->nlate;
	bool		done;

	do
	{
		bool		fix[GRNND_PAYLOAD / sizeof(GrnRecord)];
		bool		any = false;
		uint32		limit = 0;
		Buffer		buffer = ReadBufferExtended(v->index, MAIN_FORKNUM, block,
												RBM_NORMAL, v->strategy);
		bool		is_new;

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		grnnd_check_page(v->index, buffer, GRNND_NODES);
		is_new = PageIsNew(BufferGetPage(buffer));
		if (!is_new)
			memcpy(copy, GrnndPagePayload(BufferGetPage(buffer)),
				   l->per_page * grnnd_copy_bytes(r->ix));
		UnlockReleaseBuffer(buffer);
		if (is_new)
			return;

		r->nlate = late;
		for (uint32 i = 0; i < l->per_page; i++)
		{
			GrnRecord  *rec = (GrnRecord *) (copy + (Size) i * l->record_bytes);

			grnnd_check_record(v->index, r->ix, first + i, rec, &limit);
			fix[i] = rec->state == GRN_NODE && has_dead_edge(v, rec);
			if (fix[i])
			{
				grnnd_refill_list(r->refill, rec, first + i, (GrnRecord *) (fixes + (Size) i * l->hot_bytes));
				any = true;
			}
			if (rec->state == GRN_NODE)
			{
				note_late(r, rec, first + i);
				grnnd_note_length(v, first + i, rec->factor);
			}
		}
		if (any)
			grnnd_test_point("repair-fix");
		done = !any || write_fixes(r, block, copy, fixes, fix);
	} while (!done);
}

static bool
is_cut_off(const Repair *r, uint32 id)
{
	const GrnndSet *reached = &r->v->reach.reached;

	return id < reached->limit && !grnnd_set_has(reached, id);
}

/*
 * entries[0] for what came late: itself while it lives, else one of the late, for
 * pass 1 has left no other node alive.  GRN_INVALID_ID: nothing is left.
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
		for (Size i = 0; i < r->nlate && !found; i++)
			found = is_cut_off(r, r->late[i]) && grnnd_take_root(r->v, r->late[i], &root);
		if (!found)
			return GRN_INVALID_ID;
		if (grnnd_publish_root(r->v, &root))
			return root.id;
	}
}

/*
 * Rows that came during pass 1 may hang on nodes alone that it killed
 * afterwards.
 */
static void
connect_late(Repair *r)
{
	GrnndVacuum *v = r->v;
	bool		any = false;
	uint32		root;

	grnnd_reach_run(&v->reach);
	for (Size i = 0; i < r->nlate && !any; i++)
		any = is_cut_off(r, r->late[i]);
	if (!any)
		return;

	/*
	 * Some may not be linked yet, and their inserts may take them back still.
	 * Nothing may hang on such a node, so it gets no edge before that is settled.
	 */
	grnnd_wait_for_inserts(v->index);
	root = late_root(r);
	if (root == GRN_INVALID_ID)
		return;
	grnnd_reach_mark(&v->reach, root);
	grnnd_reach_run(&v->reach);
	for (Size i = 0; i < r->nlate; i++)
		if (is_cut_off(r, r->late[i]))
			(void) connect_node(r, r->late[i], root);
}

void
grnnd_repair(GrnndVacuum *v)
{
	const GrnLayout *l = &v->ix->layout;
	Repair	   *r = palloc0(sizeof(Repair));
	char	   *copy = palloc(GRNND_PAYLOAD);
	char	   *fixes = palloc((Size) l->per_page * l->hot_bytes);
	uint32		limit;

	r->v = v;
	r->ix = v->ix;
	r->rec = palloc(grnnd_copy_bytes(v->ix));
	grnnd_store_init(&r->store, v->index, v->ix, CurrentMemoryContext);
	r->store.strategy = v->strategy;

	/* what came during pass 1; rows that come from now on make no edge to dead nodes */
	limit = grnnd_id_limit(v->index, v->ix);
	grnnd_set_grow(&v->reach.reached, limit);
	grnnd_set_grow(&v->reach.pending, limit);
	connect_all(r);
	grnnd_test_point("repair-connected");
	r->refill = grnnd_refill_begin(v, &r->store);
	limit = grnnd_id_limit(v->index, v->ix);
	for (uint32 first = 0; first < limit; first += l->per_page)
	{
		grnnd_delay_point();
		fix_page(r, grnnd_node_block(v->ix, first), first, copy, fixes);
	}

	connect_late(r);
	grnnd_renew_entries(v);
}
