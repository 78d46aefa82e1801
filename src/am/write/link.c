/*
 * link.c - links back to a node x from its neighbors (src/graph/README, "Reachability").
 *
 * The links are made in three steps:
 * 1. Each neighbor v's record is read.  If v is full, grnnd_evict() chooses the neighbor y of v
 *    that v gives up, and the node that keeps y reachable: x, which then gets an edge x -> y, or
 *    another neighbor of v.
 * 2. x is written with its edges.
 * 3. The neighbors are changed, a few pages at a time: x is appended, or replaces y.
 *
 * Lists may change between steps 1 and 3, so step 3 checks again that y remains reachable.  No
 * other process removes an edge to y meanwhile, because step 3 holds the lock of edges to y
 * (grnnd_lock_edges()).  If y would become unreachable, step 3 chooses again, among the neighbors
 * that need no new edge of x.
 */
#include "am/write/link.h"

#include "miscadmin.h"
#include "utils/rel.h"

#include "am/index/index.h"
#include "am/test_point.h"
#include "am/write/write.h"
#include "store/prune.h"

/* Attempts to link from a neighbor that other processes keep changing. */
#define FORCE_TRIES 8

/* ---- links back ---- */

/* A neighbor that will get an edge to x. */
typedef struct Target
{
	uint32		id;
	uint16		version;
	uint32		y;				/* the neighbor that it gives up; GRN_INVALID_ID: none */
	uint32		over;			/* its neighbor with an edge to y; GRN_INVALID_ID: x has the edge */
	BlockNumber block;
	bool		twin;			/* a node with the same vector as x */
	bool		lost;			/* y is dead and need not remain reachable */
	bool		reachable;		/* step 3: y remains reachable by the lists of other nodes */
	bool		done;			/* it has an edge to x now, or is gone */
} Target;

struct GrnndLink
{
	Relation	index;
	const GrnndIndex *ix;
	const GrnndLinkPlan *plan;
	uint32		id;				/* of x, once x is written */
	uint16		version;
	GrnRecord  *self;			/* x's record, with the edges of step 2 */
	GrnRecord  *other;			/* copy of a neighbor's record */
	Target	   *targets;
	uint32		ntargets;
	bool		surveyed;		/* step 3: GRNND_SURVEY_LOCK is held */
};

static bool
is_live(const GrnndLink *link, uint32 id)
{
	GrnRecord  *copy = palloc(grnnd_copy_bytes(link->ix));
	bool		live = grnnd_copy_record(link->index, link->ix, id, copy, NULL) == GRN_NODE;

	pfree(copy);
	return live;
}

static bool
has_edge(const GrnndLink *link, uint32 id)
{
	return grn_find_id(grn_rec_ids(&link->ix->layout, link->self),
					   link->self->count, id) >= 0;
}

/* Gives x an edge of another node, with the code that a fit gives the neighbor. */
static void
add_encoded_edge(GrnndLink *link, GrnEdge edge)
{
	const GrnndIndex *ix = link->ix;
	uint8_t    *code = palloc(ix->layout.code_bytes + 1);

	grnnd_code_while_filling(link->index, ix, edge.id, code, &edge.factor);
	edge.code = code;
	grn_add_edge(&ix->layout, link->self, &edge);
	pfree(code);
}

/* Gives x an edge to v's neighbor at y_place.  Returns false if x is full, or y is dying. */
static bool
plan_edge(GrnndLink *link, const GrnRecord *v, uint32 y_place)
{
	const GrnLayout *l = &link->ix->layout;
	GrnEdge		edge = grn_get_edge(l, v, y_place);

	if (has_edge(link, edge.id))
		return true;
	/*
	 * If vacuum has passed x's page already, an edge to a dead node would outlast the vacuum.  A
	 * live y is not freed before this process has finished, because vacuum waits for inserts
	 * (GRNND_WRITERS_LOCK).
	 */
	if (link->self->count >= l->degree || !is_live(link, edge.id))
		return false;
	if (link->ix->meta.fit_state == GRNND_FILLING)
		add_encoded_edge(link, edge);
	else
		grn_add_edge(l, link->self, &edge);
	return true;
}

/* Chooses the neighbor that the full v gives up for x.  reserved: places in x's list kept free. */
static bool
evict(GrnndLink *link, uint32 id, const GrnRecord *v, GrnEvictLevel level, uint32 reserved,
	  GrnndEviction *e)
{
	*e = (GrnndEviction) {.id = id, .v = v, .self = link->self, .level = level,
						  .may_add = link->self->count + reserved < link->ix->layout.degree,
						  .by_self = link->plan->by_self};
	return grnnd_evict(link->plan->near, e);
}

/* Gives x an edge to chosen neighbor i, if x lacks the edge and has room. */
static void
add_chosen(GrnndLink *link, uint32 i)
{
	GrnEdge		edge = grnnd_list_edge(link->ix, link->plan->chosen, i);

	if (link->self->count < link->ix->layout.degree && !has_edge(link, edge.id))
		grn_add_edge(&link->ix->layout, link->self, &edge);
}

/* Step 1 for plan->from[i].  Returns false if the node is full and gives up no neighbor. */
static bool
plan_target(GrnndLink *link, uint32 i, GrnEvictLevel level)
{
	const GrnndLinkPlan *plan = link->plan;
	const GrnRecord *v = link->other;
	Target		t = {.id = plan->from[i], .y = GRN_INVALID_ID, .over = GRN_INVALID_ID,
		.twin = i < plan->ntwins};
	bool		mutual = i >= plan->ntwins && i < plan->ntwins + plan->nchosen;

	Assert(t.id != link->id);
	if (grnnd_copy_record(link->index, link->ix, t.id, link->other, NULL) != GRN_NODE)
		return true;			/* a later pass need not try again */
	t.version = v->version;
	t.block = grnnd_node_block(link->ix, t.id);
	if (v->count == link->ix->layout.degree &&
		grn_find_id(grn_rec_ids(&link->ix->layout, v), v->count, link->id) < 0)
	{
		GrnndEviction e;

		if (!evict(link, t.id, v, level, mutual && !has_edge(link, t.id) ? 1 : 0, &e) ||
			(e.add && !plan_edge(link, v, e.position)))
			return false;
		t.y = grn_rec_ids(&link->ix->layout, v)[e.position];
		t.over = e.over;
		grnnd_note_evicted(plan->near, t.id, t.y);
	}
	if (mutual)
		add_chosen(link, i - plan->ntwins);
	link->targets[link->ntargets++] = t;
	return true;
}

/*
 * Step 1 for the chosen neighbors: edges in both directions.  If x gets too few, the neighbors
 * that refused x because one of their own occludes x are asked again without that condition.
 */
static void
plan_chosen(GrnndLink *link)
{
	const GrnndLinkPlan *plan = link->plan;
	GrnndShares shares = grnnd_shares(link->ix);
	uint32		degree = link->ix->layout.degree;
	bool		refused[GRN_MAX_DEGREE] = {0};
	uint32		others = link->ntargets;

	for (uint32 i = 0; i < plan->nchosen && link->self->count < degree &&
		 link->ntargets - others < shares.most_links; i++)
		refused[i] = !plan_target(link, plan->ntwins + i, GRN_EVICT_UNOCCLUDED);
	for (uint32 i = 0; i < plan->nchosen && link->ntargets - others < shares.least_links; i++)
		if (refused[i])
			(void) plan_target(link, plan->ntwins + i, GRN_EVICT_FARTHER);
	for (uint32 i = 0; i < plan->nchosen && link->self->count < shares.least_edges; i++)
		add_chosen(link, i);
	/* the nodes with the largest products are the last */
	for (uint32 i = plan->nchosen; i-- > 0 && link->self->count < plan->chosen->wanted;)
		add_chosen(link, i);
}

GrnndLink *
grnnd_plan_links(Relation index, const GrnndIndex *ix, const GrnndLinkPlan *plan,
				 GrnRecord *self, uint32 id)
{
	GrnndLink  *link = palloc0(sizeof(GrnndLink));

	link->index = index;
	link->ix = ix;
	link->plan = plan;
	link->self = self;
	link->id = id;
	link->other = palloc(grnnd_copy_bytes(ix));
	link->targets = palloc(Max(plan->nfrom, 1) * sizeof(Target));
	for (uint32 i = 0; i < plan->ntwins; i++)
		(void) plan_target(link, i, GRN_EVICT_FARTHER);
	if (plan->nchosen > 0)
		plan_chosen(link);
	for (uint32 i = plan->ntwins + plan->nchosen; i < plan->nfrom; i++)
		(void) plan_target(link, i, GRN_EVICT_FARTHER);
	grnnd_test_point("link-planned");
	return link;
}

/*
 * Step 3 for one neighbor, whose record `rec` is locked: returns the position for x in the list,
 * or -1. *linked: the neighbor has an edge to x already.
 */
static int
position_for(const GrnndLink *link, const Target *t, const GrnRecord *rec, bool *linked)
{
	const GrnLayout *l = &link->ix->layout;
	const uint32 *ids = grn_rec_ids(l, rec);

	*linked = false;
	if (rec->state != GRN_NODE || rec->version != t->version)
		return -1;
	*linked = grn_find_id(ids, rec->count, link->id) >= 0;
	if (*linked)
		return -1;
	if (rec->count < l->degree)
		return rec->count;
	if (t->y == GRN_INVALID_ID || !t->reachable ||
		(t->over != GRN_INVALID_ID && grn_find_id(ids, rec->count, t->over) < 0))
		return -1;
	return grn_find_id(ids, rec->count, t->y);
}

/*
 * Step 3 for neighbors on the same few pages, sorted by block, in one WAL record. Returns the
 * number of neighbors with an edge to x.
 */
static uint32
link_group(const GrnndLink *link, Target *t, uint32 n)
{
	const GrnLayout *l = &link->ix->layout;
	/* with the record's code, because vacuum's point may come from a rounded vector */
	GrnEdge		edge = grn_own_edge(l, link->self, link->id);
	GrnndEdit	e;
	uint32		done = 0;

	grnnd_edit_begin(&e, link->index, link->ix, t[0].id);
	for (uint32 i = 0; i < n; i++)
	{
		bool		linked;
		int			position;

		if (i > 0)
			grnnd_edit_next(&e, t[i].id);
		position = position_for(link, &t[i], e.rec, &linked);
		t[i].done = e.rec->state != GRN_NODE || e.rec->version != t[i].version ||
			linked || position >= 0;
		if (position >= 0)
		{
			GrnRecord  *rec = grnnd_edit_change(&e);

			if (position == rec->count)
				rec->count++;
			/* in front of a twin's list, as vacuum expects */
			if (t[i].twin)
			{
				grn_shift_edges(l, rec, position, 0);
				position = 0;
			}
			grn_set_edge(l, rec, position, &edge);
		}
		if (linked || position >= 0)
			done++;
	}
	grnnd_edit_end(&e);
	return done;
}

/*
 * Returns whether y remains reachable when target i, of the targets that change together, gives y
 * up: by the list planned to lead to y, unless that list loses y at the same time.
 */
static bool
remains_reachable(const GrnndLink *link, const Target *targets, uint32 i)
{
	const GrnLayout *l = &link->ix->layout;
	const Target *t = &targets[i];
	uint32		by = t->over != GRN_INVALID_ID ? t->over : link->id;
	GrnState	state;

	if (t->y == GRN_INVALID_ID || t->lost)
		return true;
	if (t->over != GRN_INVALID_ID && !link->surveyed)
		return false;
	/* among lists that rely on each other in a circle, one relies on an earlier target */
	for (uint32 k = 0; k < i; k++)
		if (targets[k].id == t->over && targets[k].y == t->y)
			return false;
	state = grnnd_copy_record(link->index, link->ix, by, link->other, NULL);
	return state == GRN_NODE && (by != link->id || link->other->version == link->version) &&
		grn_find_id(grn_rec_ids(l, link->other), link->other->count, t->y) >= 0;
}

/* Step 3 for neighbors on the same few pages, while no other process removes edges to their y. */
static uint32
link_safely(GrnndLink *link, Target *t, uint32 n)
{
	uint32		ys[GRN_MAX_DEGREE] = {0};
	uint32		nys = 0;
	uint32		done;
	bool		by_others = false;
	GrnndEdgeLocks locks;

	Assert(n <= lengthof(ys));
	for (uint32 i = 0; i < n; i++)
	{
		if (t[i].y != GRN_INVALID_ID && !t[i].lost)
			ys[nys++] = t[i].y;
		by_others |= t[i].over != GRN_INVALID_ID;
	}
	/* vacuum reads newer rows and so knows the edges of x, but no other new edges */
	link->surveyed = by_others && grnnd_try_lock(link->index, GRNND_SURVEY_LOCK, ShareLock);
	grnnd_lock_edges(link->index, ys, nys, &locks);
	for (uint32 i = 0; i < n; i++)
		t[i].reachable = remains_reachable(link, t, i);
	done = link_group(link, t, n);
	grnnd_unlock_edges(link->index, &locks);
	if (link->surveyed)
		grnnd_unlock(link->index, GRNND_SURVEY_LOCK, ShareLock);
	return done;
}

static int
compare_blocks(const void *a, const void *b)
{
	BlockNumber x = ((const Target *) a)->block;
	BlockNumber y = ((const Target *) b)->block;

	return x < y ? -1 : x > y;
}

/* Step 3 again for a neighbor whose y would become unreachable, with a y that needs no edge. */
static uint32
link_again(GrnndLink *link, Target *t)
{
	const GrnLayout *l = &link->ix->layout;

	if (grnnd_copy_record(link->index, link->ix, t->id, link->other, NULL) != GRN_NODE ||
		link->other->version != t->version)
		return 0;
	if (link->other->count == l->degree)
	{
		GrnndEviction e;

		if (!evict(link, t->id, link->other, GRN_EVICT_FARTHER, l->degree, &e))
			return 0;
		t->y = grn_rec_ids(l, link->other)[e.position];
		t->over = e.over;
	}
	return link_safely(link, t, 1);
}

/* Step 3 for all targets. */
static uint32
link_targets(GrnndLink *link)
{
	uint32		done = 0;
	uint32		end;

	qsort(link->targets, link->ntargets, sizeof(Target), compare_blocks);
	for (uint32 begin = 0; begin < link->ntargets; begin = end)
	{
		int			pages = 0;

		for (end = begin; end < link->ntargets && end - begin < GRN_MAX_DEGREE; end++)
			if ((end == begin || link->targets[end].block != link->targets[end - 1].block) &&
				++pages > MAX_GENERIC_XLOG_PAGES)
				break;
		done += link_safely(link, link->targets + begin, end - begin);
		for (uint32 i = begin; i < end; i++)
			grnnd_test_point("link-back");
	}
	for (uint32 i = 0; i < link->ntargets; i++)
		if (!link->targets[i].done)
			done += link_again(link, &link->targets[i]);
	return done;
}

/* ---- links that must be ---- */

/* Writes the edges of x that its record lacks. Returns false if the record is no longer x. */
static bool
add_planned(GrnndLink *link)
{
	const GrnLayout *l = &link->ix->layout;
	const GrnRecord *self = link->self;
	GrnndEdit	e;
	bool		sound;

	grnnd_edit_begin(&e, link->index, link->ix, link->id);
	sound = e.rec->state == GRN_NODE && e.rec->version == link->version;
	for (uint32 i = 0; sound && i < self->count && e.rec->count < l->degree; i++)
	{
		GrnEdge		edge = grn_get_edge(l, self, i);

		if (grn_find_id(grn_rec_ids(l, e.rec), e.rec->count, edge.id) < 0)
			grn_add_edge(l, grnnd_edit_change(&e), &edge);
	}
	if (sound)
		memcpy(link->self, e.rec, l->hot_bytes);
	grnnd_edit_end(&e);
	return sound;
}

/*
 * Chooses the neighbor t->y that a full v gives up if v must take x, and plans x's edge to the
 * neighbor.  Dead neighbors of v are the last choice (t->lost).  x gets no edge to a dead node,
 * because the vacuum that frees the node might not find the edge; vacuum also keeps the nodes
 * behind the dead node reachable.  Returns false if v gives up no neighbor.
 */
static bool
plan_forced(GrnndLink *link, const GrnRecord *v, Target *t)
{
	const uint32 *ids = grn_rec_ids(&link->ix->layout, v);
	GrnndEviction e;
	int			position;

	t->over = GRN_INVALID_ID;
	t->lost = false;
	if (evict(link, t->id, v, GRN_EVICT_ANY, 0, &e) && (!e.add || plan_edge(link, v, e.position)))
	{
		t->y = ids[e.position];
		t->over = e.over;
		return true;
	}
	for (position = (int) v->count - 1; position >= 0; position--)
		if (plan_edge(link, v, position))
			break;
	t->lost = position < 0;
	if (t->lost)
		for (position = (int) v->count - 1; position >= 0; position--)
			if (!is_live(link, ids[position]))
				break;
	if (position >= 0)
		t->y = ids[position];
	return position >= 0;
}

/* Makes v take x, whether or not the rule allows. */
static bool
force_link(GrnndLink *link, uint32 v)
{
	for (int i = 0; i < FORCE_TRIES; i++)
	{
		Target		t = {.id = v, .y = GRN_INVALID_ID, .over = GRN_INVALID_ID};

		if (grnnd_copy_record(link->index, link->ix, v, link->other, NULL) != GRN_NODE)
			return false;
		t.version = link->other->version;
		if (link->other->count == link->ix->layout.degree)
		{
			if (!plan_forced(link, link->other, &t) || !add_planned(link))
				return false;
		}
		if (link_safely(link, &t, 1) > 0)
			return true;
	}
	return false;
}

uint32
grnnd_make_links(GrnndLink *link, uint32 id, uint16 version)
{
	const GrnndLinkPlan *plan = link->plan;
	uint32		links;

	link->id = id;
	link->version = version;
	links = link_targets(link);
	for (uint32 i = 0; i < plan->nfrom && links == 0; i++)
		links = force_link(link, plan->from[i]);
	return links;
}

bool
grnnd_link_anew(GrnndStore *store, const GrnndPoint *p, const GrnndEntries *entries, uint32 id,
				uint16 version, bool by_self, bool *alone)
{
	const GrnndIndex *ix = store->ix;
	GrnndNear  *near = grnnd_find_near(store, p, grnnd_insert_ef(ix), entries);
	GrnndList	list;
	GrnndLinkPlan plan = {.near = near, .from = list.ids, .chosen = &list,
		.by_self = by_self};
	GrnRecord  *self = palloc(grnnd_copy_bytes(ix));
	GrnndLink  *link;
	bool		linked = false;

	grnnd_choose_neighbors(near, id, &list);
	plan.nfrom = plan.nchosen = list.count;
	*alone = list.count == 0;
	if (!*alone && grnnd_copy_record(store->index, ix, id, self, NULL) == GRN_NODE && self->version == version)
	{
		link = grnnd_plan_links(store->index, ix, &plan, self, id);
		link->version = version;
		linked = add_planned(link) && grnnd_make_links(link, id, version) > 0;
	}
	grnnd_near_end(near);
	return linked;
}
