/*
 * choose.c - the neighbors of a new node: searches for nearby nodes, chooses neighbors among
 * them, and chooses the neighbor that a full node gives up for the new node.
 */
#include "am/write/link.h"

#include <math.h>

#include "common/hashfn.h"

#include "am/index/index.h"
#include "space/rows.h"
#include "store/prune.h"

/*
 * A candidate counts as occluded only if it is nearer to a chosen neighbor than to the row by more
 * than this share of the squared distance. 12,000 SIFT rows, half inserted, recall at ef 40: .9887
 * with .04, .9903 with .08, .9888 with .16. 4,000 rows of log-normal lengths by inner product, a
 * quarter replaced eight times, recall at ef 20 and 40: .868 and .973 with 0, .892 and .978 with
 * .08.
 */
#define RULE_SLACK 0.08f

/*
 * The base of a new node's shares (grnnd_shares()): half of the degree, but at least FEW_LINKS if
 * the degree allows.  12,000 inserted sentences, degree 28, recall at ef 40: .939 with 10 links,
 * .957 with 14, .961 without a limit, at 3,678, 4,145 and 4,439 bytes of WAL.
 */
#define FEW_LINKS 14
/*
 * Most links from nodes none of whose neighbors occludes the new node, and without codes also from
 * other nodes.  10,000 rows, recall at ef 40 with half, this share and all of the degree: uniform
 * rows created empty .645, .668, .669, TF-IDF with three quarters deleted .759, .834, .842.
 */
#define MOST_LINKS(degree) ((degree) * 3 / 4)

/*
 * Width of an insert's search: EF_PER_DEGREE times the degree, and at least MIN_INSERT_EF. 12,000
 * SIFT rows, half inserted, recall at ef 40 and time of an insert: .9895 and 262 us at twice the
 * degree, .9903 and 365 us at four times, .9901 and 560 us at eight times. 80,000 sentences, degree
 * 28: .942 at three times, .944 at four, .945 at five.
 */
#define EF_PER_DEGREE 4
#define MIN_INSERT_EF 64

/*
 * An insert may visit a quarter of the dead nodes that a scan may.  With a scan's limit it reads
 * over four times the pages after most of 20,000 rows were deleted (test/t/write_dead.pl).
 */
#define INSERT_DEAD_SHARE 4

/* Inner products of sparse rows have no zero that a share could refer to. */
static float
rule_slack(const GrnndIndex *ix)
{
	return grn_form(ix->layout.form)->sparse && grn_compares_products(ix->key.metric->comparison) ? 0 : RULE_SLACK;
}

static bool
fills_by_products(const GrnndIndex *ix)
{
	return grn_fills_by_products(ix->key.metric->embedding, ix->key.metric->comparison, ix->layout.form);
}

void
grnnd_place(const GrnndIndex *ix, const float *x, float *place)
{
	if (place != x)
		memcpy(place, x, ix->meta.dim * sizeof(float));
	if (grn_is_scaled(ix->key.metric->embedding) && !grn_form(ix->layout.form)->sparse)
		grn_place(place, ix->meta.dim, ix->meta.norm_unit, ix->encoder.power);
}

void
grnnd_make_point(const GrnndIndex *ix, float *x, float error, GrnndPoint *p)
{
	memset(p, 0, sizeof(*p));
	p->x = x;
	/* an unfitted index has room for codes, too */
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
 * Makes the code of node id while fit_codes.c fills an index, as far as `ix` knows. An insert must
 * write complete edges, but neither the neighbor's record nor other edges to the neighbor need
 * have the code yet. So the code is made from the stored vector, as the fit does. (An insert that
 * knows of the end of the fit makes codes from unrounded rows; such records exist only after all
 * records have codes.)
 */
void
grnnd_code_while_filling(Relation index, const GrnndIndex *ix, uint32 id, uint8_t *code,
						 GrnFactor *factor)
{
	float	   *row = palloc(ix->meta.dim * sizeof(float));
	GrnRecord  *rec = palloc(grnnd_copy_bytes(ix));
	GrnndStore	store;

	memset(code, 0, ix->layout.code_bytes);
	*factor = (GrnFactor) {0};
	grnnd_store_init(&store, index, ix, CurrentMemoryContext);
	if (grn_read_record(&store.base, &ix->layout, id, rec, sizeof(*rec), row))
	{
		GrnndPoint	p;

		/* test after the read: the index was still filling when the record was read */
		if (grnnd_is_filling(index))
		{
			grnnd_make_point(ix, row, grnnd_rounding_error(ix, rec), &p);
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
	char		status;			/* for the hash table */
	bool		live;
	uint32		count;
	const uint32 *ids;			/* [count] the node's list */
	const float *row;			/* [dim] place in the graph's space */
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

/* Evictions that one insert plans: at most a twin or a chosen or shorter node each. */
#define MOST_EVICTED (2 * GRN_MAX_DEGREE + 8)

struct GrnndNear
{
	GrnndStore *store;
	const GrnndIndex *ix;
	const GrnndPoint *p;
	GrnSearch  *search;
	uint32		nfound;
	float	   *rows;			/* [nfound][dim] places of the found nodes; NULL until needed */
	float	   *own;			/* [dim] place of p */
	near_nodes_hash *nodes;		/* NULL until needed */
	uint32		nevicted;		/* edges that will go: from[i] -> to[i] */
	uint32		from[MOST_EVICTED];
	uint32		to[MOST_EVICTED];
};

uint32
grnnd_insert_ef(const GrnndIndex *ix)
{
	return Max(MIN_INSERT_EF, EF_PER_DEGREE * ix->layout.degree);
}

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
		.dead_limit = GRN_DEAD_LIMIT(ef / INSERT_DEAD_SHARE)
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

/* Writes the place of a stored vector: in the graph's space, or turned (own.c) if not scaled. */
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

/* The places of the found nodes, [nfound][dim]. */
static const float *
found_rows(GrnndNear *near)
{
	uint32		dim = near->ix->meta.dim;

	if (near->rows != NULL)
		return near->rows;
	near->rows = palloc_extended(((Size) near->nfound + 1) * dim * sizeof(float),
								 MCXT_ALLOC_HUGE);
	near->own = near->rows + (Size) near->nfound * dim;
	/* a place depends on the row's length, so that no error can be added to its distances */
	if (grn_is_scaled(near->ix->key.metric->embedding) && near->p->rec != NULL)
		place_stored(near->ix, GRN_REC_PTR(near->p->rec, near->ix->layout.off_vec), near->own);
	else if (grn_is_scaled(near->ix->key.metric->embedding))
		grnnd_place(near->ix, near->p->x, near->own);
	else
		grn_own_turn(&near->ix->layout, near->p->x, near->own);
	for (uint32 i = 0; i < near->nfound; i++)
		place_stored(near->ix, grn_search_vector(near->search, i), near->rows + (Size) i * dim);
	return near->rows;
}

typedef struct Reading
{
	const GrnndIndex *ix;
	GrnRecord  *rec;			/* [hot_bytes] */
	float	   *row;
} Reading;

static void
take_node(void *arg, const GrnRecord *rec, const void *vec)
{
	Reading    *r = arg;

	memcpy(r->rec, rec, r->ix->layout.hot_bytes);
	place_stored(r->ix, vec, r->row);
}

/* Returns a live node that the search has found or, if `read` is set, that is read now; or NULL. */
static const NearNode *
near_node(GrnndNear *near, uint32 id, bool read)
{
	const GrnLayout *l = &near->ix->layout;
	NearNode   *node;
	bool		known;

	if (near->nodes == NULL)
	{
		const float *rows = found_rows(near);

		near->nodes = near_nodes_create(CurrentMemoryContext, 2 * near->nfound, NULL);
		for (uint32 i = 0; i < near->nfound; i++)
		{
			node = near_nodes_insert(near->nodes, grn_search_found(near->search)[i].id, &known);
			node->live = true;
			node->ids = grn_search_list(near->search, i, &node->count);
			node->row = rows + (Size) i * near->ix->meta.dim;
		}
	}
	node = near_nodes_lookup(near->nodes, id);
	if (node == NULL && read)
	{
		Reading		r = {near->ix, palloc0(l->hot_bytes), palloc(near->ix->meta.dim * sizeof(float))};
		bool		there = near->store->base.visit(&near->store->base, id, take_node, &r);

		node = near_nodes_insert(near->nodes, id, &known);
		node->live = there && r.rec->state == GRN_NODE;
		node->count = node->live ? r.rec->count : 0;
		node->ids = grn_rec_ids(l, r.rec);
		node->row = r.row;
	}
	return node != NULL && node->live ? node : NULL;
}

void
grnnd_note_evicted(GrnndNear *near, uint32 from, uint32 to)
{
	Assert(near->nevicted < lengthof(near->from));
	near->from[near->nevicted] = from;
	near->to[near->nevicted++] = to;
}

static bool
is_evicted(const GrnndNear *near, uint32 from, uint32 to)
{
	for (uint32 i = 0; i < near->nevicted; i++)
		if (near->from[i] == from && near->to[i] == to)
			return true;
	return false;
}

/* The ids of a full list and their positions, in a hash table. */
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

/* Writes the distances [n] of place x from other places, in the space of the graph. */
static void
distances_from(const GrnndNear *near, const float *x, const float *const *others, uint32 n, float *out)
{
	grn_between(near->ix->layout.form, near->ix->key.metric->comparison, x, others, n, near->ix->meta.dim, out);
}

/*
 * The negative inner product, in norm units, of x and the row with that place.  10,000 rows created
 * empty, recall at ef 40 and of LIMIT 100 at ef 200 with lists filled by distance and by product:
 * log-normal lengths .883 and .894, .912 and .952; Pareto lengths .991 and .958, .997 and .981; two
 * models in one column .918 and .993, .975 and .994.
 */
static float
negative_product(const GrnndIndex *ix, const float *x, const float *place)
{
	double		norm2 = grn_norm2(place, ix->meta.dim);

	if (norm2 == 0)
		return 0;
	return (float) (-grn_dist->ip_f32(x, place, ix->meta.dim) *
					grn_placed_length((float) norm2, ix->encoder.power) / sqrt(norm2));
}

/*
 * Computes the distances [v->count] of the neighbors of v, node id, from v and from the point, by
 * rows of nodes that the search has found.  The other neighbors' distances are INFINITY, or if
 * `all` is set estimated by codes, or without codes computed from rows that are read now.  Lists
 * that are filled by products get those of v as `wanted`, INFINITY where no row is known.  Returns
 * false if v is gone.
 */
static bool
measure_neighbors(GrnndNear *near, uint32 id, const GrnRecord *v, bool all, float *to_v,
				  float *to_x, float *wanted, GrnEvict *choice)
{
	const GrnLayout *l = &near->ix->layout;
	const GrnCodec *codec = &near->ix->codec;
	const float *rows[GRN_MAX_DEGREE];
	float		from_v[GRN_MAX_DEGREE];
	float		from_x[GRN_MAX_DEGREE];
	uint32		at[GRN_MAX_DEGREE];
	uint32		n = 0;
	bool		estimate = all && grn_has_codes(codec);
	const NearNode *node = near_node(near, id, true);
	const float *row;

	if (node == NULL)
		return false;
	row = node->row;
	distances_from(near, near->own, &row, 1, &choice->x_to_v);
	choice->x_to_v += near->p->error2;
	if (estimate)
	{
		GrnCodeQuery query;

		grn_code_query_from_code(codec, GRN_REC_PTR(v, l->off_code), v->factor, &query);
		grn_estimate(&query, grn_rec_codes(l, v), grn_rec_factors(l, v), v->count, to_v);
		grn_estimate(near->p->query, grn_rec_codes(l, v), grn_rec_factors(l, v), v->count, to_x);
	}
	for (uint32 i = 0; i < v->count; i++)
	{
		node = near_node(near, grn_rec_ids(l, v)[i], all && !estimate);
		if (node != NULL)
		{
			rows[n] = node->row;
			at[n++] = i;
		}
		else if (!estimate)
			to_v[i] = to_x[i] = INFINITY;
	}
	distances_from(near, row, rows, n, from_v);
	distances_from(near, near->own, rows, n, from_x);
	for (uint32 i = 0; i < n; i++)
	{
		to_v[at[i]] = from_v[i];
		to_x[at[i]] = from_x[i] + near->p->error2;
	}
	if (!all && near->p->rec != NULL && fills_by_products(near->ix))
	{
		for (uint32 i = 0; i < v->count; i++)
			wanted[i] = INFINITY;
		for (uint32 i = 0; i < n; i++)
			wanted[at[i]] = negative_product(near->ix, row, rows[i]);
		choice->wanted = wanted;
		choice->x_wanted = negative_product(near->ix, row, near->own);
	}
	return true;
}

/*
 * Finds which neighbors of node e->v remain reachable without an edge from e->v: over[i] is
 * another neighbor with an edge to neighbor i, or GRN_INVALID_ID if the point has the edge.
 * one_way[i]: neighbor i is known to have no edge to e->v.
 */
static void
find_reached(GrnndNear *near, const GrnndEviction *e, bool *reached, bool *one_way, uint32 *over)
{
	const GrnLayout *l = &near->ix->layout;
	const uint32 *ids = grn_rec_ids(l, e->v);
	Places		places = {.ids = ids};

	StaticAssertStmt(PLACES >= 2 * GRN_MAX_DEGREE, "room for a list");
	for (uint32 i = 0; i < e->v->count; i++)
	{
		*place_of(&places, ids[i]) = (uint8) (i + 1);
		over[i] = GRN_INVALID_ID;
	}
	for (uint32 i = 0; i < e->v->count; i++)
	{
		const NearNode *node = near_node(near, ids[i], false);

		one_way[i] = node != NULL;
		for (uint32 k = 0; node != NULL && k < node->count; k++)
		{
			uint8		at = *place_of(&places, node->ids[k]);

			if (node->ids[k] == e->id)
				one_way[i] = false;
			if (at > 0 && !e->by_self && !reached[at - 1] && !is_evicted(near, ids[i], node->ids[k]))
			{
				reached[at - 1] = true;
				over[at - 1] = ids[i];
			}
		}
	}
	/* preferred, because an edge of the point depends on no other list */
	for (uint32 k = 0; k < e->self->count; k++)
	{
		uint8		at = *place_of(&places, grn_rec_ids(l, e->self)[k]);

		if (at > 0)
		{
			reached[at - 1] = true;
			over[at - 1] = GRN_INVALID_ID;
		}
	}
}

bool
grnnd_evict(GrnndNear *near, GrnndEviction *e)
{
	float		to_v[GRN_MAX_DEGREE];
	float		to_x[GRN_MAX_DEGREE];
	float		wanted[GRN_MAX_DEGREE];
	bool		reached[GRN_MAX_DEGREE] = {0};
	bool		one_way[GRN_MAX_DEGREE];
	uint32		over[GRN_MAX_DEGREE];
	GrnEvict	choice = {.level = e->level, .count = e->v->count, .to_v = to_v, .to_x = to_x,
		.slack = rule_slack(near->ix), .reached = reached, .one_way = one_way, .may_add = e->may_add};
	int			position;

	/* estimates are too coarse to refuse the point, and reading rows takes too long */
	if (!measure_neighbors(near, e->id, e->v, e->level != GRN_EVICT_UNOCCLUDED, to_v, to_x,
						   wanted, &choice))
		return false;
	find_reached(near, e, reached, one_way, over);
	position = grn_evict(&choice);
	if (position < 0)
		return false;
	e->position = (uint32) position;
	e->over = over[position];
	e->add = !reached[position];
	return true;
}

/* ---- choosing ---- */

GrnndShares
grnnd_shares(const GrnndIndex *ix)
{
	uint32		degree = ix->layout.degree;
	uint32		links = Max(degree / 2, Min(degree, FEW_LINKS));
	uint32		most = Max(links, MOST_LINKS(degree));

	return (GrnndShares) {.fill = links, .most_links = most,
						  .least_links = (ix->layout.code_bytes > 0 ? links : most) * 7 / 8,
						  .least_edges = links * 3 / 4};
}

GrnEdge
grnnd_list_edge(const GrnndIndex *ix, const GrnndList *list, uint32 i)
{
	return (GrnEdge) {.id = list->ids[i], .factor = list->factors[i],
					  .code = list->codes + (Size) i * ix->layout.code_bytes,
					  .sig = list->sigs + (Size) i * ix->layout.sig_bytes};
}

/* The stored values of the record for which neighbors are chosen. */
typedef struct Own
{
	const void *vec;			/* NULL: unknown */
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
 * Among candidates [n] with equal vectors, the rule keeps the first and refuses the rest. Moves a
 * candidate with this signature to the front, because a filtered search for the signature passes
 * through that node.
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
grnnd_choose_neighbors(GrnndNear *near, uint32 self, GrnndList *list)
{
	const GrnndIndex *ix = near->ix;
	GrnndShares shares = grnnd_shares(ix);
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
	const float **others = palloc(Max(nfound, 1) * sizeof(float *));
	uint32	   *keep = palloc(2 * shares.fill * sizeof(uint32));
	GrnPrune	prune = {
		.rows = rows,
		.at = from,
		.stride = dim,
		.dim = dim,
		.dist = dist,
		.slack = rule_slack(ix),
		.form = l->form,
		.comparison = ix->key.metric->comparison,
		.most = 2 * shares.fill,
		.fill = shares.fill
	};

	/*
	 * Distances between stored vectors of a rotated form contain the errors of both rows. Distances
	 * from p get the error of p's record, so that all distances contain two errors.
	 */
	for (uint32 i = 0; i < nfound; i++)
	{
		if (found[i].id == self)
			continue;
		/*
		 * A record with the same vector and another signature would occlude all other candidates,
		 * and filtered searches seldom pass through that record.
		 */
		if (mine.vec != NULL && ntwins <= GRNND_MOST_SIGNED && nfound - ntwins > 1 &&
			found[i].error == mine.error &&
			memcmp(grn_search_vector(search, i), mine.vec, l->vec_bytes) == 0)
			ntwins++;
		else
		{
			others[prune.n] = rows + (Size) i * dim;
			from[prune.n++] = i;
		}
	}
	distances_from(near, near->own, others, prune.n, dist);
	for (uint32 i = 0; i < prune.n; i++)
		dist[i] += p->error2;
	list->wanted = 0;
	if (fills_by_products(ix))
	{
		float	   *products = palloc(Max(nfound, 1) * sizeof(float));

		for (uint32_t i = 0; i < prune.n; i++)
			products[i] = negative_product(ix, p->x, others[i]);
		prune.wanted = products;
		/* of a new row; where neighbors have died, nearness counts more */
		if (p->rec != NULL)
			prune.fill = list->wanted = shares.most_links;
	}
	if (mine.vec != NULL)
		prefer_signature(l, search, mine.sig, dist, from, prune.n);
	list->count = grn_prune(&prune, keep, palloc(grn_prune_bytes(prune.n) + 1));
	list->near = Min(list->count, shares.least_edges);
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
}
