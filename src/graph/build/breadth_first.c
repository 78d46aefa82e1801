/*
 * breadth_first.c - breadth-first search from several vertices at once, level by level.
 *
 * While the search runs, label[] holds keys: the level of a vertex in the upper bits, the
 * number of its source in the lower ones.  A vertex gets the smallest key that any vertex of
 * the level before offers it, in whatever order they come.  Keys of earlier levels are
 * smaller still, so they never change.
 */
#include "graph/build/breadth_first.h"

#include "graph/build/frontier.h"

#define SOURCE_BITS 12			/* GRN_MAX_SOURCES */
/*
 * Past this level (only graphs like a long chain have so many) keys no longer grow, and
 * labels there may depend on timing; every vertex is reached all the same.
 */
#define MAX_LEVEL ((UINT32_C(1) << (32 - SOURCE_BITS)) - 2)
#define LABEL_GRAIN 65536

typedef struct Search
{
	GrnFrontier frontier;
	uint32_t   *keys;
	uint32_t	level;			/* of the vertices to be found */
} Search;

static void
level_range(void *arg, int worker, size_t begin, size_t end)
{
	Search	   *s = arg;
	GrnFrontier *f = &s->frontier;
	const GrnGraph *g = f->graph;
	GrnFoundBatch found;

	(void) worker;
	found.n = 0;
	for (size_t i = f->first + begin; i < f->first + end; i++)
	{
		uint32_t	v = f->queue[i];
		const uint32_t *ids = g->ids + (size_t) v * g->degree;
		uint32_t	key = (s->level << SOURCE_BITS) |
			(s->keys[v] & (GRN_MAX_SOURCES - 1));

		grn_frontier_prefetch(f, i, f->first + end);
		for (uint32_t j = 0; j < g->counts[v]; j++)
		{
			uint32_t   *at = &s->keys[ids[j]];
			uint32_t	old = __atomic_load_n(at, __ATOMIC_RELAXED);

			while (key < old)
				if (__atomic_compare_exchange_n(at, &old, key, true, __ATOMIC_RELAXED,
												__ATOMIC_RELAXED))
				{
					/* the thread that found it first queues it */
					if (old == GRN_INVALID_ID)
						grn_frontier_add(f, &found, ids[j]);
					break;
				}
		}
	}
	grn_frontier_flush(f, &found);
}

static void
clear_range(void *arg, int worker, size_t begin, size_t end)
{
	Search	   *s = arg;

	(void) worker;
	memset(s->keys + begin, 0xFF, (end - begin) * sizeof(uint32_t));
}

/* Keys become labels. */
static void
label_range(void *arg, int worker, size_t begin, size_t end)
{
	Search	   *s = arg;

	(void) worker;
	for (size_t v = begin; v < end; v++)
		if (s->keys[v] != GRN_INVALID_ID)
			s->keys[v] &= GRN_MAX_SOURCES - 1;
}

size_t
grn_breadth_first(const GrnGraph *graph, GrnParallel *parallel, const uint32_t *sources,
				  uint32_t nsources, uint32_t *label, uint32_t *queue)
{
	Search		s = {{graph, queue, 0, nsources}, label, 0};
	GrnFrontier *f = &s.frontier;

	grn_frontier_run(parallel, graph->n, LABEL_GRAIN, clear_range, &s);
	for (uint32_t i = 0; i < nsources; i++)
	{
		label[sources[i]] = i;
		queue[i] = sources[i];
	}
	while (f->first < f->tail)
	{
		size_t		last = f->tail;

		if (s.level < MAX_LEVEL)
			s.level++;
		grn_frontier_run(parallel, last - f->first, GRN_FRONTIER_GRAIN, level_range, &s);
		f->first = last;
	}
	grn_frontier_run(parallel, graph->n, LABEL_GRAIN, label_range, &s);
	return f->tail;
}
