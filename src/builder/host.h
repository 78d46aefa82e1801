/*
 * host.h - the services that a build needs from the program that runs the build, and the form in
 * which the build reports failure.
 */
#ifndef GRN_HOST_H
#define GRN_HOST_H

#include <pthread.h>

#include "builder/protocol.h"
#include "cuda/gpu.h"

/* The reason why a build cannot go on.  A FAILED message has the same fields. */
typedef struct GrnFailure
{
	char		sqlstate[GRN_SQLSTATE];
	char		text[512];
	char		hint[256];
} GrnFailure;

/* Fills *failure and returns false. */
extern bool grn_fail(GrnFailure *failure, const char *sqlstate, const char *hint,
					 const char *format,...)
			__attribute__((format(printf, 4, 5)));

/*
 * The services that a build needs from the program that runs the build.  Any thread may call the
 * functions.
 *
 * need() returns the memory of a segment, of at least `bytes` bytes.  A segment only grows and
 * never moves.  On failure need() returns NULL and fills *failure.
 *
 * expect() announces bytes that a later need() will request.
 *
 * device() sets *gpu to the open GPU, or to NULL if the processor builds.  Without `wait`, device()
 * returns false while the device is still unknown.
 *
 * phase() reports progress.  notice() sends a notice to the user.
 *
 * rows() waits until more than `have` rows are complete, for at most `ms` milliseconds, and returns
 * the number of complete rows.  *all becomes true when the leader has sent BUILD and no more rows
 * will come.
 *
 * written() tells the leader that RESULT of an index is in its final state.
 */
typedef struct GrnHost
{
	void	   *ctx;
	void	   *(*need) (void *ctx, GrnSegment segment, uint64_t bytes, GrnFailure *failure);
	void		(*expect) (void *ctx, GrnSegment segment, uint64_t bytes);
	bool		(*device) (void *ctx, bool wait, GrnGpu **gpu);
	void		(*phase) (void *ctx, GrnStep phase, uint64_t done, uint64_t total);
	void		(*notice) (void *ctx, const char *text, const char *hint);
	uint64_t	(*rows) (void *ctx, uint64_t have, int ms, bool *all);
	void		(*written) (void *ctx);
} GrnHost;

/* Seconds of a monotonic clock. */
extern double grn_seconds(void);
/* Seconds of processor time that all threads of this process have used. */
extern double grn_processor_seconds(void);
/* Returns the seconds since *since and sets *since to the present time. */
extern double grn_lap(double *since);

/*
 * progress.c: measures the progress of a build's phases.
 *
 * A phase consists of loops.  The threads that run a loop count the finished turns, and the
 * progress is reported from time to time.  The duration of later loops is unknown, so each loop
 * gets the same part of the share that is left.  For most of a phase's time a caller knows the
 * amount of work and counts items: then each loop gets a part of the item.  The reported progress
 * never falls.
 */

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
	GrnStep		phase;			/* GRN_STEP_COLLECT: none has begun */
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
extern void grn_progress_phase(GrnProgress *p, GrnStep phase, uint64_t total);
/* Reports that `done` of `of` items are finished.  A series of items begins with done = 0. */
extern void grn_progress_done(GrnProgress *p, uint64_t done, uint64_t of);
/* Turns reports off or on.  Any thread may call this function. */
extern void grn_progress_set_quiet(GrnProgress *p, bool quiet);

/* no_memory.c: reports a page of shared memory that the machine cannot supply. */

/*
 * Installs a handler of SIGBUS.  A thread that touches a page without memory then sends FAILED
 * (SQLSTATE 53200) to the leader at socket `fd`, and stops until the leader closes the socket.
 */
extern void grn_report_no_memory(int fd);

#endif							/* GRN_HOST_H */
