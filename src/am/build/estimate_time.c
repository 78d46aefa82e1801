/*
 * estimate_time.c - how long a build takes; see estimate_time.h.
 *
 * Each phase is affine in the number of rows: two samples say what is constant and what a row
 * costs.  Three are not.  On cores a row of a large graph costs more than one of a small
 * graph.  GPUs share the graph of a build in parts.  And recall is measured for a number of
 * queries that follows from the time.
 */
#include "am/build/estimate_time.h"

#include <math.h>

/*
 * On the processor a row of a large graph costs more than one of a small graph, since
 * less of it is in caches: by this power of their sizes' ratio, measured from 20,000
 * to 1,000,000 rows.
 */
#define CPU_GROWTH 0.15

/*
 * A graph in parts takes so many times what the whole takes on one GPU.  Of that the devices
 * share all but the host's part, which is copies: two take 1 / 1.7 to 1 / 1.8 of one's time,
 * four 1 / 2.9 to 1 / 3 (4,000,000 rows, test/bench/graph/limits.md).
 */
#define PARTS_COST 1.7
#define HOST_SHARE 0.13

/* Queries of recall, and the time that they may take (src/builder/pipeline_recall.c). */
#define LEAST_QUERIES 8
#define LEAST_QUERIES_GPU 64
#define MOST_QUERIES 400
#define RECALL_SHARE 0.04
#define RECALL_SECONDS 0.03		/* of one thread */
#define RECALL_SECONDS_GPU 0.1

GrnndSampleTimes
grnnd_sample_times(const GrnBuildResult *r, double waited)
{
	GrnndSampleTimes t = {.nodes = r->nodes, .prepare = r->sec_prepare, .graph = r->sec_descent,
		.finish = (double) r->sec_connect + r->sec_codes, .recall = r->sec_recall, .queries = r->curve.queries};

	t.rest = fmax(waited - t.prepare - t.graph - t.finish - t.recall, 0);
	return t;
}

/* What a row costs, if n rows cost y seconds; no more than if nothing were constant. */
static double
row_cost(double small_n, double small_y, double large_n, double large_y)
{
	double		cost = large_n > small_n ? (large_y - small_y) / (large_n - small_n) : 0;

	return fmin(fmax(cost, 0), large_y / large_n);
}

static double
affine(const GrnndSampleTimes *small, double small_y, const GrnndSampleTimes *large, double large_y,
	   double nodes, double growth)
{
	return large_y + (nodes - large->nodes) * growth * row_cost(small->nodes, small_y, large->nodes, large_y);
}

/* Recall's seconds, of a build that takes so many without them. */
static double
recall_seconds(const GrnndSampleTimes *small, const GrnndSampleTimes *large, const GrnndBuildSize *size,
			   double others)
{
	double		least = size->gpus > 0 ? LEAST_QUERIES_GPU : LEAST_QUERIES;
	double		room = fmax(RECALL_SHARE * others, size->gpus > 0 ? RECALL_SECONDS_GPU
							: RECALL_SECONDS / size->threads);
	double		each;

	if (small->queries == 0 || large->queries == 0)
		return 0;
	each = affine(small, small->recall / small->queries, large, large->recall / large->queries, size->nodes, 1);
	return each * fmin(fmax(room / fmax(each, 1e-9), least), MOST_QUERIES);
}

GrnndBuildTimes
grnnd_build_times(const GrnndSampleTimes *small, const GrnndSampleTimes *large, const GrnndBuildSize *size)
{
	double		nodes = size->nodes;
	double		growth = size->gpus > 0 ? 1 : pow(fmax(nodes / large->nodes, 1), CPU_GROWTH);
	GrnndBuildTimes t;

	t.graph = affine(small, small->graph, large, large->graph, nodes, growth);
	if (size->gpus > 0 && (size->parts || grn_parts_are_faster((int) size->gpus, (uint64_t) nodes)))
		t.graph *= PARTS_COST * (HOST_SHARE + (1 - HOST_SHARE) / size->gpus);
	t.all = t.graph + affine(small, small->prepare, large, large->prepare, nodes, 1) +
		affine(small, small->finish, large, large->finish, nodes, 1) + large->rest;
	t.recall = recall_seconds(small, large, size, t.all);
	t.all += t.recall;
	return t;
}
