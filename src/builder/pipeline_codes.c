/*
 * pipeline_codes.c - the codes of a build: fits the codec, encodes all vertices, and judges whether
 * codes order neighbors well enough.  Also computes the center of own vectors.
 */
#include "builder/pipeline_impl.h"

#include <stdlib.h>
#include <string.h>

#include "memory/memory.h"
#include "store/record.h"

/*
 * Vertices that all threads encode in a single loop.  Short loops matter while a GPU builds: the
 * GPU's thread needs the pool for loops of its own, and waits for at most a single loop of codes.
 */
#define STRETCH ((uint64_t) 131072)

/*
 * Vertices that are judged.  Longer codes make an index of 250,000 Gaussian rows half as large
 * again if a twelfth of the vertices is poor, so the choice of longer codes must not depend on
 * chance.  Of rows beyond memory each neighbor may cost a read of the disk.  10,000 sentences and
 * image patches: the same index in the same time with half and twice.
 */
#define JUDGED 8192

/*
 * Codes that do not tell neighbors apart become LONGER times as long, once.  10,000 Gaussian rows
 * of 256 dimensions: .692 in 4.3 MB without, .797 in 27.6 MB with.  Codes as long as a page allows,
 * as a further try: 48 dimensions in clusters .983 by .08 ms in 11.7 MB, .979 by .15 ms in 2.2 MB
 * without; one-hot rows with noise .990 by .19 ms in 82 MB, 1.000 by .24 ms in 4.6 MB.
 */
#define LONGER 1.5

/* Sampled rows whose mean is the center of own vectors.  Half and twice: recall within .002. */
#define CENTER_ROWS 4096
/*
 * Rows farther from the mean than this multiple of the median distance do not count.  8,000 image
 * patches in layout compact, one in 3,000 of them 10,000 times as long, recall at ef 10: .966 with
 * 2, 4 and 8, .407 if all rows count.
 */
#define FAR_FROM_CENTER 4

/*
 * No center if its squared length is less than this multiple of what chance gives the mean: rows
 * shorter than it would be stored as vectors of the center.  10,000 rows in 768 dimensions, layout
 * compact, recall at ef 40 with 0 and 4: lengths .01, 1 and 100 .126 and .255, log-normal lengths
 * .171 and .203, normal rows .429 and .424; half and twice drop the same centers but that of
 * log-normal lengths, which half keeps.  The center of sentences is 475 times chance.
 */
#define CHANCE 4

typedef struct Encoding
{
	GrnPipeline *p;
	uint64_t	first;			/* first vertex of the stretch */
	bool		codes;			/* the loop makes codes */
	bool		own;			/* the loop makes own vectors */
	GrnLayout	layout;			/* layout of own vectors */
	GrnCenter	center;			/* center of own vectors */
} Encoding;

GrnCodecFit
grn_pipeline_plan_fit(const GrnPipeline *p)
{
	GrnLayoutSpec spec = grn_result_layout_spec(p->build->spec, p->result);
	GrnCodecFit fit = {0};

	fit.of = &p->rows;
	fit.kind = p->metric->codes;
	fit.nsample = grn_fitted_rows(p->rows.dim, p->rows.n);
	fit.dim = p->rows.dim;
	fit.max_code_dims = p->plan.max_code_dims;
	fit.costs = &p->plan.costs;
	fit.shape = grn_layout_own_shape(p->metric, &spec);
	fit.seed = p->build->spec->params.seed;
	return fit;
}

static void
encode_range(void *arg, int worker, size_t begin, size_t end)
{
	const Encoding *e = arg;
	const GrnPipeline *p = e->p;
	size_t		code_bytes = grn_code_bytes(p->codec.shape);
	float		scratch[GRN_MAX_CODE_DIMS];
	float		values[GRN_MOST_DIMS];

	begin += e->first;
	end += e->first;
	if (p->plan.regime != GRN_IN_MEMORY)
		grn_prefetch_rows(&p->rows, begin, end);
	for (size_t v = begin; v < end; v++)
	{
		const float *x = grn_row_values(&p->rows, grn_row(&p->rows, v), values);

		if (e->codes)
			grn_encode(&p->codec, x, p->codes + v * code_bytes, &p->factors[v], scratch);
		if (e->own)
			grn_own_item_make(&e->layout, x, p->own + v * p->own_bytes);
	}
}

/*
 * Makes codes and own vectors, each from a single row.  After this loop, moved rows
 * are only read at random and rarely, because the index keeps nothing else of them.  again: only
 * the codes have changed.
 */
static void
encode_rows(GrnPipeline *p, bool again)
{
	uint64_t	m = p->graph.n;
	GrnProgress *progress = (GrnProgress *) p->parallel;	/* p->parallel is the first member of
															 * the GrnProgress in use */
	Encoding	e = {.p = p, .codes = grn_has_codes(&p->codec),
		.own = p->own && p->plan.regime != GRN_ROUNDED && !again, .layout = p->layout};
	size_t		grain = GRN_GRAIN;
	uint64_t	stretches = (m - 1) / STRETCH + 1;

	if (!e.codes && !e.own)
		return;
	grn_layout_set_center(&e.layout, &e.center, p->metric->comparison, p->center);
	if (p->plan.regime != GRN_IN_MEMORY)
		grain = GRN_PREFETCH_PIECE / p->rows.row_bytes + 1;
	grn_progress_done(progress, 0, stretches);
	/*
	 * Works from the last row to the first: a GPU that reads rows from the first to the last has
	 * left the last rows in memory.
	 */
	for (uint64_t s = stretches; s-- > 0;)
	{
		e.first = s * STRETCH;
		p->parallel->run(p->parallel, m - e.first < STRETCH ? m - e.first : STRETCH, grain, encode_range, &e);
		grn_progress_done(progress, stretches - s, stretches);
	}
}

/* Row i of n rows spread evenly over all rows. */
static const float *
spread_row(const GrnPipeline *p, uint64_t i, uint64_t n, float *scratch)
{
	return grn_row_values(&p->rows, grn_row(&p->rows, p->rows.n * i / n), scratch);
}

/*
 * Sets the center to the mean of n spread rows, without rows whose entry in apart2 [n] exceeds
 * `most`.
 */
static void
mean_of_rows(GrnPipeline *p, uint64_t n, const double *apart2, double most)
{
	uint32_t	dim = p->rows.dim;
	float		values[GRN_MOST_DIMS];
	double		sum[GRN_MOST_DIMS] = {0};
	uint64_t	near = 0;

	for (uint64_t i = 0; i < n; i++)
		if (apart2[i] <= most)
		{
			const float *x = spread_row(p, i, n, values);

			for (uint32_t j = 0; j < dim; j++)
				sum[j] += x[j];
			near++;
		}
	for (uint32_t j = 0; j < dim; j++)
		p->center[j] = (float) (sum[j] / (double) near);
}

static int
by_value(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

void
grn_pipeline_choose_center(GrnPipeline *p)
{
	uint64_t	n = p->rows.n < CENTER_ROWS ? p->rows.n : CENTER_ROWS;
	float		values[GRN_MOST_DIMS];
	double		apart2[CENTER_ROWS] = {0};	/* squared distances from the mean of the sample */
	double		sorted[CENTER_ROWS];

	if (!p->result->centered)
		return;
	grn_pipeline_sample_rows(p, true);
	for (uint64_t i = 0; i < n && p->rows.on_disk; i++)
		grn_prefetch_rows(&p->rows, p->rows.n * i / n, p->rows.n * i / n + 1);
	mean_of_rows(p, n, apart2, 0);
	for (uint64_t i = 0; i < n; i++)
	{
		const float *x = spread_row(p, i, n, values);

		for (uint32_t j = 0; j < p->rows.dim; j++)
			apart2[i] += ((double) x[j] - p->center[j]) * ((double) x[j] - p->center[j]);
	}
	memcpy(sorted, apart2, n * sizeof(double));
	qsort(sorted, n, sizeof(double), by_value);
	mean_of_rows(p, n, apart2, sorted[n / 2] * FAR_FROM_CENTER * FAR_FROM_CENTER);
	if (grn_norm2(p->center, p->rows.dim) * (double) n < CHANCE * sorted[n / 2])
	{
		p->result->centered = false;
		p->center = NULL;
	}
	grn_pipeline_sample_rows(p, false);
}

/*
 * Fits the codec, and computes the record's geometry and the memory for codes.
 */
static bool
fit_codec(GrnPipeline *p, GrnFailure *failure)
{
	GrnBuild   *b = p->build;
	GrnBuildResult *r = p->result;
	uint64_t	m = p->graph.n;
	GrnCodecFit fit = grn_pipeline_plan_fit(p);
	uint32_t   *sample = (uint32_t *) p->work.scratch;

	for (uint64_t i = 0; i < fit.nsample; i++)
	{
		uint64_t	v = m * i / fit.nsample;

		sample[i] = p->rows.order ? p->rows.order[v] : (uint32_t) v;
	}
	fit.sample = sample;
	grn_pipeline_sample_rows(p, true);
	p->codec = grn_codec_fit(&fit, p->parallel, p->work.codec_floats,
							 p->work.scratch + grn_aligned(fit.nsample * 4), &r->held);
	grn_pipeline_sample_rows(p, false);
	r->shape = p->codec.shape;
	p->codec.power = r->power;
	grn_codec_set_metric(&p->codec, p->metric, r->norm_unit);
	r->norm_unit = p->codec.norm_unit;
	memcpy(r->steps, p->codec.steps, sizeof(r->steps));
	if (!grn_result_layout(&p->layout, b->spec, r))
		return grn_fail(failure, "XX000", "", "codes of %u bytes do not fit a page",
						grn_code_bytes(r->shape));
	if (!grn_has_codes(&p->codec))
		return true;
	b->host->expect(b->host->ctx, GRN_SEG_RESULT, grn_pipeline_place_result(p, NULL).bytes);
	return true;
}

static bool
make_codes(GrnPipeline *p, bool again, GrnFailure *failure)
{
	if (p->plan.max_code_dims > 0 && !fit_codec(p, failure))
		return false;
	encode_rows(p, again);
	return true;
}

bool
grn_pipeline_make_codes(GrnPipeline *p, GrnFailure *failure)
{
	return make_codes(p, false, failure);
}

typedef struct Judging
{
	GrnPipeline *p;
	uint64_t	probes;			/* vertices that are judged */
	GrnJudgment judgment;		/* quality of the codes' order of neighbors */
} Judging;

static void
judge_range(void *arg, int worker, size_t begin, size_t end)
{
	Judging    *judging = arg;
	const GrnPipeline *p = judging->p;
	uint64_t	m = p->graph.n;
	size_t		bytes = grn_code_bytes(p->codec.shape);
	GrnJudgment judgment = {0};
	float		values[GRN_MOST_DIMS];

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		uint64_t	v = m * i / judging->probes;
		const uint32_t *ids = p->graph.ids + v * p->graph.degree;
		uint32_t	n = p->graph.counts[v];
		const void *x = grn_row(&p->rows, v);
		GrnCodeQuery query;
		float		scratch[GRN_MAX_CODE_DIMS];
		float		distances[GRN_MAX_DEGREE];
		float		estimates[GRN_MAX_DEGREE];

		grn_code_query_row(&p->codec, grn_row_values(&p->rows, x, values), &query, scratch);
		for (uint32_t j = 0; j < n; j++)
			distances[j] = grn_row_distance(&p->rows, x, grn_row(&p->rows, ids[j]));
		grn_estimate_ids(&query, p->codes, bytes, p->factors, ids, n, estimates);
		grn_judge_neighbors(distances, estimates, n, &judgment);
	}
	__atomic_fetch_add(&judging->judgment.vertices, judgment.vertices, __ATOMIC_RELAXED);
	__atomic_fetch_add(&judging->judgment.poor, judgment.poor, __ATOMIC_RELAXED);
}

/* Whether codes tell neighbors apart. */
static bool
codes_order_neighbors(GrnPipeline *p, GrnJudgment *judgment)
{
	Judging		judging = {.p = p, .probes = p->rows.on_disk ? GRN_JUDGED_VERTICES : JUDGED};

	judging.probes = p->graph.n < judging.probes ? p->graph.n : judging.probes;
	grn_pipeline_sample_rows(p, true);
	p->parallel->run(p->parallel, judging.probes, 16, judge_range, &judging);
	grn_pipeline_sample_rows(p, false);
	*judgment = judging.judgment;
	return grn_codes_order_well(judgment);
}

bool
grn_pipeline_judge_codes(GrnPipeline *p, GrnFailure *failure)
{
	GrnBuildResult *r = p->result;
	GrnCodeCosts costs = p->plan.costs;
	GrnJudgment judgment;

	if (!grn_has_codes(&p->codec) || grn_codes_exact(&p->codec) || codes_order_neighbors(p, &judgment) ||
		grn_codes_serve(&judgment, grn_is_long((GrnForm) r->form, p->rows.dim)))
		return true;
	grn_forget_costs(&p->plan.costs, (uint32_t) (LONGER * grn_code_bytes(p->codec.shape)));
	if (!make_codes(p, true, failure))
		return false;
	if (codes_order_neighbors(p, &judgment))
		return true;
	p->plan.costs = costs;
	r->shape = p->codec.shape = GRN_NO_CODES;
	r->held = 0;
	/* the graph keeps its lists, to which later inserts and vacuums add */
	r->degree = r->degree > p->build->spec->bare_degree ? r->degree : p->build->spec->bare_degree;
	if (!grn_result_layout(&p->layout, p->build->spec, r))
		return grn_fail(failure, "XX000", "", "records without codes do not fit a page");
	return true;
}
