/*
 * reach.cu - finds the vertices that an entry reaches in a finished graph.  The device
 * has the graph from a build, or the host has copied the graph to the device.
 */
#include <algorithm>

#include "handle.h"

/* The processor handles searches of more levels, because each level waits for the level before. */
constexpr uint32_t MAX_LEVELS = 512;
/* Threads of a block.  Half and twice take as long (SIFT, GIST). */
constexpr int SEARCH_THREADS = 256;
/* ---- breadth-first search ---- */

/* The set of vertices that the search has found. */
struct Marks
{
	uint32_t *d_words; /* [(n + 31) / 32] one bit for each vertex */

	__device__ inline bool mark(uint32_t id)
	{
		uint32_t bit = 1u << id % 32;

		return !(d_words[id / 32] & bit) && !(atomicOr(&d_words[id / 32], bit) & bit);
	}
};

/* Searches one level: marks and appends the unmarked neighbors of d_queue[first, last). */
__global__ void
__launch_bounds__(SEARCH_THREADS)
	level_kernel(Marks search, Lists graph, uint32_t degree, uint32_t *d_queue,
				 uint32_t first, uint32_t last, uint32_t *d_tail)
{
	uint32_t warps = gridDim.x * (SEARCH_THREADS / WARP);
	int		 lane = lane_id();

	for (uint32_t i = first + (blockIdx.x * SEARCH_THREADS + threadIdx.x) / WARP;
		 i < last; i += warps)
	{
		uint32_t v = d_queue[i], count = graph.d_counts[v];

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
 * Searches from the first nsources vertices of d_queue [n], which the caller has marked.  Sets
 * *found to the number of vertices found, or to 0 if the graph has more than MAX_LEVELS levels.
 */
static cudaError_t
search_levels(const Device &device, const Marks &search, const Lists &graph,
			  uint32_t degree, uint32_t *d_queue, uint32_t nsources, uint32_t *d_tail,
			  uint32_t *found)
{
	uint32_t first = 0, last = nsources;

	GRN_TRY(cudaMemcpyAsync(d_tail, &nsources, sizeof(nsources), cudaMemcpyHostToDevice,
							device.stream));
	for (uint32_t level = 1; first < last; level++)
	{
		uint32_t blocks =
			(last - first + SEARCH_THREADS / WARP - 1) / (SEARCH_THREADS / WARP);

		if (level > MAX_LEVELS)
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

/* ---- the calls ---- */

/* The arrays of a search.  They overlap the pools, which a finished graph does not need. */
struct ReachLayout : Layout
{
	size_t queue, words, tail;

	ReachLayout(uint32_t n)
		: queue(reserve<uint32_t>(n)), words(reserve<uint64_t>((n + 63) / 64)),
		  tail(reserve<uint32_t>(1))
	{
	}
};

extern "C" GrnGpuStatus
grn_gpu_reach(GrnGpu *gpu, uint32_t entry, uint64_t *reached, uint64_t *count,
			  GrnGpuError *err)
{
	uint32_t	   n = (uint32_t) gpu->n, found = 0;
	ReachLayout	   space(n);
	cudaStream_t   stream = gpu->device.stream;
	uint8_t		  *d = gpu->d_arena + gpu->plan.pool;
	Marks		   marks = {(uint32_t *) (d + space.words)};
	const size_t   bytes = (n + 63) / 64 * sizeof(uint64_t);
	const uint32_t bit = 1u << entry % 32;

	*count = 0;
	if (!gpu->built.lists.d_ids || gpu->plan.pool + space.bytes > gpu->plan.inbox[0] ||
		entry >= n)
		return gpu_fail(err, GRN_GPU_FAILED, "the device has no graph", NULL);
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	GRN_CHECK(cudaMemsetAsync(marks.d_words, 0, bytes, stream),
			  "could not search the graph");
	GRN_CHECK(cudaMemcpyAsync(&marks.d_words[entry / 32], &bit, sizeof(bit),
							  cudaMemcpyHostToDevice, stream),
			  "could not search the graph");
	GRN_CHECK(cudaMemcpyAsync(d + space.queue, &entry, sizeof(entry),
							  cudaMemcpyHostToDevice, stream),
			  "could not search the graph");
	GRN_CHECK(search_levels(gpu->device, marks, gpu->built.lists, gpu->plan.degree,
							(uint32_t *) (d + space.queue), 1,
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

/* The arena of a graph from the host: work space, then the lists as in a Plan. */
struct GraphLayout : Layout
{
	size_t work, lists, counts;

	GraphLayout(uint64_t n, uint32_t degree, size_t work_bytes)
		: work(reserve<uint8_t>(work_bytes)), lists(reserve<uint32_t>(n * degree)),
		  counts(reserve<uint8_t>(n))
	{
	}
};

extern "C" GrnGpuStatus
grn_gpu_take_graph(GrnGpu *gpu, uint64_t n, uint32_t degree, const uint32_t *ids,
				   const uint8_t *counts, uint64_t memory_limit, GrnGpuError *err)
{
	if (n < 1 || n >= GRN_MAX_NODES || degree < 1 || degree > GRN_MAX_DEGREE)
		return gpu_fail(err, GRN_GPU_FAILED, "impossible graph", NULL);

	ReachLayout	 reach((uint32_t) n);
	const size_t width = degree * sizeof(uint32_t);
	size_t		 cut_bytes;
	uint64_t	 limit;
	GrnGpuStatus status;

	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	GRN_CHECK(cut_order_bytes((uint32_t) n, &cut_bytes), "could not use the CUDA device");

	GraphLayout space(n, degree, std::max(reach.bytes, cut_bytes));

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
	gpu->peak = std::max(gpu->peak, gpu->kept.bytes + gpu->arena);
	gpu->n = n;
	gpu->plan = Plan();
	gpu->plan.degree = degree;
	gpu->plan.pool = space.work;
	gpu->plan.inbox[0] = space.lists;
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
	gpu->built.lists = lists;
	gpu->built.digests = Digests();
	return GRN_GPU_OK;
}
