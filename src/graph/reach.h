/*
 * reach.h - finds the vertices that an entry reaches.
 */
#ifndef GRN_REACH_H
#define GRN_REACH_H

#include "graph/graph.h"

/* Words of a set of n vertices, one bit for each vertex. */
#define GRN_REACH_WORDS(n) (((size_t) (n) + 63) / 64)

static inline bool
grn_is_reached(const uint64_t *reached, uint32_t v)
{
	return __atomic_load_n(&reached[v / 64], __ATOMIC_RELAXED) >> v % 64 & 1;
}

/* Adds v.  Returns false if the set has v already.  Several threads may add vertices at once. */
static inline bool
grn_reach_add(uint64_t *reached, uint32_t v)
{
	uint64_t	bit = UINT64_C(1) << v % 64;

	return !grn_is_reached(reached, v) &&
		!(__atomic_fetch_or(&reached[v / 64], bit, __ATOMIC_RELAXED) & bit);
}

/*
 * Adds to reached [GRN_REACH_WORDS(n)] the entry, which the set must not have, and all vertices
 * that the entry reaches by vertices outside the set.  Returns their number.  queue: [n].
 * parallel may be NULL.
 */
extern size_t grn_reach(const GrnGraph *graph, GrnParallel *parallel, uint32_t entry,
						uint64_t *reached, uint32_t *queue);

#endif							/* GRN_REACH_H */
