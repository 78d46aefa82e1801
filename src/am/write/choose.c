/*
 * choose.c - a new node's neighbours: the search for them, what it tells of the nodes around, and
 * which of those are chosen.
 */
#include "am/write/choose.h"

#include "common/hashfn.h"

#include "am/cache.h"
#include "am/page.h"
#include "graph/space.h"
#include "graph/stored/prune.h"

/*
 * Dead nodes that a search for neighbours may visit.  Every entry point is among what it
 * visits: a list full of dead nodes comes before them at most.
 */
#define DEAD_LIMIT(ef) (2 * (ef) + 64)

/*
 * The rule keeps out only what is nearer to another neighbour by this share: so the first
 * neighbours are nearer.
 */
#define RULE_SLACK 0.08f

/* Records of one vector whose signatures differ: see MOST_SIGNED of insert.c. */
#define MOST_TWINS 3

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
void
grnnd_code_while_filling(Relation index, const GrnndIndex *ix, uint32 id, uint8_t *code,
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

/* ---- what is known of the nodes around ---- */

typedef struct NearNode
{
	uint32		id;				/* the key */
	char		status;			/* the hash table's */
	uint32		count;
	const uint32 *ids;			/* [count] its list */
	const float *row;			/* [dim] where it lies in the graph's space */
} NearNode;

#define SH_PREFIX near_nodes
#define SH_ELEMENT_TYPE NearNode
#define SH_KEY_TYPE uint32
#define SH_KEY id
#define SH_HASH_KEY(tb, key) murmurhash32(key)
#define SH_EQUAL(tb, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

struct GrnndNear
{
	GrnndStore *store;
	const GrnndIndex *ix;
	const GrnndPoint *p;
	GrnSearch  *search;
	uint32		nfound;
	float	   *rows;			/* [nfound][dim] where they lie; NULL until somebody asks */
	float	   *own;			/* [dim] where p lies */
	near_nodes_hash *nodes;		/* NULL until somebody asks */
	uint32		ngone;			/* edges that are to go: neighbours that are to take p, */
	uint32		from[GRN_MAX_DEGREE];
	uint32		to[GRN_MAX_DEGREE]; /* and what gives way in them */
};

GrnndNear *
grnnd_find_near(GrnndStore *store, const GrnndPoint *p, uint32 ef, const GrnndEntries *entries)
{
	GrnndNear  *near = palloc0(sizeof(GrnndNear));
	GrnSearchParams params = {
		.layout = &store->ix->layout,
		.codec = &store->ix->codec,
		.metric = store->ix->key.metric,
		.ef = ef,
		.keep_vectors = true,
		.by_row = true,
		.dead_limit = DEAD_LIMIT(ef)
	};

	near->store = store;
	near->ix = store->ix;
	near->p = p;
	near->search = grn_search_begin(&params, &store->base, p->x);
	grn_search_entries(near->search, entries->ids, entries->codes, entries->factors,
					   entries->count);
	near->nfound = grn_search_run(near->search);
	return near;
}

GrnSearch *
grnnd_near_search(const GrnndNear *near, uint32 *nfound)
{
	*nfound = near->nfound;
	return near->search;
}

void
grnnd_near_end(GrnndNear *near)
{
	if (near->nodes != NULL)
		near_nodes_destroy(near->nodes);
	if (near->rows != NULL)
		pfree(near->rows);
	grn_search_end(near->search);
	pfree(near);
}

/*
 * Writes where a stored vector lies, for distances: in the graph's space, or if rows lie there as
 * they are, in what own.h calls turned.
 */
static void
place_stored(const GrnndIndex *ix, const void *vec, float *row)
{
	if (grn_is_scaled(ix->key.metric->embedding))
	{
		grn_own_load(&ix->layout, vec, row);
		grnnd_place(ix, row, row);
	}
	else
		grn_own_load_turned(&ix->layout, vec, row);
}

/* Where the nodes that were found lie, [nfound][dim]. */
static const float *
found_rows(GrnndNear *near)
{
	uint32		dim = near->ix->meta.dim;

	if (near->rows != NULL)
		return near->rows;
	near->rows = palloc_extended(((Size) near->nfound + 1) * dim * sizeof(float),
								 MCXT_ALLOC_HUGE);
	near->own = near->rows + (Size) near->nfound * dim;
	if (grn_is_scaled(near->ix->key.metric->embedding))
		grnnd_place(near->ix, near->p->x, near->own);
	else
		grn_own_turn(&near->ix->layout, near->p->x, near->own);
	for (uint32 i = 0; i < near->nfound; i++)
		place_stored(near->ix, grn_search_vector(near->search, i), near->rows + (Size) i * dim);
	return near->rows;
}

/* What the search has met of a node, or NULL. */
static const NearNode *
near_node(GrnndNear *near, uint32 id)
{
	NearNode   *node;
	bool		known;

	if (near->nodes == NULL)
	{
		const float *rows = found_rows(near);

		near->nodes = near_nodes_create(CurrentMemoryContext, 2 * near->nfound, NULL);
		for (uint32 i = 0; i < near->nfound; i++)
		{
			node = near_nodes_insert(near->nodes, grn_search_found(near->search)[i].id, &known);
			node->ids = grn_search_list(near->search, i, &node->count);
			node->row = rows + (Size) i * near->ix->meta.dim;
		}
	}
	node = near_nodes_lookup(near->nodes, id);
	return node;
}

void
grnnd_near_goes(GrnndNear *near, uint32 from, uint32 to)
{
	Assert(near->ngone < lengthof(near->from));
	near->from[near->ngone] = from;
	near->to[near->ngone++] = to;
}

static bool
is_to_go(const GrnndNear *near, uint32 from, uint32 to)
{
	for (uint32 i = 0; i < near->ngone; i++)
		if (near->from[i] == from && near->to[i] == to)
			return true;
	return false;
}

/* A full list's ids and their positions, to be found by id. */
#define PLACES 256				/* twice GRN_MAX_DEGREE and a power of two */

typedef struct Places
{
	const uint32 *ids;
	uint8		at[PLACES];		/* a position + 1 */
} Places;

static uint8 *
place_of(Places *p, uint32 id)
{
	uint32		h = murmurhash32(id) % PLACES;

	while (p->at[h] != 0 && p->ids[p->at[h] - 1] != id)
		h = (h + 1) % PLACES;
	return &p->at[h];
}

int
grnnd_exchange(GrnndNear *near, uint32 id, const GrnRecord *v, const GrnRecord *self, float slack,
			   bool strict, uint32 *over, bool *add)
{
	const GrnLayout *l = &near->ix->layout;
	const NearNode *node = near_node(near, id);
	const uint32 *ids = grn_rec_ids(l, v);
	uint32		dim = near->ix->meta.dim;
	float		to_v[GRN_MAX_DEGREE];
	float		to_x[GRN_MAX_DEGREE];
	bool		reached[GRN_MAX_DEGREE] = {0};
	bool		one_way[GRN_MAX_DEGREE];
	uint32		overs[GRN_MAX_DEGREE];
	GrnExchange e = {.count = v->count, .to_v = to_v, .to_x = to_x, .slack = slack,
		.reached = reached, .one_way = one_way, .may_add = self->count + 2 <= l->degree};
	Places		places = {.ids = ids};
	const float *v_row;
	int			position;

	StaticAssertStmt(PLACES >= 2 * GRN_MAX_DEGREE, "room for a list");
	if (node == NULL)
		return -1;
	v_row = node->row;
	e.x_to_v = grn_dist->l2_f32(near->own, v_row, dim) + near->p->error2;
	for (uint32 i = 0; i < v->count; i++)
	{
		node = near_node(near, ids[i]);
		to_v[i] = to_x[i] = INFINITY;
		if (node != NULL)
		{
			to_v[i] = grn_dist->l2_f32(v_row, node->row, dim);
			to_x[i] = grn_dist->l2_f32(near->own, node->row, dim) + near->p->error2;
		}
	}
	if (strict && grn_exchange_occludes(&e))
		return -1;

	for (uint32 i = 0; i < v->count; i++)
	{
		*place_of(&places, ids[i]) = (uint8) (i + 1);
		overs[i] = GRN_INVALID_ID;
	}
	for (uint32 i = 0; i < v->count; i++)
	{
		node = near_node(near, ids[i]);
		one_way[i] = node != NULL;
		for (uint32 k = 0; node != NULL && k < node->count; k++)
		{
			uint8		at = *place_of(&places, node->ids[k]);

			if (node->ids[k] == id)
				one_way[i] = false;
			if (at > 0 && !reached[at - 1] && !is_to_go(near, ids[i], node->ids[k]))
			{
				reached[at - 1] = true;
				overs[at - 1] = ids[i];
			}
		}
	}
	/* an edge of x serves as well, and needs nobody else to stay */
	for (uint32 k = 0; k < self->count; k++)
	{
		uint8		at = *place_of(&places, grn_rec_ids(l, self)[k]);

		if (at > 0)
		{
			reached[at - 1] = true;
			overs[at - 1] = GRN_INVALID_ID;
		}
	}
	position = grn_exchange(&e);
	if (position >= 0)
	{
		*over = overs[position];
		*add = !reached[position];
	}
	return position;
}

/* ---- choosing ---- */

/*
 * Where rows lie in the graph's space as they are, edges may lead both ways: x has those that have
 * it.  (Rows that are scaled lie around the longest of them, so most of their candidates occlude
 * each other.)
 *
 * Otherwise a new node begins with few edges of its own.  What it lacks at first are links to it,
 * each of which adds an edge to its own list where the neighbour was full, and later rows fill the
 * rest.  Without codes only few neighbours give way to it, so its own list is longer then.
 * test/bench/decisions.md has other numbers.
 */
GrnndShares
grnnd_shares(const GrnndIndex *ix, bool mutual)
{
	uint32		degree = ix->layout.degree;
	GrnndShares s;

	if (mutual && !grn_is_scaled(ix->key.metric->embedding))
		s = (GrnndShares) {.own = degree * 3 / 8, .asked = degree, .filled = degree / 2,
						   .links = degree / 2, .least = degree * 7 / 16, .slack = RULE_SLACK,
						   .mutual = true};
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
grnnd_choose_neighbours(GrnndNear *near, uint32 self, const GrnndShares *shares,
						GrnndList *list)
{
	const GrnndIndex *ix = near->ix;
	const GrnndPoint *p = near->p;
	const GrnLayout *l = &ix->layout;
	GrnSearch  *search = near->search;
	const GrnFound *found = grn_search_found(search);
	const float *rows = found_rows(near);
	uint32		nfound = near->nfound;
	uint32		dim = ix->meta.dim;
	uint32		ntwins = 0;
	Own			mine = l->sig_bytes > 0 ? own_of(l, search, nfound, p, self) : (Own) {0};
	float	   *dist = palloc(Max(nfound, 1) * sizeof(float));
	uint32	   *from = palloc(Max(nfound, 1) * sizeof(uint32));
	uint32	   *keep = palloc(shares->asked * sizeof(uint32));
	GrnPrune	prune = {
		.rows = rows,
		.at = from,
		.stride = dim,
		.dim = dim,
		.dist = dist,
		.slack = shares->slack,
		.most = shares->asked,
		.fill = shares->filled
	};

	/*
	 * Stored vectors of a rotated form are as far from each other as their rows, and both errors
	 * more.  So that all distances have two errors, those from p get its own.
	 */
	for (uint32 i = 0; i < nfound; i++)
	{
		if (found[i].id == self)
			continue;
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
			dist[prune.n] = grn_dist->l2_f32(near->own, rows + (Size) i * dim, dim) + p->error2;
			from[prune.n++] = i;
		}
	}
	if (mine.vec != NULL)
		prefer_signature(l, search, mine.sig, dist, from, prune.n);
	list->count = grn_prune(&prune, keep, palloc(grn_prune_bytes(prune.n) + 1));
	list->own = Min(list->count, shares->own);
	list->codes = palloc(list->count * l->code_bytes + 1);
	list->sigs = palloc(list->count * l->sig_bytes + 1);
	for (uint32 i = 0; i < list->count; i++)
	{
		uint32		f = from[keep[i]];
		const uint8_t *code = grn_search_code(search, f, &list->factors[i]);

		list->ids[i] = found[f].id;
		memcpy(list->sigs + i * l->sig_bytes, code + l->code_bytes, l->sig_bytes);
		if (ix->meta.fit_state == GRNND_FILLING)
			grnnd_code_while_filling(near->store->index, ix, list->ids[i],
									 list->codes + i * l->code_bytes, &list->factors[i]);
		else if (l->code_bytes > 0)
			memcpy(list->codes + i * l->code_bytes, code, l->code_bytes);
	}
	list->far = false;
	for (uint32 i = 0; i < list->count; i++)
		list->far |= dist[keep[i]] > GRN_FAR * dist[Min(shares->own, prune.n - 1)];
	if (!grn_has_codes(&ix->codec))
	{
		uint32		n = list->count;

		list->to_p = palloc((n + 1) * sizeof(float));
		list->between = palloc((n * n + 1) * sizeof(float));
		for (uint32 i = 0; i < n; i++)
		{
			list->to_p[i] = dist[keep[i]];
			for (uint32 j = 0; j < n; j++)
				list->between[i * n + j] = grn_dist->l2_f32(rows + (Size) from[keep[i]] * dim,
															rows + (Size) from[keep[j]] * dim, dim);
		}
	}
}
