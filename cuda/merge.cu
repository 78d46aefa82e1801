/*
 * merge.cu - merges the two lists that a row has in the graphs of two parts into one
 * list, by the RNG rule over digests, for builds in parts.  One warp handles one row.
 *
 * Candidates are taken nearest first.  Each candidate is compared with the neighbors
 * kept so far, four at a time.  Digests are read from global memory: the few dozen
 * digests that a warp works on remain in the first-level cache.
 */
#include "row_formats.cuh"

/*
 * A million SIFT rows in parts: half and twice of MERGE_WARPS and MERGE_AT_ONCE take .036 to
 * .039 s, as two runs do.
 */
constexpr int MERGE_WARPS = 4;	 /* warps of a block */
constexpr int MERGE_WORDS = 2;	 /* words of a digest (256 bytes at most) that one lane
							    * holds */
constexpr int MERGE_AT_ONCE = 4; /* digests that are loaded together */

/* Shared memory of one warp, as small as the degree allows: it takes room from the L1 cache. */
struct MergeSpace
{
	Key		 *s_key;	 /* [2 * degree] candidates, later occluded candidates */
	Key		 *s_sorted;	 /* [2 * degree] candidates, nearest first */
	uint32_t *s_kept;	 /* [degree] indices into s_sorted of kept neighbors */
	uint32_t *s_kept_id; /* [degree] ids of kept neighbors */

	static __host__ __device__ inline size_t bytes(uint32_t degree)
	{
		return degree * (4 * sizeof(Key) + 2 * sizeof(uint32_t));
	}
	__device__ inline MergeSpace(uint8_t *s_base, uint32_t degree)
		: s_key((Key *) s_base), s_sorted(s_key + 2 * degree),
		  s_kept((uint32_t *) (s_sorted + 2 * degree)), s_kept_id(s_kept + degree)
	{
	}
};

__device__ inline int32_t
sum_warp(int32_t x)
{
	return __reduce_add_sync(FULL, x);
}

__device__ inline float
sum_warp(float x)
{
	for (int i = 16; i > 0; i /= 2)
		x += __shfl_xor_sync(FULL, x, i);
	return x;
}

/* The words of a digest that one lane holds. */
struct MergeRow
{
	uint32_t w[MERGE_WORDS];

	__device__ inline void load(const Digests &digests, uint32_t id, int lane)
	{
		const uint32_t *d_row =
			(const uint32_t *) (digests.d_rows + (size_t) id * digests.stride);

#pragma unroll
		for (int k = 0; k < MERGE_WORDS; k++)
			w[k] = 4 * (lane + WARP * k) < digests.stride ? d_row[lane + WARP * k] : 0;
	}
};

/* out: the ordinals of the distances from one row to `count` rows, at most MERGE_AT_ONCE. */
template <class P>
__device__ inline void
distances(const Digests &digests, const MergeRow &own, uint32_t own_norm,
		  const uint32_t *ids, /* [count] */
		  uint32_t count, int lane, uint32_t (&out)[MERGE_AT_ONCE])
{
	MergeRow		row[MERGE_AT_ONCE];
	typename P::Acc dot[MERGE_AT_ONCE] = {};
	uint32_t		norm[MERGE_AT_ONCE];

#pragma unroll
	for (int k = 0; k < MERGE_AT_ONCE; k++)
	{
		uint32_t id = ids[min((uint32_t) k, count - 1)];

		row[k].load(digests, id, lane);
		norm[k] = digests.d_norms[id];
	}
#pragma unroll
	for (int k = 0; k < MERGE_AT_ONCE; k++)
	{
#pragma unroll
		for (int i = 0; i < MERGE_WORDS; i++)
			dot[k] = P::dot(own.w[i], row[k].w[i], dot[k]);
		out[k] = P::ordinal(P::partial(P::from_bits(norm[k]), sum_warp(dot[k])) +
							P::from_bits(own_norm));
	}
}

/* Writes n keys to s_sorted in ascending order.  Equal keys keep their order. */
__device__ inline void
sort_keys(const Key *s_key, uint32_t n, Key *s_sorted, int lane)
{
	for (uint32_t i = lane; i < n; i += WARP)
	{
		Key		 key = s_key[i];
		uint32_t position = 0;

		for (uint32_t j = 0; j < n; j++)
			position += s_key[j] < key || (s_key[j] == key && j < i);
		s_sorted[position] = key;
	}
	__syncwarp();
}

/* Merges the two lists of row d_rows[at] into list `at` of the result. */
template <class P>
__global__ void
__launch_bounds__(MERGE_WARPS *WARP) merge_kernel(const MergeArgs a)
{
	extern __shared__ __align__(16) uint8_t s_bytes[];
	int										warp = threadIdx.x / WARP, lane = lane_id();
	MergeSpace s(s_bytes + warp * MergeSpace::bytes(a.degree), a.degree);
	uint32_t   at = blockIdx.x * MERGE_WARPS + warp, n = 0;

	if (at >= a.count)
		return;
	uint32_t v = a.d_rows[at], norm = a.digests.d_norms[v];
	MergeRow own;

	own.load(a.digests, v, lane);
	for (int part = 0; part < 2; part++)
		for (uint32_t base = 0; base < a.degree; base += WARP)
		{
			uint32_t id = base + lane < a.degree
							  ? a.d_lists[part][(size_t) at * a.degree + base + lane]
							  : EMPTY_ID;
			uint32_t mask = __ballot_sync(FULL, id != EMPTY_ID);

			if (id != EMPTY_ID)
				s.s_key[n + __popc(mask & ((1u << lane) - 1))] = id;
			n += __popc(mask);
		}
	__syncwarp();
	for (uint32_t j = 0; j < n; j += MERGE_AT_ONCE)
	{
		uint32_t here = min(n - j, (uint32_t) MERGE_AT_ONCE), ids[MERGE_AT_ONCE];
		uint32_t ordinal[MERGE_AT_ONCE];

#pragma unroll
		for (int k = 0; k < MERGE_AT_ONCE; k++)
			ids[k] = (uint32_t) s.s_key[j + min((uint32_t) k, here - 1)];
		distances<P>(a.digests, own, norm, ids, here, lane, ordinal);
		__syncwarp();
#pragma unroll
		for (int k = 0; k < MERGE_AT_ONCE; k++)
			if (lane == k && k < here)
				s.s_key[j + k] = make_key(ordinal[k], ids[k]);
		__syncwarp();
	}
	sort_keys(s.s_key, n, s.s_sorted, lane);

	uint32_t nkept = 0, nrefused = 0; /* s_key is free again and receives refused
									   * candidates */

	for (uint32_t i = 0; i < n && nkept < a.degree; i++)
	{
		Key		 key = s.s_sorted[i];
		uint32_t id = (uint32_t) key, limit = max((uint32_t) (key >> 32), 1u);
		bool	 refused = false;
		MergeRow row;

		if (i > 0 && key == s.s_sorted[i - 1])
			continue;
		row.load(a.digests, id, lane);
		for (uint32_t j = 0; j < nkept && !refused; j += MERGE_AT_ONCE)
		{
			uint32_t here = min(nkept - j, (uint32_t) MERGE_AT_ONCE);
			uint32_t ordinal[MERGE_AT_ONCE];

			distances<P>(a.digests, row, a.digests.d_norms[id], s.s_kept_id + j, here,
						 lane, ordinal);
#pragma unroll
			for (int k = 0; k < MERGE_AT_ONCE; k++)
				refused |= ordinal[k] < limit;
		}
		if (lane == 0 && refused)
			s.s_key[nrefused] = key;
		if (lane == 0 && !refused)
			s.s_kept[nkept] = i, s.s_kept_id[nkept] = id;
		nrefused += refused;
		nkept += !refused;
		__syncwarp();
	}

	/*
	 * Merges the kept neighbors and the nearest refused candidates.  The position of a
	 * key is the number of keys before the key in both sequences.
	 */
	uint32_t  extra = a.fill > nkept ? min(a.fill - nkept, nrefused) : 0;
	uint32_t *d_out = a.d_ids + (size_t) at * a.degree;

	for (uint32_t i = lane; i < nkept; i += WARP)
	{
		Key		 key = s.s_sorted[s.s_kept[i]];
		uint32_t position = i;

		for (uint32_t j = 0; j < extra; j++)
			position += s.s_key[j] < key;
		d_out[position] = (uint32_t) key;
	}
	for (uint32_t i = lane; i < extra; i += WARP)
	{
		Key		 key = s.s_key[i];
		uint32_t position = i;

		for (uint32_t j = 0; j < nkept; j++)
			position += s.s_sorted[s.s_kept[j]] < key;
		d_out[position] = (uint32_t) key;
	}
	end_list(Lists {a.d_ids, a.d_counts}, at, a.degree, nkept + extra);
}

__global__ void
rename_kernel(uint32_t n, uint32_t degree, const uint32_t *d_names,
			  const uint8_t *d_counts, uint32_t *d_ids)
{
	size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x;

	if (i < (size_t) n * degree)
		d_ids[i] = i % degree < d_counts[i / degree] ? d_names[d_ids[i]] : EMPTY_ID;
}

cudaError_t
launch_merge(const Device &device, const MergeArgs &args)
{
	uint32_t blocks = (args.count + MERGE_WARPS - 1) / MERGE_WARPS;
	size_t	 shared = MERGE_WARPS * MergeSpace::bytes(args.degree);

	GRN_REQUIRE(args.digests.valid() && args.digests.stride <= 4 * WARP * MERGE_WORDS);
	GRN_REQUIRE(args.count > 0 && args.degree > 0 && args.degree <= GRN_MAX_DEGREE);
	GRN_REQUIRE(args.fill <= args.degree);
	auto kernel = args.digests.format == ROWS_S8   ? merge_kernel<RowsS8>
				  : args.digests.format == ROWS_B1 ? merge_kernel<RowsB1>
												   : merge_kernel<RowsF16>;

	kernel<<<blocks, MERGE_WARPS * WARP, shared, device.stream>>>(args);
	return cudaGetLastError();
}

cudaError_t
launch_rename(const Device &device, uint32_t n, uint32_t degree, const uint32_t *d_names,
			  const uint8_t *d_counts, uint32_t *d_ids)
{
	size_t threads = (size_t) n * degree;

	GRN_REQUIRE(n > 0 && degree > 0 && degree <= GRN_MAX_DEGREE);
	rename_kernel<<<(uint32_t) ((threads + 255) / 256), 256, 0, device.stream>>>(
		n, degree, d_names, d_counts, d_ids);
	return cudaGetLastError();
}
