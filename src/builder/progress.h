/*
 * progress.h - measures the progress of a build's phases.
 *
 * A phase has steps, and each step is a share of the phase.  A step has loops.  The threads that
 * run a loop count the finished items, and the progress is reported from time to time.  The shares
 * of steps and loops are guesses, because the duration of a loop is unknown before the loop ends.
 * The reported progress never falls.
 */
#ifndef GRN_PROGRESS_H
#define GRN_PROGRESS_H

#include <pthread.h>

#include "builder/host.h"

/* GRN_GRAIN: CREATE INDEX of 20,000 sentences and patches takes as long with half and twice. */
#define GRN_GRAIN 512			/* rows or vertices that a thread takes at a time */
#define GRN_MOST_REPORTS 32		/* reports of a single loop, at most */

typedef struct GrnProgress
{
	/*
	 * Must be the first member: run_counted() casts to GrnProgress.  Loops that run by this
	 * GrnParallel are counted and then passed to `threads`.
	 */
	GrnParallel parallel;
	GrnParallel *threads;
	const GrnHost *host;
	pthread_mutex_t mutex;
	bool		quiet;			/* reports nothing, because another GrnProgress reports */
	GrnPhase	phase;			/* 0: no phase has begun */
	uint64_t	total;			/* rows of the phase */
	uint64_t	reported;		/* rows reported as done */
	double		at;				/* finished share of the phase */
	double		from,			/* share at the step's beginning */
				to;				/* share at the step's end */
	uint32_t	loops;			/* estimated loops left in the step; 0: loops are not counted */
} GrnProgress;

/* Initializes p, which counts the loops of `threads` and reports to `host`. */
extern void grn_progress_init(GrnProgress *p, GrnParallel *threads, const GrnHost *host);
/* Begins a phase of `total` rows. */
extern void grn_progress_phase(GrnProgress *p, GrnPhase phase, uint64_t total);
/*
 * Ends the step before, and begins a step that ends at share `to` of the phase and has about
 * `loops` loops.
 */
extern void grn_progress_step(GrnProgress *p, double to, uint32_t loops);
/* Reports that `done` of `of` items are finished, in a step whose loops are not counted. */
extern void grn_progress_done(GrnProgress *p, uint64_t done, uint64_t of);
/* Turns reports off or on.  Any thread may call this function. */
extern void grn_progress_set_quiet(GrnProgress *p, bool quiet);

#endif							/* GRN_PROGRESS_H */
