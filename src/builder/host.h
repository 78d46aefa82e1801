/*
 * host.h - whoever runs a build: what the build needs from it, tells it, and fails with.
 */
#ifndef GRN_HOST_H
#define GRN_HOST_H

#include "builder/protocol.h"
#include "cuda/gpu.h"

/* Why a build cannot go on; the same fields as in a FAILED message. */
typedef struct GrnFailure
{
	char		sqlstate[8];
	char		text[512];
	char		hint[256];
} GrnFailure;

/* Fills *failure; returns false. */
extern bool grn_fail(GrnFailure *failure, const char *sqlstate, const char *hint,
					 const char *format,...)
			__attribute__((format(printf, 4, 5)));

/*
 * What a build needs from whoever runs it, from any thread.  Memory of a segment
 * only grows and stays in place; NULL: failed, and *failure says why.  expect: the
 * same bytes will be needed later.  device: *gpu is what is open, NULL where the
 * processor builds; false, only without wait: that is not known yet.
 */
typedef struct GrnHost
{
	void	   *ctx;
	void	   *(*need) (void *ctx, GrnSegment segment, uint64_t bytes, GrnFailure *failure);
	void		(*expect) (void *ctx, GrnSegment segment, uint64_t bytes);
	bool		(*device) (void *ctx, bool wait, GrnGpu **gpu);
	void		(*phase) (void *ctx, GrnPhase phase, uint64_t done, uint64_t total);
	void		(*notice) (void *ctx, const char *text, const char *hint);
} GrnHost;

/* Of a clock that only goes forward. */
extern double grn_seconds(void);
/* Seconds since *since, which becomes now. */
extern double grn_lap(double *since);

#endif							/* GRN_HOST_H */
