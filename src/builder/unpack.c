/*
 * unpack.c - unpacks rows that another host has sent; see prepare.h.
 */
#include "builder/prepare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "space/rows.h"

#ifndef MADV_POPULATE_WRITE		/* since Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

typedef struct Unpack
{
	const GrnRows *rows;
	const GrnPackedRows *items;
	int			error;			/* an errno, or 0 */
} Unpack;

bool
grn_packed_add(GrnPackedQueue *queue, GrnPackedRows item)
{
	if (queue->n == queue->room)
	{
		size_t		room = 2 * queue->room + 64;
		GrnPackedRows *items = realloc(queue->items, room * sizeof(*items));

		if (!items)
			return false;
		queue->items = items;
		queue->room = room;
	}
	queue->items[queue->n++] = item;
	return true;
}

/* Allocates a range's pages: a lack of memory is an error, not SIGBUS.  Returns an errno or 0. */
static int
populate(char *begin, char *end)
{
	uintptr_t	page = (uintptr_t) sysconf(_SC_PAGESIZE);

	begin -= (uintptr_t) begin % page;
	while (madvise(begin, (size_t) (end - begin), MADV_POPULATE_WRITE) != 0)
		if (errno == EINVAL)
			return 0;			/* a kernel before Linux 5.14 */
		else if (errno != EINTR && errno != EAGAIN)
			return errno;
	return 0;
}

static void
unpack_range(void *arg, int worker, size_t begin, size_t end)
{
	Unpack	   *u = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		const GrnPackedRows *item = &u->items[i];
		char	   *place = (char *) grn_row(u->rows, item->first);
		int			error = item->n == 0 ? 0 : populate(place, place + item->n * u->rows->row_bytes);

		if (error == 0)
			grn_unpack(u->rows, item->form, item->first, item->n);
		else
			__atomic_store_n(&u->error, error, __ATOMIC_RELAXED);
	}
}

bool
grn_packed_run(GrnPackedQueue *queue, const GrnRows *rows, GrnPool *pool, GrnFailure *failure)
{
	GrnParallel *parallel = grn_pool_parallel(pool);
	Unpack		u = {rows, queue->items, 0};

	parallel->run(parallel, queue->n, 1, unpack_range, &u);
	free(queue->items);
	*queue = (GrnPackedQueue) {0};
	return u.error == 0 ||
		grn_fail(failure, "53200", "", "the builder process could not allocate memory for rows: %s",
				 strerror(u.error));
}
