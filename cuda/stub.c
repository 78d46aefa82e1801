/*
 * stub.c - implements gpu.h for builds without a CUDA compiler.  Each call fails with the
 * message that this builder has no GPU support.
 */
#include <stdio.h>
#include <string.h>

#include "gpu.h"

static GrnGpuStatus
no_gpu(GrnGpuError *err)
{
	if (err != NULL)
	{
		memset(err, 0, sizeof(*err));
		err->status = GRN_GPU_ABSENT;
		snprintf(err->text, sizeof(err->text),
				 "this grnnd_build was built without GPU support");
	}
	return GRN_GPU_ABSENT;
}

GrnGpuStatus
grn_gpu_count(int *count, GrnGpuError *err)
{
	*count = 0;
	return no_gpu(err);
}

GrnGpuStatus
grn_gpu_open(int device, GrnGpu **gpu, GrnGpuError *err)
{
	(void) device;
	*gpu = NULL;
	return no_gpu(err);
}

GrnGpuStatus
grn_gpu_info(GrnGpu *gpu, GrnGpuInfo *info, GrnGpuError *err)
{
	(void) gpu;
	memset(info, 0, sizeof(*info));
	return no_gpu(err);
}

void
grn_gpu_close(GrnGpu *gpu)
{
	(void) gpu;
}

uint64_t
grn_gpu_plan(GrnGpu *gpu, const GrnGraphParams *params, const GrnGpuOptions *options,
			 uint64_t n, uint32_t dim)
{
	(void) gpu, (void) params, (void) options, (void) n, (void) dim;
	return 0;
}

GrnGpuStatus
grn_gpu_limit(GrnGpu *gpu, uint64_t memory_limit, uint64_t *limit, GrnGpuError *err)
{
	(void) gpu, (void) memory_limit, (void) limit;
	return no_gpu(err);
}

GrnGpuStatus
grn_gpu_begin(GrnGpu *gpu, uint64_t n, uint32_t dim, const GrnGpuOptions *options,
			  const GrnGraphParams *params, GrnGpuError *err)
{
	(void) gpu, (void) n, (void) dim, (void) options, (void) params;
	return no_gpu(err);
}

GrnGpuStatus
grn_gpu_rows(GrnGpu *gpu, uint64_t first, uint64_t nrows, const float *host,
			 uint64_t stride, GrnGpuError *err)
{
	(void) gpu, (void) first, (void) nrows, (void) host, (void) stride;
	return no_gpu(err);
}

GrnGpuStatus
grn_gpu_rows_from(GrnGpu *gpu, const GrnGpuSource *source, uint64_t first, uint64_t n,
				  GrnGpuError *err)
{
	(void) gpu, (void) source, (void) first, (void) n;
	return no_gpu(err);
}

GrnGpuStatus
grn_gpu_digested_rows(GrnGpu *gpu, const uint8_t *digests, const GrnGpu *keeper,
					  const uint32_t *members, GrnGpuError *err)
{
	(void) gpu, (void) digests, (void) keeper, (void) members;
	return no_gpu(err);
}

GrnGpuStatus
grn_gpu_device_rows(GrnGpu *gpu, const float *d_rows, GrnGpuError *err)
{
	(void) gpu, (void) d_rows;
	return no_gpu(err);
}

GrnGpuStatus
grn_gpu_build(GrnGpu *gpu, uint32_t *ids, uint8_t *counts, GrnGpuProgressFn progress,
			  void *ctx, GrnGpuTimes *times, GrnGpuError *err)
{
	(void) gpu, (void) ids, (void) counts, (void) progress, (void) ctx, (void) times;
	return no_gpu(err);
}

uint64_t
grn_gpu_peak(GrnGpu *gpu)
{
	(void) gpu;
	return 0;
}

void
grn_gpu_end(GrnGpu *gpu)
{
	(void) gpu;
}

GrnGpuStatus
grn_gpu_fit(GrnGpu *gpu, const float *sample, uint32_t n, uint64_t seed, GrnGpuFit *fit,
			GrnGpuError *err)
{
	(void) gpu, (void) sample, (void) n, (void) seed, (void) fit;
	return no_gpu(err);
}

uint64_t
grn_gpu_fit_bytes(const GrnGpuFit *fit, uint32_t n)
{
	(void) fit, (void) n;
	return 0;
}

uint64_t
grn_gpu_kept_bytes(const GrnGpuFit *fit, uint64_t n)
{
	(void) fit, (void) n;
	return 0;
}

GrnGpuStatus
grn_gpu_keep_digests(GrnGpu *gpu, const GrnGpuFit *fit, uint64_t n, uint64_t memory_limit,
					 GrnGpuError *err)
{
	(void) gpu, (void) fit, (void) n, (void) memory_limit;
	return no_gpu(err);
}

void
grn_gpu_drop_digests(GrnGpu *gpu)
{
	(void) gpu;
}

bool
grn_gpu_has_digests(const GrnGpu *gpu)
{
	(void) gpu;
	return false;
}

GrnGpuStatus
grn_gpu_share_digests(GrnGpu *const *keepers, int nkeepers, const GrnGpuFit *fit,
					  const uint8_t *digests, int *failed, GrnGpuError *err)
{
	(void) keepers, (void) nkeepers, (void) fit, (void) digests, (void) failed;
	return no_gpu(err);
}

GrnGpuStatus
grn_gpu_digest_begin(GrnGpu *gpu, const GrnGpuDigesting *digesting, uint64_t memory_limit,
					 GrnGpuError *err)
{
	(void) gpu, (void) digesting, (void) memory_limit;
	return no_gpu(err);
}

GrnGpuStatus
grn_gpu_digest(GrnGpu *gpu, const GrnGpuDigesting *digesting, const GrnGpuSource *source,
			   uint64_t first, uint64_t n, uint64_t at, bool *other, GrnGpuError *err)
{
	(void) gpu, (void) digesting, (void) source, (void) first, (void) n, (void) at;
	(void) other;
	return no_gpu(err);
}

GrnGpuStatus
grn_gpu_merge_begin(GrnGpu *gpu, uint32_t degree, const GrnGpu *keeper,
					uint64_t memory_limit, GrnGpuError *err)
{
	(void) gpu, (void) degree, (void) keeper, (void) memory_limit;
	return no_gpu(err);
}

uint64_t
grn_gpu_merge_bytes(uint32_t degree)
{
	(void) degree;
	return 0;
}

GrnGpuStatus
grn_gpu_merge(GrnGpu *gpu, const GrnGpuFit *fit, const GrnGpuMerge *merge, bool fill,
			  GrnGpuError *err)
{
	(void) gpu, (void) fit, (void) merge, (void) fill;
	return no_gpu(err);
}

GrnGpuStatus
grn_gpu_take_graph(GrnGpu *gpu, uint64_t n, uint32_t degree, const uint32_t *ids,
				   const uint8_t *counts, uint64_t memory_limit, GrnGpuError *err)
{
	(void) gpu, (void) n, (void) degree, (void) ids, (void) counts, (void) memory_limit;
	return no_gpu(err);
}

GrnGpuStatus
grn_gpu_reach(GrnGpu *gpu, uint32_t entry, uint64_t *reached, uint64_t *count,
			  GrnGpuError *err)
{
	(void) gpu, (void) entry, (void) reached, (void) count;
	return no_gpu(err);
}

GrnGpuStatus
grn_gpu_cut_order(GrnGpu *gpu, uint32_t per_page, uint32_t *position, GrnGpuError *err)
{
	(void) gpu, (void) per_page, (void) position;
	return no_gpu(err);
}
void
grn_gpu_default_params(GrnGraphParams *params, uint32_t dim)
{
	if (params->degree == 0)
		params->degree = grn_bare_degree(dim);
}
