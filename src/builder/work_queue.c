/*
 * work_queue.c - items of a step of a build in parts, and the GPUs that take them.
 */
#include "builder/work_queue.h"

#include <stdio.h>
#include <stdlib.h>
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

		for (int lane = 0; lane < GRN_LANES; lane++)
			if (grn_lane(i, lane))
				peak += grn_gpu_peak(grn_lane(i, lane));
		if (peak > team->peak_bytes)
			team->peak_bytes = peak;
	}
}

/* The next item; false when all are done, or the device has failed. */
static bool
next_item(GrnQueue *q, int device, size_t *item)
{
	bool		found;

	pthread_mutex_lock(&q->mutex);
	/* what another worker has may come back */
	while (q->ntodo == 0 && q->busy > 0)
		pthread_cond_wait(&q->changed, &q->mutex);
	found = q->ntodo > 0 && !q->failed[device];
	if (found)
	{
		*item = q->todo[--q->ntodo];
		q->busy++;
	}
	pthread_mutex_unlock(&q->mutex);
	return found;
}

static void *
work(void *arg)
{
	GrnQueueWorker *w = arg;
	GrnQueue   *q = w->queue;
	GrnGpuError err = {.status = GRN_GPU_OK};
	size_t		item;
	bool		begun = false;

	/* without its second lane a device is only slower */
	w->gpu = grn_open_lane(w->device, w->lane);
	while (w->gpu && err.status == GRN_GPU_OK && next_item(q, w->device, &item))
	{
		if (!begun && q->begin)
			err.status = q->begin(q->ctx, w->device, w->gpu, &err);
		begun = true;
		if (err.status == GRN_GPU_OK)
			err.status = q->item(q->ctx, w->device, w->gpu, item, &err);
		pthread_mutex_lock(&q->mutex);
		q->busy--;
		if (err.status != GRN_GPU_OK)
		{
			q->todo[q->ntodo++] = item;
			q->err = err;
			q->failed[w->device] = true;
			__atomic_store_n(&q->team->failing[w->device], true, __ATOMIC_RELAXED);
		}
		pthread_cond_broadcast(&q->changed);
		pthread_mutex_unlock(&q->mutex);
	}
	return NULL;
}

void
grn_queue_start(GrnQueue *q, GrnTeam *team, int lanes, size_t nitems, GrnBeginFn begin,
				GrnItemFn item, void *ctx)
{
	memset(q, 0, sizeof(*q));
	q->team = team;
	q->begin = begin;
	q->item = item;
	q->ctx = ctx;
	pthread_mutex_init(&q->mutex, NULL);
	pthread_cond_init(&q->changed, NULL);
	q->todo = malloc((nitems + 1) * sizeof(*q->todo));
	q->ntodo = nitems;
	q->err.status = GRN_GPU_FAILED;
	snprintf(q->err.text, sizeof(q->err.text), "out of host memory or threads");
	if (!q->todo)
		return;
	for (size_t i = 0; i < nitems; i++)
		q->todo[i] = nitems - 1 - i;
	memset(team->failing, 0, sizeof(team->failing));
	for (int lane = 0; lane < lanes; lane++)
		for (int i = 0; i < team->n; i++)
		{
			GrnQueueWorker *w = &q->workers[i][lane];

			w->queue = q;
			w->device = i;
			w->lane = lane;
			w->started = !team->lost[i] && pthread_create(&w->thread, NULL, work, w) == 0;
		}
}

GrnGpuStatus
grn_queue_finish(GrnQueue *q, GrnGpuError *err)
{
	for (int i = 0; i < GRN_MAX_GPUS; i++)
		for (int lane = 0; lane < GRN_LANES; lane++)
			if (q->workers[i][lane].started)
				pthread_join(q->workers[i][lane].thread, NULL);
	pthread_cond_destroy(&q->changed);
	pthread_mutex_destroy(&q->mutex);
	free(q->todo);
	grn_team_note_peak(q->team);
	*err = q->err;
	if (q->ntodo > 0)
		return q->err.status;
	for (int i = 0; i < q->team->n; i++)
		if (q->failed[i])
			grn_team_lose(q->team, i, err);
	return GRN_GPU_OK;
}
