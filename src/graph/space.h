/*
 * space.h - the Euclidean space in which graphs are built.
 *
 * For L2 and cosine it is that of the (normalised) vectors.  For inner product a row
 * x of norm n has its place there at y = n^(-7/4) x, norms in units of a typical
 * one: the direction stays and long rows come to lie in the middle.  What a query
 * can find are the longest rows of a cone around it, and near neighbours in this
 * space are what leads from one of those to the next.  (The Moebius
 * transformation of Zhou et al., NeurIPS 2019, has the power -2;
 * test/bench/tried.md compares.)  Equally long rows have the graph of their angles.
 * Places are never stored: in a build a row has its GrnScale behind its dim floats.
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
 * |y| of a row whose norm is `length` units.  Rows shorter than this all lie on one
 * sphere, so that some near zero do not set the scale of the space; zero, the
 * answer to no query or to all, lies in the middle.
 */
#define GRN_SHORTEST (1.0f / 16)

static inline float
grn_place_norm(float length)
{
	float		root = sqrtf(length > GRN_SHORTEST ? length : GRN_SHORTEST);

	return length > 0 ? 1 / (root * sqrtf(root)) : 0;
}

/* The length in units of a row that lies at this |y|^2, GRN_SHORTEST at least; 0 in the middle. */
static inline float
grn_placed_length(float norm2)
{
	return norm2 > 0 ? (float) (1 / cbrt((double) norm2 * norm2)) : 0;
}

/* Rows no longer count as zero: 1 / |x| would leave the range of floats. */
#define GRN_LEAST_NORM 1e-30

static inline double
grn_norm2(const float *x, size_t n)
{
	double		sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (double) x[i] * x[i];
	return sum;
}

static inline GrnScale
grn_scale(double norm2, double unit)
{
	double		norm = sqrt(norm2);
	double		place = norm > GRN_LEAST_NORM ? grn_place_norm((float) (norm / unit)) : 0;
	GrnScale	s = {place > 0 ? (float) (place / norm) : 0, (float) (place * place)};

	return s;
}

/* What row x [n] of a build has behind it: its scale. */
static inline void
grn_append_scale(float *x, size_t n, double unit)
{
	GrnScale	s = grn_scale(grn_norm2(x, n), unit);

	memcpy(x + n, &s, sizeof(s));
}

/*
 * The unit of norms: the power of two above the median of all norms but zero.  So it is the
 * same whatever the order of the rows, and dividing by it rounds nothing.
 *
 * Norms are counted by octaves, the powers of two that they lie below.
 */
#define GRN_OCTAVES 256
#define GRN_NO_OCTAVE (-1)		/* of a norm that counts as zero, or of none that is finite */

/* The octave of a row by its squared norm, or GRN_NO_OCTAVE. */
extern int	grn_octave(double norm2);
/* counts: [GRN_OCTAVES] rows in each; 1 where there are none. */
extern double grn_norm_unit(const uint32_t *counts);

/* Takes x [n] to its place. */
static inline void
grn_place(float *x, size_t n, double unit)
{
	GrnScale	s = grn_scale(grn_norm2(x, n), unit);

	for (size_t i = 0; i < n; i++)
		x[i] *= s.scale;
}

#endif							/* GRN_SPACE_H */
