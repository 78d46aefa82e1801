/*
 * sparsevec.c - pgvector's type sparsevec: up to 16,000 non-zero elements of any number of
 * dimensions.
 *
 * A row with more than SKETCH_DIM dimensions has a sketch as its stand-in.  Each column adds its
 * element, with a sign, to one number in each quarter of the sketch.  Position and sign are a
 * fixed hash of the column, so sketches of all rows agree, and columns that share a number cancel
 * on average.  A sketch has the length of its row.  Distances and inner products of sketches
 * therefore approximate the rows', with an error that falls with the root of SKETCH_DIM (Kane and
 * Nelson, Sparser Johnson-Lindenstrauss transforms).
 *
 * L1 uses roots.  |a - b| of two numbers of equal sign is near (sqrt |a| - sqrt |b|)^2, and equal
 * if one number is zero, the usual case.  So the squared Euclidean distance of the rows' roots
 * approximates their L1 distance.  Positive and negative numbers are kept as two separate columns.
 *
 * Sketches are on disk: any change of this computation must change GRNND_FORMAT.
 */
#include "am/opclass.h"

#include <math.h>

#include "fmgr.h"
#include "sparsevec.h"
#include "utils/float.h"

/*
 * Measured share of the ten nearest rows by cosine among the 40 and the 120 nearest sketches: .98
 * and 1.00 (sections of documentation, 64 words each; equal with 2 bits a number), or 1.00
 * (glosses of 10 words).  Half of the dimensions give .95 and .98, and twice as many give 1.00 in
 * twice the space.
 */
#define SKETCH_DIM 2048
#define POSITIONS 4				/* quarters of the sketch */
#define POSITION_BITS 9
#define POSITION_WEIGHT 0.5f	/* 1 / sqrt(POSITIONS) */

StaticAssertDecl(POSITIONS << POSITION_BITS == SKETCH_DIM, "positions fill the sketch");

/* A sketch's error is likely less than this number of standard deviations. */
#define DEVIATIONS 3.0

static int
sparsevec_dim(Datum value)
{
	return ((const SparseVector *) DatumGetPointer(value))->dim;
}

/* the finalizer of splitmix64 */
static uint64
hash_column(uint64 column)
{
	uint64		h = column + UINT64CONST(0x9E3779B97F4A7C15);

	h = (h ^ h >> 30) * UINT64CONST(0xBF58476D1CE4E5B9);
	h = (h ^ h >> 27) * UINT64CONST(0x94D049BB133111EB);
	return h ^ h >> 31;
}

static void
add_element(float *sketch, uint64 column, float x)
{
	uint64		h = hash_column(column);

	for (int i = 0; i < POSITIONS; i++)
	{
		uint32		position = (uint32) i << POSITION_BITS | (h & ((1 << POSITION_BITS) - 1));

		h >>= POSITION_BITS;
		sketch[position] += h & 1 ? -POSITION_WEIGHT * x : POSITION_WEIGHT * x;
		h >>= 1;
	}
}

/*
 * Multiplies the sketch by a Hadamard matrix, a rotation that spreads every number over all
 * numbers.
 */
static void
multiply_hadamard(float *sketch, int n)
{
	float		scale = 1 / sqrtf((float) n);

	for (int half = 1; half < n; half *= 2)
		for (int i = 0; i < n; i += 2 * half)
			for (int j = i; j < i + half; j++)
			{
				float		x = sketch[j];
				float		y = sketch[j + half];

				sketch[j] = x + y;
				sketch[j + half] = x - y;
			}
	for (int i = 0; i < n; i++)
		sketch[i] *= scale;
}

/* The squared length of x [n]. */
static double
squared_length(const float *x, int n)
{
	double		sum = 0;

	for (int i = 0; i < n; i++)
		sum += (double) x[i] * x[i];
	return sum;
}

/*
 * Scales a sketch to the length of its row; errors of angles stay.  Recall@10 by L2 at ef 40 and
 * 100 of 20,800 sections of documentation is .944 and .976 without scaling, .952 and .985 with
 * scaling.
 */
static void
set_length(float *sketch, int n, double norm2)
{
	double		factor = sqrt(norm2 / squared_length(sketch, n));

	for (int i = 0; i < n && isfinite(factor); i++)
		sketch[i] = (float) (sketch[i] * factor);
}

/*
 * Ensures that a sketch whose elements cancel is not zero, because a cosine index leaves out zero
 * vectors.
 */
static void
avoid_zero(float *sketch, int n, float first)
{
	for (int i = 0; i < n; i++)
		if (sketch[i] != 0)
			return;
	sketch[0] = first;
}

/* ---- the rows themselves ---- */

static int
plain_graph_dim(int dim)
{
	return Min(dim, SKETCH_DIM);
}

static void
plain_load(Datum value, int dim, void *stored)
{
	float	   *out = stored;
	SparseVector *v = (SparseVector *) DatumGetPointer(value);
	const float *x = SPARSEVEC_VALUES(v);
	int			n = plain_graph_dim(dim);

	memset(out, 0, n * sizeof(float));
	if (n == dim)
	{
		for (int i = 0; i < v->nnz; i++)
			out[v->indices[i]] = x[i];
		return;
	}
	for (int i = 0; i < v->nnz; i++)
		add_element(out, (uint64) v->indices[i], x[i]);
	multiply_hadamard(out, n);
	set_length(out, n, squared_length(x, v->nnz));
	if (v->nnz > 0)
		avoid_zero(out, n, x[0]);
}

static double
plain_bound(const GrnMetricInfo *metric, const GrnBound *b, int dim, double errors)
{
	GrnBound	with = *b;

	if ((int) b->dim == dim)
		return metric->bound(b);
	/* no bound is known */
	if (metric->sketch_error == NULL)
		return -get_float8_infinity();
	with.error += errors * DEVIATIONS * metric->sketch_error(b);
	return metric->bound(&with);
}

static const GrnndType sparsevec = {
	.name = "sparsevec",
	.max_dim = SPARSEVEC_MAX_DIM,
	.dim = sparsevec_dim,
	.form = GRN_FORM_F32,
	.load = plain_load,
	.graph_dim = plain_graph_dim,
	.likely_bound = plain_bound,
	.most_exact = SKETCH_DIM
};

PG_FUNCTION_INFO_V1(grnnd_internal_type_sparsevec);
Datum
grnnd_internal_type_sparsevec(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&sparsevec);
}

/* ---- roots, for L1 ---- */

static int
roots_graph_dim(int dim)
{
	return dim <= SKETCH_DIM / 2 ? 2 * dim : SKETCH_DIM;
}

static void
roots_load(Datum value, int dim, void *stored)
{
	float	   *out = stored;
	SparseVector *v = (SparseVector *) DatumGetPointer(value);
	const float *x = SPARSEVEC_VALUES(v);
	int			n = roots_graph_dim(dim);
	double		norm2 = 0;

	memset(out, 0, n * sizeof(float));
	for (int i = 0; i < v->nnz; i++)
	{
		uint64		column = 2 * (uint64) v->indices[i] + (x[i] < 0);
		float		root = sqrtf(fabsf(x[i]));

		norm2 += fabs((double) x[i]);
		if (n == 2 * dim)
			out[column] = root;
		else
			add_element(out, column, root);
	}
	if (n == 2 * dim)
		return;
	multiply_hadamard(out, n);
	set_length(out, n, norm2);
}

/*
 * The likely bound of an L1 distance.  The metric of the roots is L2, so its value must be
 * squared.
 */
static double
roots_bound(const GrnMetricInfo *metric, const GrnBound *b, int dim, double errors)
{
	double		root = plain_bound(metric, b, 0, errors);

	return root * root;
}

static const GrnndType sparsevec_roots = {
	.name = "sparsevec",
	.max_dim = SPARSEVEC_MAX_DIM,
	.dim = sparsevec_dim,
	.form = GRN_FORM_F32,
	.load = roots_load,
	.graph_dim = roots_graph_dim,
	.likely_bound = roots_bound
};

PG_FUNCTION_INFO_V1(grnnd_internal_type_sparsevec_roots);
Datum
grnnd_internal_type_sparsevec_roots(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&sparsevec_roots);
}
