/*
 * test_value_graph.c - the graph of the rows that share a value, from the graph of all: whom it
 * lists, near which rows, and that it does not depend on threads.
 */
#include "graph/build/value_graph.h"
#include "search_world.h"

typedef struct Members
{
	World	   *w;
	GrnGraph	all;
	GrnRows		rows;
	uint8_t		numbers[N];
	GrnValues	values;
	uint32_t	members[N];
	uint32_t	ids[N * GRN_MEMBER_DEGREE];
	uint8_t		counts[N];
	GrnValueGraph g;
} Members;

/* Of N rows `share` in 100 have value 7, which is column 1's; others have 3. */
static Members *
make_members(GrnMetric metric, uint32_t share)
{
	Members    *m = calloc(1, sizeof(Members));
	static uint8_t numbers[N][2];

	m->w = make_world(metric, 32, GRN_FORM_F32, true);
	m->all = (GrnGraph) {m->w->graph[0], m->w->counts, N, DEGREE};
	m->rows = world_rows(m->w, NULL, N);
	m->values = (GrnValues) {numbers[0], 2};
	for (uint32_t i = 0; i < N; i++)
	{
		bool		has = grn_random(3, i, 0) % 100 < share;

		numbers[i][0] = (uint8_t) (i % 5);
		numbers[i][1] = has ? 7 : 3;
		if (has)
			m->members[m->g.graph.n++] = i;
	}
	m->g.all = &m->all;
	m->g.rows = &m->rows;
	m->g.values = &m->values;
	m->g.column = 1;
	m->g.members = m->members;
	m->g.codec = &m->w->codec;
	m->g.codes = m->w->codes;
	m->g.factors = m->w->factors;
	m->g.graph.ids = m->ids;
	m->g.graph.counts = m->counts;
	m->g.graph.degree = GRN_MEMBER_DEGREE;
	return m;
}

static void
free_members(Members *m)
{
	free_world(m->w);
	free(m);
}

/* Runs the pieces in another order, and says that there are four workers. */
static void
run_backwards(GrnParallel *self, size_t n, size_t grain, GrnRangeFn fn, void *arg)
{
	for (size_t i = (n + grain - 1) / grain; i-- > 0;)
		fn(arg, (int) (i % 4), i * grain, (i + 1) * grain < n ? (i + 1) * grain : n);
}

/* Members that are nearer to a member than another one is. */
static uint32_t
nearer(const Members *m, uint32_t member, uint32_t other)
{
	float		far = between(m->w, m->members[member], m->members[other]);
	uint32_t	n = 0;

	for (uint32_t i = 0; i < m->g.graph.n; i++)
		n += i != member && between(m->w, m->members[member], m->members[i]) < far;
	return n;
}

/* Lists begin with near members, and each member is in one. */
static void
test_lists(void)
{
	static const GrnMetric metrics[] = {GRN_L2, GRN_COSINE};
	static const uint32_t shares[] = {12, 25, 45};

	for (int i = 0; i < 6; i++)
	{
		Members    *m = make_members(metrics[i % 2], shares[i / 2]);
		GrnParallel parallel = {1, unit_run};
		uint32_t	n = m->g.graph.n;
		uint32_t	bad;
		uint32_t	nearest = 0;
		uint32_t	listed[N] = {0};
		uint32_t	unlisted = 0;

		grn_value_graph(&m->g, &parallel);
		CHECK(grn_graph_check(&m->g.graph, &bad) == NULL, "%s: %u", grn_graph_check(&m->g.graph, &bad), bad);
		for (uint32_t v = 0; v < n; v++)
		{
			const uint32_t *ids = m->ids + v * GRN_MEMBER_DEGREE;

			CHECK(m->counts[v] >= 1, "share %u: member %u has no neighbours", shares[i / 2], v);
			nearest += m->counts[v] > 0 && nearer(m, v, ids[0]) < 2;
			for (uint32_t j = 0; j < m->counts[v]; j++)
				listed[ids[j]]++;
		}
		for (uint32_t v = 0; v < n; v++)
			unlisted += listed[v] == 0;
		CHECK(nearest > 0.9 * n, "share %u: %u of %u have one of the two nearest first", shares[i / 2], nearest, n);
		CHECK(unlisted == 0, "share %u: %u of %u are in no list", shares[i / 2], unlisted, n);
		free_members(m);
	}
}

static void
test_threads_change_nothing(void)
{
	Members    *m = make_members(GRN_L2, 30);
	GrnParallel one = {1, unit_run};
	GrnParallel four = {4, run_backwards};
	size_t		bytes = m->g.graph.n * GRN_MEMBER_DEGREE * sizeof(uint32_t);
	uint32_t   *ids = malloc(bytes);
	uint8_t    *counts = malloc(m->g.graph.n);

	grn_value_graph(&m->g, &one);
	memcpy(ids, m->ids, bytes);
	memcpy(counts, m->counts, m->g.graph.n);
	memset(m->ids, 1, bytes);
	grn_value_graph(&m->g, &four);
	CHECK(m->g.graph.n > 400 && memcmp(m->counts, counts, m->g.graph.n) == 0 && memcmp(m->ids, ids, bytes) == 0,
		  "lists differ");
	free(ids);
	free(counts);
	free_members(m);
}

/* No members, members that have no neighbours in the graph of all, and lists that are all full. */
static void
test_odd_graphs(void)
{
	Members    *m = make_members(GRN_L2, 30);
	GrnParallel parallel = {1, unit_run};
	uint32_t	n = m->g.graph.n;
	uint32_t	bad;

	m->g.graph.n = 0;
	grn_value_graph(&m->g, &parallel);
	m->g.graph.n = n;
	memset(m->w->counts, 0, sizeof(m->w->counts));
	grn_value_graph(&m->g, &parallel);
	for (uint32_t v = 0; v < n; v++)
		CHECK(m->counts[v] == 0, "%u neighbours", m->counts[v]);

	/* every list has as many as there may be, and the same ones */
	m->all = (GrnGraph) {calloc(N * GRN_MAX_DEGREE, sizeof(uint32_t)), malloc(N), N, GRN_MAX_DEGREE};
	memset(m->all.counts, GRN_MAX_DEGREE, N);
	for (uint32_t v = 0; v < N; v++)
		for (uint32_t j = 0; j < GRN_MAX_DEGREE; j++)
			m->all.ids[v * GRN_MAX_DEGREE + j] = m->members[(v / 7 * 5 + j) % n];
	grn_value_graph(&m->g, &parallel);
	CHECK(grn_graph_check(&m->g.graph, &bad) == NULL, "%u", bad);
	free(m->all.ids);
	free(m->all.counts);
	free_members(m);
}

int
main(void)
{
	RUN(test_lists);
	RUN(test_threads_change_nothing);
	RUN(test_odd_graphs);
	UNIT_END();
}
