/*
 * test_recall.c - recall as recall.c measures it, beside plain searches and comparisons: queries
 * that are no nodes, and nodes that are absent.
 */
#include "search_world.h"

#include "store/prune.h"
#include "store/recall.h"

#define NODES 40				/* nodes that are queries */

static World *world;
static GrnStore *store;
static const uint32_t widths[] = GRN_CURVE_WIDTHS;

static void
load(void *arg, uint32_t i, float *x)
{
	const GrnRecall *r = arg;

	memcpy(x, world_row(world, r->of_scans ? N + i : r->ids[i]), world->dim * sizeof(float));
}

static void
read_rows(void *arg, GrnQueries *q)
{
	float		scratch[64];

	for (uint32_t i = 0; i < N; i++)
		grn_queries_compare_row(q, 0, i, world_row(world, i), scratch);
}

static bool
takes_even(void *arg, uint32_t id)
{
	return id % 2 == 0;
}

static GrnRecall *
begin_recall(const GrnStoredGraph *g, GrnParallel *parallel, bool of_scans)
{
	GrnRecall  *r = calloc(1, sizeof(*r));

	*r = (GrnRecall) {.graph = g, .parallel = parallel, .rows = g->layout, .of_scans = of_scans,
					  .load = load, .read = read_rows, .arg = r};
	return r;
}

/* Measures in rounds of at most `most` queries. */
static void
measure(GrnRecall *r, uint32_t most, GrnRecallCurve *curve, GrnContrast *contrast)
{
	void	   *workspace = malloc(grn_recall_bytes(r, most));

	for (uint32_t i = 0; i < r->n; i += most)
		grn_recall_measure(r, i, i + most < r->n ? i + most : r->n, workspace);
	grn_recall_sum_up(r, r->n, curve, contrast);
	CHECK(world->blocks == 0 && store->absent == NULL, "%zu blocks left", world->blocks);
	free(workspace);
}

/* The recall of the k nearest by a search of width ef for node id, which is absent. */
static double
recall_of(const GrnStoredGraph *g, uint32_t id, uint32_t ef, uint32_t k)
{
	GrnSearchParams p = {.ef = ef, .ef_exact = ef, .wanted = 10};
	Near		near[N];
	GrnSearch  *s;
	uint32_t	n;
	uint32_t	hits = 0;

	for (uint32_t i = 0; i < N; i++)
		near[i] = (Near) {i == id ? INFINITY : between(world, id, i), i};
	qsort(near, N, sizeof(Near), by_distance);
	store->absent = grn_absent_begin(store, g->layout, g->codec, id);
	s = grn_search_graph(g, store, &p, world_row(world, id));
	n = grn_search_run(s);
	for (uint32_t i = 0; i < n && i < k; i++)
		hits += grn_search_found(s)[i].distance <= near[k - 1].distance * (1 + 1e-5f);
	grn_search_end(s);
	grn_absent_end(store, store->absent);
	store->absent = NULL;
	return (double) hits / k;
}

static void
curves_are_those_of_searches(void)
{
	for (int codes = 0; codes < 2; codes++)
	{
		uint32_t	entry = 0;
		GrnParallel parallel = {1, unit_run};
		GrnRecallCurve curve;
		GrnRecallCurve again;
		GrnContrast contrast;
		GrnStoredGraph g;
		GrnRecall  *r;

		world = make_world(GRN_L2, 24, GRN_FORM_F32, codes);
		store = &world->store;
		g = (GrnStoredGraph) {&world->layout, &world->codec, grn_metric(GRN_L2), &store, &entry, world->codes, world->factors, 1};
		/* queries of scans */
		r = begin_recall(&g, &parallel, true);
		for (r->n = 0; r->n < QUERIES; r->n++)
			r->ids[r->n] = GRN_INVALID_ID;
		measure(r, QUERIES, &curve, &contrast);
		CHECK(curve.queries > 0 && curve.queries <= QUERIES, "%u queries", curve.queries);
		for (int i = 0; i < GRN_CURVE_POINTS; i++)
		{
			double		visits;
			double		expected = recall(world, widths[i], &visits);

			CHECK(fabs(curve.recall[0][i] - expected) < 1e-6 && fabs(curve.visits[i] - visits) < 1e-3,
				  "width %u: %g by %g, expected %g by %g", widths[i], curve.recall[0][i], curve.visits[i], expected, visits);
		}
		free(r);
		/* nodes, no entry point, as many as there are */
		r = begin_recall(&g, &parallel, false);
		grn_recall_draw(r, 5, N, NODES, takes_even);
		CHECK(r->n == NODES, "%u nodes", r->n);
		for (uint32_t i = 0; i < r->n; i++)
			CHECK(r->ids[i] % 2 == 0 && r->ids[i] != entry && grn_find_id(r->ids, i, r->ids[i]) < 0, "query %u", r->ids[i]);
		measure(r, NODES, &curve, &contrast);
		CHECK(curve.queries == NODES, "%u queries", curve.queries);
		for (int i = 0; i < GRN_CURVE_POINTS; i++)
		{
			double		ten = 0;
			double		hundred = 0;
			uint32_t	wide = 0;

			for (uint32_t j = 0; j < NODES; j++)
			{
				double		all = recall_of(&g, r->ids[j], widths[i], 10);

				/* a query of few widths keeps what a narrower search has found */
				ten += i > 0 && j % 4 != 0 && r->outcomes[j].hits[0][i - 1] == 10 ? 1 : all;
				if (j % 4 == 0)
				{
					hundred += recall_of(&g, r->ids[j], widths[i], 100);
					wide++;
				}
			}
			CHECK(fabs(curve.recall[0][i] - ten / NODES) < 1e-6 && fabs(curve.recall[1][i] - hundred / wide) < 1e-6,
				  "width %u: %g and %g, expected %g and %g", widths[i], curve.recall[0][i], curve.recall[1][i],
				  ten / NODES, hundred / wide);
			CHECK(contrast.at[i] > 0 && contrast.at[i] < 10, "contrast %g", contrast.at[i]);
		}
		measure(r, 7, &again, &contrast);
		CHECK(memcmp(&curve, &again, sizeof(curve)) == 0, "rounds change the curve");
		/* nothing measured */
		grn_recall_sum_up(r, 0, &curve, &contrast);
		CHECK(curve.queries == 0, "%u queries", curve.queries);
		free(r);
		free_world(world);
	}
}

int
main(void)
{
	grn_dist_init();
	RUN(curves_are_those_of_searches);
	UNIT_END();
}
