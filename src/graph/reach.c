/*
 * reach.c - finds the vertices that the entry reaches.
 */
#include "graph/graph.h"

#include <string.h>

static inline bool
is_reached(const uint64_t *reached, uint32_t v)
{
	return reached[v / 64] >> v % 64 & 1;
}

/*
 * A breadth-first search.  The set has one bit for each vertex, and so fits the processor's caches,
 * which matters because every edge tests a vertex at a random place of the set.
 */
size_t
grn_reach(const GrnGraph *graph, uint32_t entry, uint64_t *reached, uint32_t *queue)
{
	size_t		tail = 1;		/* end of the vertices in the order of discovery */

	reached[entry / 64] |= UINT64_C(1) << entry % 64;
	queue[0] = entry;
	for (size_t i = 0; i < tail; i++)
	{
		uint32_t	v = queue[i];
		const uint32_t *ids = graph->ids + (size_t) v * graph->degree;

		if (i + 4 < tail)
		{
			const uint32_t *ahead = graph->ids + (size_t) queue[i + 4] * graph->degree;

			__builtin_prefetch(ahead);
			__builtin_prefetch(ahead + 16);
		}
		for (uint32_t j = 0; j < graph->counts[v]; j++)
			if (!is_reached(reached, ids[j]))
			{
				reached[ids[j] / 64] |= UINT64_C(1) << ids[j] % 64;
				queue[tail++] = ids[j];
			}
	}
	return tail;
}

size_t
grn_reach_bytes(size_t n)
{
	return GRN_REACH_WORDS(n) * sizeof(uint64_t) + n * sizeof(uint32_t);
}

size_t
grn_reachable(const GrnGraph *graph, uint32_t entry, void *workspace)
{
	uint64_t   *reached = workspace;

	if (graph->n == 0)
		return 0;
	memset(reached, 0, GRN_REACH_WORDS(graph->n) * sizeof(*reached));
	return grn_reach(graph, entry, reached, (uint32_t *) (reached + GRN_REACH_WORDS(graph->n)));
}
