/*
 * projection.c - projects rows of floats to a few signed bytes, for the descent.
 *
 * One scale serves all coordinates, as distances require.  The codec's rotation of the
 * principal directions makes one scale accurate for all.  If even the most directions keep too
 * little of the variance, all coordinates of a row become bytes.
 */
#include "graph/descent.h"

#include <math.h>
#include <string.h>

#include "memory/memory.h"
#include "space/kernels/tile.h"
#include "store/codec.h"

#define MAX_DIMS GRN_MAX_CODE_DIMS
/*
 * 20,000 sentences, image patches and rows in clusters of 20, recall at ef 40: within .002 with
 * ENERGY .9 and .975, with ENERGY_LEAST .5 and .95, and with 4,096 and 16,384 rows of the sample.
 * CLIP of 3 and 12 gives the same graphs of 10,000 sentences, word vectors and rows of Pareto
 * lengths.  With a multiple of the root mean square of all coordinates a column that dominates 64
 * others loses: .79 instead of .99 at ef 10.
 */
#define ENERGY 0.95f			/* share of the variance that the directions should keep */
#define ENERGY_LEAST 0.80f		/* if the directions keep less, all coordinates become bytes */
#define SAMPLE 8192				/* the most rows of the sample of a fit */
#define SAMPLE_FLOATS ((size_t) 16 << 20)	/* the most floats of the sample of a fit */
/*
 * Rows that show the size of coordinates.  10,000 sentences, recall at ef 10: half .974, this .975,
 * twice .976, with half and twice of BLOCK and CHUNK as well, in the same time.
 */
#define SIZE_ROWS 1024
#define CLIP 6.0f				/* a byte saturates beyond this multiple of the root mean square of
								 * rows' largest coordinates */
#define BLOCK 16				/* rows that are projected together and share directions in the
								 * cache */
#define CHUNK 1024				/* coordinates of these rows, minus the mean, that are processed at
								 * a time */

static size_t
sample_size(size_t n, uint32_t dim)
{
	size_t		most = SAMPLE_FLOATS / dim;

	if (most > SAMPLE)
		most = SAMPLE;
	return n < most ? n : most;
}

uint32_t
grn_project_max_dims(uint32_t dim)
{
	return dim > MAX_DIMS ? dim : (dim + GRN_FIT_ALIGN - 1) / GRN_FIT_ALIGN * GRN_FIT_ALIGN;
}

static GrnCodecFit
fit_parameters(const GrnRows *rows, size_t n, uint32_t dim, uint64_t seed)
{
	GrnCodecFit fit;
	uint32_t	dims = grn_project_max_dims(dim);

	memset(&fit, 0, sizeof(fit));
	fit.of = rows;
	fit.nrows = n;
	fit.nsample = sample_size(n, dim);
	fit.dim = dim;
	fit.max_code_dims = dims < MAX_DIMS ? dims : MAX_DIMS;
	fit.energy = ENERGY;
	fit.seed = seed;
	return fit;
}

/* The arrays of a fit in the workspace. */
typedef struct Arrays
{
	float	   *fitted;			/* the codec, which the projection keeps after the fit */
	uint32_t   *sample;
	void	   *workspace;		/* workspace of the codec's fit */
} Arrays;

/* Places the arrays in the workspace and returns its bytes. */
static size_t
place_arrays(Arrays *arrays, const GrnCodecFit *fit, void *workspace)
{
	GrnArena	a = grn_arena(workspace);

	arrays->fitted = grn_take(&a, grn_codec_floats(fit->dim, fit->max_code_dims), sizeof(float));
	arrays->sample = grn_take(&a, fit->nsample, sizeof(uint32_t));
	arrays->workspace = grn_take(&a, 1, grn_codec_fit_bytes(fit));
	return grn_arena_bytes(&a);
}

size_t
grn_project_kept(uint32_t dim)
{
	GrnCodecFit fit = fit_parameters(NULL, 0, dim, 0);

	return GRN_ALIGNMENT + grn_aligned(grn_codec_floats(dim, fit.max_code_dims) * sizeof(float));
}

size_t
grn_project_bytes(size_t n, uint32_t dim)
{
	GrnCodecFit fit = fit_parameters(NULL, n, dim, 0);
	Arrays		arrays;

	return place_arrays(&arrays, &fit, NULL);
}

/* Computes projected coordinates [.][stride] of rows [begin, end), at most BLOCK, unscaled. */
static void
project_block(const GrnProject *p, const GrnRows *rows, size_t begin, size_t end,
			  float *out, size_t stride)
{
	const GrnCodec *c = &p->codec;
	uint32_t	k = grn_code_dims(c->shape);
	float		centered[BLOCK][CHUNK];

	for (size_t i = 0; i < (end - begin) * stride; i++)
		out[i] = 0;
	for (uint32_t first = 0; first < rows->dim; first += CHUNK)
	{
		uint32_t	len = rows->dim - first < CHUNK ? rows->dim - first : CHUNK;

		for (size_t i = begin; i < end; i++)
		{
			float	   *to = k > 0 ? centered[i - begin] : out + (i - begin) * stride + first;

			grn_row_place(rows, grn_row(rows, i), first, len, to);
			for (uint32_t j = 0; j < len; j++)
				to[j] -= c->mean[first + j];
		}
		for (uint32_t j = 0; j < k; j++)
			for (size_t i = begin; i < end; i++)
				out[(i - begin) * stride + j] +=
					grn_dist->ip_f32(c->basis + (size_t) j * c->dim + first,
									 centered[i - begin], len);
	}
}

/* Makes the projection keep all coordinates of a row. */
static void
keep_coordinates(GrnProject *p, const GrnRows *rows)
{
	p->codec.shape = GRN_NO_CODES;
	p->dims = rows->dim;
}

/* Sizes of the coordinates of a few rows. */
typedef struct Sizes
{
	const GrnProject *p;
	const GrnRows *rows;
	size_t		n;				/* rows examined, evenly spread */
	float		most[SIZE_ROWS];	/* largest coordinate of each row */
	double		squares[SIZE_ROWS];
} Sizes;

static size_t
size_row(const Sizes *s, size_t i)
{
	return s->rows->n * i / s->n;
}

static void
size_range(void *arg, int worker, size_t begin, size_t end)
{
	Sizes	   *s = arg;
	float		coordinates[GRN_MAX_DIM + 64];

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		size_t		v = size_row(s, i);

		float		most = 0;
		double		squares = 0;

		project_block(s->p, s->rows, v, v + 1, coordinates, s->p->dims);
		for (uint32_t j = 0; j < s->p->dims; j++)
		{
			float		size = fabsf(coordinates[j]);

			squares += (double) size * size;
			most = size > most ? size : most;
		}
		s->most[i] = most;
		s->squares[i] = squares;
	}
}

/* Chooses the scale from a few rows, which are enough to show the size of coordinates. */
static void
find_scale(GrnProject *p, Sizes *sizes, GrnParallel *parallel)
{
	double		squares = 0;
	float		most = 0;

	p->scale = 1;
	parallel->run(parallel, sizes->n, 16, size_range, sizes);
	for (size_t i = 0; i < sizes->n; i++)
	{
		squares += (double) sizes->most[i] * sizes->most[i];
		most = fmaxf(most, sizes->most[i]);
	}
	most = fminf(most, CLIP * (float) sqrt(squares / (double) sizes->n));
	/* The scale remains 1 if all rows are equal or too large to square. */
	if (most > 0 && 127.0f / most < INFINITY)
		p->scale = 127.0f / most;
}

/* mean [dim] of the few rows.  Returns the sum of their squared distances from the mean. */
static double
find_mean(const Sizes *s, float *mean)
{
	uint32_t	dim = s->rows->dim;
	float		x[GRN_MOST_DIMS];
	double		sum[GRN_MOST_DIMS] = {0};
	double		squares = 0;

	for (size_t i = 0; i < s->n; i++)
	{
		grn_row_place(s->rows, grn_row(s->rows, size_row(s, i)), 0, dim, x);
		for (uint32_t j = 0; j < dim; j++)
			sum[j] += x[j];
	}
	for (uint32_t j = 0; j < dim; j++)
		mean[j] = (float) (sum[j] / (double) s->n);
	for (size_t i = 0; i < s->n; i++)
	{
		grn_row_place(s->rows, grn_row(s->rows, size_row(s, i)), 0, dim, x);
		for (uint32_t j = 0; j < dim; j++)
			squares += ((double) x[j] - mean[j]) * ((double) x[j] - mean[j]);
	}
	return squares;
}

static size_t
sampled_rows(const GrnRows *rows)
{
	return rows->n < SIZE_ROWS ? rows->n : SIZE_ROWS;
}

void
grn_project_part(GrnProject *p, const GrnRows *rows, GrnParallel *parallel, float *mean)
{
	Sizes		sizes = {.p = p, .rows = rows, .n = sampled_rows(rows)};
	double		all = find_mean(&sizes, mean);
	double		held = 0;

	p->codec.mean = mean;
	find_scale(p, &sizes, parallel);
	for (size_t i = 0; i < sizes.n; i++)
		held += sizes.squares[i];
	if (p->dims == rows->dim || held >= ENERGY_LEAST * all)
		return;
	keep_coordinates(p, rows);
	find_scale(p, &sizes, parallel);
}

void
grn_project_fit(GrnProject *p, const GrnRows *rows, uint64_t seed, GrnParallel *parallel,
				void *workspace)
{
	GrnCodecFit fit = fit_parameters(rows, rows->n, rows->dim, seed);
	Arrays		arrays;
	float		held;
	Sizes		sizes = {.p = p, .rows = rows, .n = sampled_rows(rows)};

	place_arrays(&arrays, &fit, workspace);
	for (size_t i = 0; i < fit.nsample; i++)
	{
		size_t		v = rows->n * i / fit.nsample;

		arrays.sample[i] = rows->order ? rows->order[v] : (uint32_t) v;
	}
	fit.sample = arrays.sample;
	p->codec = grn_codec_fit(&fit, parallel, arrays.fitted, arrays.workspace, &held);
	p->dims = grn_code_dims(p->codec.shape);
	if (held < ENERGY_LEAST)
		keep_coordinates(p, rows);
	find_scale(p, &sizes, parallel);
}

/* Converts coordinates to bytes.  The comparisons turn a NaN, from overflow, into a byte. */
static void
store_bytes(const float *restrict u, uint32_t n, float scale, int8_t *restrict out)
{
	for (uint32_t j = 0; j < n; j++)
	{
		float		scaled = u[j] * scale;

		scaled = scaled > -127.0f ? scaled : -127.0f;
		scaled = scaled < 127.0f ? scaled : 127.0f;
		out[j] = (int8_t) (scaled + (scaled < 0 ? -0.5f : 0.5f));
	}
}

void
grn_project_rows(const GrnProject *p, const GrnRows *rows, size_t begin, size_t end,
				 size_t stride, int8_t *out, int32_t *terms)
{
	enum
	{
		WIDTH = MAX_DIMS
	};
	float		coordinates[BLOCK * WIDTH > GRN_MAX_DIM + 64 ? BLOCK * WIDTH : GRN_MAX_DIM + 64];
	size_t		block = p->dims <= WIDTH ? BLOCK : 1;

	for (; begin < end; begin += block)
	{
		size_t		stop = end - begin < block ? end : begin + block;

		project_block(p, rows, begin, stop, coordinates, p->dims);
		for (size_t i = begin; i < stop; i++)
		{
			store_bytes(coordinates + (i - begin) * p->dims, p->dims, p->scale, out);
			memset(out + p->dims, 0, stride - p->dims);
			grn_tile_terms(out, stride, terms);
			out += stride;
			terms += 2;
		}
	}
}
