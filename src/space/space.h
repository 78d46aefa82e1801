/*
 * space.h - the Euclidean space in which graphs are built, and the places of rows in the
 * space.
 *
 * Rows of most metrics are their own places (GrnEmbedding in metric.h).  A scaled row x of
 * norm n has its place at |y| = n^-power, with n in norm units: the direction is unchanged, and
 * long rows are near the middle.  The space serves inner product: a query's results are the
 * longest rows of a cone around the query, and near neighbors in the space lead from one such
 * row to the next.  (The Moebius transformation of Zhou et al., NeurIPS 2019, has the power 1.)
 * Rows of equal length have the graph of their angles.  Jaccard gets such a graph by a norm unit
 * above all norms.  With a large power the longest rows are the nearest rows of every row, with
 * a small power only rows at small angles are.  grn_choose_power() finds the power for the rows.
 *
 * Places are never stored.  In a build a row has its GrnScale behind its numbers.
 */
#ifndef GRN_SPACE_H
#define GRN_SPACE_H

#include <math.h>
#include <string.h>

#include "space/grn.h"

typedef struct GrnScale
{
	float		scale;			/* y = scale * x */
	float		norm2;			/* |y|^2 */
} GrnScale;

/*
 * Rows shorter than GRN_SHORTEST norm units are all on one sphere, the outermost.  Otherwise a
 * few rows near zero would determine the scale of the space.  Measured on sentences with
 * log-normal lengths (sigma 1): recall@10 is .998 with the sphere, .995 without.
 */
#define GRN_SHORTEST (1.0f / 16)

/*
 * The power while few rows are known.  Measured on sentences with one row in 1,000 ten times
 * longer: recall@10 is .161 with power 0, .979 with .5, .992 with .75, and .990 with 1.
 */
#define GRN_USUAL_POWER 0.75f

/* Powers are multiples of 1 / GRN_POWER_STEPS, at most 1, so square roots compute them. */
#define GRN_POWER_STEPS 32
static inline bool
grn_is_power(float power)
{
	return power > 0 && power <= 1 && power * GRN_POWER_STEPS == truncf(power * GRN_POWER_STEPS);
}

/* Returns |y| of a row of `length` units; 0 for a row of zeros.  power: by grn_is_power(). */
static inline float
grn_place_norm(float length, float power)
{
	float		root = length > GRN_SHORTEST ? length : GRN_SHORTEST;
	float		product = 1;

	if (length <= 0)
		return 0;
	for (; power > 0; power *= 2, root = sqrtf(root))
		if (power >= 1)
		{
			product *= root;
			power -= 1;
		}
	return 1 / product;
}

/* Returns the norm in units of a row with this |y|^2: at least GRN_SHORTEST, or 0. */
static inline float
grn_placed_length(float norm2, float power)
{
	return norm2 > 0 ? (float) pow(norm2, -0.5 / power) : 0;
}

/* Rows of at most this norm count as zero, because 1 / |x| would exceed the range of floats. */
#define GRN_LEAST_NORM 1e-30

#define GRN_SUMS 8				/* sums side by side, so that additions do not wait for each other */
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

/*
 * Returns the scale of a row from |x|^2, the norm unit and the metric's power.  Power 0: the place
 * is x / unit, completed to length 1 by a coordinate of its own.  Squared distances of two rows are
 * then 2 - 2 <x, y> / unit^2, in the order of inner products.  unit: the largest norm or more.
 */
static inline GrnScale
grn_scale(double norm2, double unit, float power)
{
	double		norm = sqrt(norm2);
	double		place;
	GrnScale	s;

	if (power == 0)
		return (GrnScale) {(float) (1 / unit), 1};
	place = norm > GRN_LEAST_NORM ? grn_place_norm((float) (norm / unit), power) : 0;
	s = (GrnScale) {place > 0 ? (float) (place / norm) : 0, (float) (place * place)};
	return s;
}

/* Writes the scale of row x [n] behind x.  unit: the norm unit. */
static inline void
grn_append_scale(float *x, size_t n, double unit, float power)
{
	GrnScale	s = grn_scale(grn_norm2(x, n), unit, power);

	memcpy(x + n, &s, sizeof(s));
}

/*
 * A build's norm unit is the power of two above the median of all nonzero norms.  The median
 * does not depend on the order of the rows, and division by a power of two does not round.  To
 * find the median, norms are counted by octaves: by the next larger power of two.
 */
#define GRN_OCTAVES 256
#define GRN_NO_OCTAVE (-1)		/* the norm counts as zero or is not finite */

/* Returns the octave of a row with this squared norm, or GRN_NO_OCTAVE. */
extern int	grn_octave(double norm2);
/* Returns the norm unit, or 1 without rows.  counts: [GRN_OCTAVES] rows of each octave. */
extern double grn_norm_unit(const uint32_t *counts);
/* The power of two above the largest norm, or 1 without rows. */
extern double grn_largest_norm_unit(const uint32_t *counts);

/* Moves x [n], a scaled row, to its place.  unit: the norm unit. */
static inline void
grn_place(float *x, size_t n, double unit, float power)
{
	GrnScale	s = grn_scale(grn_norm2(x, n), unit, power);

	for (size_t i = 0; i < n; i++)
		x[i] *= s.scale;
}

/* The most rows that grn_choose_power() takes: with 512, one long row in 1,000 goes unseen. */
#define GRN_POWER_ROWS 1024

/*
 * Returns the power of places that suits rows drawn at random: near neighbors in the space lead
 * from one row to another that the same query wants (space.c).  x: [n][stride], dim values each.
 * work: [n * n] floats.  Returns `usual` for few rows or rows of about equal length.
 */
extern float grn_choose_power(const float *x, size_t stride, uint32_t n, uint32_t dim,
							  double unit, float usual, float *work, GrnParallel *parallel);

/*
 * choose_entries.c: entry points.
 *
 * Returns, of a few random ids below limit, the one whose node is farthest from all entry points,
 * so that these are spread over the data but still lie in dense regions.  number: of the new entry
 * point.  distance(arg, &id): of the node of this id, or of a later id, from the nearest entry
 * point; 0 if there is no node, or it is an entry point.  GRN_INVALID_ID if all distances are 0.
 */
extern uint32_t grn_far_entry(uint64_t seed, uint32_t number, uint32_t limit,
							  float (*distance) (void *arg, uint32_t *id), void *arg);

/*
 * Entry points that were chosen because their rows are long.
 *
 * For inner product half of the entry points are the longest rows
 * (GrnMetricInfo.long_entries).  Rows much longer than average answer every query and are
 * close together in the graph's space, but a search by inner products may find no path to
 * them.  One long entry is not enough: its product with the query may be less than the
 * products of short rows near the query.
 *
 * A build computes lengths from the places of rows, a finished index from the factors of
 * codes.  The caller chooses the unit of lengths.
 */

/* The lengths of the entry points' rows. */
typedef struct GrnEntryLengths
{
	uint32_t	count;			/* entry points, entries[0] included */
	float		lengths[GRN_MAX_ENTRIES];	/* [count] */
	uint32_t	nlong;			/* number of long entries */
	uint32_t	order[GRN_MAX_ENTRIES]; /* [count - 1] entries except the first: nlong entries,
										 * longest first, then the remaining entries */
} GrnEntryLengths;

/*
 * Computes nlong and order from count and lengths.  most: the most long entries; 0: lengths do
 * not matter, and the entries keep their order.
 */
extern void grn_sort_entries(GrnEntryLengths *e, uint32_t most);
/* Returns the long entry that a row of this length replaces, or 0. */
extern uint32_t grn_shorter_entry(const GrnEntryLengths *e, float length);
/* Records that a row of this length has replaced the entry from grn_shorter_entry(). */
extern void grn_enter_long(GrnEntryLengths *e, float length);

#endif							/* GRN_SPACE_H */
