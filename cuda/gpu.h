/*
 * gpu.h - the one C interface between the builder and the GPU.
 *
 * gpu.cu and parts.cu implement it; stub.c does where there is no CUDA compiler ("this
 * grnnd_build has no GPU support"), and in tests a stand-in that can fail on purpose.  No
 * function exits, prints or throws: each returns GRN_GPU_OK, or another status with an
 * explanation in *err.
 *
 * A handle (GrnGpu) has one device, and one build, digesting or merge at a time.  Several
 * handles of a device work side by side, each in a thread of its own.
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
	GRN_GPU_MEMORY,				/* err->needed bytes of device memory are too many */
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
	int			major,
				minor;			/* compute capability */
	uint64_t	memory_total,
				memory_free;	/* bytes */
} GrnGpuInfo;

/* Rows of more dimensions have no exact digests. */
#define GRN_GPU_EXACT_DIMS 128

/*
 * What the rows of a build come as.  Digests come from grn_gpu_digest(); bits may also come from
 * the host's rows, by grn_gpu_rows_from().
 */
typedef enum GrnGpuRows
{
	GRN_GPU_FLOATS = 0,
	GRN_GPU_EXACT_DIGESTS,		/* integers 0 to 255 in bytes: the rows themselves */
	GRN_GPU_BYTE_DIGESTS,		/* projected, in bytes */
	GRN_GPU_WIDE_DIGESTS,		/* projected, in binary16 */
	GRN_GPU_BIT_DIGESTS			/* 0 or 1 in bits, one a dimension: the rows themselves */
} GrnGpuRows;

/* The most dimensions of bit digests: they take GRN_GPU_MOST_DIGEST_BYTES then. */
#define GRN_GPU_MOST_BITS 2048

typedef struct GrnGpuOptions
{
	uint64_t	memory_limit;	/* the most bytes of device memory; 0: what is free */
	bool		fill;			/* lists get near neighbours of neighbours, up to the degree */
	/*
	 * How often each vertex is compared with its neighbours' neighbours, before
	 * edges are chosen anew.  Graphs are better and take twice the time.  0: never.
	 */
	uint32_t	joins;
	GrnGpuRows	rows;
	uint32_t	digest_dims;	/* of digests: as in their GrnGpuFit */
	bool		few_directions; /* of floats: as in GrnGpuFit */
	bool		keep;			/* where memory allows, the handle keeps the rows' digests */
} GrnGpuOptions;

typedef struct GrnGpuTimes
{
	float		upload,
				convert,
				descent,
				finish,
				download;		/* seconds */
	uint64_t	peak_bytes;		/* device memory, with the rows, without digests that are kept */
	bool		coarse;			/* bytes cannot tell near rows apart; GRN_GPU_WIDE_DIGESTS can */
} GrnGpuTimes;

extern GrnGpuStatus grn_gpu_count(int *count, GrnGpuError *err);
/* Opens a handle.  The first one of a device creates CUDA's context: 0.2 to 0.3 s. */
extern GrnGpuStatus grn_gpu_open(int device, GrnGpu **gpu, GrnGpuError *err);
extern GrnGpuStatus grn_gpu_info(GrnGpu *gpu, GrnGpuInfo *info, GrnGpuError *err);
extern void grn_gpu_close(GrnGpu *gpu);

/*
 * Device bytes that a build takes in all; the build allocates by the same plan.  Where rows
 * turn out to need larger digests and the limit allows for them, it takes 128 a row more.
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
 * Rows in the host's memory: row i is at base + order[i] * row_bytes, or, without order, at
 * base + i * row_bytes.  Floats are at the row's start.  Other numbers become floats on the
 * device, and are multiplied with up to two floats: one before them (head: its bytes), and one
 * behind them (scale: where, from the row's start).  0: there is none.  row_bytes are then a
 * multiple of 4.
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

/* Whether they become floats on the device. */
static inline bool
grn_gpu_expands(const GrnGpuSource *source)
{
	return source->numbers != GRN_NUMBERS_FLOATS;
}

/*
 * Gives rows [first, first + n) of a build, in place of grn_gpu_rows(): they go up as they
 * are.  For a build of bit digests they are bits without factors.
 */
extern GrnGpuStatus grn_gpu_rows_from(GrnGpu *gpu, const GrnGpuSource *source, uint64_t first,
									  uint64_t n, GrnGpuError *err);
/*
 * Gives all rows of a build as digests, in place of grn_gpu_rows().  Row i of the build is row
 * members[i] of all: its digest is at digests + members[i] * digest_bytes, or, if digests is NULL,
 * among those that keeper, a handle of the same device, keeps.  Lists then name rows as
 * members does.  The build must be given ids, and GRN_INVALID_ID follows the last neighbour
 * of a list that is shorter than the degree.
 */
extern GrnGpuStatus grn_gpu_digested_rows(GrnGpu *gpu, const uint8_t *digests,
										  const GrnGpu *keeper, const uint32_t *members,
										  GrnGpuError *err);
/* Gives all rows in device memory that the caller owns: d_rows [n][dim], not copied. */
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
/*
 * What a finished graph is asked, after a build and before the handle's next step or
 * grn_gpu_end().  All fail, with GRN_GPU_FAILED, where the device does not have the graph (of
 * a part) or it is too deep: then the processor does the same.
 *
 * grn_gpu_take_graph(): gives the device a finished graph that it does not have, in place of a
 * build: ids [n][degree], counts [n].  It takes degree * 4 bytes a vertex and what the order takes,
 * or fails with GRN_GPU_MEMORY.
 * grn_gpu_reach(): a bit for each vertex that entry reaches, reached [(n + 63) / 64], and
 * their number.
 * grn_gpu_cut_order(): position [n] by cuts of the vertices' digests, as grn_cut_order() cuts
 * rows.  It also fails where the device does not have digests of all rows, from this build or
 * kept.
 */
extern GrnGpuStatus grn_gpu_take_graph(GrnGpu *gpu, uint64_t n, uint32_t degree,
									   const uint32_t *ids, const uint8_t *counts,
									   uint64_t memory_limit, GrnGpuError *err);
extern GrnGpuStatus grn_gpu_reach(GrnGpu *gpu, uint32_t entry, uint64_t *reached,
								  uint64_t *count, GrnGpuError *err);
extern GrnGpuStatus grn_gpu_cut_order(GrnGpu *gpu, uint32_t per_page, uint32_t *position,
									  GrnGpuError *err);
/* The most device bytes taken at a time since the last call. */
extern uint64_t grn_gpu_peak(GrnGpu *gpu);
/* Frees what any begin and build allocated; the context stays. */
extern void grn_gpu_end(GrnGpu *gpu);

/*
 * For builds in parts (src/builder): all rows become digests once, by the same fit on every
 * device.  The builds of the parts, and the merge of their lists, compare those digests.
 */
#define GRN_GPU_MOST_DIGEST_BYTES 256

typedef struct GrnGpuFit
{
	GrnGpuRows	rows;			/* the digests; grn_gpu_digest() says whether exact ones can be */
	bool		few_directions; /* no more than usual, whatever share of the variance they keep */
	uint32_t	dim;
	uint32_t	digest_dims;
	uint32_t	digest_bytes;	/* of a row */
	float	   *projection;		/* from malloc(); NULL for exact digests */
} GrnGpuFit;

/*
 * Completes a fit whose rows, few_directions and dim are set, from a sample [n][dim].  Exact
 * digests need no sample; it may be NULL.
 */
extern GrnGpuStatus grn_gpu_fit(GrnGpu *gpu, const float *sample, uint32_t n, uint64_t seed,
								GrnGpuFit *fit, GrnGpuError *err);
/* Device bytes that a fit takes. */
extern uint64_t grn_gpu_fit_bytes(const GrnGpuFit *fit, uint32_t n);

/*
 * Makes a handle a keeper: takes room on its device for the digests of all n rows, which stays
 * beside builds and merges until it is dropped.  GRN_GPU_MEMORY: there is no such room.
 */
extern uint64_t grn_gpu_kept_bytes(const GrnGpuFit *fit, uint64_t n);
extern GrnGpuStatus grn_gpu_keep_digests(GrnGpu *gpu, const GrnGpuFit *fit, uint64_t n,
										 uint64_t memory_limit, GrnGpuError *err);
extern void grn_gpu_drop_digests(GrnGpu *gpu);
/*
 * The kind of the digests that a handle keeps, for the option `rows` of builds from them, and their
 * dimensions; GRN_GPU_FLOATS: it keeps none.  They are those of grn_gpu_keep_digests(), or of the
 * rows of the last build with the option `keep`.
 */
extern GrnGpuRows grn_gpu_kept(const GrnGpu *gpu, uint32_t *digest_dims);
/*
 * Completes what keepers, one a device, need for a merge.  Their digests are copied from the
 * host's, [n][digest_bytes]; if digests is NULL, they have been written into them already.
 * *failed is the keeper that failed.
 */
extern GrnGpuStatus grn_gpu_share_digests(GrnGpu *const *keepers, int nkeepers,
										  const GrnGpuFit *fit, const uint8_t *digests,
										  int *failed, GrnGpuError *err);

/* How rows become digests, and where digests go: to all keepers, whichever device digests. */
typedef struct GrnGpuDigesting
{
	const GrnGpuFit *fit;
	const GrnCells *cells;		/* NULL: there are no cells to find */
	GrnGpu	   *const *keepers; /* [nkeepers], one a device */
	int			nkeepers;
	uint32_t	raw_bytes;		/* of a row of the source, if grn_gpu_expands(); else 0 */
	uint8_t    *digests;		/* [all rows][digest_bytes] the host gets them, too; may be NULL */
	uint32_t   *home,
			   *guest;			/* [all rows] cells; GRN_INVALID_ID: none */
} GrnGpuDigesting;

/*
 * Digests, after grn_gpu_digest_begin(), rows [first, first + n) of source, which are rows
 * [at, at + n) of all.  *other is set if digests are to be exact and a row has another value
 * than the integers 0 to 255.  When it returns, all keepers have the digests.
 */
extern GrnGpuStatus grn_gpu_digest_begin(GrnGpu *gpu, const GrnGpuDigesting *digesting,
										 uint64_t memory_limit, GrnGpuError *err);
extern GrnGpuStatus grn_gpu_digest(GrnGpu *gpu, const GrnGpuDigesting *digesting,
								   const GrnGpuSource *source, uint64_t first, uint64_t n,
								   uint64_t at, bool *other, GrnGpuError *err);

/*
 * Merges the two lists that a row has in two parts into one: what the RNG rule keeps of both,
 * filled up with the nearest of the rest.  With `fill` it is filled up to the degree, else as
 * far as builds fill their lists.  keeper: a handle of the same device, whose digests
 * grn_gpu_share_digests() has completed.
 */
typedef struct GrnGpuMerge
{
	const uint32_t *rows;		/* [count] */
	const uint32_t *lists;		/* [.][degree], GRN_INVALID_ID after the last neighbour */
	const uint32_t *positions[2];	/* [count] the rows' lists; GRN_INVALID_ID: none */
	uint64_t	count;
	uint32_t   *ids;			/* [n][degree]; those of the rows are written */
	uint8_t    *counts;			/* [n]; likewise */
} GrnGpuMerge;
extern GrnGpuStatus grn_gpu_merge_begin(GrnGpu *gpu, uint32_t degree, const GrnGpu *keeper,
										uint64_t memory_limit, GrnGpuError *err);
/* The least device bytes that a merge takes beside the digests. */
extern uint64_t grn_gpu_merge_bytes(uint32_t degree);
extern GrnGpuStatus grn_gpu_merge(GrnGpu *gpu, const GrnGpuFit *fit, const GrnGpuMerge *merge,
								  bool fill, GrnGpuError *err);

/*
 * Groups of near rows in lists (src/graph/stored/group.h), by the rows' codes: balanced k-means
 * whose middles are means of decoded codes, and a second group for rows where groups have room.
 * Rows come list by list, in an order in which near ones are next to each other, such as that of
 * pages: in it the groups begin.
 */
#define GRN_GPU_CODE_BLOCKS 3

/* Codes (src/graph/stored/codec.h): each block has so many numbers of so many bits. */
typedef struct GrnGpuCodes
{
	const uint8_t *codes;		/* [.][bytes] */
	const uint32_t *factors;	/* [.] GrnFactor */
	uint32_t	bytes;
	uint32_t	bits[GRN_GPU_CODE_BLOCKS];
	uint32_t	dims[GRN_GPU_CODE_BLOCKS];
	float		steps[GRN_GPU_CODE_BLOCKS];
	uint32_t	used;			/* numbers by which rows are compared: the first, at most
								 * GRN_GPU_GROUP_DIMS */
} GrnGpuCodes;

#define GRN_GPU_GROUP_DIMS 128

typedef struct GrnGpuGrouping
{
	GrnGpuCodes codes;
	const GrnListToGroup *lists;	/* [nlists], one behind the other */
	uint32_t	nlists;
	const uint32_t *members;	/* [rows of all lists] whose codes theirs are */
	uint32_t	room;			/* rows of a group at most */
	uint32_t   *chosen;			/* [rows of all lists] the group of its list that a row goes to, */
	uint32_t   *copied;			/* and a second one, or GRN_INVALID_ID */
} GrnGpuGrouping;

/*
 * Chooses groups.  Which of some rows a group takes that has no room for all differs from call to
 * call; that none takes too many does not, and one may stay empty.  Frees the memory of what was
 * begun before, and its own.
 */
extern GrnGpuStatus grn_gpu_group(GrnGpu *gpu, const GrnGpuGrouping *grouping, uint64_t memory_limit,
								  GrnGpuError *err);

/* Puts a GPU's defaults where params hold 0. */
extern void grn_gpu_default_params(GrnGraphParams *params, uint32_t dim);
/* The largest r and s of a build on a GPU. */
#define GRN_GPU_MOST_R 64
#define GRN_GPU_MOST_S 32

#ifdef __cplusplus
}
#endif
#endif							/* GRN_GPU_H */
