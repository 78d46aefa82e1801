/*
 * threads.h - the builder's threads, lent as a GrnParallel (thread_pool.c).
 */
#ifndef GRN_THREADS_H
#define GRN_THREADS_H

#include "space/grn.h"

typedef struct GrnPool GrnPool;

/*
 * Starts a pool of nthreads >= 1 threads, with the caller's thread as the first.  The pool has
 * fewer threads if the system starts fewer.  Loops of several callers take turns in order of
 * arrival.  Returns NULL only if memory is short.
 */
extern GrnPool *grn_pool_start(int nthreads);
extern GrnParallel *grn_pool_parallel(GrnPool *pool);
/* Ends the threads and frees the pool.  No loop may be running. */
extern void grn_pool_stop(GrnPool *pool);

#endif							/* GRN_THREADS_H */
