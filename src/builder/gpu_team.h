/*
 * gpu_team.h - the open GPUs as they share the steps of a build, until they fail.
 */
#ifndef GRN_GPU_TEAM_H
#define GRN_GPU_TEAM_H

#include "builder/gpus.h"
#include "builder/work_queue.h"

/* The open GPUs, by their numbers in gpus.h. */
typedef struct GrnTeam
{
	int			n;
	bool		lost[GRN_MAX_GPUS]; /* has failed, and is left alone */
	bool		failing[GRN_MAX_GPUS];	/* the same, while a step runs */
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

/* A step of a build: items that the team's devices take. */
typedef struct GrnTeamStep
{
	GrnTeam    *team;
	GrnQueue	queue;
	GrnBeginFn	begin;			/* may be NULL */
	GrnItemFn	item;
	void	   *ctx;
	bool		begun[GRN_MAX_GPUS][GRN_HANDLES];
	pthread_mutex_t mutex;		/* of err */
	GrnGpuError err;			/* of the last that failed */
} GrnTeamStep;

/*
 * Starts item() for 0 .. nitems - 1, in that order, on all devices that are not lost, with
 * so many threads for each, a handle a thread.  A device that fails gives its item back and
 * takes no more.
 */
extern void grn_team_start(GrnTeamStep *step, GrnTeam *team, int handles, size_t nitems,
						   GrnBeginFn begin, GrnItemFn item, void *ctx);
/*
 * Waits for the end.  The status is that of the last device to fail where items are left;
 * devices that failed otherwise are lost to what follows.
 */
extern GrnGpuStatus grn_team_finish(GrnTeamStep *step, GrnGpuError *err);

#endif							/* GRN_GPU_TEAM_H */
