/*
 * prune.c - the relative-neighbourhood rule for single nodes: chooses a neighbour list, and the
 * neighbour to evict from a full list.
 */
#include "graph/stored/prune.h"

#include <float.h>
#include <math.h>

typedef struct Workspace
{
	uint32_t   *order;			/* candidates that are not fixed, nearest first */
	float	   *between;		/* [n] distances from one accepted neighbour */
	uint8_t    *refused;		/* [n] */
} Workspace;

size_t
grn_prune_bytes(uint32_t n)
{
	return (size_t) n * (sizeof(uint32_t) + sizeof(float) + 1);
}

/*
 * Sorts order[] by distance, and equal distances by index.  Insertion sort suits the short lists.
 */
static void
sort_by_distance(const float *dist, uint32_t *order, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
	{
		uint32_t	c = order[i];
		uint32_t	j = i;

		while (j > 0 && dist[order[j - 1]] > dist[c])
		{
			order[j] = order[j - 1];
			j--;
		}
		order[j] = c;
	}
}

static const float *
row_of(const GrnPrune *p, uint32_t candidate)
{
	return p->rows + (p->at != NULL ? p->at[candidate] : candidate) * p->stride;
}

/* Refuses the candidates that are nearer to a than to u, and farther from u than a. */
static void
occlude(const GrnPrune *p, uint32_t a, const uint32_t *order, uint32_t n,
		const Workspace *w)
{
	if (p->codec != NULL)
	{
		size_t		bytes = grn_code_bytes(p->codec->shape);
		GrnCodeQuery query;

		grn_code_query_from_code(p->codec, p->codes + a * bytes, p->factors[a], &query);
		grn_estimate(&query, p->codes, p->factors, p->n, w->between);
	}
	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t	c = order[i];

		if (w->refused[c] || p->dist[c] < p->dist[a])
			continue;
		if (p->codec == NULL)
			w->between[c] = grn_dist->l2_f32(row_of(p, a), row_of(p, c), p->dim);
		if (w->between[c] < p->dist[c] * (1 - p->slack))
			w->refused[c] = 1;
	}
}

uint32_t
grn_prune(const GrnPrune *p, uint32_t *keep, void *workspace)
{
	Workspace	w;
	uint32_t	norder = 0;
	uint32_t	nkeep = 0;
	uint32_t	room = p->most > p->nfixed ? p->most - p->nfixed : 0;
	uint32_t	fill = p->fill > p->nfixed ? p->fill - p->nfixed : 0;

	w.order = workspace;
	w.between = (float *) (w.order + p->n);
	w.refused = (uint8_t *) (w.between + p->n);
	for (uint32_t i = p->nfixed; i < p->n; i++)
	{
		w.order[norder++] = i;
		w.refused[i] = 0;
	}
	sort_by_distance(p->dist, w.order, norder);
	for (uint32_t a = 0; a < p->nfixed; a++)
		occlude(p, a, w.order, norder, &w);

	for (uint32_t i = 0; i < norder && nkeep < room; i++)
	{
		uint32_t	c = w.order[i];

		if (w.refused[c])
			continue;
		keep[nkeep++] = c;
		/* 2: chosen */
		w.refused[c] = 2;
		occlude(p, c, w.order + i + 1, norder - i - 1, &w);
	}
	for (uint32_t i = 0; i < norder && nkeep < room && nkeep < fill; i++)
		if (w.refused[w.order[i]] == 1)
			keep[nkeep++] = w.order[i];
	return nkeep;
}

/*
 * Without codes nothing is known of x's distances to v's neighbours, and of v's only those
 * that the caller knows.
 */
static int
yield_without_codes(const GrnYield *y, const uint32_t *ids, uint32_t count)
{
	int			best = -1;
	float		best_dist = y->x_to_v;
	uint32_t	mix = 0;

	/* (lists are nearest first as a rule) */
	for (uint32_t i = y->keep_far ? count * 3 / 4 : count; i-- > 0;)
	{
		int			at = grn_find_id(y->x_ids, y->x_count, ids[i]);

		if (at < 0)
			continue;
		if (y->v_to == NULL)
			return (int) i;
		if ((uint32_t) at < y->nknown && y->v_to[at] > best_dist)
		{
			best = (int) i;
			best_dist = y->v_to[at];
		}
	}
	if (best >= 0 || y->from == GRN_YIELD_SERVED || !y->may_add || count == 0)
		return best;
	if (y->from == GRN_YIELD_ANY)
		return (int) count - 1;
	/* were it always the last, each new row would take the place of the one before */
	for (uint32_t i = 0; i < y->x_count; i++)
		mix = mix * 31 + y->x_ids[i];
	return (int) (count - 1 - mix % ((count + 1) / 2));
}

int
grn_yield(const GrnYield *y)
{
	const GrnLayout *l = y->layout;
	const GrnRecord *v = y->v;
	const uint32_t *ids = grn_rec_ids(l, v);
	uint32_t	count = v->count;
	float		to_x[GRN_MAX_DEGREE];
	float		to_v[GRN_MAX_DEGREE];
	float		x_to_v;
	float		best_rank = -FLT_MAX;
	int			best = -1;
	bool		best_common = false;
	GrnCodeQuery vq;

	if (!grn_has_codes(y->codec))
		return yield_without_codes(y, ids, count);
	grn_code_query_from_code(y->codec, GRN_REC_PTR(v, l->off_code), v->factor, &vq);
	grn_estimate(&vq, grn_rec_codes(l, v), grn_rec_factors(l, v), count, to_v);
	grn_estimate(y->x, grn_rec_codes(l, v), grn_rec_factors(l, v), count, to_x);
	grn_estimate(y->x, GRN_REC_PTR(v, l->off_code), &v->factor, 1, &x_to_v);

	for (uint32_t i = 0; i < count; i++)
	{
		bool		common = grn_find_id(y->x_ids, y->x_count, ids[i]) >= 0;
		float		rank = y->from == GRN_YIELD_ANY ? to_v[i] : to_v[i] / fmaxf(to_x[i], FLT_MIN);

		if ((!common && !y->may_add) || (common && y->keep_far && to_v[i] > GRN_FAR * x_to_v))
			continue;
		if (to_v[i] <= x_to_v)
		{
			if (y->from != GRN_YIELD_ANY)
				continue;
			common = false;		/* no preference: the farthest */
		}
		if (y->from == GRN_YIELD_SERVED && !common && to_x[i] >= to_v[i])
			continue;
		if (common != best_common ? common : rank > best_rank)
		{
			best = (int) i;
			best_rank = rank;
			best_common = common;
		}
	}
	return best;
}

bool
grn_exchange_occludes(const GrnExchange *e)
{
	for (uint32_t i = 0; i < e->count; i++)
		if (e->to_v[i] < e->x_to_v && e->to_x[i] < e->x_to_v * (1 - e->slack))
			return true;
	return false;
}

int
grn_exchange(const GrnExchange *e)
{
	int			best = -1;
	int			best_kind = 0;

	for (uint32_t i = 0; i < e->count; i++)
	{
		bool		far = e->to_v[i] > GRN_FAR * e->x_to_v;
		int			kind = !far << 3 | e->reached[i] << 2 | (e->to_x[i] < e->to_v[i]) << 1 |
			e->one_way[i];

		if (e->to_v[i] == INFINITY || e->to_v[i] <= e->x_to_v || (!e->reached[i] && !e->may_add))
			continue;
		if (best < 0 || (kind != best_kind ? kind > best_kind : e->to_v[i] > e->to_v[best]))
		{
			best = (int) i;
			best_kind = kind;
		}
	}
	return best;
}
