/*
 * groups.cu - groups of near rows in lists, by the rows' codes (GrnGpuGrouping in gpu.h).
 *
 * As src/graph/stored/group_refine.c does on cores, but that a row looks at all middles of its
 * stretch of groups, which here take no longer than the nearest ones: their products are those of
 * tensor cores.  Rows to which the second nearest middle matters most choose first.  They are
 * sorted by that, and as blocks of a kernel begin in order, so about do the choices; a counter for
 * each group says whether it has room.
 *
 * Rows of all lists of a batch are dealt with together.
 */
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include <cuda_fp16.h>
#include <mma.h>

#include <algorithm>
#include <vector>

#include "handle.h"

using namespace nvcuda;

/* As in group_refine.c. */
constexpr int ROUNDS = 4, CHOICES = 6;
/* Groups whose middles a row looks at, about: a branch of the order of rows. */
constexpr uint32_t STRETCH = 2048;
/* Rows of a batch, about; a list is never divided. */
constexpr uint64_t BATCH_ROWS = 32 << 20;
/* A block's products: of so many rows with so many middles at a time. */
constexpr int TILE_ROWS = 64, TILE_MIDDLES = 32, CHOOSE_WARPS = TILE_ROWS / 16;
/* Elements from row to row in shared memory, so that lanes meet in few banks. */
constexpr int ROW_PITCH = GRN_GPU_GROUP_DIMS + 8, PRODUCT_PITCH = TILE_MIDDLES + 4;
constexpr int BLOCK = 256;

/* What GrnFactor's bits are (src/graph/kernels/dist.h). */
constexpr int	FACTOR_ALPHA_BITS = 14, FACTOR_LENGTH_SHIFT = 23 - 11;
constexpr float FACTOR_LENGTH_ONE = 0x1p63f;

/* Rows whose groups are a stretch: they are next to each other in the order of groups. */
struct Tile
{
	uint32_t first, n;			  /* positions */
	uint32_t first_group, groups; /* whose middles they look at */
};

/* A batch on the device: rows by number, and groups of all its lists. */
struct Groups
{
	uint32_t n, groups, width; /* width: numbers of a row, a multiple of 16 */
	uint32_t room;
	__half	*d_rows;	   /* [n][width] */
	float	*d_norms;	   /* [n] squared */
	__half	*d_means;	   /* [groups][width] */
	float	*d_mean_norms; /* [groups] */
	uint2 *
		d_stretch; /* [groups] the first group of its stretch, and that behind the last */
	uint32_t *d_order; /* [n] rows in the order of their groups, */
	uint32_t *d_start; /* [groups + 1] which begin at these positions */
	uint32_t *d_count; /* [groups] rows that are going there */
	uint32_t *d_chosen, *d_next, *d_copied; /* [n] groups */
	float	 *d_distance; /* [n][CHOICES] squared, nearest first; then losses */
	uint32_t *d_choice;	  /* [n][CHOICES] groups, or EMPTY_ID */
};

/* ---- rows ---- */

/* A factor's length times its alpha, in units of which only the largest matters. */
__device__ inline float
factor_scale(uint32_t factor)
{
	float length = __uint_as_float(factor >> FACTOR_ALPHA_BITS << FACTOR_LENGTH_SHIFT) *
				   FACTOR_LENGTH_ONE;

	return length * (factor & ((1u << FACTOR_ALPHA_BITS) - 1));
}

/* Finds the largest scale, whose bits *d_most begins with as 0. */
__global__ void
most_kernel(const uint32_t *d_factors, uint32_t n, uint32_t *d_most)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
	float	 scale = i < n ? factor_scale(d_factors[i]) : 0;
	uint32_t most = scale < INFINITY ? __float_as_uint(scale) : 0;

	for (int s = WARP / 2; s > 0; s /= 2)
		most = max(most, __shfl_xor_sync(FULL, most, s));
	if (lane_id() == 0 && most > 0)
		atomicMax(d_most, most);
}

/* Decodes rows, one a warp, in units of the largest scale: so binary16 holds them. */
__global__ void
decode_kernel(const Groups g, const GrnGpuCodes codes, const uint8_t *d_codes,
			  const uint32_t *d_factors, const uint32_t *d_most)
{
	uint32_t row = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
	float	 most = __uint_as_float(*d_most), norm = 0;

	if (row >= g.n)
		return;

	float scale = most > 0 ? fminf(factor_scale(d_factors[row]), most) / most : 0.0f;

	for (uint32_t j = lane_id(); j < g.width; j += WARP)
	{
		const uint8_t *d_code = d_codes + (size_t) row * codes.bytes;
		float		   x = 0;

		for (uint32_t b = 0, at = j; b < GRN_GPU_CODE_BLOCKS && j < codes.used; b++)
		{
			uint32_t bits = codes.bits[b], bytes = codes.dims[b] * bits / 8;

			if (at < codes.dims[b])
			{
				uint32_t top = (1u << bits) - 1;
				uint32_t level = d_code[at % bytes] >> at / bytes * bits & top;

				x = (level - top / 2.0f) * codes.steps[b] * scale;
				break;
			}
			at -= codes.dims[b];
			d_code += bytes;
		}

		__half rounded = __float2half(x);

		g.d_rows[(size_t) row * g.width + j] = rounded;
		norm += __half2float(rounded) * __half2float(rounded);
	}
	for (int s = WARP / 2; s > 0; s /= 2)
		norm += __shfl_xor_sync(FULL, norm, s);
	if (lane_id() == 0)
		g.d_norms[row] = norm;
}

/* Groups as the rows came: one block a group. */
__global__ void
begin_groups_kernel(const Groups g)
{
	for (uint32_t i = g.d_start[blockIdx.x] + threadIdx.x; i < g.d_start[blockIdx.x + 1];
		 i += blockDim.x)
	{
		g.d_order[i] = i;
		g.d_chosen[i] = blockIdx.x;
	}
}

/* ---- middles ---- */

/* The mean of each group's rows, by a block; that of a group without rows stays. */
__global__ void
__launch_bounds__(BLOCK) mean_kernel(const Groups g)
{
	__shared__ float s_sums[BLOCK], s_norms[BLOCK / WARP];
	uint32_t group = blockIdx.x, first = g.d_start[group], end = g.d_start[group + 1];
	uint32_t shares = BLOCK / g.width, j = threadIdx.x % g.width;
	uint32_t share = threadIdx.x / g.width;
	float	 sum = 0, norm = 0;

	if (first == end)
		return;
	if (share < shares)
		for (uint32_t i = first + share; i < end; i += shares)
			sum += __half2float(g.d_rows[(size_t) g.d_order[i] * g.width + j]);
	s_sums[threadIdx.x] = sum;
	__syncthreads();
	if (share == 0)
	{
		for (uint32_t s = 1; s < shares; s++)
			sum += s_sums[s * g.width + j];

		__half mean = __float2half(sum / (end - first));

		g.d_means[(size_t) group * g.width + j] = mean;
		norm = __half2float(mean) * __half2float(mean);
	}
	for (int s = WARP / 2; s > 0; s /= 2)
		norm += __shfl_xor_sync(FULL, norm, s);
	if (lane_id() == 0)
		s_norms[threadIdx.x / WARP] = norm;
	__syncthreads();
	if (threadIdx.x == 0)
	{
		for (int s = 1; s < BLOCK / WARP; s++)
			norm += s_norms[s];
		g.d_mean_norms[group] = norm;
	}
}

/* A thread's nearest middles so far. */
struct Nearest
{
	float	 distance[CHOICES];
	uint32_t group[CHOICES];

	__device__ inline void put(float d, uint32_t id)
	{
		if (!(d < distance[CHOICES - 1]))
			return;
		distance[CHOICES - 1] = d;
		group[CHOICES - 1] = id;
#pragma unroll
		for (int i = CHOICES - 1; i > 0; i--)
			if (distance[i] < distance[i - 1])
			{
				float	 e = distance[i];
				uint32_t other = group[i];

				distance[i] = distance[i - 1];
				group[i] = group[i - 1];
				distance[i - 1] = e;
				group[i - 1] = other;
			}
	}
};

/* Copies TILE rows of `from` into shared memory, zeroes where there is none. */
template <int TILE, class Row>
__device__ inline void
load_tile(__half (&s_tile)[TILE][ROW_PITCH], uint32_t width, uint32_t n,
		  const __half *d_from, Row row)
{
	uint32_t pieces = width / 8; /* of 16 bytes */

	for (uint32_t i = threadIdx.x; i < TILE * pieces; i += blockDim.x)
	{
		uint32_t r = i / pieces, piece = i % pieces;
		uint4	 x = make_uint4(0, 0, 0, 0);

		if (r < n)
			x = *(const uint4 *) (d_from + (size_t) row(r) * width + piece * 8);
		*(uint4 *) &s_tile[r][piece * 8] = x;
	}
}

/*
 * The nearest middles of a tile of rows, of those of its stretch.  Two threads have a row, and each
 * looks at one half of the middles.
 */
__global__ void
__launch_bounds__(CHOOSE_WARPS *WARP) choose_kernel(const Groups g, const Tile *d_tiles)
{
	__shared__ __align__(32) __half s_rows[TILE_ROWS][ROW_PITCH];
	__shared__ __align__(32) __half s_means[TILE_MIDDLES][ROW_PITCH];
	__shared__ __align__(32) float s_products[TILE_ROWS][PRODUCT_PITCH];
	Tile						   tile = d_tiles[blockIdx.x];
	int		warp = threadIdx.x / WARP, mine = threadIdx.x / 2, side = threadIdx.x % 2;
	Nearest nearest;

	static_assert(CHOOSE_WARPS * WARP == 2 * TILE_ROWS, "two threads a row");
	for (int i = 0; i < CHOICES; i++)
	{
		nearest.distance[i] = INFINITY;
		nearest.group[i] = EMPTY_ID;
	}
	load_tile(s_rows, g.width, tile.n, g.d_rows,
			  [&](uint32_t r) { return g.d_order[tile.first + r]; });
	for (uint32_t at = 0; at < tile.groups; at += TILE_MIDDLES)
	{
		uint32_t n = min(tile.groups - at, (uint32_t) TILE_MIDDLES),
				 first = tile.first_group + at;
		wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[TILE_MIDDLES / 16];

		__syncthreads(); /* what was read of the last middles is */
		load_tile(s_means, g.width, n, g.d_means, [&](uint32_t r) { return first + r; });
		__syncthreads();
		for (int m = 0; m < TILE_MIDDLES / 16; m++)
			wmma::fill_fragment(sums[m], 0.0f);
		for (uint32_t k = 0; k < g.width; k += 16)
		{
			wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> rows;

			wmma::load_matrix_sync(rows, &s_rows[warp * 16][k], ROW_PITCH);
			for (int m = 0; m < TILE_MIDDLES / 16; m++)
			{
				wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> means;

				wmma::load_matrix_sync(means, &s_means[m * 16][k], ROW_PITCH);
				wmma::mma_sync(sums[m], rows, means, sums[m]);
			}
		}
		for (int m = 0; m < TILE_MIDDLES / 16; m++)
			wmma::store_matrix_sync(&s_products[warp * 16][m * 16], sums[m],
									PRODUCT_PITCH, wmma::mem_row_major);
		__syncwarp(); /* a warp's rows are its own */
		for (uint32_t i = side; i < n; i += 2)
			nearest.put(g.d_mean_norms[first + i] - 2 * s_products[mine][i], first + i);
	}
#pragma unroll
	for (int i = 0; i < CHOICES; i++)
	{
		float	 d = __shfl_xor_sync(FULL, nearest.distance[i], 1);
		uint32_t id = __shfl_xor_sync(FULL, nearest.group[i], 1);

		if (side == 0)
			nearest.put(d, id);
	}
	if (side != 0 || mine >= tile.n)
		return;

	uint32_t row = g.d_order[tile.first + mine];

	for (int i = 0; i < CHOICES; i++)
	{
		g.d_distance[(size_t) row * CHOICES + i] =
			fmaxf(nearest.distance[i] + g.d_norms[row], 0.0f);
		g.d_choice[(size_t) row * CHOICES + i] = nearest.group[i];
	}
}

/* ---- moves ---- */

/* Keys by which the rows to which their first choice matters most come first. */
__global__ void
regret_kernel(const Groups g, uint32_t *d_keys, uint32_t *d_rows)
{
	uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;

	if (row >= g.n)
		return;

	const float *d_distance = g.d_distance + (size_t) row * CHOICES;

	d_keys[row] = ~__float_as_uint(fmaxf(d_distance[1] - d_distance[0], 0.0f));
	d_rows[row] = row;
}

/* Takes a place in a group, if there is one. */
__device__ inline bool
take_place(const Groups &g, uint32_t group)
{
	if (g.d_count[group] >= g.room)
		return false;
	if (atomicAdd(&g.d_count[group], 1u) < g.room)
		return true;
	atomicSub(&g.d_count[group], 1u);
	return false;
}

/* Each row goes to the nearest of its choices that has room. */
__global__ void
move_kernel(const Groups g, const uint32_t *d_sorted)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= g.n)
		return;

	uint32_t row = d_sorted[i], to = EMPTY_ID;

	for (int c = 0; c < CHOICES && to == EMPTY_ID; c++)
	{
		uint32_t group = g.d_choice[(size_t) row * CHOICES + c];

		if (group == EMPTY_ID)
			break;
		if (take_place(g, group))
			to = group;
	}
	g.d_next[row] = to;
}

/*
 * Rows that have found no room go to the next group that has some.  There is more room than rows,
 * but counters that others have raised and lower again may hide it, so they look again.
 */
__global__ void
move_rest_kernel(const Groups g)
{
	uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;

	if (row >= g.n || g.d_next[row] != EMPTY_ID)
		return;

	uint32_t own = g.d_chosen[row];
	uint2	 stretch = g.d_stretch[own];

	for (uint32_t away = 0; g.d_next[row] == EMPTY_ID;
		 away = away < stretch.y - stretch.x ? away + 1 : 0)
		if (own - stretch.x >= away && take_place(g, own - away))
			g.d_next[row] = own - away;
		else if (own + away < stretch.y && take_place(g, own + away))
			g.d_next[row] = own + away;
}

/* Brings the rows into the order of the groups that they are in; d_count begins with zeroes. */
__global__ void
order_kernel(const Groups g)
{
	uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;

	if (row >= g.n)
		return;

	uint32_t group = g.d_chosen[row];

	g.d_order[g.d_start[group] + atomicAdd(&g.d_count[group], 1u)] = row;
}

/* ---- copies ---- */

/* Squared distance of two middles. */
__device__ inline float
apart(const Groups &g, uint32_t a, uint32_t b)
{
	const __half2 *d_a = (const __half2 *) (g.d_means + (size_t) a * g.width);
	const __half2 *d_b = (const __half2 *) (g.d_means + (size_t) b * g.width);
	float		   sum = 0;

	for (uint32_t j = 0; j < g.width / 2; j++)
	{
		float2 x = __half22float2(d_a[j]), y = __half22float2(d_b[j]);

		sum += (x.x - y.x) * (x.x - y.x) + (x.y - y.y) * (x.y - y.y);
	}
	return sum;
}

/*
 * How little a row is helped by a copy in each of its choices, in place of their distances
 * (copy_loss() of group_refine.c), and keys by which those come first that are helped most, in
 * units of the own distance.
 */
__global__ void
loss_kernel(const Groups g, uint32_t *d_keys, uint32_t *d_rows)
{
	uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;

	if (row >= g.n)
		return;

	float *d_distance = g.d_distance + (size_t) row * CHOICES, own = INFINITY,
		  least = INFINITY;
	uint32_t *d_choice = g.d_choice + (size_t) row * CHOICES, chosen = g.d_chosen[row];

	for (int c = 0; c < CHOICES; c++)
		if (d_choice[c] == chosen)
			own = d_distance[c];
	for (int c = 0; c < CHOICES; c++)
	{
		float loss = INFINITY;

		if (d_choice[c] != EMPTY_ID && d_choice[c] != chosen)
		{
			float along = (own + d_distance[c] - apart(g, chosen, d_choice[c])) / 2;

			loss = d_distance[c] + along * along / (own > 0 ? own : 1.0f);
		}
		d_distance[c] = loss;
		least = fminf(least, loss);
	}
	/* (numbers that are none come last) */
	least /= own;
	d_keys[row] = least < INFINITY ? __float_as_uint(least) : FULL;
	d_rows[row] = row;
}

/* Gives rows a second group, while there is room. */
__global__ void
copy_kernel(const Groups g, const uint32_t *d_sorted)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= g.n)
		return;

	uint32_t row = d_sorted[i], tried = 0, to = EMPTY_ID;

	while (to == EMPTY_ID)
	{
		float least = INFINITY;
		int	  best = -1;

		for (int c = 0; c < CHOICES; c++)
		{
			float loss = g.d_distance[(size_t) row * CHOICES + c];

			if (!(tried >> c & 1) && loss < least)
			{
				least = loss;
				best = c;
			}
		}
		if (best < 0)
			break;
		tried |= 1u << best;

		uint32_t group = g.d_choice[(size_t) row * CHOICES + best];

		if (take_place(g, group))
			to = group;
	}
	g.d_copied[row] = to;
}

/* ---- the call ---- */

/* Where all of a batch lies; workspace: of cub's. */
struct GroupsLayout : Layout
{
	size_t rows, norms, means, mean_norms, stretch, order, start, count, chosen, next,
		copied;
	size_t distance, choice, keys[2], sorted[2], codes, factors, tiles, most, work;

	GroupsLayout(uint32_t n, uint32_t groups, uint32_t width, uint32_t code_bytes,
				 size_t work_bytes)
		: rows(reserve<__half>((size_t) n * width)), norms(reserve<float>(n)),
		  means(reserve<__half>((size_t) groups * width)),
		  mean_norms(reserve<float>(groups)), stretch(reserve<uint2>(groups)),
		  order(reserve<uint32_t>(n)), start(reserve<uint32_t>((size_t) groups + 1)),
		  count(reserve<uint32_t>((size_t) groups + 1)), chosen(reserve<uint32_t>(n)),
		  next(reserve<uint32_t>(n)), copied(reserve<uint32_t>(n)),
		  distance(reserve<float>((size_t) n * CHOICES)),
		  choice(reserve<uint32_t>((size_t) n * CHOICES)), keys {reserve<uint32_t>(n),
																 reserve<uint32_t>(n)},
		  sorted {reserve<uint32_t>(n), reserve<uint32_t>(n)},
		  codes(reserve<uint8_t>((size_t) n * code_bytes)), factors(reserve<uint32_t>(n)),
		  /* a stretch has at least half of STRETCH groups, or is a whole list */
		  tiles(reserve<Tile>((size_t) n / TILE_ROWS + groups + 1)),
		  most(reserve<uint32_t>(1)), work(reserve<uint8_t>(work_bytes))
	{
	}
};

/* The groups of a batch's lists, and how rows are dealt out at first. */
struct Start
{
	std::vector<uint32_t> first; /* [groups + 1] positions */
	std::vector<uint2>	  stretch;
	std::vector<Tile>	  tiles;

	Start(const GrnListToGroup *lists, uint32_t nlists)
	{
		uint32_t n = 0, groups = 0;

		for (uint32_t i = 0; i < nlists; i++)
		{
			const GrnListToGroup &list = lists[i];
			uint32_t			  stretches = (list.groups + STRETCH - 1) / STRETCH;
			auto				  begin = [&](uint32_t group)
			{ return n + (uint32_t) ((uint64_t) list.n * group / list.groups); };

			for (uint32_t s = 0; s < stretches; s++)
			{
				uint32_t low = (uint32_t) ((uint64_t) list.groups * s / stretches);
				uint32_t high = (uint32_t) ((uint64_t) list.groups * (s + 1) / stretches);

				for (uint32_t group = low; group < high; group++)
				{
					first.push_back(begin(group));
					stretch.push_back(make_uint2(groups + low, groups + high));
				}
				for (uint32_t at = begin(low); at < begin(high); at += TILE_ROWS)
					tiles.push_back({at, std::min(begin(high) - at, (uint32_t) TILE_ROWS),
									 groups + low, high - low});
			}
			n += list.n;
			groups += list.groups;
		}
		first.push_back(n);
	}
};

/* Bytes of workspace that cub wants. */
static cudaError_t
find_work_bytes(uint32_t n, uint32_t groups, size_t *bytes)
{
	cub::DoubleBuffer<uint32_t> keys(NULL, NULL), rows(NULL, NULL);
	size_t						sort = 0, scan = 0;

	GRN_TRY(cub::DeviceRadixSort::SortPairs(NULL, sort, keys, rows, n, 0, 32));
	GRN_TRY(cub::DeviceScan::ExclusiveSum(NULL, scan, (uint32_t *) NULL,
										  (uint32_t *) NULL, groups + 1));
	*bytes = std::max(sort, scan);
	return cudaSuccess;
}

/* Chooses the groups of a batch, whose rows are decoded and whose groups have begun. */
static cudaError_t
choose_groups(const Device &device, Groups &g, const Tile *d_tiles, uint32_t ntiles,
			  uint8_t *d, const GroupsLayout &space, size_t work_bytes)
{
	cudaStream_t				stream = device.stream;
	uint32_t					blocks = (g.n + BLOCK - 1) / BLOCK;
	uint8_t					   *d_work = d + space.work;
	cub::DoubleBuffer<uint32_t> keys((uint32_t *) (d + space.keys[0]),
									 (uint32_t *) (d + space.keys[1]));
	cub::DoubleBuffer<uint32_t> sorted((uint32_t *) (d + space.sorted[0]),
									   (uint32_t *) (d + space.sorted[1]));

	begin_groups_kernel<<<g.groups, WARP * 4, 0, stream>>>(g);
	GRN_TRY(cudaGetLastError());
	for (int round = 0; round < ROUNDS; round++)
	{
		mean_kernel<<<g.groups, BLOCK, 0, stream>>>(g);
		GRN_TRY(cudaGetLastError());
		choose_kernel<<<ntiles, CHOOSE_WARPS * WARP, 0, stream>>>(g, d_tiles);
		GRN_TRY(cudaGetLastError());
		regret_kernel<<<blocks, BLOCK, 0, stream>>>(g, keys.Current(), sorted.Current());
		GRN_TRY(cudaGetLastError());
		GRN_TRY(cub::DeviceRadixSort::SortPairs(d_work, work_bytes, keys, sorted, g.n, 0,
												32, stream));
		GRN_TRY(cudaMemsetAsync(g.d_count, 0, ((size_t) g.groups + 1) * sizeof(uint32_t),
								stream));
		move_kernel<<<blocks, BLOCK, 0, stream>>>(g, sorted.Current());
		GRN_TRY(cudaGetLastError());
		move_rest_kernel<<<blocks, BLOCK, 0, stream>>>(g);
		GRN_TRY(cudaGetLastError());
		std::swap(g.d_chosen, g.d_next);
		if (round == ROUNDS - 1)
			break;
		GRN_TRY(cub::DeviceScan::ExclusiveSum(d_work, work_bytes, g.d_count, g.d_start,
											  g.groups + 1, stream));
		GRN_TRY(cudaMemsetAsync(g.d_count, 0, ((size_t) g.groups + 1) * sizeof(uint32_t),
								stream));
		order_kernel<<<blocks, BLOCK, 0, stream>>>(g);
		GRN_TRY(cudaGetLastError());
	}
	/* d_count are the rows of groups */
	loss_kernel<<<blocks, BLOCK, 0, stream>>>(g, keys.Current(), sorted.Current());
	GRN_TRY(cudaGetLastError());
	GRN_TRY(cub::DeviceRadixSort::SortPairs(d_work, work_bytes, keys, sorted, g.n, 0, 32,
											stream));
	copy_kernel<<<blocks, BLOCK, 0, stream>>>(g, sorted.Current());
	GRN_TRY(cudaGetLastError());
	return cudaStreamSynchronize(stream);
}

/* Groups of a batch become those of its lists. */
static void
number_groups(const GrnListToGroup *lists, uint32_t nlists, uint32_t *chosen,
			  uint32_t *copied)
{
	uint32_t groups = 0;

	for (uint32_t i = 0; i < nlists; i++)
	{
		for (uint32_t row = 0; row < lists[i].n; row++)
		{
			chosen[row] -= groups;
			if (copied[row] != EMPTY_ID)
				copied[row] -= groups;
		}
		chosen += lists[i].n;
		copied += lists[i].n;
		groups += lists[i].groups;
	}
}

/* The lists of one batch: n rows, groups groups. */
static GrnGpuStatus
group_batch(GrnGpu *gpu, const GrnGpuGrouping *grouping, const GrnListToGroup *lists,
			uint32_t nlists, uint32_t n, uint32_t groups, uint64_t limit,
			GrnGpuError *err)
{
	const GrnGpuCodes &codes = grouping->codes;
	uint64_t		   at = lists[0].first;
	cudaStream_t	   stream = gpu->device.stream;
	Start			   start(lists, nlists);
	size_t			   work_bytes;

	GRN_CHECK(find_work_bytes(n, groups, &work_bytes), "could not use the CUDA device");

	uint32_t	 width = (codes.used + 15) / 16 * 16;
	GroupsLayout space(n, groups, width, codes.bytes, work_bytes);
	GrnGpuStatus status;

	if (space.bytes > limit)
		return gpu_no_memory(err, space.bytes, limit);
	grn_gpu_end(gpu);
	status = gpu_allocate((void **) &gpu->d_arena, space.bytes, space.bytes, limit, err);
	if (status != GRN_GPU_OK)
		return status;
	gpu->arena = space.bytes;
	gpu->peak = std::max(gpu->peak, gpu->kept_bytes + gpu->arena);

	uint8_t	 *d = gpu->d_arena;
	uint8_t	 *d_codes = d + space.codes;
	uint32_t *d_factors = (uint32_t *) (d + space.factors),
			 *d_most = (uint32_t *) (d + space.most);
	Tile  *d_tiles = (Tile *) (d + space.tiles);
	Groups g = {n,
				groups,
				width,
				grouping->room,
				(__half *) (d + space.rows),
				(float *) (d + space.norms),
				(__half *) (d + space.means),
				(float *) (d + space.mean_norms),
				(uint2 *) (d + space.stretch),
				(uint32_t *) (d + space.order),
				(uint32_t *) (d + space.start),
				(uint32_t *) (d + space.count),
				(uint32_t *) (d + space.chosen),
				(uint32_t *) (d + space.next),
				(uint32_t *) (d + space.copied),
				(float *) (d + space.distance),
				(uint32_t *) (d + space.choice)};

	GRN_CHECK(staging_copy(&gpu->staging, gpu->number, true, d_codes,
						   (void *) codes.codes, codes.bytes, codes.bytes, n,
						   grouping->members + at),
			  "could not copy codes to the device");
	GRN_CHECK(staging_copy(&gpu->staging, gpu->number, true, d_factors,
						   (void *) codes.factors, sizeof(uint32_t), sizeof(uint32_t), n,
						   grouping->members + at),
			  "could not copy codes to the device");
	GRN_CHECK(staging_wait(&gpu->staging), "could not copy codes to the device");
	GRN_CHECK(cudaMemcpyAsync(g.d_start, start.first.data(),
							  start.first.size() * sizeof(uint32_t),
							  cudaMemcpyHostToDevice, stream),
			  "could not copy to the device");
	GRN_CHECK(cudaMemcpyAsync(g.d_stretch, start.stretch.data(),
							  start.stretch.size() * sizeof(uint2),
							  cudaMemcpyHostToDevice, stream),
			  "could not copy to the device");
	GRN_CHECK(cudaMemcpyAsync(d_tiles, start.tiles.data(),
							  start.tiles.size() * sizeof(Tile), cudaMemcpyHostToDevice,
							  stream),
			  "could not copy to the device");
	GRN_CHECK(cudaMemsetAsync(d_most, 0, sizeof(uint32_t), stream),
			  "could not use the CUDA device");
	most_kernel<<<(n + BLOCK - 1) / BLOCK, BLOCK, 0, stream>>>(d_factors, n, d_most);
	GRN_CHECK(cudaGetLastError(), "could not use the CUDA device");
	decode_kernel<<<(n + BLOCK / WARP - 1) / (BLOCK / WARP), BLOCK, 0, stream>>>(
		g, codes, d_codes, d_factors, d_most);
	GRN_CHECK(cudaGetLastError(), "could not use the CUDA device");
	GRN_CHECK(choose_groups(gpu->device, g, d_tiles, (uint32_t) start.tiles.size(), d,
							space, work_bytes),
			  "could not put rows into groups");
	GRN_CHECK(staging_copy(&gpu->staging, gpu->number, false, g.d_chosen,
						   grouping->chosen + at, sizeof(uint32_t), sizeof(uint32_t), n),
			  "could not copy from the device");
	GRN_CHECK(staging_copy(&gpu->staging, gpu->number, false, g.d_copied,
						   grouping->copied + at, sizeof(uint32_t), sizeof(uint32_t), n),
			  "could not copy from the device");
	number_groups(lists, nlists, grouping->chosen + at, grouping->copied + at);
	return GRN_GPU_OK;
}

extern "C" GrnGpuStatus
grn_gpu_group(GrnGpu *gpu, const GrnGpuGrouping *grouping, uint64_t memory_limit,
			  GrnGpuError *err)
{
	uint64_t limit;

	grn_gpu_end(gpu);

	GrnGpuStatus status = grn_gpu_limit(gpu, memory_limit, &limit, err);

	if (status != GRN_GPU_OK)
		return status;
	if (grouping->codes.used < 1 || grouping->codes.used > GRN_GPU_GROUP_DIMS ||
		grouping->room < 1)
		return gpu_fail(err, GRN_GPU_FAILED, "impossible groups", NULL);
	for (uint32_t i = 0; i < grouping->nlists;)
	{
		uint32_t end = i;
		uint64_t n = 0, groups = 0;

		for (; end < grouping->nlists &&
			   (end == i || n + grouping->lists[end].n <= BATCH_ROWS);
			 end++)
		{
			const GrnListToGroup &list = grouping->lists[end];

			if (list.n < 1 || list.groups < 1 || list.groups > list.n ||
				list.n >= GRN_MAX_NODES || list.first != grouping->lists[i].first + n ||
				(uint64_t) list.groups * grouping->room < list.n)
				return gpu_fail(err, GRN_GPU_FAILED, "impossible groups", NULL);
			n += list.n;
			groups += list.groups;
		}
		status = group_batch(gpu, grouping, grouping->lists + i, end - i, (uint32_t) n,
							 (uint32_t) groups, limit, err);
		if (status != GRN_GPU_OK)
			break;
		i = end;
	}
	grn_gpu_end(gpu);
	return status;
}
