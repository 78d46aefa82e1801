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

/*
 * Takes the next item for a device.  Returns false if all items are done or the device has failed.
 */
static bool
next_item(GrnTeamStep *step, int device, size_t *item)
{
	bool		found;

	pthread_mutex_lock(&step->mutex);
	/* An item that another thread holds may come back. */
	while (step->next == step->nitems && step->nreturned == 0 && step->busy > 0)
		pthread_cond_wait(&step->changed, &step->mutex);
	found = (step->next < step->nitems || step->nreturned > 0) && !step->team->failing[device];
	if (found)
	{
		*item = step->nreturned > 0 ? step->returned[--step->nreturned] : step->next++;
		step->busy++;
	}
	pthread_mutex_unlock(&step->mutex);
	return found;
}

static void *
thread_main(void *arg)
{
	const GrnTeamThread *t = arg;
	GrnTeamStep *step = t->step;
	/* A device without its second handle is slower but usable. */
	GrnGpu	   *gpu = grn_open_handle(t->device, t->handle);
	GrnGpuError err = {.status = GRN_GPU_OK};
	bool		begun = step->begin == NULL;
	size_t		item;

	while (gpu && err.status == GRN_GPU_OK && next_item(step, t->device, &item))
	{
		if (!begun)
			err.status = step->begin(step->ctx, t->device, gpu, &err);
		begun = true;
		if (err.status == GRN_GPU_OK)
			err.status = step->item(step->ctx, t->device, gpu, item, &err);
		pthread_mutex_lock(&step->mutex);
		step->busy--;
		if (err.status != GRN_GPU_OK)
		{
			step->returned[step->nreturned++] = item;
			step->err = err;
			__atomic_store_n(&step->team->failing[t->device], true, __ATOMIC_RELAXED);
		}
		pthread_cond_broadcast(&step->changed);
		pthread_mutex_unlock(&step->mutex);
	}
	return NULL;
}

void
grn_team_start(GrnTeamStep *step, GrnTeam *team, int handles, size_t nitems, GrnBeginFn begin,
			   GrnItemFn item, void *ctx)
{
	memset(step, 0, sizeof(*step));
	step->team = team;
	step->nitems = nitems;
	step->begin = begin;
	step->item = item;
	step->ctx = ctx;
	pthread_mutex_init(&step->mutex, NULL);
	pthread_cond_init(&step->changed, NULL);
	step->err.status = GRN_GPU_FAILED;
	snprintf(step->err.text, sizeof(step->err.text), "out of threads");
	memset(team->failing, 0, sizeof(team->failing));
	for (int handle = 0; handle < handles; handle++)
		for (int i = 0; i < team->n; i++)
		{
			GrnTeamThread *t = &step->threads[step->nthreads];

			*t = (GrnTeamThread) {.step = step, .device = i, .handle = handle};
			/* If the system refuses a thread, the others do the work. */
			if (!team->lost[i] && pthread_create(&t->thread, NULL, thread_main, t) == 0)
				step->nthreads++;
		}
}

GrnGpuStatus
grn_team_finish(GrnTeamStep *step, GrnGpuError *err)
{
	GrnTeam    *team = step->team;
	bool		done;

	for (int i = 0; i < step->nthreads; i++)
		pthread_join(step->threads[i].thread, NULL);
	done = step->next == step->nitems && step->nreturned == 0;
	grn_team_note_peak(team);
	*err = step->err;
	for (int i = 0; i < team->n && done; i++)
		if (team->failing[i])
			grn_team_lose(team, i, err);
	pthread_cond_destroy(&step->changed);
	pthread_mutex_destroy(&step->mutex);
	return done ? GRN_GPU_OK : err->status;
}
