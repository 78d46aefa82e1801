/*
 * recall.c - measures the recall of searches; see recall.h.
 */
#include "store/recall.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/prune.h"

/*
 * Every fourth query runs at all widths, for the nearest 100, visits and contrast.  The other
 * queries end at the width that finds the nearest 10, because wide searches take most of the time.
 * The few queries of scans all run at all widths.  10,000 sentences: a build has time for 57
 * queries, 42 with half, 71 with twice, 28 if all are wide.  VACUUM of 6,000 sentences, half
 * inserted, takes .28 s, with every second query .33, with every eighth .23.
 */
#define WIDE_EVERY 4
/* Random ids for each query, so that drawing ends if few may be queries. */
#define DRAWS 16

static const uint32_t widths[GRN_CURVE_POINTS] = GRN_CURVE_WIDTHS;
static const uint32_t ks[GRN_CURVE_KS] = GRN_CURVE_K;

static uint32_t
wide_every(const GrnRecall *r)
{
	return r->of_scans ? 1 : WIDE_EVERY;
}

void
grn_recall_draw(GrnRecall *r, uint64_t seed, uint32_t limit, uint32_t want, bool (*takes) (void *arg, uint32_t id))
{
	for (uint64_t i = 0; r->n < want && i < (uint64_t) DRAWS * want; i++)
	{
		uint32_t	id = (uint32_t) (grn_random(seed, limit, i) % limit);

		if (grn_find_id(r->graph->entries, r->graph->nentries, id) < 0 && grn_find_id(r->ids, r->n, id) < 0 &&
			(takes == NULL || takes(r->arg, id)))
			r->ids[r->n++] = id;
	}
}

/* ---- searches ---- */

static int
by_value(const void *a, const void *b)
{
	float		x = *(const float *) a;
	float		y = *(const float *) b;

	return x < y ? -1 : x > y;
}

/* A distance, or more by the rounding of searches that compare a sparse row in another order. */
static float
rounded_up(float d)
{
	return d + fabsf(d) * 1e-5f;
}

/* Runs query i of the round at width number `point`. */
static void
run_search(const GrnRecall *r, GrnStore *store, uint32_t i, uint32_t point, GrnQueryOutcome *out)
{
	const GrnStoredGraph *g = r->graph;
	const GrnLeast *nearest = &r->round.nearest[i];
	uint32_t	ef = widths[point] * grn_metric_beam(g->metric);
	GrnSearchParams params = {.ef = ef, .ef_exact = widths[point], .wanted = ks[0], .dead_limit = GRN_DEAD_LIMIT(ef)};
	GrnSearch  *s = grn_search_graph(g, store, &params, r->round.floats + (size_t) i * g->layout->dim);
	const GrnFound *found;
	uint32_t	n;
	float	   *distances;

	n = grn_search_run(s);
	found = grn_search_found(s);
	distances = store->alloc(store, n * sizeof(float));
	for (uint32_t f = 0; f < n; f++)
		distances[f] = r->distance != NULL ? r->distance(r->arg, &r->round, i, found[f].id) : found[f].distance;
	qsort(distances, n, sizeof(float), by_value);
	for (uint32_t k = 0; k < GRN_CURVE_KS; k++)
	{
		out->hits[k][point] = 0;
		for (uint32_t f = 0; f < n && f < out->wanted[k]; f++)
			out->hits[k][point] += distances[f] <= rounded_up(nearest->d[out->wanted[k] - 1]);
	}
	out->contrast[point] = n < widths[point] ? 0
		: grn_contrast(distances[widths[point] / GRN_CONTRAST_PART - 1], distances[widths[point] - 1]);
	out->visits[point] = (uint32_t) grn_search_visits(s);
	store->free(store, distances);
	grn_search_end(s);
}

/* A GrnRangeFn over the queries of the round. */
static void
search_range(void *arg, int worker, size_t begin, size_t end)
{
	GrnRecall  *r = arg;
	const GrnStoredGraph *g = r->graph;
	GrnStore   *store = g->stores[worker];

	for (size_t i = begin; i < end; i++)
	{
		GrnQueryOutcome *out = &r->outcomes[r->from + i];
		bool		wide = (r->from + i) % wide_every(r) == 0;

		for (uint32_t k = 0; k < GRN_CURVE_KS; k++)
			out->wanted[k] = ks[k] < r->round.nearest[i].n ? ks[k] : r->round.nearest[i].n;
		if (r->round.ids[i] != GRN_INVALID_ID)
			store->absent = grn_absent_begin(store, g->layout, g->codec, r->round.ids[i]);
		for (uint32_t point = 0; point < GRN_CURVE_POINTS && out->wanted[0] > 0; point++)
			/* wider searches find all rows that a narrow search finds */
			if (wide || point == 0 || out->hits[0][point - 1] < out->wanted[0])
				run_search(r, store, (uint32_t) i, point, out);
			else
				out->hits[0][point] = out->wanted[0];
		grn_absent_end(store, store->absent);
		store->absent = NULL;
	}
}

size_t
grn_recall_bytes(const GrnRecall *r, uint32_t n)
{
	GrnQueries	q;

	return grn_queries_place(&q, r->graph->metric->comparison, r->rows, n, r->parallel->nworkers, NULL);
}

void
grn_recall_measure(GrnRecall *r, uint32_t begin, uint32_t end, void *workspace)
{
	GrnQueries *q = &r->round;
	uint32_t	n = end - begin;

	(void) grn_queries_place(q, r->graph->metric->comparison, r->rows, n, r->parallel->nworkers, workspace);
	r->from = begin;
	for (uint32_t i = 0; i < n; i++)
	{
		q->ids[i] = r->ids[begin + i];
		r->load(r->arg, begin + i, q->floats + (size_t) i * r->rows->dim);
	}
	grn_queries_ready(q);
	r->read(r->arg, q);
	grn_queries_merge(q);
	r->parallel->run(r->parallel, n, 1, search_range, r);
}

/* ---- sums ---- */

double
grn_recall_chance(double recall, uint32_t queries)
{
	/*
	 * Rows near each other are missed together: the variance between queries is 1.7 to 2.4 times
	 * the variance of independent misses at recall .93 to .95, 1.3 to 1.6 times at .98, and 1.1
	 * times at .99 (test/bench/recall/results.md).
	 */
	double		together = 1 + fmin(16 * (1 - recall), 0.8);

	return sqrt(together * recall * (1 - recall) / (queries * (double) ks[0]));
}

/* The mean recall of the nearest ks[k] at a width by queries [0, n); *squares: the mean square. */
static double
mean_recall(const GrnRecall *r, uint32_t n, uint32_t k, uint32_t point, double *squares)
{
	uint32_t	asked = 0;
	double		sum = 0;

	*squares = 0;
	for (uint32_t i = 0; i < n; i += k == 0 ? 1 : wide_every(r), asked++)
	{
		const GrnQueryOutcome *out = &r->outcomes[i];
		double		recall = out->wanted[k] > 0 ? (double) out->hits[k][point] / out->wanted[k] : 0;

		sum += recall;
		*squares += recall * recall;
	}
	*squares /= asked;
	return sum / asked;
}

/*
 * The contrast at a width: of rows the mean.  Queries of scans may be of several kinds, and the
 * curve is of the mix, so only queries with less contrast than any of these need more than the
 * curve says.
 */
static float
typical_contrast(const GrnRecall *r, uint32_t n, uint32_t point)
{
	uint32_t	known = 0;
	double		sum = 0;
	float		least = INFINITY;

	for (uint32_t i = 0; i < n; i += wide_every(r))
	{
		float		contrast = r->outcomes[i].contrast[point];

		if (contrast > 0)
		{
			sum += log(contrast);
			least = fminf(least, contrast);
			known++;
		}
	}
	return known == 0 ? 0 : r->of_scans ? least : (float) exp(sum / known);
}

/*
 * The number of queries with the usual variance that would measure recall as precisely as these n.
 * Where some queries of scans miss all of their rows, the variance is up to ten times as large.
 */
static uint32_t
queries_worth(const GrnRecall *r, uint32_t n)
{
	double		worth = 0;
	int			points = 0;

	for (uint32_t i = 0; i < GRN_CURVE_POINTS; i++)
	{
		double		squares;
		double		recall = mean_recall(r, n, 0, i, &squares);
		double		variance = squares - recall * recall;

		if (recall < 1 && variance > 0)
		{
			worth += fmin(pow(grn_recall_chance(recall, 1), 2) / variance, 1);
			points++;
		}
	}
	return points == 0 ? n : (uint32_t) fmax(n * worth / points, 1);
}

void
grn_recall_sum_up(const GrnRecall *r, uint32_t n, GrnRecallCurve *curve, GrnContrast *contrast)
{
	memset(curve, 0, sizeof(*curve));
	memset(contrast, 0, sizeof(*contrast));
	if (n == 0)
		return;
	curve->queries = r->of_scans ? queries_worth(r, n) : n;
	for (uint32_t point = 0; point < GRN_CURVE_POINTS; point++)
	{
		uint64_t	visits = 0;
		uint32_t	wide = 0;
		double		squares;

		for (uint32_t i = 0; i < n; i += wide_every(r), wide++)
			visits += r->outcomes[i].visits[point];
		curve->visits[point] = (float) ((double) visits / wide);
		for (uint32_t k = 0; k < GRN_CURVE_KS; k++)
			curve->recall[k][point] = (float) mean_recall(r, n, k, point, &squares);
		contrast->at[point] = typical_contrast(r, n, point);
	}
}
