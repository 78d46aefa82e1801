/*
 * prune.c - the relative-neighborhood rule for single nodes: chooses a neighbor list, and the
 * neighbor to evict from a full list.
 */
#include "store/prune.h"

#include <math.h>

typedef struct Workspace
{
	const float **rows;			/* [n] rows of `open` */
	uint32_t   *order;			/* candidates that are not fixed, nearest first */
	uint32_t   *open;			/* candidates that an accepted neighbor may refuse */
	float	   *between;		/* [n] distances from the neighbor, of all candidates or of `open` */
	uint8_t    *refused;		/* [n] */
} Workspace;

size_t
grn_prune_bytes(uint32_t n)
{
	return (size_t) n * (sizeof(float *) + 2 * sizeof(uint32_t) + sizeof(float) + 1);
}

/* Sorts order[] by distance, then index, by insertion, because lists are short. */
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
	uint32_t	nopen = 0;

	if (p->codec != NULL)
	{
		size_t		bytes = grn_code_bytes(p->codec->shape);
		GrnCodeQuery query;

		grn_code_query_from_code(p->codec, p->codes + a * bytes, p->factors[a], &query);
		grn_estimate(&query, p->codes, p->factors, p->n, w->between);
	}
	for (uint32_t i = 0; i < n; i++)
		if (!w->refused[order[i]] && !(p->dist[order[i]] < p->dist[a]))
			w->open[nopen++] = order[i];
	if (p->codec == NULL)
	{
		for (uint32_t i = 0; i < nopen; i++)
			w->rows[i] = row_of(p, w->open[i]);
		grn_between(p->form, p->comparison, row_of(p, a), w->rows, nopen, p->dim, w->between);
	}
	for (uint32_t i = 0; i < nopen; i++)
	{
		uint32_t	c = w->open[i];

		if (w->between[p->codec == NULL ? i : c] < p->dist[c] * (1 - p->slack))
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

	w.rows = workspace;
	w.order = (uint32_t *) (w.rows + p->n);
	w.open = w.order + p->n;
	w.between = (float *) (w.open + p->n);
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
	if (p->wanted != NULL)
		sort_by_distance(p->wanted, w.order, norder);
	for (uint32_t i = 0; i < norder && nkeep < room && nkeep < fill; i++)
		if (w.refused[w.order[i]] == 1)
			keep[nkeep++] = w.order[i];
	return nkeep;
}

static bool
is_occluded(const GrnEvict *e)
{
	for (uint32_t i = 0; i < e->count; i++)
		if (e->to_v[i] < e->x_to_v && e->to_x[i] < e->x_to_v * (1 - e->slack))
			return true;
	return false;
}

int
grn_evict(const GrnEvict *e)
{
	int			best = -1;
	int			best_rank = -1;
	bool		occluded = e->level == GRN_EVICT_UNOCCLUDED && is_occluded(e);
	float		nearest = occluded ? OCCLUDED_NEAREST * e->x_to_v : e->x_to_v;

	if (occluded && e->wanted == NULL)
		return -1;
	for (uint32_t i = 0; i < e->count; i++)
	{
		float		d = e->to_v[i];
		bool		farther = d != INFINITY && d > nearest && (e->wanted == NULL || e->wanted[i] > e->x_wanted);
		int			rank = 0;

		if ((!farther && e->level != GRN_EVICT_ANY) || (!e->reached[i] && !e->may_add))
			continue;
		if (farther)
			rank = 1 << 3 | e->reached[i] << 2 | (e->to_x[i] < d) << 1 | e->one_way[i];
		if (rank > best_rank ||
			(rank == best_rank && (!farther || d * e->to_x[best] > e->to_v[best] * e->to_x[i])))
		{
			best = (int) i;
			best_rank = rank;
		}
	}
	return best;
}
