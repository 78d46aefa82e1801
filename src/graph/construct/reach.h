/*
 * reach.h - which vertices of a graph an entry reaches.
 */
#ifndef GRN_REACH_H
#define GRN_REACH_H

#include "graph/construct/graph.h"

/* Words of a set of n vertices, a bit each. */
#define GRN_REACH_WORDS(n) (((size_t) (n) + 63) / 64)

static inline bool
grn_is_reached(const uint64_t *reached, uint32_t v)
{
	return __atomic_load_n(&reached[v / 64], __ATOMIC_RELAXED) >> v % 64 & 1;
}

/* Adds v; false where it was there already.  Threads may do so at once. */
static inline bool
grn_reach_add(uint64_t *reached, uint32_t v)
{
	uint64_t	bit = UINT64_C(1) << v % 64;

	return !grn_is_reached(reached, v) &&
		!(__atomic_fetch_or(&reached[v / 64], bit, __ATOMIC_RELAXED) & bit);
}

/*
 * Fills reached [GRN_REACH_WORDS(n)] with what entry reaches, itself included; returns how
 * many.  queue: [n].  parallel may be NULL.
 */
extern size_t grn_reach(const GrnGraph *graph, GrnParallel *parallel, uint32_t entry,
						uint64_t *reached, uint32_t *queue);

#endif							/* GRN_REACH_H */
