/*
 * work_queue.h - numbered items of work, and the threads that take them, one after the other.
 *
 * Threads come in groups.  An item that fails goes back, for the threads of other groups, and
 * the group takes no more.
 */
#ifndef GRN_WORK_QUEUE_H
#define GRN_WORK_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct GrnQueueWork
{
	/* what a thread does first; where it returns false the thread takes no items */
	bool		(*enter) (void *ctx, int group, int member);
	/* does an item; false: it failed */
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
	size_t	   *todo;			/* the last comes first */
	size_t		ntodo;
	int			busy;			/* threads with an item */
	bool	   *failed;			/* [groups] */
	GrnQueueThread *threads;	/* [most] */
	int			nthreads;
};

/*
 * A queue of items 0 .. nitems - 1, taken in that order, with room for `most` threads of so
 * many groups.  False where memory is short: then no thread can be started.  In either case
 * grn_queue_end() follows.
 */
extern bool grn_queue_begin(GrnQueue *queue, size_t nitems, int groups, int most,
							const GrnQueueWork *work);
/* Starts a thread of a group; where the system starts none there is one less. */
extern void grn_queue_thread(GrnQueue *queue, int group, int member);
/* Waits for the threads' end; returns how many items are left. */
extern size_t grn_queue_wait(GrnQueue *queue);
/* Whether a group has failed, after the wait. */
extern bool grn_queue_failed(const GrnQueue *queue, int group);
extern void grn_queue_end(GrnQueue *queue);

#endif							/* GRN_WORK_QUEUE_H */
