/*
 * progress.c - measures the progress of a build's phases; see host.h.
 */
#include "builder/host.h"

/* Shares of a loop: of what is left of the phase, and of what is left of a counted item. */
#define LOOP_SHARE (1.0 / 32)
#define LOOP_SHARE_OF_ITEM 0.25
#define ITEMS_SHARE 0.9			/* share of counted items in what is left of the phase */

/* A loop that the threads are running. */
typedef struct Loop
{
	GrnProgress *p;
	GrnRangeFn	fn;
	void	   *arg;
	size_t		n;
	size_t		done;			/* finished items */
	double		from,
				to;				/* shares of the phase before and after the loop */
} Loop;

/*
 * Raises the finished share of the phase to `share`, and reports the progress.  A smaller share
 * changes nothing.  The caller holds the mutex.
 */
static void
advance(GrnProgress *p, double share)
{
	uint64_t	done = (uint64_t) (share * (double) p->total);

	if (p->phase == 0 || share <= p->at)
		return;
	p->at = share;
	if (done <= p->reported || p->quiet)
		return;
	p->reported = done;
	p->host->phase(p->host->ctx, p->phase, done, p->total);
}

static void
counted_range(void *arg, int worker, size_t begin, size_t end)
{
	Loop	   *loop = arg;
	size_t		done;

	loop->fn(loop->arg, worker, begin, end);
	done = __atomic_add_fetch(&loop->done, end - begin, __ATOMIC_RELAXED);
	if (done * GRN_MOST_REPORTS / loop->n == (done - (end - begin)) * GRN_MOST_REPORTS / loop->n)
		return;
	pthread_mutex_lock(&loop->p->mutex);
	advance(loop->p, loop->from + (loop->to - loop->from) * (double) done / (double) loop->n);
	pthread_mutex_unlock(&loop->p->mutex);
}

static void
run_counted(GrnParallel *self, size_t n, size_t grain, GrnRangeFn fn, void *arg)
{
	GrnProgress *p = (GrnProgress *) self;
	Loop		loop = {p, fn, arg, n, 0, 0, 0};

	pthread_mutex_lock(&p->mutex);
	loop.from = p->at;
	loop.to = p->at + (p->end - p->at) * p->loop_share;
	pthread_mutex_unlock(&p->mutex);
	p->threads->run(p->threads, n, grain, counted_range, &loop);
}

void
grn_progress_init(GrnProgress *p, GrnParallel *threads, const GrnHost *host)
{
	*p = (GrnProgress) {.parallel = {threads->nworkers, run_counted}, .threads = threads, .host = host};
	pthread_mutex_init(&p->mutex, NULL);
}

void
grn_progress_phase(GrnProgress *p, GrnStep phase, uint64_t total)
{
	pthread_mutex_lock(&p->mutex);
	p->phase = phase;
	p->total = total;
	p->reported = 0;
	p->at = p->from = 0;
	p->end = 1;
	p->loop_share = LOOP_SHARE;
	if (!p->quiet)
		p->host->phase(p->host->ctx, phase, 0, total);
	pthread_mutex_unlock(&p->mutex);
}

void
grn_progress_done(GrnProgress *p, uint64_t done, uint64_t of)
{
	double		items;

	pthread_mutex_lock(&p->mutex);
	if (done == 0)
		p->from = p->at;
	items = (1 - p->from) * ITEMS_SHARE;
	advance(p, p->from + (done < of ? items * (double) done / (double) of : items));
	p->end = done < of ? p->from + items * (double) (done + 1) / (double) of : 1;
	p->loop_share = done < of ? LOOP_SHARE_OF_ITEM : LOOP_SHARE;
	pthread_mutex_unlock(&p->mutex);
}

void
grn_progress_set_quiet(GrnProgress *p, bool quiet)
{
	pthread_mutex_lock(&p->mutex);
	p->quiet = quiet;
	pthread_mutex_unlock(&p->mutex);
}
