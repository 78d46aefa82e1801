/*
 * progress.h - how far a phase of a build is, counted where its loops are run.
 *
 * A phase has steps, each a share of it; a step has loops, and what a thread has done of a loop is
 * said as it goes.  How long loops take is not known before: shares are guesses, and only move.
 */
#ifndef GRN_PROGRESS_H
#define GRN_PROGRESS_H

#include <pthread.h>

#include "builder/host.h"

typedef struct GrnProgress
{
	GrnParallel parallel;		/* first: run() casts back; the threads, whose loops are counted */
	GrnParallel *threads;
	const GrnHost *host;
	pthread_mutex_t mutex;
	bool		quiet;			/* nothing is said: of another progress it is */
	GrnPhase	phase;			/* 0: none */
	uint64_t	total;			/* what the phase is said to have: rows */
	uint64_t	said;			/* of them */
	double		at;				/* share of the phase that is done */
	double		from,			/* that is when the step begins, */
				to;				/* and when it ends */
	uint32_t	loops;			/* that the step still has, about; 0: its loops are not counted */
} GrnProgress;

extern void grn_progress_init(GrnProgress *p, GrnParallel *threads, const GrnHost *host);
/* Begins a phase of so many rows. */
extern void grn_progress_phase(GrnProgress *p, GrnPhase phase, uint64_t total);
/* Ends the step before, and begins one of so many loops that goes up to a share of the phase. */
extern void grn_progress_step(GrnProgress *p, double to, uint32_t loops);
/* Of a step whose loops are not counted: so much of it is done. */
extern void grn_progress_done(GrnProgress *p, uint64_t done, uint64_t of);
/* From here on it says, or does not say, what it counts; any thread may call it. */
extern void grn_progress_hush(GrnProgress *p, bool quiet);

#endif							/* GRN_PROGRESS_H */
