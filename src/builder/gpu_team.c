/*
 * gpu_team.c - the open GPUs that share the steps of a build; a GPU that fails is left out.
 */
#include "builder/gpus.h"

#include <stdio.h>
#include <string.h>

void
grn_team_lose(GrnTeam *team, int device, const GrnGpuError *err)
{
	team->lost[device] = true;
	team->host->notice(team->host->ctx, "a GPU failed during the build, which goes on without it",
					   err->text);
}

bool
grn_team_has(const GrnTeam *team, int device)
{
	return !team->lost[device] && !__atomic_load_n(&team->failing[device], __ATOMIC_RELAXED);
}

void
grn_team_note_peak(GrnTeam *team)
{
	for (int i = 0; i < team->n; i++)
	{
		uint64_t	peak = 0;

		for (int handle = 0; handle < GRN_HANDLES; handle++)
			if (grn_handle(i, handle))
				peak += grn_gpu_peak(grn_handle(i, handle));
		if (peak > team->peak_bytes)
			team->peak_bytes = peak;
	}
}

static bool
enter(void *ctx, int device, int handle)
{
	(void) ctx;
	/* A device without its second handle is slower but usable. */
	return grn_open_handle(device, handle) != NULL;
}

static bool
do_item(void *ctx, int device, int handle, size_t item)
{
	GrnTeamStep *step = ctx;
	GrnGpu	   *gpu = grn_handle(device, handle);
	GrnGpuError err = {.status = GRN_GPU_OK};

	if (!step->begun[device][handle] && step->begin)
		err.status = step->begin(step->ctx, device, gpu, &err);
	step->begun[device][handle] = true;
	if (err.status == GRN_GPU_OK)
		err.status = step->item(step->ctx, device, gpu, item, &err);
	if (err.status == GRN_GPU_OK)
		return true;
	pthread_mutex_lock(&step->mutex);
	step->err = err;
	pthread_mutex_unlock(&step->mutex);
	__atomic_store_n(&step->team->failing[device], true, __ATOMIC_RELAXED);
	return false;
}

void
grn_team_start(GrnTeamStep *step, GrnTeam *team, int handles, size_t nitems, GrnBeginFn begin,
			   GrnItemFn item, void *ctx)
{
	const GrnQueueWork work = {enter, do_item, step};

	memset(step, 0, sizeof(*step));
	step->team = team;
	step->begin = begin;
	step->item = item;
	step->ctx = ctx;
	pthread_mutex_init(&step->mutex, NULL);
	step->err.status = GRN_GPU_FAILED;
	snprintf(step->err.text, sizeof(step->err.text), "out of host memory or threads");
	if (!grn_queue_begin(&step->queue, nitems, team->n, team->n * handles, &work))
		return;
	memset(team->failing, 0, sizeof(team->failing));
	for (int handle = 0; handle < handles; handle++)
		for (int i = 0; i < team->n; i++)
			if (!team->lost[i])
				grn_queue_thread(&step->queue, i, handle);
}

GrnGpuStatus
grn_team_finish(GrnTeamStep *step, GrnGpuError *err)
{
	GrnTeam    *team = step->team;
	size_t		left = grn_queue_wait(&step->queue);

	grn_team_note_peak(team);
	*err = step->err;
	for (int i = 0; i < team->n && left == 0; i++)
		if (grn_queue_failed(&step->queue, i))
			grn_team_lose(team, i, err);
	grn_queue_end(&step->queue);
	pthread_mutex_destroy(&step->mutex);
	return left > 0 ? err->status : GRN_GPU_OK;
}
