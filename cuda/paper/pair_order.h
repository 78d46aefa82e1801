/*
 * pair_order.h - the orders in which the paper's kernels compare the pairs of a pool.
 * The file is plain C because both the kernels and the reference in the tests include it.
 *
 * The pairs of k slots have numbers below k (k - 1) / 2: (1,0), (2,0), (2,1), (3,0), ...
 */
#ifndef GRN_PAIR_ORDER_H
#define GRN_PAIR_ORDER_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define GRN_BOTH_SIDES __host__ __device__
#else
#define GRN_BOTH_SIDES
#endif

/* Bits that the numbers 0 to count - 1 need; at least one. */
GRN_BOTH_SIDES static inline uint32_t
grn_pair_bits(uint32_t count)
{
	uint32_t bits = 1;

	while (bits < 32 && count > 1u << bits)
		bits++;
	return bits;
}

/*
 * Returns the image of x under a random permutation of the numbers of `bits` bits.  The
 * permutation needs no memory: each step multiplies by an odd factor, adds a number, and
 * folds the upper half onto the lower.  Each of these operations is invertible.  If the
 * number of pairs is not a power of two, the caller skips images beyond the last pair;
 * the remaining images are a permutation of the pairs.
 */
GRN_BOTH_SIDES static inline uint32_t
grn_pair_permuted(uint32_t x, uint32_t bits, uint64_t factors, uint64_t terms)
{
	uint32_t mask = (1u << bits) - 1;
	uint32_t shift = (bits + 1) / 2;

	for (int step = 0; step < 4; step++)
	{
		x = (x * ((uint32_t) (factors >> 16 * step) | 1u) +
			 (uint32_t) (terms >> 16 * step)) &
			mask;
		x ^= x >> shift;
	}
	return x;
}

/* Returns the slots *i > *j of the pair with a number. */
GRN_BOTH_SIDES static inline void
grn_pair_slots(uint32_t number, uint32_t *i, uint32_t *j)
{
	uint32_t row = (uint32_t) ((1.0f + sqrtf(1.0f + 8.0f * (float) number)) / 2);

	while (row * (row - 1) / 2 > number)
		row--;
	while ((row + 1) * row / 2 <= number)
		row++;
	*i = row;
	*j = number - row * (row - 1) / 2;
}

#endif /* GRN_PAIR_ORDER_H */
