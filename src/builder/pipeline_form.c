/*
 * pipeline_form.c - tests whether rounded own vectors are exact enough, and chooses the form of own
 * vectors if they are not.
 *
 * A search ranks rows by stored vectors.  A scan then orders the rows that the search has kept by
 * their exact vectors.  So rounding may change the order of stored vectors, but the nearest rows
 * must be among the rows that a search of the default width keeps.  The test takes some rows as
 * probes, and compares each probe with the rows around the probe in the graph.  Before the graph is
 * built, a sample of all rows takes the place of these rows.
 */
#include "builder/pipeline_impl.h"

#include <stdlib.h>
#include <string.h>

#include "memory/memory.h"
#include "store/prune.h"
#include "store/record.h"

/* 10,000 sentences and image patches: the same form with half and twice of the next three. */
#define NEAREST 10				/* nearest rows of a probe that a search must keep */
#define KEPT 40					/* rows that a search keeps */
#define PROBES 64
#define ROWS_PER_PROBE 8		/* in small tables, rows for each probe */
/*
 * Largest number of rows in the graph that a probe is compared with.  10,000 sentences, image
 * patches and rows in tight clusters: the same form with half and twice.
 */
#define AROUND 512
/*
 * Most bytes of own vectors that are computed in advance, of all rows.  600 rows of 1,536
 * dimensions take .07 s of processor time, without .12 s; 4,000 rows of four sets as long.
 */
#define MOST_MADE_BYTES (8 << 20)
/*
 * Sampled rows in the test without a graph, and the smallest number of kept rows in a sample, which
 * is sparser than all rows.  10,000 sentences and image patches beyond memory: the same form with a
 * half and a quarter of SAMPLE, and with half and twice of LEAST_KEPT.
 */
#define SAMPLE 16384
#define LEAST_KEPT 4

/*
 * Rounding hides rows if more than a share MOST_MISSED of the nearest rows is missed, or if
 * MANY_LOST probes miss more than half of their nearest rows.  Measured: text, descriptors and
 * random numbers miss 0 to 2%, and no probe more than half.  If rounding is as coarse as the
 * distances between neighbors, 65% or more are missed.
 *
 * MOST_MISSED_BARE holds for a build that has dropped its codes, so that records have room for
 * exact rows.  10,000 rows in 50 clusters, 32 and 128 dimensions, miss 5 and 8%, recall at ef 40:
 * exact 1.000 and .999, rounded .938 and .875; near duplicates 13%, 1.000 and .902.  Uniform and
 * normal rows of 512 and 1,536 dimensions miss none, and exact rows would take four times the
 * bytes.  11 sets get the same forms with half and twice.
 */
#define MOST_MISSED 0.2
#define MOST_MISSED_BARE 0.02
#define MANY_LOST 3

typedef struct RoundingTest
{
	GrnPipeline *p;
	GrnLayout	layout;			/* layout of own vectors */
	GrnCenter	center;			/* center of own vectors */
	uint64_t	wanted;			/* nearest rows of all probes */
	uint64_t	missed;			/* nearest rows that rounding puts out of reach */
	uint64_t	lost;			/* probes that miss more than half of their nearest rows */
	/*
	 * [n] of grn_aligned(vec_bytes) each: own vectors of all rows if the rows are few, otherwise
	 * NULL
	 */
	uint8_t    *made;
	/* Only for a test with a sample. */
	float	   *values;			/* [PROBES][dim] */
	float	   *apart;			/* [PROBES][2][SAMPLE] distances by exact rows, then by stored
								 * vectors */
	uint64_t	samples;
} RoundingTest;

static int
by_distance(const void *a, const void *b)
{
	float		x = *(const float *) a;
	float		y = *(const float *) b;

	return (x > y) - (x < y);
}

/*
 * Counts the nearest rows of a probe that a search would not keep.  distances and stored: [n]
 * distances of n rows, by exact rows and by stored vectors.  sorted: [n] scratch.
 */
static void
count_probe(RoundingTest *test, const float *distances, const float *stored, uint32_t n, uint32_t nearest,
			uint32_t kept, float *sorted)
{
	float		farthest;
	uint32_t	found = 0;
	uint32_t	missed;

	if (n <= kept || nearest == 0)
		return;
	memcpy(sorted, distances, n * sizeof(float));
	qsort(sorted, n, sizeof(float), by_distance);
	farthest = sorted[nearest - 1];
	/*
	 * Rows with equal stored distances at the end of the kept rows may or may not be kept.  So
	 * these rows count as missed.
	 */
	memcpy(sorted, stored, n * sizeof(float));
	qsort(sorted, n, sizeof(float), by_distance);
	for (uint32_t i = 0; i < n; i++)
		found += distances[i] <= farthest && stored[i] < sorted[kept];
	missed = found < nearest ? nearest - found : 0;
	__atomic_fetch_add(&test->wanted, nearest, __ATOMIC_RELAXED);
	__atomic_fetch_add(&test->missed, missed, __ATOMIC_RELAXED);
	__atomic_fetch_add(&test->lost, 2 * missed > nearest, __ATOMIC_RELAXED);
}

static bool
rounding_loses(const RoundingTest *test, double most_missed)
{
	return (double) test->missed > most_missed * (double) test->wanted || test->lost >= MANY_LOST;
}

/*
 * Distances of a row x from a query q: exact, and by the stored vector `vec`.  made: the query
 * prepared for stored vectors of a rotated form, or NULL.
 */
static void
compare(const RoundingTest *test, const float *q, const void *made, const float *x, const void *vec,
		float *distance, float *stored)
{
	const GrnLayout *l = &test->layout;
	GrnComparison comparison = test->p->metric->comparison;

	*distance = grn_compare(comparison, GRN_FORM_FLOATS, q, x, l->dim);
	*stored = made ? grn_query_compare(comparison, l->form, made, vec, l->dim)
		: grn_compare(comparison, l->form, q, vec, l->dim);
}

static void
begin_test(RoundingTest *test, GrnPipeline *p, GrnForm form)
{
	memset(test, 0, sizeof(*test));
	test->p = p;
	test->layout = grn_own_layout(form, p->rows.dim);
	grn_layout_set_center(&test->layout, &test->center, p->metric->comparison, p->center);
}

/* Only layouts that round to save pages are tested.  Compact layouts are coarse by choice. */
static bool
rounding_is_tested(const GrnPipeline *p)
{
	const GrnBuildSpec *spec = p->build->spec;

	return spec->near.k == 0 && (spec->keep == GRN_KEEP_DEFAULT || spec->keep == GRN_KEEP_BYTES);
}

/* ---- test with the graph ---- */

/*
 * Lists AROUND vertices that few edges separate from v, without v.  Returns their number, which is
 * less if v reaches no more.
 */
static uint32_t
vertices_around(const GrnGraph *g, uint32_t v, uint32_t *out)
{
	uint32_t	n = 0;

	for (uint32_t from = v, i = 0; n < AROUND; from = out[i++])
	{
		const uint32_t *near = g->ids + (uint64_t) from * g->degree;

		for (uint32_t j = 0; j < g->counts[from] && n < AROUND; j++)
			if (near[j] != v && grn_find_id(out, n, near[j]) < 0)
				out[n++] = near[j];
		if (i == n)
			break;
	}
	return n;
}

/* A GrnRangeFn over vertices: computes own vectors in advance. */
static void
make_range(void *arg, int worker, size_t first, size_t end)
{
	RoundingTest *test = arg;
	const GrnRows *rows = &test->p->rows;
	float		values[GRN_MOST_DIMS];

	(void) worker;
	for (size_t v = first; v < end; v++)
		grn_own_store(&test->layout, grn_row_values(rows, grn_row(rows, v), values), NULL,
					  test->made + v * grn_aligned(test->layout.vec_bytes));
}

/* A GrnRangeFn over probes. */
static void
judge_range(void *arg, int worker, size_t first, size_t end)
{
	RoundingTest *test = arg;
	const GrnPipeline *p = test->p;
	const GrnLayout *l = &test->layout;
	const GrnRows *rows = &p->rows;
	size_t		bytes = grn_query_bytes(p->metric->comparison, l->form, l->dim);
	void	   *made = bytes > 0 && grn_form(l->form)->rotated ? grn_alloc(bytes) : NULL;
	float		query[GRN_MOST_DIMS];
	float		values[GRN_MOST_DIMS];
	/* floats, for alignment; large enough for every form */
	float		vec[GRN_MOST_DIMS + 1];

	(void) worker;
	for (size_t i = first; i < end; i++)
	{
		uint32_t	v = (uint32_t) (grn_random(p->build->spec->params.seed, PROBES, i) % p->graph.n);
		const float *q = grn_row_values(rows, grn_row(rows, v), query);
		uint32_t	ids[AROUND];
		uint32_t	n = vertices_around(&p->graph, v, ids);
		float		distances[AROUND];
		float		stored[AROUND];
		float		sorted[AROUND];

		if (made)
			grn_own_query(l, q, made);
		for (uint32_t j = 0; j < n; j++)
		{
			const float *x = grn_row_values(rows, grn_row(rows, ids[j]), values);

			if (test->made == NULL)
				grn_own_store(l, x, NULL, vec);
			compare(test, q, made, x,
					test->made ? test->made + ids[j] * grn_aligned(l->vec_bytes) : (void *) vec,
					&distances[j], &stored[j]);
		}
		count_probe(test, distances, stored, n, NEAREST, KEPT, sorted);
	}
	grn_free(made);
}

/* Whether rounding to `form` hides rows of the graph. */
static bool
form_loses_nearest(GrnPipeline *p, GrnForm form)
{
	RoundingTest test;
	uint64_t	n = p->graph.n;
	uint64_t	probes = n / ROWS_PER_PROBE < PROBES ? n / ROWS_PER_PROBE : PROBES;

	/* A search keeps all rows. */
	if (n <= KEPT)
		return false;
	begin_test(&test, p, form);
	/* In a small graph most vertices are around several probes. */
	if (n * grn_aligned(test.layout.vec_bytes) <= MOST_MADE_BYTES)
		test.made = grn_alloc(n * grn_aligned(test.layout.vec_bytes));
	if (test.made)
		p->parallel->run(p->parallel, n, PROBES, make_range, &test);
	p->parallel->run(p->parallel, probes, 1, judge_range, &test);
	grn_free(test.made);
	return rounding_loses(&test, p->plan.max_code_dims > 0 && !grn_has_codes(&p->codec) ?
						  MOST_MISSED_BARE : MOST_MISSED);
}

void
grn_pipeline_judge_form(GrnPipeline *p)
{
	GrnBuildResult *r = p->result;

	/* Rows beyond memory already have own vectors. */
	if (p->plan.regime != GRN_IN_MEMORY || !rounding_is_tested(p))
		return;
	while (r->form != p->plan.exact && form_loses_nearest(p, (GrnForm) r->form))
	{
		GrnForm		form = (GrnForm) r->form;

		/* The degree and the codes stay the same. */
		r->form = form == GRN_FORM_ROUNDED_MORE && p->plan.exact != GRN_FORM_ROUNDED ? GRN_FORM_ROUNDED : p->plan.exact;
		if (!grn_result_layout(&p->layout, p->build->spec, r))
		{
			r->form = form;
			(void) grn_result_layout(&p->layout, p->build->spec, r);
			return;
		}
		r->centered &= grn_form((GrnForm) r->form)->rotated;
	}
}

/* ---- test with a sample, without a graph ---- */

/* Draws row i of a random stream: PROBES or SAMPLE. */
static uint64_t
drawn_row(const GrnPipeline *p, uint64_t stream, uint64_t i)
{
	return grn_random(p->build->spec->params.seed, stream, i) % p->rows.n;
}

/* A GrnRangeFn over the sample: compares the sample's rows with all probes. */
static void
compare_range(void *arg, int worker, size_t first, size_t end)
{
	RoundingTest *test = arg;
	const GrnPipeline *p = test->p;
	uint32_t	dim = p->rows.dim;
	float		values[GRN_MOST_DIMS];
	float		vec[GRN_MOST_DIMS + 1];

	(void) worker;
	for (size_t i = first; i < end; i++)
	{
		uint64_t	row = drawn_row(p, SAMPLE, i);
		const float *x = grn_row_values(&p->rows, grn_row(&p->rows, row), values);

		grn_own_store(&test->layout, x, NULL, vec);
		for (uint32_t k = 0; k < PROBES; k++)
		{
			float	   *apart = test->apart + (uint64_t) k * 2 * SAMPLE;

			compare(test, test->values + (size_t) k * dim, NULL, x, vec,
					&apart[i], &apart[SAMPLE + i]);
		}
	}
}

/*
 * A GrnRangeFn over probes: counts misses.  The numbers of nearest rows and of kept rows shrink in
 * proportion to the sample.
 */
static void
count_range(void *arg, int worker, size_t first, size_t end)
{
	RoundingTest *test = arg;
	uint64_t	n = test->samples;
	double		share = (double) n / (double) test->p->rows.n;
	uint32_t	nearest = share * NEAREST > 1 ? (uint32_t) (share * NEAREST) : 1;
	uint32_t	kept = share * KEPT > LEAST_KEPT ? (uint32_t) (share * KEPT) : LEAST_KEPT;
	float	   *sorted = grn_alloc(n * sizeof(float));

	(void) worker;
	for (size_t k = first; sorted && k < end; k++)
	{
		const float *apart = test->apart + k * 2 * SAMPLE;

		count_probe(test, apart, apart + SAMPLE, (uint32_t) n, nearest, kept, sorted);
	}
	grn_free(sorted);
}

bool
grn_pipeline_rounding_loses(GrnPipeline *p)
{
	const GrnRows *rows = &p->rows;
	RoundingTest test;
	bool		hidden = false;

	if (!rounding_is_tested(p))
		return false;
	begin_test(&test, p, GRN_FORM_ROUNDED);
	test.samples = rows->n < SAMPLE ? rows->n : SAMPLE;
	test.values = grn_alloc((size_t) PROBES * rows->dim * sizeof(float));
	test.apart = grn_alloc((size_t) PROBES * 2 * SAMPLE * sizeof(float));
	if (test.values && test.apart)
	{
		grn_pipeline_sample_rows(p, true);
		for (uint32_t k = 0; k < PROBES; k++)
		{
			float	   *to = test.values + (size_t) k * rows->dim;
			const float *x = grn_row_values(rows, grn_row(rows, drawn_row(p, PROBES, k)), to);

			if (x != to)
				memcpy(to, x, rows->dim * sizeof(float));
		}
		for (uint64_t i = 0; i < test.samples; i++)
		{
			uint64_t	row = drawn_row(p, SAMPLE, i);

			grn_prefetch_rows(rows, row, row + 1);
		}
		p->parallel->run(p->parallel, test.samples, 64, compare_range, &test);
		p->parallel->run(p->parallel, PROBES, 1, count_range, &test);
		grn_pipeline_sample_rows(p, false);
		hidden = rounding_loses(&test, MOST_MISSED);
	}
	grn_free(test.values);
	grn_free(test.apart);
	return hidden;
}
