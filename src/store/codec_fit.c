/*
 * codec_fit.c - fits codecs: computes principal directions of a sample, and chooses their number.
 *
 * The directions come from subspace iteration with a random start (Halko, Martinsson & Tropp, SIAM
 * Review 2011) on the centered sample X [n][dim]: V <- orth(X^T X V).  This iteration needs no dim
 * x dim matrix.  Each step is two products, split by rows and by columns of X.  Every sum has a
 * fixed order, so the result does not depend on the number of threads.
 */
#include "store/codec.h"

#include <math.h>
#include <string.h>

#include "memory/memory.h"
#include "space/kernels/linear.h"
#include "space/space.h"
#include "store/codec_impl.h"

/*
 * Recall at ef 40 of 20,000 sentences, image patches and rows in tight clusters of 20.  OVERSAMPLE:
 * half and twice within .0015 (sentences) and the same (patches).  ITERATIONS 2, 3 and 6: .9945
 * .9940 .9945, .9880 .9860 .9870, .9945 .9885 .9835.
 */
#define OVERSAMPLE 16			/* directions beyond max_code_dims */
#define ITERATIONS 3
/*
 * Limit of a sample's floats (4,000 rows of 16,000 dimensions).  A larger sample would take longer
 * and give nearly equal directions.
 */
#define MAX_SAMPLE_FLOATS ((size_t) 64 << 20)
/*
 * Rows, columns or directions per work item, and rows per partial sum.  10,000 sentences and 10,000
 * rows of 1,536 dimensions take the same time with half and twice.
 */
#define PIECE 16
#define SUM_PIECE 256
#define MIN_SAMPLE 32			/* smaller samples say nothing of the spectrum: random directions */

_Static_assert(GRN_MAX_CODE_DIMS + OVERSAMPLE <= GRN_MAX_DIRECTIONS, "directions fit");

/* Streams of grn_random(). */
enum
{
	STREAM_START = 0x434F4445,
	STREAM_REPAIR,
	STREAM_ROTATE
};

/* The sizes of a fit, and its arrays inside the workspace. */
typedef struct SampleFit
{
	const GrnCodecFit *in;
	size_t		n;				/* rows used */
	size_t		dim;
	size_t		m;				/* number of directions computed */
	float	   *mean;			/* [dim] */
	float	   *x;				/* [n][dim], centered */
	float	   *v;				/* [m][dim], orthonormal */
	float	   *y;				/* [m][dim] */
	float	   *t;				/* [m][n]: V X^T */
	float	   *head;			/* [max_code_dims][dim], the first k rows: directions before the
								 * rotation */
	float	   *rotation;		/* rotation matrix of one block */
	double	   *g;				/* [m][m] */
	double	   *values;			/* [m] */
	double	   *energies;		/* [n] */
} SampleFit;

static size_t
fit_rows(const GrnCodecFit *fit)
{
	size_t		n = fit->sample != NULL || fit->nsample > 0 ? fit->nsample : fit->nrows;
	size_t		most = MAX_SAMPLE_FLOATS / fit->dim;

	return n < most ? n : most;
}

/* Places the arrays in the workspace.  Returns the workspace's bytes. */
static size_t
place_arrays(SampleFit *f, const GrnCodecFit *in, void *workspace)
{
	GrnArena	a = grn_arena(workspace);

	f->in = in;
	f->n = fit_rows(in);
	f->dim = in->dim;
	f->m = (size_t) in->max_code_dims + OVERSAMPLE;
	if (f->m > f->dim)
		f->m = f->dim;
	f->g = grn_take(&a, f->m, f->m * sizeof(double));
	f->values = grn_take(&a, f->m, sizeof(double));
	f->energies = grn_take(&a, f->n, sizeof(double));
	f->x = grn_take(&a, f->n, f->dim * sizeof(float));
	f->v = grn_take(&a, f->m, f->dim * sizeof(float));
	f->y = grn_take(&a, f->m, f->dim * sizeof(float));
	f->t = grn_take(&a, f->m, f->n * sizeof(float));
	f->head = grn_take(&a, in->max_code_dims, f->dim * sizeof(float));
	f->rotation = grn_take(&a, in->max_code_dims, in->max_code_dims * sizeof(float));
	return grn_arena_bytes(&a);
}

size_t
grn_codec_fit_bytes(const GrnCodecFit *fit)
{
	SampleFit	f;

	return place_arrays(&f, fit, NULL);
}

/* The rows from which the sample is taken. */
static GrnRows
fit_from(const GrnCodecFit *in)
{
	GrnRows		rows = {.base = in->rows, .n = in->nrows, .row_bytes = in->stride * sizeof(float),
		.dim = in->dim, .embedding = in->embedding, .form = GRN_FORM_FLOATS};

	if (in->of != NULL)
	{
		rows = *in->of;
		rows.order = NULL;
	}
	return rows;
}

/* The factor of a row before centring: its place or its direction. */
static float
row_scale(const SampleFit *f, const GrnRows *rows, const void *row)
{
	GrnScale	s;

	if (!grn_is_scaled(rows->embedding))
		return 1;
	s = grn_row_scale(rows, row);
	if (f->in->kind == GRN_CODES_ROWS)
		return s.scale;
	return s.norm2 > 0 ? s.scale / sqrtf(s.norm2) : 0;
}

/* Copies rows [begin, end) of the sample, scaled by row_scale(). */
static void
copy_rows(void *arg, int worker, size_t begin, size_t end)
{
	SampleFit  *f = arg;
	GrnRows		rows = fit_from(f->in);

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		const void *row = grn_row(&rows, f->in->sample ? f->in->sample[i] : i);
		float		scale = row_scale(f, &rows, row);
		float	   *x = f->x + i * f->dim;

		grn_form_load(rows.form, row, f->dim, x);
		for (size_t j = 0; j < f->dim; j++)
			x[j] *= scale;
	}
}

/* Mean of columns [begin, end), in double. */
static void
mean_columns(void *arg, int worker, size_t begin, size_t end)
{
	SampleFit  *f = arg;

	(void) worker;
	while (begin < end)
	{
		double		sum[PIECE] = {0};
		size_t		len = end - begin < PIECE ? end - begin : PIECE;

		for (size_t i = 0; i < f->n; i++)
		{
			const float *x = f->x + i * f->dim + begin;

			for (size_t j = 0; j < len; j++)
				sum[j] += x[j];
		}
		for (size_t j = 0; j < len; j++)
			f->mean[begin + j] = f->n > 0 ? (float) (sum[j] / (double) f->n) : 0;
		begin += len;
	}
}

/* Centers rows [begin, end) and computes their squared lengths. */
static void
center_rows(void *arg, int worker, size_t begin, size_t end)
{
	SampleFit  *f = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		float	   *x = f->x + i * f->dim;

		for (size_t j = 0; j < f->dim; j++)
			x[j] -= f->mean[j];
		f->energies[i] = grn_dist->ip_f32(x, x, f->dim);
	}
}

/* t[:, begin..end) = V X^T */
static void
project_rows(void *arg, int worker, size_t begin, size_t end)
{
	SampleFit  *f = arg;
	GrnProduct	p = {f->v, f->dim, f->x + begin * f->dim, f->dim, f->dim,
		f->t + begin, f->n, false};

	(void) worker;
	grn_multiply(&p, f->m, end - begin);
}

/* y[:, begin..end) = t X, with transposed pieces of X */
static void
gather_columns(void *arg, int worker, size_t begin, size_t end)
{
	SampleFit  *f = arg;
	float		piece[PIECE * SUM_PIECE];

	(void) worker;
	for (size_t i = 0; i < f->m; i++)
		memset(f->y + i * f->dim + begin, 0, (end - begin) * sizeof(float));
	for (; begin < end; begin += PIECE)
	{
		size_t		cols = end - begin < PIECE ? end - begin : PIECE;

		for (size_t r = 0; r < f->n; r += SUM_PIECE)
		{
			size_t		rows = f->n - r < SUM_PIECE ? f->n - r : SUM_PIECE;
			GrnProduct	p = {f->t + r, f->n, piece, SUM_PIECE, rows,
				f->y + begin, f->dim, true};

			for (size_t i = 0; i < rows; i++)
				for (size_t j = 0; j < cols; j++)
					piece[j * SUM_PIECE + i] = f->x[(r + i) * f->dim + begin + j];
			grn_multiply(&p, f->m, cols);
		}
	}
}

/* g[begin..end) = rows of t t^T */
static void
gram_rows(void *arg, int worker, size_t begin, size_t end)
{
	SampleFit  *f = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
		for (size_t j = 0; j <= i; j++)
		{
			double		sum = 0;

			for (size_t r = 0; r < f->n; r += SUM_PIECE)
			{
				size_t		rows = f->n - r < SUM_PIECE ? f->n - r : SUM_PIECE;

				sum += grn_dist->ip_f32(f->t + i * f->n + r, f->t + j * f->n + r, rows);
			}
			f->g[i * f->m + j] = f->g[j * f->m + i] = sum;
		}
}

/* Output of gaussian_range(). */
typedef struct Gaussians
{
	float	   *out;
	uint64_t	seed;
	uint64_t	stream;
} Gaussians;

static void
gaussian_range(void *arg, int worker, size_t begin, size_t end)
{
	Gaussians  *g = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
		g->out[i] = grn_gaussian(g->seed, g->stream, i);
}

/* Fills v [m][dim] with random orthonormal rows. */
static void
random_rows(float *v, size_t m, size_t dim, uint64_t seed, uint64_t stream,
			GrnParallel *parallel)
{
	Gaussians	g = {v, seed, stream};

	parallel->run(parallel, m * dim, 1024, gaussian_range, &g);
	grn_orthonormalize(v, m, dim, 2, seed, STREAM_REPAIR, parallel);
}

/* Computes the sample's principal directions, rows of g times rows of v, and values. */
static void
find_directions(SampleFit *f, GrnParallel *parallel)
{
	for (int i = 0; i < ITERATIONS; i++)
	{
		parallel->run(parallel, f->n, PIECE, project_rows, f);
		parallel->run(parallel, f->dim, PIECE, gather_columns, f);
		memcpy(f->v, f->y, f->m * f->dim * sizeof(float));
		grn_orthonormalize(f->v, f->m, f->dim, i < ITERATIONS - 1 ? 1 : 2, f->in->seed,
						   STREAM_REPAIR, parallel);
	}
	parallel->run(parallel, f->n, PIECE, project_rows, f);
	parallel->run(parallel, f->m, PIECE, gram_rows, f);
	grn_eigen_rows(f->g, f->values, f->m, parallel);
}

/* Computes rows [begin, end) of the head: directions as vectors. */
static void
head_range(void *arg, int worker, size_t begin, size_t end)
{
	SampleFit  *f = arg;

	(void) worker;
	memset(f->head + begin * f->dim, 0, (end - begin) * f->dim * sizeof(float));
	for (size_t i = begin; i < end; i++)
		for (size_t j = 0; j < f->m; j++)
			if (f->values[i] > 0)
				grn_dist->add_scaled(f->head + i * f->dim,
									 (float) (f->g[i * f->m + j] / f->values[i]),
									 f->v + j * f->dim, f->dim);
}

/*
 * Computes the k rows of a block's basis: a random rotation of `rows` directions, padded with
 * zeroes.  If k > rows, the columns are orthonormal: each direction is spread over several
 * dimensions of the code, and their rounding errors average out.
 */
typedef struct Rotation
{
	const SampleFit *f;
	const float *head;			/* [rows][dim] */
	size_t		rows;
	size_t		k;
	float	   *basis;			/* [k][dim] */
} Rotation;

static void
rotate_range(void *arg, int worker, size_t begin, size_t end)
{
	Rotation   *r = arg;
	size_t		dim = r->f->dim;

	(void) worker;
	memset(r->basis + begin * dim, 0, (end - begin) * dim * sizeof(float));
	for (size_t i = begin; i < end; i++)
		for (size_t j = 0; j < r->rows; j++)
			grn_dist->add_scaled(r->basis + i * dim, r->f->rotation[i * r->k + j],
								 r->head + j * dim, dim);
}

/* The variances of the rows' directions. */
typedef struct Spectrum
{
	double		sum[GRN_MAX_CODE_DIMS + 1]; /* sum of the i largest variances */
	double		total;
	double		squares;		/* sum of the squares of all variances */
	uint32_t	dim;
} Spectrum;

/* values: [m] variances, largest first; NULL: all directions have equal variance. */
static void
set_spectrum(Spectrum *s, uint32_t dim, const double *values, size_t m, double total)
{
	double		rest;

	s->dim = dim;
	s->total = values != NULL ? total : dim;
	s->sum[0] = s->squares = 0;
	for (size_t i = 0; i < GRN_MAX_CODE_DIMS; i++)
	{
		double		v = values == NULL ? i < dim : i < m && values[i] > 0 ? values[i] : 0;

		s->sum[i + 1] = fmin(s->sum[i] + v, s->total);
		s->squares += v * v;
	}
	/* directions beyond the computed ones count as equal */
	rest = s->total - s->sum[GRN_MAX_CODE_DIMS];
	if (dim > GRN_MAX_CODE_DIMS)
		s->squares += rest * rest / (dim - GRN_MAX_CODE_DIMS);
}

/* Number of directions in a block of dimensions [first, last), at most those that are left. */
static size_t
block_directions(uint32_t dim, uint32_t first, uint32_t last)
{
	return first >= dim ? 0 : (last < dim ? last : dim) - first;
}

/* The share of the variance that codes of a shape lose. */
static double
share_lost(const Spectrum *s, GrnCodeShape shape)
{
	double		lost = s->total - s->sum[grn_code_dims(shape)];

	/* the rounding errors of dimensions that share a direction average out */
	GRN_FOR_BLOCKS(shape, b, first, last)
		lost += grn_lost_in_bits[b] * (s->sum[last] - s->sum[first]) *
		(double) block_directions(s->dim, first, last) / (last - first);
	return lost / s->total;
}

/*
 * The factor by which codes that lose a share e of the variance increase the visits of a search:
 * exp(f e^2).  If the variance lies in few directions, the errors of a code average less, so f =
 * 4.5 + 330 / n, where n equal variances would have the same sum of squares.  Measured with
 * search_bench.c, means of recall 0.95 and 0.99: SIFT n = 30, f = 16; sentence embeddings of 384
 * dimensions n = 126, f = 6.8; two such embeddings side by side n = 212, f = 5.6.  Half of
 * VISITS_LEAST makes an index of 6,000 sentences 20% smaller, at 12% more visits; twice of
 * VISITS_FACTOR makes one of image patches 17% larger, at 11% fewer.  Otherwise half and twice of
 * both build the same indexes.
 */
#define VISITS_LEAST 4.5
#define VISITS_FACTOR 330

static double
visits_factor(const Spectrum *s, double e)
{
	return exp((VISITS_LEAST + VISITS_FACTOR * s->squares / (s->total * s->total)) * e * e);
}

/* The shape with the cheapest search; *held: the share of the variance that the codes keep. */
static GrnCodeShape
cheapest_shape(const Spectrum *s, uint32_t least_dims, uint32_t max_dims, const GrnCodeCosts *costs,
			   float *held)
{
	GrnCodeShape best = GRN_NO_CODES;
	double		best_cost = costs->visit[0];
	GrnCodeShape t = GRN_NO_CODES;
	const uint32_t least = 2 * GRN_CODE_ALIGN;

	*held = 0;
	/* with few dimensions, near neighbors' order needs the full precision of all dimensions */
	for (t.dims[0] = s->dim > least ? 0 : least; t.dims[0] <= max_dims; t.dims[0] += GRN_CODE_ALIGN)
		for (t.dims[1] = 0; t.dims[0] + t.dims[1] <= max_dims; t.dims[1] += GRN_CODE_ALIGN)
			for (t.dims[2] = 0; grn_code_dims(t) <= max_dims; t.dims[2] += GRN_CODE_ALIGN)
			{
				uint32_t	bytes = grn_code_bytes(t);
				double		lost;
				double		cost;

				/* (codes that lose something never need fewer visits than one) */
				if (bytes == 0 || grn_code_dims(t) < least_dims || !grn_shape_sound(t) ||
					costs->visit[bytes / GRN_CODE_STEP] >= best_cost)
					continue;
				lost = share_lost(s, t);
				cost = costs->visit[bytes / GRN_CODE_STEP] * visits_factor(s, lost);
				if (cost < best_cost)
				{
					best_cost = cost;
					best = t;
					*held = (float) (1 - lost);
				}
			}
	return best;
}

static GrnCodeShape
choose_shape(const GrnCodecFit *in, const Spectrum *s, bool random, float *held)
{
	GrnCodeShape shape = in->shape;

	if (in->costs != NULL)
		return cheapest_shape(s, in->least_code_dims, in->max_code_dims, in->costs, held);
	if (grn_code_dims(shape) > 0)
	{
		*held = (float) (1 - share_lost(s, shape));
		return shape;
	}
	for (uint32_t k = GRN_FIT_ALIGN; k <= in->max_code_dims; k += GRN_FIT_ALIGN)
	{
		shape.dims[0] = k;
		*held = (float) (s->sum[k] / s->total);
		if (*held >= in->energy && !random)
			break;
	}
	return shape;
}

/* A block's step: the step that loses least of the variance of its dimensions. */
static float
block_step(const Spectrum *s, double unit, int block, uint32_t first, uint32_t last)
{
	double		variance = (s->sum[last] - s->sum[first]) / (last - first);
	double		least = 1e-6 * s->total / s->dim;

	return grn_best_steps[block] * (float) sqrt(unit * fmax(variance, least));
}

GrnCodec
grn_codec_fit(const GrnCodecFit *fit, GrnParallel *parallel, float *out,
			  void *workspace, float *held)
{
	GrnCodec	codec;
	SampleFit	f;
	Spectrum	spectrum;
	double		total = 0;
	bool		random;
	size_t		k;
	size_t		rows;

	memset(&codec, 0, sizeof(codec));
	codec.dim = fit->dim;
	codec.norm_unit = 1;
	*held = 0;
	if (fit->max_code_dims == 0)
		return codec;
	if (fit->shape.own > 0)
	{
		codec.shape = fit->shape;
		*held = 1;
		return codec;
	}

	place_arrays(&f, fit, workspace);
	f.mean = out;
	parallel->run(parallel, f.n, PIECE, copy_rows, &f);
	parallel->run(parallel, f.dim, PIECE, mean_columns, &f);
	parallel->run(parallel, f.n, PIECE, center_rows, &f);
	for (size_t i = 0; i < f.n; i++)
		total += f.energies[i];

	random_rows(f.v, f.m, f.dim, fit->seed, STREAM_START, parallel);
	random = f.n < MIN_SAMPLE || !(total > 0) || total > 1e37;
	if (!random)
		find_directions(&f, parallel);
	set_spectrum(&spectrum, fit->dim, random ? NULL : f.values, f.m, total);
	codec.shape = choose_shape(fit, &spectrum, random, held);
	k = grn_code_dims(codec.shape);
	rows = k < f.m ? k : f.m;
	if (k == 0)
		return codec;
	if (random)
		memcpy(f.head, f.v, rows * f.dim * sizeof(float));
	else
	{
		parallel->run(parallel, rows, PIECE, head_range, &f);
		grn_orthonormalize(f.head, rows, f.dim, 2, fit->seed, STREAM_REPAIR, parallel);
	}
	if (total > 0 && total / (double) f.n < 3e38)
		codec.norm_unit = (float) (total / (double) f.n);
	GRN_FOR_BLOCKS(codec.shape, b, first, last)
	{
		size_t		dims = last - first;
		Rotation	rotation = {&f, f.head + first * f.dim, block_directions(fit->dim, first, last),
			dims, out + (1 + first) * f.dim};

		/* variances are sums over the sample, or equal shares if directions are random */
		codec.steps[b] = block_step(&spectrum, codec.norm_unit / spectrum.total, b, first, last);
		random_rows(f.rotation, dims, dims, fit->seed, STREAM_ROTATE + b, parallel);
		parallel->run(parallel, dims, PIECE, rotate_range, &rotation);
	}
	codec.mean = out;
	codec.basis = out + f.dim;
	return codec;
}

/*
 * Decline of the variances: a fifth of the directions holds half of the variance.  (SIFT and
 * sentences decline by 5, word vectors by less.)  10,000 word vectors of 128 and of 50 dimensions
 * in indexes created empty, recall at ef 40: .905 and .986; .913 and .986 with half, but rows of
 * 300 and of 768 dimensions then get fewer records a page; .773 and .968 with twice.
 */
#define USUAL_DECAY 3.8

GrnCodeShape
grn_codec_usual_shape(uint32_t dim, const GrnCodeCosts *costs)
{
	Spectrum	spectrum;
	double		values[GRN_MAX_CODE_DIMS];
	uint32_t	n = dim < GRN_MAX_CODE_DIMS ? dim : GRN_MAX_CODE_DIMS;
	double		ratio = exp(-USUAL_DECAY / (double) dim);
	float		held;

	values[0] = 1;
	for (uint32_t i = 1; i < n; i++)
		values[i] = ratio * values[i - 1];
	set_spectrum(&spectrum, dim, values, n, (1 - exp(-USUAL_DECAY)) / (1 - ratio));
	return cheapest_shape(&spectrum, 0, grn_max_code_dims(dim), costs, &held);
}
