/*
 * link.c - a node's edges: choosing its neighbours after a search, and links back
 * from them as src/README ("Reachability") says.
 *
 * Links back come in three steps:
 *   1. each neighbour's record is read.  A full one says which of its own neighbours, y,
 *      gives way, and x is to have an edge x -> y;
 *   2. x is written with these edges;
 *   3. the neighbours are changed, a few pages at a time: x is added, or
 *      replaces y.
 * Between 1 and 3 a neighbour may change; step 3 then decides anew, among x's
 * neighbours alone.
 */
#include "am/write/link.h"

#include "miscadmin.h"
#include "utils/rel.h"

#include "am/cache.h"
#include "am/page.h"
#include "am/test_point.h"
#include "graph/space.h"
#include "graph/stored/prune.h"

/*
 * Where lists are long, the rule keeps out only what is nearer to another neighbour by this share:
 * so the first neighbours are nearer.
 */
#define RULE_SLACK 0.08f

/* Records of one vector whose signatures differ: see MOST_SIGNED of insert.c. */
#define MOST_TWINS 3

/*
 * Dead nodes that a search for neighbours may visit.  Every entry point is among what it
 * visits: a list full of dead nodes comes before them at most.
 */
#define DEAD_LIMIT(ef) (2 * (ef) + 64)

/* How often a neighbour that changes all the time is tried. */
#define FORCE_TRIES 8

void
grnnd_place(const GrnndIndex *ix, const float *x, float *place)
{
	if (place != x)
		memcpy(place, x, ix->meta.dim * sizeof(float));
	if (grn_is_scaled(ix->key.metric->embedding))
		grn_place(place, ix->meta.dim, ix->meta.norm_unit, ix->key.metric->power);
}

void
grnnd_make_point(const GrnndIndex *ix, float *x, float error, GrnndPoint *p)
{

	memset(p, 0, sizeof(*p));
	p->x = x;
	/* an unfitted index has room for it */
	p->code = palloc0(Max(ix->layout.code_bytes, 1));
	if (grn_has_codes(&ix->encoder))
	{
		float		scratch[GRN_MAX_CODE_DIMS];

		grn_encode(&ix->encoder, x, p->code, &p->factor, scratch);
		p->factor = grn_factor_without(&ix->encoder, p->factor, error);
		if (grn_has_codes(&ix->codec))
		{
			p->query = palloc(sizeof(GrnCodeQuery));
			grn_code_query_row(&ix->codec, x, p->query, scratch);
			if (p->query->what == GRN_ESTIMATE_L2)
				p->query->base = Max(0, p->query->base - error * error);
		}
	}
}

/*
 * The code of node id, while fit_codes.c fills an index as far as `ix` knows.  A record need not
 * have its own yet, nor its neighbours', but what an insert writes is to be complete.  So it is
 * made from the stored vector, as the fit makes it.  Inserts that know of the fit's end make codes
 * of rows that are not rounded; once there may be such records, all records have codes.
 */
static void
code_while_filling(Relation index, const GrnndIndex *ix, uint32 id, uint8_t *code,
				   GrnFactor *factor)
{
	float	   *row = palloc(ix->meta.dim * sizeof(float));
	GrnRecord  *rec = palloc(grnnd_copy_bytes(ix));
	GrnndStore	store;
	GrnState	state;
	uint16		version;
	float		error;

	memset(code, 0, ix->layout.code_bytes);
	*factor = (GrnFactor) {0};
	grnnd_store_init(&store, index, ix, CurrentMemoryContext);
	if (grnnd_store_fetch(&store, id, row, &state, &version, &error))
	{
		GrnndPoint	p;

		/* (in this order: it was filling when the record was there) */
		if (grnnd_is_filling(index))
		{
			grnnd_make_point(ix, row, error, &p);
			memcpy(code, p.code, ix->layout.code_bytes);
			*factor = p.factor;
			pfree(p.code);
		}
		else
		{
			(void) grnnd_copy_record(index, ix, id, rec, NULL);
			memcpy(code, GRN_REC_PTR(rec, ix->layout.off_code), ix->layout.code_bytes);
			*factor = rec->factor;
		}
	}
	pfree(rec);
	pfree(row);
}

/* ---- choosing ---- */

/*
 * A new node begins with few edges of its own.  What it lacks at first are links to it, each of
 * which adds an edge to its own list where the neighbour was full, and later rows fill the rest.
 * Without codes only few neighbours give way to it, so its own list is longer then.
 * test/bench/tried.md has other numbers.
 */
GrnndShares
grnnd_shares(const GrnndIndex *ix)
{
	uint32		degree = ix->layout.degree;
	GrnndShares s;

	if (degree < GRNND_FEW_EDGES)
		s = (GrnndShares) {.own = degree / 2, .asked = degree, .filled = degree,
						   .least = degree * 4 / 5};
	else if (grn_has_codes(&ix->codec))
		s = (GrnndShares) {.own = degree * 3 / 8, .asked = degree / 2,
						   .filled = degree / 2, .least = degree * 7 / 16, .slack = RULE_SLACK};
	else
	{
		s = (GrnndShares) {.own = degree * 15 / 32, .asked = degree * 15 / 32,
						   .filled = degree / 4, .least = degree / 6};
		if (ix->key.metric->long_entries > 0)
			s.filled = s.own;
	}
	return s;
}

GrnndEdge
grnnd_list_edge(const GrnndIndex *ix, const GrnndList *list, uint32 i)
{
	return (GrnndEdge) {.id = list->ids[i], .factor = list->factors[i],
						.code = list->codes + (Size) i * ix->layout.code_bytes,
						.sig = list->sigs + (Size) i * ix->layout.sig_bytes};
}

GrnSearch *
grnnd_find_near(GrnndStore *store, const GrnndPoint *p, uint32 ef,
				const GrnndEntries *entries, uint32 *nfound)
{
	GrnSearchParams params = {
		.layout = &store->ix->layout,
		.codec = &store->ix->codec,
		.metric = store->ix->key.metric,
		.ef = ef,
		.keep_vectors = true,
		.by_row = true,
		.dead_limit = DEAD_LIMIT(ef)
	};
	GrnSearch  *search;

	grnnd_store_take_pages(store);
	search = grn_search_begin(&params, &store->base, p->x);
	grn_search_entries(search, entries->ids, entries->codes, entries->factors,
					   entries->count);
	*nfound = grn_search_run(search);
	return search;
}

/* What a record keeps that neighbours are chosen for. */
typedef struct Own
{
	const void *vec;			/* NULL: not known */
	const uint8_t *sig;
	float		error;
} Own;

static Own
own_of(const GrnLayout *l, GrnSearch *search, uint32 nfound, const GrnndPoint *p, uint32 self)
{
	const GrnFound *found = grn_search_found(search);
	GrnFactor	unused;

	if (p->rec != NULL)
		return (Own) {.vec = GRN_REC_PTR(p->rec, l->off_vec), .error = p->rec->error,
					  .sig = GRN_REC_PTR(p->rec, l->off_sig)};
	for (uint32 i = 0; i < nfound; i++)
		if (found[i].id == self)
			return (Own) {.vec = grn_search_vector(search, i), .error = found[i].error,
						  .sig = grn_search_code(search, i, &unused) + l->code_bytes};
	return (Own) {0};
}

/*
 * Of candidates [n] with one vector the first keeps the others out.  Puts one with this signature
 * there: a search whose filter lets that pass goes on by way of it.
 */
static void
prefer_signature(const GrnLayout *l, GrnSearch *search, const uint8_t *sig, const float *dist,
				 uint32 *from, uint32 n)
{
	for (uint32 i = 1; i < n; i++)
		for (uint32 j = i; j > 0 && dist[j] == dist[j - 1]; j--)
		{
			uint32		f = from[j];
			GrnFactor	unused;

			if (memcmp(grn_search_code(search, f, &unused) + l->code_bytes, sig, l->sig_bytes) != 0 ||
				memcmp(grn_search_vector(search, f), grn_search_vector(search, from[j - 1]),
					   l->vec_bytes) != 0)
				break;
			from[j] = from[j - 1];
			from[j - 1] = f;
		}
}

void
grnnd_choose_neighbours(Relation index, const GrnndIndex *ix, GrnSearch *search, uint32 nfound,
						const GrnndPoint *p, uint32 self, GrnndList *list)
{
	const GrnLayout *l = &ix->layout;
	const GrnFound *found = grn_search_found(search);
	uint32		dim = ix->meta.dim;
	GrnndShares shares = grnnd_shares(ix);
	GrnPrune	prune = {
		.stride = dim,
		.dim = dim,
		.slack = shares.slack,
		.most = shares.asked,
		.fill = shares.filled
	};
	float	   *rows = palloc_extended(((Size) nfound + 1) * dim * sizeof(float),
									   MCXT_ALLOC_HUGE);
	float	   *own = rows + (Size) nfound * dim;
	uint32		ntwins = 0;
	Own			mine = l->sig_bytes > 0 ? own_of(l, search, nfound, p, self) : (Own) {0};
	float	   *dist = palloc(Max(nfound, 1) * sizeof(float));
	uint32	   *from = palloc(Max(nfound, 1) * sizeof(uint32));
	uint32	   *keep = palloc(l->degree * sizeof(uint32));

	/*
	 * Stored vectors of a rotated form are as far from each other as their rows, and both errors
	 * more.  So that all distances have two errors, those from p get its own.
	 */
	grnnd_place(ix, p->x, own);
	for (uint32 i = 0; i < nfound; i++)
	{
		float	   *row = rows + (Size) prune.n * dim;
		float		distance;

		if (found[i].id == self)
			continue;
		grn_own_load(l, grn_search_vector(search, i), row);
		grnnd_place(ix, row, row);
		distance = grn_dist->l2_f32(own, row, dim);
		/*
		 * A record of the same vector with another signature would keep all other candidates out,
		 * and a search with a filter seldom goes by way of it.
		 */
		if (mine.vec != NULL && ntwins < MOST_TWINS && nfound - ntwins > 1 &&
			found[i].error == mine.error &&
			memcmp(grn_search_vector(search, i), mine.vec, l->vec_bytes) == 0)
			ntwins++;
		else
		{
			dist[prune.n] = distance + p->error2;
			from[prune.n++] = i;
		}
	}
	if (mine.vec != NULL)
		prefer_signature(l, search, mine.sig, dist, from, prune.n);
	prune.rows = rows;
	prune.dist = dist;
	list->count = grn_prune(&prune, keep, palloc(grn_prune_bytes(prune.n) + 1));
	list->own = Min(list->count, shares.own);
	list->codes = palloc(l->degree * l->code_bytes + 1);
	list->sigs = palloc(l->degree * l->sig_bytes + 1);
	for (uint32 i = 0; i < list->count; i++)
	{
		uint32		f = from[keep[i]];
		const uint8_t *code = grn_search_code(search, f, &list->factors[i]);

		list->ids[i] = found[f].id;
		memcpy(list->sigs + i * l->sig_bytes, code + l->code_bytes, l->sig_bytes);
		if (ix->meta.fit_state == GRNND_FILLING)
			code_while_filling(index, ix, list->ids[i], list->codes + i * l->code_bytes,
							   &list->factors[i]);
		else if (l->code_bytes > 0)
			memcpy(list->codes + i * l->code_bytes, code, l->code_bytes);
	}
	if (!grn_has_codes(&ix->codec))
	{
		uint32		n = list->count;

		list->to_p = palloc((n + 1) * sizeof(float));
		list->between = palloc((n * n + 1) * sizeof(float));
		for (uint32 i = 0; i < n; i++)
		{
			list->to_p[i] = dist[keep[i]];
			for (uint32 j = 0; j < n; j++)
				list->between[i * n + j] = grn_dist->l2_f32(rows + (Size) keep[i] * dim,
															rows + (Size) keep[j] * dim, dim);
		}
	}
	pfree(rows);
}

/* ---- links back ---- */

/* A neighbour that is to have an edge to x. */
typedef struct Target
{
	uint32		id;
	uint16		version;
	uint32		y;				/* the one that gives way; GRN_INVALID_ID if it had room */
	BlockNumber block;
	bool		twin;			/* a node of x's vector */
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

	code_while_filling(link->index, ix, edge.id, code, &edge.factor);
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

/* The neighbour of v, whose id is given, that gives way to x: grn_yield(). */
static int
choose_yield(const GrnndLink *link, uint32 id, const GrnRecord *v, bool may_add,
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

	if (!grn_has_codes(&link->ix->codec) && chosen != NULL)
	{
		int			at = grn_find_id(chosen->ids, chosen->count, id);

		if (at >= 0)
		{
			y.v_to = chosen->between + (Size) at * chosen->count;
			y.nknown = chosen->own;
			y.x_to_v = chosen->to_p[at];
		}
	}
	return grn_yield(&y);
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

/* Step 1 for one neighbour.  False: none of its neighbours gives way. */
static bool
plan_target(GrnndLink *link, uint32 target, uint32 id, bool twin, GrnYieldFrom from)
{
	const GrnLayout *l = &link->ix->layout;
	const GrnRecord *v = link->other;
	Target		t = {.id = target, .y = GRN_INVALID_ID, .twin = twin};

	Assert(target != id);
	if (grnnd_copy_record(link->index, link->ix, target, link->other, NULL) != GRN_NODE)
		return true;			/* it does not count as one that refused */
	t.version = v->version;
	t.block = grnnd_node_block(link->ix, target);
	if (v->count == l->degree && grn_find_id(grn_rec_ids(l, v), v->count, id) < 0)
	{
		int			position = twin ? first_common(link, v) : -1;

		if (position < 0)
			position = choose_yield(link, target, v, true, from);
		if (position < 0)
			return false;
		if (plan_edge(link, v, position))
			t.y = grn_rec_ids(l, v)[position];
	}
	link->targets[link->ntargets++] = t;
	return true;
}

GrnndLink *
grnnd_plan_links(Relation index, const GrnndIndex *ix, const GrnndLinkPlan *plan,
				 GrnRecord *self, uint32 id)
{
	GrnndLink  *link = palloc0(sizeof(GrnndLink));
	uint32	   *refused = palloc(Max(plan->nfrom, 1) * sizeof(uint32));
	uint32		nrefused = 0;

	link->index = index;
	link->ix = ix;
	link->plan = plan;
	link->self = self;
	link->other = palloc(grnnd_copy_bytes(ix));
	link->targets = palloc(Max(plan->nfrom, 1) * sizeof(Target));
	for (uint32 i = 0; i < plan->nfrom; i++)
		if (!plan_target(link, plan->from[i], id, i < plan->ntwins, GRN_YIELD_SERVED))
			refused[nrefused++] = plan->from[i];
	for (uint32 i = 0; i < nrefused && link->ntargets < plan->least; i++)
		plan_target(link, refused[i], id, false, GRN_YIELD_FARTHER);
	grnnd_test_point("link-planned");
	return link;
}

/*
 * Step 3 for one neighbour, whose record `rec` is locked: what it is to do.  Unless
 * lost is set, x must have an edge to t->y.  Returns the position in its list that x
 * takes, -1 for none, and says in *linked whether it has an edge to x already.
 */
static int
position_for(const GrnndLink *link, const Target *t, const GrnRecord *rec, bool lost,
			 bool *linked)
{
	const GrnLayout *l = &link->ix->layout;
	const uint32 *ids = grn_rec_ids(l, rec);
	int			position = -1;

	*linked = false;
	if (rec->state != GRN_NODE || rec->version != t->version)
		return -1;
	*linked = grn_find_id(ids, rec->count, link->id) >= 0;
	if (*linked)
		return -1;
	if (rec->count < l->degree)
		return rec->count;
	if (t->y != GRN_INVALID_ID && (lost || has_edge(link, t->y)))
		position = grn_find_id(ids, rec->count, t->y);
	if (position < 0 && t->twin)
		position = first_common(link, rec);
	return position >= 0 ? position : choose_yield(link, t->id, rec, false, GRN_YIELD_SERVED);
}

/*
 * Step 3 for neighbours on the same few pages, sorted by block: one WAL record.
 * Returns how many have an edge to x now.
 */
static uint32
link_group(const GrnndLink *link, const Target *t, uint32 n, bool lost)
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
		position = position_for(link, &t[i], e.rec, lost, &linked);
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

static int
compare_blocks(const void *a, const void *b)
{
	BlockNumber x = ((const Target *) a)->block;
	BlockNumber y = ((const Target *) b)->block;

	return x < y ? -1 : x > y;
}

/* Step 3 for all. */
static bool
link_targets(const GrnndLink *link)
{
	uint32		done = 0;
	uint32		end;

	qsort(link->targets, link->ntargets, sizeof(Target), compare_blocks);
	for (uint32 begin = 0; begin < link->ntargets; begin = end)
	{
		int			pages = 0;

		for (end = begin; end < link->ntargets; end++)
			if ((end == begin || link->targets[end].block != link->targets[end - 1].block) &&
				++pages > MAX_GENERIC_XLOG_PAGES)
				break;
		done += link_group(link, link->targets + begin, end - begin, false);
		for (uint32 i = begin; i < end; i++)
			grnnd_test_point("link-back");
	}
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
	int			position = choose_yield(link, id, v, true, GRN_YIELD_ANY);

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
		Target		t = {.id = v, .y = GRN_INVALID_ID};
		bool		lost = false;

		if (grnnd_copy_record(link->index, link->ix, v, link->other, NULL) != GRN_NODE)
			return false;
		t.version = link->other->version;
		if (link->other->count == link->ix->layout.degree)
		{
			t.y = plan_forced(link, v, link->other, &lost);
			if (t.y == GRN_INVALID_ID || !add_planned(link))
				return false;
		}
		if (link_group(link, &t, 1, lost) > 0)
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
