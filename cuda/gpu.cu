/*
 * gpu.cu - implements gpu.h with CUDA: opens devices, checks and allocates memory, copies
 * rows to the device and graphs to the host.  CUDA errors become a GrnGpuStatus here.  No
 * function throws.
 */
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>

#include "handle.h"

/*
 * Compute capability 8.0 (Ampere) is the first with the kernels' tensor core products and
 * asynchronous copies to shared memory.
 */
constexpr int MIN_CAPABILITY = 80;
/* Bytes of free device memory that builds leave to the driver and to other processes. */
constexpr uint64_t SPARE_BYTES = (uint64_t) 256 << 20;

/* The most bytes of rows to expand that cross the bus at a time. */
constexpr uint64_t RAW_BYTES = (uint64_t) 32 << 20;

/* Measures the seconds since the clock was made. */
struct Clock
{
	std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

	float seconds() const
	{
		return std::chrono::duration<float>(std::chrono::steady_clock::now() - begin)
			.count();
	}
};

GrnGpuStatus
gpu_fail(GrnGpuError *err, GrnGpuStatus status, const char *what, const char *detail)
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

GrnGpuStatus
gpu_fail_cuda(GrnGpuError *err, cudaError_t rc, const char *what)
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
	cudaGetLastError(); /* Clears the error, unless the error is sticky. */
	return gpu_fail(err, status, what, cudaGetErrorString(rc));
}

extern "C" GrnGpuStatus
grn_gpu_count(int *count, GrnGpuError *err)
{
	cudaError_t rc = cudaGetDeviceCount(count);

	if (rc == cudaSuccess && *count > 0)
		return GRN_GPU_OK;
	*count = 0;
	if (rc == cudaSuccess || rc == cudaErrorNoDevice)
		return gpu_fail(err, GRN_GPU_ABSENT, "no CUDA device found", NULL);
	/* The runtime reports "insufficient driver" also if no driver is installed. */
	int driver = 0;

	cudaGetLastError();
	if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
		return gpu_fail(err, GRN_GPU_ABSENT, "no NVIDIA driver found", NULL);
	return gpu_fail_cuda(err, rc, "could not count CUDA devices");
}

/* Open handles of each device.  Devices from number GRN_MAX_GPUS on are not counted. */
static std::atomic<int> handles[GRN_MAX_GPUS];

/*
 * Creates the streams, events and staging buffers of a handle.  further: another handle
 * of the same device is open, so smaller staging buffers are enough.
 */
static cudaError_t
open_streams(GrnGpu *gpu, bool further)
{
	Device &device = gpu->device;

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
	return staging_open(&gpu->staging, further ? FURTHER_COPY_BYTES : COPY_BYTES);
}

extern "C" GrnGpuStatus
grn_gpu_open(int device, GrnGpu **out, GrnGpuError *err)
{
	GrnGpu *gpu;
	char	text[96];
	int		count;

	*out = NULL;
	GrnGpuStatus status = grn_gpu_count(&count, err);

	if (status != GRN_GPU_OK)
		return status;
	if (device < 0 || device >= count)
	{
		snprintf(text, sizeof(text), "there is no CUDA device %d, only %d", device,
				 count);
		return gpu_fail(err, GRN_GPU_ABSENT, text, NULL);
	}
	gpu = new (std::nothrow) GrnGpu();
	if (!gpu)
		return gpu_fail(err, GRN_GPU_FAILED, "out of host memory", NULL);
	gpu->number = device;

	cudaError_t rc = cudaSetDevice(device);

	if (rc == cudaSuccess)
		rc = cudaDeviceGetAttribute(&gpu->device.sms, cudaDevAttrMultiProcessorCount,
									device);
	if (rc == cudaSuccess)
		rc = cudaDeviceGetAttribute(&gpu->device.major, cudaDevAttrComputeCapabilityMajor,
									device);
	if (rc == cudaSuccess)
		rc = cudaDeviceGetAttribute(&gpu->device.minor, cudaDevAttrComputeCapabilityMinor,
									device);
	if (rc == cudaSuccess && 10 * gpu->device.major + gpu->device.minor < MIN_CAPABILITY)
	{
		snprintf(text, sizeof(text),
				 "CUDA device %d has compute capability %d.%d, %d.%d is needed", device,
				 gpu->device.major, gpu->device.minor, MIN_CAPABILITY / 10,
				 MIN_CAPABILITY % 10);
		grn_gpu_close(gpu);
		return gpu_fail(err, GRN_GPU_TOO_OLD, text, NULL);
	}
	if (rc == cudaSuccess)
	{
		gpu->counted = device < GRN_MAX_GPUS;
		rc = open_streams(gpu, gpu->counted && handles[device]++ > 0);
	}
	if (rc != cudaSuccess)
	{
		grn_gpu_close(gpu);
		return gpu_fail_cuda(err, rc, "could not open the CUDA device");
	}
	*out = gpu;
	return GRN_GPU_OK;
}

extern "C" GrnGpuStatus
grn_gpu_info(GrnGpu *gpu, GrnGpuInfo *info, GrnGpuError *err)
{
	cudaDeviceProp prop;
	size_t		   total, free_bytes;

	memset(info, 0, sizeof(*info));
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	GRN_CHECK(cudaGetDeviceProperties(&prop, gpu->number),
			  "could not ask the CUDA device");
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
	grn_gpu_drop_digests(gpu);
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
	if (gpu->counted)
		handles[gpu->number]--;
	delete gpu;
}

void
grn_gpu_override(GrnGpu *gpu, const Tuning *tuning)
{
	gpu->overridden = tuning != NULL;
	if (tuning)
		gpu->override_ = *tuning;
}

extern "C" uint64_t
grn_gpu_plan(GrnGpu *gpu, const GrnGraphParams *params, const GrnGpuOptions *options,
			 uint64_t n, uint32_t dim)
{
	return make_plan(gpu, params, options, n, dim, DIGESTS_PLAIN).total +
		   (options->rows == GRN_GPU_FLOATS ? n * dim * sizeof(float) : 0);
}

extern "C" GrnGpuStatus
grn_gpu_limit(GrnGpu *gpu, uint64_t memory_limit, uint64_t *limit, GrnGpuError *err)
{
	size_t free_bytes, total_bytes;

	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	GRN_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes),
			  "could not ask for device memory");
	*limit = free_bytes > SPARE_BYTES ? free_bytes - SPARE_BYTES : 0;
	if (memory_limit != 0 && memory_limit < *limit)
		*limit = memory_limit;
	return GRN_GPU_OK;
}

GrnGpuStatus
gpu_no_memory(GrnGpuError *err, uint64_t needed, uint64_t limit)
{
	char text[160];

	snprintf(text, sizeof(text),
			 "the build needs %.1f GB of device memory, %.1f GB may be used",
			 needed / 1e9, limit / 1e9);
	gpu_fail(err, GRN_GPU_MEMORY, text, NULL);
	if (err)
		err->needed = needed;
	return GRN_GPU_MEMORY;
}

GrnGpuStatus
gpu_allocate(void **d, uint64_t bytes, uint64_t needed, uint64_t limit, GrnGpuError *err)
{
	cudaError_t rc = cudaMalloc(d, bytes);

	if (rc == cudaSuccess)
		return GRN_GPU_OK;
	*d = NULL;
	if (rc != cudaErrorMemoryAllocation)
		return gpu_fail_cuda(err, rc, "could not allocate device memory");
	cudaGetLastError();
	return gpu_no_memory(err, needed, limit);
}

extern "C" GrnGpuStatus
grn_gpu_begin(GrnGpu *gpu, uint64_t n, uint32_t dim, const GrnGpuOptions *options,
			  const GrnGraphParams *given, GrnGpuError *err)
{
	GrnGraphParams params = *given;

	grn_gpu_default_params(&params, dim);
	gpu->begun = false;
	gpu->built.lists = Lists();
	if (options->rows == GRN_GPU_BIT_DIGESTS && dim > GRN_GPU_MOST_BITS)
		return gpu_fail(err, GRN_GPU_FAILED, "bit digests have at most 2048 dimensions",
						NULL);
	if (dim < 1 || dim > GRN_MOST_DIMS)
		return gpu_fail(err, GRN_GPU_FAILED, "dimensions must be between 1 and 64000",
						NULL);
	if (n >= GRN_MAX_NODES)
		return gpu_fail(err, GRN_GPU_FAILED, "too many rows for one build", NULL);
	if (params.degree > GRN_MAX_DEGREE)
		return gpu_fail(err, GRN_GPU_FAILED, "degree is larger than 96", NULL);
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	gpu->params = params;
	gpu->options = *options;
	gpu->plan = make_plan(gpu, &params, options, n, dim, DIGESTS_PLAIN);
	gpu->n = n;
	gpu->dim = dim;
	gpu->upload = 0;

	gpu->digested = gpu->named = false;
	/*
	 * The steps of a build in parts follow each other, so a step reuses the arena of an
	 * earlier step if the arena is large enough.
	 */
	if (options->rows != GRN_GPU_FLOATS && gpu->d_arena && gpu->arena >= gpu->plan.total)
	{
		gpu->begun = true;
		return GRN_GPU_OK;
	}
	grn_gpu_end(gpu);

	uint64_t	 needed = grn_gpu_plan(gpu, &params, options, n, dim), limit;
	GrnGpuStatus status = grn_gpu_limit(gpu, options->memory_limit, &limit, err);

	if (status != GRN_GPU_OK)
		return status;
	/*
	 * Only the plan counts here, without the rows: the caller's rows may be in device
	 * memory already.  allocate_rows() counts rows that come from the host.
	 */
	if (gpu->plan.total > limit)
		return gpu_no_memory(err, needed, limit);
	status = gpu_allocate((void **) &gpu->d_arena, gpu->plan.total, needed, limit, err);
	if (status != GRN_GPU_OK)
		return status;
	gpu->arena = gpu->plan.total;
	gpu->peak = std::max(gpu->peak, gpu->kept.bytes + needed);
	gpu->limit = limit;
	gpu->begun = true;
	return GRN_GPU_OK;
}

/* Allocates device memory for the rows on first use. */
static GrnGpuStatus
allocate_rows(GrnGpu *gpu, GrnGpuError *err)
{
	uint64_t bytes = gpu->n * gpu->dim * sizeof(float);
	uint64_t needed = gpu->plan.total + bytes;

	if (gpu->d_own_rows)
		return GRN_GPU_OK;
	if (needed > gpu->limit)
		return gpu_no_memory(err, needed, gpu->limit);

	GrnGpuStatus status =
		gpu_allocate((void **) &gpu->d_own_rows, bytes, needed, gpu->limit, err);

	if (status == GRN_GPU_OK)
		gpu->d_rows = gpu->d_own_rows;
	return status;
}

extern "C" GrnGpuStatus
grn_gpu_rows(GrnGpu *gpu, uint64_t first, uint64_t nrows, const float *host,
			 uint64_t stride, GrnGpuError *err)
{
	if (!gpu->begun || stride < gpu->dim || first > gpu->n || nrows > gpu->n - first)
		return gpu_fail(err, GRN_GPU_FAILED, "rows outside the build that was begun",
						NULL);
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	GrnGpuStatus status = allocate_rows(gpu, err);

	if (status != GRN_GPU_OK)
		return status;
	size_t				  width = gpu->dim * sizeof(float);
	float				 *d = gpu->d_own_rows + first * gpu->dim;
	cudaPointerAttributes where;
	Clock				  clock;

	if (cudaPointerGetAttributes(&where, host) == cudaSuccess &&
		where.type == cudaMemoryTypeHost)
	{
		/* Pinned memory needs no staging. */
		cudaStream_t stream = gpu->staging.stream[0];

		GRN_CHECK(cudaMemcpy2DAsync(d, width, host, stride * sizeof(float), width, nrows,
									cudaMemcpyHostToDevice, stream),
				  "could not copy rows");
		GRN_CHECK(cudaStreamSynchronize(stream), "could not copy rows");
		gpu->upload += clock.seconds();
		return GRN_GPU_OK;
	}
	cudaGetLastError();
	GRN_CHECK(staging_copy(&gpu->staging, gpu->number, true, d, (void *) host, width,
						   stride * sizeof(float), nrows),
			  "could not copy rows to the device");
	gpu->upload += clock.seconds();
	return GRN_GPU_OK;
}

/*
 * Copies rows [begin, end) to the two halves of d_raw [bytes] in turn.  The device
 * expands or digests one piece while the next piece is copied.
 */
static cudaError_t
expand_rows(GrnGpu *gpu, const GrnGpuSource *source, uint64_t begin, uint64_t end,
			uint8_t *d_raw, uint64_t bytes)
{
	cudaStream_t stream = gpu->device.stream;
	RawRow		 row = raw_row_of(*source);
	uint64_t	 most = std::max<uint64_t>(std::min(bytes / 2, RAW_BYTES) / row.bytes, 1);
	bool		 alone = 2 * most * row.bytes > bytes; /* the buffer has room for one
													    * piece only */

	for (uint64_t first = begin, piece = 0; first < end; first += most, piece++)
	{
		uint64_t		count = std::min(most, end - first);
		const uint32_t *order = source->order ? source->order + first : NULL;
		const uint8_t  *base =
			(const uint8_t *) source->base + (order ? 0 : first * row.bytes);
		uint8_t *d = d_raw + (alone ? 0 : (piece & 1) * most * row.bytes);

		/* Wait until the device has expanded the piece that the buffer held before. */
		if (piece > 1 || alone)
			GRN_TRY(cudaEventSynchronize(gpu->round[alone ? 0 : piece & 1]));
		GRN_TRY(staging_copy(&gpu->staging, gpu->number, true, d, (void *) base,
							 row.bytes, row.bytes, count, order));
		GRN_TRY(staging_wait(&gpu->staging));
		if (gpu->options.rows == GRN_GPU_BIT_DIGESTS)
			GRN_TRY(launch_bits(
				gpu->device, d, row.bytes, (uint32_t) count, gpu->dim, gpu->plan.stride,
				gpu->d_arena + gpu->plan.bare_digests + first * gpu->plan.stride));
		else
			GRN_TRY(launch_expand(gpu->device, d, row, (uint32_t) count, gpu->dim,
								  gpu->d_own_rows + first * gpu->dim));
		GRN_TRY(cudaEventRecord(gpu->round[alone ? 0 : piece & 1], stream));
	}
	return cudaStreamSynchronize(stream);
}

extern "C" GrnGpuStatus
grn_gpu_rows_from(GrnGpu *gpu, const GrnGpuSource *source, uint64_t first, uint64_t n,
				  GrnGpuError *err)
{
	bool	 digests = gpu->options.rows == GRN_GPU_BIT_DIGESTS;
	uint8_t *d_raw = gpu->d_arena; /* The build has not begun to use the arena. */
	uint64_t bytes = digests ? gpu->plan.bare_digests : gpu->arena;
	Clock	 clock;

	if (!gpu->begun || (!grn_gpu_expands(source) && source->order) || first > gpu->n ||
		n > gpu->n - first)
		return gpu_fail(err, GRN_GPU_FAILED, "rows outside the build that was begun",
						NULL);
	if (digests &&
		(source->numbers != GRN_NUMBERS_BITS || source->head > 0 || source->scale > 0))
		return gpu_fail(err, GRN_GPU_FAILED, "rows in another form than was said", NULL);
	if (!grn_gpu_expands(source))
		return grn_gpu_rows(
			gpu, first, n,
			(const float *) ((const char *) source->base + first * source->row_bytes),
			source->row_bytes / sizeof(float), err);
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");

	GrnGpuStatus status = digests ? GRN_GPU_OK : allocate_rows(gpu, err);

	if (status != GRN_GPU_OK)
		return status;
	if (bytes < source->row_bytes)
		GRN_CHECK(cudaMalloc((void **) &d_raw, bytes = source->row_bytes),
				  "could not allocate device memory");

	cudaError_t rc = expand_rows(gpu, source, first, first + n, d_raw, bytes);

	if (d_raw != gpu->d_arena)
		cudaFree(d_raw);
	GRN_CHECK(rc, "could not copy rows to the device");
	gpu->digested = digests;
	gpu->upload += clock.seconds();
	return GRN_GPU_OK;
}

extern "C" GrnGpuStatus
grn_gpu_device_rows(GrnGpu *gpu, const float *d_rows, GrnGpuError *err)
{
	if (!gpu->begun)
		return gpu_fail(err, GRN_GPU_FAILED, "rows outside the build that was begun",
						NULL);
	gpu->d_rows = d_rows;
	return GRN_GPU_OK;
}

static float
seconds_between(cudaEvent_t from, cudaEvent_t to)
{
	float ms = 0;

	return cudaEventElapsedTime(&ms, from, to) == cudaSuccess ? ms / 1000 : 0;
}

/* Copies ids and counts of the graph to the host; either may be NULL. */
static cudaError_t
download(Build &b, uint32_t *ids, uint8_t *counts)
{
	GrnGpu *gpu = b.gpu;
	size_t	width = gpu->plan.degree * sizeof(uint32_t);

	if (ids)
		GRN_TRY(staging_copy(&gpu->staging, gpu->number, false, b.d_ids, ids, width,
							 width, gpu->n));
	if (counts)
		GRN_TRY(staging_copy(&gpu->staging, gpu->number, false, b.d_counts, counts, 1, 1,
							 gpu->n));
	return cudaSuccess;
}

extern "C" GrnGpuStatus
grn_gpu_build(GrnGpu *gpu, uint32_t *ids, uint8_t *counts, GrnGpuProgressFn progress,
			  void *ctx, GrnGpuTimes *times, GrnGpuError *err)
{
	const GrnGpuOptions *options = &gpu->options;
	Build				 b = {};
	cudaStream_t		 stream = gpu->device.stream;

	if (times)
		memset(times, 0, sizeof(*times));
	if (!gpu->begun)
		return gpu_fail(err, GRN_GPU_FAILED, "no build was begun", NULL);
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	if (gpu->n < 2)
	{
		if (counts)
			memset(counts, 0, gpu->n);
		if (ids && options->rows != GRN_GPU_FLOATS)
			memset(ids, 0xFF, gpu->n * gpu->plan.degree * sizeof(uint32_t));
		return GRN_GPU_OK;
	}
	if (options->rows == GRN_GPU_FLOATS ? !gpu->d_rows
										: !gpu->digested || (gpu->named && !ids))
		return gpu_fail(err, GRN_GPU_FAILED, "the build has no rows", NULL);
	if (!gpu->d_arena)
		return gpu_fail(err, GRN_GPU_FAILED, "the build lost its memory", NULL);
	b.gpu = gpu;
	gpu->built.lists = Lists();
	b.progress = progress;
	b.progress_ctx = ctx;

	GRN_CHECK(staging_wait(&gpu->staging), "could not copy rows to the device");
	GRN_CHECK(cudaEventRecord(gpu->mark[0], stream), "could not start the build");
	GRN_CHECK(build_tile(b), "the build on the GPU failed");
	GRN_CHECK(cudaEventRecord(gpu->mark[3], stream), "the build on the GPU failed");
	GRN_CHECK(cudaStreamSynchronize(stream), "the build on the GPU failed");
	if (b.canceled)
		return gpu_fail(err, GRN_GPU_CANCELLED, "the build was canceled", NULL);
	if (!gpu->named)
	{
		gpu->built.lists = Lists {b.d_ids, b.d_counts};
		gpu->built.digests = b.digests;
		gpu->built.d_rows = b.d_order;
	}

	if (times)
	{
		times->upload = gpu->upload;
		times->convert = seconds_between(gpu->mark[0], gpu->mark[1]);
		times->descent = seconds_between(gpu->mark[1], gpu->mark[2]);
		times->finish = seconds_between(gpu->mark[2], gpu->mark[3]);
		times->peak_bytes =
			gpu->plan.total +
			(options->rows == GRN_GPU_FLOATS ? gpu->n * gpu->dim * sizeof(float) : 0);
		times->coarse = b.coarse;
	}
	if (ids || counts)
	{
		Clock clock;

		GRN_CHECK(download(b, ids, counts), "could not copy the graph from the device");
		if (times)
			times->download = clock.seconds();
	}
	return GRN_GPU_OK;
}

extern "C" uint64_t
grn_gpu_peak(GrnGpu *gpu)
{
	uint64_t peak = gpu->peak;

	/* Memory that remains allocated counts for the next step, too. */
	gpu->peak = gpu->kept.bytes + gpu->arena +
				(gpu->d_own_rows ? gpu->n * gpu->dim * sizeof(float) : 0);
	return peak;
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
	gpu->arena = 0;
	gpu->d_own_rows = NULL;
	gpu->d_rows = NULL;
	gpu->begun = false;
	gpu->built.lists = Lists();
}
