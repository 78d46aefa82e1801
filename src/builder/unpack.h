/*
 * unpack.h - a queue of packed rows from another host.  All threads unpack queued rows while more
 * rows arrive.
 */
#ifndef GRN_UNPACK_H
#define GRN_UNPACK_H

#include "builder/host.h"
#include "builder/thread_pool.h"
#include "space/rows.h"

/* Rows [first, first + n) of VECTORS, packed in a form. */
typedef struct GrnPackedRows
{
	uint64_t	first;
	uint64_t	n;
	GrnForm		form;
} GrnPackedRows;

typedef struct GrnPackedQueue
{
	GrnPackedRows *items;
	size_t		n;
	size_t		room;
} GrnPackedQueue;

/* Adds an item.  Returns false if memory is short. */
extern bool grn_packed_add(GrnPackedQueue *queue, GrnPackedRows item);
/* Unpacks all items and empties the queue.  Errors: SQLSTATE 53200. */
extern bool grn_packed_run(GrnPackedQueue *queue, const GrnRows *rows, GrnPool *pool,
						   GrnFailure *failure);

#endif							/* GRN_UNPACK_H */
