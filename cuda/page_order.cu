/*
 * page_order.cu - what is done with a finished graph while the device still has it: which
 * vertices an entry reaches, and the order of the vertices on an index's pages.
 *
 * The order is that of src/graph/build/page_order.c, vertex by vertex, so it does not matter
 * where it is made.  The graph is cut into regions, the vertices nearest (by steps) to one of many
 * sources; vertices are sorted by region; and each region is packed into pages by one warp.
 * One vertex is packed after the other, but
 * thousands of regions at the same time: the largest, which may have several times as many
 * vertices as most, decides how long it takes.
 */
#include <algorithm>

#include "handle.h"

/* A key of a search has the number of its source in so many bits, and the level above. */
constexpr int SOURCE_BITS = 12;
static_assert(GRN_GPU_MOST_SOURCES == 1 << SOURCE_BITS,
			  "a key has room for every source");
/* A search through more levels is left to the processor: each waits for the one before. */
constexpr uint32_t MAX_LEVELS = 512;
/* Vertices are sorted in pieces of so many at least, so many pieces at most. */
constexpr uint32_t PIECE = 1024;
constexpr uint32_t MAX_PIECES = 512;
/* The following three are as in src/graph/build/page_order.c. */
constexpr uint32_t MAX_CANDIDATES = 2048;
constexpr uint32_t SEEN = 0x8000;
constexpr uint32_t PACKED = 0xffff;
constexpr int	   SEARCH_THREADS = 256;
/* A cache line of lists that are asked for ahead of time. */
constexpr uint32_t LINE = 64;

/* ---- breadth-first searches ---- */

/* A search that labels vertices with the nearest source: the smallest key that any offers. */
struct Labels
{
	uint32_t *d_keys;  /* [n] EMPTY_ID: not found yet */
	uint32_t  level;   /* of the vertices to be found */
	uint32_t  offered; /* by the vertex at work */

	__device__ inline void start(uint32_t v)
	{
		offered = level << SOURCE_BITS | (d_keys[v] & ((1u << SOURCE_BITS) - 1));
	}
	/* True if id is found for the first time. */
	__device__ inline bool mark(uint32_t id)
	{
		return d_keys[id] > offered && atomicMin(&d_keys[id], offered) == EMPTY_ID;
	}
};

/* A search that marks what one vertex reaches. */
struct Marks
{
	uint32_t *d_words; /* [(n + 31) / 32] a bit a vertex */
	uint32_t  level;

	__device__ inline void start(uint32_t)
	{
	}
	__device__ inline bool mark(uint32_t id)
	{
		uint32_t bit = 1u << id % 32;

		return !(d_words[id / 32] & bit) && !(atomicOr(&d_words[id / 32], bit) & bit);
	}
};

/* One level: the neighbours of d_queue[first, last) that are new come to its end. */
template <class Search>
__global__ void
__launch_bounds__(SEARCH_THREADS)
	level_kernel(Search search, Lists graph, uint32_t degree, uint32_t *d_queue,
				 uint32_t first, uint32_t last, uint32_t *d_tail)
{
	uint32_t warps = gridDim.x * (SEARCH_THREADS / WARP);
	int		 lane = lane_id();

	for (uint32_t i = first + (blockIdx.x * SEARCH_THREADS + threadIdx.x) / WARP;
		 i < last; i += warps)
	{
		uint32_t v = d_queue[i], count = graph.d_counts[v];

		search.start(v);
		for (uint32_t base = 0; base < count; base += WARP)
		{
			uint32_t id = base + lane < count
							  ? graph.d_ids[(size_t) v * degree + base + lane]
							  : EMPTY_ID;
			bool	 found = id != EMPTY_ID && search.mark(id);
			uint32_t mask = __ballot_sync(FULL, found), at = 0;

			if (mask != 0 && lane == 0)
				at = atomicAdd(d_tail, (uint32_t) __popc(mask));
			at = __shfl_sync(FULL, at, 0) + __popc(mask & ((1u << lane) - 1));
			if (found)
				d_queue[at] = id;
		}
	}
}

/*
 * Searches from the first nsources of d_queue [n], which are marked; *found gets how many
 * vertices are, 0 where there are too many levels.
 */
template <class Search>
static cudaError_t
search_levels(const Device &device, Search search, const Lists &graph, uint32_t degree,
			  uint32_t *d_queue, uint32_t nsources, uint32_t *d_tail, uint32_t *found)
{
	uint32_t first = 0, last = nsources;

	GRN_TRY(cudaMemcpyAsync(d_tail, &nsources, sizeof(nsources), cudaMemcpyHostToDevice,
							device.stream));
	for (search.level = 1; first < last; search.level++)
	{
		uint32_t blocks =
			(last - first + SEARCH_THREADS / WARP - 1) / (SEARCH_THREADS / WARP);

		if (search.level > MAX_LEVELS)
		{
			*found = 0;
			return cudaSuccess;
		}
		level_kernel<<<std::min(blocks, 32u * device.sms), SEARCH_THREADS, 0,
					   device.stream>>>(search, graph, degree, d_queue, first, last,
										d_tail);
		GRN_TRY(cudaGetLastError());
		first = last;
		GRN_TRY(fetch_value(&last, d_tail, device.stream));
	}
	*found = last;
	return cudaSuccess;
}

__global__ void
sources_kernel(const uint32_t *d_queue, uint32_t nsources, uint32_t *d_keys)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < nsources)
		d_keys[d_queue[i]] = i;
}

/* ---- vertices by region ---- */

/* What no source reaches is a region of its own, the last. */
__device__ inline uint32_t
region_of(uint32_t key, uint32_t regions)
{
	return key == EMPTY_ID ? regions - 1 : key & ((1u << SOURCE_BITS) - 1);
}

/*
 * Counts a piece's vertices by region, or, once d_count has the rank of the next vertex of
 * piece and region, gives them their ranks; one warp a piece.
 */
template <bool PLACE>
__global__ void
region_kernel(const uint32_t *d_keys, uint32_t n, uint32_t pieces, uint32_t regions,
			  uint32_t *d_count, uint32_t *d_rank)
{
	uint32_t piece = (blockIdx.x * blockDim.x + threadIdx.x) / WARP;
	int		 lane = lane_id();

	if (piece >= pieces)
		return;
	uint32_t  end = (uint32_t) ((uint64_t) n * (piece + 1) / pieces);
	uint32_t *d_own = d_count + (size_t) piece * regions;

	for (uint32_t base = (uint32_t) ((uint64_t) n * piece / pieces); base < end;
		 base += WARP)
	{
		uint32_t v = base + lane, key = v < end ? d_keys[v] : EMPTY_ID;
		uint32_t region = v < end ? region_of(key, regions) : EMPTY_ID;
		uint32_t same = __match_any_sync(FULL, region), at = 0;
		int		 leader = __ffs(same) - 1;

		if (lane == leader && v < end)
			at = atomicAdd(&d_own[region], (uint32_t) __popc(same));
		at = __shfl_sync(FULL, at, leader) + __popc(same & ((1u << lane) - 1));
		if (PLACE && v < end)
			d_rank[v] = at;
		__syncwarp();
	}
}

/* d_start[region] = its vertices in all pieces; one thread a region. */
__global__ void
sum_kernel(const uint32_t *d_count, uint32_t pieces, uint32_t regions, uint32_t *d_start)
{
	uint32_t region = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;

	if (region >= regions)
		return;
	for (uint32_t piece = 0; piece < pieces; piece++)
		sum += d_count[(size_t) piece * regions + region];
	d_start[region] = sum;
}

/* Numbers become exclusive sums, d_start[regions] that of all; by one block. */
__global__ void __launch_bounds__(1024) start_kernel(uint32_t *d_start, uint32_t regions)
{
	__shared__ uint32_t s_start[GRN_GPU_MOST_SOURCES + 2];

	for (uint32_t i = threadIdx.x; i < regions; i += blockDim.x)
		s_start[i] = d_start[i];
	__syncthreads();
	if (threadIdx.x == 0)
	{
		uint32_t sum = 0;

		for (uint32_t i = 0; i < regions; i++)
		{
			uint32_t count = s_start[i];

			s_start[i] = sum;
			sum += count;
		}
		s_start[regions] = sum;
	}
	__syncthreads();
	for (uint32_t i = threadIdx.x; i <= regions; i += blockDim.x)
		d_start[i] = s_start[i];
}

/* Counts become where the next vertex of piece and region goes; one thread a region. */
__global__ void
next_kernel(uint32_t *d_count, uint32_t pieces, uint32_t regions, const uint32_t *d_start)
{
	uint32_t region = blockIdx.x * blockDim.x + threadIdx.x;

	if (region >= regions)
		return;
	uint32_t next = d_start[region];

	for (uint32_t piece = 0; piece < pieces; piece++)
	{
		uint32_t *d_here = &d_count[(size_t) piece * regions + region], count = *d_here;

		*d_here = next;
		next += count;
	}
}

/*
 * d_inside [n][degree], by rank: the ranks of a vertex's neighbours in its own region, in the
 * order of its list, then EMPTY_ID; one warp a vertex.
 */
__global__ void
__launch_bounds__(SEARCH_THREADS)
	inside_kernel(Lists graph, uint32_t n, uint32_t degree, uint32_t regions,
				  const uint32_t *d_keys, const uint32_t *d_start, const uint32_t *d_rank,
				  uint32_t *d_inside)
{
	uint32_t warps = gridDim.x * (SEARCH_THREADS / WARP);
	int		 lane = lane_id();

	for (uint32_t v = (blockIdx.x * SEARCH_THREADS + threadIdx.x) / WARP; v < n;
		 v += warps)
	{
		uint32_t  region = region_of(d_keys[v], regions), count = graph.d_counts[v];
		uint32_t  start = d_start[region], end = d_start[region + 1], inside = 0;
		uint32_t *d_own = d_inside + (size_t) d_rank[v] * degree;

		for (uint32_t base = 0; base < count; base += WARP)
		{
			uint32_t other = base + lane < count
								 ? d_rank[graph.d_ids[(size_t) v * degree + base + lane]]
								 : EMPTY_ID;
			bool	 in = other >= start && other < end;
			uint32_t mask = __ballot_sync(FULL, in);

			if (in)
				d_own[inside + __popc(mask & ((1u << lane) - 1))] = other;
			inside += __popc(mask);
		}
		for (uint32_t i = inside + lane; i < degree; i += WARP)
			d_own[i] = EMPTY_ID;
	}
}

/* d_position[v] = what the vertex has by its rank; one thread a vertex. */
__global__ void
position_kernel(const uint32_t *d_place, const uint32_t *d_rank, uint32_t n,
				uint32_t *d_position)
{
	uint32_t v = blockIdx.x * blockDim.x + threadIdx.x;

	if (v < n)
		d_position[v] = d_place[d_rank[v]];
}

/* ---- packing ---- */

struct PackArgs
{
	const uint32_t *d_inside; /* [n][degree] */
	uint32_t		degree;
	uint32_t		per_page;
	const uint32_t *d_start; /* [regions + 1] */
	uint32_t *d_seen;  /* [n] ranks by region, in the order in which they were seen */
	uint16_t *d_slot;  /* [n] by rank, as in src/graph/build/page_order.c */
	uint32_t *d_place; /* [n] positions by rank */
};

/* The packing of one region, by a warp: all lanes have the same numbers. */
struct Packing
{
	uint32_t  start, n; /* the region's ranks */
	uint32_t  packed, seen, candidates;
	uint32_t *s_candidate; /* [MAX_CANDIDATES] ranks */
	uint16_t *s_links; /* [MAX_CANDIDATES] edges from the page; 0: it has a position */
};

__device__ inline void
ask_for(const void *d)
{
	asm volatile("prefetch.global.L2 [%0];" : : "l"(d));
}

/*
 * Gives the vertex of that rank the next position; its neighbours get one more link each.  All
 * that is read comes by the rank, so that few reads wait for others.
 */
__device__ inline void
pack(const PackArgs &a, Packing &p, uint32_t rank, int lane)
{
	const uint32_t *d_own = a.d_inside + (size_t) rank * a.degree;
	uint32_t		own = a.d_slot[rank], below = (1u << lane) - 1;
	uint32_t		other = lane < a.degree ? d_own[lane] : EMPTY_ID;

	__syncwarp();
	if (lane == 0)
	{
		a.d_place[rank] = p.start + p.packed;
		if (own > SEEN)
			p.s_links[own - SEEN - 1] = 0;
		a.d_slot[rank] = PACKED;
	}
	p.packed++;
	for (uint32_t base = 0;;)
	{
		uint32_t slot = other != EMPTY_ID ? a.d_slot[other] : PACKED;
		bool	 fresh = slot == 0, chosen = fresh || slot == SEEN;
		uint32_t is_fresh = __ballot_sync(FULL, fresh),
				 is_chosen = __ballot_sync(FULL, chosen);
		uint32_t at = p.candidates + __popc(is_chosen & below);

		if (fresh)
		{
			const uint8_t *d_list =
				(const uint8_t *) (a.d_inside + (size_t) other * a.degree);

			a.d_seen[p.start + p.seen + __popc(is_fresh & below)] = other;
			for (uint32_t byte = 0; byte < 4 * a.degree; byte += LINE)
				ask_for(d_list + byte);
		}
		if (chosen)
		{
			bool room = at < MAX_CANDIDATES;

			if (room)
			{
				p.s_candidate[at] = other;
				p.s_links[at] = 1;
			}
			a.d_slot[other] = (uint16_t) (room ? SEEN + 1 + at : SEEN);
		}
		else if (slot != PACKED)
			p.s_links[slot - SEEN - 1]++;
		p.seen += __popc(is_fresh);
		p.candidates = min(p.candidates + __popc(is_chosen), MAX_CANDIDATES);
		__syncwarp();
		base += WARP;
		if (base >= a.degree || !__all_sync(FULL, other != EMPTY_ID))
			return;
		other = base + lane < a.degree ? d_own[base + lane] : EMPTY_ID;
	}
}

/* The rank of the candidate with most links, the earliest of equals; EMPTY_ID: none. */
__device__ inline uint32_t
best_candidate(const Packing &p, int lane)
{
	uint32_t best = 0; /* links << 16 | what is larger for earlier ones */

	for (uint32_t i = lane; i < p.candidates; i += WARP)
		best = max(best, (uint32_t) p.s_links[i] << 16 | (0xffff - i));
	for (int s = 16; s > 0; s /= 2)
		best = max(best, __shfl_xor_sync(FULL, best, s));
	return best >> 16 == 0 ? EMPTY_ID : p.s_candidate[0xffff - (best & 0xffff)];
}

/* The first of [next, end) that has no position, by d_ranks or itself; next moves past it. */
__device__ inline uint32_t
first_open(const PackArgs &a, const uint32_t *d_ranks, uint32_t &next, uint32_t end,
		   int lane)
{
	while (next < end)
	{
		uint32_t rank =
			next + lane < end ? (d_ranks ? d_ranks[next + lane] : next + lane) : EMPTY_ID;
		uint32_t open = __ballot_sync(FULL, rank != EMPTY_ID && a.d_slot[rank] != PACKED);

		if (open != 0)
		{
			int first = __ffs(open) - 1;

			next += first + 1;
			return __shfl_sync(FULL, rank, first);
		}
		next = min(next + WARP, end);
	}
	return EMPTY_ID;
}

__global__ void
__launch_bounds__(WARP) pack_kernel(const PackArgs a)
{
	__shared__ uint32_t s_candidate[MAX_CANDIDATES];
	__shared__ uint16_t s_links[MAX_CANDIDATES];
	int					lane = lane_id();
	Packing				p = {};

	p.start = a.d_start[blockIdx.x];
	p.n = a.d_start[blockIdx.x + 1] - p.start;
	p.s_candidate = s_candidate;
	p.s_links = s_links;

	uint32_t next_seen = 0, next = p.start, end = p.start + p.n;

	for (uint32_t i = lane; i < p.n; i += WARP)
		a.d_slot[p.start + i] = 0;
	__syncwarp();
	while (p.packed < p.n)
	{
		uint32_t rank = best_candidate(p, lane);

		for (uint32_t i = lane; i < p.candidates; i += WARP)
			if (a.d_slot[s_candidate[i]] != PACKED)
				a.d_slot[s_candidate[i]] = SEEN;
		p.candidates = 0;
		__syncwarp();
		if (rank == EMPTY_ID)
			rank = first_open(a, a.d_seen + p.start, next_seen, p.seen, lane);
		if (rank == EMPTY_ID)
			rank = first_open(a, NULL, next, end, lane);
		pack(a, p, rank, lane);
		for (uint32_t i = 1; i < a.per_page && p.packed < p.n; i++)
		{
			rank = best_candidate(p, lane);
			if (rank == EMPTY_ID)
				break;
			pack(a, p, rank, lane);
		}
	}
}

/* ---- the calls ---- */

/* Where most of this lies: over the pools, which a finished graph needs no more. */
struct OrderLayout : Layout
{
	size_t keys, rank, position, seen, slot, words, start, count, tail;

	OrderLayout(uint32_t n, uint32_t regions, uint32_t pieces)
		: keys(reserve<uint32_t>(n)), rank(reserve<uint32_t>(n)),
		  position(reserve<uint32_t>(n)), seen(reserve<uint32_t>(n)),
		  slot(reserve<uint16_t>(n)), words(reserve<uint64_t>((n + 63) / 64)),
		  start(reserve<uint32_t>(regions + 1)),
		  count(reserve<uint32_t>((size_t) pieces * regions)), tail(reserve<uint32_t>(1))
	{
	}
};

static bool
has_graph(const GrnGpu *gpu, size_t bytes)
{
	return gpu->built.d_ids && gpu->plan.pool + bytes <= gpu->plan.inbox[0];
}

extern "C" GrnGpuStatus
grn_gpu_reach(GrnGpu *gpu, uint32_t entry, uint64_t *reached, uint64_t *count,
			  GrnGpuError *err)
{
	uint32_t	   n = (uint32_t) gpu->n, found = 0;
	OrderLayout	   space(n, 1, 1);
	cudaStream_t   stream = gpu->device.stream;
	uint8_t		  *d = gpu->d_arena + gpu->plan.pool;
	Marks		   marks = {(uint32_t *) (d + space.words), 0};
	const size_t   bytes = (n + 63) / 64 * sizeof(uint64_t);
	const uint32_t bit = 1u << entry % 32;

	*count = 0;
	if (!has_graph(gpu, space.bytes) || entry >= n)
		return gpu_fail(err, GRN_GPU_FAILED, "the device has no graph", NULL);
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	GRN_CHECK(cudaMemsetAsync(marks.d_words, 0, bytes, stream),
			  "could not search the graph");
	GRN_CHECK(cudaMemcpyAsync(&marks.d_words[entry / 32], &bit, sizeof(bit),
							  cudaMemcpyHostToDevice, stream),
			  "could not search the graph");
	GRN_CHECK(cudaMemcpyAsync(d + space.seen, &entry, sizeof(entry),
							  cudaMemcpyHostToDevice, stream),
			  "could not search the graph");
	GRN_CHECK(search_levels(gpu->device, marks, gpu->built, gpu->plan.degree,
							(uint32_t *) (d + space.seen), 1,
							(uint32_t *) (d + space.tail), &found),
			  "could not search the graph");
	if (found == 0)
		return gpu_fail(err, GRN_GPU_FAILED, "the graph is too deep", NULL);
	GRN_CHECK(staging_copy(&gpu->staging, gpu->number, false, marks.d_words, reached,
						   sizeof(uint64_t), sizeof(uint64_t), (n + 63) / 64),
			  "could not copy from the device");
	*count = found;
	return GRN_GPU_OK;
}

/* A graph that the host brings: work for what is asked, then the lists, as a Plan has them. */
struct GraphLayout : Layout
{
	size_t work, lists, inside, counts;

	GraphLayout(uint64_t n, uint32_t degree, size_t work_bytes)
		: work(reserve<uint8_t>(work_bytes)), lists(reserve<uint32_t>(n * degree)),
		  inside(reserve<uint32_t>(n * degree)), counts(reserve<uint8_t>(n))
	{
	}
};

extern "C" GrnGpuStatus
grn_gpu_take_graph(GrnGpu *gpu, uint64_t n, uint32_t degree, const uint32_t *ids,
				   const uint8_t *counts, uint64_t memory_limit, GrnGpuError *err)
{
	if (n < 1 || n >= GRN_MAX_NODES || degree < 1 || degree > GRN_MAX_DEGREE)
		return gpu_fail(err, GRN_GPU_FAILED, "impossible graph", NULL);

	OrderLayout	 order((uint32_t) n, GRN_GPU_MOST_SOURCES + 1, MAX_PIECES);
	const size_t width = degree * sizeof(uint32_t);
	size_t		 cut_bytes;
	uint64_t	 limit;
	GrnGpuStatus status;

	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	GRN_CHECK(cut_order_bytes((uint32_t) n, &cut_bytes), "could not use the CUDA device");

	GraphLayout space(n, degree, std::max(order.bytes, cut_bytes));

	grn_gpu_end(gpu);
	status = grn_gpu_limit(gpu, memory_limit, &limit, err);
	if (status == GRN_GPU_OK && space.bytes > limit)
		status = gpu_no_memory(err, space.bytes, limit);
	if (status == GRN_GPU_OK)
		status =
			gpu_allocate((void **) &gpu->d_arena, space.bytes, space.bytes, limit, err);
	if (status != GRN_GPU_OK)
		return status;
	gpu->arena = space.bytes;
	gpu->peak = std::max(gpu->peak, gpu->kept_bytes + gpu->arena);
	gpu->n = n;
	gpu->plan = Plan();
	gpu->plan.degree = degree;
	gpu->plan.pool = space.work;
	gpu->plan.inbox[0] = space.lists;
	gpu->plan.inbox[1] = space.inside;
	gpu->plan.total = space.bytes;

	Lists lists = {(uint32_t *) (gpu->d_arena + space.lists),
				   gpu->d_arena + space.counts};

	GRN_CHECK(staging_copy(&gpu->staging, gpu->number, true, lists.d_ids, (void *) ids,
						   width, width, n),
			  "could not copy the graph to the device");
	GRN_CHECK(staging_copy(&gpu->staging, gpu->number, true, lists.d_counts,
						   (void *) counts, 1, 1, n),
			  "could not copy the graph to the device");
	GRN_CHECK(staging_wait(&gpu->staging), "could not copy the graph to the device");
	gpu->built = lists;
	gpu->built_digests = Digests();
	return GRN_GPU_OK;
}

/* All steps of the order, in d and d_inside; *found is 0 where the graph is too deep. */
static cudaError_t
order_graph(const Device &device, const Lists &graph, uint32_t n, uint32_t degree,
			const uint32_t *sources, uint32_t nsources, uint32_t per_page,
			uint32_t pieces, uint8_t *d, uint32_t *d_inside, uint32_t *found)
{
	uint32_t	 regions = nsources + 1, blocks = (regions + 255) / 256;
	OrderLayout	 space(n, regions, pieces);
	cudaStream_t stream = device.stream;
	uint32_t	*d_keys = (uint32_t *) (d + space.keys),
			 *d_queue = (uint32_t *) (d + space.seen),
			 *d_count = (uint32_t *) (d + space.count),
			 *d_start = (uint32_t *) (d + space.start),
			 *d_rank = (uint32_t *) (d + space.rank);
	Labels	 labels = {d_keys, 0, 0};
	PackArgs args = {
		d_inside, degree, per_page, d_start, d_queue, (uint16_t *) (d + space.slot),
		d_keys /* which nothing reads by then */
	};

	GRN_TRY(cudaMemsetAsync(d_keys, 0xff, n * sizeof(uint32_t), stream));
	GRN_TRY(cudaMemcpyAsync(d_queue, sources, nsources * sizeof(uint32_t),
							cudaMemcpyHostToDevice, stream));
	sources_kernel<<<blocks, 256, 0, stream>>>(d_queue, nsources, d_keys);
	GRN_TRY(cudaGetLastError());
	GRN_TRY(search_levels(device, labels, graph, degree, d_queue, nsources,
						  (uint32_t *) (d + space.tail), found));
	if (*found == 0)
		return cudaSuccess;

	GRN_TRY(cudaMemsetAsync(d_count, 0, (size_t) pieces * regions * sizeof(uint32_t),
							stream));
	region_kernel<false><<<(pieces + 3) / 4, 4 * WARP, 0, stream>>>(
		d_keys, n, pieces, regions, d_count, d_rank);
	GRN_TRY(cudaGetLastError());
	sum_kernel<<<blocks, 256, 0, stream>>>(d_count, pieces, regions, d_start);
	GRN_TRY(cudaGetLastError());
	start_kernel<<<1, 1024, 0, stream>>>(d_start, regions);
	GRN_TRY(cudaGetLastError());
	next_kernel<<<blocks, 256, 0, stream>>>(d_count, pieces, regions, d_start);
	GRN_TRY(cudaGetLastError());
	region_kernel<true><<<(pieces + 3) / 4, 4 * WARP, 0, stream>>>(
		d_keys, n, pieces, regions, d_count, d_rank);
	GRN_TRY(cudaGetLastError());
	inside_kernel<<<32 * device.sms, SEARCH_THREADS, 0, stream>>>(
		graph, n, degree, regions, d_keys, d_start, d_rank, d_inside);
	GRN_TRY(cudaGetLastError());
	pack_kernel<<<regions, WARP, 0, stream>>>(args);
	GRN_TRY(cudaGetLastError());
	position_kernel<<<(n + 255) / 256, 256, 0, stream>>>(
		args.d_place, d_rank, n, (uint32_t *) (d + space.position));
	GRN_TRY(cudaGetLastError());
	return cudaStreamSynchronize(stream);
}

extern "C" GrnGpuStatus
grn_gpu_page_order(GrnGpu *gpu, const uint32_t *sources, uint32_t nsources,
				   uint32_t per_page, uint32_t *position, GrnGpuError *err)
{
	uint32_t n = (uint32_t) gpu->n, pieces = std::min(n / PIECE + 1, MAX_PIECES), found;
	uint8_t *d = gpu->d_arena + gpu->plan.pool;
	/* The graph lies in one of the inboxes, either of which has room for lists. */
	uint32_t   *d_inside = (uint32_t *) (gpu->d_arena + gpu->plan.inbox[0]);
	OrderLayout space(n, nsources + 1, pieces);

	if (!has_graph(gpu, space.bytes) || nsources < 1 || nsources > GRN_GPU_MOST_SOURCES)
		return gpu_fail(err, GRN_GPU_FAILED, "the device has no graph", NULL);
	if (gpu->built.d_ids == d_inside)
		d_inside = (uint32_t *) (gpu->d_arena + gpu->plan.inbox[1]);
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	GRN_CHECK(order_graph(gpu->device, gpu->built, n, gpu->plan.degree, sources, nsources,
						  per_page, pieces, d, d_inside, &found),
			  "could not order the graph");
	if (found == 0)
		return gpu_fail(err, GRN_GPU_FAILED, "the graph is too deep", NULL);
	GRN_CHECK(staging_copy(&gpu->staging, gpu->number, false, d + space.position,
						   position, sizeof(uint32_t), sizeof(uint32_t), n),
			  "could not copy from the device");
	return GRN_GPU_OK;
}
