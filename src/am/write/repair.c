/*
 * repair.c - takes dead nodes out of the graph.
 *
 * First every live node is made reachable over live nodes alone, by edges that are
 * only added (connect_all): before any node dies, and again for what has changed
 * since.  Then a pass over all pages drops the edges to dead nodes and fills their room
 * from the dead nodes' own neighbours (fix_page).  Nodes for which that brings little
 * search for neighbours anew (enrich).  In this order an interruption leaves every row
 * reachable.
 */
#include "am/write/vacuum.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/page.h"
#include "am/test_point.h"
#include "am/write/edit.h"
#include "am/write/lock.h"
#include "am/write/maintenance.h"
#include "graph/stored/prune.h"

/* Nodes asked for an edge to one that cannot be reached. */
#define MAX_FROM 4
/* A node that has fewer neighbours when its dead ones are gone looks for others. */
#define FEW(degree) ((degree) / 4)

typedef struct Repair
{
	GrnndVacuum *v;
	const GrnndIndex *ix;
	GrnndStore	store;
	GrnndRefill *refill;
	GrnRecord  *rec;			/* for records read on the way */
	uint32	   *late;			/* nodes inserted since the survey */
	Size		nlate;
	Size		late_room;
	uint32	   *poor;			/* nodes with few neighbours */
	Size		npoor;
	Size		poor_room;
} Repair;

static void
remember(uint32 **ids, Size *n, Size *room, uint32 id)
{
	if (*n == *room)
	{
		*room = Max(1024, 2 * *room);
		*ids = *ids == NULL ? palloc(*room * sizeof(uint32))
			: repalloc_huge(*ids, *room * sizeof(uint32));
	}
	(*ids)[(*n)++] = id;
}

/* ---- connecting ---- */

/*
 * Chooses the edge that a full node gives up, so that it has room for the edges that linking it
 * needs.  The node itself cannot be reached.  First choice is an edge to a node that vacuum is
 * to drop anyway, then one to a node that another of its neighbours leads to, then one to any
 * node that counts as reached.  The last is a weak reason: by the lists noted before, a node may
 * count as reached by a way that has since been changed to go through this very node.
 * rec: the node's record.  Returns the edge's number, or -1.
 */
static int
needless_edge(Repair *r, const GrnRecord *rec)
{
	const GrnLayout *l = &r->ix->layout;
	const uint32 *ids = grn_rec_ids(l, rec);
	GrnRecord  *other;
	int			position = -1;

	for (uint32 i = 0; i < rec->count; i++)
		if (grnnd_set_has(&r->v->dead, ids[i]))
			position = (int) i;
	if (position >= 0)
		return position;

	other = palloc(grnnd_copy_bytes(r->ix));
	for (uint32 i = 0; i < rec->count && position < 0; i++)
	{
		if (grnnd_copy_record(r->v->index, r->ix, ids[i], other, r->v->strategy) != GRN_NODE)
			continue;
		for (uint32 j = 0; j < rec->count; j++)
			if (j != i && grn_find_id(grn_rec_ids(l, other), other->count, ids[j]) >= 0)
				position = (int) j;
	}
	pfree(other);
	for (uint32 i = 0; i < rec->count && position < 0; i++)
		if (grnnd_set_has(&r->v->reach.reached, ids[i]))
			position = (int) i;
	for (uint32 i = 0; i < rec->count && position < 0; i++)
		if (grnnd_set_has(&r->v->live, ids[i]))
			position = (int) i;
	return position;
}

/* Takes an edge of a full node that nobody can reach. */
static void
make_room(Repair *r, uint32 id)
{
	const GrnLayout *l = &r->ix->layout;
	GrnState	state = grnnd_copy_record(r->v->index, r->ix, id, r->rec, r->v->strategy);
	uint32		unwanted;
	int			position;
	GrnndEdit	e;

	if (state != GRN_NODE || r->rec->count < l->degree)
		return;
	position = needless_edge(r, r->rec);
	if (position < 0)
		return;
	unwanted = grn_rec_ids(l, r->rec)[position];

	grnnd_edit_begin(&e, r->v->index, r->ix, id);
	if (e.rec->state == GRN_NODE && e.rec->count == l->degree &&
		grn_rec_ids(l, e.rec)[position] == unwanted)
	{
		GrnRecord  *rec = grnnd_edit_change(&e);
		GrnndEdge	last = grnnd_get_edge(l, rec, rec->count - 1);

		grnnd_set_edge(l, rec, position, &last);
		rec->count--;
	}
	grnnd_edit_end(&e);
}

/* Links id from plan->from; lists that this may change are not trusted as noted any more. */
static bool
link_from(Repair *r, const GrnndLinkPlan *plan, uint32 id, uint16 version)
{
	GrnndSet   *noted = &r->v->reach.noted;

	for (uint32 i = 0; i < plan->nfrom; i++)
		grnnd_set_remove(noted, plan->from[i]);
	grnnd_set_remove(noted, id);
	return plan->nfrom > 0 && grnnd_link_node(r->v->index, r->ix, plan, id, version);
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
	GrnndNear  *near = grnnd_find_near(&r->store, p, 2 * r->ix->layout.degree, entries);
	uint32		nfound;
	GrnSearch  *search = grnnd_near_search(near, &nfound);
	uint32		n = 0;

	for (uint32 i = 0; i < nfound && n < MAX_FROM; i++)
	{
		const GrnFound *f = &grn_search_found(search)[i];

		if (f->id != id &&
			grnnd_set_has(&r->v->reach.reached, f->id))
			from[n++] = f->id;
	}
	grnnd_near_end(near);
	return n;
}

/*
 * Gives a node that cannot be reached over live nodes an edge from one that can: one of
 * its own neighbours, or near, which may be GRN_INVALID_ID, or what a search finds.
 * False: it is no node any more, for its insert has taken it back (withdraw()).
 */
static bool
connect_node(Repair *r, uint32 id, uint32 root, uint32 near)
{
	GrnndVacuum *v = r->v;
	uint32		from[MAX_FROM];
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "grnnd connect",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	float	   *x = palloc(r->ix->meta.dim * sizeof(float));
	GrnState	state;
	uint16		version;
	float		error;
	bool		is_node;
	bool		linked = false;

	is_node = grnnd_store_fetch(&r->store, id, x, &state, &version, &error) && state == GRN_NODE;
	if (is_node)
	{
		GrnndPoint	p;
		GrnndLinkPlan plan = {.p = &p, .from = from, .dead_allowed = true};

		grnnd_make_point(r->ix, x, error, &p);
		make_room(r, id);
		plan.nfrom = reached_neighbours(r, id, from);
		if (near != GRN_INVALID_ID && plan.nfrom < MAX_FROM &&
			grn_find_id(from, plan.nfrom, near) < 0)
			from[plan.nfrom++] = near;
		linked = link_from(r, &plan, id, version);
		if (!linked)
		{
			plan.nfrom = reached_nearby(r, &p, id, from);
			linked = link_from(r, &plan, id, version);
		}
		if (!linked)
		{
			from[0] = root;
			plan.nfrom = 1;
			linked = link_from(r, &plan, id, version);
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

/* The first live node from id on that is not reached, or GRN_INVALID_ID. */
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
 * Connects live nodes that are reached through dead ones alone.  A breadth-first search
 * goes from all that is reached through the dead nodes, and remembers for each of those
 * from which live node it came.  Where it comes to a live node that is not reached,
 * that one is to lead there: it is one of the nearest by edges.  Each node is expanded
 * once, so this takes time in proportion to the graph however little of it lives.
 */
static void
cross_dead(Repair *r, uint32 root)
{
	GrnndVacuum *v = r->v;
	GrnndReach *reach = &v->reach;
	uint32		limit = reach->reached.limit;
	uint32	   *origins;		/* [limit] of dead nodes */
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
	/* what no edge leads to: an insert broke off */
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
			return;				/* no row is left */
		connect_to(r, root.id);
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

static Repair *
begin_repair(GrnndVacuum *v)
{
	Repair	   *r = palloc0(sizeof(Repair));
	uint32		limit;

	r->v = v;
	r->ix = v->ix;
	r->rec = palloc(grnnd_copy_bytes(v->ix));
	grnnd_store_init(&r->store, v->index, v->ix, CurrentMemoryContext);
	r->store.strategy = v->strategy;
	/* what came since the survey, too */
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
		/*
		 * entries[0] stays until repair, though it is to die: rows may come that only such
		 * nodes lead to.
		 */
		grnnd_prepare_entries(v, &root);
	}
	grnnd_set_clear(&v->reach.reached);
	grnnd_test_point("vacuum-prepared");
}

/* ---- the last pass ---- */

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

/* What the last pass learns of nodes that came after the survey. */
static void
note_late(Repair *r, const GrnRecord *rec, uint32 id)
{
	GrnndReach *reach = &r->v->reach;
	const uint32 *ids = grn_rec_ids(&r->ix->layout, rec);

	if (grnnd_set_has(&r->v->live, id))
	{
		/* every node of the survey is reached by now, so its neighbours are, too */
		for (uint32 i = 0; i < rec->count; i++)
			grnnd_reach_mark(reach, ids[i]);
		return;
	}
	remember(&r->late, &r->nlate, &r->late_room, id);
}

static void
fix_page(Repair *r, BlockNumber block, uint32 first, char *copy, char *fixes)
{
	GrnndVacuum *v = r->v;
	const GrnLayout *l = &r->ix->layout;
	Size		late = r->nlate;
	Size		poor = r->npoor;
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
		r->npoor = poor;
		for (uint32 i = 0; i < l->per_page; i++)
		{
			GrnRecord  *rec = (GrnRecord *) (copy + (Size) i * l->record_bytes);

			grnnd_check_record(v->index, r->ix, first + i, rec, &limit);
			fix[i] = rec->state == GRN_NODE && has_dead_edge(v, rec);
			if (fix[i])
			{
				GrnRecord  *fixed = (GrnRecord *) (fixes + (Size) i * l->hot_bytes);

				grnnd_refill_list(r->refill, rec, first + i, fixed);
				if (fixed->count < FEW(l->degree))
					remember(&r->poor, &r->npoor, &r->poor_room, first + i);
				any = true;
			}
			if (rec->state == GRN_NODE)
			{
				note_late(r, rec, first + i);
				grnnd_note_length(v->ix, &v->longest, first + i, rec->factor);
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
 * The node to which rows that came late are connected: entries[0] while it lives.  Else no other
 * node is alive after the last pass, and one of the late ones becomes entries[0].
 * GRN_INVALID_ID: nothing is left.
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

/* Connects rows that came since the survey and whose neighbours have all died since. */
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
			(void) connect_node(r, r->late[i], root, GRN_INVALID_ID);
}

/*
 * For a node to which few edges are left: gives it the neighbours that an insert would choose,
 * and gives these links back.
 */
static void
enrich(Repair *r, uint32 id)
{
	GrnndVacuum *v = r->v;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "grnnd enrich",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	float	   *x = palloc(r->ix->meta.dim * sizeof(float));
	GrnState	state;
	uint16		version;
	float		error;

	if (grnnd_store_fetch(&r->store, id, x, &state, &version, &error) && state == GRN_NODE)
	{
		GrnndPoint	p;
		GrnndList	list;
		GrnndNear  *near;
		/* mutual edges are for nodes that have none yet */
		GrnndShares shares = grnnd_shares(r->ix, false);
		GrnndLinkPlan plan = {.p = &p, .chosen = &list};

		grnnd_make_point(r->ix, x, error, &p);
		near = grnnd_find_near(&r->store, &p, 2 * r->ix->layout.degree,
							   grnnd_get_entries(v->index, r->ix));
		grnnd_choose_neighbours(near, id, &shares, &list);
		grnnd_near_end(near);
		plan.from = list.ids;
		plan.nfrom = list.count;
		(void) grnnd_link_node(v->index, r->ix, &plan, id, version);
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
	for (uint32 first = 0; first < limit; first += l->per_page)
	{
		grnnd_delay_point();
		fix_page(r, grnnd_node_block(v->ix, first), first, copy, fixes);
	}

	connect_late(r);
	grnnd_renew_entries(v);
	/* an insert that found no entry point alive leads on to a dead one: insert_first() */
	grnnd_read_root(v, &root);
	if (root.id != GRN_INVALID_ID)
		fix_page(r, grnnd_node_block(v->ix, root.id),
				 root.id - grn_node_slot(l, root.id), copy, fixes);
	for (Size i = 0; i < r->npoor; i++)
	{
		grnnd_delay_point();
		enrich(r, r->poor[i]);
	}
}
