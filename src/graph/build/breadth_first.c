/*
 * breadth_first.c - breadth-first search from several vertices at once, level by level.
 *
 * While the search runs, label[] holds keys: the level of a vertex in the upper bits, the
 * number of its source in the lower ones.  A vertex gets the smallest key that any vertex of
 * the level before offers it, in whatever order they come.  Keys of earlier levels are
 * smaller still, so they never change.
 */
#include "graph/build/breadth_first.h"

#include <string.h>

#define SOURCE_BITS 12			/* GRN_MAX_SOURCES */
/*
 * Past this level (only graphs like a long chain have so many) keys no longer grow, and
 * labels there may depend on timing; every vertex is reached all the same.
 */
#define MAX_LEVEL ((UINT32_C(1) << (32 - SOURCE_BITS)) - 2)
#define GRAIN 256
#define BATCH 256				/* found vertices a worker keeps back */
#define LABEL_GRAIN 65536

typedef struct Reach
{
	const GrnGraph *graph;
	uint32_t   *keys;
	uint32_t   *queue;
	size_t		first;			/* of this level in queue */
	size_t		tail;			/* of queue, taken with atomic additions */
	uint32_t	level;			/* of the vertices to be found */
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
		uint32_t	key = (r->level << SOURCE_BITS) |
			(r->keys[v] & (GRN_MAX_SOURCES - 1));

		if (i + 4 < r->first + end)
		{
			const char *ahead = (const char *) (g->ids + (size_t) r->queue[i + 4] * g->degree);

			__builtin_prefetch(ahead);
			__builtin_prefetch(ahead + 64);
		}
		for (uint32_t j = 0; j < g->counts[v]; j++)
		{
			uint32_t   *at = &r->keys[ids[j]];
			uint32_t	old = __atomic_load_n(at, __ATOMIC_RELAXED);

			while (key < old)
				if (__atomic_compare_exchange_n(at, &old, key, true, __ATOMIC_RELAXED,
												__ATOMIC_RELAXED))
				{
					/* the thread that found it first queues it */
					if (old == GRN_INVALID_ID)
					{
						found[n++] = ids[j];
						if (n == BATCH)
						{
							flush(r, found, n);
							n = 0;
						}
					}
					break;
				}
		}
	}
	if (n > 0)
		flush(r, found, n);
}

/* Runs fn over n items, by all threads if there are any. */
static void
run(Reach *r, GrnParallel *parallel, size_t n, size_t grain, GrnRangeFn fn)
{
	if (parallel == NULL || n <= grain)
		fn(r, 0, 0, n);
	else
		parallel->run(parallel, n, grain, fn, r);
}

static void
clear_range(void *arg, int worker, size_t begin, size_t end)
{
	Reach	   *r = arg;

	(void) worker;
	memset(r->keys + begin, 0xFF, (end - begin) * sizeof(uint32_t));
}

/* Keys become labels. */
static void
label_range(void *arg, int worker, size_t begin, size_t end)
{
	Reach	   *r = arg;

	(void) worker;
	for (size_t v = begin; v < end; v++)
		if (r->keys[v] != GRN_INVALID_ID)
			r->keys[v] &= GRN_MAX_SOURCES - 1;
}

size_t
grn_breadth_first(const GrnGraph *graph, GrnParallel *parallel, const uint32_t *sources,
				  uint32_t nsources, uint32_t *label, uint32_t *queue)
{
	Reach		r = {graph, label, queue, 0, nsources, 0};

	run(&r, parallel, graph->n, LABEL_GRAIN, clear_range);
	for (uint32_t i = 0; i < nsources; i++)
	{
		label[sources[i]] = i;
		queue[i] = sources[i];
	}
	while (r.first < r.tail)
	{
		size_t		n = r.tail - r.first;
		size_t		last = r.tail;

		if (r.level < MAX_LEVEL)
			r.level++;
		run(&r, parallel, n, GRAIN, level_range);
		r.first = last;
	}
	run(&r, parallel, graph->n, LABEL_GRAIN, label_range);
	return r.tail;
}
