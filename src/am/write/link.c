/*
 * link.c - links back to a node x from its neighbours, as src/graph/README ("Reachability") says.
 *
 * They come in three steps:
 *   1. each neighbour v's record is read.  A full one says which of its own neighbours, y, gives
 *      way, and by whom y stays reached: x, which then gets an edge x -> y, or another neighbour
 *      of v;
 *   2. x is written with its edges;
 *   3. the neighbours are changed, a few pages at a time: x is added, or replaces y.
 * Between 1 and 3 lists may change, so step 3 looks again whether y stays reached.  Nobody else
 * takes an edge to y out of a list meanwhile: for that the lock of edges to y is held
 * (grnnd_lock_edges()).  If y does not stay, v is asked anew which neighbour gives way, but
 * only for one that x has as well.
 */
#include "am/write/link.h"

#include "miscadmin.h"
#include "utils/rel.h"

#include "am/cache.h"
#include "am/page.h"
#include "am/test_point.h"
#include "am/write/lock.h"
#include "graph/stored/prune.h"

/* How often a neighbour that changes all the time is tried. */
#define FORCE_TRIES 8

/* ---- links back ---- */

/* A neighbour that is to have an edge to x. */
typedef struct Target
{
	uint32		id;
	uint16		version;
	uint32		y;				/* the one that gives way; GRN_INVALID_ID: none */
	uint32		over;			/* its neighbour that has an edge to y; GRN_INVALID_ID: x has */
	BlockNumber block;
	bool		twin;			/* a node of x's vector */
	bool		lost;			/* y is dead and need not stay reached */
	bool		stays;			/* step 3: y stays reached, as far as other lists tell */
	bool		done;			/* it has an edge to x now, or is gone */
} Target;

struct GrnndLink
{
	Relation	index;
	const GrnndIndex *ix;
	const GrnndLinkPlan *plan;
	uint32		id;				/* x, as soon as it is written */
	uint16		version;
	GrnRecord  *self;			/* x's record, with the edges of step 2 */
	GrnRecord  *other;			/* copy of a neighbour's */
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

/* Gives x an edge that another node has, with the code that the neighbour is to have. */
static void
add_encoded_edge(GrnndLink *link, GrnndEdge edge)
{
	const GrnndIndex *ix = link->ix;
	uint8_t    *code = palloc(ix->layout.code_bytes + 1);

	grnnd_code_while_filling(link->index, ix, edge.id, code, &edge.factor);
	edge.code = code;
	grnnd_add_edge(&ix->layout, link->self, &edge);
	pfree(code);
}

/* Gives x an edge to v's neighbour y_place.  False: there is no room, or y is dying. */
static bool
plan_edge(GrnndLink *link, const GrnRecord *v, uint32 y_place)
{
	const GrnLayout *l = &link->ix->layout;
	GrnndEdge	edge = grnnd_get_edge(l, v, y_place);

	if (has_edge(link, edge.id))
		return true;
	/*
	 * An edge to a dead node would survive vacuum where vacuum has passed our
	 * page already.  A live one cannot be freed before we have finished,
	 * because vacuum waits for us (GRNND_WRITERS_LOCK).
	 */
	if (link->self->count >= l->degree ||
		(!link->plan->dead_allowed && !is_live(link, edge.id)))
		return false;
	if (link->ix->meta.fit_state == GRNND_FILLING)
		add_encoded_edge(link, edge);
	else
		grnnd_add_edge(l, link->self, &edge);
	return true;
}

/*
 * The neighbour of v, a twin of x, that gives way: the nearest that x has, too.  So v keeps what
 * leads far, if it stays.
 */
static int
first_common(const GrnndLink *link, const GrnRecord *v)
{
	const GrnLayout *l = &link->ix->layout;
	int			position = -1;

	for (uint32 i = 0; i < link->self->count && position < 0; i++)
		position = grn_find_id(grn_rec_ids(l, v), v->count, grn_rec_ids(l, link->self)[i]);
	return position;
}

/*
 * The neighbour of v, whose id is given, that gives way to x: grn_yield(), or of a twin of x
 * first_common() if there is one.
 */
static int
choose_yield(const GrnndLink *link, uint32 id, const GrnRecord *v, bool twin, bool may_add,
			 GrnYieldFrom from)
{
	const GrnLayout *l = &link->ix->layout;
	const GrnndList *chosen = link->plan->chosen;
	GrnYield	y = {
		.layout = l,
		.codec = &link->ix->codec,
		.v = v,
		.x = link->plan->p->query,
		.x_ids = grn_rec_ids(l, link->self),
		.x_count = link->self->count,
		.may_add = may_add && link->self->count < l->degree,
		.keep_far = link->plan->ntwins > 0 && from != GRN_YIELD_ANY,
		.from = from
	};

	float		v_to[GRN_MAX_DEGREE];
	int			common = twin ? first_common(link, v) : -1;

	if (common >= 0)
		return common;
	if (!grn_has_codes(&link->ix->codec) && chosen != NULL)
	{
		int			at = grn_find_id(chosen->ids, chosen->count, id);

		if (at >= 0)
		{
			/* x's list need not begin with those that were chosen; less than any: not known */
			for (uint32 i = 0; i < y.x_count; i++)
			{
				int			other = grn_find_id(chosen->ids, chosen->count, y.x_ids[i]);

				v_to[i] = other >= 0 ? chosen->between[(Size) at * chosen->count + other] : -1;
			}
			y.v_to = v_to;
			y.nknown = y.x_count;
			y.x_to_v = chosen->to_p[at];
		}
	}
	return grn_yield(&y);
}

/* Step 1 for one neighbour.  False: none of its neighbours gives way. */
static bool
plan_target(GrnndLink *link, uint32 target, uint32 id, bool twin, GrnYieldFrom from)
{
	const GrnLayout *l = &link->ix->layout;
	const GrnRecord *v = link->other;
	Target		t = {.id = target, .y = GRN_INVALID_ID, .over = GRN_INVALID_ID, .twin = twin};

	Assert(target != id);
	if (grnnd_copy_record(link->index, link->ix, target, link->other, NULL) != GRN_NODE)
		return true;			/* it does not count as one that refused */
	t.version = v->version;
	t.block = grnnd_node_block(link->ix, target);
	if (v->count == l->degree && grn_find_id(grn_rec_ids(l, v), v->count, id) < 0)
	{
		int			position = choose_yield(link, target, v, twin, true, from);

		if (position < 0)
			return false;
		if (plan_edge(link, v, position))
			t.y = grn_rec_ids(l, v)[position];
	}
	link->targets[link->ntargets++] = t;
	return true;
}

/* Gives x an edge to neighbour i of those that were chosen, if it has none, and room. */
static void
add_chosen(GrnndLink *link, uint32 i)
{
	GrnndEdge	edge = grnnd_list_edge(link->ix, link->plan->chosen, i);

	if (link->self->count < link->ix->layout.degree && !has_edge(link, edge.id))
		grnnd_add_edge(&link->ix->layout, link->self, &edge);
}

/*
 * Step 1 for neighbour i of those that were chosen, with mutual edges.  False: it is full, and does
 * not take x.
 */
static bool
plan_mutual(GrnndLink *link, uint32 i, bool strict)
{
	const GrnndLinkPlan *plan = link->plan;
	const GrnRecord *v = link->other;
	Target		t = {.id = plan->chosen->ids[i], .y = GRN_INVALID_ID, .over = GRN_INVALID_ID};

	if (grnnd_copy_record(link->index, link->ix, t.id, link->other, NULL) != GRN_NODE)
		return true;
	t.version = v->version;
	t.block = grnnd_node_block(link->ix, t.id);
	if (v->count == link->ix->layout.degree)
	{
		bool		add;
		int			position = grnnd_exchange(plan->near, t.id, v, link->self, plan->shares->slack,
											  strict, &t.over, &add);

		if (position < 0 || (add && !plan_edge(link, v, position)))
			return false;
		t.y = grn_rec_ids(&link->ix->layout, v)[position];
		grnnd_near_goes(plan->near, t.id, t.y);
	}
	add_chosen(link, i);
	link->targets[link->ntargets++] = t;
	return true;
}

/*
 * Step 1 with mutual edges.  Where x would have too few, those that refused it are asked again,
 * though one of their neighbours occludes x, and at last as they are without mutual edges: they may
 * be hubs whose neighbours the search has not met, since x lies far out.
 */
static void
plan_all_mutual(GrnndLink *link)
{
	const GrnndList *chosen = link->plan->chosen;
	const GrnndShares *shares = link->plan->shares;
	uint32		degree = link->ix->layout.degree;
	bool		refused[GRN_MAX_DEGREE] = {0};

	for (int strict = 1; strict >= 0; strict--)
		for (uint32 i = 0; i < chosen->count && link->self->count < degree &&
			 link->ntargets < (strict ? shares->links : shares->least); i++)
			if (strict || refused[i])
				refused[i] = !plan_mutual(link, i, strict);
	for (uint32 i = 0; i < chosen->count && link->ntargets < shares->least; i++)
		if (refused[i])
		{
			uint32		before = link->ntargets;

			(void) plan_target(link, chosen->ids[i], GRN_INVALID_ID, false, GRN_YIELD_FARTHER);
			if (link->ntargets > before)
				add_chosen(link, i);
		}
	for (uint32 i = 0; i < chosen->count && link->self->count < shares->own; i++)
		add_chosen(link, i);
}

GrnndLink *
grnnd_plan_links(Relation index, const GrnndIndex *ix, const GrnndLinkPlan *plan,
				 GrnRecord *self, uint32 id)
{
	GrnndLink  *link = palloc0(sizeof(GrnndLink));
	uint32	   *refused = palloc(Max(plan->nfrom, 1) * sizeof(uint32));
	uint32		least = plan->shares != NULL ? plan->shares->least : 0;
	uint32		nmutual = plan->near != NULL ? plan->chosen->count : 0;
	uint32		nrefused = 0;

	link->index = index;
	link->ix = ix;
	link->plan = plan;
	link->self = self;
	link->other = palloc(grnnd_copy_bytes(ix));
	link->targets = palloc(Max(plan->nfrom, 1) * sizeof(Target));
	if (nmutual > 0)
		plan_all_mutual(link);
	for (uint32 i = nmutual; i < plan->nfrom; i++)
		if (!plan_target(link, plan->from[i], id, i < plan->ntwins, GRN_YIELD_SERVED))
			refused[nrefused++] = plan->from[i];
	for (uint32 i = 0; i < nrefused && link->ntargets < least; i++)
		plan_target(link, refused[i], id, false, GRN_YIELD_FARTHER);
	grnnd_test_point("link-planned");
	return link;
}

/*
 * Step 3 for one neighbour, whose record `rec` is locked: the position in its list that x takes,
 * or -1.  Says in *linked whether it has an edge to x already.
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
	if (t->y == GRN_INVALID_ID || !t->stays ||
		(t->over != GRN_INVALID_ID && grn_find_id(ids, rec->count, t->over) < 0))
		return -1;
	return grn_find_id(ids, rec->count, t->y);
}

/*
 * Step 3 for neighbours on the same few pages, sorted by block: one WAL record.
 * Returns how many have an edge to x now.
 */
static uint32
link_group(const GrnndLink *link, Target *t, uint32 n)
{
	const GrnLayout *l = &link->ix->layout;
	/* by the record's code, for vacuum's point comes from a vector that may be rounded */
	GrnndEdge	edge = grnnd_own_edge(l, link->self, link->id);
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
			/* in front of a twin's list, where vacuum looks for it */
			if (t[i].twin)
			{
				grnnd_shift_edges(l, rec, position, 0);
				position = 0;
			}
			grnnd_set_edge(l, rec, position, &edge);
		}
		if (linked || position >= 0)
			done++;
	}
	grnnd_edit_end(&e);
	return done;
}

/*
 * Does y stay reached when it gives way in target i of those that change together?  By the list
 * that is to lead to it now, unless that loses y at the same time.
 */
static bool
stays_reached(const GrnndLink *link, const Target *targets, uint32 i)
{
	const GrnLayout *l = &link->ix->layout;
	const Target *t = &targets[i];
	uint32		by = t->over != GRN_INVALID_ID ? t->over : link->id;
	GrnState	state;

	if (t->y == GRN_INVALID_ID || t->lost)
		return true;
	if (t->over != GRN_INVALID_ID && !link->surveyed)
		return false;
	/* where several count on each other for y in a circle, one of them counts on an earlier one */
	for (uint32 k = 0; k < i; k++)
		if (targets[k].id == t->over && targets[k].y == t->y)
			return false;
	state = grnnd_copy_record(link->index, link->ix, by, link->other, NULL);
	return state == GRN_NODE && (by != link->id || link->other->version == link->version) &&
		grn_find_id(grn_rec_ids(l, link->other), link->other->count, t->y) >= 0;
}

/* Step 3 for neighbours on the same few pages, while nobody else takes edges to their y away. */
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
	/* vacuum knows where x leads, for it reads rows that came since its survey, but no more */
	link->surveyed = by_others && grnnd_try_lock(link->index, GRNND_SURVEY_LOCK, ShareLock);
	grnnd_lock_edges(link->index, ys, nys, &locks);
	for (uint32 i = 0; i < n; i++)
		t[i].stays = stays_reached(link, t, i);
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

/* Step 3 once more for a neighbour whose y did not stay: one that x has as well may give way. */
static uint32
link_again(GrnndLink *link, Target *t)
{
	const GrnLayout *l = &link->ix->layout;

	if (grnnd_copy_record(link->index, link->ix, t->id, link->other, NULL) != GRN_NODE ||
		link->other->version != t->version)
		return 0;
	if (link->other->count == l->degree)
	{
		int			position = choose_yield(link, t->id, link->other, t->twin, false,
											GRN_YIELD_SERVED);

		if (position < 0)
			return 0;
		t->y = grn_rec_ids(l, link->other)[position];
		t->over = GRN_INVALID_ID;
	}
	return link_safely(link, t, 1);
}

/* Step 3 for all. */
static bool
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
	return done > 0;
}

/* ---- links that must be ---- */

/* Writes x's edges that its record lacks.  False: x is no more what it was. */
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
		GrnndEdge	edge = grnnd_get_edge(l, self, i);

		if (grn_find_id(grn_rec_ids(l, e.rec), e.rec->count, edge.id) < 0)
			grnnd_add_edge(l, grnnd_edit_change(&e), &edge);
	}
	if (sound)
		memcpy(link->self, e.rec, l->hot_bytes);
	grnnd_edit_end(&e);
	return sound;
}

/*
 * Chooses the neighbour that gives way in a full v that must take x, and plans x's edge to
 * it.  Dead neighbours of v come last.  They get no edge from x, because their own last
 * vacuum would not find it; what they lead to is vacuum's business anyway.  *lost says that
 * it was one of those.  GRN_INVALID_ID: none can.
 */
static uint32
plan_forced(GrnndLink *link, uint32 id, const GrnRecord *v, bool *lost)
{
	const uint32 *ids = grn_rec_ids(&link->ix->layout, v);
	int			position = choose_yield(link, id, v, false, true, GRN_YIELD_ANY);

	*lost = false;
	if (position >= 0 && plan_edge(link, v, position))
		return ids[position];
	for (position = (int) v->count - 1; position >= 0; position--)
		if (plan_edge(link, v, position))
			return ids[position];
	*lost = true;
	for (position = (int) v->count - 1; position >= 0; position--)
		if (!is_live(link, ids[position]))
			return ids[position];
	return GRN_INVALID_ID;
}

/* Makes v take x, the rule aside. */
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
			t.y = plan_forced(link, v, link->other, &t.lost);
			if (t.y == GRN_INVALID_ID || !add_planned(link))
				return false;
		}
		if (link_safely(link, &t, 1) > 0)
			return true;
	}
	return false;
}

bool
grnnd_make_links(GrnndLink *link, uint32 id, uint16 version)
{
	const GrnndLinkPlan *plan = link->plan;
	bool		linked;

	link->id = id;
	link->version = version;
	linked = link_targets(link);
	for (uint32 i = 0; i < plan->nfrom && !linked; i++)
		linked = force_link(link, plan->from[i]);
	return linked;
}

bool
grnnd_link_node(Relation index, const GrnndIndex *ix, const GrnndLinkPlan *plan,
				uint32 id, uint16 version)
{
	GrnRecord  *self = palloc(grnnd_copy_bytes(ix));
	GrnndLink  *link;

	if (grnnd_copy_record(index, ix, id, self, NULL) != GRN_NODE ||
		self->version != version)
		return false;
	for (uint32 i = 0; plan->chosen != NULL && i < plan->chosen->own; i++)
		if (self->count < ix->layout.degree &&
			grn_find_id(grn_rec_ids(&ix->layout, self), self->count, plan->chosen->ids[i]) < 0)
		{
			GrnndEdge	edge = grnnd_list_edge(ix, plan->chosen, i);

			grnnd_add_edge(&ix->layout, self, &edge);
		}
	link = grnnd_plan_links(index, ix, plan, self, id);
	link->id = id;
	link->version = version;
	return add_planned(link) && grnnd_make_links(link, id, version);
}
