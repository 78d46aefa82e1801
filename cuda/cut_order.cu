/*
 * cut_order.cu - computes an order of vertices that puts near vertices onto one page of
 * an index, by repeated cuts of the vertices' digests.
 *
 * src/store/cut_order.c does the same with codes and rows.  All vertices are cut
 * in two, across the direction in which the halves of a sample differ most.  Each part is
 * cut again until a part is a page.  The first cuts handle all parts of a level together:
 * one sort orders the vertices of each part along the part's direction.  After the first
 * cuts, one warp cuts each part down to pages.
 */
#include <cub/device/device_radix_sort.cuh>

#include <cuda_fp16.h>

#include <vector>

#include "handle.h"

/*
 * The most vertices of a part that one warp cuts down to pages.  The order of a million SIFT rows
 * takes .010 s, with half .011 s, with twice .016 s.
 */
constexpr uint32_t LEAF = 256;
/*
 * A cut looks at one in SAMPLE_EACH of the part's vertices, but at LEAST_SAMPLE at least
 * and MOST_SAMPLE at most.  Measured with cut_order.c: twice the sample saves 1% of the
 * pages that a search reads, a quarter of the sample costs 9% more.
 */
constexpr uint32_t SAMPLE_EACH = 16, LEAST_SAMPLE = 256, MOST_SAMPLE = 512;
/*
 * Steps of 2-means, as in src/store/group.c.  The order of a million SIFT rows takes .010 s, with
 * half .007 s, with twice .017 s.  The pages that searches read were not measured.
 */
constexpr int MEANS_STEPS = 4;
/* The most elements of a digest that one lane holds. */
constexpr int EACH = MAX_STRIDE / 2 / WARP;
/*
 * Warps of a block.  The order takes .012 s with half and .008 s with twice; two runs with this
 * number differ as much.
 */
constexpr int DIRECT_WARPS = 8;
/* Signs for sums of up to 16 bits: a bit in SIGNS counts as 1, every other bit as -1. */
constexpr uint32_t SIGNS = 0x3a65;
/* The most parts of a leaf that wait to be cut. */
constexpr int MAX_WAITING = 32;

/* The order of vertices so far, and the parts that the order is cut into. */
struct Cut
{
	Digests	  digests;
	uint32_t *d_vertex; /* [n] */
	uint32_t  per_page;
	uint32_t *d_first; /* [nparts + 1] first page of each part, and at the end the
					    * number of pages */
	uint32_t  nparts;

	/* Returns the position of a page's first vertex in d_vertex. */
	__device__ inline uint32_t vertex_of(uint32_t page) const
	{
		return min(page * per_page, digests.n);
	}
};

/* Maps a float to an unsigned integer of the same order. */
__device__ inline uint32_t
sortable_bits(float x)
{
	uint32_t bits = __float_as_uint(x);

	return bits >> 31 ? ~bits : bits | 0x80000000u;
}

__device__ inline float
warp_sum(float x)
{
	for (int s = WARP / 2; s > 0; s /= 2)
		x += __shfl_xor_sync(FULL, x, s);
	return x;
}

/* Loads a lane's elements of a vertex's digest.  The warp loads the whole digest. */
__device__ inline void
load_share(const Digests &digests, uint32_t v, int lane, float (&x)[EACH])
{
	uint32_t	   bytes = digests.stride / WARP, words[4] = {};
	const uint8_t *d_from = digests.d_rows + (size_t) v * digests.stride + lane * bytes;

	if (bytes == 16)
	{
		uint4 four = *(const uint4 *) d_from;

		words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
	}
	else if (bytes == 8)
	{
		uint2 two = *(const uint2 *) d_from;

		words[0] = two.x, words[1] = two.y;
	}
	else
		words[0] = bytes == 4	? *(const uint32_t *) d_from
				   : bytes == 2 ? *(const uint16_t *) d_from
								: *d_from;
#pragma unroll
	for (int k = 0; k < EACH; k++)
		if (digests.format == ROWS_B1)
		{
			/* Sums of `each` bits with signs are a sketch that about keeps distances. */
			uint32_t each = bytes * 8 / EACH, at = k * each;
			uint32_t piece = words[at / 32] >> at % 32 & ((1u << each) - 1);

			x[k] = (float) __popc(piece & SIGNS) - (float) __popc(piece & ~SIGNS);
		}
		else if (digests.format == ROWS_F16)
			x[k] = 2 * k < bytes ? __half2float(__ushort_as_half(
									   (uint16_t) (words[k / 2] >> (16 * (k % 2)))))
								 : 0.0f;
		else
			x[k] = k < bytes ? (float) (int8_t) (words[k / 4] >> (8 * (k % 4))) : 0.0f;
}

/* Returns the position of a digest along w, to every lane. */
__device__ inline float
along(const float (&x)[EACH], const float (&w)[EACH])
{
	float sum = 0;

#pragma unroll
	for (int k = 0; k < EACH; k++)
		sum += x[k] * w[k];
	return warp_sum(sum);
}

/* DirectionScratch memory of the WARPS warps that search for one direction. */
template <int WARPS, int MOST> struct DirectionScratch
{
	float	 along[MOST];
	bool	 above[MOST];
	float	 sums[WARPS][2][WARP * EACH]; /* [warp] sums over the warp's share of the
									    * sample: all vertices, and the vertices above
									    * the middle */
	float	 part[WARPS];
	uint32_t count[WARPS];
	bool	 same[WARPS];
	uint64_t far[WARPS];
};

/*
 * Finds the direction w in which the halves of a sample of n vertices differ most, by
 * 2-means.  The first two centers are the first vertex and the vertex farthest from the
 * first.  Returns false if all vertices of the sample are equal.  All threads of a block
 * of WARPS warps must call the function, and all threads get the same result.
 */
template <int WARPS, int MOST>
__device__ bool
find_direction(const Digests &digests, const uint32_t *d_vertex, uint32_t n,
			   DirectionScratch<WARPS, MOST> &s, float (&w)[EACH])
{
	int		 lane = lane_id(), warp = threadIdx.x / WARP;
	uint32_t sampled = min(min(n, (uint32_t) MOST), max(n / SAMPLE_EACH, LEAST_SAMPLE));
	uint64_t far = 0;
	float	 x[EACH];
	auto	 vertex = [&](uint32_t i) { return d_vertex[(uint64_t) n * i / sampled]; };

	load_share(digests, vertex(0), lane, w);
	for (uint32_t i = warp; i < sampled; i += WARPS)
	{
		float sum = 0;

		load_share(digests, vertex(i), lane, x);
#pragma unroll
		for (int k = 0; k < EACH; k++)
			sum += (x[k] - w[k]) * (x[k] - w[k]);
		far = max(far, (uint64_t) __float_as_uint(warp_sum(sum)) << 32 | (sampled - i));
	}
	__syncthreads(); /* An earlier call may still be reading s.far. */
	if (lane == 0)
		s.far[warp] = far;
	__syncthreads();
	for (int i = 0; i < WARPS; i++)
		far = max(far, s.far[i]);

	float most = __uint_as_float((uint32_t) (far >> 32));

	if (!(most > 0 && most < INFINITY))
		return false;
	load_share(digests, vertex(sampled - (uint32_t) far), lane, x);
#pragma unroll
	for (int k = 0; k < EACH; k++)
		w[k] = x[k] - w[k];

	for (int step = 0; step < MEANS_STEPS; step++)
	{
		float	 middle = 0, all[EACH] = {}, high[EACH] = {};
		uint32_t count = 0;
		bool	 same = step > 0;

		for (uint32_t i = warp; i < sampled; i += WARPS)
		{
			load_share(digests, vertex(i), lane, x);

			float at = along(x, w);

			if (lane == 0)
				s.along[i] = at;
			middle += at / sampled;
		}
		if (lane == 0)
			s.part[warp] = middle;
		__syncthreads();
		middle = 0;
		for (int i = 0; i < WARPS; i++)
			middle += s.part[i];
		for (uint32_t i = warp; i < sampled; i += WARPS)
		{
			bool above = s.along[i] > middle;

			same = same && above == s.above[i];
			__syncwarp();
			if (lane == 0)
				s.above[i] = above;
			count += above;
			load_share(digests, vertex(i), lane, x);
#pragma unroll
			for (int k = 0; k < EACH; k++)
			{
				all[k] += x[k];
				high[k] += above ? x[k] : 0.0f;
			}
		}
#pragma unroll
		for (int k = 0; k < EACH; k++)
		{
			s.sums[warp][0][k * WARP + lane] = all[k];
			s.sums[warp][1][k * WARP + lane] = high[k];
		}
		if (lane == 0)
		{
			s.count[warp] = count;
			s.same[warp] = same;
		}
		__syncthreads();
		count = 0;
		same = true;
		for (int i = 0; i < WARPS; i++)
		{
			count += s.count[i];
			same = same && s.same[i];
		}
		if (count == 0 || count == sampled)
			return step > 0;
		if (same)
			return true;
#pragma unroll
		for (int k = 0; k < EACH; k++)
		{
			all[k] = high[k] = 0;
			for (int i = 0; i < WARPS; i++)
			{
				all[k] += s.sums[i][0][k * WARP + lane];
				high[k] += s.sums[i][1][k * WARP + lane];
			}
			w[k] = high[k] / count - (all[k] - high[k]) / (sampled - count);
		}
	}
	return true;
}

/* ---- large parts ---- */

/*
 * Computes the direction of each part: d_w [nparts][EACH][WARP].  d_cuts [nparts] says
 * whether the part has a direction.  One block handles one part.
 */
__global__ void
__launch_bounds__(DIRECT_WARPS *WARP)
	direct_kernel(const Cut cut, float *d_w, bool *d_cuts)
{
	__shared__ DirectionScratch<DIRECT_WARPS, MOST_SAMPLE> s;
	uint32_t part = blockIdx.x, first = cut.vertex_of(cut.d_first[part]);
	uint32_t n = cut.vertex_of(cut.d_first[part + 1]) - first;
	float	 w[EACH];
	bool	 cuts = find_direction(cut.digests, cut.d_vertex + first, n, s, w);

	if (threadIdx.x >= WARP)
		return;
#pragma unroll
	for (int k = 0; k < EACH; k++)
		d_w[((size_t) part * EACH + k) * WARP + threadIdx.x] = w[k];
	if (threadIdx.x == 0)
		d_cuts[part] = cuts;
}

/* Computes d_keys [n]: by part, and within a part by position along the part's direction. */
__global__ void
project_kernel(const Cut cut, const float *d_w, const bool *d_cuts, uint64_t *d_keys)
{
	int		 lane = lane_id();
	uint32_t base = (blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP) * WARP;
	uint32_t at = min(base + lane, cut.digests.n - 1), page = at / cut.per_page;
	uint32_t mine = cut.d_vertex[at], part = 0, loaded = EMPTY_ID;
	uint64_t key = 0;
	float	 w[EACH] = {}, x[EACH];

	if (base >= cut.digests.n)
		return;
	for (uint32_t low = 0, high = cut.nparts; low < high;)
	{
		uint32_t middle = low + (high - low) / 2;

		if (cut.d_first[middle] <= page)
		{
			part = middle;
			low = middle + 1;
		}
		else
			high = middle;
	}
	for (int i = 0; i < WARP; i++)
	{
		uint32_t of = __shfl_sync(FULL, part, i);

		load_share(cut.digests, __shfl_sync(FULL, mine, i), lane, x);
		if (of != loaded)
#pragma unroll
			for (int k = 0; k < EACH; k++)
				w[k] = d_cuts[of] ? d_w[((size_t) of * EACH + k) * WARP + lane] : 0.0f;
		loaded = of;

		float place = along(x, w);

		if (lane == i)
			key = (uint64_t) part << 32 | sortable_bits(place);
	}
	if (base + lane < cut.digests.n)
		d_keys[base + lane] = key;
}

/* ---- leaves ---- */

/* Sorts the first n of s_keys by one warp, n <= LEAF.  Keys behind the first n are overwritten. */
__device__ inline void
sort_keys(uint64_t *s_keys, uint32_t n, int lane)
{
	uint32_t size = 2;

	while (size < n)
		size *= 2;
	for (uint32_t i = n + lane; i < size; i += WARP)
		s_keys[i] = ~0ull;
	__syncwarp();
	for (uint32_t k = 2; k <= size; k *= 2)
		for (uint32_t j = k / 2; j > 0; j /= 2)
		{
			for (uint32_t i = lane; i < size / 2; i += WARP)
			{
				uint32_t low = 2 * i - (i & (j - 1)), high = low + j;
				uint64_t x = s_keys[low], y = s_keys[high];

				if ((x > y) == ((low & k) == 0))
				{
					s_keys[low] = y;
					s_keys[high] = x;
				}
			}
			__syncwarp();
		}
}

/* Cuts each part down to pages; one warp handles one part. */
__global__ void
__launch_bounds__(WARP) leaf_kernel(const Cut cut)
{
	__shared__ DirectionScratch<1, LEAF> s;
	__shared__ uint64_t					 s_keys[LEAF];
	__shared__ uint2					 s_waiting[MAX_WAITING];
	int									 lane = lane_id(), waiting = 1;

	if (lane == 0)
		s_waiting[0] = make_uint2(cut.d_first[blockIdx.x], cut.d_first[blockIdx.x + 1]);
	while (waiting > 0)
	{
		__syncwarp();

		uint2 pages = s_waiting[--waiting];

		if (pages.y - pages.x < 2)
			continue;

		uint32_t  first = cut.vertex_of(pages.x), n = cut.vertex_of(pages.y) - first;
		uint32_t  middle = pages.x + (pages.y - pages.x) / 2;
		uint32_t *d_vertex = cut.d_vertex + first;
		float	  w[EACH];

		if (find_direction(cut.digests, d_vertex, n, s, w))
		{
#pragma unroll 4
			for (uint32_t i = 0; i < n; i++)
			{
				uint32_t v = d_vertex[i];
				float	 x[EACH];

				load_share(cut.digests, v, lane, x);

				float place = along(x, w);

				if (lane == 0)
					s_keys[i] = (uint64_t) sortable_bits(place) << 32 | v;
			}
			sort_keys(s_keys, n, lane);
			for (uint32_t i = lane; i < n; i += WARP)
				d_vertex[i] = (uint32_t) s_keys[i];
		}
		__syncwarp();
		if (lane == 0)
		{
			s_waiting[waiting] = make_uint2(middle, pages.y);
			s_waiting[waiting + 1] = make_uint2(pages.x, middle);
		}
		waiting += 2;
	}
}

/* ---- the call ---- */

__global__ void
identity_order_kernel(uint32_t n, uint32_t *d_vertex)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		d_vertex[i] = i;
}

/* Writes the position of each row.  d_row [n]: the row of each vertex; NULL: the same numbers. */
__global__ void
position_kernel(const uint32_t *d_vertex, uint32_t n, const uint32_t *d_row,
				uint32_t *d_position)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		d_position[d_row ? d_row[d_vertex[i]] : d_vertex[i]] = i;
}

/* Returns the number of parts (a power of two) that one warp each can cut to pages, or 0. */
static uint32_t
count_leaves(uint32_t pages, uint32_t per_page)
{
	uint32_t parts = 1;

	while (parts < pages && (uint64_t) ((pages - 1) / parts + 1) * per_page > LEAF)
		parts *= 2;
	return parts <= pages && (uint64_t) ((pages - 1) / parts + 1) * per_page <= LEAF
			   ? parts
			   : 0;
}

/* Offsets of all arrays in device memory, for at most `leaves` parts. */
struct CutLayout : Layout
{
	uint32_t leaves;
	size_t	 vertex[2], keys[2], first, cuts, w, sort, sort_bytes;

	CutLayout(uint32_t n, size_t sort_bytes)
		/*
		 * Parts double from level to level and the last level is needed only if a part is
		 * larger than LEAF.  A leaf therefore has a quarter of LEAF vertices or more.
		 */
		: leaves(n / (LEAF / 4) + 2), vertex {reserve<uint32_t>(n), reserve<uint32_t>(n)},
		  keys {reserve<uint64_t>(n), reserve<uint64_t>(n)},
		  first(reserve<uint32_t>((size_t) leaves + 1)), cuts(reserve<bool>(leaves)),
		  w(reserve<float>((size_t) (leaves / 2 + 1) * EACH * WARP)),
		  sort(reserve<uint8_t>(sort_bytes)), sort_bytes(sort_bytes)
	{
	}
};

/* Returns in *bytes the device memory that a sort of n vertices takes. */
static cudaError_t
find_sort_bytes(uint32_t n, size_t *bytes)
{
	cub::DoubleBuffer<uint32_t> vertices(NULL, NULL);
	cub::DoubleBuffer<uint64_t> keys(NULL, NULL);

	*bytes = 0;
	return cub::DeviceRadixSort::SortPairs(NULL, *bytes, keys, vertices, n, 0, 64);
}

cudaError_t
cut_order_bytes(uint32_t n, size_t *bytes)
{
	size_t sort_bytes;

	GRN_TRY(find_sort_bytes(n, &sort_bytes));
	*bytes = CutLayout(n, sort_bytes).bytes;
	return cudaSuccess;
}

static cudaError_t
cut_all(const Device &device, const Digests &digests, const uint32_t *d_row,
		uint32_t per_page, uint32_t pages, uint32_t leaves, const CutLayout &space,
		uint8_t *d, const uint32_t **d_position)
{
	uint32_t					n = digests.n, blocks = (n + 255) / 256;
	cudaStream_t				stream = device.stream;
	cub::DoubleBuffer<uint32_t> vertices((uint32_t *) (d + space.vertex[0]),
										 (uint32_t *) (d + space.vertex[1]));
	cub::DoubleBuffer<uint64_t> keys((uint64_t *) (d + space.keys[0]),
									 (uint64_t *) (d + space.keys[1]));
	std::vector<uint32_t>		first = {0, pages};
	float					   *d_w = (float *) (d + space.w);
	bool					   *d_cuts = (bool *) (d + space.cuts);
	Cut cut = {digests, vertices.Current(), per_page, (uint32_t *) (d + space.first), 1};

	identity_order_kernel<<<blocks, 256, 0, stream>>>(n, cut.d_vertex);
	GRN_TRY(cudaGetLastError());
	for (;;)
	{
		std::vector<uint32_t> halves;
		size_t				  bytes = space.sort_bytes;
		int					  bits = 0;

		GRN_TRY(cudaMemcpyAsync(cut.d_first, first.data(),
								first.size() * sizeof(uint32_t), cudaMemcpyHostToDevice,
								stream));
		/* The copy must end before `first` changes. */
		GRN_TRY(cudaStreamSynchronize(stream));
		if (cut.nparts == leaves)
			break;
		while (cut.nparts > 1u << bits)
			bits++;
		direct_kernel<<<cut.nparts, DIRECT_WARPS * WARP, 0, stream>>>(cut, d_w, d_cuts);
		GRN_TRY(cudaGetLastError());
		project_kernel<<<blocks, 256, 0, stream>>>(cut, d_w, d_cuts, keys.Current());
		GRN_TRY(cudaGetLastError());
		GRN_TRY(cub::DeviceRadixSort::SortPairs(d + space.sort, bytes, keys, vertices, n,
												0, 32 + bits, stream));
		cut.d_vertex = vertices.Current();
		for (size_t i = 0; i + 1 < first.size(); i++)
		{
			halves.push_back(first[i]);
			halves.push_back(first[i] + (first[i + 1] - first[i]) / 2);
		}
		halves.push_back(pages);
		first.swap(halves);
		cut.nparts *= 2;
	}
	leaf_kernel<<<leaves, WARP, 0, stream>>>(cut);
	GRN_TRY(cudaGetLastError());
	*d_position = vertices.Alternate();
	position_kernel<<<blocks, 256, 0, stream>>>(cut.d_vertex, n, d_row,
												vertices.Alternate());
	GRN_TRY(cudaGetLastError());
	return cudaStreamSynchronize(stream);
}

extern "C" GrnGpuStatus
grn_gpu_cut_order(GrnGpu *gpu, uint32_t per_page, uint32_t *position, GrnGpuError *err)
{
	uint32_t		n = (uint32_t) gpu->n;
	bool			kept = gpu->kept.digests.n == n;
	const Digests  &digests = kept ? gpu->kept.digests : gpu->built.digests;
	const uint32_t *d_row = kept ? NULL : gpu->built.d_rows, *d_position;
	uint32_t		pages = n / per_page + (n % per_page > 0);
	uint32_t		leaves = count_leaves(pages, per_page);
	size_t			sort_bytes;

	if (!gpu->built.lists.d_ids || digests.n != n)
		return gpu_fail(err, GRN_GPU_FAILED, "the device has no digests to order by",
						NULL);
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	GRN_CHECK(find_sort_bytes(n, &sort_bytes), "could not order the vertices");

	CutLayout space(n, sort_bytes);
	uint8_t	 *d = gpu->d_arena + gpu->plan.pool; /* The pools' memory is free because
												  * the graph is finished. */

	if (leaves == 0 || leaves > space.leaves ||
		gpu->plan.pool + space.bytes > gpu->plan.inbox[0])
		return gpu_fail(err, GRN_GPU_FAILED, "there is no room for an order by cuts",
						NULL);
	GRN_CHECK(cut_all(gpu->device, digests, d_row, per_page, pages, leaves, space, d,
					  &d_position),
			  "could not order the vertices");
	GRN_CHECK(staging_copy(&gpu->staging, gpu->number, false, (void *) d_position,
						   position, sizeof(uint32_t), sizeof(uint32_t), n),
			  "could not copy from the device");
	return GRN_GPU_OK;
}
