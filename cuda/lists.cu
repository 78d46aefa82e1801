/*
 * lists.cu - sends reverse edges, between outer iterations (section 3.6 of the paper) and
 * at the end, and makes lists of pools and reverse edges at the end.  If digests are
 * approximate, lists are also sorted by the distances of the caller's rows.
 */
#include "common.cuh"

/*
 * Threads of a block.  The end of a build takes as long with half and twice (a million SIFT rows),
 * or .0053 and .0057 s instead of .0052 s (200,000 GIST rows).
 */
constexpr int FINISH_THREADS = 256;
constexpr int MAX_LIST = MAX_POOL + MAX_INBOX;
constexpr int PW = MAX_POOL / WARP; /* keys of a pool that one lane holds */

/* Sends v to the inboxes of its nearest rho * count neighbors; one warp handles one vertex. */
__global__ void
__launch_bounds__(FINISH_THREADS)
	reverse_kernel(const Key *d_pool, const uint8_t *d_pool_count, uint32_t n,
				   uint32_t pool, Key *d_inbox, uint32_t *d_inbox_count, uint32_t inbox,
				   float rho)
{
	uint32_t v = blockIdx.x * (FINISH_THREADS / WARP) + threadIdx.x / WARP;
	int		 lane = lane_id();

	if (v >= n)
		return;
	for (uint32_t slot = lane; slot < ceilf(rho * d_pool_count[v]); slot += WARP)
	{
		Key		 key = d_pool[(size_t) v * pool + slot];
		uint32_t id = (uint32_t) key;

		store_key(d_inbox, inbox, id, atomicAdd(&d_inbox_count[id], 1u),
				  (uint32_t) (key >> 32), v);
	}
}

/*
 * Makes the list of v: v's pool and, up to a length of fill <= degree, the nearest of the reverse
 * edges in v's inbox.  One warp handles one vertex.  With d_order the list is written as the list
 * of row d_order[v], and names rows.  Without d_order the list is v's, and names vertices.
 */
template <int IW>
__global__ void
__launch_bounds__(FINISH_THREADS)
	fill_kernel(const Key *d_pool, const uint8_t *d_pool_count, const Key *d_inbox,
				const uint32_t *d_inbox_count, uint32_t n, uint32_t pool, uint32_t inbox,
				uint32_t degree, uint32_t fill, const uint32_t *d_order, Lists lists)
{
	__shared__ Key s_all[FINISH_THREADS / WARP][MAX_LIST];
	Key			  *s_key = s_all[threadIdx.x / WARP]; /* the pool from 0 on, the inbox
													   * from MAX_POOL on */
	uint32_t	   v = blockIdx.x * (FINISH_THREADS / WARP) + threadIdx.x / WARP;
	int			   lane = lane_id();

	if (v >= n)
		return;
	uint32_t npool = d_pool_count[v], ninbox = 0;
	Key		 mine[PW], offer[IW];
	uint32_t below = (1u << lane) - 1, nown = 0, position[PW];
	bool	 alive[PW];

#pragma unroll
	for (int w = 0; w < PW; w++)
	{
		uint32_t slot = lane + WARP * w;

		mine[w] = slot < npool ? d_pool[(size_t) v * pool + slot] : EMPTY_KEY;
		/* Distances in binary16 may have put a neighbor into the pool twice. */
		uint32_t same = __match_any_sync(FULL, (uint32_t) mine[w]);

		alive[w] = slot < npool && lane == __ffs(same) - 1;
		for (uint32_t p = 0; w > 0 && p < nown; p++)
			if ((uint32_t) s_key[p] == (uint32_t) mine[w])
				alive[w] = false;
		uint32_t mask = __ballot_sync(FULL, alive[w]);

		position[w] = nown + __popc(mask & below);
		nown += __popc(mask);
		__syncwarp();
		if (alive[w])
			s_key[position[w]] = mine[w];
		__syncwarp();
	}
	npool = nown;
	/* Reverse edges to members of the pool are dropped. */
	uint32_t pool_before[IW] = {};

#pragma unroll
	for (int w = 0; w < IW; w++)
		offer[w] = lane + WARP * w < min(d_inbox_count[v], inbox)
					   ? d_inbox[(size_t) v * inbox + lane + WARP * w]
					   : EMPTY_KEY;
	for (uint32_t p = 0; p < npool; p++)
	{
		Key other = s_key[p];

#pragma unroll
		for (int w = 0; w < IW; w++)
		{
			/* At equal distances members of the pool come first. */
			pool_before[w] += (uint32_t) (other >> 32) <= (uint32_t) (offer[w] >> 32);
			if ((uint32_t) other == (uint32_t) offer[w])
				offer[w] = EMPTY_KEY;
		}
	}
	/* Only the first of equal reverse edges remains, packed at s_key[MAX_POOL]. */
#pragma unroll
	for (int w = 0; w < IW; w++)
	{
		uint32_t others = __match_any_sync(FULL, (uint32_t) offer[w]);

		if (lane != __ffs(others) - 1)
			offer[w] = EMPTY_KEY;
		if (w > 0)
			for (uint32_t q = MAX_POOL; q < MAX_POOL + ninbox; q++)
				if ((uint32_t) s_key[q] == (uint32_t) offer[w])
					offer[w] = EMPTY_KEY;

		uint32_t mask = __ballot_sync(FULL, offer[w] != EMPTY_KEY);

		if (offer[w] != EMPTY_KEY)
			s_key[MAX_POOL + ninbox + __popc(mask & below)] = offer[w];
		ninbox += __popc(mask);
		__syncwarp();
	}

	uint32_t offers_before[IW] = {}, offers_before_mine[PW] = {};

	for (uint32_t q = MAX_POOL; q < MAX_POOL + ninbox; q++)
	{
		Key other = s_key[q];

#pragma unroll
		for (int w = 0; w < PW; w++)
			offers_before_mine[w] +=
				(uint32_t) (other >> 32) < (uint32_t) (mine[w] >> 32);
#pragma unroll
		for (int w = 0; w < IW; w++)
			offers_before[w] += other < offer[w];
	}

	uint32_t  extra = fill > npool ? fill - npool : 0, row = d_order ? d_order[v] : v;
	uint32_t *d_out = lists.d_ids + (size_t) row * degree;
	auto	  name = [=](Key key)
	{ return d_order ? d_order[(uint32_t) key] : (uint32_t) key; };

#pragma unroll
	for (int w = 0; w < PW; w++)
	{
		position[w] += min(offers_before_mine[w], extra);
		if (alive[w] && position[w] < degree)
			d_out[position[w]] = name(mine[w]);
	}
#pragma unroll
	for (int w = 0; w < IW; w++)
		if (offer[w] != EMPTY_KEY && offers_before[w] < extra)
			d_out[pool_before[w] + offers_before[w]] = name(offer[w]);
	end_list(lists, row, degree, min(npool + min(ninbox, extra), degree));
}

__global__ void
count_below_kernel(const Key *d_pool, const uint8_t *d_pool_count, uint32_t n,
				   uint32_t pool, uint32_t limit, uint32_t *d_count)
{
	uint32_t v = blockIdx.x * FINISH_THREADS + threadIdx.x;
	bool	 below = v < n && d_pool_count[v] > 0 &&
				 (uint32_t) (d_pool[(size_t) v * pool] >> 32) < limit;
	int count = __syncthreads_count(below);

	if (threadIdx.x == 0 && count > 0)
		atomicAdd(d_count, (uint32_t) count);
}

/*
 * Sorts lists by the distances of the caller's rows.  Warps process lists in the order of
 * the descent, so that near warps read the same rows.
 */
__global__ void
__launch_bounds__(FINISH_THREADS)
	exact_order_kernel(const float *d_rows, uint32_t n, uint32_t dim, uint32_t degree,
					   const uint32_t *d_order, uint32_t *d_ids, const uint8_t *d_counts)
{
	constexpr int AT_ONCE = 4; /* neighbors whose rows are loaded together */
	constexpr int HELD =
		(GRN_MAX_DEGREE + WARP - 1) / WARP; /* keys that one lane holds */
	uint32_t i = blockIdx.x * (FINISH_THREADS / WARP) + threadIdx.x / WARP;
	int		 lane = lane_id();

	if (i >= n)
		return;
	uint32_t	 v = d_order[i], count = d_counts[v];
	uint32_t	*d_list = d_ids + (size_t) v * degree;
	const float *d_own = d_rows + (size_t) v * dim;
	Key			 key[HELD];

#pragma unroll
	for (int h = 0; h < HELD; h++)
	{
		uint32_t slot = lane + WARP * h, id = slot < count ? d_list[slot] : EMPTY_ID;
		uint32_t here = count > WARP * h ? min(count - WARP * h, WARP) : 0;
		float	 distance = 0;

		for (uint32_t j = 0; j < here; j += AT_ONCE)
		{
			const float *d_other[AT_ONCE];
			float		 sum[AT_ONCE] = {};

#pragma unroll
			for (int k = 0; k < AT_ONCE; k++)
				d_other[k] =
					d_rows + (size_t) __shfl_sync(FULL, id, min(j + k, here - 1)) * dim;
			if (dim % 4 == 0)
				for (uint32_t d = 4 * lane; d < dim; d += 4 * WARP)
				{
					float4 x = *(const float4 *) (d_own + d);

#pragma unroll
					for (int k = 0; k < AT_ONCE; k++)
					{
						float4 y = *(const float4 *) (d_other[k] + d);

						y.x -= x.x, y.y -= x.y, y.z -= x.z, y.w -= x.w;
						sum[k] += (y.x * y.x + y.y * y.y) + (y.z * y.z + y.w * y.w);
					}
				}
			else
				for (uint32_t d = lane; d < dim; d += WARP)
#pragma unroll
					for (int k = 0; k < AT_ONCE; k++)
					{
						float y = d_other[k][d] - d_own[d];

						sum[k] += y * y;
					}
#pragma unroll
			for (int k = 0; k < AT_ONCE; k++)
			{
				for (int s = 16; s > 0; s /= 2)
					sum[k] += __shfl_xor_sync(FULL, sum[k], s);
				if (lane == j + k)
					distance = sum[k];
			}
		}
		key[h] = slot < count ? make_key(__float_as_uint(distance), id) : EMPTY_KEY;
	}

	uint32_t position[HELD] = {};

#pragma unroll
	for (int h = 0; h < HELD; h++)
		for (int l = 0; l < WARP && WARP * h + l < count; l++)
		{
			Key other = __shfl_sync(FULL, key[h], l);

#pragma unroll
			for (int m = 0; m < HELD; m++)
				position[m] += other < key[m];
		}
#pragma unroll
	for (int h = 0; h < HELD; h++)
		if (key[h] != EMPTY_KEY)
			d_list[position[h]] = (uint32_t) key[h];
}

static uint32_t
blocks_of_warps(uint32_t n)
{
	return (uint32_t) (((uint64_t) n * WARP + FINISH_THREADS - 1) / FINISH_THREADS);
}

/* Sends reverse edges to the inboxes that the next update round reads. */
cudaError_t
launch_reverse(const Device &device, TileGraph &graph, float rho)
{
	GRN_REQUIRE(graph.valid() && rho >= 0 && rho <= 1);
	reverse_kernel<<<blocks_of_warps(graph.n), FINISH_THREADS, 0, device.stream>>>(
		graph.d_pool, graph.d_pool_count, graph.n, graph.pool, graph.d_inbox[graph.side],
		graph.d_inbox_count[graph.side], graph.inbox, rho);
	return cudaGetLastError();
}

cudaError_t
launch_fill(const Device &device, const TileGraph &graph, const uint32_t *d_order,
			uint32_t degree, uint32_t fill, const Lists &out)
{
	auto kernel = graph.inbox <= WARP ? fill_kernel<1> : fill_kernel<2>;

	GRN_REQUIRE(graph.valid() && degree > 0 && degree <= GRN_MAX_DEGREE);
	GRN_REQUIRE(fill <= degree);
	kernel<<<blocks_of_warps(graph.n), FINISH_THREADS, 0, device.stream>>>(
		graph.d_pool, graph.d_pool_count, graph.d_inbox[graph.side],
		graph.d_inbox_count[graph.side], graph.n, graph.pool, graph.inbox, degree, fill,
		d_order, out);
	return cudaGetLastError();
}

cudaError_t
launch_count_below(const Device &device, const TileGraph &graph, uint32_t limit,
				   uint32_t *d_count)
{
	GRN_REQUIRE(graph.valid());
	GRN_TRY(cudaMemsetAsync(d_count, 0, sizeof(uint32_t), device.stream));
	count_below_kernel<<<(graph.n + FINISH_THREADS - 1) / FINISH_THREADS, FINISH_THREADS,
						 0, device.stream>>>(graph.d_pool, graph.d_pool_count, graph.n,
											 graph.pool, limit, d_count);
	return cudaGetLastError();
}

cudaError_t
launch_exact_order(const Device &device, const float *d_rows, uint32_t n, uint32_t dim,
				   uint32_t degree, const uint32_t *d_order, uint32_t *d_ids,
				   const uint8_t *d_counts)
{
	GRN_REQUIRE(n > 0 && dim > 0 && degree <= GRN_MAX_DEGREE);
	exact_order_kernel<<<blocks_of_warps(n), FINISH_THREADS, 0, device.stream>>>(
		d_rows, n, dim, degree, d_order, d_ids, d_counts);
	return cudaGetLastError();
}
