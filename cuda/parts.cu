/*
 * parts.cu - gpu.h's calls for builds in parts: rows to codes and back to the host,
 * codes to a part's build, and lists of two parts to one.  Each lays out what it
 * needs in the arena, which grn_gpu_end() frees.
 */
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <vector>

#include "host.h"

constexpr uint64_t ENCODE_BYTES = (uint64_t) 64 << 20; /* of rows at a time */
constexpr uint64_t MERGE_BATCH = 65536;				   /* rows at a time, */
constexpr uint64_t MERGE_BATCHES = 32;				   /* or this share of few */
constexpr uint64_t LEAST_BATCH = 256;

static RowFormat
format_of(const GrnGpuFit *fit)
{
	return fit->rows == GRN_GPU_WIDE_CODES ? ROWS_F16 : ROWS_S8;
}

static size_t
rounded(size_t bytes)
{
	return (bytes + 255) & ~(size_t) 255;
}

/* A fit's floats: basis, mean, scale. */
static size_t
basis_floats(const GrnGpuFit *fit)
{
	return (size_t) fit->code_dims * ((fit->dim + 3) / 4 * 4);
}

static size_t
fit_floats(const GrnGpuFit *fit)
{
	return basis_floats(fit) + (fit->dim + 3) / 4 * 4 + 1;
}

/* An arena of this many bytes, in place of whatever there was. */
static GrnGpuStatus
take_arena(GrnGpu *gpu, uint64_t bytes, uint64_t limit, GrnGpuError *err)
{
	if (bytes > limit)
		return gpu_no_memory(err, bytes, limit);
	cudaError_t rc = cudaMalloc((void **) &gpu->d_arena, bytes);

	if (rc == cudaErrorMemoryAllocation)
	{
		cudaGetLastError();
		gpu->d_arena = NULL;
		return gpu_no_memory(err, bytes, limit);
	}
	GRN_CHECK(rc, "could not allocate device memory");
	gpu->peak = std::max(gpu->peak, bytes);
	return GRN_GPU_OK;
}

/* ---- fit ---- */

/* The most directions that a fit may come to. */
static uint32_t
most_dims(const GrnGpuFit *fit)
{
	uint32_t dims = code_dims_of(fit->dim);

	return fit->rows == GRN_GPU_BYTE_CODES && fit->dim > dims && !fit->few ? MORE_DIMS
																		   : dims;
}

extern "C" uint64_t
grn_gpu_fit_bytes(const GrnGpuFit *fit, uint32_t n)
{
	return rounded((size_t) n * fit->dim * sizeof(float)) +
		   project_bytes(n, fit->dim, most_dims(fit));
}

/* Fits to n rows on the device: as a whole build does (build.cu). */
static cudaError_t
fit_rows(GrnGpu *gpu, const float *d_sample, uint32_t n, uint64_t seed, uint8_t *d_space,
		 GrnGpuFit *fit, Projection *p)
{
	float share = 1.0f;

	fit->code_dims = code_dims_of(fit->dim);
	GRN_TRY(launch_fit(gpu->device, d_sample, n, fit->dim, fit->code_dims, format_of(fit),
					   seed, d_space, p));
	if (most_dims(fit) > fit->code_dims)
		GRN_TRY(fitted_share(gpu->device, *p, &share));
	if (!(share < LEAST_SHARE))
		return cudaSuccess;
	fit->code_dims = most_dims(fit);
	return launch_fit(gpu->device, d_sample, n, fit->dim, fit->code_dims, format_of(fit),
					  seed, d_space, p);
}

extern "C" GrnGpuStatus
grn_gpu_fit(GrnGpu *gpu, const float *sample, uint32_t n, uint64_t seed, GrnGpuFit *fit,
			GrnGpuError *err)
{
	cudaStream_t stream = gpu->device.stream;
	Projection	 p;

	if (gpu->device.major < GRN_TILE_MAJOR)
		return gpu_fail(err, GRN_GPU_TOO_OLD, "codes are for tile mode", NULL);
	fit->code_dims = code_dims_of(fit->dim);
	fit->code_bytes = fit->code_dims;
	fit->projection = NULL;
	if (fit->rows == GRN_GPU_EXACT_CODES)
		return GRN_GPU_OK;
	grn_gpu_end(gpu);
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");

	GrnGpuStatus status = take_arena(gpu, grn_gpu_fit_bytes(fit, n), UINT64_MAX, err);
	size_t		 row = fit->dim * sizeof(float);
	float		*d_sample = (float *) gpu->d_arena;

	if (status != GRN_GPU_OK)
		return status;
	GRN_CHECK(staging_copy(&gpu->staging, gpu->number, true, d_sample, (void *) sample,
						   row, row, n),
			  "could not copy rows to the device");
	GRN_CHECK(staging_wait(&gpu->staging), "could not copy rows to the device");
	GRN_CHECK(fit_rows(gpu, d_sample, n, seed, gpu->d_arena + rounded(n * row), fit, &p),
			  "could not fit a projection");
	fit->code_bytes = fit->code_dims * (fit->rows == GRN_GPU_WIDE_CODES ? 2 : 1);
	fit->projection = (float *) malloc(fit_floats(fit) * sizeof(float));
	if (!fit->projection)
		return gpu_fail(err, GRN_GPU_FAILED, "out of host memory", NULL);

	float *h_mean = fit->projection + basis_floats(fit);

	GRN_CHECK(cudaMemcpyAsync(fit->projection, p.d_basis,
							  basis_floats(fit) * sizeof(float), cudaMemcpyDeviceToHost,
							  stream),
			  "could not copy a projection");
	GRN_CHECK(cudaMemcpyAsync(h_mean, p.d_mean, p.width * sizeof(float),
							  cudaMemcpyDeviceToHost, stream),
			  "could not copy a projection");
	GRN_CHECK(cudaMemcpyAsync(h_mean + p.width, p.d_scale, sizeof(float),
							  cudaMemcpyDeviceToHost, stream),
			  "could not copy a projection");
	GRN_CHECK(cudaStreamSynchronize(stream), "could not fit a projection");
	grn_gpu_end(gpu);
	return GRN_GPU_OK;
}

/* ---- encode ---- */

/* The arena: projection, rows, codes, and whether a row is no integers. */
struct EncodeSpace
{
	size_t rows, codes, other, total;

	EncodeSpace(const GrnGpuFit *fit, uint64_t batch)
	{
		rows = rounded(fit_floats(fit) * sizeof(float));
		codes = rows + rounded(batch * fit->dim * sizeof(float));
		other = codes + rounded(batch * fit->code_bytes);
		total = other + rounded(sizeof(int));
	}
};

extern "C" GrnGpuStatus
grn_gpu_encode_begin(GrnGpu *gpu, const GrnGpuFit *fit, const GrnGpuOptions *options,
					 GrnGpuError *err)
{
	uint64_t limit;

	grn_gpu_end(gpu);
	if (gpu->device.major < GRN_TILE_MAJOR)
		return gpu_fail(err, GRN_GPU_TOO_OLD, "codes are for tile mode", NULL);
	GrnGpuStatus status = grn_gpu_limit(gpu, options, &limit, err);

	if (status != GRN_GPU_OK)
		return status;
	gpu->batch = std::max(ENCODE_BYTES / (fit->dim * sizeof(float)), LEAST_BATCH);
	while (gpu->batch > LEAST_BATCH && EncodeSpace(fit, gpu->batch).total > limit / 4)
		gpu->batch /= 2;
	status = take_arena(gpu, EncodeSpace(fit, gpu->batch).total, limit, err);
	if (status == GRN_GPU_OK && fit->projection)
		GRN_CHECK(cudaMemcpy(gpu->d_arena, fit->projection,
							 fit_floats(fit) * sizeof(float), cudaMemcpyHostToDevice),
				  "could not copy a projection");
	return status;
}

/* The codes of rows that are on the device. */
static cudaError_t
encode_rows(GrnGpu *gpu, const GrnGpuFit *fit, const EncodeSpace &space, uint32_t n,
			bool *other)
{
	const float *d_rows = (const float *) (gpu->d_arena + space.rows);
	uint8_t		*d_codes = gpu->d_arena + space.codes;
	uint32_t	 width = (fit->dim + 3) / 4 * 4;
	int			 flag = 0;

	if (fit->rows == GRN_GPU_EXACT_CODES)
	{
		int *d_other = (int *) (gpu->d_arena + space.other);

		GRN_TRY(launch_integers(gpu->device, d_rows, n, fit->dim, fit->code_bytes,
								d_codes, d_other));
		GRN_TRY(cudaMemcpyAsync(&flag, d_other, sizeof(int), cudaMemcpyDeviceToHost,
								gpu->device.stream));
	}
	else
	{
		const float *d_basis = (const float *) gpu->d_arena;
		const float *d_mean = d_basis + basis_floats(fit);
		Projection p = {fit->dim, fit->code_dims, width, d_basis, d_mean, d_mean + width};

		GRN_TRY(launch_apply(gpu->device, p, d_rows, n, format_of(fit), fit->code_bytes,
							 d_codes));
	}
	GRN_TRY(cudaStreamSynchronize(gpu->device.stream));
	*other |= flag != 0;
	return cudaSuccess;
}

extern "C" GrnGpuStatus
grn_gpu_encode(GrnGpu *gpu, const GrnGpuFit *fit, const GrnGpuSource *source,
			   uint64_t first, uint64_t n, uint8_t *codes, bool *other, GrnGpuError *err)
{
	EncodeSpace space(fit, gpu->batch);
	size_t		width = fit->dim * sizeof(float), pitch = source->stride * sizeof(float);

	if (!gpu->d_arena)
		return gpu_fail(err, GRN_GPU_FAILED, "no encoding was begun", NULL);
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	for (uint64_t end = first + n; first < end; first += gpu->batch)
	{
		uint64_t		count = std::min(end - first, gpu->batch);
		const uint32_t *order = source->order ? source->order + first : NULL;
		const float	   *base = source->base + (order ? 0 : first * source->stride);

		GRN_CHECK(staging_copy(&gpu->staging, gpu->number, true,
							   gpu->d_arena + space.rows, (void *) base, width, pitch,
							   count, order),
				  "could not copy rows to the device");
		GRN_CHECK(staging_wait(&gpu->staging), "could not copy rows to the device");
		GRN_CHECK(encode_rows(gpu, fit, space, (uint32_t) count, other),
				  "could not encode rows");
		if (*other)
			break;
		GRN_CHECK(staging_copy(&gpu->staging, gpu->number, false,
							   gpu->d_arena + space.codes, codes, fit->code_bytes,
							   fit->code_bytes, count),
				  "could not copy codes from the device");
		codes += count * fit->code_bytes;
	}
	return GRN_GPU_OK;
}

/* ---- a part's rows ---- */

extern "C" GrnGpuStatus
grn_gpu_coded_rows(GrnGpu *gpu, const uint8_t *codes, const uint32_t *members,
				   GrnGpuError *err)
{
	const Plan &plan = gpu->plan;

	if (!gpu->begun || gpu->options.rows == GRN_GPU_FLOATS)
		return gpu_fail(err, GRN_GPU_FAILED, "no build of codes was begun", NULL);
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	GRN_CHECK(staging_copy(&gpu->staging, gpu->number, true,
						   gpu->d_arena + plan.bare_codes, (void *) codes, plan.stride,
						   plan.stride, gpu->n, members),
			  "could not copy codes to the device");
	GRN_CHECK(staging_copy(&gpu->staging, gpu->number, true, gpu->d_arena + plan.members,
						   (void *) members, sizeof(uint32_t), sizeof(uint32_t), gpu->n),
			  "could not copy codes to the device");
	gpu->coded = true;
	return GRN_GPU_OK;
}

/* ---- merge ---- */

struct MergeLayout
{
	size_t codes, norms, rows, lists[2], ids, counts, total;

	MergeLayout(const GrnGpuFit *fit, uint64_t n, uint32_t degree, uint64_t batch)
	{
		size_t list = rounded(batch * degree * sizeof(uint32_t));

		codes = 0;
		norms = rounded(n * fit->code_bytes);
		rows = norms + rounded(n * sizeof(uint32_t));
		lists[0] = rows + rounded(batch * sizeof(uint32_t));
		lists[1] = lists[0] + list;
		ids = lists[1] + list;
		counts = ids + list;
		total = counts + rounded(batch);
	}
};

extern "C" uint64_t
grn_gpu_merge_bytes(const GrnGpuFit *fit, uint64_t n, uint32_t degree)
{
	return MergeLayout(fit, n, degree, LEAST_BATCH).total;
}

/* All rows' codes, in the arena. */
static Codes
codes_of(const GrnGpu *gpu, const GrnGpuFit *fit, const MergeLayout &layout)
{
	Codes codes = {};

	codes.d_rows = gpu->d_arena + layout.codes;
	codes.d_norms = (const uint32_t *) (gpu->d_arena + layout.norms);
	codes.n = (uint32_t) gpu->n;
	codes.stride = fit->code_bytes;
	codes.seg = std::min(codes.stride, 128u);
	codes.nseg = codes.stride / codes.seg;
	codes.format = format_of(fit);
	return codes;
}

extern "C" GrnGpuStatus
grn_gpu_merge_begin(GrnGpu *gpu, const GrnGpuFit *fit, uint64_t n, uint32_t degree,
					const GrnGpu *other, const GrnGpuOptions *options, GrnGpuError *err)
{
	uint64_t limit;

	grn_gpu_end(gpu);
	GrnGpuStatus status = grn_gpu_limit(gpu, options, &limit, err);

	if (status != GRN_GPU_OK)
		return status;
	gpu->n = n;
	gpu->own = other ? 0 : n;
	gpu->batch = std::max(std::min(MERGE_BATCH, n / MERGE_BATCHES), LEAST_BATCH);
	while (gpu->batch > LEAST_BATCH &&
		   MergeLayout(fit, gpu->own, degree, gpu->batch).total > limit)
		gpu->batch /= 2;

	MergeLayout layout(fit, gpu->own, degree, gpu->batch);

	status = take_arena(gpu, layout.total, limit, err);
	if (status != GRN_GPU_OK)
		return status;
	gpu->plan.degree = degree;
	gpu->merged = other ? other->merged : codes_of(gpu, fit, layout);
	return GRN_GPU_OK;
}

extern "C" GrnGpuStatus
grn_gpu_merge_codes(GrnGpu *const *gpus, int ngpus, const GrnGpuFit *fit,
					const uint8_t *codes, int *failed, GrnGpuError *err)
{
	std::vector<Target> targets;

	*failed = 0;
	for (int i = 0; i < ngpus; i++)
		targets.push_back(Target {&gpus[i]->staging, (uint8_t *) gpus[i]->merged.d_rows});
	GRN_CHECK(staging_spread(targets.data(), ngpus, gpus[0]->number, (void *) codes,
							 fit->code_bytes, gpus[0]->n, failed),
			  "could not copy codes to the device");
	for (*failed = 0; *failed < ngpus; ++*failed)
	{
		const GrnGpu *gpu = gpus[*failed];

		GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
		GRN_CHECK(
			launch_norms(gpu->device, gpu->merged, (uint32_t *) gpu->merged.d_norms),
			"could not start the merge");
	}
	/* other handles have other streams */
	for (*failed = 0; *failed < ngpus; ++*failed)
		GRN_CHECK(cudaStreamSynchronize(gpus[*failed]->device.stream),
				  "could not start the merge");
	return GRN_GPU_OK;
}

extern "C" GrnGpuStatus
grn_gpu_merge(GrnGpu *gpu, const GrnGpuFit *fit, const GrnGpuMerge *merge, bool fill,
			  GrnGpuError *err)
{
	uint32_t	   degree = gpu->plan.degree;
	size_t		   list = degree * sizeof(uint32_t);
	MergeLayout	   layout(fit, gpu->own, degree, gpu->batch);
	Staging		  *staging = &gpu->staging;
	GrnGraphParams params = {};

	params.degree = degree;
	if (!gpu->d_arena)
		return gpu_fail(err, GRN_GPU_FAILED, "no merge was begun", NULL);
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	for (uint64_t first = 0; first < merge->count; first += gpu->batch)
	{
		uint64_t		count = std::min(merge->count - first, gpu->batch);
		const uint32_t *rows = merge->rows + first;
		MergeArgs		args = {};

		GRN_CHECK(staging_copy(staging, gpu->number, true, gpu->d_arena + layout.rows,
							   (void *) rows, sizeof(uint32_t), sizeof(uint32_t), count),
				  "could not copy lists to the device");
		for (int part = 0; part < 2; part++)
		{
			GRN_CHECK(staging_copy(staging, gpu->number, true,
								   gpu->d_arena + layout.lists[part],
								   (void *) merge->lists, list, list, count,
								   merge->places[part] + first),
					  "could not copy lists to the device");
			args.d_lists[part] = (const uint32_t *) (gpu->d_arena + layout.lists[part]);
		}
		GRN_CHECK(staging_wait(staging), "could not copy lists to the device");
		args.codes = gpu->merged;
		args.d_rows = (const uint32_t *) (gpu->d_arena + layout.rows);
		args.count = (uint32_t) count;
		args.degree = degree;
		args.fill = fill ? degree : tuning_for(&params, fit->dim, gpu->n).fill;
		args.d_ids = (uint32_t *) (gpu->d_arena + layout.ids);
		args.d_counts = gpu->d_arena + layout.counts;
		GRN_CHECK(launch_merge(gpu->device, args), "could not merge lists");
		GRN_CHECK(cudaStreamSynchronize(gpu->device.stream), "could not merge lists");
		GRN_CHECK(staging_copy(staging, gpu->number, false, gpu->d_arena + layout.ids,
							   merge->ids, list, list, count, rows),
				  "could not copy lists from the device");
		GRN_CHECK(staging_copy(staging, gpu->number, false, gpu->d_arena + layout.counts,
							   merge->counts, 1, 1, count, rows),
				  "could not copy lists from the device");
	}
	return GRN_GPU_OK;
}
