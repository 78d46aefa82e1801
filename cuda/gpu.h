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

#define GRN_GPU_EXACT_DIMS 128	/* rows of more have no exact codes */

/* What rows come as; codes are those of grn_gpu_encode(), tile mode's alone. */
typedef enum GrnGpuRows
{
	GRN_GPU_FLOATS = 0,
	GRN_GPU_EXACT_CODES,		/* integers 0..255 in bytes */
	GRN_GPU_BYTE_CODES,
	GRN_GPU_WIDE_CODES			/* binary16 */
} GrnGpuRows;

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
	GrnGpuRows	rows;
	uint32_t	code_dims;		/* of rows that come as codes, as their fit says */
	bool		few;			/* of floats: as in GrnGpuFit */
} GrnGpuOptions;

typedef struct GrnGpuTimes
{
	float		upload, convert, descent, finish, download; /* seconds */
	uint64_t	peak_bytes;		/* device memory, input included */
	bool		coarse;			/* near rows have one GRN_GPU_BYTE_CODES code: wide ones are needed */
} GrnGpuTimes;

extern GrnGpuStatus grn_gpu_count(int *count, GrnGpuError *err);
/* Creates the context (0.2-0.3 s). */
extern GrnGpuStatus grn_gpu_open(int device, GrnGpu **gpu, GrnGpuError *err);
extern GrnGpuStatus grn_gpu_info(GrnGpu *gpu, GrnGpuInfo *info, GrnGpuError *err);
extern void grn_gpu_close(GrnGpu *gpu);

/*
 * Device bytes that a build takes in all; the build allocates by the same plan.  Where rows
 * turn out to need larger codes and the limit allows for them, it takes 128 a row more.
 */
extern uint64_t grn_gpu_plan(GrnGpu *gpu, const GrnGraphParams *params,
							 const GrnGpuOptions *options, uint64_t n, uint32_t dim);

/*
 * Device bytes that a step may take: what is free, at most memory_limit bytes unless that
 * is 0.  Each step below that takes memory_limit stays under it in the same way.
 */
extern GrnGpuStatus grn_gpu_limit(GrnGpu *gpu, uint64_t memory_limit, uint64_t *limit,
								  GrnGpuError *err);

/*
 * Makes room for n rows of dim floats on the device, and keeps params and options for the
 * build.  Then come rows in any number of pieces.  host: [nrows] of stride floats
 * (stride >= dim), copied before the call returns, while the device works on.
 */
extern GrnGpuStatus grn_gpu_begin(GrnGpu *gpu, uint64_t n, uint32_t dim,
								  const GrnGpuOptions *options,
								  const GrnGraphParams *params, GrnGpuError *err);
extern GrnGpuStatus grn_gpu_rows(GrnGpu *gpu, uint64_t first, uint64_t nrows,
								 const float *host, uint64_t stride, GrnGpuError *err);
/*
 * All rows of a build from codes, in place of grn_gpu_rows(): row i is the one that
 * members[i] names, at codes + members[i] * code_bytes, or, codes NULL, as keeper, a handle
 * of the same device, has it.  Lists then name rows by members, and ids (which must be given
 * to the build) end by GRN_INVALID_ID where a list is short of the degree.
 */
extern GrnGpuStatus grn_gpu_coded_rows(GrnGpu *gpu, const uint8_t *codes,
									   const GrnGpu *keeper, const uint32_t *members,
									   GrnGpuError *err);
/* The same from device memory that the caller owns: d_rows [n][dim], no copy. */
extern GrnGpuStatus grn_gpu_device_rows(GrnGpu *gpu, const float *d_rows, GrnGpuError *err);

/*
 * Builds what was begun.  ids [n][degree], counts [n]: host memory, nearest first (either
 * may be NULL: the graph stays on the device, for timing).  Progress is called from the
 * calling thread; returning false cancels.
 */
typedef bool (*GrnGpuProgressFn) (void *ctx, uint64_t round, uint64_t rounds);
extern GrnGpuStatus grn_gpu_build(GrnGpu *gpu, uint32_t *ids, uint8_t *counts,
								  GrnGpuProgressFn progress, void *ctx,
								  GrnGpuTimes *times, GrnGpuError *err);
/* Device bytes taken at a time, the most since the last call. */
extern uint64_t grn_gpu_peak(GrnGpu *gpu);
/* Frees what any begin and build allocated; the context stays. */
extern void grn_gpu_end(GrnGpu *gpu);

/*
 * For builds in parts (src/builder/partition.c): rows become codes once, by one
 * fit on every device, and parts' builds and the merge of their lists compare those.
 */
#define GRN_GPU_MOST_CODE_BYTES 256

typedef struct GrnGpuFit
{
	GrnGpuRows	rows;			/* GRN_GPU_EXACT_CODES: a wish, see grn_gpu_encode() */
	bool		few;			/* no more directions than usual, whatever those hold */
	uint32_t	dim;
	uint32_t	code_dims;
	uint32_t	code_bytes;		/* of a row */
	float	   *projection;		/* from malloc(); NULL for exact codes */
} GrnGpuFit;

/*
 * Completes a fit whose rows, few and dim are set, from a sample [n][dim] (unused, may be
 * NULL, for exact codes).  GRN_GPU_TOO_OLD where the device has no tile mode.
 */
extern GrnGpuStatus grn_gpu_fit(GrnGpu *gpu, const float *sample, uint32_t n, uint64_t seed,
								GrnGpuFit *fit, GrnGpuError *err);
extern uint64_t grn_gpu_fit_bytes(const GrnGpuFit *fit, uint32_t n);

/*
 * Room on the device for all n rows' codes, whatever builds and merges take beside it
 * (GRN_GPU_MEMORY where it does not fit), until it is dropped.
 */
extern uint64_t grn_gpu_kept_bytes(const GrnGpuFit *fit, uint64_t n);
extern GrnGpuStatus grn_gpu_keep_codes(GrnGpu *gpu, const GrnGpuFit *fit, uint64_t n,
									   uint64_t memory_limit, GrnGpuError *err);
extern void grn_gpu_drop_codes(GrnGpu *gpu);
/*
 * Completes what keepers, one a device, need for a merge: their codes come from the
 * host's, [n][code_bytes], or, codes NULL, were encoded into them.  *failed is the keeper
 * that could not.
 */
extern GrnGpuStatus grn_gpu_share_codes(GrnGpu *const *keepers, int nkeepers,
										const GrnGpuFit *fit, const uint8_t *codes,
										int *failed, GrnGpuError *err);

/* Rows to encode: row i is base + order[i] * stride (order NULL: i itself). */
typedef struct GrnGpuSource
{
	const float *base;
	const uint32_t *order;
	uint64_t	stride;
} GrnGpuSource;

/* Where codes go: of a device's own handles as of others'. */
typedef struct GrnGpuEncoding
{
	const GrnGpuFit *fit;
	const GrnCells *cells;		/* NULL: there are no parts to find */
	GrnGpu *const *keepers;		/* one a device; their codes and, */
	int			nkeepers;
	uint8_t    *codes;			/* not NULL, the host's: [all rows][code_bytes] */
	uint32_t   *home, *guest;	/* [all rows] cells, GRN_INVALID_ID: none */
} GrnGpuEncoding;

/*
 * After grn_gpu_encode_begin(): rows [first, first + n) of source are rows [at, at + n) of
 * all; *other is set where exact codes were wished for and a row is no integers 0..255.
 * When it returns all keepers have the codes.
 */
extern GrnGpuStatus grn_gpu_encode_begin(GrnGpu *gpu, const GrnGpuEncoding *encoding,
										 uint64_t memory_limit, GrnGpuError *err);
extern GrnGpuStatus grn_gpu_encode(GrnGpu *gpu, const GrnGpuEncoding *encoding,
								   const GrnGpuSource *source, uint64_t first, uint64_t n,
								   uint64_t at, bool *other, GrnGpuError *err);

/*
 * Of each row the two lists that it has in two parts become one: what the RNG rule
 * keeps of both, filled up with the nearest of the rest, with `fill` to the degree,
 * else as builds fill their lists.  keeper: a handle of the device, shared.
 */
typedef struct GrnGpuMerge
{
	const uint32_t *rows;		/* [count] */
	const uint32_t *lists;		/* [.][degree], each ended by GRN_INVALID_ID if short */
	const uint32_t *places[2];	/* [count] into lists; GRN_INVALID_ID: none */
	uint64_t	count;
	uint32_t   *ids;			/* [n][degree], of which rows' are written */
	uint8_t    *counts;			/* [n] */
} GrnGpuMerge;
extern GrnGpuStatus grn_gpu_merge_begin(GrnGpu *gpu, uint32_t degree, const GrnGpu *keeper,
										uint64_t memory_limit, GrnGpuError *err);
/* The least device bytes of a merge, beside the codes. */
extern uint64_t grn_gpu_merge_bytes(uint32_t degree);
extern GrnGpuStatus grn_gpu_merge(GrnGpu *gpu, const GrnGpuFit *fit, const GrnGpuMerge *merge,
								  bool fill, GrnGpuError *err);

/* The defaults of the GPU build where params hold 0. */
extern void grn_gpu_default_params(GrnGraphParams *params, uint32_t dim, uint64_t n);

#ifdef __cplusplus
}
#endif
#endif							/* GRN_GPU_H */
