/*
 * work_queue.c - a queue of numbered work items, and the threads that take the items in order.
 */
#include "builder/threads.h"

#include <stdlib.h>
#include <string.h>

/* Takes the next item.  Returns false if all items are done or the group has failed. */
static bool
next_item(GrnQueue *q, int group, size_t *item)
{
	bool		found;

	pthread_mutex_lock(&q->mutex);
	/* An item that another thread holds may come back. */
	while (q->ntodo == 0 && q->busy > 0)
		pthread_cond_wait(&q->changed, &q->mutex);
	found = q->ntodo > 0 && !q->failed[group];
	if (found)
	{
		*item = q->todo[--q->ntodo];
		q->busy++;
	}
	pthread_mutex_unlock(&q->mutex);
	return found;
}

static void *
thread_main(void *arg)
{
	GrnQueueThread *t = arg;
	GrnQueue   *q = t->queue;
	const GrnQueueWork *work = &q->work;
	size_t		item;
	bool		good = work->enter(work->ctx, t->group, t->member);

	while (good && next_item(q, t->group, &item))
	{
		good = work->item(work->ctx, t->group, t->member, item);
		pthread_mutex_lock(&q->mutex);
		q->busy--;
		if (!good)
		{
			q->todo[q->ntodo++] = item;
			q->failed[t->group] = true;
		}
		pthread_cond_broadcast(&q->changed);
		pthread_mutex_unlock(&q->mutex);
	}
	return NULL;
}

bool
grn_queue_begin(GrnQueue *q, size_t nitems, int groups, int most, const GrnQueueWork *work)
{
	memset(q, 0, sizeof(*q));
	q->work = *work;
	pthread_mutex_init(&q->mutex, NULL);
	pthread_cond_init(&q->changed, NULL);
	q->todo = malloc((nitems + 1) * sizeof(*q->todo));
	q->failed = calloc((size_t) groups + 1, sizeof(*q->failed));
	q->threads = calloc((size_t) most + 1, sizeof(*q->threads));
	q->ntodo = nitems;
	if (!q->todo || !q->failed || !q->threads)
		return false;
	for (size_t i = 0; i < nitems; i++)
		q->todo[i] = nitems - 1 - i;
	return true;
}

void
grn_queue_thread(GrnQueue *q, int group, int member)
{
	GrnQueueThread *t = &q->threads[q->nthreads];

	t->queue = q;
	t->group = group;
	t->member = member;
	if (pthread_create(&t->thread, NULL, thread_main, t) == 0)
		q->nthreads++;
}

size_t
grn_queue_wait(GrnQueue *q)
{
	for (int i = 0; i < q->nthreads; i++)
		pthread_join(q->threads[i].thread, NULL);
	return q->ntodo;
}

bool
grn_queue_failed(const GrnQueue *q, int group)
{
	return q->failed && q->failed[group];
}

void
grn_queue_end(GrnQueue *q)
{
	pthread_cond_destroy(&q->changed);
	pthread_mutex_destroy(&q->mutex);
	free(q->todo);
	free(q->failed);
	free(q->threads);
}
