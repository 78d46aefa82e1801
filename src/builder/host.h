/*
 * host.h - the services that a build needs from the program that runs the build, and the form in
 * which the build reports failure.
 */
#ifndef GRN_HOST_H
#define GRN_HOST_H

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
	void		(*phase) (void *ctx, GrnPhase phase, uint64_t done, uint64_t total);
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

#endif							/* GRN_HOST_H */
