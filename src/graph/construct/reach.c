/*
 * reach.c - breadth-first search from one vertex, level by level, by all threads.
 *
 * The set of reached vertices has one bit for each vertex.  The set therefore fits the
 * processor's caches, which matters because every edge tests a vertex at a random place of the
 * set.
 */
#include "graph/construct/reach.h"

#include "graph/construct/frontier.h"

typedef struct Reach
{
	GrnFrontier frontier;
	uint64_t   *reached;
} Reach;

static void
level_range(void *arg, int worker, size_t begin, size_t end)
{
	Reach	   *r = arg;
	GrnFrontier *f = &r->frontier;
	const GrnGraph *g = f->graph;
	GrnFoundBatch found;

	(void) worker;
	found.n = 0;
	for (size_t i = f->first + begin; i < f->first + end; i++)
	{
		uint32_t	v = f->queue[i];
		const uint32_t *ids = g->ids + (size_t) v * g->degree;

		grn_frontier_prefetch(f, i, f->first + end);
		for (uint32_t j = 0; j < g->counts[v]; j++)
			if (grn_reach_add(r->reached, ids[j]))
				grn_frontier_add(f, &found, ids[j]);
	}
	grn_frontier_flush(f, &found);
}

size_t
grn_reach(const GrnGraph *graph, GrnParallel *parallel, uint32_t entry, uint64_t *reached,
		  uint32_t *queue)
{
	Reach		r = {{graph, queue, 0, 1}, reached};
	GrnFrontier *f = &r.frontier;

	memset(reached, 0, GRN_REACH_WORDS(graph->n) * sizeof(*reached));
	grn_reach_add(reached, entry);
	queue[0] = entry;
	while (f->first < f->tail)
	{
		size_t		last = f->tail;

		grn_frontier_run(parallel, last - f->first, GRN_FRONTIER_GRAIN, level_range, &r);
		f->first = last;
	}
	return f->tail;
}
