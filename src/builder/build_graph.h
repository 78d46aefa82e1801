/*
 * build_graph.h - builds a graph on the device that the choice of devices demands.
 */
#ifndef GRN_BUILD_GRAPH_H
#define GRN_BUILD_GRAPH_H

#include <pthread.h>

#include "builder/gpus.h"
#include "builder/host.h"
#include "cuda/gpu.h"
#include "graph/descent.h"
#include "graph/graph.h"
#include "space/rows.h"

/* The description of a graph to build, and the figures that its build reports. */

/* Seconds of the steps of a build in parts. */
typedef struct GrnPartTimes
{
	uint32_t	nparts;			/* 0: the graph was built as a whole */
	uint64_t	members;		/* rows of all parts together */
	bool		digests_on_devices; /* digests stayed on the devices */
	double		split,
				digest,
				build,
				merge;			/* split finds the parts; digest puts the rows into the parts */
} GrnPartTimes;

/* The description of a graph to build, and the figures of its build. */
typedef struct GrnGraphJob
{
	const GrnRows *rows;
	GrnGraphParams *params;
	GrnGraph   *graph;			/* arrays given by the caller, [n][degree] */
	const GrnDeviceChoice *choice;
	GrnGpu	   *gpu;
	GrnProgress *progress;		/* counts the loops, and lends the threads */
	const GrnHost *host;
	bool		fill;			/* fills lists that are shorter than the degree with more near
								 * vertices */
	bool		gpu_alone;		/* cores do not build after a GPU has failed */
	bool		hold;			/* a GPU that builds the whole graph keeps the graph for GrnFinish */
	uint64_t	work_offset;	/* bytes of GRN_SEG_WORK that the caller keeps */
	GrnGpu	   *holder;			/* the GPU that keeps the graph, or NULL; the caller must call
								 * grn_gpu_end() */
	bool		on_gpu;
	GrnGpuTimes times;			/* times of a build on a single GPU as a whole; peak_bytes is set
								 * by every build on GPUs */
	GrnPartTimes part_times;
} GrnGraphJob;

/*
 * Builds the graph of rows on the GPU (job->gpu not NULL) or on the processor's cores.  With
 * GRN_DEVICE_AUTO cores build if the GPU cannot.  A parameter of 0 means the default; the function
 * replaces 0 by the value used.  Sets job->on_gpu.  Errors: those of grn_gpu_refused() and of
 * memory.
 */
extern bool grn_build_graph(GrnGraphJob *job, GrnFailure *failure);
/*
 * Copies a graph to a GPU that has not built the graph as a whole, so that the GPU can find the
 * reachable vertices and order the pages.  On cores both take as long as the build for 100,000,000
 * vertices.  Returns the GPU, or NULL if the GPU's memory is too small; then cores do both.
 */
extern GrnGpu *grn_load_graph(GrnGpu *gpu, const GrnGraph *graph, const GrnDeviceChoice *choice);
/* Frees the GPU's copy of a graph and the digests of its rows. */
extern void grn_drop_graph(GrnGpu *gpu);

/*
 * parts.c: builds in parts: graphs whose build needs more memory than a device or a limit allows,
 * and builds on several GPUs.
 */

/*
 * Builds the job's graph in overlapping parts on all open GPUs.  If the status is not GRN_GPU_OK,
 * *err has the reason.  If *failure is filled too (sqlstate set), the host lacks memory, and no
 * other device can help.
 */
extern GrnGpuStatus grn_build_parts_on_gpus(GrnGraphJob *job, GrnGpuError *err,
											GrnFailure *failure);

/*
 * Builds the job's graph in overlapping parts on the processor's cores.  The workspace stays under
 * `limit` bytes unless the largest number of parts needs more.
 */
extern bool grn_build_parts_on_cores(GrnGraphJob *job, uint64_t limit, GrnFailure *failure);

/*
 * finish.c: the last steps on a finished graph: every vertex becomes reachable, and vertices get
 * an order on pages.
 */

typedef struct GrnFinish
{
	const GrnMetricInfo *metric;
	float		norm_unit;		/* of the rows' scales, */
	float		power;			/* and their power */
	const GrnRows *rows;
	GrnGraph   *graph;
	GrnParallel *parallel;
	GrnGpu	   *gpu;			/* has the graph before connection; NULL: no GPU has the graph */
	uint32_t	entry;
	uint32_t	per_page;
	uint32_t   *position;		/* [n] */
	void	   *scratch;		/* grn_finish_bytes(n) */
	uint32_t	connected;		/* vertices that were not reachable */
	/* private to finish.c */
	pthread_t	thread;
	pthread_mutex_t mutex;
	pthread_cond_t searched;	/* signals that reachability is known or the GPU has failed */
	bool		started;
	bool		has_searched;
	uint64_t	nreached;		/* vertices that the GPU has reached; 0: the GPU has failed */
	bool		ordered;		/* position[] is complete */
} GrnFinish;

/*
 * Starts the thread of the GPU, if a GPU has the graph.  The thread finds reachable vertices, and
 * then orders the pages while cores connect.
 */
extern void grn_finish_begin(GrnFinish *f);
/*
 * Makes every vertex reachable from the entry (store/connect.c), and sets f->connected.  Returns
 * false if memory is short.
 */
extern bool grn_finish_connect(GrnFinish *f);
/* The same if the set of reached vertices, with which the scratch begins, lacks some. */
extern bool grn_connect_graph(GrnFinish *f);
/* Completes position[] and drops the graph from the GPU. */
extern void grn_finish_order(GrnFinish *f);
/* Ends the GPU's work if a build fails after grn_finish_begin(). */
extern void grn_finish_abandon(GrnFinish *f);

#endif							/* GRN_BUILD_GRAPH_H */
