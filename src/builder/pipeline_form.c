/*
 * pipeline_form.c - whether rounded own vectors serve, and the form that records keep if not.
 *
 * Rounding may change the order of rows, because scans compare with the rows themselves what a
 * search has kept.  But those that are nearest must be among what it keeps, at the default width.
 * That is seen at some rows, each compared with others: with those around it in the graph, or,
 * before there is a graph, with a sample of all.
 */
#include "builder/pipeline_impl.h"

#include <stdlib.h>
#include <string.h>

#include "graph/arena.h"
#include "graph/stored/own.h"

#define NEAREST 10				/* rows that are to be kept, */
#define KEPT 40					/* among so many */
#define PROBES 64
#define ROWS_PER_PROBE 8		/* of few rows fewer are probes */
#define AROUND 512				/* rows that a probe is compared with in a graph, at most */
#define MOST_MADE 8192			/* rows whose own vectors are made beforehand, once each */
#define MOST_MADE_BYTES (8 << 20)
#define SAMPLE 16384			/* and without one */
#define LEAST_KEPT 4			/* of a sample, which is sparser than all rows */

/*
 * Rounding hides rows where such a share of the nearest is missed, or so many probes miss more than
 * half of theirs.  Of text, descriptors and random numbers 0 to 2% are missed, and by no probe
 * more than half; where rounding is as large as what tells neighbours apart, 65% or more.
 */
#define MOST_MISSED 0.2
#define MANY_LOST 3

typedef struct Judgement
{
	GrnPipeline *p;
	GrnLayout	layout;			/* of own vectors, */
	GrnCentre	centre;			/* and theirs */
	uint64_t	wanted;			/* nearest rows, of all probes, */
	uint64_t	missed;			/* and those of them that rounding moves out of reach */
	uint64_t	lost;			/* probes that miss more than half of theirs */
	uint8_t    *made;			/* [n], of grn_aligned(vec_bytes) each: own vectors of all rows
								 * where these are few, or NULL */
	/* of a sample: */
	float	   *values;			/* [PROBES][dim] */
	float	   *apart;			/* [PROBES][2][SAMPLE] distances, by rows and by stored vectors */
	uint64_t	samples;
} Judgement;

static int
by_number(const void *a, const void *b)
{
	uint32_t	x = *(const uint32_t *) a;
	uint32_t	y = *(const uint32_t *) b;

	return (x > y) - (x < y);
}

static int
by_distance(const void *a, const void *b)
{
	float		x = *(const float *) a;
	float		y = *(const float *) b;

	return (x > y) - (x < y);
}

/*
 * Counts a probe, of which n rows have such distances: how many of the nearest are not among those
 * that a search keeps by stored vectors.  sorted: [n] scratch.
 */
static void
count_probe(Judgement *judgement, const float *distances, const float *stored, uint32_t n, uint32_t nearest,
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
	/* of rows that look alike there is no telling which it keeps: the first that it may not */
	memcpy(sorted, stored, n * sizeof(float));
	qsort(sorted, n, sizeof(float), by_distance);
	for (uint32_t i = 0; i < n; i++)
		found += distances[i] <= farthest && stored[i] < sorted[kept];
	missed = found < nearest ? nearest - found : 0;
	__atomic_fetch_add(&judgement->wanted, nearest, __ATOMIC_RELAXED);
	__atomic_fetch_add(&judgement->missed, missed, __ATOMIC_RELAXED);
	__atomic_fetch_add(&judgement->lost, 2 * missed > nearest, __ATOMIC_RELAXED);
}

static bool
rounding_hides(const Judgement *judgement)
{
	return (double) judgement->missed > MOST_MISSED * (double) judgement->wanted || judgement->lost >= MANY_LOST;
}

/* The distances of a row x from a query q: of the row itself, and of what a record keeps of it. */
static void
compare(const Judgement *judgement, const float *q, const void *made, const float *x, const void *vec,
		float *distance, float *stored)
{
	const GrnLayout *l = &judgement->layout;
	GrnComparison comparison = judgement->p->metric->comparison;

	*distance = grn_compare(comparison, GRN_FORM_FLOATS, q, x, l->dim);
	*stored = made ? grn_query_compare(comparison, l->form, made, vec, l->dim)
		: grn_compare(comparison, l->form, q, vec, l->dim);
}

static void
begin(Judgement *judgement, GrnPipeline *p, GrnForm form)
{
	memset(judgement, 0, sizeof(*judgement));
	judgement->p = p;
	judgement->layout = p->layout;
	judgement->layout.form = form;
	judgement->layout.dim = p->rows.dim;
	judgement->layout.vec_bytes = (uint32_t) grn_form_bytes(form, p->rows.dim);
	if (p->result->centred && grn_form(form)->rotated)
	{
		grn_centre_make(&judgement->centre, p->metric->comparison, p->centre, p->rows.dim);
		judgement->layout.centre = &judgement->centre;
	}
}

/* Only the layouts that round to save pages; compact ones are known to be coarse. */
static bool
may_judge(const GrnPipeline *p)
{
	const GrnBuildSpec *spec = p->build->spec;

	return spec->near.k == 0 && (spec->keep == GRN_KEEP_DEFAULT || spec->keep == GRN_KEEP_BYTES);
}

/* ---- by the graph ---- */

/* Vertices around v, each once and not v itself, at most AROUND; returns how many. */
static uint32_t
vertices_around(const GrnGraph *g, uint64_t v, uint32_t *out)
{
	const uint32_t *near = g->ids + v * g->degree;
	uint32_t	n = g->counts[v];
	uint32_t	kept = 0;

	memcpy(out, near, n * sizeof(uint32_t));
	for (uint32_t i = 0; i < g->counts[v]; i++)
	{
		const uint32_t *next = g->ids + (uint64_t) near[i] * g->degree;

		for (uint32_t j = 0; j < g->counts[near[i]] && n < AROUND; j++)
			out[n++] = next[j];
	}
	qsort(out, n, sizeof(uint32_t), by_number);
	for (uint32_t i = 0; i < n; i++)
		if (out[i] != v && (kept == 0 || out[i] != out[kept - 1]))
			out[kept++] = out[i];
	return kept;
}

/* A GrnRangeFn over vertices. */
static void
make_range(void *arg, int worker, size_t first, size_t end)
{
	Judgement  *judgement = arg;
	const GrnRows *rows = &judgement->p->rows;
	float		values[GRN_MOST_DIMS];

	(void) worker;
	for (size_t v = first; v < end; v++)
		grn_own_store(&judgement->layout, grn_row_values(rows, grn_row(rows, v), values), NULL,
					  judgement->made + v * grn_aligned(judgement->layout.vec_bytes));
}

/* A GrnRangeFn over probes. */
static void
judge_range(void *arg, int worker, size_t first, size_t end)
{
	Judgement  *judgement = arg;
	const GrnPipeline *p = judgement->p;
	const GrnLayout *l = &judgement->layout;
	const GrnRows *rows = &p->rows;
	size_t		bytes = grn_query_bytes(p->metric->comparison, l->form, l->dim);
	void	   *made = bytes > 0 && grn_form(l->form)->rotated ? grn_alloc(bytes) : NULL;
	float		query[GRN_MOST_DIMS];
	float		values[GRN_MOST_DIMS];
	/* as large as what it is made of */
	float		vec[GRN_MOST_DIMS + 1];

	(void) worker;
	for (size_t i = first; i < end; i++)
	{
		uint64_t	v = grn_random(p->build->spec->params.seed, PROBES, i) % p->graph.n;
		const float *q = grn_row_values(rows, grn_row(rows, v), query);
		uint32_t	ids[AROUND + GRN_MAX_DEGREE];
		uint32_t	n = vertices_around(&p->graph, v, ids);
		float		distances[AROUND];
		float		stored[AROUND];
		float		sorted[AROUND];

		if (made)
			grn_own_query(l, q, made);
		for (uint32_t j = 0; j < n; j++)
		{
			const float *x = grn_row_values(rows, grn_row(rows, ids[j]), values);

			if (judgement->made == NULL)
				grn_own_store(l, x, NULL, vec);
			compare(judgement, q, made, x,
					judgement->made ? judgement->made + ids[j] * grn_aligned(l->vec_bytes) : (void *) vec,
					&distances[j], &stored[j]);
		}
		count_probe(judgement, distances, stored, n, NEAREST, KEPT, sorted);
	}
	grn_free(made);
}

/* Whether a form that rounds hides rows of the graph. */
static bool
hides(GrnPipeline *p, GrnForm form)
{
	Judgement	judgement;
	uint64_t	n = p->graph.n;
	uint64_t	probes = n / ROWS_PER_PROBE < PROBES ? n / ROWS_PER_PROBE : PROBES;

	/* a search keeps them all */
	if (n <= KEPT)
		return false;
	begin(&judgement, p, form);
	/* of few rows most are around several probes */
	if (n <= MOST_MADE && n * grn_aligned(judgement.layout.vec_bytes) <= MOST_MADE_BYTES)
		judgement.made = grn_alloc(n * grn_aligned(judgement.layout.vec_bytes));
	if (judgement.made)
		p->parallel->run(p->parallel, n, PROBES, make_range, &judgement);
	p->parallel->run(p->parallel, probes, 1, judge_range, &judgement);
	grn_free(judgement.made);
	return rounding_hides(&judgement);
}

void
grn_pipeline_judge_form(GrnPipeline *p)
{
	GrnBuildResult *r = p->result;

	/* rows beyond memory have their own vectors already */
	if (p->own || r->moved || !may_judge(p))
		return;
	while (r->form != p->exact && hides(p, (GrnForm) r->form))
	{
		GrnForm		form = (GrnForm) r->form;

		/* as many edges as the graph has, and the codes that there are */
		r->form = form == GRN_FORM_ROUNDED_MORE && p->exact != GRN_FORM_ROUNDED ? GRN_FORM_ROUNDED : p->exact;
		if (!grn_result_layout(&p->layout, p->build->spec, r))
		{
			r->form = form;
			(void) grn_result_layout(&p->layout, p->build->spec, r);
			return;
		}
		r->centred &= grn_form((GrnForm) r->form)->rotated;
	}
}

/* ---- by a sample, without a graph ---- */

/* Rows that are drawn; stream: the probes, or the sample. */
static uint64_t
drawn_row(const GrnPipeline *p, uint64_t stream, uint64_t i)
{
	return grn_random(p->build->spec->params.seed, stream, i) % p->rows.n;
}

/* A GrnRangeFn over the sample: compares its rows with all probes. */
static void
compare_range(void *arg, int worker, size_t first, size_t end)
{
	Judgement  *judgement = arg;
	const GrnPipeline *p = judgement->p;
	uint32_t	dim = p->rows.dim;
	float		values[GRN_MOST_DIMS];
	float		vec[GRN_MOST_DIMS + 1];

	(void) worker;
	for (size_t i = first; i < end; i++)
	{
		uint64_t	row = drawn_row(p, SAMPLE, i);
		const float *x = grn_row_values(&p->rows, grn_row(&p->rows, row), values);

		grn_own_store(&judgement->layout, x, NULL, vec);
		for (uint32_t k = 0; k < PROBES; k++)
		{
			float	   *apart = judgement->apart + (uint64_t) k * 2 * SAMPLE;

			compare(judgement, judgement->values + (size_t) k * dim, NULL, x, vec,
					&apart[i], &apart[SAMPLE + i]);
		}
	}
}

/*
 * A GrnRangeFn over probes.  Of a sample, fewer rows are the nearest, and fewer are kept, in
 * proportion.
 */
static void
count_range(void *arg, int worker, size_t first, size_t end)
{
	Judgement  *judgement = arg;
	uint64_t	n = judgement->samples;
	double		share = (double) n / (double) judgement->p->rows.n;
	uint32_t	nearest = share * NEAREST > 1 ? (uint32_t) (share * NEAREST) : 1;
	uint32_t	kept = share * KEPT > LEAST_KEPT ? (uint32_t) (share * KEPT) : LEAST_KEPT;
	float	   *sorted = grn_alloc(n * sizeof(float));

	(void) worker;
	for (size_t k = first; sorted && k < end; k++)
	{
		const float *apart = judgement->apart + k * 2 * SAMPLE;

		count_probe(judgement, apart, apart + SAMPLE, (uint32_t) n, nearest, kept, sorted);
	}
	grn_free(sorted);
}

bool
grn_pipeline_rounding_hides(GrnPipeline *p)
{
	const GrnRows *rows = &p->rows;
	Judgement	judgement;
	bool		hidden = false;

	if (!may_judge(p))
		return false;
	begin(&judgement, p, GRN_FORM_ROUNDED);
	judgement.samples = rows->n < SAMPLE ? rows->n : SAMPLE;
	judgement.values = grn_alloc((size_t) PROBES * rows->dim * sizeof(float));
	judgement.apart = grn_alloc((size_t) PROBES * 2 * SAMPLE * sizeof(float));
	if (judgement.values && judgement.apart)
	{
		grn_pipeline_sample_rows(p, true);
		for (uint32_t k = 0; k < PROBES; k++)
		{
			float	   *to = judgement.values + (size_t) k * rows->dim;
			const float *x = grn_row_values(rows, grn_row(rows, drawn_row(p, PROBES, k)), to);

			if (x != to)
				memcpy(to, x, rows->dim * sizeof(float));
		}
		for (uint64_t i = 0; i < judgement.samples; i++)
		{
			uint64_t	row = drawn_row(p, SAMPLE, i);

			grn_rows_ahead(rows, row, row + 1);
		}
		p->parallel->run(p->parallel, judgement.samples, 64, compare_range, &judgement);
		p->parallel->run(p->parallel, PROBES, 1, count_range, &judgement);
		grn_pipeline_sample_rows(p, false);
		hidden = rounding_hides(&judgement);
	}
	grn_free(judgement.values);
	grn_free(judgement.apart);
	return hidden;
}
