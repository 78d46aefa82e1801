/*
 * progress.c - how far a phase of a build is; see progress.h.
 */
#include "builder/progress.h"

#define SAYINGS 32				/* of a loop, at most */

/* One loop, as the threads run it. */
typedef struct Loop
{
	GrnProgress *p;
	GrnRangeFn	fn;
	void	   *arg;
	size_t		n;
	size_t		done;			/* items */
	double		from,
				to;				/* shares of the phase */
} Loop;

/* So much of the phase is done, unless more is already.  The caller holds the mutex. */
static void
reach(GrnProgress *p, double share)
{
	uint64_t	done = (uint64_t) (share * (double) p->total);

	if (p->phase == 0 || share <= p->at)
		return;
	p->at = share;
	if (done <= p->said || p->quiet)
		return;
	p->said = done;
	p->host->phase(p->host->ctx, p->phase, done, p->total);
}

static void
counted_range(void *arg, int worker, size_t begin, size_t end)
{
	Loop	   *loop = arg;
	size_t		done;

	loop->fn(loop->arg, worker, begin, end);
	done = __atomic_add_fetch(&loop->done, end - begin, __ATOMIC_RELAXED);
	if (done * SAYINGS / loop->n == (done - (end - begin)) * SAYINGS / loop->n)
		return;
	pthread_mutex_lock(&loop->p->mutex);
	reach(loop->p, loop->from + (loop->to - loop->from) * (double) done / (double) loop->n);
	pthread_mutex_unlock(&loop->p->mutex);
}

static void
run(GrnParallel *self, size_t n, size_t grain, GrnRangeFn fn, void *arg)
{
	GrnProgress *p = (GrnProgress *) self;
	Loop		loop = {p, fn, arg, n, 0, 0, 0};
	bool		counts;

	pthread_mutex_lock(&p->mutex);
	counts = p->loops > 0 && n > 0;
	loop.from = p->at;
	/* there may be more loops than were thought: the last one leaves something to them */
	loop.to = p->at + (p->to - p->at) / (p->loops > 2 ? p->loops : 2);
	if (p->loops > 1)
		p->loops--;
	pthread_mutex_unlock(&p->mutex);
	if (counts)
		p->threads->run(p->threads, n, grain, counted_range, &loop);
	else
		p->threads->run(p->threads, n, grain, fn, arg);
}

void
grn_progress_init(GrnProgress *p, GrnParallel *threads, const GrnHost *host)
{
	*p = (GrnProgress) {.parallel = {threads->nworkers, run}, .threads = threads, .host = host};
	pthread_mutex_init(&p->mutex, NULL);
}

void
grn_progress_phase(GrnProgress *p, GrnPhase phase, uint64_t total)
{
	pthread_mutex_lock(&p->mutex);
	p->phase = phase;
	p->total = total;
	p->said = 0;
	p->at = p->from = p->to = 0;
	p->loops = 0;
	if (!p->quiet)
		p->host->phase(p->host->ctx, phase, 0, total);
	pthread_mutex_unlock(&p->mutex);
}

void
grn_progress_step(GrnProgress *p, double to, uint32_t loops)
{
	pthread_mutex_lock(&p->mutex);
	reach(p, p->to);
	p->from = p->at;
	p->to = to;
	p->loops = loops;
	pthread_mutex_unlock(&p->mutex);
}

void
grn_progress_done(GrnProgress *p, uint64_t done, uint64_t of)
{
	pthread_mutex_lock(&p->mutex);
	reach(p, done < of ? p->from + (p->to - p->from) * (double) done / (double) of : p->to);
	pthread_mutex_unlock(&p->mutex);
}

void
grn_progress_hush(GrnProgress *p, bool quiet)
{
	pthread_mutex_lock(&p->mutex);
	p->quiet = quiet;
	pthread_mutex_unlock(&p->mutex);
}
