/*
 * frontier.h - the queue of a breadth-first search (reach.c): vertices in the order of
 * discovery, level by level.  All threads append to the queue.
 */
#ifndef GRN_FRONTIER_H
#define GRN_FRONTIER_H

#include "graph/construct/graph.h"

#include <string.h>

#define GRN_FRONTIER_GRAIN 256
#define GRN_FRONTIER_BATCH 256	/* found vertices that a worker collects before an append */

typedef struct GrnFrontier
{
	const GrnGraph *graph;
	uint32_t   *queue;			/* [graph->n] */
	size_t		first;			/* start of the current level in queue */
	size_t		tail;			/* end of queue; threads reserve places by atomic additions */
} GrnFrontier;

/* Vertices that one worker has found and not yet appended to the queue. */
typedef struct GrnFoundBatch
{
	uint32_t	n;
	uint32_t	ids[GRN_FRONTIER_BATCH];
} GrnFoundBatch;

static inline void
grn_frontier_flush(GrnFrontier *f, GrnFoundBatch *batch)
{
	size_t		at = __atomic_fetch_add(&f->tail, batch->n, __ATOMIC_RELAXED);

	memcpy(f->queue + at, batch->ids, batch->n * sizeof(uint32_t));
	batch->n = 0;
}

static inline void
grn_frontier_add(GrnFrontier *f, GrnFoundBatch *batch, uint32_t v)
{
	batch->ids[batch->n++] = v;
	if (batch->n == GRN_FRONTIER_BATCH)
		grn_frontier_flush(f, batch);
}

/* Prefetches the list of a later vertex.  i and end are indices of the queue. */
static inline void
grn_frontier_prefetch(const GrnFrontier *f, size_t i, size_t end)
{
	const char *ahead;

	if (i + 4 >= end)
		return;
	ahead = (const char *) (f->graph->ids + (size_t) f->queue[i + 4] * f->graph->degree);
	__builtin_prefetch(ahead);
	__builtin_prefetch(ahead + 64);
}

/* Runs fn over n items, with all threads if parallel is not NULL. */
static inline void
grn_frontier_run(GrnParallel *parallel, size_t n, size_t grain, GrnRangeFn fn, void *arg)
{
	if (parallel == NULL || n <= grain)
		fn(arg, 0, 0, n);
	else
		parallel->run(parallel, n, grain, fn, arg);
}

#endif							/* GRN_FRONTIER_H */
