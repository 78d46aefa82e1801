/*
 * gpu_team.h - the open GPUs that share the steps of a build; a GPU that fails is left out.
 */
#ifndef GRN_GPU_TEAM_H
#define GRN_GPU_TEAM_H

#include "builder/gpus.h"
#include "builder/work_queue.h"

/* The open GPUs, by their numbers in gpus.h. */
typedef struct GrnTeam
{
	int			n;
	bool		lost[GRN_MAX_GPUS]; /* the device has failed in an earlier step and is not used any
									 * more */
	bool		failing[GRN_MAX_GPUS];	/* the device has failed in the running step */
	const GrnHost *host;
	uint64_t	peak_bytes;		/* largest number of bytes that the handles of a single GPU held
								 * together in any finished step */
} GrnTeam;

/* Marks a failed device as lost, and sends a notice. */
extern void grn_team_lose(GrnTeam *team, int device, const GrnGpuError *err);
/* Whether a device is still usable.  Any thread may call this function. */
extern bool grn_team_has(const GrnTeam *team, int device);
/* Updates peak_bytes after a step. */
extern void grn_team_note_peak(GrnTeam *team);

/* Functions of a thread: before its first item, and for each item.  On failure err is filled. */
typedef GrnGpuStatus (*GrnBeginFn) (void *ctx, int device, GrnGpu *gpu, GrnGpuError *err);
typedef GrnGpuStatus (*GrnItemFn) (void *ctx, int device, GrnGpu *gpu, size_t item,
								   GrnGpuError *err);

/* A step of a build: items that the team's devices take. */
typedef struct GrnTeamStep
{
	GrnTeam    *team;
	GrnQueue	queue;
	GrnBeginFn	begin;			/* may be NULL */
	GrnItemFn	item;
	void	   *ctx;
	bool		begun[GRN_MAX_GPUS][GRN_HANDLES];
	pthread_mutex_t mutex;		/* protects err */
	GrnGpuError err;			/* error of the device that failed last */
} GrnTeamStep;

/*
 * Starts item() for 0 .. nitems - 1, in ascending order, on all usable devices.  Each device has
 * `handles` threads, and each thread has a handle of its own.  A device that fails gives its item
 * back and takes no more items.
 */
extern void grn_team_start(GrnTeamStep *step, GrnTeam *team, int handles, size_t nitems,
						   GrnBeginFn begin, GrnItemFn item, void *ctx);
/*
 * Waits for the end of the step.  If items are left, the status is the error of the device that
 * failed last.  Otherwise the status is GRN_GPU_OK, and devices that failed are lost to later
 * steps.
 */
extern GrnGpuStatus grn_team_finish(GrnTeamStep *step, GrnGpuError *err);

#endif							/* GRN_GPU_TEAM_H */
