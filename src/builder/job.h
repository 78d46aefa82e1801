/*
 * job.h - a graph to be built, and what is reported of its build.
 */
#ifndef GRN_JOB_H
#define GRN_JOB_H

#include "builder/gpus.h"
#include "builder/progress.h"
#include "graph/construct/graph.h"
#include "graph/rows.h"

/* Of a build in parts: seconds of its steps. */
typedef struct GrnPartTimes
{
	uint32_t	nparts;			/* 0: not in parts */
	uint64_t	members;		/* rows of all parts */
	bool		stayed;			/* digests, on the devices */
	double		split,
				digest,
				build,
				merge;			/* split: where parts are; digest: rows, into them */
} GrnPartTimes;

/* A graph to be built. */
typedef struct GrnGraphJob
{
	const GrnRows *rows;
	GrnGraphParams *params;
	GrnGraph   *graph;			/* arrays given, [n][degree] */
	const GrnDeviceChoice *choice;
	GrnGpu	   *gpu;
	GrnProgress *progress;		/* and the threads */
	const GrnHost *host;
	bool		fill;			/* lists shorter than the degree with more near vertices */
	bool		gpu_alone;		/* cores are not tried after a GPU */
	bool		hold;			/* a GPU that builds the whole graph keeps it, for GrnFinish */
	uint64_t	work_offset;	/* bytes of GRN_SEG_WORK that the caller keeps */
	GrnGpu	   *holder;			/* that GPU, whose grn_gpu_end() is the caller's; or NULL */
	bool		on_gpu;
	GrnGpuTimes times;			/* of a build on one GPU as a whole; peak_bytes of any on GPUs */
	GrnPartTimes part_times;
} GrnGraphJob;

#endif							/* GRN_JOB_H */
