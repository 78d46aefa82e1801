/*
 * handle.h - what a handle (GrnGpu) keeps of a device and of the build that was begun, what
 * a running build keeps, and where all of it lies in device memory.
 */
#ifndef GRN_HANDLE_H
#define GRN_HANDLE_H

#include "common.cuh"
#include "staging.h"

/* gpu.cu: these fill *err and return its status; CUDA's errors become a GrnGpuStatus. */
GrnGpuStatus gpu_fail(GrnGpuError *err, GrnGpuStatus status, const char *what,
					  const char *detail);
GrnGpuStatus gpu_fail_cuda(GrnGpuError *err, cudaError_t rc, const char *what);
GrnGpuStatus gpu_no_memory(GrnGpuError *err, uint64_t needed, uint64_t limit);
/*
 * Allocates bytes of device memory.  *d is NULL where that fails; the error then tells
 * what the step needs in all, and its limit.
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
 * Where all of one build lies in the arena, the device memory of a handle.  Places are
 * offsets in bytes; some lie over others that are needed at other times.
 */
struct Plan
{
	Tuning	 tuning;
	uint32_t degree;
	uint32_t digest_dims;
	uint32_t stride; /* bytes of a row of digests */
	/* Digests in the order of the descent, and its graph (TileGraph). */
	size_t digests, order, norms, pool, pool_count, inbox[2], inbox_count[2], list,
		list_count;
	size_t scratch;		 /* of the projection and the order: over pool, inbox[0] */
	size_t bare_digests; /* digests in the caller's order: over inbox[1] */
	size_t members;		 /* [n] ids of rows that come as digests */
	size_t flag;		 /* one number */
	size_t counts;		 /* [n] of the lists */
	size_t total;		 /* without the caller's rows */
};

/* Rows of more dimensions are projected to this many directions. */
constexpr uint32_t PROJECTED_DIMS = 128;
/* In 8 bits they get so many where PROJECTED_DIMS hold too little (project.cu). */
constexpr uint32_t MORE_DIMS = 256;

struct GrnGpu
{
	int			number;	 /* the device */
	bool		counted; /* this handle is counted in `handles` (gpu.cu) */
	Device		device;
	Staging		staging;
	cudaEvent_t mark[4];  /* the start, and the ends of conversion, descent and finish */
	cudaEvent_t round[2]; /* the ends of the last two rounds */

	bool		   begun; /* grn_gpu_begin() was the last to lay out the arena */
	uint64_t	   n;
	uint32_t	   dim;
	GrnGraphParams params;	/* of grn_gpu_begin(), with defaults for what was left open */
	GrnGpuOptions  options; /* of grn_gpu_begin() */
	Plan		   plan;
	uint64_t	   limit;	   /* device bytes that this build may take */
	uint8_t		  *d_arena;	   /* [arena] */
	uint64_t	   arena;	   /* bytes */
	float		  *d_own_rows; /* [n][dim]; NULL: rows do not come from the host */
	const float	  *d_rows;	   /* [n][dim]: d_own_rows, or the caller's */
	bool		   overridden; /* builds use override_ instead of tuning_for() */
	Tuning		   override_;
	float		   upload;		  /* seconds in grn_gpu_rows() */
	bool		   digested;	  /* the arena has digests, */
	bool		   named;		  /* and members */
	Lists		   built;		  /* the graph, in the arena; NULL: there is none */
	Digests		   built_digests; /* of its vertices, if there are n, */
	uint32_t	  *d_built_rows;  /* whose rows these are: [n] */
	uint64_t	   peak; /* the most device bytes since the last grn_gpu_peak() */

	/* For builds in parts, and of some of the rows of a build before (parts.cu). */
	uint64_t	  batch;	 /* rows that are digested or merged at a time */
	Cells		  cells;	 /* in the arena, while rows are digested; n = 0: none */
	Digests		  kept;		 /* digests of all rows, beside the arena */
	GrnGpuRows	  kept_rows; /* what they are */
	uint32_t	  kept_dims;
	uint64_t	  kept_bytes; /* device bytes that they take; 0: there are none */
	const GrnGpu *keeper;	  /* the handle whose kept digests a merge uses */
};

/* What the steps of a running build hand on. */
struct Build
{
	GrnGpu			*gpu;
	Digests			 digests;
	TileGraph		 graph;
	uint32_t		*d_order;  /* [n] the row of each vertex */
	uint32_t		*d_ids;	   /* [n][degree] the result */
	uint8_t			*d_counts; /* [n] */
	bool			 exact;	   /* distances of digests are those of the rows */
	bool			 coarse;   /* as in GrnGpuTimes */
	GrnGpuProgressFn progress;
	void			*progress_ctx;
	uint64_t		 done, rounds; /* update rounds */
	bool			 cancelled;
};

/* A row as it comes: GrnGpuSource without its address. */
struct RawRow
{
	GrnNumbers numbers;
	uint32_t   bytes, head, scale;
};
/* expand.cu: n rows in d_raw [n][row.bytes] as floats, d_rows [n][dim]. */
RawRow		raw_row_of(const GrnGpuSource &source);
cudaError_t launch_expand(const Device &device, const uint8_t *d_raw, const RawRow &row,
						  uint32_t n, uint32_t dim, float *d_rows);

/* How large digests are. */
enum DigestSize
{
	DIGESTS_PLAIN,
	DIGESTS_MORE, /* of MORE_DIMS directions */
	DIGESTS_WIDE  /* of binary16 */
};
/* plan.cu: lays out a build.  gpu: for its override; NULL: none. */
Plan make_plan(const GrnGpu *gpu, const GrnGraphParams *given,
			   const GrnGpuOptions *options, uint64_t n, uint32_t dim, DigestSize size);
/* plan.cu: the dimensions of digests, */
uint32_t digest_dims_of(uint32_t dim);
/* and the most that a fit may come to; few: no more than digest_dims_of(). */
uint32_t most_digest_dims(uint32_t dim, RowFormat format, bool few);
/* Rows of bits are digests of 512, 1024 or 2048 bits: whole segments. */
uint32_t bit_digest_dims(uint32_t dim);
/*
 * parts.cu: keeps a copy of a build's digests in the caller's order, unless memory forbids it.
 * exact: they are integers, the rows themselves.
 */
cudaError_t keep_bare(GrnGpu *gpu, const Digests &bare, bool exact);
/* cut_order.cu: device bytes that an order of n vertices by cuts takes, at most. */
cudaError_t cut_order_bytes(uint32_t n, size_t *bytes);
/* build.cu: all steps of a build on the device; b.d_ids and b.d_counts have the result. */
cudaError_t build_tile(Build &b);

#endif /* GRN_HANDLE_H */
