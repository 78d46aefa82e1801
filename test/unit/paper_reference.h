/*
 * paper_reference.h - Algorithms 4 and 6 of the GRNND paper and its reverse edges, in plain
 * C, line by line: what the kernels of cuda/paper/kernels.cu are tested against.
 *
 * Of neighbors at equal distances the one of the smaller id counts as nearer, so that a
 * pool that overflows holds the same whatever the order in which it was filled.
 */
#ifndef PAPER_REFERENCE_H
#define PAPER_REFERENCE_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/paper/pair_order.h"
#include "space/grn.h"

#define REF_MOST 128			/* entries of a pool */
#define REF_GONE UINT32_MAX		/* the paper's bottom: an entry that was redirected */

typedef struct RefPool
{
	uint32_t	count;
	uint32_t	again;			/* offers of ids that it held already */
	uint32_t	id[REF_MOST];
} RefPool;

/* What is the same in all calls. */
typedef struct Ref
{
	const float *rows;			/* [n][dim] */
	uint32_t	n;
	uint32_t	dim;
	uint32_t	r;				/* R */
	int			order;			/* GrnPairOrder */
	uint32_t	pairs;			/* pairs of a pool and round; 0: all */
	uint64_t	seed;
} Ref;

/* The square of what Algorithm 5 returns: distances are only compared. */
static inline double
ref_distance(const Ref *ref, uint32_t i, uint32_t j)
{
	const float *a = ref->rows + (size_t) i * ref->dim;
	const float *b = ref->rows + (size_t) j * ref->dim;
	double		sum = 0;

	for (uint32_t d = 0; d < ref->dim; d++)
		sum += ((double) a[d] - b[d]) * ((double) a[d] - b[d]);
	return sum;
}

/* Whether i is nearer to v than j is. */
static inline bool
ref_nearer(const Ref *ref, uint32_t v, uint32_t i, uint32_t j)
{
	double		a = ref_distance(ref, v, i);
	double		b = ref_distance(ref, v, j);

	return a < b || (a == b && i < j);
}

/* Algorithm 6: WARP_INSERT(far, pool), the pool being that of `close`. */
static inline void
ref_insert(const Ref *ref, uint32_t far, uint32_t close, RefPool *pool)
{
	uint32_t	worst = 0;

	/* step 1: deduplication */
	for (uint32_t i = 0; i < pool->count; i++)
		if (pool->id[i] == far)
		{
			pool->again++;
			return;
		}
	/* step 2: direct insertion if the pool is not full */
	if (pool->count < ref->r)
	{
		pool->id[pool->count++] = far;
		return;
	}
	/* step 3: else replace the farthest neighbor if closer */
	for (uint32_t i = 1; i < pool->count; i++)
		if (ref_nearer(ref, close, pool->id[worst], pool->id[i]))
			worst = i;
	if (ref_nearer(ref, close, far, pool->id[worst]))
		pool->id[worst] = far;
}

/* Sorts a pool of v, the nearest first. */
static inline void
ref_sort(const Ref *ref, uint32_t v, RefPool *pool)
{
	for (uint32_t i = 1; i < pool->count; i++)
		for (uint32_t j = i; j > 0 && ref_nearer(ref, v, pool->id[j], pool->id[j - 1]); j--)
		{
			uint32_t	id = pool->id[j];

			pool->id[j] = pool->id[j - 1];
			pool->id[j - 1] = id;
		}
}

/* Algorithm 4 for one vertex: reads its pool1, writes pool2 [n]. */
static inline void
ref_update_vertex(const Ref *ref, uint32_t v, const RefPool *pool1, RefPool *pool2, uint32_t round)
{
	RefPool		pool = *pool1;
	uint32_t	possible = pool.count * (pool.count - 1) / 2;
	uint32_t	bits = grn_pair_bits(possible);
	uint32_t	left = ref->pairs ? ref->pairs : possible;
	uint64_t	stream = ((uint64_t) round << 32 | v) + 1000;
	bool		disordered = ref->order == 0;

	if (!disordered)
		ref_sort(ref, v, &pool);
	/* line 3: for pairs (n_i, n_j) of pool1[v], of which no one is gone */
	for (uint32_t at = 0; pool.count > 1 && at < (disordered ? 1u << bits : possible) && left > 0; at++)
	{
		uint32_t	number = !disordered ? at :
			grn_pair_permuted(at, bits, grn_random(ref->seed, stream, 0), grn_random(ref->seed, stream, 1));
		uint32_t	i;
		uint32_t	j;

		if (number >= possible)
			continue;
		grn_pair_slots(ref->order == 2 ? possible - 1 - number : number, &i, &j);
		if (pool.id[i] == REF_GONE || pool.id[j] == REF_GONE)
			continue;
		left--;
		/* line 6, the closer and the farther of them */
		bool		i_close = ref_nearer(ref, v, pool.id[i], pool.id[j]);
		uint32_t	close = i_close ? i : j;
		uint32_t	far = i_close ? j : i;

		/* lines 4 and 5 */
		if (ref_distance(ref, pool.id[i], pool.id[j]) < ref_distance(ref, v, pool.id[far]))
		{
			/* lines 7 and 8 */
			ref_insert(ref, pool.id[far], pool.id[close], &pool2[pool.id[close]]);
			pool.id[far] = REF_GONE;
		}
	}
	/* lines 12 to 16: what is left goes into the vertex's own pool2 */
	for (uint32_t i = 0; i < pool.count; i++)
		if (pool.id[i] != REF_GONE)
			ref_insert(ref, pool.id[i], v, &pool2[v]);
}

/* Algorithm 4: one round of all vertices; pool1, pool2 [n]. */
static inline void
ref_update(const Ref *ref, const RefPool *pool1, RefPool *pool2, uint32_t round)
{
	for (uint32_t v = 0; v < ref->n; v++)
		pool2[v].count = pool2[v].again = 0;
	for (uint32_t v = 0; v < ref->n; v++)
		ref_update_vertex(ref, v, &pool1[v], pool2, round);
}

/* Section 3.6: reverse edges for rho of each pool, by its slots or the nearest. */
static inline void
ref_reverse(const Ref *ref, const RefPool *from, RefPool *to, float rho, bool nearest)
{
	memcpy(to, from, sizeof(RefPool) * ref->n);
	for (uint32_t v = 0; v < ref->n; v++)
	{
		RefPool		pool = from[v];

		if (nearest)
			ref_sort(ref, v, &pool);
		for (uint32_t i = 0; i < pool.count && i < (uint32_t) ceilf(rho * (float) pool.count); i++)
			ref_insert(ref, v, pool.id[i], &to[pool.id[i]]);
	}
}

#endif							/* PAPER_REFERENCE_H */
