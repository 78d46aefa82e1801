/*
 * codec.c - fitting of codecs (principal directions of a sample), encoding of
 * rows, and estimates from codes.
 *
 * The directions come from subspace iteration with random start (Halko,
 * Martinsson & Tropp, SIAM Review 2011) on the centred sample X [n][dim]:
 * V <- orth(X^T X V), which needs no dim x dim matrix.  Each step is two
 * products that share their work by rows and by columns of X; every sum has
 * one fixed order, so the result does not depend on the number of threads.
 */
#include "graph/kernels/linear.h"

#include <math.h>
#include <string.h>

#define OVERSAMPLE 16			/* directions beyond max_code_dims */
#define ITERATIONS 3				/* a fourth finds nothing more */
#define MIN_SAMPLE 32			/* below, directions are random */
/*
 * More floats than these in a sample would not change the directions (4,000 rows at
 * 16,000 dimensions), only the time.
 */
#define MAX_SAMPLE_FLOATS ((size_t) 64 << 20)
#define ROW_PIECE 64			/* rows a work item */
#define COL_PIECE 16			/* columns a work item */
#define HEAD_PIECE 4			/* directions a work item */
#define SUM_PIECE 256			/* rows whose sums are formed together */
#define CHUNK 256				/* dimensions of x - c at a time in encoding */

#define LEVELS 16
#define MIDDLE 7.5f				/* code_j - MIDDLE is symmetric around 0 */

_Static_assert(GRN_MAX_CODE_DIMS + OVERSAMPLE <= GRN_MAX_DIRECTIONS, "directions fit");

/* Streams of grn_random(). */
enum
{
	STREAM_START = 0x434F4445,
	STREAM_REPAIR,
	STREAM_ROTATE
};

/* ---- fitting ---- */

/* Sizes of a fit, and its arrays inside the workspace. */
typedef struct Fit
{
	const GrnCodecFit *in;
	size_t		n;				/* rows used */
	size_t		dim;
	size_t		m;				/* directions sought */
	float	   *mean;			/* [dim] */
	float	   *x;				/* [n][dim], centred */
	float	   *v;				/* [m][dim], orthonormal */
	float	   *y;				/* [m][dim] */
	float	   *t;				/* [m][n]: V X^T */
	float	   *head;			/* [max_code_dims][dim], k rows before the rotation */
	float	   *rotation;		/* [k][k] */
	double	   *g;				/* [m][m] */
	double	   *values;			/* [m] */
	double	   *energies;		/* [n] */
} Fit;

static size_t
fit_rows(const GrnCodecFit *fit)
{
	size_t		n = fit->sample != NULL || fit->nsample > 0 ? fit->nsample : fit->nrows;
	size_t		most = MAX_SAMPLE_FLOATS / fit->dim;

	return n < most ? n : most;
}

/* Lays the arrays out at base (NULL: to know the size); returns the bytes. */
static size_t
fit_plan(Fit *f, const GrnCodecFit *in, void *base)
{
	size_t		at = 0;

#define TAKE(field, type, count) \
	do { \
		f->field = base ? (type *) ((char *) base + at) : NULL; \
		at += ((count) * sizeof(type) + 63) & ~(size_t) 63; \
	} while (0)

	f->in = in;
	f->n = fit_rows(in);
	f->dim = in->dim;
	f->m = (size_t) in->max_code_dims + OVERSAMPLE;
	if (f->m > f->dim)
		f->m = f->dim;
	TAKE(g, double, f->m * f->m);
	TAKE(values, double, f->m);
	TAKE(energies, double, f->n);
	TAKE(x, float, f->n * f->dim);
	TAKE(v, float, f->m * f->dim);
	TAKE(y, float, f->m * f->dim);
	TAKE(t, float, f->m * f->n);
	TAKE(head, float, (size_t) in->max_code_dims * f->dim);
	TAKE(rotation, float, (size_t) in->max_code_dims * in->max_code_dims);
#undef TAKE
	return at;
}

size_t
grn_codec_fit_bytes(const GrnCodecFit *fit)
{
	Fit			f;

	/* Room to align a workspace of any address. */
	return fit_plan(&f, fit, NULL) + 64;
}

static const float *
sample_row(const Fit *f, size_t i)
{
	const GrnCodecFit *in = f->in;

	return in->rows + (in->sample ? in->sample[i] : i) * in->stride;
}

/* What a row is multiplied with before it is centred. */
static float
row_scale(const Fit *f, const float *row)
{
	GrnScale	s;

	if (f->in->form == GRN_FIT_ROWS)
		return 1;
	memcpy(&s, row + f->dim, sizeof(s));
	if (f->in->form == GRN_FIT_PLACES)
		return s.scale;
	return s.norm2 > 0 ? s.scale / sqrtf(s.norm2) : 0;
}

/* Mean of columns [begin, end), in double. */
static void
mean_columns(void *arg, int worker, size_t begin, size_t end)
{
	Fit		   *f = arg;

	(void) worker;
	while (begin < end)
	{
		double		sum[COL_PIECE] = {0};
		size_t		len = end - begin < COL_PIECE ? end - begin : COL_PIECE;

		for (size_t i = 0; i < f->n; i++)
		{
			const float *row = sample_row(f, i);
			float		scale = row_scale(f, row);

			for (size_t j = 0; j < len; j++)
				sum[j] += scale * row[begin + j];
		}
		for (size_t j = 0; j < len; j++)
			f->mean[begin + j] = f->n > 0 ? (float) (sum[j] / (double) f->n) : 0;
		begin += len;
	}
}

/* Copies rows [begin, end) centred, and their squared lengths. */
static void
centre_rows(void *arg, int worker, size_t begin, size_t end)
{
	Fit		   *f = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		const float *row = sample_row(f, i);
		float		scale = row_scale(f, row);
		float	   *x = f->x + i * f->dim;

		for (size_t j = 0; j < f->dim; j++)
			x[j] = scale * row[j] - f->mean[j];
		f->energies[i] = grn_dist->ip_f32(x, x, f->dim);
	}
}

/* t[:, begin..end) = V X^T */
static void
project_rows(void *arg, int worker, size_t begin, size_t end)
{
	Fit		   *f = arg;
	GrnProduct	p = {f->v, f->dim, f->x + begin * f->dim, f->dim, f->dim,
	f->t + begin, f->n, false};

	(void) worker;
	grn_multiply(&p, f->m, end - begin);
}

/* y[:, begin..end) = t X, by transposed pieces of X */
static void
gather_columns(void *arg, int worker, size_t begin, size_t end)
{
	Fit		   *f = arg;
	float		piece[COL_PIECE * SUM_PIECE];

	(void) worker;
	for (size_t i = 0; i < f->m; i++)
		memset(f->y + i * f->dim + begin, 0, (end - begin) * sizeof(float));
	for (; begin < end; begin += COL_PIECE)
	{
		size_t		cols = end - begin < COL_PIECE ? end - begin : COL_PIECE;

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
	Fit		   *f = arg;

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

/* Gaussian numbers. */
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

/* v [m][dim], random orthonormal rows. */
static void
random_rows(float *v, size_t m, size_t dim, uint64_t seed, uint64_t stream,
			GrnParallel *parallel)
{
	Gaussians	g = {v, seed, stream};

	parallel->run(parallel, m * dim, 1024, gaussian_range, &g);
	grn_orthonormalise(v, m, dim, 2, seed, STREAM_REPAIR, parallel);
}

/* Fills g's rows and values: the sample's principal directions in terms of v. */
static void
find_directions(Fit *f, GrnParallel *parallel)
{
	for (int i = 0; i < ITERATIONS; i++)
	{
		parallel->run(parallel, f->n, ROW_PIECE, project_rows, f);
		parallel->run(parallel, f->dim, COL_PIECE, gather_columns, f);
		memcpy(f->v, f->y, f->m * f->dim * sizeof(float));
		grn_orthonormalise(f->v, f->m, f->dim, i < ITERATIONS - 1 ? 1 : 2, f->in->seed,
						   STREAM_REPAIR, parallel);
	}
	parallel->run(parallel, f->n, ROW_PIECE, project_rows, f);
	parallel->run(parallel, f->m, 4, gram_rows, f);
	grn_eigen_rows(f->g, f->values, f->m, parallel);
}

/* Rows [begin, end) of the head: directions as vectors. */
static void
head_range(void *arg, int worker, size_t begin, size_t end)
{
	Fit		   *f = arg;

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
 * basis [k][dim] = random rotation of the head, whose rows past `rows` count as
 * zero.  So where k > dim the basis has orthonormal columns instead: each
 * dimension is spread over several codes, whose rounding errors average.
 */
typedef struct Rotation
{
	const Fit  *f;
	size_t		rows;
	size_t		k;
	float	   *basis;
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
						   r->f->head + j * dim, dim);
}

/*
 * Visits a search needs when codes describe all but a share e of the variance, in
 * units of those with exact distances: exp(16 e^2).  Measured at recall 0.99:
 * 1.0-1.1 for e = 0.08, 1.2 for 0.12, 1.6-2.3 for 0.22, 3.6 for 0.30, 12 for 0.42,
 * over 50 for 0.60 (SIFT, GIST and sentence embeddings; search_bench.c).
 */
#define VISITS_FACTOR 16

/*
 * Number of code dimensions; *held is the share of the variance they hold.
 * values: [m] variances in principal directions, largest first.
 * total: variance of the sample, or 0 where directions are random and hold the
 * same share each.
 */
static size_t
choose_dims(const GrnCodecFit *in, const double *values, size_t m, double total,
			float *held)
{
	size_t		best = in->max_code_dims;
	double		best_cost = INFINITY;
	double		sum = 0;

	*held = 0;
	if (in->costs != NULL)
	{
		best = 0;
		best_cost = in->costs[0];
	}
	for (size_t k = GRN_CODE_ALIGN; k <= in->max_code_dims; k += GRN_CODE_ALIGN)
	{
		double		share;

		if (total > 0)
		{
			for (size_t i = k - GRN_CODE_ALIGN; i < k && i < m; i++)
				sum += values[i];
			share = sum < total ? sum / total : 1;
		}
		else
			share = k < in->dim ? (double) k / (double) in->dim : 1;
		if (in->costs != NULL)
		{
			double		cost = in->costs[k / GRN_CODE_ALIGN] *
				exp(VISITS_FACTOR * (1 - share) * (1 - share));

			if (cost < best_cost)
			{
				best_cost = cost;
				best = k;
				*held = (float) share;
			}
		}
		else
		{
			*held = (float) share;
			if (share >= in->energy && total > 0)
				return k;
		}
	}
	return best;
}

GrnCodec
grn_codec_fit(const GrnCodecFit *fit, GrnParallel *parallel, float *out,
			  void *workspace, float *held)
{
	GrnCodec	codec;
	Fit			f;
	Rotation	rotation;
	double		total = 0;
	size_t		k;
	size_t		rows;

	memset(&codec, 0, sizeof(codec));
	codec.dim = fit->dim;
	codec.norm_unit = 1;
	*held = 0;
	if (fit->max_code_dims == 0)
		return codec;

	workspace = (void *) (((uintptr_t) workspace + 63) & ~(uintptr_t) 63);
	fit_plan(&f, fit, workspace);
	f.mean = out;
	parallel->run(parallel, f.dim, COL_PIECE, mean_columns, &f);
	parallel->run(parallel, f.n, ROW_PIECE, centre_rows, &f);
	for (size_t i = 0; i < f.n; i++)
		total += f.energies[i];

	random_rows(f.v, f.m, f.dim, fit->seed, STREAM_START, parallel);
	if (f.n < MIN_SAMPLE || !(total > 0) || total > 1e37)
	{
		k = choose_dims(fit, NULL, 0, 0, held);
		rows = k < f.dim ? k : f.dim;
		memcpy(f.head, f.v, rows * f.dim * sizeof(float));
	}
	else
	{
		find_directions(&f, parallel);
		k = choose_dims(fit, f.values, f.m, total, held);
		rows = k < f.m ? k : f.m;
		parallel->run(parallel, rows, HEAD_PIECE, head_range, &f);
		grn_orthonormalise(f.head, rows, f.dim, 2, fit->seed, STREAM_REPAIR, parallel);
	}
	if (k == 0)
		return codec;
	codec.code_dims = (uint32_t) k;
	if (total > 0 && total / (double) f.n < 3e38)
		codec.norm_unit = (float) (total / (double) f.n);
	random_rows(f.rotation, k, k, fit->seed, STREAM_ROTATE, parallel);
	rotation = (Rotation) {&f, rows, k, out + f.dim};
	parallel->run(parallel, k, HEAD_PIECE, rotate_range, &rotation);
	codec.mean = out;
	codec.basis = out + f.dim;
	return codec;
}

uint32_t
grn_codec_usual_dims(uint32_t dim, uint32_t max_code_dims, const float *costs)
{
	GrnCodecFit fit = {.dim = dim, .max_code_dims = max_code_dims, .costs = costs};
	double		values[GRN_MAX_CODE_DIMS];
	double		total = 0;
	float		held;

	for (size_t i = 0; i < dim; i++)
	{
		if (i < GRN_MAX_CODE_DIMS)
			values[i] = 1.0 / (double) (i + 1);
		total += 1.0 / (double) (i + 1);
	}
	return (uint32_t) choose_dims(&fit, values, dim < GRN_MAX_CODE_DIMS ? dim : GRN_MAX_CODE_DIMS,
								  total, &held);
}

/* ---- encoding ---- */

/* u = B (scale x - from) into u [code_dims], from: [dim] or NULL; returns its squared length. */
static float
project(const GrnCodec *codec, const float *x, float scale, const float *from, float *u)
{
	const GrnDistTable *d = grn_dist;
	size_t		dim = codec->dim;
	float		norm2 = 0;

	for (uint32_t j = 0; j < codec->code_dims; j++)
		u[j] = 0;
	for (size_t at = 0; at < dim; at += CHUNK)
	{
		float		diff[CHUNK];
		size_t		len = dim - at < CHUNK ? dim - at : CHUNK;

		for (size_t i = 0; i < len; i++)
			diff[i] = from != NULL ? scale * x[at + i] - from[at + i] : scale * x[at + i];
		norm2 += d->ip_f32(diff, diff, len);
		d->ip_rows(diff, codec->basis + at, dim, len, codec->code_dims, u);
	}
	return norm2;
}

/*
 * The same of x / |x| - c, and *length = |x| in units.  A row that counts as zero
 * (grn_scale()) has length 0 and, for its direction, c.
 */
static float
project_direction(const GrnCodec *codec, const float *x, float *u, float *length)
{
	double		norm = sqrt(grn_norm2(x, codec->dim));

	*length = 0;
	if (norm > GRN_LEAST_NORM)
	{
		/* not 0 in half precision, for that is zero's */
		*length = fmaxf((float) (norm / codec->norm_unit), 1e-7f);
		return project(codec, x, (float) (1 / norm), codec->mean, u);
	}
	memset(u, 0, codec->code_dims * sizeof(float));
	return 0;
}

void
grn_codec_directions(GrnCodec *codec, float norm_unit)
{
	codec->directions = true;
	codec->norm_unit = norm_unit;
	if (codec->code_dims == 0)
		return;
	codec->mean_norm2 = project(codec, codec->mean, 1, NULL, codec->mean_head);
}

static float
largest(const float *u, uint32_t k)
{
	float		m = 0;

	for (uint32_t j = 0; j < k; j++)
		m = fabsf(u[j]) > m ? fabsf(u[j]) : m;
	return m;
}

static inline int
quantise(float u, float inverse)
{
	float		c = u * inverse + (MIDDLE + 0.5f);	/* truncated below: rounds */

	/* in this order a NaN (of an overflowing row) becomes 0 */
	return c >= LEVELS - 1 ? LEVELS - 1 : c > 0 ? (int) c : 0;
}

/*
 * Changes single levels by one while that lessens the error that a query of these
 * data sees.  It has the share c along the mean and else about the same in all
 * dimensions: so with errors r_j, sum r_j^2 + weight (sum_j (B c)_j r_j)^2, weight the
 * squared ratio of the two.
 */
static void
balance(const GrnCodec *codec, const float *u, float inverse, int8_t *levels)
{
	const float *bc = codec->mean_head;
	uint32_t	k = codec->code_dims;
	float		weight = (float) k / fmaxf(1 - codec->mean_norm2, 0.05f);
	float		along = 0;

	for (uint32_t j = 0; j < k; j++)
		along += bc[j] * ((float) levels[j] - MIDDLE - u[j] * inverse);
	for (uint32_t change = 0; change < k; change++)
	{
		float		best = 0;
		uint32_t	place = 0;
		int			step = 0;

		for (uint32_t j = 0; j < k; j++)
		{
			float		r = (float) levels[j] - MIDDLE - u[j] * inverse;
			float		slope = r + weight * along * bc[j];
			float		gain = 2 * fabsf(slope) - 1 - weight * bc[j] * bc[j];

			if (gain > best && levels[j] != (slope > 0 ? 0 : LEVELS - 1))
			{
				best = gain;
				place = j;
				step = slope > 0 ? -1 : 1;
			}
		}
		/* rounding must not make it go to and fro */
		if (best < 1e-4f)
			return;
		levels[place] = (int8_t) (levels[place] + step);
		along += bc[place] * (float) step;
	}
}

/* Parts of max |u| that the outermost level stands for, tried in this order. */
static const float scale_parts[] = {0.65f, 0.75f, 0.85f, 0.92f, 1.0f, 1.08f};

void
grn_encode(const GrnCodec *codec, const float *x, uint8_t *code, GrnFactor *factor,
		   float *scratch)
{
	uint32_t	k = codec->code_dims;
	uint32_t	half = k / 2;
	float	   *u = scratch;
	float		length = 0;
	float		norm2 = codec->directions ? project_direction(codec, x, u, &length)
		: project(codec, x, 1, codec->mean, u);
	float		max = largest(u, k);
	float		alpha = 0;
	float		best = -1;
	float		inverse = 0;
	int8_t		levels[GRN_MAX_CODE_DIMS];

	/* The scale whose code points most nearly along u. */
	if (max > 1e-30f && max < 1e18f)
		for (size_t s = 0; s < sizeof(scale_parts) / sizeof(scale_parts[0]); s++)
		{
			float		inv = MIDDLE / (max * scale_parts[s]);
			float		uc;
			float		cc;

			grn_dist->levels(u, k, inv, &uc, &cc);
			/* cosine, without the length of u */
			if (uc / sqrtf(cc) > best)
			{
				best = uc / sqrtf(cc);
				inverse = inv;
				alpha = grn_dist->ip_f32(u, u, k) / uc;
			}
		}
	for (uint32_t j = 0; j < k; j++)
		levels[j] = (int8_t) quantise(u[j], inverse);
	if (codec->directions && best > 0)
	{
		float		uc = 0;

		balance(codec, u, inverse, levels);
		for (uint32_t j = 0; j < k; j++)
			uc += u[j] * ((float) levels[j] - MIDDLE);
		alpha = grn_dist->ip_f32(u, u, k) / uc;
	}
	for (uint32_t j = 0; j < half; j++)
		code[j] = (uint8_t) (levels[j] | levels[half + j] << 4);
	factor->norm2 = grn_f32_to_f16(codec->directions ? length : norm2 / codec->norm_unit);
	factor->alpha = grn_f32_to_f16(codec->directions ? alpha : alpha / sqrtf(codec->norm_unit));
}

/* ---- queries ---- */

/* Fills what all queries have; q8 is filled. */
static void
set_query(const GrnCodec *codec, GrnCodeKind kind, float base, float scale,
		  GrnCodeQuery *out)
{
	out->kind = kind;
	out->base = base;
	out->place = 0;
	out->scale = scale;
	out->norm_unit = codec->norm_unit;
	out->alpha_unit = codec->directions ? 1 : sqrtf(codec->norm_unit);
	out->code_dims = codec->code_dims;
	out->sum = 0;
	for (uint32_t j = 0; j < codec->code_dims; j++)
		out->sum += out->q8[j];
}

/* The same, with q8 from v [code_dims]. */
static void
round_query(const GrnCodec *codec, GrnCodeKind kind, float base, const float *v,
			GrnCodeQuery *out)
{
	float		max = largest(v, codec->code_dims);
	float		inverse = max > 1e-30f && max < INFINITY ? 127 / max : 0;

	for (uint32_t j = 0; j < codec->code_dims; j++)
		out->q8[j] = inverse > 0 ? (int8_t) lrintf(v[j] * inverse) : 0;
	set_query(codec, kind, base, inverse > 0 ? max / 127 : 0, out);
}

void
grn_code_query(const GrnCodec *codec, const float *q, GrnCodeQuery *out, float *scratch)
{
	float		norm2 = project(codec, q, 1, codec->directions ? NULL : codec->mean, scratch);

	if (codec->directions)
		round_query(codec, GRN_CODE_IP, grn_dist->ip_f32(q, codec->mean, codec->dim),
					scratch, out);
	else
		round_query(codec, GRN_CODE_L2, norm2, scratch, out);
}

void
grn_code_query_row(const GrnCodec *codec, const float *x, GrnCodeQuery *out, float *scratch)
{
	float		length;
	float		norm2;

	if (!codec->directions)
	{
		grn_code_query(codec, x, out, scratch);
		return;
	}
	norm2 = project_direction(codec, x, scratch, &length);
	for (uint32_t j = 0; j < codec->code_dims; j++)
		scratch[j] += codec->mean_head[j];
	/* from |x / |x|| = 1 and its distance to c */
	round_query(codec, GRN_CODE_PLACES, (1 + codec->mean_norm2 - norm2) / 2, scratch, out);
	out->place = grn_place_norm(length);
}

void
grn_code_query_from_code(const GrnCodec *codec, const uint8_t *code, GrnFactor factor,
						 GrnCodeQuery *out)
{
	uint32_t	half = codec->code_dims / 2;
	float		alpha = grn_f16_to_f32(factor.alpha);
	float		v[GRN_MAX_CODE_DIMS];
	float		base = codec->mean_norm2;

	/* Decoded values are odd multiples of alpha / 2: 8 bits hold them exactly. */
	for (uint32_t j = 0; j < half; j++)
	{
		out->q8[j] = (int8_t) (2 * (code[j] & 15) - 15);
		out->q8[half + j] = (int8_t) (2 * (code[j] >> 4) - 15);
	}
	if (!codec->directions)
	{
		set_query(codec, GRN_CODE_L2, grn_f16_to_f32(factor.norm2) * codec->norm_unit,
				  alpha * sqrtf(codec->norm_unit) / 2, out);
		return;
	}
	for (uint32_t j = 0; j < codec->code_dims; j++)
	{
		float		u = alpha / 2 * (float) out->q8[j];

		base += codec->mean_head[j] * u;
		v[j] = u + codec->mean_head[j];
	}
	round_query(codec, GRN_CODE_PLACES, base, v, out);
	out->place = grn_place_norm(grn_f16_to_f32(factor.norm2));
}

/* Of count codes, at most GRN_CODE_ALIGN, whose dots are known. */
static void
estimate_some(const GrnCodeQuery *q, const int32_t *dot, const GrnFactor *factors,
			  uint32_t count, float *out)
{
	GrnEstimate e = {q->base, q->norm_unit, 2 * q->scale * q->alpha_unit,
	MIDDLE * (float) q->sum};
	/* what grn_dist->estimate() makes of it are the factors' lengths */
	GrnEstimate only_length = {0, q->kind == GRN_CODE_IP ? q->norm_unit : 1, 0, 0};
	float		lengths[GRN_CODE_ALIGN];

	if (q->kind == GRN_CODE_L2)
	{
		grn_dist->estimate(&e, dot, factors, count, out);
		return;
	}
	/* the products with directions, negative */
	e.base = -q->base;
	e.norm_unit = 0;
	e.slope = q->scale;
	grn_dist->estimate(&e, dot, factors, count, out);
	grn_dist->estimate(&only_length, dot, factors, count, lengths);
	if (q->kind == GRN_CODE_IP)
		for (uint32_t i = 0; i < count; i++)
			out[i] *= lengths[i];
	else
		for (uint32_t i = 0; i < count; i++)
		{
			float		place = grn_place_norm(lengths[i]);
			float		d = q->place * q->place + place * place +
				2 * q->place * place * out[i];

			out[i] = d > 0 ? d : 0;
		}
}

void
grn_estimate(const GrnCodeQuery *q, const uint8_t *codes, const GrnFactor *factors,
			 uint32_t count, float *out)
{
	enum
	{
		PIECE = GRN_CODE_ALIGN
	};
	size_t		code_bytes = grn_code_bytes(q->code_dims);

	for (uint32_t i = 0; i < count; i += PIECE)
	{
		int32_t		dot[PIECE];
		uint32_t	n = count - i < PIECE ? count - i : PIECE;

		grn_dist->dot_q8c4(q->q8, codes + i * code_bytes, code_bytes, q->code_dims, n, dot);
		estimate_some(q, dot, factors + i, n, out + i);
	}
}

/* Pairs below which a vertex says nothing. */
#define LEAST_PAIRS 10

void
grn_count_order(const float *distances, const float *estimates, uint32_t n, GrnOrder *order)
{
	uint32_t	pairs = 0;
	uint32_t	right = 0;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < i; j++)
			if (distances[i] != distances[j])
			{
				pairs++;
				/* equal estimates tell nothing */
				right += distances[i] < distances[j] ? estimates[i] < estimates[j]
					: estimates[i] > estimates[j];
			}
	if (pairs < LEAST_PAIRS)
		return;
	order->vertices++;
	order->poor += right < GRN_LEAST_ORDERED * pairs;
}
