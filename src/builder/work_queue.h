/*
 * work_queue.h - items of a step of a build in parts, and the GPUs that take them.
 */
#ifndef GRN_QUEUE_H
#define GRN_QUEUE_H

#include <pthread.h>

#include "builder/build.h"

/* The open GPUs, by their numbers in build_graph.c. */
typedef struct GrnTeam
{
	int			n;
	bool		lost[GRN_MAX_GPUS]; /* has failed, and is left alone */
	bool		failing[GRN_MAX_GPUS];	/* the same, while a queue runs */
	const GrnHost *host;
	uint64_t	peak_bytes;		/* that a GPU's handles held together, the most of steps done */
} GrnTeam;

/* Loses a device that failed, with a notice. */
extern void grn_team_lose(GrnTeam *team, int device, const GrnGpuError *err);
/* Whether a device has not failed so far; from any thread. */
extern bool grn_team_has(const GrnTeam *team, int device);
/* Counts what the step just done took of the devices' memory. */
extern void grn_team_note_peak(GrnTeam *team);

/* What a thread does before its first item, and for each; err is filled where it fails. */
typedef GrnGpuStatus (*GrnBeginFn) (void *ctx, int device, GrnGpu *gpu, GrnGpuError *err);
typedef GrnGpuStatus (*GrnItemFn) (void *ctx, int device, GrnGpu *gpu, size_t item,
								   GrnGpuError *err);

typedef struct GrnQueue GrnQueue;

typedef struct GrnQueueWorker
{
	GrnQueue   *queue;
	int			device;
	int			lane;
	bool		started;
	GrnGpu	   *gpu;
	pthread_t	thread;
} GrnQueueWorker;

struct GrnQueue
{
	GrnTeam    *team;
	GrnBeginFn	begin;			/* may be NULL */
	GrnItemFn	item;
	void	   *ctx;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	size_t	   *todo;			/* the last comes first */
	size_t		ntodo;
	int			busy;			/* workers with an item */
	GrnGpuError err;			/* of the last that failed */
	bool		failed[GRN_MAX_GPUS];
	GrnQueueWorker workers[GRN_MAX_GPUS][GRN_LANES];
};

/*
 * Starts item() for 0 .. nitems - 1, in that order, on all devices that are not lost, with
 * so many threads (lanes) for each.  A device that fails gives its item back and takes no
 * more.
 */
extern void grn_queue_start(GrnQueue *queue, GrnTeam *team, int lanes, size_t nitems,
							GrnBeginFn begin, GrnItemFn item, void *ctx);
/*
 * Waits for the end.  The status is that of the last device to fail where items are left;
 * devices that failed otherwise are lost to what follows.
 */
extern GrnGpuStatus grn_queue_finish(GrnQueue *queue, GrnGpuError *err);

#endif							/* GRN_QUEUE_H */
