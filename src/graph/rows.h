/*
 * rows.h - the rows that a build's vertices are, and distances between them.
 */
#ifndef GRN_ROWS_H
#define GRN_ROWS_H

#include "graph/kernels/dist.h"
#include "graph/metric.h"
#include "graph/space.h"

#include <string.h>

/* Rows of the build: row i is base + order[i] * stride (order NULL: i itself). */
typedef struct GrnRows
{
	const float *base;
	const uint32_t *order;
	size_t		n;
	size_t		stride;			/* floats between rows, >= dim */
	uint32_t	dim;
	GrnEmbedding embedding;		/* of rows in the space of the graph */
} GrnRows;

static inline const float *
grn_row(const GrnRows *rows, size_t i)
{
	return rows->base + (rows->order ? rows->order[i] : i) * rows->stride;
}

/* What takes row x to its place in the space. */
static inline float
grn_row_scale(const GrnRows *rows, const float *x)
{
	return rows->embedding == GRN_EMBED_SCALED ? x[rows->dim] : 1;
}

/* Squared distance in the space of rows x and y; the same for y and x. */
static inline float
grn_row_distance(const GrnRows *rows, const float *x, const float *y)
{
	GrnScale	a,
				b;
	float		d;

	if (rows->embedding == GRN_EMBED_ROW)
		return grn_dist->l2_f32(x, y, rows->dim);
	if (x == y)
		return 0;				/* whatever rounding would leave */
	memcpy(&a, x + rows->dim, sizeof(a));
	memcpy(&b, y + rows->dim, sizeof(b));
	d = (a.norm2 + b.norm2) - 2 * (a.scale * b.scale) * grn_dist->ip_f32(x, y, rows->dim);
	return d > 0 ? d : 0;
}

#endif							/* GRN_ROWS_H */
