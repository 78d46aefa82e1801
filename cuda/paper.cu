/*
 * paper.cu - GRNND as the paper writes it (Algorithms 3 to 6).  It builds on devices that
 * lack what tile mode needs, and repeats the paper's ablations.
 *
 * A warp works on one vertex.  It draws random pairs from the vertex's read pool.  A
 * neighbour that is redirected is inserted into the write pool of the closer one of its
 * pair.  Each round the two pools are swapped.  Between outer iterations the nearest rho of
 * a pool get reverse edges.
 *
 * One thing differs: an entry of a pool carries the distance to the vertex beside the id,
 * so that WARP_INSERT need not compute R distances to find the farthest.  The outcome is
 * the same.  Entries are 64-bit words that only atomics change.  Two warps that insert the
 * same id into one pool at once may each miss the other's entry; the final prune drops the
 * second.
 */
#include "common.cuh"

constexpr int	   PAPER_WARPS = 4;
constexpr int	   PAPER_THREADS = PAPER_WARPS * WARP;
constexpr uint32_t MAX_R = MAX_PAPER_R;

/* Algorithm 5: the squared distance of two rows, in every lane. */
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

/* Algorithm 6: inserts far, at the given distance, into a pool, d_pool [r]. */
__device__ inline void
warp_insert(Key *d_pool, uint32_t *d_count, uint32_t r, uint32_t far, float distance,
			int lane)
{
	Key mine = make_key(__float_as_uint(distance), far);

	/* Step 1: does the pool hold it? */
	for (uint32_t base = 0; base < r; base += WARP)
	{
		Key entry = base + lane < r ? read_entry(&d_pool[base + lane]) : EMPTY_KEY;

		if (__any_sync(FULL, entry != EMPTY_KEY && (uint32_t) entry == far))
			return;
	}
	/* Step 2: it takes a free slot, if there is one. */
	uint32_t slot = 0;

	if (lane == 0)
	{
		slot = *(volatile uint32_t *) d_count < r ? atomicAdd(d_count, 1u) : r;
		if (slot < r)
			atomicExch((unsigned long long *) &d_pool[slot], (unsigned long long) mine);
	}
	slot = __shfl_sync(FULL, slot, 0);
	if (slot < r)
		return;
	/* Step 3: else it replaces the farthest entry, if that is farther. */
	Key		 farthest = 0;
	uint32_t where = 0;

	for (uint32_t i = lane; i < r; i += WARP)
	{
		Key entry = read_entry(&d_pool[i]);

		if (entry != EMPTY_KEY && entry >= farthest)
			farthest = entry, where = i;
	}
	Key most = farthest;

	for (int offset = 16; offset > 0; offset /= 2)
		most = max(most, __shfl_xor_sync(FULL, most, offset));
	uint32_t owners = __ballot_sync(FULL, farthest == most);

	if (lane == __ffs(owners) - 1 && mine < most)
		atomicCAS((unsigned long long *) &d_pool[where], (unsigned long long) most,
				  (unsigned long long) mine);
	__syncwarp();
}

__global__ void
__launch_bounds__(PAPER_THREADS)
	paper_init_kernel(const float *d_rows, uint32_t n, uint32_t dim, Key *d_pool,
					  uint32_t *d_count, uint32_t r, uint32_t s, uint64_t seed)
{
	uint32_t v = blockIdx.x * PAPER_WARPS + threadIdx.x / WARP;
	int		 lane = lane_id();

	if (v >= n)
		return;
	bool	 all = n - 1 <= s;
	uint32_t picks = all ? n - 1 : s;

	for (uint32_t i = 0; i < picks; i++)
	{
		uint32_t id = all ? i : random_below(random64(seed, 2 + (uint64_t) v, i), n - 1);

		id += id >= v;
		warp_insert(d_pool + (size_t) v * r, &d_count[v], r, id,
					warp_distance(d_rows, dim, v, id, lane), lane);
		__syncwarp();
	}
}

struct PaperShared
{
	Key entry[MAX_R];
};

/* Copies the pool of v, count entries, to shared memory. */
__device__ inline void
load_entries(const Key *d_pool, uint32_t v, uint32_t r, uint32_t count, Key *s_entry,
			 int lane)
{
	for (uint32_t i = lane; i < count; i += WARP)
		s_entry[i] = d_pool[(size_t) v * r + i];
	__syncwarp();
}

/* Sorts count entries, the nearest first. */
__device__ inline void
sort_entries(Key *s_entry, uint32_t count, int lane)
{
	Key		 mine[MAX_R / WARP];
	uint32_t place[MAX_R / WARP] = {};

#pragma unroll
	for (int w = 0; w < MAX_R / WARP; w++)
		mine[w] = lane + WARP * w < count ? s_entry[lane + WARP * w] : EMPTY_KEY;
	for (uint32_t i = 0; i < count; i++)
	{
		Key other = s_entry[i];

#pragma unroll
		for (int w = 0; w < MAX_R / WARP; w++)
			place[w] += other < mine[w] || (other == mine[w] && i < lane + WARP * w);
	}
	__syncwarp();
#pragma unroll
	for (int w = 0; w < MAX_R / WARP; w++)
		if (lane + WARP * w < count)
			s_entry[place[w]] = mine[w];
	__syncwarp();
}

/* Pair number p of the ordered ablations: (1,0), (2,0), (2,1), (3,0), ... */
__device__ inline void
ordered_pair(uint32_t p, uint32_t &i, uint32_t &j)
{
	i = (uint32_t) ((1.0f + sqrtf(1.0f + 8.0f * p)) / 2);
	while (i * (i - 1) / 2 > p)
		i--;
	while ((i + 1) * i / 2 <= p)
		i++;
	j = p - i * (i - 1) / 2;
}

/* Algorithm 4. */
__global__ void
__launch_bounds__(PAPER_THREADS)
	paper_update_kernel(const float *d_rows, uint32_t n, uint32_t dim, const Key *d_read,
						const uint32_t *d_read_count, Key *d_write,
						uint32_t *d_write_count, uint32_t r, GrnPairOrder order,
						uint32_t pairs, uint64_t seed, uint32_t round)
{
	__shared__ PaperShared s_all[PAPER_WARPS];
	Key					  *s_entry = s_all[threadIdx.x / WARP].entry;
	uint32_t			   v = blockIdx.x * PAPER_WARPS + threadIdx.x / WARP;
	int					   lane = lane_id();

	if (v >= n)
		return;
	uint32_t count = min(d_read_count[v], r);
	uint32_t possible = count * (count - 1) / 2;

	load_entries(d_read, v, r, count, s_entry, lane);
	if (order != GRN_ORDER_DISORDERED)
		sort_entries(s_entry, count, lane);
	if (count < 2)
		pairs = 0;
	else if (order != GRN_ORDER_DISORDERED)
		pairs = min(pairs, possible);
	for (uint32_t p = 0; p < pairs; p++)
	{
		uint32_t i, j;

		if (order == GRN_ORDER_DISORDERED)
		{
			uint64_t bits = random64(seed, ((uint64_t) round << 32 | v) + 1000, p);

			i = random_below(bits, count);
			j = random_below(bits >> 32, count - 1);
			j += j >= i;
		}
		else
			ordered_pair(order == GRN_ORDER_ASCENDING ? p : possible - 1 - p, i, j);
		Key x = s_entry[i], y = s_entry[j];

		if (x == EMPTY_KEY || y == EMPTY_KEY || (uint32_t) x == (uint32_t) y)
			continue;
		Key	  close = min(x, y), far = max(x, y);
		float between = warp_distance(d_rows, dim, (uint32_t) x, (uint32_t) y, lane);

		if (between < __uint_as_float((uint32_t) (far >> 32)))
		{
			uint32_t target = (uint32_t) close;

			warp_insert(d_write + (size_t) target * r, &d_write_count[target], r,
						(uint32_t) far, between, lane);
			__syncwarp();
			if (lane == 0)
				s_entry[far == x ? i : j] = EMPTY_KEY;
			__syncwarp();
		}
	}
	for (uint32_t i = 0; i < count; i++)
	{
		Key entry = s_entry[i];

		if (entry != EMPTY_KEY)
			warp_insert(d_write + (size_t) v * r, &d_write_count[v], r, (uint32_t) entry,
						__uint_as_float((uint32_t) (entry >> 32)), lane);
		__syncwarp();
	}
}

/* Section 3.6: reverse edges for the nearest rho * k of each pool. */
__global__ void
__launch_bounds__(PAPER_THREADS)
	paper_reverse_kernel(const Key *d_from, const uint32_t *d_from_count, uint32_t n,
						 Key *d_pool, uint32_t *d_count, uint32_t r, float rho)
{
	__shared__ PaperShared s_all[PAPER_WARPS];
	Key					  *s_entry = s_all[threadIdx.x / WARP].entry;
	uint32_t			   v = blockIdx.x * PAPER_WARPS + threadIdx.x / WARP;
	int					   lane = lane_id();

	if (v >= n)
		return;
	uint32_t count = min(d_from_count[v], r), top = (uint32_t) ceilf(rho * count);

	load_entries(d_from, v, r, count, s_entry, lane);
	sort_entries(s_entry, count, lane);
	for (uint32_t i = 0; i < min(top, count); i++)
	{
		uint32_t target = (uint32_t) s_entry[i];

		if (s_entry[i] != EMPTY_KEY)
			warp_insert(d_pool + (size_t) target * r, &d_count[target], r, v,
						__uint_as_float((uint32_t) (s_entry[i] >> 32)), lane);
		__syncwarp();
	}
}

/* The end: sorts a pool, drops duplicates, and keeps what the RNG rule does, up to the degree. */
__global__ void
__launch_bounds__(PAPER_THREADS)
	paper_prune_kernel(const float *d_rows, uint32_t n, uint32_t dim, const Key *d_pool,
					   const uint32_t *d_count, uint32_t r, uint32_t degree,
					   uint32_t *d_ids, uint8_t *d_counts)
{
	__shared__ PaperShared s_all[PAPER_WARPS];
	Key					  *s_entry = s_all[threadIdx.x / WARP].entry;
	uint32_t			   v = blockIdx.x * PAPER_WARPS + threadIdx.x / WARP;
	int					   lane = lane_id();

	if (v >= n)
		return;
	uint32_t count = min(d_count[v], r), kept = 0;

	load_entries(d_pool, v, r, count, s_entry, lane);
	sort_entries(s_entry, count, lane);
	for (uint32_t i = 0; i < count && kept < degree; i++)
	{
		Key	 x = s_entry[i];
		bool keep = x != EMPTY_KEY && (uint32_t) x != v;

		/* s_entry[0, kept) are the neighbours kept so far. */
		for (uint32_t k = 0; k < kept && keep; k++)
		{
			uint32_t y = (uint32_t) s_entry[k];

			keep =
				y != (uint32_t) x && !(warp_distance(d_rows, dim, (uint32_t) x, y, lane) <
									   __uint_as_float((uint32_t) (x >> 32)));
		}
		__syncwarp();
		if (keep)
		{
			if (lane == 0)
			{
				s_entry[kept] = x;
				d_ids[(size_t) v * degree + kept] = (uint32_t) x;
			}
			kept++;
		}
		__syncwarp();
	}
	if (lane == 0)
		d_counts[v] = (uint8_t) kept;
}

static uint32_t
paper_blocks(uint32_t n)
{
	return (n + PAPER_WARPS - 1) / PAPER_WARPS;
}

PaperSpace
paper_layout(uint8_t *d_base, uint32_t n, uint32_t r)
{
	Layout	   layout = {d_base};
	PaperSpace space;

	for (int i = 0; i < 2; i++)
	{
		space.d_pool[i] = layout.take<Key>((size_t) n * r);
		space.d_count[i] = layout.take<uint32_t>(n);
	}
	space.bytes = layout.bytes;
	return space;
}

static cudaError_t
clear_pool(const Device &device, const PaperSpace &space, int side, uint32_t n,
		   uint32_t r)
{
	GRN_TRY(cudaMemsetAsync(space.d_pool[side], 0xff, sizeof(Key) * (size_t) n * r,
							device.stream));
	return cudaMemsetAsync(space.d_count[side], 0, 4 * (size_t) n, device.stream);
}

cudaError_t
launch_paper_init(const Device &device, const float *d_rows, uint32_t n, uint32_t dim,
				  const PaperSpace &space, uint32_t r, uint32_t s, uint64_t seed)
{
	GRN_REQUIRE(n > 0 && dim > 0 && r > 0 && r <= MAX_R);
	GRN_TRY(clear_pool(device, space, 0, n, r));
	GRN_TRY(clear_pool(device, space, 1, n, r));
	paper_init_kernel<<<paper_blocks(n), PAPER_THREADS, 0, device.stream>>>(
		d_rows, n, dim, space.d_pool[0], space.d_count[0], r, s, seed);
	return cudaGetLastError();
}

cudaError_t
launch_paper_update(const Device &device, const float *d_rows, uint32_t n, uint32_t dim,
					PaperSpace &space, uint32_t r, GrnPairOrder order, uint32_t pairs,
					uint64_t seed, uint32_t round)
{
	GRN_REQUIRE(n > 0 && dim > 0 && r > 0 && r <= MAX_R);
	paper_update_kernel<<<paper_blocks(n), PAPER_THREADS, 0, device.stream>>>(
		d_rows, n, dim, space.d_pool[0], space.d_count[0], space.d_pool[1],
		space.d_count[1], r, order, pairs, seed, round);
	GRN_TRY(cudaGetLastError());
	GRN_TRY(clear_pool(device, space, 0, n, r));

	Key		 *d_pool = space.d_pool[0];
	uint32_t *d_count = space.d_count[0];

	space.d_pool[0] = space.d_pool[1];
	space.d_count[0] = space.d_count[1];
	space.d_pool[1] = d_pool;
	space.d_count[1] = d_count;
	return cudaSuccess;
}

/* A copy of the pools is read, so that no warp offers what another one has just inserted. */
cudaError_t
launch_paper_reverse(const Device &device, uint32_t n, const PaperSpace &space,
					 uint32_t r, float rho)
{
	GRN_REQUIRE(n > 0 && r > 0 && r <= MAX_R && rho >= 0);
	GRN_TRY(cudaMemcpyAsync(space.d_pool[1], space.d_pool[0],
							sizeof(Key) * (size_t) n * r, cudaMemcpyDeviceToDevice,
							device.stream));
	GRN_TRY(cudaMemcpyAsync(space.d_count[1], space.d_count[0], 4 * (size_t) n,
							cudaMemcpyDeviceToDevice, device.stream));
	paper_reverse_kernel<<<paper_blocks(n), PAPER_THREADS, 0, device.stream>>>(
		space.d_pool[1], space.d_count[1], n, space.d_pool[0], space.d_count[0], r, rho);
	GRN_TRY(cudaGetLastError());
	return clear_pool(device, space, 1, n, r);
}

cudaError_t
launch_paper_prune(const Device &device, const float *d_rows, uint32_t n, uint32_t dim,
				   const PaperSpace &space, uint32_t r, uint32_t degree, uint32_t *d_ids,
				   uint8_t *d_counts)
{
	GRN_REQUIRE(n > 0 && dim > 0 && r > 0 && r <= MAX_R);
	GRN_REQUIRE(degree > 0 && degree <= GRN_MAX_DEGREE);
	paper_prune_kernel<<<paper_blocks(n), PAPER_THREADS, 0, device.stream>>>(
		d_rows, n, dim, space.d_pool[0], space.d_count[0], r, degree, d_ids, d_counts);
	return cudaGetLastError();
}
