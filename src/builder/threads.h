/*
 * threads.h - threads of the builder: a pool for loops, and queues of work items.
 */
#ifndef GRN_THREADS_H
#define GRN_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "space/grn.h"

/* thread_pool.c: the builder's threads, lent as a GrnParallel. */

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

/*
 * work_queue.c: a queue of numbered work items, and the threads that take the items in order.
 *
 * Threads belong to groups.  If an item fails, the item goes back to the queue for the threads of
 * another group, and the group that failed takes no more items.
 */

typedef struct GrnQueueWork
{
	/* runs once, before the thread's first item; if it returns false, the thread takes no items */
	bool		(*enter) (void *ctx, int group, int member);
	/* does an item; false: the item failed */
	bool		(*item) (void *ctx, int group, int member, size_t item);
	void	   *ctx;
} GrnQueueWork;

typedef struct GrnQueue GrnQueue;

typedef struct GrnQueueThread
{
	GrnQueue   *queue;
	int			group;
	int			member;
	pthread_t	thread;
} GrnQueueThread;

struct GrnQueue
{
	GrnQueueWork work;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	size_t	   *todo;			/* items not yet taken; the last element is taken first */
	size_t		ntodo;
	int			busy;			/* threads that hold an item */
	bool	   *failed;			/* [groups] */
	GrnQueueThread *threads;	/* [most] */
	int			nthreads;
};

/*
 * Makes a queue of items 0 .. nitems - 1, taken in ascending order, with room for `most` threads in
 * `groups` groups.  Returns false if memory is short; then no thread can be started.  The caller
 * must call grn_queue_end() in either case.
 */
extern bool grn_queue_begin(GrnQueue *queue, size_t nitems, int groups, int most,
							const GrnQueueWork *work);
/* Starts a thread of a group; if the system refuses, the queue has a thread less. */
extern void grn_queue_thread(GrnQueue *queue, int group, int member);
/* Waits until all threads have ended.  Returns the number of items left undone. */
extern size_t grn_queue_wait(GrnQueue *queue);
/* Whether a group has failed.  Call grn_queue_wait() first. */
extern bool grn_queue_failed(const GrnQueue *queue, int group);
extern void grn_queue_end(GrnQueue *queue);

#endif							/* GRN_THREADS_H */
