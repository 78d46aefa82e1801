/*
 * handle.h - the state of a handle (GrnGpu) and of a running build, and the layout of
 * their device memory.
 */
#ifndef GRN_HANDLE_H
#define GRN_HANDLE_H

#include "common.cuh"

/* staging.cu: copies between the host's pageable memory and devices, in pinned buffers. */

/*
 * Threads that fill pinned memory, one at about 10 GB/s, all as fast as the bus.  Measured
 * on 4,000,000 rows and four GPUs: 4 threads take .01 s more, 10 threads save nothing.
 */
constexpr int COPY_THREADS = 6;
/*
 * Bytes of a buffer.  Pinning takes 0.6 ms for each megabyte.  Measured as above with one
 * GPU: buffers of 256 and 128 kB take .05 and .1 s more.
 */
constexpr size_t COPY_BYTES = (size_t) 1 << 20;
/* Bytes of a buffer of a device's later handles, which are opened while other handles wait. */
constexpr size_t FURTHER_COPY_BYTES = (size_t) 512 << 10;

struct Copiers; /* staging.cu: threads that help with copies */

struct Staging
{
	Copiers		*copiers;
	size_t		 bytes;						/* bytes of a buffer */
	uint8_t		*h_buffer[COPY_THREADS][2]; /* [bytes] each, pinned */
	cudaStream_t stream[COPY_THREADS];
	cudaEvent_t	 done[COPY_THREADS][2]; /* the last copy from or to each buffer */
};

cudaError_t staging_open(Staging *staging, size_t bytes);
void		staging_close(Staging *staging);
/*
 * Copies `rows` rows of `width` bytes between d_rows [rows][width] and h_rows, where rows
 * are `pitch` bytes apart.  With index, row i is at h_rows + index[i] * pitch; for
 * GRN_INVALID_ID the device receives bytes 0xFF.  When a copy to the device returns, the
 * caller may change h_rows.  When a copy from the device returns, the copy is complete.
 */
cudaError_t staging_copy(Staging *staging, int device, bool to_device, void *d_rows,
						 void *h_rows, size_t width, size_t pitch, size_t rows,
						 const uint32_t *index = NULL);
/* One destination of a copy to several devices, with the streams of the destination's handle. */
struct CopyTarget
{
	Staging *staging;
	uint8_t *d_rows; /* [rows][width] */
};
/*
 * Copies the same rows to all targets.  The host's memory is read once, into the buffers
 * of the first target, which is on `device`.  All copies are complete when the function
 * returns.  On failure *failed is the index of the target.
 */
cudaError_t staging_spread(const CopyTarget *targets, int ntargets, int device,
						   void *h_rows, size_t width, size_t rows, int *failed);
/* Waits for all copies to the device. */
cudaError_t staging_wait(Staging *staging);

/* gpu.cu: fill *err and return the error's status; gpu_fail_cuda() takes it from a CUDA error. */
GrnGpuStatus gpu_fail(GrnGpuError *err, GrnGpuStatus status, const char *what,
					  const char *detail);
GrnGpuStatus gpu_fail_cuda(GrnGpuError *err, cudaError_t rc, const char *what);
GrnGpuStatus gpu_no_memory(GrnGpuError *err, uint64_t needed, uint64_t limit);
/*
 * Allocates `bytes` of device memory.  On failure sets *d to NULL, and reports the bytes
 * that the whole step needs and the limit.
 */
GrnGpuStatus gpu_allocate(void **d, uint64_t bytes, uint64_t needed, uint64_t limit,
						  GrnGpuError *err);

#define GRN_CHECK(call, what) \
	do \
	{ \
		cudaError_t grn_check_rc = (call); \
		if (grn_check_rc != cudaSuccess) \
			return gpu_fail_cuda(err, grn_check_rc, what); \
	} while (0)

/*
 * The layout of a build's arena, the device memory of a handle.  Fields of type size_t are offsets
 * in bytes.  Some arrays share memory with arrays that are needed at another time.
 */
struct Plan
{
	Tuning	 tuning;
	uint32_t degree;
	uint32_t digest_dims;
	uint32_t stride; /* bytes of a digest */
	/* digests in the order of the descent, and the arrays of the graph (TileGraph) */
	size_t digests, order, norms, pool, pool_count, inbox[2], inbox_count[2], list,
		list_count;
	size_t scratch;		 /* scratch of the projection and the order; overlaps pool and
						  * inbox[0] */
	size_t bare_digests; /* digests in the caller's order; overlaps inbox[1] */
	size_t members;		 /* [n] ids of rows, for builds from digests */
	size_t flag;		 /* one 32-bit number */
	size_t counts;		 /* [n] lengths of the lists */
	size_t total;		 /* bytes of the arena, which does not include the caller's
						  * rows */
};

/* Rows of more dimensions are projected to this many directions. */
constexpr uint32_t PROJECTED_DIMS = 128;
/* Directions of 8-bit digests if PROJECTED_DIMS keep too little of the variance (project.cu). */
constexpr uint32_t MORE_DIMS = 256;

/*
 * The finished graph, in the arena: of a build (gpu.cu), or of lists that the host has
 * changed and copied to the device (reach.cu).
 */
struct Built
{
	Lists	  lists;   /* NULL pointers: none */
	Digests	  digests; /* digests of the graph's vertices, if digests.n = n */
	uint32_t *d_rows;  /* [n] row of each vertex of digests */
};

/* Digests of all rows that stay on the device, outside the arena (parts.cu). */
struct Kept
{
	Digests	 digests;
	uint64_t bytes; /* device bytes; 0: none */
};

/* The work of builds in parts, and of builds from the digests of an earlier build (parts.cu). */
struct PartsState
{
	uint64_t	  batch;  /* rows that are digested or merged at a time */
	Cells		  cells;  /* in the arena while rows are digested; n = 0: none */
	const GrnGpu *keeper; /* the handle whose kept digests a merge uses */
};

struct GrnGpu
{
	int			number;	 /* number of the device */
	bool		counted; /* this handle is counted in `handles` (gpu.cu) */
	Device		device;
	Staging		staging;
	cudaEvent_t mark[4];  /* the start, and the ends of conversion, descent and finish */
	cudaEvent_t round[2]; /* the ends of the last two rounds */

	bool		   begun; /* the arena belongs to the build of the last grn_gpu_begin() */
	uint64_t	   n;
	uint32_t	   dim;
	GrnGraphParams params;	/* params of grn_gpu_begin(), with defaults in place of
							 * zeros */
	GrnGpuOptions  options; /* options of grn_gpu_begin() */
	Plan		   plan;
	uint64_t	   limit;	   /* the most device bytes of this build */
	uint8_t		  *d_arena;	   /* [arena] */
	uint64_t	   arena;	   /* bytes of d_arena */
	float		  *d_own_rows; /* [n][dim] rows copied from the host; NULL: none */
	const float	  *d_rows;	   /* [n][dim]: d_own_rows, or the caller's */
	bool		   overridden; /* builds use override_ instead of tuning_for() */
	Tuning		   override_;
	float		   upload;	 /* seconds in grn_gpu_rows() */
	bool		   digested; /* the arena has digests */
	bool		   named;	 /* the arena has members */
	Built		   built;
	uint64_t	   peak; /* the most device bytes since the last grn_gpu_peak() */

	PartsState parts;
	Kept	   kept;
};

/* The state that the steps of a running build pass on. */
struct Build
{
	GrnGpu			*gpu;
	Digests			 digests;
	TileGraph		 graph;
	uint32_t		*d_order;  /* [n] the row of each vertex */
	uint32_t		*d_ids;	   /* [n][degree] the lists of the result */
	uint8_t			*d_counts; /* [n] the lengths of the lists */
	bool			 exact;	   /* distances of digests equal distances of rows */
	bool			 coarse;   /* as in GrnGpuTimes */
	GrnGpuProgressFn progress;
	void			*progress_ctx;
	uint64_t		 done, rounds; /* update rounds */
	bool			 canceled;
};

/* The format of a source's rows: GrnGpuSource without addresses. */
struct RawRow
{
	GrnNumbers numbers;
	uint32_t   bytes, head, scale;
};
/* expand.cu: converts n rows in d_raw [n][row.bytes] to floats, d_rows [n][dim]. */
RawRow		raw_row_of(const GrnGpuSource &source);
cudaError_t launch_expand(const Device &device, const uint8_t *d_raw, const RawRow &row,
						  uint32_t n, uint32_t dim, float *d_rows);

/* The size of digests. */
enum DigestSize
{
	DIGESTS_PLAIN,
	DIGESTS_MORE, /* MORE_DIMS directions in bytes */
	DIGESTS_WIDE  /* binary16 */
};
/* plan.cu: makes the layout of a build.  gpu may override the tuning; NULL: no override. */
Plan make_plan(const GrnGpu *gpu, const GrnGraphParams *given,
			   const GrnGpuOptions *options, uint64_t n, uint32_t dim, DigestSize size);
/* plan.cu: returns the dimensions of digests. */
uint32_t digest_dims_of(uint32_t dim);
/* plan.cu: returns the most dimensions that a fit may choose.  few: at most digest_dims_of(). */
uint32_t most_digest_dims(uint32_t dim, RowFormat format, bool few);
/* plan.cu: returns the dimensions of digests of bits, 512, 1024 or 2048: whole segments. */
uint32_t bit_digest_dims(uint32_t dim);
/* cut_order.cu: returns in *bytes the most device memory of an order of n vertices by cuts. */
cudaError_t cut_order_bytes(uint32_t n, size_t *bytes);
/* build.cu: runs all steps of a build on the device.  b.d_ids and b.d_counts are the result. */
cudaError_t build_tile(Build &b);

#endif /* GRN_HANDLE_H */
