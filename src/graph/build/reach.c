/*
 * reach.c - breadth-first search from one vertex, level by level, by all threads.
 *
 * The set of vertices reached has a bit for each, so that it stays in the processor's caches
 * where labels would not: every edge asks it about a vertex that lies anywhere.
 */
#include "graph/build/reach.h"

#include <string.h>

#define GRAIN 256
#define BATCH 256				/* found vertices a worker keeps back */

typedef struct Reach
{
	const GrnGraph *graph;
	uint64_t   *reached;
	uint32_t   *queue;
	size_t		first;			/* of this level in queue */
	size_t		tail;			/* of queue, taken with atomic additions */
} Reach;

static void
flush(Reach *r, const uint32_t *found, uint32_t n)
{
	size_t		at = __atomic_fetch_add(&r->tail, n, __ATOMIC_RELAXED);

	memcpy(r->queue + at, found, n * sizeof(uint32_t));
}

static void
level_range(void *arg, int worker, size_t begin, size_t end)
{
	Reach	   *r = arg;
	const GrnGraph *g = r->graph;
	uint32_t	found[BATCH];
	uint32_t	n = 0;

	(void) worker;
	for (size_t i = r->first + begin; i < r->first + end; i++)
	{
		uint32_t	v = r->queue[i];
		const uint32_t *ids = g->ids + (size_t) v * g->degree;

		if (i + 4 < r->first + end)
		{
			const char *ahead = (const char *) (g->ids + (size_t) r->queue[i + 4] * g->degree);

			__builtin_prefetch(ahead);
			__builtin_prefetch(ahead + 64);
		}
		for (uint32_t j = 0; j < g->counts[v]; j++)
			if (grn_reach_add(r->reached, ids[j]))
			{
				found[n++] = ids[j];
				if (n == BATCH)
				{
					flush(r, found, n);
					n = 0;
				}
			}
	}
	flush(r, found, n);
}

size_t
grn_reach(const GrnGraph *graph, GrnParallel *parallel, uint32_t entry, uint64_t *reached,
		  uint32_t *queue)
{
	Reach		r = {graph, reached, queue, 0, 1};

	memset(reached, 0, GRN_REACH_WORDS(graph->n) * sizeof(*reached));
	grn_reach_add(reached, entry);
	queue[0] = entry;
	while (r.first < r.tail)
	{
		size_t		n = r.tail - r.first;
		size_t		last = r.tail;

		if (parallel == NULL || n <= GRAIN)
			level_range(&r, 0, 0, n);
		else
			parallel->run(parallel, n, GRAIN, level_range, &r);
		r.first = last;
	}
	return r.tail;
}
