/*
 * descent_impl.h - what the two halves of RNN-Descent share: the rounds (descent.c) and the
 * lists that they leave (lists.c).
 */
#ifndef GRN_DESCENT_IMPL_H
#define GRN_DESCENT_IMPL_H

#include "graph/construct/descent.h"
#include "graph/construct/projection.h"
#include "graph/kernels/tile.h"

/* Keys: distance (see tile.h) above, then id, then the mark of a new key. */
#define KEY(distance, id) ((uint64_t) (distance) << 32 | (uint64_t) (id) << 1 | 1)
#define KEY_DISTANCE(key) ((uint32_t) ((key) >> 32))
#define KEY_ID(key) ((uint32_t) (key) >> 1)
#define KEY_NEW UINT64_C(1)

/*
 * Keys an inbox holds.  With its header an inbox is a whole number of cache
 * lines.  Fewer lose recall: see test/bench/decisions.md.
 */
#ifndef INBOX
#define INBOX 63
#endif
#define MAX_POOL GRN_MAX_DEGREE
#define MAX_TILE (MAX_POOL + INBOX)
#define GRAIN 256				/* vertices a worker takes at a time */

typedef struct Inbox
{
	uint8_t		lock;
	uint8_t		count;
	uint8_t		largest;		/* index of the largest key, where full */
	uint8_t		full;			/* INBOX distinct keys */
	uint8_t		unused[4];
	uint64_t	keys[INBOX];
} Inbox;

/*
 * Vertices have positions here: the order of grn_pivot_order(), so that what a vertex
 * touches tends to be in the cache.
 */
typedef struct Descent
{
	GrnTile		tile;			/* by position */
	GrnRows		rows;			/* by position */
	GrnGraphParams params;
	GrnGraph   *graph;			/* by vertex */
	uint32_t   *vertex;			/* [n] at a position */
	uint32_t   *row_order;		/* [n] of rows */
	uint64_t   *pools;			/* [n][r] */
	uint8_t    *counts;			/* [n] of pools */
	Inbox	   *read;			/* [n] */
	Inbox	   *write;			/* [n] */
	int8_t	   *bytes;			/* [n][stride] by position */
	int32_t    *terms;			/* [n][2] by position */
	int8_t	   *vertex_bytes;	/* the same by vertex, before there are positions */
	int32_t    *vertex_terms;
	void	   *scratch;		/* until there are positions, too */
	uint32_t	copied;			/* grn_copied_dims() */
	bool		fits;			/* its own projection; else it has one of more rows, */
	float	   *mean;			/* and its own mean, [copied] */
	size_t		stride;			/* of bytes */
	uint8_t		not_bytes;		/* some row is not integers 0..255 */
	bool		use_bytes;		/* descent compares bytes: the rows, or projections */
	GrnProject	project;		/* where use_bytes and not_bytes */
	bool		moving;			/* in this round some vertex had a new key */
} Descent;

/*
 * lists.c: writes the graph from pools and from inboxes that hold reverse edges.  With
 * fill, lists that are still short take the nearest neighbours of neighbours.
 */
extern void grn_write_lists(Descent *d, GrnParallel *parallel, bool fill);

/* Writes the list of a position, sorted, into the memory of its inbox. */
extern void grn_put_list(Descent *d, size_t v, const uint64_t *keys, uint32_t count);

/* mutual.c: makes lists of pools and inboxes where there is room for few edges. */
extern void grn_match_edges(Descent *d, GrnParallel *parallel);

#endif							/* GRN_DESCENT_IMPL_H */
