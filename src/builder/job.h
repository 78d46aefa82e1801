/*
 * job.h - the description of a graph to build, and the figures that its build reports.
 */
#ifndef GRN_JOB_H
#define GRN_JOB_H

#include "builder/gpus.h"
#include "builder/progress.h"
#include "graph/graph.h"
#include "space/rows.h"

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

#endif							/* GRN_JOB_H */
