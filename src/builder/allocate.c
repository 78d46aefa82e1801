/*
 * allocate.c - threads that allocate pages of shared memory before another process writes there.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE				/* for madvise() */
#endif
#include "builder/allocate.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#define AHEAD_THREADS 8
#define AHEAD_PIECE (UINT64_C(4) << 20)

#ifndef MADV_POPULATE_WRITE		/* since Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

/* The extent whose pages the threads allocate together. */
typedef struct Ahead
{
	char	   *base;
	uint64_t	bytes;
	uint64_t	next;			/* first byte that no thread has taken */
} Ahead;

static void *
allocate_main(void *arg)
{
	Ahead	   *a = arg;
	uint64_t	at;

	while ((at = __atomic_fetch_add(&a->next, AHEAD_PIECE, __ATOMIC_RELAXED)) < a->bytes)
		if (madvise(a->base + at, a->bytes - at < AHEAD_PIECE ? a->bytes - at : AHEAD_PIECE,
					MADV_POPULATE_WRITE) != 0)
			break;
	return NULL;
}

void
grn_allocate_ahead(char *base, uint64_t bytes, uint32_t threads)
{
	Ahead	   *a = malloc(sizeof(*a));
	pthread_t	thread;

	if (!a)
		return;
	*a = (Ahead) {base, bytes, 0};
	for (uint32_t i = 0; i < threads && i < AHEAD_THREADS; i++)
		if (pthread_create(&thread, NULL, allocate_main, a) == 0)
			pthread_detach(thread);
}
