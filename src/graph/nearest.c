/*
 * nearest.c - finds the nearest vertices of every vertex, by searches of the graph or by
 * comparing all pairs.
 *
 * A search keeps the ef nearest vertices found and expands the nearest unexpanded vertex.  The
 * search begins at the vertex, so most results are within two edges.  The entries are
 * candidates from the start, because the vertex's component of the graph may have fewer than k
 * vertices.
 *
 * Comparisons of all pairs use blocks: inner products of a block of vertices with a panel of
 * vertices, if the metric's comparison follows from inner products except for rounding.  Pairs
 * that may be near enough, by a bound of the rounding error, are compared again exactly.
 * Lists are therefore the same as from exact comparisons.
 */
#include "graph/graph.h"

#include <math.h>
#include <string.h>

#include "memory/memory.h"
#include "space/kernels/linear.h"

/*
 * A search that has seen more ids zeroes the whole set instead of single words.  Among 40 million
 * rows, with two processes at work, a search takes 73 us, and 130 us if it zeroes the whole set.
 * 5,000 sentences take the same time with 1,024 to 32,768 ids.
 */
#define MOST_SEEN 16384

/*
 * Bytes of a row to prefetch.  The processor's own prefetcher finds the following bytes.  Index and
 * lists of 20,000 sentences take 5.5 s of processor time, without prefetch 5.9; of 5,000 as long.
 */
#define PREFETCH_BYTES 512

/*
 * A panel's bytes of floats, which must fit the second-level cache, and its most rows.  Exact lists
 * of 5,000 sentences take the same time with half and twice of both.
 */
#define PANEL_BYTES (256 * 1024)
#define MOST_PANEL_ROWS 256

/*
 * A sum of n products of floats has an error of at most n u times the sum of absolute values,
 * in any order, u = 2^-24.  MORE_TERMS terms cover the operations after the sum.
 */
#define UNIT_ROUNDING (1.0f / (1 << 24))
#define MORE_TERMS 16

/*
 * A candidate as an integer that orders as (distance, id) does.  The lowest bit is 1 if the
 * candidate is expanded.
 */
typedef uint64_t CandidateKey;

#define EXPANDED UINT64_C(1)

static inline CandidateKey
make_key(float compared, uint32_t id)
{
	uint32_t	bits;

	compared += 0.0f;			/* turns -0 into 0 */
	memcpy(&bits, &compared, sizeof(bits));
	bits = bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
	return (CandidateKey) bits << 32 | (CandidateKey) id << 1;
}

static inline GrnNear
near_of(CandidateKey key)
{
	uint32_t	bits = (uint32_t) (key >> 32);
	GrnNear		near = {.id = (uint32_t) key >> 1};

	bits = bits >> 31 ? bits & ~(UINT32_C(1) << 31) : ~bits;
	memcpy(&near.compared, &bits, sizeof(bits));
	return near;
}

/*
 * Inserts a key into the `most` least keys, which are sorted.  Returns the key's position, or
 * `most` if all keys are less.
 */
static inline uint32_t
offer(CandidateKey *keys, uint32_t *count, uint32_t most, CandidateKey key)
{
	uint32_t	low = 0;
	uint32_t	high = *count;

	if (high == most && key >= keys[most - 1])
		return most;
	while (low < high)
	{
		uint32_t	middle = (low + high) / 2;

		if (keys[middle] < key)
			low = middle + 1;
		else
			high = middle;
	}
	if (*count < most)
		(*count)++;
	memmove(keys + low + 1, keys + low, (*count - 1 - low) * sizeof(*keys));
	keys[low] = key;
	return low;
}

/* ---- comparisons of one vertex with others ---- */

typedef struct VertexQuery
{
	const float *floats;
	const void *made;			/* result of grn_query_make(), or NULL */
} VertexQuery;

static size_t
made_bytes(const GrnNearest *n)
{
	return grn_aligned(grn_query_bytes(n->comparison, n->rows->form, n->rows->dim));
}

/*
 * Makes the query of vertex v.  floats [dim] and made [made_bytes()] are room for forms of the
 * row that the query needs in addition to the row.
 */
static VertexQuery
make_query(const GrnNearest *n, size_t v, float *floats, void *made)
{
	const GrnRows *rows = n->rows;
	VertexQuery q = {grn_row_query(rows, grn_row(rows, v), floats), NULL};

	if (made_bytes(n) > 0 && grn_query_make(rows->form, q.floats, rows->dim, made))
		q.made = made;
	return q;
}

static inline float
compare(const GrnNearest *n, const VertexQuery *q, size_t v)
{
	const GrnRows *rows = n->rows;
	const void *row = grn_row(rows, v);

	return q->made ? grn_query_compare(n->comparison, rows->form, q->made, row, rows->dim)
		: grn_compare(n->comparison, rows->form, q->floats, row, rows->dim);
}

static void
prefetch(const GrnRows *rows, uint32_t v)
{
	const char *row = grn_row(rows, v);
	size_t		bytes = rows->row_bytes < PREFETCH_BYTES ? rows->row_bytes : PREFETCH_BYTES;

	for (size_t i = 0; i < bytes; i += 64)
		__builtin_prefetch(row + i);
}

/* ---- searches ---- */

typedef struct Search
{
	const GrnNearest *n;
	VertexQuery query;
	float	   *floats;			/* [dim] */
	char	   *made;
	uint64_t   *set;			/* [n bits] 1 for each seen vertex */
	uint32_t   *seen;			/* [MOST_SEEN] seen vertices; nseen may be larger */
	uint32_t	nseen;
	CandidateKey *beam;			/* [ef], sorted */
	uint32_t	count;
} Search;

static size_t
place_search_arrays(const GrnNearest *n, void *work, Search *s)
{
	GrnArena	a = work ? grn_arena(work) : (GrnArena) {NULL, 0};

	s->set = grn_take(&a, (n->rows->n + 63) / 64, sizeof(*s->set));
	s->seen = grn_take(&a, MOST_SEEN, sizeof(*s->seen));
	s->beam = grn_take(&a, n->ef, sizeof(*s->beam));
	s->floats = grn_take(&a, n->rows->dim, sizeof(*s->floats));
	s->made = grn_take(&a, 1, made_bytes(n));
	return grn_arena_bytes(&a);
}

size_t
grn_nearest_search_bytes(const GrnNearest *n)
{
	Search		s;

	return place_search_arrays(n, NULL, &s);
}

/* Adds a vertex to the set.  Returns false if the set has the vertex already. */
static inline bool
add_seen(Search *s, uint32_t v)
{
	uint64_t	bit = UINT64_C(1) << v % 64;

	if (s->set[v / 64] & bit)
		return false;
	s->set[v / 64] |= bit;
	if (s->nseen < MOST_SEEN)
		s->seen[s->nseen] = v;
	s->nseen++;
	return true;
}

static void
clear_seen(Search *s)
{
	if (s->nseen > MOST_SEEN)
		memset(s->set, 0, (s->n->rows->n + 63) / 64 * sizeof(*s->set));
	else
		for (uint32_t i = 0; i < s->nseen; i++)
			s->set[s->seen[i] / 64] = 0;
}

/*
 * Compares the unseen vertices among ids and offers them to the beam.  Returns the least
 * position that a vertex has received.
 */
static uint32_t
offer_all(Search *s, const uint32_t *ids, uint32_t count)
{
	const GrnNearest *n = s->n;
	uint32_t	fresh[GRN_MAX_DEGREE];
	uint32_t	nfresh = 0;
	uint32_t	least = n->ef;

	for (uint32_t i = 0; i < count; i++)
		if (add_seen(s, ids[i]))
		{
			prefetch(n->rows, ids[i]);
			fresh[nfresh++] = ids[i];
		}
	for (uint32_t i = 0; i < nfresh; i++)
	{
		CandidateKey key = make_key(compare(n, &s->query, fresh[i]), fresh[i]);
		uint32_t	at = offer(s->beam, &s->count, n->ef, key);

		if (at < least)
			least = at;
	}
	return least;
}

static uint32_t
expand(Search *s, uint32_t v)
{
	const GrnGraph *graph = s->n->graph;

	return offer_all(s, graph->ids + (size_t) v * graph->degree, graph->counts[v]);
}

uint32_t
grn_nearest_search(const GrnNearest *n, void *work, uint32_t v, bool own, GrnNear *out)
{
	Search		s = {.n = n};
	uint32_t	next = 0;		/* all candidates before this position are expanded */
	uint32_t	found;

	place_search_arrays(n, work, &s);
	s.query = make_query(n, v, s.floats, s.made);
	add_seen(&s, v);
	if (own)
		offer(s.beam, &s.count, n->ef, make_key(compare(n, &s.query, v), v) | EXPANDED);
	expand(&s, v);
	offer_all(&s, n->entries, n->nentries);
	while (next < s.count)
	{
		uint32_t	least;

		if (s.beam[next] & EXPANDED)
		{
			next++;
			continue;
		}
		s.beam[next] |= EXPANDED;
		least = expand(&s, near_of(s.beam[next]).id);
		if (least < next)
			next = least;
	}
	clear_seen(&s);
	found = s.count < n->k ? s.count : n->k;
	for (uint32_t i = 0; i < found; i++)
		out[i] = near_of(s.beam[i]);
	return found;
}

_Static_assert(GRN_MAX_ENTRIES <= GRN_MAX_DEGREE, "offer_all() takes entries as it takes lists");
_Static_assert(GRN_MAX_NODES <= UINT32_C(1) << 31, "a key has 31 bits for an id");

/* ---- comparisons of all pairs ---- */

typedef struct Exact
{
	const GrnNearest *n;
	size_t		begin;
	uint32_t	count;
	const bool *own;
	uint32_t	panel_rows;
	float	   *floats;			/* [count][dim] */
	char	   *made;			/* [count][made_bytes()] */
	VertexQuery queries[GRN_NEAREST_BLOCK];
	CandidateKey *keys;			/* [count][k], sorted */
	uint32_t	counts[GRN_NEAREST_BLOCK];
	float		worst[GRN_NEAREST_BLOCK];	/* largest distance of a full list, otherwise infinite */
	/* The following fields are used if inner products serve. */
	float		norms[GRN_NEAREST_BLOCK];
	float	   *panel;			/* [panel_rows][dim] */
	float	   *panel_norms;	/* [panel_rows] */
	float	   *products;		/* [count][panel_rows] */
} Exact;

/* Whether comparisons use inner products.  Rows of bits are compared faster directly. */
static bool
products_serve(const GrnNearest *n)
{
	return grn_compares_by_product(n->comparison) && !grn_form(n->rows->form)->direct;
}

static size_t
place_exact_arrays(const GrnNearest *n, void *work, Exact *e)
{
	GrnArena	a = work ? grn_arena(work) : (GrnArena) {NULL, 0};
	size_t		dim = n->rows->dim;
	size_t		rows = PANEL_BYTES / (dim * sizeof(float)) / 4 * 4;
	size_t		for_products;

	e->panel_rows = (uint32_t) (rows < 4 ? 4 : rows > MOST_PANEL_ROWS ? MOST_PANEL_ROWS : rows);
	for_products = products_serve(n) ? e->panel_rows : 0;
	e->floats = grn_take(&a, GRN_NEAREST_BLOCK * dim, sizeof(float));
	e->made = grn_take(&a, GRN_NEAREST_BLOCK, made_bytes(n));
	e->keys = grn_take(&a, GRN_NEAREST_BLOCK * (size_t) n->k, sizeof(CandidateKey));
	e->panel = grn_take(&a, for_products * dim, sizeof(float));
	e->panel_norms = grn_take(&a, for_products, sizeof(float));
	e->products = grn_take(&a, for_products * GRN_NEAREST_BLOCK, sizeof(float));
	return grn_arena_bytes(&a);
}

size_t
grn_nearest_exact_bytes(const GrnNearest *n)
{
	Exact		e;

	return place_exact_arrays(n, NULL, &e);
}

/* Compares vertex i of the block with v, and offers v to the list of i. */
static inline void
offer_exact(Exact *e, uint32_t i, size_t v)
{
	uint32_t	k = e->n->k;
	CandidateKey *keys = e->keys + (size_t) i * k;
	float		compared;

	if (v == e->begin + i && !e->own[i])
		return;
	compared = compare(e->n, &e->queries[i], v);
	if (compared > e->worst[i])
		return;
	offer(keys, &e->counts[i], k, make_key(compared, (uint32_t) v));
	if (e->counts[i] == k)
		e->worst[i] = near_of(keys[k - 1]).compared;
}

static void
compare_panel(Exact *e, size_t from, uint32_t rows)
{
	for (size_t v = from; v < from + rows; v++)
		for (uint32_t i = 0; i < e->count; i++)
			offer_exact(e, i, v);
}

/* Does the same for a panel, but skips pairs that are too far by their inner products. */
static void
multiply_panel(Exact *e, size_t from, uint32_t rows)
{
	const GrnNearest *n = e->n;
	uint32_t	dim = n->rows->dim;
	float		slack = 4 * (dim + MORE_TERMS) * UNIT_ROUNDING;
	GrnProduct	product = {.a = e->floats, .lda = dim, .b = e->panel, .ldb = dim, .len = dim,
		.out = e->products, .ldo = e->panel_rows};

	for (uint32_t j = 0; j < rows; j++)
	{
		float	   *x = e->panel + (size_t) j * dim;
		const float *values = grn_row_values(n->rows, grn_row(n->rows, from + j), x);

		if (values != x)
			memcpy(x, values, dim * sizeof(float));
		e->panel_norms[j] = grn_dist->ip_f32(x, x, dim);
	}
	grn_multiply(&product, e->count, rows);
	for (uint32_t i = 0; i < e->count; i++)
	{
		const float *products = e->products + (size_t) i * e->panel_rows;
		float		norm = e->norms[i];

		for (uint32_t j = 0; j < rows; j++)
		{
			float		other = e->panel_norms[j];
			float		least = grn_compared_by_product(n->comparison, norm, other, products[j]) -
				slack * (norm + other);

			if (!(least > e->worst[i]))
				offer_exact(e, i, from + j);
		}
	}
}

void
grn_nearest_exact(const GrnNearest *n, void *work, size_t begin, uint32_t count,
				  const bool *own, GrnNear *out, uint32_t *counts)
{
	Exact		e = {.n = n, .begin = begin, .count = count, .own = own};
	uint32_t	dim = n->rows->dim;
	bool		by_products = products_serve(n);

	place_exact_arrays(n, work, &e);
	for (uint32_t i = 0; i < count; i++)
	{
		float	   *floats = e.floats + (size_t) i * dim;

		e.queries[i] = make_query(n, begin + i, floats, e.made + i * made_bytes(n));
		if (e.queries[i].floats != floats)
			memcpy(floats, e.queries[i].floats, dim * sizeof(float));
		e.queries[i].floats = floats;
		e.norms[i] = by_products ? grn_dist->ip_f32(floats, floats, dim) : 0;
		e.worst[i] = INFINITY;
	}
	for (size_t from = 0; from < n->rows->n; from += e.panel_rows)
	{
		size_t		left = n->rows->n - from;
		uint32_t	rows = left < e.panel_rows ? (uint32_t) left : e.panel_rows;

		if (by_products)
			multiply_panel(&e, from, rows);
		else
			compare_panel(&e, from, rows);
	}
	for (uint32_t i = 0; i < count; i++)
	{
		counts[i] = e.counts[i];
		for (uint32_t j = 0; j < e.counts[i]; j++)
			out[(size_t) i * n->k + j] = near_of(e.keys[(size_t) i * n->k + j]);
	}
}
