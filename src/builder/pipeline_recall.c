/*
 * pipeline_recall.c - measures the recall of the finished graph at several widths of search, with a
 * sample of rows as queries.  The index keeps the resulting curve.
 *
 * The true nearest rows of a query come from a comparison with all rows.  Searches read records in
 * the form in which the leader will write them, without the query's own node (absent.c), because
 * the queries of applications have no node either.
 *
 * The measurement takes a share of the processor time that the build has used so far.  The number
 * of queries follows from the time of the first queries.  Processor time is used instead of elapsed
 * time, because on a busy machine elapsed time would make the number of queries random.
 *
 * If memory does not hold the rows, a single round measures, because each round of queries reads
 * all rows anew.
 */
#include "builder/pipeline_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "builder/prepare.h"
#include "store/prune.h"
#include "store/search.h"

/* Queries measured in any case.  10,000 sentences and Gaussian rows: as many after 4 and 16. */
#define FIRST_QUERIES 8
/*
 * Queries measured in any case after a build on a GPU, which is too short for a share of its time,
 * in a table of many rows, and of rows on a disk.
 */
#define FIRST_QUERIES_MANY 128
#define MANY_NODES 250000
/* Share of the processor seconds of the build.  10,000 sentences: 57 queries, 30 and 125. */
#define SHARE 0.04
/*
 * Minimum budget in seconds: small tables can afford more than the share.  4,000 image patches: 100
 * queries, 50 and 210.
 */
#define LEAST_SECONDS 0.03
#define LEAST_SECONDS_GPU 0.1	/* minimum budget in seconds for each thread of a host with a GPU */
/*
 * Every fourth query runs at all widths, for the nearest 100 and for the number of visits.  The
 * other queries end at the width that finds the nearest 10, because wide searches take most of the
 * time.  10,000 sentences: 57 queries, 42 with half, 71 with twice, 28 if all are wide.
 */
#define WIDE_EVERY 4

static const uint32_t widths[GRN_CURVE_POINTS] = GRN_CURVE_WIDTHS;
static const uint32_t ks[GRN_CURVE_KS] = GRN_CURVE_K;

/* The number of nearest rows that a query has found, by k and width. */
typedef struct Hits
{
	uint32_t	n[GRN_CURVE_KS][GRN_CURVE_POINTS];
} Hits;

typedef struct QueryOutcome
{
	uint32_t	visits[GRN_CURVE_POINTS];
	float		contrast[GRN_CURVE_POINTS];
	Hits		hits;
} QueryOutcome;

typedef struct Measure
{
	GrnPipeline *p;
	GrnRecords	records;
	uint32_t	nqueries;
	uint32_t	queries[GRN_MOST_QUERIES];	/* nodes */
	QueryOutcome outcomes[GRN_MOST_QUERIES];
	/* the round of queries in work */
	uint32_t	from;			/* first query of the round */
	uint32_t	n;
	GrnQueries	now;			/* the n queries of the round */
	bool		failed;			/* memory was short */
} Measure;

/* ---- true nearest rows ---- */

/* A GrnRangeFn over vertices: compares them with all queries. */
static void
find_range(void *arg, int worker, size_t begin, size_t end)
{
	Measure    *m = arg;
	const GrnPipeline *p = m->p;
	float		scratch[GRN_MOST_DIMS];

	if (p->rows.on_disk)
		grn_prefetch_rows(&p->rows, begin, end);
	for (size_t v = begin; v < end; v++)
		grn_queries_compare_row(&m->now, worker, m->queries + m->from, p->position[v], grn_row(&p->rows, v), scratch);
}

/* ---- searches ---- */

static int
by_value(const void *a, const void *b)
{
	float		x = *(const float *) a;
	float		y = *(const float *) b;

	return x < y ? -1 : x > y;
}

/*
 * Searches for query i with `ef` candidates.  Returns the number of rows found.  *distances
 * receives their sorted distances; the caller must free the array.
 */
static uint32_t
run_search(const Measure *m, GrnStore *store, uint32_t i, uint32_t ef, float **distances, uint32_t *visits)
{
	const GrnPipeline *p = m->p;
	const GrnRecords *r = &m->records;
	bool		codes = r->layout.code_bytes > 0;
	GrnSearchParams params = {.layout = &r->layout, .codec = codes ? &p->codec : NULL,
		.metric = p->metric, .ef = ef * grn_metric_beam(p->metric), .ef_exact = ef, .wanted = (uint32_t) ks[0]};
	GrnSearch  *s = grn_search_begin(&params, store, m->now.floats + (size_t) i * p->rows.dim);
	const GrnFound *found;
	uint32_t	n;

	grn_search_entries(s, p->result->entries, r->entry_codes, r->entry_factors, p->result->nentries);
	n = grn_search_run(s);
	found = grn_search_found(s);
	*distances = store->alloc(store, n * sizeof(float));
	/* Scans order the found rows by exact distances. */
	for (uint32_t f = 0; f < n; f++)
		(*distances)[f] = grn_queries_compare(&m->now, i, grn_records_row(r, found[f].id));
	qsort(*distances, n, sizeof(float), by_value);
	*visits = (uint32_t) grn_search_visits(s);
	grn_search_end(s);
	return n;
}

/*
 * Counts how many of the nearest rows are among the n sorted distances that a search at width
 * number `point` has found.
 */
static void
count_hits(const GrnLeast *nearest, const float *distances, uint32_t n, uint32_t point, Hits *hits)
{
	for (uint32_t k = 0; k < GRN_CURVE_KS; k++)
	{
		uint32_t	wanted = ks[k] < nearest->n ? ks[k] : nearest->n;

		hits->n[k][point] = 0;
		for (uint32_t f = 0; f < n && f < wanted; f++)
			hits->n[k][point] += distances[f] <= nearest->d[wanted - 1];
	}
}

/* Whether the search at a width has found all of the ten nearest rows. */
static bool
all_found(const GrnLeast *nearest, uint32_t point, const Hits *hits)
{
	return hits->n[0][point] == (ks[0] < nearest->n ? ks[0] : nearest->n);
}

/* Counts the ten nearest rows as found, without a search. */
static void
count_all(const GrnLeast *nearest, uint32_t point, Hits *hits)
{
	hits->n[0][point] = ks[0] < nearest->n ? ks[0] : nearest->n;
}

/*
 * Runs query i at all widths.  Unless `wide`, stops at the width that finds the ten nearest rows.
 */
static void
search_all_widths(const Measure *m, GrnStore *store, uint32_t i, bool wide, QueryOutcome *out)
{
	const GrnLeast *nearest = &m->now.nearest[i];
	float	   *distances;
	uint32_t	n;

	for (uint32_t point = 0; point < GRN_CURVE_POINTS; point++)
	{
		n = run_search(m, store, i, widths[point], &distances, &out->visits[point]);
		out->contrast[point] = n < widths[point] ? 0
			: grn_contrast(distances[widths[point] / GRN_CONTRAST_PART - 1], distances[widths[point] - 1]);
		count_hits(nearest, distances, n, point, &out->hits);
		grn_free(distances);
		/* Wider searches find these rows, too. */
		if (!wide && all_found(nearest, point, &out->hits))
		{
			for (uint32_t p2 = point + 1; p2 < GRN_CURVE_POINTS; p2++)
				count_all(nearest, p2, &out->hits);
			break;
		}
	}
}

/* A GrnRangeFn over the queries of the round. */
static void
search_range(void *arg, int worker, size_t begin, size_t end)
{
	Measure    *m = arg;
	GrnRecordStore *s = (GrnRecordStore *) m->records.stores[worker];

	for (size_t i = begin; i < end; i++)
	{
		s->absent = grn_absent_begin(&s->base, &m->records.layout, &m->p->codec, m->queries[m->from + i]);
		search_all_widths(m, &s->base, (uint32_t) i, (m->from + i) % WIDE_EVERY == 0, &m->outcomes[m->from + i]);
		grn_absent_end(&s->base, s->absent);
		s->absent = NULL;
	}
}

static bool
make_queries(Measure *m)
{
	const void *rows[GRN_MOST_QUERIES];

	for (uint32_t i = 0; i < m->n; i++)
		rows[i] = grn_records_row(&m->records, m->queries[m->from + i]);
	return grn_queries_make(&m->now, m->p->metric->comparison, &m->p->rows, rows, m->n,
							m->p->parallel->nworkers);
}

/* Measures queries [begin, end). */
static void
measure_round(Measure *m, uint32_t begin, uint32_t end)
{
	GrnParallel *parallel = m->p->parallel;

	m->from = begin;
	m->n = end - begin;
	m->failed = !make_queries(m);
	if (!m->failed)
	{
		parallel->run(parallel, m->p->graph.n, GRN_GRAIN, find_range, m);
		grn_queries_merge(&m->now);
		grn_pipeline_sample_rows(m->p, true);
		parallel->run(parallel, m->n, m->n / (2 * parallel->nworkers) + 1, search_range, m);
		grn_pipeline_sample_rows(m->p, false);
	}
	grn_queries_free(&m->now);
}

/*
 * Draws different nodes as queries.  Entry points are not drawn, because a search without an entry
 * point begins elsewhere.
 */
static void
draw_queries(Measure *m)
{
	const GrnBuildResult *r = m->p->result;
	uint32_t	want = r->nodes / 4 < GRN_MOST_QUERIES ? r->nodes / 4 : GRN_MOST_QUERIES;

	for (uint64_t i = 0; m->nqueries < want && i < 16 * GRN_MOST_QUERIES; i++)
	{
		uint32_t	node = (uint32_t) (grn_random(r->params.seed, 0x7265636C, i) % r->nodes);

		if (grn_find_id(r->entries, r->nentries, node) < 0 &&
			grn_find_id(m->queries, m->nqueries, node) < 0)
			m->queries[m->nqueries++] = node;
	}
}

/* The mean share of the nearest ks[k] rows that queries [0, n) miss at a width. */
static double
mean_missed(const Measure *m, uint32_t n, uint32_t k, uint32_t point)
{
	uint32_t	others = m->p->result->nodes - 1;
	uint32_t	step = k == 1 ? WIDE_EVERY : 1;
	uint32_t	asked = 0;
	double		sum = 0;

	for (uint32_t i = 0; i < n; i += step, asked++)
	{
		const Hits *hits = &m->outcomes[i].hits;

		sum += 1 - (double) hits->n[k][point] / (ks[k] < others ? ks[k] : others);
	}
	return sum / asked;
}

static void
sum_up(const Measure *m, uint32_t n, GrnRecallCurve *curve, GrnContrast *contrast)
{
	curve->queries = n;
	for (uint32_t point = 0; point < GRN_CURVE_POINTS; point++)
	{
		uint64_t	visits = 0;
		uint32_t	wide = 0;
		uint32_t	known = 0;
		double		sum = 0;

		for (uint32_t i = 0; i < n; i += WIDE_EVERY, wide++)
		{
			visits += m->outcomes[i].visits[point];
			if (m->outcomes[i].contrast[point] > 0)
			{
				sum += log(m->outcomes[i].contrast[point]);
				known++;
			}
		}
		contrast->at[point] = known > 0 ? (float) exp(sum / known) : 0;
		curve->visits[point] = (float) ((double) visits / wide);
		for (uint32_t k = 0; k < GRN_CURVE_KS; k++)
			curve->recall[k][point] = (float) (1 - mean_missed(m, n, k, point));
	}
}

/*
 * Measures `first` queries, and then further rounds while processor time is left in the budget.
 * Each round at most doubles the number of queries.  budget: processor seconds.  Returns the number
 * of measured queries.
 */
static uint32_t
measure_rounds(Measure *m, uint32_t first, double budget)
{
	double		begun = grn_processor_seconds();
	uint32_t	n = 0;

	draw_queries(m);
	for (uint32_t next = first < m->nqueries ? first : m->nqueries; next > n && !m->failed;)
	{
		double		spent;
		double		room;

		measure_round(m, n, next);
		n = next;
		spent = grn_processor_seconds() - begun;
		room = spent > 0 ? (budget / spent - 1) * n : n;
		next = n + (uint32_t) (room < 0 ? 0 : room > n ? n : room);
		if (next > m->nqueries)
			next = m->nqueries;
	}
	return n;
}

void
grn_pipeline_measure_recall(GrnPipeline *p)
{
	GrnBuildResult *r = p->result;
	double		least = r->on_gpu ? LEAST_SECONDS_GPU * p->parallel->nworkers : LEAST_SECONDS;
	double		budget = (grn_processor_seconds() - p->processor_before) * SHARE;
	bool		many = r->on_gpu || r->nodes >= MANY_NODES || p->rows.on_disk;
	uint32_t	n;
	Measure    *m = grn_alloc_zeroed(1, sizeof(*m));

	memset(&r->curve, 0, sizeof(r->curve));
	memset(&r->contrast, 0, sizeof(r->contrast));
	if (m == NULL)
		return;
	m->p = p;
	if (grn_records_begin(&m->records, p))
	{
		n = measure_rounds(m, many ? FIRST_QUERIES_MANY : FIRST_QUERIES,
						   p->rows.on_disk ? 0 : budget > least ? budget : least);
		if (n > 0 && !m->failed)
			sum_up(m, n, &r->curve, &r->contrast);
	}
	grn_records_end(&m->records);
	grn_free(m);
}
