/*
 * host.h - what a build needs from the program that runs it, and how it reports failure.
 */
#ifndef GRN_HOST_H
#define GRN_HOST_H

#include "builder/protocol.h"
#include "cuda/gpu.h"

/* Why a build cannot go on; the same fields as in a FAILED message. */
typedef struct GrnFailure
{
	char		sqlstate[GRN_SQLSTATE];
	char		text[512];
	char		hint[256];
} GrnFailure;

/* Fills *failure; returns false. */
extern bool grn_fail(GrnFailure *failure, const char *sqlstate, const char *hint,
					 const char *format,...)
			__attribute__((format(printf, 4, 5)));

/*
 * What a build needs from the program that runs it.  Any thread may call these.
 *
 * need() returns a segment's memory, of at least so many bytes.  Memory only grows and
 * never moves.  NULL means that it failed, and *failure says why.  expect() announces
 * bytes that will be needed later.  device() sets *gpu to the open GPU, or to NULL if the
 * processor builds.  Without wait it returns false as long as that is not known.  rows() waits
 * until more rows than `have` are complete, for so many ms at most, and returns how many there
 * are; *all: the leader has said BUILD, so no more will come.  written() says that an index's
 * RESULT and CODES are in their final state.
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

/* Of a clock that only goes forward. */
extern double grn_seconds(void);
/* Of the processor, by all threads of this process. */
extern double grn_processor_seconds(void);
/* Seconds since *since, which becomes now. */
extern double grn_lap(double *since);

#endif							/* GRN_HOST_H */
