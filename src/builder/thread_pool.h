/*
 * thread_pool.h - the builder's threads, lent to src/graph as a GrnParallel.
 */
#ifndef GRN_THREAD_POOL_H
#define GRN_THREAD_POOL_H

#include "graph/grn.h"

typedef struct GrnPool GrnPool;

/*
 * nthreads >= 1, the caller's own included; where the system starts fewer, the pool has fewer.
 * Loops of several callers take turns, in the order in which they were asked for.  NULL only
 * when out of memory.
 */
extern GrnPool *grn_pool_start(int nthreads);
extern GrnParallel *grn_pool_parallel(GrnPool *pool);
extern void grn_pool_stop(GrnPool *pool);

#endif							/* GRN_THREAD_POOL_H */
