/*
 * gpu.h - the one C interface between the builder and the GPU.
 *
 * gpu.cu and parts.cu implement the interface.  Without a CUDA compiler stub.c implements it
 * ("this grnnd_build has no GPU support"), and tests link a stand-in that can fail on purpose.
 * No function exits, prints or throws.  Each function returns GRN_GPU_OK, or another status
 * with an explanation in *err.
 *
 * A handle (GrnGpu) has one device, and runs one build, digesting or merge at a time.  Several
 * handles of one device can work at the same time, each in its own thread.
 */
#ifndef GRN_GPU_H
#define GRN_GPU_H

#include "../src/space/grn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum GrnGpuStatus
{
	GRN_GPU_OK = 0,
	GRN_GPU_ABSENT,				/* no support built in, no driver, no device */
	GRN_GPU_TOO_OLD,			/* the driver or the device does not support these kernels */
	GRN_GPU_MEMORY,				/* err->needed bytes of device memory are not available */
	GRN_GPU_CANCELLED,			/* the progress callback returned false */
	GRN_GPU_FAILED				/* any other error that the driver reported */
} GrnGpuStatus;

typedef struct GrnGpuError
{
	GrnGpuStatus status;
	uint64_t	needed;			/* bytes needed, for GRN_GPU_MEMORY */
	char		text[256];
} GrnGpuError;

typedef struct GrnGpu GrnGpu;

typedef struct GrnGpuInfo
{
	char		name[128];
	int			major,
				minor;			/* compute capability */
	uint64_t	memory_total,
				memory_free;	/* bytes */
} GrnGpuInfo;

/* The most dimensions of exact digests of bytes. */
#define GRN_GPU_EXACT_DIMS 128

/*
 * The format of the rows that a build receives.  grn_gpu_digest() makes digests.  Bits can
 * also be copied from the host's rows, by grn_gpu_rows_from().
 */
typedef enum GrnGpuRows
{
	GRN_GPU_FLOATS = 0,
	GRN_GPU_EXACT_DIGESTS,		/* the rows themselves: integers 0 to 255 in bytes */
	GRN_GPU_BYTE_DIGESTS,		/* projected rows in bytes */
	GRN_GPU_WIDE_DIGESTS,		/* projected rows in binary16 */
	GRN_GPU_BIT_DIGESTS			/* the rows themselves: one bit for each dimension */
} GrnGpuRows;

/* The most dimensions of bit digests: 2048 bits take GRN_GPU_MOST_DIGEST_BYTES. */
#define GRN_GPU_MOST_BITS 2048

typedef struct GrnGpuOptions
{
	uint64_t	memory_limit;	/* the most bytes of device memory that the build may take; 0: all
								 * free memory */
	bool		fill;			/* lists are filled up to the degree with near neighbors of
								 * neighbors */
	GrnGpuRows	rows;
	uint32_t	digest_dims;	/* dimensions of digests, from GrnGpuFit */
	bool		few_directions; /* for floats: as in GrnGpuFit */
} GrnGpuOptions;

typedef struct GrnGpuTimes
{
	float		upload,
				convert,
				descent,
				finish,
				download;		/* all five in seconds */
	uint64_t	peak_bytes;		/* device memory with rows, without kept digests */
	bool		coarse;			/* bytes are too coarse to order near rows; GRN_GPU_WIDE_DIGESTS
								 * are not */
} GrnGpuTimes;

extern GrnGpuStatus grn_gpu_count(int *count, GrnGpuError *err);
/* Opens a handle.  A device's first handle creates CUDA's context in 0.2 to 0.3 s. */
extern GrnGpuStatus grn_gpu_open(int device, GrnGpu **gpu, GrnGpuError *err);
extern GrnGpuStatus grn_gpu_info(GrnGpu *gpu, GrnGpuInfo *info, GrnGpuError *err);
extern void grn_gpu_close(GrnGpu *gpu);

/*
 * Returns the device bytes of a build, the rows included.  The build allocates by the same
 * plan.  If rows turn out to need larger digests and the memory limit allows, the build takes
 * 128 bytes more for each row.
 */
extern uint64_t grn_gpu_plan(GrnGpu *gpu, const GrnGraphParams *params,
							 const GrnGpuOptions *options, uint64_t n, uint32_t dim);

/*
 * Returns in *limit the device bytes that a step may take: the free bytes, but at most
 * memory_limit unless memory_limit is 0.  Each function below with a parameter memory_limit
 * observes this limit.
 */
extern GrnGpuStatus grn_gpu_limit(GrnGpu *gpu, uint64_t memory_limit, uint64_t *limit,
								  GrnGpuError *err);

/*
 * grn_gpu_begin() allocates the memory of a build of n rows of dim floats, and keeps params
 * and options for the build.  grn_gpu_rows() then copies rows [first, first + nrows), in any
 * number of calls.  host: [nrows][stride] floats, stride >= dim; the caller may change `host`
 * after the call returns.
 */
extern GrnGpuStatus grn_gpu_begin(GrnGpu *gpu, uint64_t n, uint32_t dim,
								  const GrnGpuOptions *options,
								  const GrnGraphParams *params, GrnGpuError *err);
extern GrnGpuStatus grn_gpu_rows(GrnGpu *gpu, uint64_t first, uint64_t nrows,
								 const float *host, uint64_t stride, GrnGpuError *err);
/*
 * Rows in the host's memory.  Row i is at base + order[i] * row_bytes, or at base + i * row_bytes
 * if order is NULL.  Floats begin at the start of the row.  Numbers of other formats are converted
 * to floats on the device, and multiplied by up to two floats in the row: the head (`head` bytes
 * before the numbers) and the scale (at offset `scale`).  0 means that the row has no head or no
 * scale.  row_bytes must be a multiple of 4 for formats other than floats.
 */
typedef struct GrnGpuSource
{
	const void *base;
	const uint32_t *order;
	uint64_t	row_bytes;
	uint32_t	head;
	uint32_t	scale;
	GrnNumbers	numbers;
} GrnGpuSource;

/* Whether the device must convert the rows to floats. */
static inline bool
grn_gpu_expands(const GrnGpuSource *source)
{
	return source->numbers != GRN_NUMBERS_FLOATS;
}

/*
 * Copies rows [first, first + n) of a build, in place of grn_gpu_rows().  Rows cross the bus
 * in their own format.  A build of bit digests takes bits without head and scale.
 */
extern GrnGpuStatus grn_gpu_rows_from(GrnGpu *gpu, const GrnGpuSource *source, uint64_t first,
									  uint64_t n, GrnGpuError *err);
/*
 * Gives a build all rows as digests, in place of grn_gpu_rows().  Row i of the build is row
 * members[i] of all rows.  The digest of row i is at digests + members[i] * digest_bytes, or,
 * if digests is NULL, among the digests that `keeper` keeps, a handle of the same device.
 * Lists name rows by members[i].  grn_gpu_build() must be given ids, and GRN_INVALID_ID
 * follows the last neighbor of a list shorter than the degree.
 */
extern GrnGpuStatus grn_gpu_digested_rows(GrnGpu *gpu, const uint8_t *digests,
										  const GrnGpu *keeper, const uint32_t *members,
										  GrnGpuError *err);
/* Gives a build all rows in the caller's device memory, d_rows [n][dim], without a copy. */
extern GrnGpuStatus grn_gpu_device_rows(GrnGpu *gpu, const float *d_rows, GrnGpuError *err);

/*
 * Builds the graph of the rows given since grn_gpu_begin().  ids [n][degree] and counts [n]
 * are host memory and receive the lists, nearest first.  With ids and counts NULL the graph is
 * not copied, for measurements of time.  The calling thread calls progress; a return value of
 * false cancels the build.
 */
typedef bool (*GrnGpuProgressFn) (void *ctx, uint64_t round, uint64_t rounds);
extern GrnGpuStatus grn_gpu_build(GrnGpu *gpu, uint32_t *ids, uint8_t *counts,
								  GrnGpuProgressFn progress, void *ctx,
								  GrnGpuTimes *times, GrnGpuError *err);
/*
 * Questions about a finished graph, valid after a build until the handle's next step or
 * grn_gpu_end().  All three fail with GRN_GPU_FAILED if the device does not have the graph or
 * the graph is too deep.  The caller then uses the processor.
 *
 * grn_gpu_take_graph() gives the device a finished graph in place of a build: ids [n][degree],
 * counts [n].  The graph takes degree * 4 bytes for each vertex and the memory of a page
 * order.  Fails with GRN_GPU_MEMORY if the memory is not available.
 *
 * grn_gpu_reach() sets a bit for each vertex that the entry reaches, reached [(n + 63) / 64],
 * and returns the number of bits in *count.
 *
 * grn_gpu_cut_order() computes position [n] by cuts of the vertices' digests, as
 * grn_cut_order() does for rows.  Fails also if the device does not have digests of all rows,
 * either of this build or kept.
 */
extern GrnGpuStatus grn_gpu_take_graph(GrnGpu *gpu, uint64_t n, uint32_t degree,
									   const uint32_t *ids, const uint8_t *counts,
									   uint64_t memory_limit, GrnGpuError *err);
extern GrnGpuStatus grn_gpu_reach(GrnGpu *gpu, uint32_t entry, uint64_t *reached,
								  uint64_t *count, GrnGpuError *err);
extern GrnGpuStatus grn_gpu_cut_order(GrnGpu *gpu, uint32_t per_page, uint32_t *position,
									  GrnGpuError *err);
/* Returns the most device bytes allocated at one time since the last call. */
extern uint64_t grn_gpu_peak(GrnGpu *gpu);
/* Frees the memory that begin and build allocated.  The context remains. */
extern void grn_gpu_end(GrnGpu *gpu);

/*
 * Builds in parts (src/builder): all rows become digests once, by the same fit on every
 * device.  The builds of the parts and the merges of their lists compare digests.
 */
#define GRN_GPU_MOST_DIGEST_BYTES 256

typedef struct GrnGpuFit
{
	GrnGpuRows	rows;			/* grn_gpu_digest() reports rows that cannot be exact digests */
	bool		few_directions; /* limits digest_dims to the usual number, whatever share of the
								 * variance is kept */
	uint32_t	dim;
	uint32_t	digest_dims;
	uint32_t	digest_bytes;	/* bytes of a digest */
	float	   *projection;		/* from malloc(); NULL for exact digests */
} GrnGpuFit;

/*
 * Completes a fit from a sample [n][dim].  The caller has set rows, few_directions and dim.
 * sample may be NULL for exact digests, which need no sample.
 */
extern GrnGpuStatus grn_gpu_fit(GrnGpu *gpu, const float *sample, uint32_t n, uint64_t seed,
								GrnGpuFit *fit, GrnGpuError *err);
/* Returns the device bytes that a fit takes. */
extern uint64_t grn_gpu_fit_bytes(const GrnGpuFit *fit, uint32_t n);

/*
 * Makes a handle a keeper: allocates memory on the handle's device for the digests of all n rows.
 * The memory remains allocated beside builds and merges until grn_gpu_drop_digests().  Fails with
 * GRN_GPU_MEMORY if the memory is not available.  grn_gpu_kept_bytes() returns the bytes.
 */
extern uint64_t grn_gpu_kept_bytes(const GrnGpuFit *fit, uint64_t n);
extern GrnGpuStatus grn_gpu_keep_digests(GrnGpu *gpu, const GrnGpuFit *fit, uint64_t n,
										 uint64_t memory_limit, GrnGpuError *err);
extern void grn_gpu_drop_digests(GrnGpu *gpu);
/* Whether a handle keeps digests by grn_gpu_keep_digests(). */
extern bool grn_gpu_has_digests(const GrnGpu *gpu);
/*
 * Prepares keepers, one for each device, for merges.  Copies the digests from the host,
 * [n][digest_bytes]; with digests NULL all keepers must have the digests already.  On failure
 * *failed is the index of the keeper that failed.
 */
extern GrnGpuStatus grn_gpu_share_digests(GrnGpu *const *keepers, int nkeepers,
										  const GrnGpuFit *fit, const uint8_t *digests,
										  int *failed, GrnGpuError *err);

/*
 * How rows become digests, and the destinations of the digests: all keepers, on whatever
 * device digests are made.
 */
typedef struct GrnGpuDigesting
{
	const GrnGpuFit *fit;
	const GrnCells *cells;		/* NULL: no search for cells */
	GrnGpu	   *const *keepers; /* [nkeepers], one a device */
	int			nkeepers;
	uint32_t	raw_bytes;		/* bytes of a row of the source if grn_gpu_expands(), otherwise 0 */
	uint8_t    *digests;		/* [all rows][digest_bytes] a copy in the host's memory; may be
								 * NULL */
	uint32_t   *home,
			   *guest;			/* [all rows] cells; GRN_INVALID_ID: none */
} GrnGpuDigesting;

/*
 * grn_gpu_digest_begin() must come first.  grn_gpu_digest() makes digests of rows [first,
 * first + n) of source, which are rows [at, at + n) of all rows.  Sets *other if the fit needs
 * exact digests and a row has a number that is not an integer from 0 to 255.  When the
 * function returns, all keepers have the digests.
 */
extern GrnGpuStatus grn_gpu_digest_begin(GrnGpu *gpu, const GrnGpuDigesting *digesting,
										 uint64_t memory_limit, GrnGpuError *err);
extern GrnGpuStatus grn_gpu_digest(GrnGpu *gpu, const GrnGpuDigesting *digesting,
								   const GrnGpuSource *source, uint64_t first, uint64_t n,
								   uint64_t at, bool *other, GrnGpuError *err);

/*
 * Merges the two lists that a row has in two parts into one list: the candidates of both lists
 * that pass the RNG rule, filled with the nearest of the remaining candidates.  With `fill`
 * the list is filled up to the degree, otherwise as far as builds fill their lists.  keeper
 * must be a handle of the same device that grn_gpu_share_digests() has prepared.
 */
typedef struct GrnGpuMerge
{
	const uint32_t *rows;		/* [count] */
	const uint32_t *lists;		/* [.][degree], GRN_INVALID_ID after the last neighbor */
	const uint32_t *positions[2];	/* [count] the rows' lists in `lists`; GRN_INVALID_ID: none */
	uint64_t	count;
	uint32_t   *ids;			/* [n][degree]; the lists of `rows` are written */
	uint8_t    *counts;			/* [n]; the counts of `rows` are written */
} GrnGpuMerge;
extern GrnGpuStatus grn_gpu_merge_begin(GrnGpu *gpu, uint32_t degree, const GrnGpu *keeper,
										uint64_t memory_limit, GrnGpuError *err);
/* Returns the least device bytes that a merge takes beside the digests. */
extern uint64_t grn_gpu_merge_bytes(uint32_t degree);
extern GrnGpuStatus grn_gpu_merge(GrnGpu *gpu, const GrnGpuFit *fit, const GrnGpuMerge *merge,
								  bool fill, GrnGpuError *err);


/* Replaces zeros in params by the defaults for a GPU. */
extern void grn_gpu_default_params(GrnGraphParams *params, uint32_t dim);
/* The largest r and s of a build on a GPU. */
#define GRN_GPU_MOST_R 64
#define GRN_GPU_MOST_S 32

#ifdef __cplusplus
}
#endif
#endif							/* GRN_GPU_H */
