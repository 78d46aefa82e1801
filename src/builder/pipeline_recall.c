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
 * With many rows, a comparison with all rows is slow.  Then most queries are only compared with the
 * result of a very wide search, and a few queries are compared with both.  The few show the
 * difference in recall between the two truths, and the estimate is the mean of the many plus this
 * difference.  The estimate has little more variance than if every query had been compared with all
 * rows: the method is control variates (Owen, Monte Carlo theory, 8.9).
 *
 * If memory does not hold the rows, the queries are chosen before codes are made.  The loop that
 * reads rows to encode them also compares the rows with the queries.  The number of queries is the
 * number after a build on a GPU.
 */
#include "builder/pipeline_impl.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "builder/prepare.h"
#include "store/prune.h"
#include "store/search.h"

#define FIRST_QUERIES 8			/* queries measured in any case */
/*
 * Queries measured in any case after a build on a GPU, which is too short for a share of its time,
 * and in a table of many rows.  Each round of queries reads all rows anew, and for a million rows
 * this reading takes as long as ten queries.
 */
#define FIRST_QUERIES_MANY 64
#define ROWS 4096				/* rows that a thread compares with all queries at a time */
#define SHARE 0.04				/* share of the processor seconds of the build */
#define LEAST_SECONDS 0.03		/* minimum budget in seconds: small tables can afford more than the
								 * share */
#define LEAST_SECONDS_GPU 0.1	/* minimum budget in seconds for each thread of a host with a GPU */
/*
 * Every fourth query runs at all widths, for the nearest 100 and for the number of visits.  The
 * other queries end at the width that finds the nearest 10, because wide searches take most of the
 * time.
 */
#define WIDE_EVERY 4
#define DEAD_LIMIT 64

/*
 * From this number of nodes on, a comparison of a query with all rows takes longer than the query's
 * searches at all widths and at WIDEST.
 */
#ifdef GRNND_TEST_POINTS
#define MANY_NODES 10000		/* small enough for test builds */
#else
#define MANY_NODES 250000
#endif
#define WIDEST 640
static const uint32_t widths[GRN_CURVE_POINTS] = GRN_CURVE_WIDTHS;
static const uint32_t ks[GRN_CURVE_KS] = GRN_CURVE_K;

/* The number of nearest rows that a query has found, by k and width. */
typedef struct Hits
{
	uint32_t	n[GRN_CURVE_KS][GRN_CURVE_POINTS];
	bool		first[GRN_CURVE_POINTS];	/* the nearest row is found */
} Hits;

typedef struct QueryOutcome
{
	uint32_t	visits[GRN_CURVE_POINTS];
	float		contrast[GRN_CURVE_POINTS];
	Hits		of_all;			/* by comparison with all rows, if the query is compared with all
								 * rows */
	Hits		of_widest;		/* by comparison with the widest search, if a widest search is made */
} QueryOutcome;

typedef struct GrnTruth
{
	GrnPipeline *p;
	GrnRecords	records;
	uint32_t	nqueries;
	uint32_t	ncompared;		/* number of queries, from the first, that are compared with all
								 * rows */
	bool		many;			/* at least MANY_NODES nodes: only some queries are compared with
								 * all rows */
	uint32_t	queries[GRN_MOST_QUERIES];	/* nodes; vertices until the result is written */
	QueryOutcome outcomes[GRN_MOST_QUERIES];
	/* the round of queries in work */
	uint32_t	from;			/* first query of the round */
	uint32_t	n;
	GrnQueries	now;			/* the n queries of the round */
	bool		failed;			/* memory was short */
} GrnTruth;

typedef GrnTruth Measure;

/* ---- true nearest rows ---- */

/*
 * A GrnRangeFn over nodes, or over vertices before the result is written: compares them with all
 * queries.
 */
static void
find_range(void *arg, int worker, size_t begin, size_t end)
{
	Measure    *m = arg;
	float		scratch[GRN_MOST_DIMS];

	for (size_t v = begin; v < end; v++)
		grn_queries_compare_row(&m->now, worker, m->queries + m->from, (uint32_t) v, grn_records_row(&m->records, (uint32_t) v),
								scratch);
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
	uint32_t	beam = codes && !grn_codes_exact(&p->codec) && p->metric->surrogate_beam > 1
		? p->metric->surrogate_beam : 1;
	GrnSearchParams params = {.layout = &r->layout, .codec = codes ? &p->codec : NULL,
		.metric = p->metric, .ef = ef * beam, .ef_exact = ef, .wanted = (uint32_t) ks[0], .dead_limit = DEAD_LIMIT};
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
	hits->first[point] = nearest->n == 0 || (n > 0 && distances[0] <= nearest->d[0]);
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
	hits->first[point] = true;
}

/*
 * Runs query i at all widths.  Unless `wide`, stops at the width that finds the ten nearest rows.
 */
static void
search_all_widths(const Measure *m, GrnStore *store, uint32_t i, bool wide, QueryOutcome *out)
{
	const GrnLeast *nearest = &m->now.nearest[i];
	GrnLeast	widest = {0};
	float	   *distances;
	uint32_t	n;

	if (m->many)
	{
		n = run_search(m, store, i, WIDEST, &distances, &out->visits[0]);
		widest.n = n < GRN_CURVE_MOST_K ? n : GRN_CURVE_MOST_K;
		memcpy(widest.d, distances, widest.n * sizeof(float));
		grn_free(distances);
	}
	for (uint32_t point = 0; point < GRN_CURVE_POINTS; point++)
	{
		n = run_search(m, store, i, widths[point], &distances, &out->visits[point]);
		out->contrast[point] = n < widths[point] ? 0
			: grn_contrast(distances[widths[point] / GRN_CONTRAST_PART - 1], distances[widths[point] - 1]);
		count_hits(nearest, distances, n, point, &out->of_all);
		count_hits(&widest, distances, n, point, &out->of_widest);
		grn_free(distances);
		/* Wider searches find these rows, too. */
		if (!wide && all_found(nearest->n > 0 ? nearest : &widest, point,
							   nearest->n > 0 ? &out->of_all : &out->of_widest))
		{
			for (uint32_t p2 = point + 1; p2 < GRN_CURVE_POINTS; p2++)
			{
				count_all(nearest, p2, &out->of_all);
				count_all(&widest, p2, &out->of_widest);
			}
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

static void
search_all(Measure *m)
{
	grn_queries_merge(&m->now);
	m->p->parallel->run(m->p->parallel, m->n, m->n / (2 * m->p->parallel->nworkers) + 1,
						search_range, m);
}

/* Measures queries [begin, end).  compared: compares the queries with all rows. */
static void
measure_round(Measure *m, uint32_t begin, uint32_t end, bool compared)
{
	m->from = begin;
	m->n = end - begin;
	if (m->n > 0 && make_queries(m))
	{
		if (compared)
		{
			m->p->parallel->run(m->p->parallel, m->p->result->nodes, ROWS, find_range, m);
			m->ncompared = end;
		}
		search_all(m);
	}
	else
		m->failed = true;
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

/*
 * The mean share of the nearest ks[k] rows that queries [0, n) miss at a width.  k = GRN_CURVE_KS:
 * the share of queries that miss the nearest row.
 */
static double
mean_missed(const Measure *m, bool of_all, uint32_t n, uint32_t k, uint32_t point)
{
	uint32_t	others = m->p->result->nodes - 1;
	uint32_t	step = k == 1 ? WIDE_EVERY : 1;
	uint32_t	asked = 0;
	double		sum = 0;

	for (uint32_t i = 0; i < n; i += step, asked++)
	{
		const Hits *hits = of_all ? &m->outcomes[i].of_all : &m->outcomes[i].of_widest;

		sum += k == GRN_CURVE_KS ? !hits->first[point]
			: 1 - (double) hits->n[k][point] / (ks[k] < others ? ks[k] : others);
	}
	return sum / asked;
}

/*
 * Estimates the same share for n queries, some of which may not be compared with all rows (control
 * variates).
 */
static double
estimate_missed(const Measure *m, uint32_t n, uint32_t k, uint32_t point)
{
	double		share = mean_missed(m, true, m->ncompared, k, point);

	if (n > m->ncompared)
		share += mean_missed(m, false, n, k, point) - mean_missed(m, false, m->ncompared, k, point);
	return share < 0 ? 0 : share > 1 ? 1 : share;
}

/* The negated number of the ten nearest rows that query i finds, summed over all widths. */
static double
missed_in_all(const Measure *m, bool of_all, uint32_t i)
{
	const Hits *hits = of_all ? &m->outcomes[i].of_all : &m->outcomes[i].of_widest;
	double		sum = 0;

	for (uint32_t point = 0; point < GRN_CURVE_POINTS; point++)
		sum -= hits->n[0][point];
	return sum;
}

/*
 * Returns the number of fully compared queries whose means would have the same variance as our
 * estimate.  The function uses the variances of missed rows: by all rows, by the widest search, and
 * of the difference of both.
 */
static uint32_t
queries_worth(const Measure *m, uint32_t n)
{
	double		sum[3] = {0};
	double		squares[3] = {0};
	double		variance[3];
	double		ours;

	if (n == m->ncompared)
		return n;
	for (uint32_t i = 0; i < n; i++)
	{
		double		of_widest = missed_in_all(m, false, i);
		double		of_all = i < m->ncompared ? missed_in_all(m, true, i) : 0;
		double		x[3] = {of_all, of_widest, of_all - of_widest};

		for (int j = 0; j < 3; j++)
			if (j == 1 || i < m->ncompared)
			{
				sum[j] += x[j];
				squares[j] += x[j] * x[j];
			}
	}
	for (int j = 0; j < 3; j++)
	{
		uint32_t	of = j == 1 ? n : m->ncompared;

		variance[j] = squares[j] / of - sum[j] / of * (sum[j] / of);
	}
	ours = variance[1] / n + variance[2] / m->ncompared;
	if (ours * n <= variance[0])
		return n;
	return ours * m->ncompared >= variance[0] ? m->ncompared : (uint32_t) (variance[0] / ours);
}

static void
sum_up(const Measure *m, uint32_t n, GrnRecallCurve *curve, GrnMisses *misses, GrnContrast *contrast)
{
	curve->queries = queries_worth(m, n);
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
			curve->recall[k][point] = (float) (1 - estimate_missed(m, n, k, point));
		/*
		 * The least width keeps as many candidates as k, so any wrong candidate is a miss.  This
		 * width says nothing about the ratio of misses.
		 */
		if (widths[point] > ks[0])
		{
			misses->first += (float) (curve->queries * estimate_missed(m, n, GRN_CURVE_KS, point));
			misses->ten += (float) (curve->queries * estimate_missed(m, n, 0, point));
		}
	}
}

/*
 * Makes the state of a measurement, without the result's arrays.  Returns NULL if memory is short.
 */
static Measure *
make_measure(GrnPipeline *p)
{
	Measure    *m = grn_alloc_zeroed(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	m->p = p;
	m->records.p = p;
	return m;
}

void
grn_pipeline_choose_queries(GrnPipeline *p)
{
	Measure    *m;

	if (p->truth != NULL || p->build->spec->skip_recall || (m = make_measure(p)) == NULL)
		return;
	draw_queries(m);
	m->n = m->nqueries < FIRST_QUERIES_MANY ? m->nqueries : FIRST_QUERIES_MANY;
	p->truth = m;
	if (m->n == 0 || !make_queries(m))
		grn_pipeline_forget_queries(p);
}

void
grn_pipeline_forget_queries(GrnPipeline *p)
{
	if (p->truth == NULL)
		return;
	grn_queries_free(&p->truth->now);
	grn_free(p->truth);
	p->truth = NULL;
}

void
grn_pipeline_compare_range(GrnPipeline *p, int worker, size_t begin, size_t end)
{
	find_range(p->truth, worker, begin, end);
}

/*
 * Measures queries [n, first), and then further rounds while processor time is left in the budget.
 * Each round at most doubles the number of queries.  budget: processor seconds.  Returns the number
 * of measured queries.
 */
static uint32_t
measure_rounds(Measure *m, uint32_t n, uint32_t first, double budget, bool compared)
{
	double		begun = grn_processor_seconds();
	uint32_t	before = n;

	for (uint32_t next = first < m->nqueries ? first : m->nqueries;
		 next > n && !m->failed;)
	{
		double		spent;
		double		room;

		measure_round(m, n, next, compared);
		n = next;
		spent = grn_processor_seconds() - begun;
		room = spent > 0 ? (budget / spent - 1) * (n - before) : n;
		next = n + (uint32_t) (room < 0 ? 0 : room > n ? n : room);
		if (next > m->nqueries)
			next = m->nqueries;
	}
	return n;
}

/* Measures queries within the budget.  Returns their number. */
static uint32_t
measure_for(Measure *m, uint32_t first, double budget)
{
	uint32_t	n;

	draw_queries(m);
	m->many = m->p->result->nodes >= MANY_NODES;
	if (!m->many)
		return measure_rounds(m, 0, first, budget, true);
	n = measure_rounds(m, 0, FIRST_QUERIES_MANY, 0, true);
	/* For a million sentences on 16 cores: about 200 queries, and .3 s in all. */
	return measure_rounds(m, n, 2 * n, budget / 2, false);
}

/*
 * Searches for the queries that the loop over rows has compared with all rows.  Returns their
 * number.
 */
static uint32_t
measure_compared(Measure *m)
{
	for (uint32_t i = 0; i < m->n; i++)
		m->queries[i] = m->p->position[m->queries[i]];
	grn_pipeline_sample_rows(m->p, true);
	search_all(m);
	grn_pipeline_sample_rows(m->p, false);
	grn_queries_free(&m->now);
	m->ncompared = m->n;
	return m->n;
}

void
grn_pipeline_measure_recall(GrnPipeline *p, double before)
{
	GrnBuildResult *r = p->result;
	double		least = r->on_gpu ? LEAST_SECONDS_GPU * p->parallel->nworkers : LEAST_SECONDS;
	double		budget = (grn_processor_seconds() - before) * SHARE;
	double		since = grn_seconds();
	uint32_t	n;
	Measure    *m = p->truth ? p->truth : make_measure(p);

	memset(&r->curve, 0, sizeof(r->curve));
	memset(&r->misses, 0, sizeof(r->misses));
	memset(&r->contrast, 0, sizeof(r->contrast));
	if (m == NULL || !grn_records_begin(&m->records, p))
	{
		if (m != NULL)
			grn_records_end(&m->records);
		grn_free(m);
		p->truth = NULL;
		return;
	}
	n = p->truth ? measure_compared(m)
		: measure_for(m, r->on_gpu ? FIRST_QUERIES_MANY : FIRST_QUERIES, budget > least ? budget : least);
	if (n > 0 && !m->failed)
		sum_up(m, n, &r->curve, &r->misses, &r->contrast);
	grn_records_end(&m->records);
	grn_free(m);
	p->truth = NULL;
	r->sec_recall = (float) (grn_seconds() - since);
}
