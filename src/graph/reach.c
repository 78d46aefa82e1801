/*
 * reach.c - breadth-first search from one vertex, level by level, by all threads.
 *
 * The set of reached vertices has one bit for each vertex.  The set therefore fits the
 * processor's caches, which matters because every edge tests a vertex at a random place of the
 * set.
 */
#include "graph/graph.h"

#include <string.h>

#define GRAIN 256
#define BATCH 256				/* found vertices that a worker collects before an append */

typedef struct Reach
{
	const GrnGraph *graph;
	uint64_t   *reached;
	uint32_t   *queue;			/* [graph->n] vertices in the order of discovery */
	size_t		first;			/* start of the current level in queue */
	size_t		tail;			/* end of queue; threads reserve places by atomic additions */
} Reach;

/* Vertices that one worker has found and not yet appended to the queue. */
typedef struct Batch
{
	uint32_t	n;
	uint32_t	ids[BATCH];
} Batch;

static void
flush(Reach *r, Batch *batch)
{
	size_t		at = __atomic_fetch_add(&r->tail, batch->n, __ATOMIC_RELAXED);

	memcpy(r->queue + at, batch->ids, batch->n * sizeof(uint32_t));
	batch->n = 0;
}

static void
level_range(void *arg, int worker, size_t begin, size_t end)
{
	Reach	   *r = arg;
	const GrnGraph *g = r->graph;
	size_t		last = r->first + end;
	Batch		found;

	(void) worker;
	found.n = 0;
	for (size_t i = r->first + begin; i < last; i++)
	{
		uint32_t	v = r->queue[i];
		const uint32_t *ids = g->ids + (size_t) v * g->degree;

		if (i + 4 < last)
		{
			const uint32_t *ahead = g->ids + (size_t) r->queue[i + 4] * g->degree;

			__builtin_prefetch(ahead);
			__builtin_prefetch(ahead + 16);
		}
		for (uint32_t j = 0; j < g->counts[v]; j++)
			if (grn_reach_add(r->reached, ids[j]))
			{
				found.ids[found.n++] = ids[j];
				if (found.n == BATCH)
					flush(r, &found);
			}
	}
	flush(r, &found);
}

size_t
grn_reach(const GrnGraph *graph, GrnParallel *parallel, uint32_t entry, uint64_t *reached,
		  uint32_t *queue)
{
	Reach		r = {graph, reached, queue, 0, 1};

	grn_reach_add(reached, entry);
	queue[0] = entry;
	while (r.first < r.tail)
	{
		size_t		last = r.tail;

		if (parallel == NULL || last - r.first <= GRAIN)
			level_range(&r, 0, 0, last - r.first);
		else
			parallel->run(parallel, last - r.first, GRAIN, level_range, &r);
		r.first = last;
	}
	return r.tail;
}
