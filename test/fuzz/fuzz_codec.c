/*
 * fuzz_codec.c - codecs fitted to rows of any kind, and estimates from codes of any bytes;
 * stored forms of the same rows, and their pruning.
 */
#include "fuzz.h"

#include "space/form.h"
#include "store/codec.h"
#include "store/prune.h"

#define MOST_DIM 48
#define MOST_ROWS 48
#define FORMS 8					/* numbers, of which some are forms */

static void
run(GrnParallel *self, size_t n, size_t grain, GrnRangeFn fn, void *arg)
{
	(void) self;
	for (size_t i = 0; i < n; i += grain)
		fn(arg, 0, i, i + grain < n ? i + grain : n);
}

/* Every form gives back what it can hold, and some number for what it cannot. */
static void
store(const float *x, uint32_t dim)
{
	float		back[MOST_DIM];
	uint8_t		bytes[4 + 4 * MOST_DIM];

	for (uint32_t form = 0; form < FORMS; form++)
	{
		bool		exact;

		if (grn_form(form) == NULL)
			continue;
		exact = grn_form_store((GrnForm) form, x, dim, bytes);
		grn_form_load((GrnForm) form, bytes, dim, back);
		for (uint32_t i = 0; i < dim; i++)
		{
			MUST(isfinite(back[i]));
			MUST(!exact || back[i] == x[i]);
		}
		MUST(!isnan(grn_form_l2((GrnForm) form, x, bytes, dim)));
		if (grn_form(form)->numbers != GRN_NUMBERS_NONE)
			MUST(!isnan(grn_form_norm2((GrnForm) form, bytes, dim)));
	}
	MUST(grn_form_store(grn_form_smallest(x, dim), x, dim, bytes));
}

static void
estimate(const GrnCodec *codec, const float *x, const uint8_t *codes, const GrnFactor *factors, uint32_t n, float *out)
{
	const GrnDistTable *versions[8];
	const GrnDistTable *own = grn_dist;
	int			nversions = grn_dist_versions(versions, 8);
	float		scratch[GRN_MAX_CODE_DIMS];
	GrnCodeQuery query;

	for (int v = 0; v < nversions; v++)
	{
		grn_dist = versions[v];
		grn_code_query_from_code(codec, codes, factors[0], &query);
		grn_estimate(&query, codes, factors, n, out);
		if (codec->kind == GRN_CODES_ROWS)
		{
			grn_code_query_row(codec, x, &query, scratch);
			grn_estimate(&query, codes, factors, n, out);
		}
		grn_code_query(codec, x, &query, scratch);
		grn_estimate(&query, codes, factors, n, out);
	}
	grn_dist = own;
}

static void
prune(Input *in, const GrnCodec *codec, const float *rows, const uint8_t *codes, const GrnFactor *factors,
	  uint32_t n, float *dist)
{
	GrnPrune	p = {.codec = grn_has_codes(codec) ? codec : NULL, .codes = codes, .factors = factors,
		.rows = rows, .stride = codec->dim, .dim = codec->dim, .form = GRN_FORM_F32, .comparison = GRN_COMPARE_L2, .dist = dist, .n = n};
	uint32_t	keep[MOST_ROWS];
	uint32_t	kept;
	void	   *workspace = malloc(grn_prune_bytes(n));

	for (uint32_t i = 1; i < n; i++)
		if (!(dist[i] >= dist[i - 1]))
			dist[i] = dist[i - 1];
	p.most = take_number(in, 1, n);
	p.fill = take_number(in, 0, p.most);
	kept = grn_prune(&p, keep, workspace);
	MUST(kept <= p.most);
	for (uint32_t i = 0; i < kept; i++)
		MUST(keep[i] < n);
	free(workspace);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool ready;
	Input		in = {data, size};
	GrnParallel parallel = {1, run};
	GrnCodecFit fit = {0};
	GrnCodec	codec;
	float		scratch[GRN_MAX_CODE_DIMS];
	float	   *rows;
	float	   *model;
	float	   *estimates;
	float		held;
	uint8_t    *codes;
	GrnFactor  *factors;
	void	   *workspace;
	uint32_t	bytes;
	uint32_t	n;

	if (!ready)
		grn_dist_init();
	ready = true;
	n = take_number(&in, 1, MOST_ROWS);
	fit.dim = take_number(&in, 1, MOST_DIM);
	fit.nrows = n;
	fit.stride = fit.dim;
	fit.kind = take_number(&in, 0, 3) == 0 ? GRN_CODES_DIRECTIONS : GRN_CODES_ROWS;
	fit.max_code_dims = grn_max_code_dims(fit.dim) / GRN_FIT_ALIGN * GRN_FIT_ALIGN;
	fit.energy = (float) take_number(&in, 0, 100) / 100;
	fit.seed = take_number(&in, 0, 9);
	rows = calloc((size_t) n * fit.dim, sizeof(float));
	for (uint32_t i = 0; i < n * fit.dim; i++)
	{
		rows[i] = take_float(&in);
		/* longer ones are refused before */
		if (!(fabsf(rows[i]) <= 1e18f))
			rows[i] = 2;
	}
	for (uint32_t i = 0; i < n; i++)
		store(rows + (size_t) i * fit.dim, fit.dim);
	fit.rows = rows;
	model = calloc(grn_codec_floats(fit.dim, fit.max_code_dims) + 1, sizeof(float));
	workspace = malloc(grn_codec_fit_bytes(&fit));
	codec = grn_codec_fit(&fit, &parallel, model, workspace, &held);
	free(workspace);
	MUST(!isnan(held));
	MUST(grn_shape_sound(codec.shape));
	for (size_t i = 0; i < grn_codec_floats(fit.dim, grn_code_dims(codec.shape)); i++)
		MUST(isfinite(model[i]));
	grn_codec_set_metric(&codec, grn_metric(fit.kind == GRN_CODES_DIRECTIONS ? GRN_IP : GRN_L2),
						 codec.norm_unit > 0 ? codec.norm_unit : 1);

	bytes = grn_code_bytes(codec.shape);
	codes = calloc(n, bytes + 1);
	factors = calloc(n, sizeof(GrnFactor));
	estimates = calloc(n, sizeof(float));
	if (grn_has_codes(&codec))
	{
		for (uint32_t i = 0; i < n; i++)
			grn_encode(&codec, rows + (size_t) i * fit.dim, codes + (size_t) i * bytes, &factors[i], scratch);
		/* then any bytes */
		for (uint32_t i = take_number(&in, 0, 8); i > 0; i--)
		{
			codes[take_number(&in, 0, n * bytes - 1)] = (uint8_t) take_number(&in, 0, 255);
			take_bytes(&in, &factors[take_number(&in, 0, n - 1)], sizeof(GrnFactor));
		}
		estimate(&codec, rows, codes, factors, n, estimates);
	}
	if (n > 1)
		prune(&in, &codec, rows, codes, factors, n, estimates);
	free(estimates);
	free(factors);
	free(codes);
	free(model);
	free(rows);
	return 0;
}
