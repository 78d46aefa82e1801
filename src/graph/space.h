/*
 * space.h - the Euclidean space in which graphs are built, and the places of rows in it.
 *
 * Rows of most metrics are their own places (GrnEmbedding in metric.h).  A scaled row x of
 * norm n has its place at y = n^(-7/4) x, n being counted in the norm unit: the direction
 * stays, and long rows come to lie in the middle, at |y| = n^(-3/4).  This serves inner product.
 * What a query can find by it are the longest rows of a cone around the query, and near
 * neighbours in this space lead from one of those to the next.  (The Moebius transformation of
 * Zhou et al., NeurIPS 2019, has the power -2.)  Equally long rows
 * have the graph of their angles.  Jaccard has its graph so, by a norm unit beyond all norms;
 * inner product of sparse rows has its own power, |y| = n^(-1/16).
 *
 * Places are never stored.  In a build a row has its GrnScale behind its numbers.
 */
#ifndef GRN_SPACE_H
#define GRN_SPACE_H

#include "graph/grn.h"

#include <math.h>
#include <string.h>

typedef struct GrnScale
{
	float		scale;			/* y = scale * x */
	float		norm2;			/* |y|^2 */
} GrnScale;

/*
 * Rows shorter than this, in norm units, all lie on one sphere, the outermost.  Else some rows
 * near zero would set the scale of the space (test/bench/decisions.md has the recall).
 */
#define GRN_SHORTEST (1.0f / 16)

/* The power for rows that have many near ones in each direction. */
#define GRN_USUAL_POWER 0.75f

/* |y| of a row whose norm is `length` units; 0, the middle, for a row of zeroes. */
static inline float
grn_place_norm(float length, float power)
{
	float		least = length > GRN_SHORTEST ? length : GRN_SHORTEST;
	float		root = sqrtf(least);

	if (length <= 0)
		return 0;
	return power == GRN_USUAL_POWER ? 1 / (root * sqrtf(root)) : powf(least, -power);
}

/* The norm, in units, of a row that lies at this |y|^2: GRN_SHORTEST at least; 0 in the middle. */
static inline float
grn_placed_length(float norm2, float power)
{
	return norm2 > 0 ? (float) pow(norm2, -0.5 / power) : 0;
}

/* Rows that are no longer than this count as zero: 1 / |x| would leave the range of floats. */
#define GRN_LEAST_NORM 1e-30

#define GRN_SUMS 8				/* side by side: each addition to one sum waits for the one before */
static inline double
grn_norm2(const float *x, size_t n)
{
	double		sums[GRN_SUMS] = {0};
	double		sum = 0;
	size_t		i = 0;

	for (; i + GRN_SUMS <= n; i += GRN_SUMS)
		for (int k = 0; k < GRN_SUMS; k++)
			sums[k] += (double) x[i + k] * x[i + k];
	for (; i < n; i++)
		sum += (double) x[i] * x[i];
	for (int k = 0; k < GRN_SUMS; k++)
		sum += sums[k];
	return sum;
}

/* The scale of a row by its |x|^2, the norm unit and the metric's power. */
static inline GrnScale
grn_scale(double norm2, double unit, float power)
{
	double		norm = sqrt(norm2);
	double		place = norm > GRN_LEAST_NORM ? grn_place_norm((float) (norm / unit), power) : 0;
	GrnScale	s = {place > 0 ? (float) (place / norm) : 0, (float) (place * place)};

	return s;
}

/* Writes the scale of row x [n] behind it; unit: the norm unit. */
static inline void
grn_append_scale(float *x, size_t n, double unit, float power)
{
	GrnScale	s = grn_scale(grn_norm2(x, n), unit, power);

	memcpy(x + n, &s, sizeof(s));
}

/*
 * A build's norm unit is the power of two above the median of all norms but zero.  So it is
 * the same whatever the order of the rows, and dividing by it rounds nothing.  Norms are
 * counted by octaves for this: by the powers of two that they lie below.
 */
#define GRN_OCTAVES 256
#define GRN_NO_OCTAVE (-1)		/* of a norm that counts as zero, or of none that is finite */

/* The octave of a row by its squared norm, or GRN_NO_OCTAVE. */
extern int	grn_octave(double norm2);
/* The norm unit.  counts: [GRN_OCTAVES] rows in each.  1 where there are none. */
extern double grn_norm_unit(const uint32_t *counts);

/* Takes x [n], a scaled row, to its place; unit: the norm unit. */
static inline void
grn_place(float *x, size_t n, double unit, float power)
{
	GrnScale	s = grn_scale(grn_norm2(x, n), unit, power);

	for (size_t i = 0; i < n; i++)
		x[i] *= s.scale;
}

#endif							/* GRN_SPACE_H */
