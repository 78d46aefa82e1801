/*
 * graph.c - checks that a graph is sound.
 */
#include "graph/graph.h"

typedef struct Check
{
	const GrnGraph *graph;
	const char *bad;			/* any fault found */
	uint32_t	vertex;			/* its vertex */
} Check;

static const char *
check_vertices(const GrnGraph *graph, size_t begin, size_t end, uint32_t *bad_vertex)
{
	for (size_t v = begin; v < end; v++)
	{
		const uint32_t *ids = graph->ids + v * graph->degree;
		uint32_t	count = graph->counts[v];
		uint64_t	seen[8] = {0};	/* one bit for each hash: only ids with equal hashes are
									 * compared */

		*bad_vertex = (uint32_t) v;
		if (count > graph->degree)
			return "more neighbors than its degree allows";
		for (uint32_t i = 0; i < count; i++)
		{
			uint32_t	hash = ids[i] * 2654435769u >> 23;
			uint64_t	bit = UINT64_C(1) << hash % 64;

			if (ids[i] >= graph->n)
				return "a neighbor that does not exist";
			if (ids[i] == v)
				return "itself as a neighbor";
			if (seen[hash / 64] & bit)
				for (uint32_t j = 0; j < i; j++)
					if (ids[j] == ids[i])
						return "the same neighbor twice";
			seen[hash / 64] |= bit;
		}
	}
	return NULL;
}

static void
check_range(void *arg, int worker, size_t begin, size_t end)
{
	Check	   *check = arg;
	uint32_t	vertex;
	const char *bad = check_vertices(check->graph, begin, end, &vertex);

	(void) worker;
	if (bad && !__atomic_exchange_n(&check->bad, bad, __ATOMIC_RELAXED))
		check->vertex = vertex;
}

const char *
grn_graph_check(const GrnGraph *graph, GrnParallel *parallel, uint32_t *bad_vertex)
{
	Check		check = {.graph = graph};

	parallel->run(parallel, graph->n, GRN_GRAIN, check_range, &check);
	*bad_vertex = check.vertex;
	return check.bad;
}
