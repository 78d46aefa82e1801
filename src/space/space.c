/*
 * space.c - the norm unit of scaled rows, and the power of their places.
 */
#include "space/space.h"

#include <float.h>

#include "space/kernels/dist.h"

#define OCTAVE_ONE 128			/* octave of norms from 1/2 to 1 */

int
grn_octave(double norm2)
{
	double		norm = sqrt(norm2);
	int			exponent;

	if (!(norm > GRN_LEAST_NORM && norm2 <= FLT_MAX))
		return GRN_NO_OCTAVE;
	(void) frexp(norm, &exponent);
	return OCTAVE_ONE + exponent;
}

double
grn_norm_unit(const uint32_t *counts)
{
	uint64_t	rows = 0;
	uint64_t	below = 0;
	int			i;

	for (i = 0; i < GRN_OCTAVES; i++)
		rows += counts[i];
	if (rows == 0)
		return 1;
	for (i = 0; 2 * (below + counts[i]) < rows; i++)
		below += counts[i];
	return ldexp(1, i - OCTAVE_ONE);
}

double
grn_largest_norm_unit(const uint32_t *counts)
{
	int			i = GRN_OCTAVES - 1;

	while (i > 0 && counts[i] == 0)
		i--;
	return i > 0 ? ldexp(1, i - OCTAVE_ONE) : 1;
}

/* ---- the power ---- */

/*
 * A search finds a row through another row that the query wants as well, so such rows should be
 * near neighbors in the space.  The trial takes some of the rows as queries.  Each wants the WANTED
 * rows with the largest inner products.  The score of a power is the mean, over all wanted rows, of
 * the logarithm of a rank: the best rank that the row has among the neighbors of the query's other
 * wanted rows.  Measured at 20,000 rows, the power with the least score has the best recall or one
 * within .01 of it: of 100 dimensions with log-normal lengths, sigma .2, .5 and 1, 3/8, 1/4 and
 * 1/8; with Pareto lengths 3/32; of Gaussian rows of 10 dimensions 1; of token vectors 3/8.
 */
#define TRIED 64				/* queries; twice as many choose alike */
#define WANTED 10
static const float powers[] = {1, 3 / 4.f, 1 / 2.f, 3 / 8.f, 1 / 4.f, 3 / 16.f, 1 / 8.f, 3 / 32.f, 1 / 16.f, 1 / 32.f};
#define POWERS (sizeof(powers) / sizeof(powers[0]))

typedef struct Trial
{
	const float *x;
	size_t		stride;
	uint32_t	n;
	uint32_t	dim;
	double		unit;			/* of norms */
	float		lengths[GRN_POWER_ROWS];	/* in units */
	float	   *cosines;		/* [n][n] */
	float		places[POWERS][GRN_POWER_ROWS]; /* their norms */
	float		scores[TRIED][POWERS];
} Trial;

static void
cosine_range(void *arg, int worker, size_t begin, size_t end)
{
	Trial	   *t = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
		for (size_t j = 0; j <= i; j++)
		{
			float		ip = grn_dist->ip_f32(t->x + i * t->stride, t->x + j * t->stride, t->dim);
			double		both = t->unit * t->lengths[i] * t->unit * t->lengths[j];

			t->cosines[i * t->n + j] = t->cosines[j * t->n + i] = both > 0 ? (float) (ip / both) : 0;
		}
}

/* Adds to *score the logarithms of the wanted rows' best ranks.  places: [n] norms of places. */
static void
rank_wanted(const Trial *t, const uint32_t *wanted, const float *places, float *score)
{
	int			best[WANTED];
	float		apart[GRN_POWER_ROWS];

	for (uint32_t b = 0; b < WANTED; b++)
		best[b] = GRN_POWER_ROWS;
	for (uint32_t a = 0; a < WANTED; a++)
	{
		const float *cosines = t->cosines + (size_t) wanted[a] * t->n;
		float		place = places[wanted[a]];

		for (uint32_t j = 0; j < t->n; j++)
			apart[j] = places[j] * (places[j] - 2 * place * cosines[j]);
		for (uint32_t b = 0; b < WANTED; b++)
		{
			float		bound = apart[wanted[b]];
			/* the row itself is no neighbor */
			int			rank = apart[wanted[a]] < bound ? -1 : 0;

			if (a == b)
				continue;
			/* a rank above the best need not be known */
			for (uint32_t j = 0; j < t->n && rank < best[b]; j++)
				rank += apart[j] < bound;
			if (rank < best[b])
				best[b] = rank;
		}
	}
	for (uint32_t b = 0; b < WANTED; b++)
		*score += logf(1 + (float) best[b]);
}

static void
try_range(void *arg, int worker, size_t begin, size_t end)
{
	Trial	   *t = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		uint32_t	query = (uint32_t) (i * t->n / TRIED);
		uint32_t	wanted[WANTED];
		float		products[WANTED];
		uint32_t	n = 0;

		for (uint32_t j = 0; j < t->n; j++)
		{
			float		product = t->cosines[(size_t) query * t->n + j] * t->lengths[j];
			uint32_t	at;

			if (j == query || (n == WANTED && product <= products[n - 1]))
				continue;
			at = n < WANTED ? n++ : n - 1;
			for (; at > 0 && products[at - 1] < product; at--)
			{
				products[at] = products[at - 1];
				wanted[at] = wanted[at - 1];
			}
			products[at] = product;
			wanted[at] = j;
		}
		for (size_t p = 0; p < POWERS; p++)
			rank_wanted(t, wanted, t->places[p], &t->scores[i][p]);
	}
}

float
grn_choose_power(const float *x, size_t stride, uint32_t n, uint32_t dim, double unit, float usual,
				 float *work, GrnParallel *parallel)
{
	Trial		t = {.x = x, .stride = stride, .n = n, .dim = dim, .unit = unit, .cosines = work};
	double		least = INFINITY;
	float		best = usual;

	if (n < TRIED)
		return usual;
	for (uint32_t i = 0; i < n; i++)
		t.lengths[i] = (float) (sqrt(grn_norm2(x + i * stride, dim)) / unit);
	for (size_t p = 0; p < POWERS; p++)
		for (uint32_t i = 0; i < n; i++)
			t.places[p][i] = grn_place_norm(t.lengths[i], powers[p]);
	parallel->run(parallel, n, 64, cosine_range, &t);
	parallel->run(parallel, TRIED, 4, try_range, &t);
	for (size_t p = 0; p < POWERS; p++)
	{
		double		score = 0;

		for (uint32_t i = 0; i < TRIED; i++)
			score += t.scores[i][p];
		if (score < least || (score == least && powers[p] == usual))
		{
			least = score;
			best = powers[p];
		}
	}
	return best;
}
