/*
 * recall.h - recall@10 of a graph over rows in memory, by a plain search.
 */
#ifndef RECALL_H
#define RECALL_H

#include "unit.h"

#include "graph/descent.h"

#define K 10

typedef struct Data
{
	float	   *base;
	GrnRows		rows;
} Data;

typedef void (*FillFn) (float *x, size_t i, uint32_t dim);

static inline void
fill_normal(float *x, size_t i, uint32_t dim)
{
	for (uint32_t j = 0; j < dim; j++)
		x[j] = unit_normal();
}

/* Best-first search with a list of 64, from vertex 0; ids of the K nearest. */
static inline void
search(const Data *d, const GrnGraph *g, const float *q, uint32_t *out)
{
	enum
	{
		L = 64
	};
	float		dist[L];
	uint32_t	ids[L];
	bool		done[L];
	uint32_t	count = 1;
	uint8_t    *seen = calloc(g->n, 1);

	ids[0] = 0;
	dist[0] = grn_dist->l2_f32(q, grn_row(&d->rows, 0), d->rows.dim);
	done[0] = false;
	seen[0] = 1;
	for (;;)
	{
		uint32_t	at = 0;
		uint32_t	v;

		while (at < count && done[at])
			at++;
		if (at == count)
			break;
		done[at] = true;
		v = ids[at];
		for (uint32_t i = 0; i < g->counts[v]; i++)
		{
			uint32_t	u = g->ids[v * g->degree + i];
			float		x;
			uint32_t	p;

			if (seen[u]++)
			{
				seen[u] = 1;
				continue;
			}
			x = grn_dist->l2_f32(q, grn_row(&d->rows, u), d->rows.dim);
			if (count == L && x >= dist[L - 1])
				continue;
			p = count < L ? count++ : L - 1;
			for (; p > 0 && dist[p - 1] > x; p--)
			{
				dist[p] = dist[p - 1];
				ids[p] = ids[p - 1];
				done[p] = done[p - 1];
			}
			dist[p] = x;
			ids[p] = u;
			done[p] = false;
		}
	}
	free(seen);
	memcpy(out, ids, K * sizeof(*out));
}

static inline double
recall_by(const Data *d, const GrnGraph *g, FillFn fill, uint32_t queries)
{
	uint32_t	hits = 0;
	float		q[512];

	for (uint32_t i = 0; i < queries; i++)
	{
		uint32_t	found[K];
		float		kth;

		fill(q, i, d->rows.dim);
		search(d, g, q, found);
		/* the K-th distance, by counting */
		for (uint32_t k = 0; k < K; k++)
		{
			uint32_t	nearer = 0;

			kth = grn_dist->l2_f32(q, grn_row(&d->rows, found[k]), d->rows.dim);
			for (size_t v = 0; v < g->n; v++)
				nearer += grn_dist->l2_f32(q, grn_row(&d->rows, v), d->rows.dim) < kth;
			hits += nearer < K;
		}
	}
	return hits / ((double) queries * K);
}

static inline double
recall(const Data *d, const GrnGraph *g, FillFn fill)
{
	return recall_by(d, g, fill, 50);
}

#endif							/* RECALL_H */
