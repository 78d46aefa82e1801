/*
 * test_codec.c - fitting against known spectra, and estimates against exact
 * distances on flat and on low-rank data.
 */
#include "space/space.h"
#include "store/codec.h"
#include "store/record.h"
#include "unit.h"

#define MAX_VERSIONS 8

/* Rows, the codec fitted to them, and their codes. */
typedef struct Coded
{
	size_t		n;
	uint32_t	dim;
	float	   *rows;
	float	   *model;
	GrnCodec	codec;
	float		held;
	uint8_t    *codes;
	GrnFactor  *factors;
} Coded;

/*
 * Rows with standard deviation (1 + j)^-decay along direction j, in a random
 * orthonormal-ish basis made of reflections, around a mean far from 0.
 */
static float *
make_rows(size_t n, uint32_t dim, float decay, float offset)
{
	float	   *rows = malloc(n * dim * 4);
	float	   *h = malloc(3 * dim * 4);

	for (uint32_t j = 0; j < 3 * dim; j++)
		h[j] = unit_normal();
	for (size_t i = 0; i < n; i++)
	{
		float	   *x = rows + i * dim;

		for (uint32_t j = 0; j < dim; j++)
			x[j] = unit_normal() * powf((float) (1 + j), -decay);
		for (int r = 0; r < 3; r++)
		{
			float	   *v = h + r * dim;
			float		f = 2 * grn_dist->ip_f32(x, v, dim) / grn_dist->ip_f32(v, v, dim);

			for (uint32_t j = 0; j < dim; j++)
				x[j] -= f * v[j];
		}
		for (uint32_t j = 0; j < dim; j++)
			x[j] += offset;
	}
	free(h);
	return rows;
}

/* energy: where no shape is given */
static GrnCodec
fit(const float *rows, size_t n, uint32_t dim, uint32_t max, float energy, GrnCodeShape shape,
	int workers, float *model, float *held)
{
	GrnParallel parallel = {workers, unit_run};
	GrnCodecFit f = {.rows = rows, .nrows = n, .stride = dim, .dim = dim,
		.max_code_dims = max, .energy = energy, .shape = shape, .seed = 11};
	size_t		bytes = grn_codec_fit_bytes(&f);
	void	   *work = malloc(bytes);
	GrnCodec	codec;

	memset(work, 0xA5, bytes);
	codec = grn_codec_fit(&f, &parallel, model, work, held);
	grn_codec_set_metric(&codec, grn_metric(GRN_L2), 1);
	free(work);
	return codec;
}

static Coded
make_coded(size_t n, uint32_t dim, float decay, uint32_t max, float energy, GrnCodeShape shape)
{
	Coded		c;
	float		scratch[GRN_MAX_CODE_DIMS];
	size_t		bytes;

	c.n = n;
	c.dim = dim;
	c.rows = make_rows(n, dim, decay, 5);
	c.model = malloc(4 * grn_codec_floats(dim, max));
	c.codec = fit(c.rows, n, dim, max, energy, shape, 1, c.model, &c.held);
	bytes = grn_code_bytes(c.codec.shape);
	c.codes = malloc(n * bytes);
	c.factors = malloc(n * sizeof(GrnFactor));
	for (size_t i = 0; i < n; i++)
		grn_encode(&c.codec, c.rows + i * dim, c.codes + i * bytes, c.factors + i, scratch);
	return c;
}

static void
free_coded(Coded *c)
{
	free(c->rows);
	free(c->model);
	free(c->codes);
	free(c->factors);
}

/*
 * Root mean square and mean over pairs of the estimates' errors, in units of
 * |q - c|^2 + |x - c|^2.
 */
static void
errors(const Coded *c, bool symmetric, double *rms, double *bias)
{
	float	   *estimate = malloc(4 * c->n);
	size_t		bytes = grn_code_bytes(c->codec.shape);
	size_t		pairs = 0;

	*rms = *bias = 0;
	for (size_t q = 0; q < 20; q++)
	{
		GrnCodeQuery query;
		float		scratch[GRN_MAX_CODE_DIMS];

		if (symmetric)
			grn_code_query_from_code(&c->codec, c->codes + q * bytes, c->factors[q], &query);
		else
			grn_code_query(&c->codec, c->rows + q * c->dim, &query, scratch);
		grn_estimate(&query, c->codes, c->factors, (uint32_t) c->n, estimate);
		for (size_t i = 20; i < c->n; i++)
		{
			double		d = grn_dist->l2_f32(c->rows + q * c->dim, c->rows + i * c->dim, c->dim);
			double		size = grn_dist->l2_f32(c->rows + q * c->dim, c->codec.mean, c->dim) +
				grn_dist->l2_f32(c->rows + i * c->dim, c->codec.mean, c->dim);
			double		e = (estimate[i] - d) / size;

			*rms += e * e;
			*bias += e;
			pairs++;
		}
	}
	*rms = sqrt(*rms / (double) pairs);
	*bias /= (double) pairs;
	free(estimate);
}

/* Rows [begin, end) of a basis, which is a block's and has `rows` directions. */
static double
block_error(const GrnCodec *codec, uint32_t begin, uint32_t end, uint32_t rows)
{
	const float *basis = codec->basis + (size_t) begin * codec->dim;
	uint32_t	k = end - begin;
	double		worst = 0;

	if (k <= rows)
	{
		for (uint32_t a = 0; a < k; a++)
			for (uint32_t b = 0; b <= a; b++)
			{
				double		dot = fabs(grn_dist->ip_f32(basis + (size_t) a * codec->dim,
														basis + (size_t) b * codec->dim,
														codec->dim) - (a == b));

				/* a NaN counts as worst */
				if (!(dot <= worst))
					worst = dot;
			}
		return worst;
	}
	/* more codes than directions: the projection and back is one onto the directions */
	for (uint32_t round = 0; round < 20; round++)
	{
		float	   *x = malloc(4 * codec->dim);
		float	   *y = malloc(4 * codec->dim);
		double		norm[2] = {0};

		for (int pass = 0; pass < 3; pass++)
		{
			for (uint32_t j = 0; j < codec->dim; j++)
			{
				x[j] = pass ? y[j] : unit_normal();
				y[j] = 0;
			}
			for (uint32_t a = 0; a < k; a++)
				grn_dist->add_scaled(y, grn_dist->ip_f32(x, basis + (size_t) a * codec->dim,
														 codec->dim),
									 basis + (size_t) a * codec->dim, codec->dim);
			if (pass > 0)
				norm[pass - 1] = grn_norm2(y, codec->dim);
		}
		if (!(fabs(norm[0] - norm[1]) <= worst * norm[0]))
			worst = fabs(norm[0] - norm[1]) / norm[0];
		free(x);
		free(y);
	}
	return worst;
}

static double
basis_error(const GrnCodec *codec)
{
	uint32_t	begin = 0;
	double		worst = 0;

	for (int b = 0; b < GRN_CODE_BLOCKS; b++)
	{
		uint32_t	end = begin + codec->shape.dims[b];
		double		error = end == begin ? 0 :
			block_error(codec, begin, end, codec->dim > begin ? codec->dim - begin : 0);

		worst = error <= worst ? worst : error;
		begin = end;
	}
	return worst;
}

static void
estimates_within_bounds(void)
{
	static const struct
	{
		uint32_t	dim;
		GrnCodeShape shape;
		float		decay;
		double		rms,
					symmetric;	/* bounds; seen: two thirds of them */
	}			cases[] = {
		{128, {.dims = {128, 0, 0}}, 0, 0.0175, 0.022}, /* flat, all coded: rounding alone */
		{128, {.dims = {64, 0, 0}}, 0.7f, 0.0185, 0.025},
		{100, {.dims = {96, 0, 0}}, 0, 0.0235, 0.028},
		{960, {.dims = {96, 0, 0}}, 0.7f, 0.015, 0.0195},
		{32, {.dims = {32, 0, 0}}, 0, 0.03, 0.036},
		{3, {.dims = {32, 0, 0}}, 0, 0.024, 0.031}, /* 32 codes for 3 dimensions */
		{2, {.dims = {32, 0, 0}}, 0, 0.024, 0.031},
		{128, {.dims = {16, 48, 64}}, 0.7f, 0.038, 0.05},
		{100, {.dims = {16, 64, 32}}, 0.5f, 0.04, 0.056},	/* 32 codes for 20 dimensions */
		{384, {.dims = {0, 64, 128}}, 0.5f, 0.05, 0.07},
		{384, {.dims = {0, 0, 256}}, 0.3f, 0.07, 0.09},
		{384, {.dims = {32, 0, 128}}, 0.7f, 0.036, 0.06}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		Coded		c = make_coded(1000, cases[i].dim, cases[i].decay,
								   grn_code_dims(cases[i].shape), 0, cases[i].shape);
		int16_t    *basis = malloc(2 * grn_code_dims(cases[i].shape) * cases[i].dim);
		double		rms,
					bias,
					by_short,
					short_bias;

		CHECK(memcmp(&c.codec.shape, &cases[i].shape, sizeof(GrnCodeShape)) == 0, "case %zu", i);
		CHECK(basis_error(&c.codec) < 1e-4, "dim %u", cases[i].dim);
		errors(&c, false, &rms, &bias);
		CHECK(rms < cases[i].rms, "case %zu: %.4f", i, rms);
		CHECK(fabs(bias) < 0.3 * cases[i].rms, "case %zu: %.5f", i, bias);
		grn_codec_shorten(&c.codec, basis);
		c.codec.short_basis = basis;
		errors(&c, false, &by_short, &short_bias);
		CHECK(by_short < 1.02 * rms && by_short != rms, "case %zu: %.5f, %.5f", i, by_short, rms);
		CHECK(fabs(short_bias - bias) < 0.02 * rms, "case %zu: %.5f, %.5f", i, short_bias, bias);
		c.codec.short_basis = NULL;
		free(basis);
		errors(&c, true, &rms, &bias);
		CHECK(rms < cases[i].symmetric, "case %zu: %.4f", i, rms);
		CHECK(fabs(bias) < 0.3 * cases[i].symmetric, "case %zu: %.5f", i, bias);
		free_coded(&c);
	}
}

/* Every bit more in a block, and every block more, makes estimates better. */
static void
error_decreases_with_bits(void)
{
	static const GrnCodeShape shapes[] = {
		{.dims = {0, 0, 96}}, {.dims = {0, 32, 64}}, {.dims = {0, 96, 0}}, {.dims = {32, 64, 0}}, {.dims = {96, 0, 0}}
	};
	double		before = INFINITY;
	float		held = 0;

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
	{
		Coded		c = make_coded(1000, 96, 0.5f, 96, 0, shapes[i]);
		double		rms,
					bias;

		errors(&c, false, &rms, &bias);
		CHECK(rms < 0.9 * before, "shape %zu: %.4f after %.4f", i, rms, before);
		CHECK(c.held > held, "shape %zu holds %.3f after %.3f", i, c.held, held);
		before = rms;
		held = c.held;
		free_coded(&c);
	}
	CHECK(held > 0.98, "%.3f", held);
}

static void
head_holds_what_it_can(void)
{
	for (uint32_t dim = 128; dim <= 960; dim += 416)
		for (float decay = 0; decay < 1; decay += 0.3f)
		{
			Coded		c = make_coded(2000, dim, decay, 96, 0.85f, GRN_NO_CODES);
			uint32_t	dims = grn_code_dims(c.codec.shape);
			double		all = 0,
						head = 0,
						smaller = 0;

			for (uint32_t j = 0; j < dim; j++)
			{
				double		v = pow(1 + j, -2 * decay);

				all += v;
				head += j < dims ? v : 0;
				smaller += j < dims - 32 ? v : 0;
			}
			/* a sample shows its own directions larger than they are, never smaller */
			CHECK(c.held > head / all - 0.01, "dim %u decay %.1f: %.3f of %.3f", dim,
				  decay, c.held, head / all);
			CHECK(dims == 96 || c.held >= 0.85f, "%.3f", c.held);
			CHECK(dims == 32 || smaller / all < 0.86, "dim %u: %u dims", dim, dims);
			CHECK(basis_error(&c.codec) < 1e-4, "dim %u", dim);
			free_coded(&c);
		}
}

/* Costs that are the same whatever the codes, up to a number of bytes. */
static GrnCodeCosts
even_costs(uint32_t most, float without, float a_byte)
{
	GrnCodeCosts costs;

	for (uint32_t i = 0; i <= GRN_MAX_CODE_BYTES / GRN_CODE_STEP; i++)
		costs.visit[i] = i * GRN_CODE_STEP > most ? INFINITY
			: 1 + a_byte * (float) (i * GRN_CODE_STEP);
	costs.visit[0] = without;
	return costs;
}

static void
costs_choose_shapes(void)
{
	static const struct
	{
		uint32_t	dim;
		float		decay;
		uint32_t	most;		/* bytes */
		float		without,
					a_byte;
		GrnCodeShape shape;
		uint32_t	off;		/* dimensions of a block that may differ */
	}			cases[] = {
		{128, 0, 128, 1000, 0, {.dims = {128, 0, 0}}, 0},	/* bytes for nothing */
		{128, 0, 32, 1000, 0, {.dims = {0, 128, 0}}, 0},
		{128, 0, 16, 1000, 0, {.dims = {0, 0, 128}}, 0},
		{128, 0.7f, 24, 1000, 0, {.dims = {16, 48, 32}}, 32},
		{128, 1.5f, 128, 1000, 0.01f, {.dims = {16, 16, 0}}, 32},	/* 32 hold all but nothing */
		{2500, 0, 128, 1.5f, 0.01f, {.dims = {0, 0, 0}}, 0},	/* 256 of 2500 are worth nothing */
		{96, 0, 128, 0.1f, 0.01f, {.dims = {0, 0, 0}}, 0}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t n = 20; n <= 4000; n += 3980)
		{
			uint32_t	dim = cases[i].dim;
			uint32_t	most = grn_max_code_dims(dim);
			float	   *rows = make_rows(n, dim, cases[i].decay, 1);
			float	   *model = malloc(4 * grn_codec_floats(dim, most));
			GrnParallel parallel = {1, unit_run};
			GrnCodeCosts costs = even_costs(cases[i].most, cases[i].without, cases[i].a_byte);
			GrnCodecFit f = {.rows = rows, .nrows = n, .stride = dim, .dim = dim,
				.max_code_dims = most, .costs = &costs};
			void	   *work = malloc(grn_codec_fit_bytes(&f));
			float		held;
			GrnCodec	codec = grn_codec_fit(&f, &parallel, model, work, &held);

			/* 20 rows say nothing of the spectrum, which then counts as flat */
			for (int b = 0; b < GRN_CODE_BLOCKS && (n > 20 || cases[i].decay == 0); b++)
				CHECK(abs((int) codec.shape.dims[b] - (int) cases[i].shape.dims[b]) <=
					  (int) cases[i].off,
					  "case %zu, %zu rows: %ux4+%ux2+%ux1 hold %.3f", i, n, codec.shape.dims[0],
					  codec.shape.dims[1], codec.shape.dims[2], held);
			CHECK(grn_shape_sound(codec.shape), "case %zu", i);
			CHECK(grn_code_bytes(codec.shape) <= cases[i].most, "case %zu", i);
			CHECK(grn_has_codes(&codec) ? held > 0 && held <= 1 : held == 0, "%g", held);
			free(rows);
			free(model);
			free(work);
		}
}

static void
fit_does_not_depend_on_threads(void)
{
	float	   *rows = make_rows(500, 100, 0.5f, 1);
	size_t		floats = grn_codec_floats(100, 96);
	float	   *a = calloc(floats, 4);
	float	   *b = calloc(floats, 4);
	float		ha,
				hb;
	GrnCodeShape shape = {.dims = {16, 32, 48}};
	GrnCodec	ca = fit(rows, 500, 100, 96, 0, shape, 1, a, &ha);
	GrnCodec	cb = fit(rows, 500, 100, 96, 0, shape, 3, b, &hb);

	CHECK(ha == hb && ca.norm_unit == cb.norm_unit &&
		  memcmp(ca.steps, cb.steps, sizeof(ca.steps)) == 0, "%g %g", ha, hb);
	CHECK(memcmp(a, b, 4 * floats) == 0, "models differ");
	free(rows);
	free(a);
	free(b);
}

/* Samples that hold nothing, one thing, or too little: a sound codec all the same. */
static void
poor_samples(void)
{
	static const uint32_t dims[] = {1, 2, 3, 31, 32, 33, 200, 2500};
	static const size_t counts[] = {0, 1, 5, 31, 32, 40, 200};

	for (size_t d = 0; d < sizeof(dims) / sizeof(dims[0]); d++)
		for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
			for (int round = 0; round < 4; round++)
			{
				bool		constant = round % 2;
				GrnCodeShape shape = {.dims = {16, 16, 32}};
				uint32_t	dim = dims[d];
				size_t		n = counts[c];
				float	   *rows = make_rows(n + 1, dim, 0.3f, 2);
				float	   *model = malloc(4 * grn_codec_floats(dim, 64));
				float		held = -1;
				GrnCodec	codec;
				uint8_t		code[32];
				GrnFactor	factor;
				GrnCodeQuery query;
				float		scratch[GRN_MAX_CODE_DIMS];
				float		estimate;

				if (constant)
					for (size_t i = dim; i < (n + 1) * dim; i++)
						rows[i] = rows[i - dim];
				codec = fit(rows, n, dim, 64, 0.85f, round < 2 ? GRN_NO_CODES : shape, 1, model, &held);
				CHECK(grn_shape_sound(codec.shape) && grn_has_codes(&codec) &&
					  grn_code_dims(codec.shape) <= 64, "%u", grn_code_dims(codec.shape));
				CHECK(round >= 2 || basis_error(&codec) < 1e-4, "dim %u n %zu", dim, n);
				CHECK(held >= 0 && held <= 1.001f, "dim %u n %zu: %g", dim, n, held);
				CHECK(codec.norm_unit > 0 && codec.norm_unit < 1e10f, "%g", codec.norm_unit);
				grn_encode(&codec, rows, code, &factor, scratch);
				grn_code_query(&codec, rows, &query, scratch);
				grn_estimate(&query, code, &factor, 1, &estimate);
				CHECK(isfinite(estimate), "dim %u n %zu", dim, n);
				free(rows);
				free(model);
			}
}

/* Rows of any size: squares that vanish count as none; no factor is infinite. */
static void
extreme_rows(void)
{
	static const float sizes[] = {0, 1e-45f, 1e-38f, 1e-20f, 1e10f, 1e17f, 1e19f, 3e38f};
	float	   *model = malloc(4 * grn_codec_floats(40, 32));
	GrnCodec	codec = unit_random_codec(40, 32, 1, 5, model);

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (int round = 0; round < 50; round++)
		{
			float		x[40];
			uint8_t		code[16];
			GrnFactor	factor;
			float		scratch[GRN_MAX_CODE_DIMS];

			for (int j = 0; j < 40; j++)
				x[j] = (2 * unit_uniform() - 1) * sizes[s];
			grn_encode(&codec, x, code, &factor, scratch);
			/* squares of the smallest vanish, and those of the largest overflow */
			CHECK(sizes[s] > 1e-21f ? grn_factor_length(factor) > 0.5f * fminf(sizes[s], 1e19f)
				  : factor.bits == 0, "%g: %g", sizes[s], grn_factor_length(factor));
			CHECK(isfinite(grn_factor_length(factor)), "%g", sizes[s]);
			CHECK(sizes[s] > 1e17f || sizes[s] < 1e-14f || grn_factor_alpha(factor) > 0, "%g",
				  sizes[s]);
		}
	free(model);
}

static void
usual_shapes(void)
{
	static const struct
	{
		uint32_t	dim;
		uint32_t	least,
					most;		/* bytes at degree 32, 32-bit vectors, 8 kB pages */
	}			cases[] = {{3, 16, 16}, {128, 16, 32}, {384, 28, 72}, {768, 40, 128}, {1536, 40, 96}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		GrnCodeCosts costs;
		GrnCodeShape shape;

		grn_layout_code_costs(&(GrnLayoutSpec) {.dim = cases[i].dim, .degree = 32, .form = GRN_FORM_F32,
												.payload = 8160}, &costs);
		shape = grn_codec_usual_shape(cases[i].dim, &costs);
		CHECK(grn_shape_sound(shape) && grn_code_bytes(shape) >= cases[i].least &&
			  grn_code_bytes(shape) <= cases[i].most, "dim %u: %ux4+%ux2+%ux1", cases[i].dim,
			  shape.dims[0], shape.dims[1], shape.dims[2]);
	}
}

/*
 * Rows of bits are their own codes: estimates are the distances of visits, for queries and, in the
 * graph's space, for rows and for codes.
 */
static void
bits_are_codes(void)
{
	static const uint32_t dims[] = {1, 7, 8, 9, 63, 64, 65, 383, 384, 512};
	static const GrnMetric metrics[] = {GRN_HAMMING, GRN_JACCARD};

	for (size_t m = 0; m < 2; m++)
		for (size_t d = 0; d < sizeof(dims) / sizeof(dims[0]); d++)
			for (int round = 0; round < 40; round++)
			{
				const GrnMetricInfo *metric = grn_metric(metrics[m]);
				uint32_t	dim = dims[d];
				GrnCodec	codec = {.dim = dim, .shape = grn_own_shape(metric, GRN_FORM_BITS, dim)};
				float		x[2][512];
				uint8_t		code[2][64];
				uint8_t		stored[2][64];
				GrnFactor	factor[2];
				GrnCodeQuery query;
				float		scratch[GRN_MAX_CODE_DIMS];
				float		estimate[2];
				float		wanted;

				CHECK(grn_codes_exact(&codec) && grn_shape_sound(codec.shape) &&
					  grn_code_bytes(codec.shape) == (dim + 7) / 8, "dim %u", dim);
				grn_codec_set_metric(&codec, metric, (float) grn_metric_norm_unit(metric, NULL));
				/* none, a few and most of them ones */
				for (int r = 0; r < 2; r++)
				{
					for (uint32_t j = 0; j < dim; j++)
						x[r][j] = unit_uniform() < (float) ((round + r) % 4) / 3;
					grn_form_store(GRN_FORM_BITS, x[r], dim, stored[r]);
					grn_encode(&codec, x[r], code[r], &factor[r], scratch);
					CHECK(memcmp(code[r], stored[r], (dim + 7) / 8) == 0, "dim %u", dim);
				}
				grn_code_query(&codec, x[0], &query, scratch);
				grn_estimate(&query, code[1], &factor[1], 1, estimate);
				wanted = grn_query_compare(metric->comparison, GRN_FORM_BITS, stored[0], stored[1], dim);
				CHECK(estimate[0] == wanted, "dim %u: %g, not %g", dim, estimate[0], wanted);

				grn_code_query_row(&codec, x[0], &query, scratch);
				grn_estimate(&query, code[1], &factor[1], 1, &estimate[0]);
				grn_code_query_from_code(&codec, code[0], factor[0], &query);
				grn_estimate(&query, code[1], &factor[1], 1, &estimate[1]);
				for (int r = 0; r < 2 && metric->embedding == GRN_EMBED_SCALED; r++)
					grn_place(x[r], dim, metric->norm_unit, metric->power);
				wanted = grn_dist->l2_f32(x[0], x[1], dim);
				for (int r = 0; r < 2; r++)
					CHECK(fabsf(estimate[r] - wanted) <= 1e-5f * fmaxf(wanted, 8192), "dim %u: %g, not %g",
						  dim, estimate[r], wanted);
			}
	CHECK(grn_code_bytes(grn_own_shape(grn_metric(GRN_HAMMING), GRN_FORM_BITS, 513)) == 0, "513 bits");
	CHECK(grn_code_bytes(grn_own_shape(grn_metric(GRN_HAMMING), GRN_FORM_U8, 8)) == 0, "bytes");
	CHECK(grn_code_bytes(grn_own_shape(grn_metric(GRN_IP), GRN_FORM_BITS, 8)) == 0, "products");
}

/* Sums as large as can be: of two vectors whose length is 32767. */
static void
short_products_are_equal(void)
{
	const GrnDistTable *versions[MAX_VERSIONS];
	int			n_versions = grn_dist_versions(versions, MAX_VERSIONS);

	for (size_t n = 1; n <= 100; n += n < 40 ? 1 : 7)
		for (uint32_t rows = 1; rows <= 17; rows++)
		{
			size_t		ld = n + n % 3;
			int16_t    *a = unit_guarded(2 * n);
			int16_t    *b = unit_guarded(2 * ((rows - 1) * ld + n));
			int16_t		largest = (int16_t) (32767 / sqrt((double) n));

			for (size_t i = 0; i < n; i++)
				a[i] = n % 2 ? largest : (int16_t) (unit_uniform() * 2 * largest - largest);
			for (size_t i = 0; i < (rows - 1) * ld + n; i++)
				b[i] = n % 2 ? (int16_t) (i / ld % 2 ? -largest : largest)
					: (int16_t) (unit_uniform() * 2 * largest - largest);
			for (int v = 0; v < n_versions; v++)
			{
				int32_t		out[18];

				for (int32_t j = 0; j < 18; j++)
					out[j] = j;
				versions[v]->ip_rows_i16(a, b, ld, n, rows, out);
				for (uint32_t j = 0; j < rows; j++)
				{
					int64_t		want = j;

					for (size_t k = 0; k < n; k++)
						want += (int64_t) a[k] * b[j * ld + k];
					CHECK(out[j] == want, "%s n %zu rows %u: %d", versions[v]->name, n, rows, out[j]);
				}
				CHECK(out[rows] == (int32_t) rows, "%s wrote past %u rows", versions[v]->name, rows);
			}
			unit_guarded_free(a, 2 * n);
			unit_guarded_free(b, 2 * ((rows - 1) * ld + n));
		}
}

/* All versions of the kernels give the same order but for rounding. */
static void
versions_agree(void)
{
	const GrnDistTable *versions[MAX_VERSIONS];
	const GrnDistTable *chosen = grn_dist;
	int			n = grn_dist_versions(versions, MAX_VERSIONS);
	Coded		c = make_coded(300, 128, 0.6f, 112, 0, (GrnCodeShape) {.dims = {16, 48, 48}});
	float	   *want = malloc(4 * c.n);
	float	   *got = malloc(4 * c.n);
	float		scratch[GRN_MAX_CODE_DIMS];
	size_t		bytes = grn_code_bytes(c.codec.shape);

	for (int v = 0; v < n; v++)
	{
		GrnCodeQuery query;
		uint8_t		code[GRN_MAX_CODE_BYTES];
		GrnFactor	factor;
		size_t		differ = 0;

		grn_dist = versions[v];
		grn_code_query(&c.codec, c.rows, &query, scratch);
		grn_estimate(&query, c.codes, c.factors, (uint32_t) c.n, v == 0 ? want : got);
		for (size_t i = 0; i < c.n && v > 0; i++)
			CHECK(fabsf(got[i] - want[i]) < 2e-3f * c.codec.norm_unit, "%s: %g for %g",
				  versions[v]->name, got[i], want[i]);
		for (size_t i = 0; i < c.n; i++)
		{
			grn_encode(&c.codec, c.rows + i * c.dim, code, &factor, scratch);
			for (size_t j = 0; j < bytes; j++)
				differ += code[j] != c.codes[i * bytes + j];
		}
		CHECK(differ < c.n * bytes / 500, "%s: %zu bytes differ", versions[v]->name, differ);
	}
	grn_dist = chosen;
	free(want);
	free(got);
	free_coded(&c);
}

/* Codes of directions: products and distances of rows of any length, zero among them. */
static void
directions_within_bounds(void)
{
	enum
	{
		ROWS = 1000, DIM = 96, STRIDE = DIM + 2
	};
	float	   *plain = make_rows(ROWS, DIM, 0.7f, 0.3f);
	float	   *rows = calloc(ROWS * STRIDE, 4);
	float	   *model = malloc(4 * grn_codec_floats(DIM, 80));
	float	   *estimate = malloc(4 * ROWS);
	uint8_t    *codes = malloc(ROWS * 24);
	GrnFactor  *factors = malloc(ROWS * sizeof(GrnFactor));
	GrnParallel parallel = {1, unit_run};
	GrnCodecFit f = {.rows = rows, .nrows = ROWS, .stride = STRIDE, .embedding = GRN_EMBED_SCALED, .kind = GRN_CODES_DIRECTIONS,
		.dim = DIM, .max_code_dims = 80, .shape = {.dims = {32, 16, 32}}, .seed = 11
	};
	void	   *work = malloc(grn_codec_fit_bytes(&f));
	float		scratch[GRN_MAX_CODE_DIMS];
	float		held;
	GrnCodec	codec;
	double		squares[3] = {0};
	/* by product, by row, by code; seen: two thirds of them */
	static const double bounds[] = {0.016, 0.007, 0.009};

	for (size_t i = 0; i < ROWS; i++)
	{
		float		length = i == 0 ? 0 : expf(1.3f * unit_normal());
		GrnScale	scale;

		for (size_t j = 0; j < DIM; j++)
			rows[i * STRIDE + j] = length * plain[i * DIM + j];
		scale = grn_scale(grn_norm2(rows + i * STRIDE, DIM), 3, GRN_USUAL_POWER);
		memcpy(rows + i * STRIDE + DIM, &scale, sizeof(scale));
	}
	codec = grn_codec_fit(&f, &parallel, model, work, &held);
	grn_codec_set_metric(&codec, grn_metric(GRN_IP), 3);
	for (size_t i = 0; i < ROWS; i++)
		grn_encode(&codec, rows + i * STRIDE, codes + i * 24, &factors[i], scratch);
	for (size_t q = 1; q < 20; q++)
		for (int kind = 0; kind < 3; kind++)
		{
			const float *x = rows + q * STRIDE;
			GrnCodeQuery query;

			if (kind == 0)
				grn_code_query(&codec, x, &query, scratch);
			else if (kind == 1)
				grn_code_query_row(&codec, x, &query, scratch);
			else
				grn_code_query_from_code(&codec, codes + q * 24, factors[q], &query);
			grn_estimate(&query, codes, factors, ROWS, estimate);
			CHECK(kind > 0 || estimate[0] == 0, "zero: %g", estimate[0]);
			for (size_t i = 20; i < ROWS; i++)
			{
				const float *y = rows + i * STRIDE;
				double		ip = grn_dist->ip_f32(x, y, DIM);
				double		e = kind == 0 ?
					(estimate[i] + ip) / sqrt(grn_norm2(x, DIM) * grn_norm2(y, DIM)) :
					(estimate[i] - (x[DIM + 1] + y[DIM + 1] - 2 * ip * x[DIM] * y[DIM])) /
					(x[DIM + 1] + y[DIM + 1]);

				squares[kind] += e * e / (19 * (ROWS - 20));
			}
		}
	for (int kind = 0; kind < 3; kind++)
		CHECK(sqrt(squares[kind]) < bounds[kind], "kind %d: %.4f", kind, sqrt(squares[kind]));
	free(plain);
	free(rows);
	free(model);
	free(estimate);
	free(codes);
	free(factors);
	free(work);
}

static void
order_of_neighbors(void)
{
	float		distances[8];
	float		estimates[8];
	GrnJudgment judgment = {0};

	for (int i = 0; i < 8; i++)
		distances[i] = estimates[i] = (float) i;
	grn_judge_neighbors(distances, estimates, 8, &judgment);
	CHECK(judgment.vertices == 1 && judgment.poor == 0, "in order");
	/* 7 of 28 pairs the wrong way round, then 13 */
	estimates[0] = 100;
	grn_judge_neighbors(distances, estimates, 8, &judgment);
	CHECK(judgment.vertices == 2 && judgment.poor == 0, "three quarters in order");
	estimates[1] = 99;
	grn_judge_neighbors(distances, estimates, 8, &judgment);
	CHECK(judgment.vertices == 3 && judgment.poor == 1, "half in order");
	for (int i = 0; i < 8; i++)
		estimates[i] = 1;
	grn_judge_neighbors(distances, estimates, 8, &judgment);
	CHECK(judgment.vertices == 4 && judgment.poor == 2, "equal estimates");
	grn_judge_neighbors(distances, estimates, 4, &judgment);
	grn_judge_neighbors(estimates, estimates, 8, &judgment);
	CHECK(judgment.vertices == 4, "too few pairs");
	CHECK(!grn_codes_order_well(&judgment), "half are poor");
	judgment.vertices = 5;
	CHECK(!grn_codes_order_well(&judgment) && grn_codes_serve(&judgment, true) &&
		  !grn_codes_serve(&judgment, false), "two fifths are poor, of long rows alone");
	CHECK(grn_is_long(GRN_FORM_U8, 1536) && !grn_is_long(GRN_FORM_U8, 384), "rows that are long");
	judgment.vertices = 20;
	CHECK(grn_codes_order_well(&judgment), "a tenth is poor");
}

/* The unit of norms is the power of two above their median, zeroes aside. */
static void
norm_unit_is_above_the_median(void)
{
	const double norms[] = {0, 1e-31, 0.1, 3, 5, 6, 1e18};
	uint32_t	counts[GRN_OCTAVES] = {0};

	CHECK(grn_norm_unit(counts) == 1, "%g", grn_norm_unit(counts));
	for (size_t i = 0; i < sizeof(norms) / sizeof(norms[0]); i++)
	{
		int			octave = grn_octave(norms[i] * norms[i]);

		CHECK((octave == GRN_NO_OCTAVE) == (i < 2), "%g: %d", norms[i], octave);
		if (octave != GRN_NO_OCTAVE)
			counts[octave]++;
	}
	CHECK(grn_norm_unit(counts) == 8, "%g", grn_norm_unit(counts));
	CHECK(grn_octave(INFINITY) == GRN_NO_OCTAVE && grn_octave(NAN) == GRN_NO_OCTAVE, "not finite");
}

int
main(void)
{
	grn_dist_init();
	RUN(order_of_neighbors);
	RUN(estimates_within_bounds);
	RUN(directions_within_bounds);
	RUN(error_decreases_with_bits);
	RUN(head_holds_what_it_can);
	RUN(costs_choose_shapes);
	RUN(fit_does_not_depend_on_threads);
	RUN(poor_samples);
	RUN(extreme_rows);
	RUN(usual_shapes);
	RUN(bits_are_codes);
	RUN(short_products_are_equal);
	RUN(versions_agree);
	RUN(norm_unit_is_above_the_median);
	UNIT_END();
}
