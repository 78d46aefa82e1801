/*
 * pool.c - a fixed set of threads that share one loop at a time.
 */
#include "pool.h"

#include <pthread.h>
#include <stdlib.h>

struct GrnPool
{
	GrnParallel parallel;		/* first: run() casts back */
	pthread_mutex_t turn;		/* held by the caller whose loop it is */
	pthread_mutex_t mutex;
	pthread_cond_t work;		/* a new loop, or stop */
	pthread_cond_t done;		/* the last worker has left the loop */
	uint64_t	loop;			/* number of the current loop */
	int			busy;			/* workers that have not left it */
	bool		stop;
	GrnRangeFn	fn;
	void	   *arg;
	size_t		n;
	size_t		grain;
	size_t		next;			/* first item not yet taken */
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

static void *
worker_main(void *arg)
{
	Start		start = *(Start *) arg;
	GrnPool    *pool = start.pool;
	uint64_t	seen = 0;

	free(arg);
	pthread_mutex_lock(&pool->mutex);
	for (;;)
	{
		while (pool->loop == seen && !pool->stop)
			pthread_cond_wait(&pool->work, &pool->mutex);
		if (pool->stop)
			break;
		seen = pool->loop;
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

	if (n == 0)
		return;
	if (grain == 0)
		grain = 1;
	if (self->nworkers == 1 || n <= grain)
	{
		for (size_t begin = 0; begin < n; begin += grain)
			fn(arg, 0, begin, n - begin < grain ? n : begin + grain);
		return;
	}
	pthread_mutex_lock(&pool->turn);
	pthread_mutex_lock(&pool->mutex);
	pool->fn = fn;
	pool->arg = arg;
	pool->n = n;
	pool->grain = grain;
	pool->next = 0;
	pool->busy = self->nworkers - 1;
	pool->loop++;
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->mutex);

	take_pieces(pool, 0);

	pthread_mutex_lock(&pool->mutex);
	while (pool->busy > 0)
		pthread_cond_wait(&pool->done, &pool->mutex);
	pthread_mutex_unlock(&pool->mutex);
	pthread_mutex_unlock(&pool->turn);
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
	pthread_mutex_init(&pool->turn, NULL);
	pthread_mutex_init(&pool->mutex, NULL);
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
