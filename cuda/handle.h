/*
 * handle.h - the host side: pinned staging buffers, the memory plan, what is kept of
 * an open device and of a running build.
 */
#ifndef GRN_HANDLE_H
#define GRN_HANDLE_H

#include "common.cuh"
#include "staging.h"

/* gpu.cu: where CUDA's errors become a GrnGpuStatus. */
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
 * Tile mode needs Ampere's tensor-core products and copies; before, the paper's
 * kernels build, with settings that give a graph of nearly the same quality (SIFT 1M:
 * .9412@1265 at L=64) in many times the time.
 */
#ifndef GRN_TILE_MAJOR
#define GRN_TILE_MAJOR 8
#endif

/* Where everything of one build lies in the arena: offsets in bytes. */
struct Plan
{
	Tuning	   tuning;
	GrnGpuMode mode;
	uint32_t   degree;
	uint32_t   code_dims;
	uint32_t   stride; /* bytes of a row of codes, the most it can become */
	size_t	   codes, order, norms, pool, pool_count, inbox[2], inbox_count[2], list,
		list_count, ids,	   /* paper mode only: else an inbox is reused */
		lists, list_counts,	   /* the same, before they are filled */
		counts, flag, scratch, /* project and start: over pool and inbox[0] */
		bare_codes,			   /* codes in the caller's order: over inbox[1] */
		members,			   /* names of rows that come as codes */
		paper, total;		   /* without the caller's rows */
};

/* Rows of more dimensions are projected to this many directions. */
constexpr uint32_t PROJECTED_DIMS = 128;
/* In 8 bits they get so many where PROJECTED_DIMS hold too little (project.cu). */
constexpr uint32_t MORE_DIMS = 256;

struct GrnGpu
{
	int			number;
	bool		counted; /* among the device's handles */
	Device		device;
	Staging		staging;
	cudaEvent_t mark[4]; /* start, converted, descended, finished */
	cudaEvent_t round[2];

	bool		   begun;
	uint64_t	   n;
	uint32_t	   dim;
	GrnGraphParams params;	/* of grn_gpu_begin(), with defaults for what was left open */
	GrnGpuOptions  options; /* of grn_gpu_begin(), as this device can do them */
	Plan		   plan;
	uint64_t	   limit; /* bytes this build may take */
	uint8_t		  *d_arena;
	uint64_t	   arena;	   /* bytes of it */
	float		  *d_own_rows; /* [n][dim], where rows come from the host */
	const float	  *d_rows;
	bool		   overridden;
	Tuning		   override_;
	float		   upload; /* seconds in grn_gpu_rows() */
	bool		   coded;  /* codes and members are in the arena */
	uint64_t	   peak;   /* bytes of arenas and rows, the most since it was asked for */
	uint64_t	   batch;  /* parts.cu: rows that are encoded or merged at a time */
	Cells		   cells;  /* parts.cu: in the arena of encoding; n = 0: none */
	Codes		   kept;   /* parts.cu: codes that outlive an arena, */
	uint64_t	   kept_bytes;
	const GrnGpu  *keeper; /* and who has those of a merge */
};

/* What a running build hands from step to step. */
struct Build
{
	GrnGpu			*gpu;
	Codes			 codes;
	TileGraph		 graph;
	uint32_t		*d_order;
	uint32_t		*d_ids;	   /* [n][degree] */
	uint8_t			*d_counts; /* [n] */
	bool			 exact;	   /* distances of the descent are those of the input */
	bool			 coarse;   /* of codes that came from outside */
	GrnGpuProgressFn progress;
	void			*progress_ctx;
	uint64_t		 done, rounds;
	bool			 cancelled;
};

/* What the descent compares. */
enum CodeSize
{
	CODES_PLAIN,
	CODES_MORE, /* MORE_DIMS directions */
	CODES_WIDE	/* binary16 */
};
/* plan.cu: where everything lies. */
Plan make_plan(const GrnGpu *gpu, const GrnGraphParams *given,
			   const GrnGpuOptions *options, uint64_t n, uint32_t dim, CodeSize size);
/* The dimensions of a row's codes, */
uint32_t code_dims_of(uint32_t dim);
/* and the most that a fit may come to; few: no more than code_dims_of(). */
uint32_t most_code_dims(uint32_t dim, RowFormat format, bool few);
/* build.cu: all steps on the device; the result in b.d_ids and b.d_counts. */
cudaError_t build_tile(Build &b);
cudaError_t build_paper(Build &b);

#endif /* GRN_HANDLE_H */
