/*
 * build.cu - runs the steps of one build on the device.
 */
#include <algorithm>

#include "handle.h"

/*
 * Makes a plan for digests of another size and reallocates the arena to match.  If the
 * new plan exceeds the memory limit, *done is false and nothing has changed.
 */
static cudaError_t
change_digests(GrnGpu *gpu, DigestSize size, bool *done)
{
	Plan	 plan = make_plan(gpu, &gpu->params, &gpu->options, gpu->n, gpu->dim, size);
	uint64_t total =
		plan.total + (gpu->d_own_rows ? gpu->n * gpu->dim * sizeof(float) : 0);

	*done = total <= gpu->limit;
	if (!*done)
		return cudaSuccess;
	GRN_TRY(cudaFree(gpu->d_arena));
	gpu->d_arena = NULL;
	GRN_TRY(cudaMalloc((void **) &gpu->d_arena, plan.total));
	gpu->plan = plan;
	gpu->arena = plan.total;
	gpu->peak = std::max(gpu->peak, total);
	return cudaSuccess;
}

/* Makes digests by a projection, for rows that cannot be their own digests. */
static cudaError_t
project(Build &b)
{
	GrnGpu	   *gpu = b.gpu;
	const Plan &plan = gpu->plan;
	uint32_t	n = (uint32_t) gpu->n;
	FitArgs		args = {gpu->d_rows,
						n,
						gpu->dim,
						plan.digest_dims,
						b.digests.format,
						plan.tuning.seed,
						gpu->d_arena + plan.scratch};
	uint32_t	most =
		most_digest_dims(gpu->dim, b.digests.format, gpu->options.few_directions);
	Projection projection;
	auto	   more_space = [&](uint8_t **d_space) -> cudaError_t
	{
		bool done;

		GRN_TRY(change_digests(gpu, DIGESTS_MORE, &done));
		*d_space = done ? gpu->d_arena + plan.scratch : NULL;
		return cudaSuccess;
	};

	GRN_TRY(fit_enough(gpu->device, args, most, more_space, &projection));
	return launch_apply(gpu->device, projection, gpu->d_rows, n, b.digests.format,
						plan.stride, gpu->d_arena + plan.bare_digests);
}

/* Makes digests of the rows at plan.bare_digests, in the caller's order. */
static cudaError_t
convert(Build &b)
{
	GrnGpu		 *gpu = b.gpu;
	const Plan	 &plan = gpu->plan;
	const Tuning &t = plan.tuning;
	uint32_t	  n = (uint32_t) gpu->n;

	b.digests.n = n;
	b.digests.format = (RowFormat) t.format;
	b.exact = gpu->options.rows == GRN_GPU_EXACT_DIGESTS ||
			  gpu->options.rows == GRN_GPU_BIT_DIGESTS;
	if (gpu->options.rows != GRN_GPU_FLOATS)
		/* the caller has passed digests */;
	else if (gpu->dim <= PROJECTED_DIMS && t.format == ROWS_S8)
	{
		int	 other = 1;
		int *d_other = (int *) (gpu->d_arena + plan.flag);

		GRN_TRY(launch_integers(gpu->device, gpu->d_rows, n, gpu->dim, plan.stride,
								gpu->d_arena + plan.bare_digests, d_other));
		GRN_TRY(fetch_value(&other, d_other, gpu->device.stream));
		b.exact = other == 0;
	}
	if (!b.exact && gpu->options.rows == GRN_GPU_FLOATS)
		GRN_TRY(project(b));
	b.digests.stride = plan.stride;
	b.digests.seg = plan.stride < 128 ? plan.stride : 128;
	b.digests.nseg = plan.stride / b.digests.seg;
	return cudaSuccess;
}

/* Orders the rows, copies the digests into the new order, and finds the first neighbors. */
static cudaError_t
begin_graph(Build &b)
{
	GrnGpu		 *gpu = b.gpu;
	const Plan	 &plan = gpu->plan;
	const Tuning &t = plan.tuning;
	uint8_t		 *d_arena = gpu->d_arena;
	uint32_t	  n = b.digests.n, bins = t.bins > 1 ? t.bins : 0;
	StartSpace	  space = start_layout(d_arena + plan.scratch, n, bins, plan.stride);
	Digests		  bare = b.digests;

	bare.d_rows = d_arena + plan.bare_digests;
	b.d_order = (uint32_t *) (d_arena + plan.order);
	GRN_TRY(launch_order(gpu->device, bare, space, bins, t.seed, b.d_order));
	GRN_TRY(launch_gather(gpu->device, bare, b.d_order, d_arena + plan.digests,
						  (uint32_t *) (d_arena + plan.norms)));
	b.digests.d_rows = d_arena + plan.digests;
	b.digests.d_norms = (uint32_t *) (d_arena + plan.norms);

	TileGraph &g = b.graph;

	g.d_pool = (Key *) (d_arena + plan.pool);
	g.d_pool_count = d_arena + plan.pool_count;
	for (int i = 0; i < 2; i++)
	{
		g.d_inbox[i] = (Key *) (d_arena + plan.inbox[i]);
		g.d_inbox_count[i] = (uint32_t *) (d_arena + plan.inbox_count[i]);
		GRN_TRY(
			cudaMemsetAsync(g.d_inbox_count[i], 0, 4 * (size_t) n, gpu->device.stream));
	}
	g.d_list = (uint64_t *) (d_arena + plan.list);
	g.d_list_count = (uint32_t *) (d_arena + plan.list_count);
	g.n = n;
	g.pool = t.pool;
	g.inbox = t.inbox;
	g.side = 0;
	GRN_TRY(cudaMemsetAsync(g.d_pool_count, 0, n, gpu->device.stream));
	if (t.window > 0)
		GRN_TRY(launch_window(gpu->device, b.digests, g, t.window));
	if (t.random_edges > 0)
		GRN_TRY(launch_random_edges(gpu->device, b.digests, g, t.random_edges, t.seed,
									t.window > 0));
	return cudaSuccess;
}

/* Reports a round, after the end of the round before: a cancel waits for one round at most. */
static cudaError_t
report(Build &b)
{
	GrnGpu *gpu = b.gpu;

	b.done++;
	if (!b.progress)
		return cudaSuccess;
	GRN_TRY(cudaEventRecord(gpu->round[b.done & 1], gpu->device.stream));
	if (b.done > 1)
		GRN_TRY(cudaEventSynchronize(gpu->round[(b.done - 1) & 1]));
	b.canceled = !b.progress(b.progress_ctx, b.done, b.rounds);
	return cudaSuccess;
}

/* Runs the update rounds, and adds reverse edges between outer iterations. */
static cudaError_t
descend(Build &b)
{
	const Tuning &t = b.gpu->plan.tuning;

	b.rounds = t.first + (uint64_t) (t.outer - 1) * t.inner;
	for (uint32_t outer = 0; outer < t.outer && !b.canceled; outer++)
	{
		uint32_t inner = outer == 0 ? t.first : t.inner;

		if (outer > 0)
			GRN_TRY(launch_reverse(b.gpu->device, b.graph, t.rho));
		for (uint32_t i = 0; i < inner && !b.canceled; i++)
		{
			GRN_TRY(launch_update_round(b.gpu->device, b.digests, b.graph, t.keep));
			GRN_TRY(report(b));
		}
	}
	return cudaSuccess;
}

/* Makes lists of pools and inboxes, in the order of d_order if that is not NULL. */
static cudaError_t
make_lists(const Build &b, const uint32_t *d_order, const Lists &lists)
{
	const Plan &plan = b.gpu->plan;

	return launch_fill(b.gpu->device, b.graph, d_order, plan.degree, plan.tuning.fill,
					   lists);
}

/* Makes the final lists of pools and inboxes, by the options and the tuning. */
static cudaError_t
finish(Build &b)
{
	GrnGpu	   *gpu = b.gpu;
	const Plan &plan = gpu->plan;

	/* Makes edges that the last round has redirected to inboxes available as candidates. */
	GRN_TRY(launch_reverse(gpu->device, b.graph, 1.0f));
	b.d_counts = gpu->d_arena + plan.counts;
	Lists lists = {(uint32_t *) b.graph.d_inbox[1 - b.graph.side], b.d_counts};

	b.d_ids = lists.d_ids;
	if (gpu->options.fill)
	{
		/* The first lists of vertices use the inboxes that no later round reads. */
		lists.d_counts = (uint8_t *) b.graph.d_inbox_count[1 - b.graph.side];
		GRN_TRY(make_lists(b, NULL, lists));
		b.d_ids = (uint32_t *) b.graph.d_inbox[b.graph.side];
		GRN_TRY(launch_near_digests(gpu->device, b.digests, lists, plan.degree, b.d_order,
									Lists {b.d_ids, b.d_counts}));
	}
	else
		GRN_TRY(make_lists(b, b.d_order, lists));
	if (gpu->named)
		return launch_rename(gpu->device, b.digests.n, plan.degree,
							 (uint32_t *) (gpu->d_arena + plan.members), b.d_counts,
							 b.d_ids);
	if (!b.exact)
		GRN_TRY(launch_exact_order(gpu->device, gpu->d_rows, b.digests.n, gpu->dim,
								   plan.degree, b.d_order, b.d_ids, b.d_counts));
	return cudaSuccess;
}

/*
 * Decides whether digests of 8 bits are too coarse: for many vertices the distance of the nearest
 * neighbor is so small that rounding hides which neighbor is nearest (grn_least_fine()).  If so
 * and if memory allows, sets *again, and the build starts over with digests in binary16.
 */
static cudaError_t
widen_if_coarse(Build &b, bool *again)
{
	GrnGpu	 *gpu = b.gpu;
	uint32_t *d_count = (uint32_t *) (gpu->d_arena + gpu->plan.flag), count;

	*again = false;
	if (b.exact || b.digests.format != ROWS_S8 || b.canceled)
		return cudaSuccess;
	GRN_TRY(launch_count_below(gpu->device, b.graph,
							   grn_least_fine(gpu->plan.digest_dims), d_count));
	GRN_TRY(fetch_value(&count, d_count, gpu->device.stream));
	if (count <= gpu->n / GRN_MOST_COARSE)
		return cudaSuccess;
	b.coarse = gpu->options.rows != GRN_GPU_FLOATS;
	if (b.coarse)
		return cudaSuccess; /* only the caller has the rows */
	/* Kept digests of 8 bits are of no use now, and might leave too little memory. */
	grn_gpu_drop_digests(gpu);
	GRN_TRY(change_digests(gpu, DIGESTS_WIDE, again));
	if (*again)
		b.done = 0;
	return cudaSuccess;
}

cudaError_t
build_tile(Build &b)
{
	GrnGpu		*gpu = b.gpu;
	cudaStream_t stream = gpu->device.stream;
	bool		 again;

	do
	{
		GRN_TRY(convert(b));
		GRN_TRY(cudaEventRecord(gpu->mark[1], stream));
		GRN_TRY(begin_graph(b));
		GRN_TRY(descend(b));
		GRN_TRY(widen_if_coarse(b, &again));
	} while (again);
	GRN_TRY(cudaEventRecord(gpu->mark[2], stream));
	if (!b.canceled)
		GRN_TRY(finish(b));
	return cudaSuccess;
}
