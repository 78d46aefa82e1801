/*
 * build.h - the steps of a build, for the leader's builder and the command line.
 */
#ifndef GRN_BUILD_H
#define GRN_BUILD_H

#include "builder/protocol.h"
#include "builder/thread_pool.h"
#include "cuda/gpu.h"
#include "graph/build/graph.h"
#include "graph/rows.h"

/* Why a build cannot go on; the same fields as in a FAILED message. */
typedef struct GrnFailure
{
	char		sqlstate[8];
	char		text[512];
	char		hint[256];
} GrnFailure;

/*
 * What a build needs from whoever runs it, from any thread.  Memory of a segment
 * only grows and stays in place; NULL: failed, and *failure says why.  expect: the
 * same bytes will be needed later.  device: *gpu is what is open, NULL where the
 * processor builds; false, only without wait: that is not known yet.
 */
typedef struct GrnHost
{
	void	   *ctx;
	void	   *(*need) (void *ctx, GrnSegment segment, uint64_t bytes, GrnFailure *failure);
	void		(*expect) (void *ctx, GrnSegment segment, uint64_t bytes);
	bool		(*device) (void *ctx, bool wait, GrnGpu **gpu);
	void		(*phase) (void *ctx, GrnPhase phase, uint64_t done, uint64_t total);
	void		(*notice) (void *ctx, const char *text, const char *hint);
} GrnHost;

#define GRN_MAX_GPUS 16

typedef struct GrnDeviceChoice
{
	uint32_t	device;			/* GrnDevice */
	const char *gpu_devices;	/* "0,1"; empty: the first */
	GrnGpuOptions options;
	uint64_t	work_limit;		/* bytes of workspace to stay under where cores build; 0: free memory */
	float		overlap;		/* share of rows in two parts; 0: the default */
} GrnDeviceChoice;

/*
 * build_graph.c: opens all GPUs of the choice; *gpu is the first, NULL where the
 * processor builds.
 */
extern bool grn_device_open(const GrnDeviceChoice *choice, int threads,
							const GrnHost *host, GrnGpu **gpu, char *name,
							size_t name_size, GrnFailure *failure);
/* How many are open. */
extern int	grn_open_gpus(void);
/*
 * Device i of them; lanes after the first are further handles, with their own
 * streams and buffers, opened when they are first asked for: NULL where that fails.
 */
#define GRN_LANES 2
extern GrnGpu *grn_open_lane(int i, int lane);
/* The same, NULL where nobody has asked for it yet. */
extern GrnGpu *grn_lane(int i, int lane);
extern void grn_device_close(void);
/* Rows to a GPU's build, by way of copies where they do not lie together or are scaled. */
extern GrnGpuStatus grn_upload(GrnGpu *gpu, const GrnRows *rows, GrnParallel *parallel,
							   GrnGpuError *err);
/* Whether a GPU's build of these rows asks for GrnGpuFit.few. */
extern bool grn_few_directions(const GrnRows *rows);
/* Copies count rows to out [count][dim], to their places in the space. */
extern void grn_copy_rows(const GrnRows *rows, size_t first, size_t count, float *out);

/* Of a build in parts: seconds of its steps. */
typedef struct GrnPartTimes
{
	uint32_t	nparts;			/* 0: not in parts */
	uint64_t	members;		/* rows of all parts */
	bool		stayed;			/* codes, on the devices */
	double		split, encode, build, merge;	/* split: where parts are; encode: rows, into them */
} GrnPartTimes;
/*
 * Builds the graph of rows on the GPU (gpu not NULL) or the processor's cores; falls
 * back to the latter for GRN_DEVICE_AUTO where the GPU cannot.  params hold 0
 * for defaults and are completed.  Sets *on_gpu.
 */
typedef struct GrnGraphJob
{
	const GrnRows *rows;
	GrnGraphParams *params;
	const GrnGraphParams *given;	/* NULL: params; else those for cores, after a GPU failed */
	GrnGraph   *graph;			/* arrays given, [n][degree] */
	const GrnDeviceChoice *choice;
	GrnGpu	   *gpu;
	GrnPool    *pool;
	const GrnHost *host;
	bool		fill;			/* lists shorter than the degree with more near vertices */
	uint64_t	work_offset;	/* bytes of GRN_SEG_WORK that the caller keeps */
	bool		on_gpu;
	GrnGpuTimes times;			/* of a build on one GPU as a whole; peak_bytes of any on GPUs */
	GrnPartTimes part_times;
} GrnGraphJob;
extern bool grn_device_build(GrnGraphJob *job, GrnFailure *failure);

/* prepare.c: one pass over the rows as collected. */
typedef struct GrnPrepared
{
	float		max_norm;
	float		norm_unit;		/* GRN_IP: a typical norm, unit of grn_scale() */
	GrnVecFormat vec_format;	/* smallest that holds every row exactly */
} GrnPrepared;
/*
 * Checks base [n][stride] for values that are not finite (reported by row, from
 * 1), finds the largest norm, writes inner product's GrnScale behind each row.
 */
extern bool grn_prepare(float *base, size_t n, size_t stride, GrnMetric metric,
						uint32_t dim, GrnPool *pool, GrnPrepared *out,
						GrnFailure *failure);

/* pipeline.c: everything between BUILD and DONE. */
typedef struct GrnBuild
{
	const GrnBuildSpec *spec;
	GrnPool    *pool;
	const GrnHost *host;
	float	   *vectors;
	const uint32_t *order;
	uint64_t	n;
} GrnBuild;
extern bool grn_build(GrnBuild *build, GrnBuildResult *result, GrnFailure *failure);

extern bool grn_fail(GrnFailure *failure, const char *sqlstate, const char *hint,
					 const char *format,...)
			__attribute__((format(printf, 4, 5)));
extern double grn_seconds(void);

/* entry points of main.c */
extern int	grn_serve(int fd);
extern int	grn_command_line(int argc, char **argv);
extern int	grn_list_devices(void);

#endif							/* GRN_BUILD_H */
