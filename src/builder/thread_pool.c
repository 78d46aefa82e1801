/*
 * thread_pool.c - a fixed set of threads that share a single loop at a time.
 */
#include "builder/threads.h"

#include <pthread.h>
#include <stdlib.h>

struct GrnPool
{
	GrnParallel parallel;		/* must be the first member: pool_run() casts to GrnPool */
	pthread_mutex_t mutex;
	pthread_cond_t turn;		/* a loop has ended: the next caller may begin */
	uint64_t	callers;		/* callers so far; each caller's number */
	uint64_t	served;			/* loops that have ended */
	pthread_cond_t work;		/* workers are wanted, or must stop */
	pthread_cond_t done;		/* the last worker has left the loop */
	int			wanted;			/* workers that the loop still has pieces for */
	int			busy;			/* workers inside the loop */
	bool		stop;
	GrnRangeFn	fn;
	void	   *arg;
	size_t		n;
	size_t		grain;
	size_t		next;			/* first item that no thread has taken */
	pthread_t  *threads;		/* [nworkers - 1] */
};

typedef struct Start
{
	GrnPool    *pool;
	int			worker;
} Start;

static void
take_pieces(GrnPool *pool, int worker)
{
	for (;;)
	{
		size_t		begin = __atomic_fetch_add(&pool->next, pool->grain, __ATOMIC_RELAXED);
		size_t		end;

		if (begin >= pool->n)
			return;
		end = pool->n - begin < pool->grain ? pool->n : begin + pool->grain;
		pool->fn(pool->arg, worker, begin, end);
	}
}

/*
 * Wakes two workers if more are wanted.  Each woken worker wakes two more.  If all workers woke at
 * once, most of them would queue for the mutex.
 */
static void
wake_workers(GrnPool *pool)
{
	for (int i = 0; i < 2 && i < pool->wanted; i++)
		pthread_cond_signal(&pool->work);
}

static void *
worker_main(void *arg)
{
	Start		start = *(Start *) arg;
	GrnPool    *pool = start.pool;

	free(arg);
	pthread_mutex_lock(&pool->mutex);
	for (;;)
	{
		while (pool->wanted == 0 && !pool->stop)
			pthread_cond_wait(&pool->work, &pool->mutex);
		if (pool->stop)
			break;
		pool->wanted--;
		pool->busy++;
		wake_workers(pool);
		pthread_mutex_unlock(&pool->mutex);
		take_pieces(pool, start.worker);
		pthread_mutex_lock(&pool->mutex);
		if (--pool->busy == 0)
			pthread_cond_signal(&pool->done);
	}
	pthread_mutex_unlock(&pool->mutex);
	return NULL;
}

static void
pool_run(GrnParallel *self, size_t n, size_t grain, GrnRangeFn fn, void *arg)
{
	GrnPool    *pool = (GrnPool *) self;
	size_t		pieces;
	uint64_t	number;

	if (n == 0)
		return;
	if (grain == 0)
		grain = 1;
	pieces = (n - 1) / grain + 1;
	if (self->nworkers == 1 || pieces == 1)
	{
		for (size_t begin = 0; begin < n; begin += grain)
			fn(arg, 0, begin, n - begin < grain ? n : begin + grain);
		return;
	}
	pthread_mutex_lock(&pool->mutex);
	/* Callers take turns in order of arrival, so that a caller with many loops blocks no other. */
	number = pool->callers++;
	while (pool->served != number)
		pthread_cond_wait(&pool->turn, &pool->mutex);
	pool->fn = fn;
	pool->arg = arg;
	pool->n = n;
	pool->grain = grain;
	pool->next = 0;
	pool->wanted = pieces < (size_t) self->nworkers ? (int) pieces - 1 : self->nworkers - 1;
	wake_workers(pool);
	pthread_mutex_unlock(&pool->mutex);

	take_pieces(pool, 0);

	/* Workers that have not woken yet would find no piece. */
	pthread_mutex_lock(&pool->mutex);
	pool->wanted = 0;
	while (pool->busy > 0)
		pthread_cond_wait(&pool->done, &pool->mutex);
	pool->served++;
	pthread_cond_broadcast(&pool->turn);
	pthread_mutex_unlock(&pool->mutex);
}

GrnPool *
grn_pool_start(int nthreads)
{
	GrnPool    *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->threads = calloc((size_t) nthreads, sizeof(*pool->threads));
	if (!pool->threads)
	{
		free(pool);
		return NULL;
	}
	pool->parallel.nworkers = 1;
	pool->parallel.run = pool_run;
	pthread_mutex_init(&pool->mutex, NULL);
	pthread_cond_init(&pool->turn, NULL);
	pthread_cond_init(&pool->work, NULL);
	pthread_cond_init(&pool->done, NULL);
	for (int i = 1; i < nthreads; i++)
	{
		Start	   *start = malloc(sizeof(*start));

		if (!start)
			break;
		start->pool = pool;
		start->worker = i;
		if (pthread_create(&pool->threads[i - 1], NULL, worker_main, start) != 0)
		{
			free(start);
			break;
		}
		pool->parallel.nworkers++;
	}
	return pool;
}

GrnParallel *
grn_pool_parallel(GrnPool *pool)
{
	return &pool->parallel;
}

void
grn_pool_stop(GrnPool *pool)
{
	pthread_mutex_lock(&pool->mutex);
	pool->stop = true;
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->mutex);
	for (int i = 0; i < pool->parallel.nworkers - 1; i++)
		pthread_join(pool->threads[i], NULL);
	free(pool->threads);
	free(pool);
}
