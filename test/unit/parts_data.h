/*
 * parts_data.h - rows that are hard to cut into parts, and easy ones.
 */
#ifndef PARTS_DATA_H
#define PARTS_DATA_H

#include "recall.h"

/* Bytes whose neighborhoods have about six dimensions, as those of descriptors. */
static inline void
fill_bytes(float *x, size_t i, uint32_t dim)
{
	float		hidden[6];

	fill_normal(hidden, i, 6);
	for (uint32_t j = 0; j < dim; j++)
	{
		float		sum = 0;

		for (uint32_t k = 0; k < 6; k++)
			sum += hidden[k] * ((float) (grn_random(9, j, k) % 1000) / 500 - 1);
		x[j] = roundf(fminf(fmaxf(128 + 25 * sum + 3 * unit_normal(), 0), 255));
	}
}

static inline void
fill_one(float *x, size_t i, uint32_t dim)
{
	for (uint32_t j = 0; j < dim; j++)
		x[j] = 7;
}

static inline void
fill_uniform(float *x, size_t i, uint32_t dim)
{
	for (uint32_t j = 0; j < dim; j++)
		x[j] = unit_uniform();
}

static inline void
fill_cluster(float *x, uint32_t cluster, float width, uint32_t dim)
{
	for (uint32_t j = 0; j < dim; j++)
		x[j] = (float) (grn_random(11, j, cluster) % 1000) / 1000 + width * unit_normal();
}

/* Nine of ten rows in one of 50 clusters. */
static inline void
fill_dense(float *x, size_t i, uint32_t dim)
{
	fill_cluster(x, unit_below(10) ? 0 : 1 + unit_below(49), 0.01f, dim);
}

/* Clusters whose rows a GPU's floats do not tell from each other. */
static inline void
fill_narrow(float *x, size_t i, uint32_t dim)
{
	fill_cluster(x, unit_below(5), 1e-6f, dim);
}

/* Integers in 100 clusters far from each other, a few of them with most rows. */
static inline void
fill_islands(float *x, size_t i, uint32_t dim)
{
	uint32_t	cluster = (uint32_t) pow(100, (double) unit_uniform());

	for (uint32_t j = 0; j < dim; j++)
		x[j] = fminf(fmaxf(roundf((float) (grn_random(13, j, cluster) % 256) +
								  (float) (1 + cluster % 5) * unit_normal()), 0), 255);
}

/* 100 tight clusters, all of like size and about as far from each other. */
static inline void
fill_archipelago(float *x, size_t i, uint32_t dim)
{
	uint32_t	cluster = unit_below(100);

	for (uint32_t j = 0; j < dim; j++)
		x[j] = (float) (grn_random(17, j, cluster) % 1000) / 300 + 0.05f * unit_normal();
}

/* Clusters whose spreads go from a thousandth to ten. */
static inline void
fill_spreads(float *x, size_t i, uint32_t dim)
{
	uint32_t	cluster = (uint32_t) (60 * unit_uniform());
	float		spread = powf(10, (float) cluster / 15 - 3);

	for (uint32_t j = 0; j < dim; j++)
		x[j] = 0.02f * (float) (grn_random(13, j, cluster) % 256) + spread * unit_normal();
}

/* Every second row the same. */
static inline void
fill_half(float *x, size_t i, uint32_t dim)
{
	if (i % 2)
		fill_one(x, i, dim);
	else
		fill_normal(x, i, dim);
}

static inline Data
make_data(size_t n, uint32_t dim, FillFn fill)
{
	Data		d;

	d.base = malloc(n * dim * sizeof(float));
	for (size_t i = 0; i < n; i++)
		fill(d.base + i * dim, i, dim);
	d.rows = (GrnRows) {.base = d.base, .n = n, .row_bytes = dim * sizeof(float), .dim = dim,
						.embedding = GRN_EMBED_ROW, .form = GRN_FORM_F32};
	return d;
}

#endif							/* PARTS_DATA_H */
