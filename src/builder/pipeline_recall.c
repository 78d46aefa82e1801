/*
 * pipeline_recall.c - measures the recall of the finished graph (store/recall.c) with a sample of
 * rows as queries.  The index keeps the resulting curve.
 *
 * The true nearest rows of a query come from a comparison with all rows.  Searches read records in
 * the form in which the leader will write them, and scans order the found rows by exact distances,
 * so distances are those of rows.
 *
 * The measurement takes a share of the processor time that the build has used so far.  The number
 * of queries follows from the time of the first queries.  Processor time is used instead of elapsed
 * time, because on a busy machine elapsed time would make the number of queries random.
 *
 * If memory does not hold the rows, a single round measures, because each round of queries reads
 * all rows anew.
 */
#include "builder/pipeline_impl.h"

#include <string.h>

#include "store/recall.h"

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
 * queries, 50 and 210.  After a build on a GPU, which leaves the processor little to have a share
 * of, each thread has as much.  20,000 sentences and 16 threads: all 400 queries in .4 s of all
 * threads, also with .1 and .2; with a fifteenth 128.
 */
#define LEAST_SECONDS 0.03

typedef struct Measure
{
	GrnRecall	recall;
	GrnRecords	records;
	GrnLayout	rows;			/* of the build's rows */
	GrnQueries *now;			/* the queries of the round in work */
} Measure;

/* GrnRecall.load() */
static void
load(void *arg, uint32_t i, float *x)
{
	const Measure *m = arg;
	const GrnRows *rows = &m->records.p->rows;

	memmove(x, grn_row_query(rows, grn_records_row(&m->records, m->recall.ids[i]), x), rows->dim * sizeof(float));
}

/* A GrnRangeFn over vertices: compares them with all queries of the round. */
static void
compare_range(void *arg, int worker, size_t begin, size_t end)
{
	Measure    *m = arg;
	const GrnPipeline *p = m->records.p;
	float		scratch[GRN_MOST_DIMS];

	if (p->rows.on_disk)
		grn_prefetch_rows(&p->rows, begin, end);
	for (size_t v = begin; v < end; v++)
		grn_queries_compare_row(m->now, worker, p->position[v], grn_row(&p->rows, v), scratch);
}

/* GrnRecall.read().  Searches then read rows at random. */
static void
read_rows(void *arg, GrnQueries *q)
{
	Measure    *m = arg;
	const GrnPipeline *p = m->records.p;

	m->now = q;
	grn_pipeline_sample_rows(p, false);
	p->parallel->run(p->parallel, p->graph.n, GRN_GRAIN, compare_range, m);
	grn_pipeline_sample_rows(p, true);
}

/* GrnRecall.distance() */
static float
distance(void *arg, const GrnQueries *q, uint32_t i, uint32_t id)
{
	return grn_queries_compare(q, i, grn_records_row(&((const Measure *) arg)->records, id));
}

/*
 * Measures `first` queries, and then further rounds while processor time is left in the budget.
 * Each round at most doubles the number of queries.  budget: processor seconds.  Returns the number
 * of measured queries.
 */
static uint32_t
measure_rounds(GrnRecall *r, uint32_t first, double budget, void *workspace)
{
	double		begun = grn_processor_seconds();
	uint32_t	n = 0;

	for (uint32_t next = first < r->n ? first : r->n; next > n;)
	{
		double		spent;
		double		room;

		grn_recall_measure(r, n, next, workspace);
		n = next;
		spent = grn_processor_seconds() - begun;
		room = spent > 0 ? (budget / spent - 1) * n : n;
		next = n + (uint32_t) (room < 0 ? 0 : room > n ? n : room);
		if (next > r->n)
			next = r->n;
	}
	return n;
}

/* Draws queries and measures.  Nothing is measured if memory is short. */
static void
measure(Measure *m, GrnPipeline *p, uint32_t first, double budget)
{
	GrnBuildResult *result = p->result;
	GrnRecall  *r = &m->recall;
	void	   *workspace;

	m->rows = (GrnLayout) {.form = p->rows.form, .dim = p->rows.dim};
	r->graph = &m->records.graph;
	r->parallel = p->parallel;
	r->rows = &m->rows;
	r->load = load;
	r->read = read_rows;
	r->distance = distance;
	r->arg = m;
	grn_recall_draw(r, result->params.seed, result->nodes,
					result->nodes / 4 < GRN_MOST_QUERIES ? result->nodes / 4 : GRN_MOST_QUERIES, NULL);
	workspace = grn_alloc(grn_recall_bytes(r, r->n));
	if (workspace != NULL)
		grn_recall_sum_up(r, measure_rounds(r, first, budget, workspace), &result->curve, &result->contrast);
	grn_pipeline_sample_rows(p, false);
	grn_free(workspace);
}

void
grn_pipeline_measure_recall(GrnPipeline *p)
{
	GrnBuildResult *r = p->result;
	double		least = LEAST_SECONDS * (r->on_gpu ? p->parallel->nworkers : 1);
	double		budget = (grn_processor_seconds() - p->processor_before) * SHARE;
	bool		many = r->on_gpu || r->nodes >= MANY_NODES || p->rows.on_disk;
	Measure    *m = grn_alloc_zeroed(1, sizeof(*m));

	memset(&r->curve, 0, sizeof(r->curve));
	memset(&r->contrast, 0, sizeof(r->contrast));
	if (m == NULL)
		return;
	if (grn_records_begin(&m->records, p))
		measure(m, p, many ? FIRST_QUERIES_MANY : FIRST_QUERIES,
				p->rows.on_disk ? 0 : budget > least ? budget : least);
	grn_records_end(&m->records);
	grn_free(m);
}
