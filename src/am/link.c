/*
 * link.c - a node's edges: choosing its neighbours after a search, and links back
 * from them as src/README ("Reachability") says.
 *
 * Links back come in three steps, so that no two pages are locked at once:
 *   1. each neighbour's record is read; a full one says who gives way (y);
 *   2. x gets the edges x -> y it lacks, all in one change;
 *   3. each neighbour is changed: x is added, or takes the place of y.
 * Between 1 and 3 a neighbour may change; step 3 then decides anew, among x's
 * neighbours alone.
 */
#include "write.h"

#include "miscadmin.h"
#include "utils/rel.h"

/* Shares of the degree: the most that a new node chooses, and the least. */
#define CHOOSE_MOST(degree) ((degree) * 3 / 4)
#define CHOOSE_FILL(degree) ((degree) / 2)

/* How often a neighbour that changes all the time is tried. */
#define FORCE_TRIES 8

/*
 * Inner product, a row longer than any of the build: the coordinate that makes
 * all rows equally long would have to be imaginary, and is 0.  Its square, which
 * is negative, goes into the code's norm.  Then estimates of queries' distances are
 * what they should be, |q|^2 + M^2 - 2 q.x, and the row is found.
 */
static void
correct_norm(const GrnndIndex *ix, const float *x, GrnFactor *factor)
{
	double		excess = -(double) ix->meta.max_norm * ix->meta.max_norm;

	if (ix->meta.metric != GRN_IP)
		return;
	for (uint32 i = 0; i < ix->meta.dim; i++)
		excess += (double) x[i] * x[i];
	if (excess > 0)
		factor->norm2 = grn_f32_to_f16(grn_f16_to_f32(factor->norm2) -
									   (float) (excess / ix->codec.norm_unit));
}

void
grnnd_make_point(const GrnndIndex *ix, float *x, GrnndPoint *p)
{
	uint32		k = ix->codec.code_dims;

	memset(p, 0, sizeof(*p));
	p->x = x;
	if (k > 0)
	{
		float	   *scratch = palloc(k * sizeof(float));

		p->code = palloc(ix->layout.code_bytes);
		p->query = palloc(sizeof(GrnCodeQuery));
		grn_encode(&ix->codec, x, p->code, &p->factor, scratch);
		correct_norm(ix, x, &p->factor);
		grn_code_query(&ix->codec, x, p->query, scratch);
		pfree(scratch);
	}
}

/* ---- choosing ---- */

static GrnSearch *
start_search(GrnndStore *store, const GrnndPoint *p, uint32 ef,
			 const GrnndEntries *entries, bool resumable)
{
	GrnSearchParams params = {
		.layout = &store->ix->layout,
		.codec = &store->ix->codec,
		.metric = (GrnMetric) store->ix->meta.metric,
		.ef = ef,
		.resumable = resumable,
		.keep_vectors = true
	};
	GrnSearch  *search = grn_search_begin(&params, &store->base, p->x);

	grn_search_entries(search, entries->ids, entries->codes, entries->factors,
					   entries->count);
	return search;
}

static uint32
count_live(GrnSearch *search, uint32 nfound)
{
	const GrnFound *found = grn_search_found(search);
	uint32		n = 0;

	for (uint32 i = 0; i < nfound; i++)
		if (found[i].state == GRN_NODE)
			n++;
	return n;
}

GrnSearch *
grnnd_find_near(GrnndStore *store, const GrnndPoint *p, uint32 ef,
				const GrnndEntries *entries, uint32 *nfound, uint32 *nlive)
{
	GrnSearch  *search = start_search(store, p, ef, entries, false);

	*nfound = grn_search_run(search);
	*nlive = count_live(search, *nfound);
	if (*nlive > 0 || *nfound == 0)
		return search;

	/* nothing but dead nodes hereabouts (vacuum is at work): go on till one lives */
	grn_search_end(search);
	search = start_search(store, p, ef, entries, true);
	do
	{
		*nfound = grn_search_run(search);
		*nlive = count_live(search, *nfound);
	} while (*nlive == 0 && *nfound > 0);
	return search;
}

void
grnnd_choose_neighbours(const GrnndIndex *ix, GrnSearch *search, uint32 nfound,
						const GrnndPoint *p, GrnndList *list)
{
	const GrnLayout *l = &ix->layout;
	const GrnFound *found = grn_search_found(search);
	GrnPrune	prune = {
		.stride = ix->space_dim,
		.dim = ix->space_dim,
		.most = CHOOSE_MOST(l->degree),
		.fill = CHOOSE_FILL(l->degree)
	};
	float	   *rows = palloc_extended((Size) Max(nfound, 1) * ix->space_dim * sizeof(float),
									   MCXT_ALLOC_HUGE);
	float	   *dist = palloc(Max(nfound, 1) * sizeof(float));
	uint32	   *from = palloc(Max(nfound, 1) * sizeof(uint32));
	uint32	   *keep = palloc(l->degree * sizeof(uint32));

	for (uint32 i = 0; i < nfound; i++)
	{
		float	   *row = rows + (Size) prune.n * ix->space_dim;

		if (found[i].state != GRN_NODE)
			continue;
		grnnd_vector_to_space(ix, grn_search_vector(search, i), row);
		dist[prune.n] = grn_dist->l2_f32(p->x, row, ix->space_dim);
		from[prune.n++] = i;
	}
	prune.rows = rows;
	prune.dist = dist;
	list->count = grn_prune(&prune, keep, palloc(grn_prune_bytes(prune.n) + 1));
	list->codes = palloc(l->degree * l->code_bytes + 1);
	for (uint32 i = 0; i < list->count; i++)
	{
		uint32		f = from[keep[i]];

		list->ids[i] = found[f].id;
		if (l->code_bytes > 0)
			memcpy(list->codes + i * l->code_bytes,
				   grn_search_code(search, f, &list->factors[i]), l->code_bytes);
	}
	pfree(rows);
}

/* ---- links back ---- */

typedef struct Link
{
	Relation	index;
	const GrnndIndex *ix;
	const GrnndLink *what;		/* x */
	GrnRecord  *self;			/* copy of x's record */
	GrnRecord  *other;			/* copy of a neighbour's */
	GrnndList	added;			/* edges that x gets in step 2 */
} Link;

static bool
is_live(const Link *link, uint32 id)
{
	GrnRecord  *copy = palloc(grnnd_copy_bytes(link->ix));
	bool		live = grnnd_copy_record(link->index, link->ix, id, copy, NULL) == GRN_NODE;

	pfree(copy);
	return live;
}

static bool
has_edge(const Link *link, uint32 id)
{
	return grn_find_id(grn_rec_ids(&link->ix->layout, link->self),
					   link->self->count, id) >= 0 ||
		grn_find_id(link->added.ids, link->added.count, id) >= 0;
}

/* Notes the edge to v's neighbour y_place for step 2.  False: there is no room, or y is dying. */
static bool
plan_edge(Link *link, const GrnRecord *v, uint32 y_place)
{
	const GrnLayout *l = &link->ix->layout;
	GrnndList  *added = &link->added;
	uint32		y = grn_rec_ids(l, v)[y_place];

	if (has_edge(link, y))
		return true;
	/*
	 * An edge to a dead node would survive vacuum where vacuum has passed our
	 * page already.  A live one cannot be freed before we have finished,
	 * because vacuum waits for us (GRNND_WRITERS_LOCK).
	 */
	if (link->self->count + added->count >= l->degree ||
		(!link->what->dead_allowed && !is_live(link, y)))
		return false;
	added->ids[added->count] = y;
	if (l->code_bytes > 0)
	{
		added->factors[added->count] = grn_rec_factors(l, v)[y_place];
		memcpy(added->codes + added->count * l->code_bytes,
			   grn_rec_codes(l, v) + y_place * l->code_bytes, l->code_bytes);
	}
	added->count++;
	return true;
}

static int
choose_yield(const Link *link, const GrnRecord *v, bool may_add, bool force)
{
	const GrnLayout *l = &link->ix->layout;
	uint32		ids[2 * GRN_MAX_DEGREE];
	GrnYield	y = {
		.layout = l,
		.codec = &link->ix->codec,
		.v = v,
		.x = link->what->p->query,
		.x_ids = ids,
		.x_count = link->self->count + link->added.count,
		.may_add = may_add && link->self->count + link->added.count < l->degree,
		.force = force
	};

	memcpy(ids, grn_rec_ids(l, link->self), link->self->count * sizeof(uint32));
	memcpy(ids + link->self->count, link->added.ids, link->added.count * sizeof(uint32));
	return grn_yield(&y);
}

/* Step 2.  False: x is no more what it was. */
static bool
add_planned(Link *link)
{
	const GrnLayout *l = &link->ix->layout;
	GrnndEdit	e;
	bool		sound;

	if (link->added.count == 0)
		return true;
	grnnd_edit_begin(&e, link->index, link->ix, link->what->id);
	sound = e.rec->state == GRN_NODE && e.rec->version == link->what->version;
	if (sound)
	{
		GrnRecord  *rec = grnnd_edit_change(&e);

		for (uint32 i = 0; i < link->added.count && rec->count < l->degree; i++)
			if (grn_find_id(grn_rec_ids(l, rec), rec->count, link->added.ids[i]) < 0)
				grnnd_add_edge(l, rec, link->added.ids[i],
							   link->added.codes + i * l->code_bytes,
							   link->added.factors[i]);
		memcpy(link->self, rec, l->hot_bytes);
	}
	grnnd_edit_end(&e);
	link->added.count = 0;
	return sound;
}

/*
 * Step 3 for neighbour v: y is who gives way, GRN_INVALID_ID where v had room.
 * Unless lost is set, x must have an edge to y.  Returns whether v has an edge
 * to x now.
 */
static bool
link_back(const Link *link, uint32 v, uint16 version, uint32 y, bool lost)
{
	const GrnLayout *l = &link->ix->layout;
	/* of the record, for vacuum's point comes from a vector that may be rounded */
	const uint8_t *code = GRN_REC_PTR(link->self, l->off_code);
	GrnndEdit	e;
	int			place = -1;
	bool		linked = false;

	grnnd_edit_begin(&e, link->index, link->ix, v);
	if (e.rec->state == GRN_NODE && e.rec->version == version)
	{
		const uint32 *ids = grn_rec_ids(l, e.rec);

		if (grn_find_id(ids, e.rec->count, link->what->id) >= 0)
			linked = true;
		else if (e.rec->count < l->degree)
		{
			grnnd_add_edge(l, grnnd_edit_change(&e), link->what->id, code,
						   link->self->factor);
			linked = true;
		}
		else
		{
			if (y != GRN_INVALID_ID && (lost || has_edge(link, y)))
				place = grn_find_id(ids, e.rec->count, y);
			if (place < 0)
				place = choose_yield(link, e.rec, false, false);
			if (place >= 0)
			{
				grnnd_set_edge(l, grnnd_edit_change(&e), place, link->what->id,
							   code, link->self->factor);
				linked = true;
			}
		}
	}
	grnnd_edit_end(&e);
	return linked;
}

/*
 * Chooses who gives way in a full v that must take x, and plans x's edge to it.
 * Neighbours of v that are dead come last: they get no edge from x, which
 * their own last vacuum would not find, and what they lead to is vacuum's business
 * anyway.  *lost says that it was one of those.  GRN_INVALID_ID: nobody can.
 */
static uint32
plan_forced(Link *link, const GrnRecord *v, bool *lost)
{
	const uint32 *ids = grn_rec_ids(&link->ix->layout, v);
	int			place = choose_yield(link, v, true, true);

	*lost = false;
	if (place >= 0 && plan_edge(link, v, place))
		return ids[place];
	for (place = (int) v->count - 1; place >= 0; place--)
		if (plan_edge(link, v, place))
			return ids[place];
	*lost = true;
	for (place = (int) v->count - 1; place >= 0; place--)
		if (!is_live(link, ids[place]))
			return ids[place];
	return GRN_INVALID_ID;
}

/* Makes v take x, the rule aside. */
static bool
force_link(Link *link, uint32 v)
{
	for (int i = 0; i < FORCE_TRIES; i++)
	{
		uint32		y = GRN_INVALID_ID;
		bool		lost = false;

		if (grnnd_copy_record(link->index, link->ix, v, link->other, NULL) != GRN_NODE)
			return false;
		if (link->other->count == link->ix->layout.degree)
		{
			y = plan_forced(link, link->other, &lost);
			if (y == GRN_INVALID_ID || !add_planned(link))
				return false;
		}
		if (link_back(link, v, link->other->version, y, lost))
			return true;
	}
	return false;
}

bool
grnnd_link(Relation index, const GrnndIndex *ix, const GrnndLink *what)
{
	const GrnLayout *l = &ix->layout;
	uint32		nfrom = what->nfrom;
	Link		link = {.index = index, .ix = ix, .what = what};
	uint32	   *yields = palloc(Max(nfrom, 1) * sizeof(uint32));
	uint16	   *versions = palloc(Max(nfrom, 1) * sizeof(uint16));
	bool	   *wanted = palloc0(Max(nfrom, 1) * sizeof(bool));
	bool		linked = false;

	link.self = palloc(grnnd_copy_bytes(ix));
	link.other = palloc(grnnd_copy_bytes(ix));
	link.added.codes = palloc(l->degree * l->code_bytes + 1);
	if (grnnd_copy_record(index, ix, what->id, link.self, NULL) != GRN_NODE ||
		link.self->version != what->version)
		return false;

	for (uint32 i = 0; i < nfrom; i++)
	{
		const GrnRecord *v = link.other;

		Assert(what->from[i] != what->id);
		if (grnnd_copy_record(index, ix, what->from[i], link.other, NULL) != GRN_NODE)
			continue;
		versions[i] = v->version;
		yields[i] = GRN_INVALID_ID;
		wanted[i] = true;
		if (v->count == l->degree && grn_find_id(grn_rec_ids(l, v), v->count, what->id) < 0)
		{
			int			place = choose_yield(&link, v, true, false);

			if (place >= 0 && plan_edge(&link, v, place))
				yields[i] = grn_rec_ids(l, v)[place];
			else
				wanted[i] = place >= 0;
		}
	}
	grnnd_test_point("link-planned");
	if (!add_planned(&link))
		return false;
	for (uint32 i = 0; i < nfrom; i++)
	{
		grnnd_test_point("link-back");
		if (wanted[i] && link_back(&link, what->from[i], versions[i], yields[i],
									 false))
			linked = true;
	}
	for (uint32 i = 0; i < nfrom && !linked; i++)
		linked = force_link(&link, what->from[i]);
	return linked;
}
