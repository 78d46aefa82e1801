/*
 * progress.h - measures the progress of a build's phases.
 *
 * A phase consists of loops.  The threads that run a loop count the finished turns, and the
 * progress is reported from time to time.  The duration of later loops is unknown, so each loop
 * gets the same part of the share that is left.  For most of a phase's time a caller knows the
 * amount of work and counts items: then each loop gets a part of the item.  The reported progress
 * never falls.
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
	double		from;			/* share before the items that a caller counts */
	double		end;			/* share after the item that a caller is at, or 1 */
	double		loop_share;		/* part of a loop in what is left until `end` */
} GrnProgress;

/* Initializes p, which counts the loops of `threads` and reports to `host`. */
extern void grn_progress_init(GrnProgress *p, GrnParallel *threads, const GrnHost *host);
/* Begins a phase of `total` rows. */
extern void grn_progress_phase(GrnProgress *p, GrnPhase phase, uint64_t total);
/* Reports that `done` of `of` items are finished.  A series of items begins with done = 0. */
extern void grn_progress_done(GrnProgress *p, uint64_t done, uint64_t of);
/* Turns reports off or on.  Any thread may call this function. */
extern void grn_progress_set_quiet(GrnProgress *p, bool quiet);

#endif							/* GRN_PROGRESS_H */
