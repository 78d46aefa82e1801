/*
 * gpu.h - the one C interface between the builder and the GPU.
 *
 * Implemented by gpu.cu; by stub.c where there is no CUDA compiler ("this
 * grnnd_build has no GPU support"); and by a fault-injecting stand-in in tests.
 * No function exits, prints or throws: each returns GRN_GPU_OK or a status,
 * with an explanation in *err.
 */
#ifndef GRN_GPU_H
#define GRN_GPU_H

#include "../src/graph/grn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum GrnGpuStatus
{
	GRN_GPU_OK = 0,
	GRN_GPU_ABSENT,				/* no support built in, no driver, no device */
	GRN_GPU_TOO_OLD,			/* driver or device not usable by these kernels */
	GRN_GPU_MEMORY,				/* does not fit; err->needed says how much would */
	GRN_GPU_CANCELLED,			/* the progress callback said stop */
	GRN_GPU_FAILED				/* anything else the driver reported */
} GrnGpuStatus;

typedef struct GrnGpuError
{
	GrnGpuStatus status;
	uint64_t	needed;			/* bytes, GRN_GPU_MEMORY */
	char		text[256];
} GrnGpuError;

typedef struct GrnGpu GrnGpu;

typedef struct GrnGpuInfo
{
	char		name[128];
	int			major, minor;	/* compute capability */
	uint64_t	memory_total, memory_free;	/* bytes */
} GrnGpuInfo;

typedef enum GrnGpuMode
{
	GRN_GPU_TILE = 0,			/* the default: all pairs of a pool as one tile */
	GRN_GPU_PAPER = 1			/* Algorithm 3 on taken literally */
} GrnGpuMode;

typedef enum GrnPairOrder		/* of GRN_GPU_PAPER: section 3.3's ablation */
{
	GRN_ORDER_DISORDERED = 0,
	GRN_ORDER_ASCENDING,
	GRN_ORDER_DESCENDING
} GrnPairOrder;

typedef struct GrnGpuOptions
{
	GrnGpuMode	mode;
	GrnPairOrder order;
	uint32_t	pairs;			/* paper mode: random pairs a vertex and round; 0: default */
	uint64_t	memory_limit;	/* bytes of device memory to stay under; 0: what is free */
	bool		fill;			/* lists up to the degree with near neighbours of neighbours */
	/*
	 * Tile mode: searches among neighbours' neighbours, of which edges are then chosen
	 * anew: better graphs in twice the time.  0: none.
	 */
	uint32_t	joins;
} GrnGpuOptions;

typedef struct GrnGpuTimes
{
	float		upload, convert, descent, finish, download; /* seconds */
	uint64_t	peak_bytes;		/* device memory, input included */
} GrnGpuTimes;

extern GrnGpuStatus grn_gpu_count(int *count, GrnGpuError *err);
/* Creates the context (0.2-0.3 s). */
extern GrnGpuStatus grn_gpu_open(int device, GrnGpu **gpu, GrnGpuError *err);
extern GrnGpuStatus grn_gpu_info(GrnGpu *gpu, GrnGpuInfo *info, GrnGpuError *err);
extern void grn_gpu_close(GrnGpu *gpu);

/* Device bytes that a build takes in all; the build allocates by the same plan. */
extern uint64_t grn_gpu_plan(GrnGpu *gpu, const GrnGraphParams *params,
							 const GrnGpuOptions *options, uint64_t n, uint32_t dim);

/*
 * Room for n rows of dim floats on the device; then rows in any number of
 * pieces.  host: [nrows] of stride floats (stride >= dim), copied before the
 * call returns.  Overlaps copies with what the device is doing.
 */
extern GrnGpuStatus grn_gpu_begin(GrnGpu *gpu, uint64_t n, uint32_t dim,
								  const GrnGpuOptions *options,
								  const GrnGraphParams *params, GrnGpuError *err);
extern GrnGpuStatus grn_gpu_rows(GrnGpu *gpu, uint64_t first, uint64_t nrows,
								 const float *host, uint64_t stride, GrnGpuError *err);
/* The same from device memory that the caller owns: d_rows [n][dim], no copy. */
extern GrnGpuStatus grn_gpu_device_rows(GrnGpu *gpu, const float *d_rows, GrnGpuError *err);

/*
 * Builds.  ids [n][degree], counts [n]: host memory, nearest first (either may be
 * NULL: the graph stays on the device, for timing).  Progress is called from
 * the calling thread; returning false cancels.
 */
typedef bool (*GrnGpuProgressFn) (void *ctx, uint64_t round, uint64_t rounds);
extern GrnGpuStatus grn_gpu_build(GrnGpu *gpu, const GrnGraphParams *params,
								  const GrnGpuOptions *options,
								  uint32_t *ids, uint8_t *counts,
								  GrnGpuProgressFn progress, void *ctx,
								  GrnGpuTimes *times, GrnGpuError *err);
/* Frees what begin and build allocated; the context stays. */
extern void grn_gpu_end(GrnGpu *gpu);

/* The defaults of the GPU build where params hold 0. */
extern void grn_gpu_default_params(GrnGraphParams *params, uint32_t dim, uint64_t n);

#ifdef __cplusplus
}
#endif
#endif							/* GRN_GPU_H */
