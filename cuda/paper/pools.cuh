/*
 * pools.cuh - the pools of the paper's kernels: entries, WARP_INSERT (Algorithm 6), and
 * copies of pools in shared memory.
 *
 * Entries are 64-bit words, and kernels write entries only by atomic operations.  A pool
 * that overflows keeps the nearest of all offered entries, in whatever order the entries
 * arrive.  Two warps that insert one id into one pool at the same time may each miss the
 * other warp's entry.  A reader of the pool therefore drops repeated ids.
 */
#ifndef GRN_PAPER_POOLS_CUH
#define GRN_PAPER_POOLS_CUH

#include "cuda/common.cuh"
#include "cuda/paper/paper.h"

/* An entry of a pool: bits of the distance << 32 | id << 1 | 1 if the entry is old. */
__device__ inline Key
make_entry(float distance, uint32_t id)
{
	return make_key(__float_as_uint(distance), id << 1);
}

__device__ inline uint32_t
entry_id(Key entry)
{
	return (uint32_t) entry >> 1;
}

__device__ inline bool
entry_old(Key entry)
{
	return entry & 1;
}

__device__ inline float
entry_distance(Key entry)
{
	return __uint_as_float((uint32_t) (entry >> 32));
}

/* Algorithm 5: returns the squared distance of two rows to every lane. */
__device__ inline float
warp_distance(const float *d_rows, uint32_t dim, uint32_t i, uint32_t j, int lane)
{
	const float *d_a = d_rows + (size_t) i * dim, *d_b = d_rows + (size_t) j * dim;
	float		 sum = 0;

	for (uint32_t d = lane; d < dim; d += WARP)
	{
		float x = d_a[d] - d_b[d];

		sum = fmaf(x, x, sum);
	}
	for (int offset = 16; offset > 0; offset /= 2)
		sum += __shfl_xor_sync(FULL, sum, offset);
	return sum;
}

__device__ inline Key
read_entry(const Key *d_entry)
{
	return *(const volatile Key *) d_entry;
}

__device__ inline void
write_entry(Key *d_entry, Key entry)
{
	atomicExch((unsigned long long *) d_entry, (unsigned long long) entry);
}

/*
 * Algorithm 6: inserts an entry into a pool, d_pool [r].  If another warp changes the
 * pool at the same time, the function reads the pool again.
 */
__device__ inline void
warp_insert(Key *d_pool, uint32_t *d_count, uint32_t r, Key mine, int lane)
{
	for (;;)
	{
		Key		 farthest = 0;
		uint32_t slot_of_farthest = 0;
		bool	 present = false, has_free = false;

		for (uint32_t i = lane; i < r; i += WARP)
		{
			Key entry = read_entry(&d_pool[i]);

			if (entry == EMPTY_KEY)
				has_free = true;
			else
			{
				present |= entry_id(entry) == entry_id(mine);
				if (entry >= farthest)
					farthest = entry, slot_of_farthest = i;
			}
		}
		/* Step 1: return if the pool has the id already. */
		if (__any_sync(FULL, present))
			return;
		/* Step 2: if a slot is free, fill the slot. */
		if (__any_sync(FULL, has_free))
		{
			uint32_t slot = r;

			if (lane == 0 && *(volatile uint32_t *) d_count < r)
			{
				slot = atomicAdd(d_count, 1u);
				if (slot < r)
					write_entry(&d_pool[slot], mine);
			}
			if (__shfl_sync(FULL, slot, 0) < r)
				return;
			continue; /* Another warp has taken the last slot and is about to fill it. */
		}
		/* Step 3: replace the farthest entry if the new entry is nearer. */
		Key most = farthest;

		for (int offset = 16; offset > 0; offset /= 2)
			most = max(most, __shfl_xor_sync(FULL, most, offset));
		if (mine >= most)
			return;
		bool done = false;

		if (lane == __ffs(__ballot_sync(FULL, farthest == most)) - 1)
			done =
				atomicCAS((unsigned long long *) &d_pool[slot_of_farthest],
						  (unsigned long long) most, (unsigned long long) mine) == most;
		if (__any_sync(FULL, done))
			return;
	}
}

/*
 * Inserts up to W entries of each lane into a pool.  The result is the same as from a
 * call of warp_insert() for each entry.  All ids must differ.  A lane with fewer than W
 * entries has EMPTY_KEY in the remaining places.
 */
template <int W>
__device__ inline void
warp_insert_all(Key *d_pool, uint32_t *d_count, uint32_t r, Key (&mine)[W], int lane)
{
	uint32_t below = (1u << lane) - 1, count = 0, slot = 0, first;

	for (uint32_t base = 0; base < r; base += WARP)
	{
		Key		 entry = base + lane < r ? read_entry(&d_pool[base + lane]) : EMPTY_KEY;
		uint32_t left = __ballot_sync(FULL, entry != EMPTY_KEY);

		for (; left != 0; left &= left - 1)
		{
			Key other = __shfl_sync(FULL, entry, __ffs(left) - 1);

#pragma unroll
			for (int w = 0; w < W; w++)
				if (mine[w] != EMPTY_KEY && entry_id(mine[w]) == entry_id(other))
					mine[w] = EMPTY_KEY;
		}
	}
#pragma unroll
	for (int w = 0; w < W; w++)
		count += __popc(__ballot_sync(FULL, mine[w] != EMPTY_KEY));
	if (lane == 0)
		slot = atomicAdd(d_count, count);
	first = __shfl_sync(FULL, slot, 0);
#pragma unroll
	for (int w = 0; w < W; w++)
	{
		uint32_t mask = __ballot_sync(FULL, mine[w] != EMPTY_KEY);

		slot = first + __popc(mask & below);
		if (mine[w] != EMPTY_KEY && slot < r)
		{
			write_entry(&d_pool[slot], mine[w]);
			mine[w] = EMPTY_KEY;
		}
		first += __popc(mask);
	}
#pragma unroll
	for (int w = 0; w < W; w++)
		for (uint32_t left = __ballot_sync(FULL, mine[w] != EMPTY_KEY); left != 0;
			 left &= left - 1)
			warp_insert(d_pool, d_count, r, __shfl_sync(FULL, mine[w], __ffs(left) - 1),
						lane);
}

/* Copies the pool of v, count entries, to shared memory. */
__device__ inline void
load_entries(const Key *d_pool, uint32_t v, uint32_t r, uint32_t count, Key *s_entry,
			 int lane)
{
	for (uint32_t i = lane; i < count; i += WARP)
		s_entry[i] = d_pool[(size_t) v * r + i];
	__syncwarp();
}

/* Sorts count <= W * WARP entries, nearest first. */
template <int W = GRN_PAPER_MOST_R / WARP>
__device__ inline void
sort_entries(Key *s_entry, uint32_t count, int lane)
{
	Key		 mine[W];
	uint32_t position[W] = {};

#pragma unroll
	for (int w = 0; w < W; w++)
		mine[w] = lane + WARP * w < count ? s_entry[lane + WARP * w] : EMPTY_KEY;
	for (uint32_t i = 0; i < count; i++)
	{
		Key other = s_entry[i];

#pragma unroll
		for (int w = 0; w < W; w++)
			position[w] += other < mine[w];
	}
	__syncwarp();
#pragma unroll
	for (int w = 0; w < W; w++)
		if (lane + WARP * w < count)
			s_entry[position[w]] = mine[w];
	__syncwarp();
}

/* Drops entries whose id is in an earlier slot.  Returns the rest's number.  count <= W * WARP. */
template <int W = GRN_PAPER_MOST_R / WARP>
__device__ inline uint32_t
drop_repeated(Key *s_entry, uint32_t count, int lane)
{
	Key		 mine[W];
	bool	 repeated[W] = {};
	uint32_t below = (1u << lane) - 1, left = 0;

#pragma unroll
	for (int w = 0; w < W; w++)
		mine[w] = lane + WARP * w < count ? s_entry[lane + WARP * w] : EMPTY_KEY;
	for (uint32_t i = 0; i < count; i++)
	{
		uint32_t id = entry_id(s_entry[i]);

#pragma unroll
		for (int w = 0; w < W; w++)
			repeated[w] |= entry_id(mine[w]) == id && i < lane + WARP * w;
	}
	__syncwarp();
#pragma unroll
	for (int w = 0; w < W; w++)
	{
		bool	 keep = mine[w] != EMPTY_KEY && !repeated[w];
		uint32_t mask = __ballot_sync(FULL, keep);

		if (keep)
			s_entry[left + __popc(mask & below)] = mine[w];
		left += __popc(mask);
	}
	__syncwarp();
	return left;
}

#endif /* GRN_PAPER_POOLS_CUH */
