/*
 * gpu.cu - gpu.h on CUDA: opens devices, plans memory, and runs the steps of a
 * build.  Here CUDA's errors become GrnGpuStatus; nothing below throws.
 */
#include <stdio.h>
#include <string.h>

#include <chrono>
#include <new>

#include "host.h"

constexpr int MIN_MAJOR = 8;	/* tensor-core products and copies of Ampere */
constexpr uint32_t DEFAULT_PAIRS = 64;	/* paper mode: random pairs a vertex and round */
constexpr uint32_t ROWS_PER_BIN = 256;
constexpr uint32_t MAX_BINS = 4096;
constexpr uint32_t PROJECTED_DIMS = 128;
/* Left to the driver and to others when no limit is set. */
constexpr uint64_t SPARE_BYTES = (uint64_t) 256 << 20;

struct GrnGpu
{
	int			number;
	Device		device;
	Staging		staging;
	cudaEvent_t mark[4];		/* start, converted, descended, finished */
	cudaEvent_t round[2];

	bool		begun;
	uint64_t	n;
	uint32_t	dim;
	GrnGraphParams params;		/* as given to grn_gpu_begin() */
	GrnGpuOptions options;
	Plan		plan;
	uint64_t	limit;			/* bytes this build may take */
	uint8_t    *d_arena;
	float	   *d_own_rows;		/* [n][dim], where rows come from the host */
	const float *d_rows;
	bool		overridden;
	Tuning		override_;
	float		upload;			/* seconds in grn_gpu_rows() */
};

/* Seconds since it was made. */
struct Clock
{
	std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

	float
	seconds() const
	{
		return std::chrono::duration<float>(std::chrono::steady_clock::now() - begin).count();
	}
};

static GrnGpuStatus
fail(GrnGpuError *err, GrnGpuStatus status, const char *what, const char *detail)
{
	if (err)
	{
		err->status = status;
		err->needed = 0;
		snprintf(err->text, sizeof(err->text), "%s%s%s", what, detail ? ": " : "",
				 detail ? detail : "");
	}
	return status;
}

static GrnGpuStatus
fail_cuda(GrnGpuError *err, cudaError_t rc, const char *what)
{
	GrnGpuStatus status = GRN_GPU_FAILED;

	switch (rc)
	{
		case cudaErrorNoDevice:
		case cudaErrorInvalidDevice:
			status = GRN_GPU_ABSENT;
			break;
		case cudaErrorInsufficientDriver:
		case cudaErrorNoKernelImageForDevice:
		case cudaErrorUnsupportedPtxVersion:
			status = GRN_GPU_TOO_OLD;
			break;
		case cudaErrorMemoryAllocation:
			status = GRN_GPU_MEMORY;
			break;
		default:
			break;
	}
	cudaGetLastError();			/* clears an error that is not sticky */
	return fail(err, status, what, cudaGetErrorString(rc));
}

#define GRN_CHECK(call, what) \
	do { \
		cudaError_t grn_check_rc = (call); \
		if (grn_check_rc != cudaSuccess) \
			return fail_cuda(err, grn_check_rc, what); \
	} while (0)

extern "C" GrnGpuStatus
grn_gpu_count(int *count, GrnGpuError *err)
{
	cudaError_t rc = cudaGetDeviceCount(count);

	if (rc == cudaSuccess && *count > 0)
		return GRN_GPU_OK;
	*count = 0;
	if (rc == cudaSuccess || rc == cudaErrorNoDevice)
		return fail(err, GRN_GPU_ABSENT, "no CUDA device found", NULL);
	/* the runtime says "insufficient driver" for none at all too */
	int			driver = 0;

	cudaGetLastError();
	if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
		return fail(err, GRN_GPU_ABSENT, "no NVIDIA driver found", NULL);
	return fail_cuda(err, rc, "could not count CUDA devices");
}

static cudaError_t
open_streams(GrnGpu *gpu)
{
	Device	   &device = gpu->device;

	GRN_TRY(cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking));
	GRN_TRY(cudaEventCreateWithFlags(&device.fork, cudaEventDisableTiming));
	for (int i = 0; i < NCLASSES; i++)
	{
		GRN_TRY(cudaStreamCreateWithFlags(&device.side[i], cudaStreamNonBlocking));
		GRN_TRY(cudaEventCreateWithFlags(&device.join[i], cudaEventDisableTiming));
	}
	for (int i = 0; i < 4; i++)
		GRN_TRY(cudaEventCreate(&gpu->mark[i]));
	for (int i = 0; i < 2; i++)
		GRN_TRY(cudaEventCreateWithFlags(&gpu->round[i], cudaEventDisableTiming));
	return staging_open(&gpu->staging);
}

extern "C" GrnGpuStatus
grn_gpu_open(int device, GrnGpu **out, GrnGpuError *err)
{
	GrnGpu	   *gpu;
	char		text[96];
	int			count;

	*out = NULL;
	GrnGpuStatus status = grn_gpu_count(&count, err);

	if (status != GRN_GPU_OK)
		return status;
	if (device < 0 || device >= count)
	{
		snprintf(text, sizeof(text), "there is no CUDA device %d, only %d", device, count);
		return fail(err, GRN_GPU_ABSENT, text, NULL);
	}
	gpu = new (std::nothrow) GrnGpu();
	if (!gpu)
		return fail(err, GRN_GPU_FAILED, "out of host memory", NULL);
	gpu->number = device;

	cudaError_t rc = cudaSetDevice(device);

	if (rc == cudaSuccess)
		rc = cudaDeviceGetAttribute(&gpu->device.sms, cudaDevAttrMultiProcessorCount, device);
	if (rc == cudaSuccess)
		rc = cudaDeviceGetAttribute(&gpu->device.major, cudaDevAttrComputeCapabilityMajor, device);
	if (rc == cudaSuccess)
		rc = cudaDeviceGetAttribute(&gpu->device.minor, cudaDevAttrComputeCapabilityMinor, device);
	if (rc == cudaSuccess && gpu->device.major < MIN_MAJOR)
	{
		snprintf(text, sizeof(text), "CUDA device %d has compute capability %d.%d, %d.0 is needed",
				 device, gpu->device.major, gpu->device.minor, MIN_MAJOR);
		grn_gpu_close(gpu);
		return fail(err, GRN_GPU_TOO_OLD, text, NULL);
	}
	if (rc == cudaSuccess)
		rc = open_streams(gpu);
	if (rc != cudaSuccess)
	{
		grn_gpu_close(gpu);
		return fail_cuda(err, rc, "could not open the CUDA device");
	}
	*out = gpu;
	return GRN_GPU_OK;
}

extern "C" GrnGpuStatus
grn_gpu_info(GrnGpu *gpu, GrnGpuInfo *info, GrnGpuError *err)
{
	cudaDeviceProp prop;
	size_t		total,
				free_bytes;

	memset(info, 0, sizeof(*info));
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	GRN_CHECK(cudaGetDeviceProperties(&prop, gpu->number), "could not ask the CUDA device");
	GRN_CHECK(cudaMemGetInfo(&free_bytes, &total), "could not ask for device memory");
	snprintf(info->name, sizeof(info->name), "%.127s", prop.name);
	info->major = prop.major;
	info->minor = prop.minor;
	info->memory_total = total;
	info->memory_free = free_bytes;
	return GRN_GPU_OK;
}

extern "C" void
grn_gpu_close(GrnGpu *gpu)
{
	if (!gpu)
		return;
	cudaSetDevice(gpu->number);
	grn_gpu_end(gpu);
	staging_close(&gpu->staging);
	for (int i = 0; i < 4; i++)
		if (gpu->mark[i])
			cudaEventDestroy(gpu->mark[i]);
	for (int i = 0; i < 2; i++)
		if (gpu->round[i])
			cudaEventDestroy(gpu->round[i]);
	for (int i = 0; i < NCLASSES; i++)
	{
		if (gpu->device.side[i])
			cudaStreamDestroy(gpu->device.side[i]);
		if (gpu->device.join[i])
			cudaEventDestroy(gpu->device.join[i]);
	}
	if (gpu->device.fork)
		cudaEventDestroy(gpu->device.fork);
	if (gpu->device.stream)
		cudaStreamDestroy(gpu->device.stream);
	delete gpu;
}

extern "C" void
grn_gpu_default_params(GrnGraphParams *params, uint32_t dim, uint64_t n)
{
	(void) n;
	if (params->degree == 0)
		params->degree = 32;
	if (params->r == 0)
		params->r = POOL;
	if (params->s == 0)
		params->s = 32;
	if (params->t1 == 0)
		params->t1 = 4;
	if (params->t2 == 0)
		params->t2 = 3;
	if (params->rho <= 0)
		params->rho = 1.0f;
}

Tuning
tuning_for(const GrnGraphParams *given, uint32_t dim, uint64_t n)
{
	GrnGraphParams p = *given;
	Tuning		t = {};
	bool		projected = dim > PROJECTED_DIMS;

	grn_gpu_default_params(&p, dim, n);
	t.inbox = 48;
	t.random_edges = p.s < WARP ? p.s : WARP;
	t.bins = (uint32_t) (n / ROWS_PER_BIN);
	t.bins = t.bins < MAX_BINS ? t.bins : MAX_BINS;
	t.window = 256;
	t.outer = p.t1;
	t.inner = p.t2;
	/* the first outer iteration has the longest way to go */
	t.first = p.t2 + (projected ? 1 : 2);
	/* a projection's nearest are less reliable: leave some of the list free */
	t.fill = projected ? p.degree - p.degree * 3 / 16 : p.degree;
	t.keep = p.r < POOL ? p.r : POOL;
	t.rho = p.rho < 1.0f ? p.rho : 1.0f;
	t.exact_order = 1;
	t.seed = p.seed;
	return t;
}

void
grn_gpu_override(GrnGpu *gpu, const Tuning *tuning)
{
	gpu->overridden = tuning != NULL;
	if (tuning)
		gpu->override_ = *tuning;
}

static uint32_t
power_of_two_dims(uint32_t dim)
{
	return dim <= 32 ? 32 : dim <= 64 ? 64 : dim <= 128 ? 128 : 256;
}

static size_t
larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* The one place that knows where things lie; its total is what a build takes. */
static Plan
make_plan(const GrnGpu *gpu, const GrnGraphParams *given, const GrnGpuOptions *options,
		  uint64_t n, uint32_t dim, bool wide = false)
{
	GrnGraphParams params = *given;
	Plan		plan = {};
	size_t		at = 0;
	auto		take = [&](size_t bytes)
	{
		size_t		place = at;

		at += (bytes + 255) & ~(size_t) 255;
		return place;
	};

	grn_gpu_default_params(&params, dim, n);
	plan.mode = options ? options->mode : GRN_GPU_TILE;
	plan.degree = params.degree;
	plan.tuning = gpu && gpu->overridden ? gpu->override_ : tuning_for(given, dim, n);
	Tuning	   &t = plan.tuning;

	if (wide)
		t.format = ROWS_F16;
	plan.counts = take(n);
	if (plan.mode == GRN_GPU_PAPER)
	{
		t.keep = params.r;
		t.random_edges = params.s;
		plan.paper = take(paper_bytes((uint32_t) n, params.r));
		plan.ids = take(n * plan.degree * sizeof(uint32_t));
		plan.total = at;
		return plan;
	}

	plan.code_dims = t.code_dims ? t.code_dims :
		dim <= PROJECTED_DIMS ? power_of_two_dims(dim) : PROJECTED_DIMS;
	plan.stride = plan.code_dims * (t.format == ROWS_F16 ? 2 : 1);
	size_t		inbox_bytes = larger(larger(n * t.inbox * sizeof(Key), n * plan.stride),
									 n * plan.degree * sizeof(uint32_t));
	size_t		start = start_bytes((uint32_t) n, t.bins, plan.stride),
				project = project_bytes((uint32_t) n, dim, plan.code_dims);

	plan.codes = take(n * plan.stride);
	plan.order = take(4 * n);
	plan.norms = take(4 * n);
	plan.pool_count = take(n);
	plan.inbox_count[0] = take(4 * n);
	plan.inbox_count[1] = take(4 * n);
	plan.list = take(NCLASSES * n * sizeof(uint64_t));
	plan.list_count = take(NCLASSES * sizeof(uint32_t));
	plan.flag = take(sizeof(int));
	/* scratch of fit and start ends before pools and inboxes are used */
	plan.scratch = plan.pool = take(larger(n * POOL * sizeof(Key), start));
	plan.inbox[0] = take(inbox_bytes);
	if (at < plan.scratch + project)
		take(plan.scratch + project - at);
	plan.inbox[1] = plan.bare_codes = take(inbox_bytes);
	plan.total = at;
	return plan;
}

extern "C" uint64_t
grn_gpu_plan(GrnGpu *gpu, const GrnGraphParams *params, const GrnGpuOptions *options,
			 uint64_t n, uint32_t dim)
{
	return make_plan(gpu, params, options, n, dim).total + n * dim * sizeof(float);
}

static GrnGpuStatus
no_memory(GrnGpuError *err, uint64_t needed, uint64_t limit)
{
	char		text[160];

	snprintf(text, sizeof(text),
			 "the build needs %.1f GB of device memory, %.1f GB may be used",
			 needed / 1e9, limit / 1e9);
	fail(err, GRN_GPU_MEMORY, text, NULL);
	if (err)
		err->needed = needed;
	return GRN_GPU_MEMORY;
}

extern "C" GrnGpuStatus
grn_gpu_begin(GrnGpu *gpu, uint64_t n, uint32_t dim, const GrnGpuOptions *options,
			  const GrnGraphParams *params, GrnGpuError *err)
{
	size_t		free_bytes,
				total_bytes;

	grn_gpu_end(gpu);
	if (dim < 1 || dim > GRN_MAX_DIM + 1)
		return fail(err, GRN_GPU_FAILED, "dimensions must be between 1 and 16001", NULL);
	if (n >= GRN_MAX_NODES)
		return fail(err, GRN_GPU_FAILED, "too many rows for one build", NULL);
	if (params->degree > GRN_MAX_DEGREE)
		return fail(err, GRN_GPU_FAILED, "degree is larger than 96", NULL);
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	gpu->params = *params;
	gpu->options = options ? *options : GrnGpuOptions();
	gpu->plan = make_plan(gpu, params, options, n, dim);
	gpu->n = n;
	gpu->dim = dim;
	gpu->upload = 0;

	uint64_t	needed = grn_gpu_plan(gpu, params, options, n, dim);

	GRN_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes), "could not ask for device memory");
	uint64_t	limit = free_bytes > SPARE_BYTES ? free_bytes - SPARE_BYTES : 0;

	if (options && options->memory_limit != 0 && options->memory_limit < limit)
		limit = options->memory_limit;
	/* rows may yet come from the caller's device memory: then they are not allocated */
	if (gpu->plan.total > limit)
		return no_memory(err, needed, limit);
	cudaError_t rc = cudaMalloc((void **) &gpu->d_arena, gpu->plan.total);

	if (rc == cudaErrorMemoryAllocation)
	{
		cudaGetLastError();
		gpu->d_arena = NULL;
		return no_memory(err, needed, free_bytes);
	}
	GRN_CHECK(rc, "could not allocate device memory");
	gpu->limit = limit;
	gpu->begun = true;
	return GRN_GPU_OK;
}

extern "C" GrnGpuStatus
grn_gpu_rows(GrnGpu *gpu, uint64_t first, uint64_t nrows, const float *host, uint64_t stride,
			 GrnGpuError *err)
{
	if (!gpu->begun || stride < gpu->dim || first > gpu->n || nrows > gpu->n - first)
		return fail(err, GRN_GPU_FAILED, "rows outside the build that was begun", NULL);
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	if (!gpu->d_own_rows)
	{
		uint64_t	bytes = gpu->n * gpu->dim * sizeof(float);

		if (gpu->plan.total + bytes > gpu->limit)
			return no_memory(err, gpu->plan.total + bytes, gpu->limit);
		cudaError_t rc = cudaMalloc((void **) &gpu->d_own_rows, bytes);

		if (rc == cudaErrorMemoryAllocation)
		{
			cudaGetLastError();
			gpu->d_own_rows = NULL;
			return no_memory(err, gpu->plan.total + bytes, gpu->limit);
		}
		GRN_CHECK(rc, "could not allocate device memory for the rows");
		gpu->d_rows = gpu->d_own_rows;
	}
	size_t		width = gpu->dim * sizeof(float);
	float	   *d = gpu->d_own_rows + first * gpu->dim;
	cudaPointerAttributes where;
	Clock		clock;

	if (cudaPointerGetAttributes(&where, host) == cudaSuccess &&
		where.type == cudaMemoryTypeHost)
	{
		/* pinned already */
		cudaStream_t stream = gpu->staging.stream[0];

		GRN_CHECK(cudaMemcpy2DAsync(d, width, host, stride * sizeof(float), width, nrows,
									cudaMemcpyHostToDevice, stream), "could not copy rows");
		GRN_CHECK(cudaStreamSynchronize(stream), "could not copy rows");
		gpu->upload += clock.seconds();
		return GRN_GPU_OK;
	}
	cudaGetLastError();
	GRN_CHECK(staging_copy(&gpu->staging, gpu->number, true, d, (void *) host, width,
						   stride * sizeof(float), nrows), "could not copy rows to the device");
	gpu->upload += clock.seconds();
	return GRN_GPU_OK;
}

extern "C" GrnGpuStatus
grn_gpu_device_rows(GrnGpu *gpu, const float *d_rows, GrnGpuError *err)
{
	if (!gpu->begun)
		return fail(err, GRN_GPU_FAILED, "rows outside the build that was begun", NULL);
	gpu->d_rows = d_rows;
	return GRN_GPU_OK;
}

/* What a running build hands from step to step. */
struct Build
{
	GrnGpu	   *gpu;
	Codes		codes;
	TileGraph	graph;
	uint32_t   *d_order;
	uint32_t   *d_ids;			/* [n][degree] */
	uint8_t    *d_counts;		/* [n] */
	bool		exact;			/* distances of the descent are those of the input */
	GrnGpuProgressFn progress;
	void	   *progress_ctx;
	uint64_t	done,
				rounds;
	bool		cancelled;
};

/* The caller's rows as codes in the caller's order, at plan.bare_codes. */
static cudaError_t
convert(Build &b)
{
	GrnGpu	   *gpu = b.gpu;
	const Plan &plan = gpu->plan;
	const Tuning &t = plan.tuning;
	uint32_t	n = (uint32_t) gpu->n;
	uint8_t    *d_bare = gpu->d_arena + plan.bare_codes;

	b.codes.n = n;
	b.codes.format = (RowFormat) t.format;
	b.exact = false;
	if (gpu->dim <= PROJECTED_DIMS && t.format == ROWS_S8 && !t.no_integer)
	{
		int			other = 1;
		int		   *d_other = (int *) (gpu->d_arena + plan.flag);

		GRN_TRY(launch_integers(gpu->device, gpu->d_rows, n, gpu->dim, plan.stride, d_bare,
								d_other));
		GRN_TRY(cudaMemcpyAsync(&other, d_other, sizeof(int), cudaMemcpyDeviceToHost,
								gpu->device.stream));
		GRN_TRY(cudaStreamSynchronize(gpu->device.stream));
		b.exact = other == 0;
	}
	if (!b.exact)
		GRN_TRY(launch_project(gpu->device, gpu->d_rows, n, gpu->dim, plan.code_dims,
							   b.codes.format, plan.stride, t.seed, gpu->d_arena + plan.scratch,
							   d_bare));
	b.codes.stride = plan.stride;
	b.codes.seg = plan.stride < 128 ? plan.stride : 128;
	b.codes.nseg = plan.stride / b.codes.seg;
	return cudaSuccess;
}

/* Order, renumbered codes, and the first neighbours. */
static cudaError_t
start(Build &b)
{
	GrnGpu	   *gpu = b.gpu;
	const Plan &plan = gpu->plan;
	const Tuning &t = plan.tuning;
	uint8_t    *d = gpu->d_arena;
	uint32_t	n = b.codes.n,
				bins = t.bins > 1 ? t.bins : 0;
	StartSpace	space = start_layout(d + plan.scratch, n, bins, plan.stride);
	Codes		bare = b.codes;

	bare.d_rows = d + plan.bare_codes;
	b.d_order = (uint32_t *) (d + plan.order);
	GRN_TRY(launch_order(gpu->device, bare, space, bins, t.seed, b.d_order));
	GRN_TRY(launch_gather(gpu->device, bare, b.d_order, d + plan.codes,
						  (uint32_t *) (d + plan.norms)));
	b.codes.d_rows = d + plan.codes;
	b.codes.d_norms = (uint32_t *) (d + plan.norms);

	TileGraph  &g = b.graph;

	g.d_pool = (Key *) (d + plan.pool);
	g.d_pool_count = d + plan.pool_count;
	for (int i = 0; i < 2; i++)
	{
		g.d_inbox[i] = (Key *) (d + plan.inbox[i]);
		g.d_inbox_count[i] = (uint32_t *) (d + plan.inbox_count[i]);
		GRN_TRY(cudaMemsetAsync(g.d_inbox_count[i], 0, 4 * (size_t) n, gpu->device.stream));
	}
	g.d_list = (uint64_t *) (d + plan.list);
	g.d_list_count = (uint32_t *) (d + plan.list_count);
	g.n = n;
	g.inbox = t.inbox;
	g.side = 0;
	GRN_TRY(cudaMemsetAsync(g.d_pool_count, 0, n, gpu->device.stream));
	if (t.window > 0)
		GRN_TRY(launch_window(gpu->device, b.codes, g, t.window));
	if (t.random_edges > 0)
		GRN_TRY(launch_random_edges(gpu->device, b.codes, g, t.random_edges, t.seed,
									t.window > 0));
	return cudaSuccess;
}

/* Reports a round; waits for the one before, so that a cancel acts soon. */
static cudaError_t
report(Build &b)
{
	GrnGpu	   *gpu = b.gpu;

	b.done++;
	if (!b.progress)
		return cudaSuccess;
	GRN_TRY(cudaEventRecord(gpu->round[b.done & 1], gpu->device.stream));
	if (b.done > 1)
		GRN_TRY(cudaEventSynchronize(gpu->round[(b.done - 1) & 1]));
	b.cancelled = !b.progress(b.progress_ctx, b.done, b.rounds);
	return cudaSuccess;
}

static cudaError_t
descend(Build &b)
{
	const Tuning &t = b.gpu->plan.tuning;

	b.rounds = t.first + (uint64_t) (t.outer - 1) * t.inner;
	for (uint32_t outer = 0; outer < t.outer && !b.cancelled; outer++)
	{
		uint32_t	inner = outer == 0 ? t.first : t.inner;

		if (outer > 0)
			GRN_TRY(launch_reverse(b.gpu->device, b.graph, t.rho));
		for (uint32_t i = 0; i < inner && !b.cancelled; i++)
		{
			GRN_TRY(launch_update_round(b.gpu->device, b.codes, b.graph, t.keep));
			GRN_TRY(report(b));
		}
	}
	return cudaSuccess;
}

static cudaError_t
finish(Build &b)
{
	GrnGpu	   *gpu = b.gpu;
	const Plan &plan = gpu->plan;
	const Tuning &t = plan.tuning;

	/* redirected edges that no round has seen yet stay in the inbox as offers */
	GRN_TRY(launch_reverse(gpu->device, b.graph, 1.0f));
	b.d_ids = (uint32_t *) b.graph.d_inbox[1 - b.graph.side];
	b.d_counts = gpu->d_arena + plan.counts;
	GRN_TRY(launch_fill(gpu->device, b.graph, b.d_order, plan.degree,
						t.fill, b.d_ids, b.d_counts));
	if (!b.exact && plan.tuning.exact_order)
		GRN_TRY(launch_exact_order(gpu->device, gpu->d_rows, b.codes.n, gpu->dim, plan.degree,
								   b.d_order, b.d_ids, b.d_counts));
	return cudaSuccess;
}

/*
 * Whether 8 bits were too coarse: for many vertices the nearest neighbour lies
 * within the noise of rounding, about code_dims / 6 in the square, so that near
 * neighbours cannot be told apart.  Then, memory permitting, the build starts over
 * with binary16 rows.
 */
static cudaError_t
widen(Build &b, bool *again)
{
	GrnGpu	   *gpu = b.gpu;
	uint32_t   *d_count = (uint32_t *) (gpu->d_arena + gpu->plan.flag),
				count;
	Plan		wide;

	*again = false;
	if (b.exact || b.codes.format != ROWS_S8 || b.cancelled)
		return cudaSuccess;
	GRN_TRY(launch_count_below(gpu->device, b.graph, gpu->plan.code_dims / 2, d_count));
	GRN_TRY(cudaMemcpyAsync(&count, d_count, sizeof(count), cudaMemcpyDeviceToHost,
							gpu->device.stream));
	GRN_TRY(cudaStreamSynchronize(gpu->device.stream));
	if (count <= gpu->n / 20)
		return cudaSuccess;
	wide = make_plan(gpu, &gpu->params, &gpu->options, gpu->n, gpu->dim, true);
	if (wide.total + (gpu->d_own_rows ? gpu->n * gpu->dim * sizeof(float) : 0) > gpu->limit)
		return cudaSuccess;
	GRN_TRY(cudaFree(gpu->d_arena));
	gpu->d_arena = NULL;
	GRN_TRY(cudaMalloc((void **) &gpu->d_arena, wide.total));
	gpu->plan = wide;
	b.done = 0;
	*again = true;
	return cudaSuccess;
}

static cudaError_t
build_tile(Build &b)
{
	GrnGpu	   *gpu = b.gpu;
	cudaStream_t stream = gpu->device.stream;
	bool		again;

	do
	{
		GRN_TRY(convert(b));
		GRN_TRY(cudaEventRecord(gpu->mark[1], stream));
		GRN_TRY(start(b));
		GRN_TRY(descend(b));
		GRN_TRY(widen(b, &again));
	}
	while (again);
	GRN_TRY(cudaEventRecord(gpu->mark[2], stream));
	if (!b.cancelled)
		GRN_TRY(finish(b));
	return cudaSuccess;
}

/* Algorithm 3, literally. */
static cudaError_t
build_paper(Build &b, const GrnGraphParams &p, const GrnGpuOptions &options)
{
	GrnGpu	   *gpu = b.gpu;
	const Device &device = gpu->device;
	uint32_t	n = (uint32_t) gpu->n,
				pairs = options.pairs ? options.pairs : DEFAULT_PAIRS;
	PaperSpace	space = paper_layout(gpu->d_arena + gpu->plan.paper, n, p.r);

	b.d_ids = (uint32_t *) (gpu->d_arena + gpu->plan.ids);
	b.d_counts = gpu->d_arena + gpu->plan.counts;
	b.rounds = (uint64_t) p.t1 * p.t2;
	GRN_TRY(cudaEventRecord(gpu->mark[1], device.stream));
	GRN_TRY(launch_paper_init(device, gpu->d_rows, n, gpu->dim, space, p.r, p.s, p.seed));
	for (uint32_t t1 = 0; t1 < p.t1 && !b.cancelled; t1++)
	{
		for (uint32_t t2 = 0; t2 < p.t2 && !b.cancelled; t2++)
		{
			GRN_TRY(launch_paper_update(device, gpu->d_rows, n, gpu->dim, space, p.r,
										options.order, pairs, p.seed, (uint32_t) b.done));
			GRN_TRY(report(b));
		}
		if (t1 + 1 < p.t1)
			GRN_TRY(launch_paper_reverse(device, n, space, p.r, p.rho));
	}
	GRN_TRY(cudaEventRecord(gpu->mark[2], device.stream));
	if (!b.cancelled)
		GRN_TRY(launch_paper_prune(device, gpu->d_rows, n, gpu->dim, space, p.r, p.degree,
								   b.d_ids, b.d_counts));
	return cudaSuccess;
}

static float
seconds_between(cudaEvent_t from, cudaEvent_t to)
{
	float		ms = 0;

	return cudaEventElapsedTime(&ms, from, to) == cudaSuccess ? ms / 1000 : 0;
}

static cudaError_t
download(Build &b, uint32_t *ids, uint8_t *counts)
{
	GrnGpu	   *gpu = b.gpu;
	size_t		width = gpu->plan.degree * sizeof(uint32_t);

	if (ids)
		GRN_TRY(staging_copy(&gpu->staging, gpu->number, false, b.d_ids, ids, width, width,
							 gpu->n));
	if (counts)
		GRN_TRY(staging_copy(&gpu->staging, gpu->number, false, b.d_counts, counts, 1, 1,
							 gpu->n));
	return cudaSuccess;
}

extern "C" GrnGpuStatus
grn_gpu_build(GrnGpu *gpu, const GrnGraphParams *params, const GrnGpuOptions *options,
			  uint32_t *ids, uint8_t *counts, GrnGpuProgressFn progress, void *ctx,
			  GrnGpuTimes *times, GrnGpuError *err)
{
	GrnGpuOptions defaults = {};
	GrnGraphParams p = *params;
	Build		b = {};
	cudaStream_t stream = gpu->device.stream;

	if (times)
		memset(times, 0, sizeof(*times));
	if (!gpu->begun || !gpu->d_arena)
		return fail(err, GRN_GPU_FAILED, "no build was begun", NULL);
	if (!options)
		options = &defaults;
	grn_gpu_default_params(&p, gpu->dim, gpu->n);
	if (p.degree != gpu->plan.degree || options->mode != gpu->plan.mode)
		return fail(err, GRN_GPU_FAILED, "not the parameters the build was begun with", NULL);
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	if (gpu->n < 2)
	{
		if (counts)
			memset(counts, 0, gpu->n);
		return GRN_GPU_OK;
	}
	if (!gpu->d_rows)
		return fail(err, GRN_GPU_FAILED, "the build has no rows", NULL);
	b.gpu = gpu;
	b.progress = progress;
	b.progress_ctx = ctx;

	GRN_CHECK(staging_wait(&gpu->staging), "could not copy rows to the device");
	GRN_CHECK(cudaEventRecord(gpu->mark[0], stream), "could not start the build");
	if (options->mode == GRN_GPU_PAPER)
		GRN_CHECK(build_paper(b, p, *options), "the build on the GPU failed");
	else
		GRN_CHECK(build_tile(b), "the build on the GPU failed");
	GRN_CHECK(cudaEventRecord(gpu->mark[3], stream), "the build on the GPU failed");
	GRN_CHECK(cudaStreamSynchronize(stream), "the build on the GPU failed");
	if (b.cancelled)
		return fail(err, GRN_GPU_CANCELLED, "the build was cancelled", NULL);

	if (times)
	{
		times->upload = gpu->upload;
		times->convert = seconds_between(gpu->mark[0], gpu->mark[1]);
		times->descent = seconds_between(gpu->mark[1], gpu->mark[2]);
		times->finish = seconds_between(gpu->mark[2], gpu->mark[3]);
		times->peak_bytes = gpu->plan.total + gpu->n * gpu->dim * sizeof(float);
	}
	if (ids || counts)
	{
		Clock		clock;

		GRN_CHECK(download(b, ids, counts), "could not copy the graph from the device");
		if (times)
			times->download = clock.seconds();
	}
	return GRN_GPU_OK;
}

extern "C" void
grn_gpu_end(GrnGpu *gpu)
{
	cudaSetDevice(gpu->number);
	if (gpu->d_arena)
		cudaFree(gpu->d_arena);
	if (gpu->d_own_rows)
		cudaFree(gpu->d_own_rows);
	gpu->d_arena = NULL;
	gpu->d_own_rows = NULL;
	gpu->d_rows = NULL;
	gpu->begun = false;
}
