/*
 * metric.c - the table of metrics.
 */
#include "space/metric.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "space/space.h"

/*
 * Rounding.  PostgreSQL's executor recomputes distances by pgvector's functions and raises an
 * error if a distance is below the bound that the scan gave.  Bounds therefore allow for the
 * rounding of both computations.  Each computation sums n products or squares in single
 * precision, in some order.  The sum has an error of at most n u / (1 - n u) times the sum of
 * absolute values, u = 2^-24, in any order (Higham, Accuracy and Stability of Numerical
 * Algorithms, section 4.2).  MORE_TERMS more terms cover the rounding of the terms themselves.
 */
#define UNIT_ROUNDING (1.0 / (1 << 24))
#define MORE_TERMS 8
/* The most that a square or product loses below the range of single precision. */
#define VANISHED 3e-45
/* More than double precision loses in between. */
#define DOUBLE_SLACK 1e-12

/* Returns the share of the sum of absolute values by which rounding may change a sum. */
static double
sum_error(uint32_t dim)
{
	double		terms = (dim + MORE_TERMS) * UNIT_ROUNDING;

	return terms / (1 - terms);
}

static double
root_of(double square)
{
	return sqrt(square > 0 ? square : 0);
}

/*
 * Returns the row's own squared distance.  An error across the row adds its own square to the
 * stored vector's squared distance.
 */
static double
square_of(const GrnBound *b)
{
	double		square = b->compared - b->across * b->across;

	return square > 0 ? square : 0;
}

/* Returns the least Euclidean distance of a row whose stored vector has b->compared. */
static double
least_distance(const GrnBound *b)
{
	double		square = (square_of(b) - b->dim * VANISHED) / (1 + sum_error(b->dim));

	return root_of(square) - b->error;
}

/* ---- L2 ---- */

static double
l2_value(double compared)
{
	return root_of(compared);
}

static double
l2_bound(const GrnBound *b)
{
	double		d = least_distance(b);

	return d > 0 ? root_of(d * d * (1 - sum_error(b->dim)) - b->dim * VANISHED) *
		(1 - DOUBLE_SLACK) : 0;
}

/* ---- inner product ---- */

static double
ip_value(double compared)
{
	return compared;
}

/* Products may cancel, so the rounding error is a share of |q| |x|, not of the sum. */
static double
ip_bound(const GrnBound *b)
{
	double		sums = sum_error(b->dim) * (2 * b->norm + b->error);

	return b->compared - b->query_norm * (b->error + sums) * (1 + DOUBLE_SLACK) -
		2 * b->dim * VANISHED;
}

/* ---- cosine: |x - y|^2 = 2 - 2 cos for vectors of length 1 ---- */

static double
cosine_value(double compared)
{
	return compared / 2;
}

/*
 * Roundings of a cosine, in UNIT_ROUNDING: the numbers of both normalized vectors are rounded,
 * and before that the factor that normalizes, if it is a head: twice two roundings, and a
 * margin.  The cosine's products and norms are rounded, too.
 */
#define COSINE_ROUNDINGS 4.1
static double
cosine_bound(const GrnBound *b)
{
	double		g = sum_error(b->dim);
	double		d = least_distance(b) - COSINE_ROUNDINGS * UNIT_ROUNDING;

	d = d > 0 ? d : 0;
	return d * d / 2 - 2 * g * (1 + g) - DOUBLE_SLACK;
}

/* ---- L1 and Hamming distance: |x - y|^2 of numbers that are 0 or 1, which nothing rounds ---- */

static double
plain_value(double compared)
{
	return compared;
}

/*
 * Rows at a Euclidean distance of `error` have an L1 distance of at most sqrt(dim) * error.
 * Differences lose nothing below the range of single precision.
 */
static double
l1_bound(const GrnBound *b)
{
	double		d = b->compared / (1 + sum_error(b->dim)) - sqrt(b->dim) * b->error;

	return d > 0 ? d * (1 - sum_error(b->dim)) * (1 - DOUBLE_SLACK) : 0;
}

static double
hamming_bound(const GrnBound *b)
{
	return square_of(b);
}

/* ---- Jaccard: whole numbers, and one division ---- */

static double
jaccard_value(double compared)
{
	return compared;
}

static double
jaccard_bound(const GrnBound *b)
{
	double		d = b->compared - 4 * UNIT_ROUNDING;

	return d > 0 ? d : 0;
}

/*
 * A unit so large that no row of GRN_MOST_DIMS ones is longer than GRN_SHORTEST units.  The
 * places of all rows except zero are therefore on one sphere, and their distances depend on
 * directions only.
 */
#define UNIT_OF_DIRECTIONS 4096
_Static_assert(GRN_MOST_DIMS < (UNIT_OF_DIRECTIONS / 16) * (UNIT_OF_DIRECTIONS / 16),
			   "rows of ones lie on the sphere");

/* ---- the table ---- */

static const GrnMetricInfo metrics[] = {
	{
		.id = GRN_L2,
		.embedding = GRN_EMBED_ROW,
		.codes = GRN_CODES_ROWS,
		.comparison = GRN_COMPARE_L2,
		.own_codes = GRN_EXACT_L2,
		.value = l2_value,
		.bound = l2_bound
	},
	{
		.id = GRN_IP,
		.embedding = GRN_EMBED_SCALED,
		.unit_of_rows = true,
		.power = GRN_USUAL_POWER,
		.codes = GRN_CODES_DIRECTIONS,
		.comparison = GRN_COMPARE_IP,
		.long_entries = GRN_MAX_ENTRIES / 2,
		.value = ip_value,
		.bound = ip_bound,
		.bound_by_norm = true
	},
	{
		.id = GRN_COSINE,
		.normalized = true,
		.embedding = GRN_EMBED_ROW,
		.codes = GRN_CODES_ROWS,
		.comparison = GRN_COMPARE_L2,
		.value = cosine_value,
		.bound = cosine_bound
	},
	{
		.id = GRN_L1,
		.embedding = GRN_EMBED_ROW,
		.codes = GRN_CODES_ROWS,
		.comparison = GRN_COMPARE_L1,
		/*
		 * Recall at ef 40, 100, 200 with 1 .863, .960, .990, with 2 .947, .990, .997, hnsw's .911,
		 * .992, 1.000 in 1.8 times the time: 10,000 histograms of image patches.
		 */
		.surrogate_beam = 2,
		.value = plain_value,
		.bound = l1_bound
	},
	{
		.id = GRN_HAMMING,
		.embedding = GRN_EMBED_ROW,
		.codes = GRN_CODES_ROWS,
		.comparison = GRN_COMPARE_L2,
		.own_codes = GRN_EXACT_L2,
		.value = plain_value,
		.bound = hamming_bound
	},
	{
		.id = GRN_JACCARD,
		.embedding = GRN_EMBED_SCALED,
		.norm_unit = UNIT_OF_DIRECTIONS,
		.power = GRN_USUAL_POWER,
		.codes = GRN_CODES_DIRECTIONS,
		.comparison = GRN_COMPARE_JACCARD,
		.own_codes = GRN_EXACT_JACCARD,
		.surrogate_beam = 1,
		.value = jaccard_value,
		.bound = jaccard_bound
	},
	/*
	 * Sparse rows are nearly orthogonal, so places at any power hide long rows or near ones.  The
	 * graph is by inner products themselves: recall at ef 40 of short queries is .72 instead of .53
	 * with the power 1/16 (test/bench/decisions.md).
	 */
	{
		.id = GRN_IP_ANGLES,
		.of_numbers = GRN_IP,
		.embedding = GRN_EMBED_SCALED,
		.unit_of_rows = true,
		.power = 0,
		.codes = GRN_CODES_DIRECTIONS,
		.comparison = GRN_COMPARE_IP,
		.long_entries = GRN_MAX_ENTRIES / 2,
		.value = ip_value,
		.bound = ip_bound,
		.bound_by_norm = true
	}
};

#define NMETRICS (sizeof(metrics) / sizeof(metrics[0]))

#define NAME_OF(NAME, number, name) [number] = #name,
static const char *const names[] = {GRN_METRICS(NAME_OF)};

const GrnMetricInfo *
grn_metric(uint32_t id)
{
	for (size_t i = 0; i < NMETRICS; i++)
		if (metrics[i].id == id)
			return &metrics[i];
	return NULL;
}

bool
grn_is_metric(const void *p)
{
	for (size_t i = 0; i < NMETRICS; i++)
		if (p == &metrics[i])
			return true;
	return false;
}

const char *
grn_metric_name(const GrnMetricInfo *metric)
{
	return names[metric->id];
}

const GrnMetricInfo *
grn_metric_named(const char *name)
{
	for (size_t i = 0; i < NMETRICS; i++)
		if (strcmp(grn_metric_name(&metrics[i]), name) == 0)
			return &metrics[i];
	return NULL;
}

char *
grn_metric_names(const char *between, char *out, size_t size)
{
	size_t		used = 0;

	for (size_t i = 0; i < NMETRICS && used < size; i++)
		used += (size_t) snprintf(out + used, size - used, "%s%s", i > 0 ? between : "",
								  grn_metric_name(&metrics[i]));
	return out;
}

double
grn_metric_norm_unit(const GrnMetricInfo *metric, const uint32_t *octaves)
{
	if (octaves != NULL && metric->unit_of_rows)
		return metric->power > 0 ? grn_norm_unit(octaves) : grn_largest_norm_unit(octaves);
	return metric->norm_unit > 0 ? metric->norm_unit : 1;
}

size_t
grn_row_floats(const GrnMetricInfo *metric, uint32_t dim)
{
	return grn_is_scaled(metric->embedding) ? dim + sizeof(GrnScale) / sizeof(float) : dim;
}
