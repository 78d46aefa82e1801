/*
 * descent_impl.h - shared by the two halves of RNN-Descent: the rounds (descent.c) and the
 * lists that the rounds leave (lists.c).
 */
#ifndef GRN_DESCENT_IMPL_H
#define GRN_DESCENT_IMPL_H

#include "graph/descent.h"
#include "space/kernels/tile.h"

/* A key: distance (see tile.h), then id, then 1 if the key is new. */
#define KEY(distance, id) ((uint64_t) (distance) << 32 | (uint64_t) (id) << 1 | 1)
#define KEY_DISTANCE(key) ((uint32_t) ((key) >> 32))
#define KEY_ID(key) ((uint32_t) (key) >> 1)
#define KEY_NEW UINT64_C(1)

/*
 * Keys of an inbox.  An inbox with its header is a whole number of cache lines.  Measured on a
 * million SIFT rows, with s = 20 and r = 32 in place of 32 and 48: an inbox of 47 keys builds
 * in 53 s in place of 77 s, and loses .012 of recall@10.
 */
#ifndef INBOX
#define INBOX 63
#endif
#define MAX_POOL GRN_MAX_DEGREE
#define MAX_TILE (MAX_POOL + INBOX)

typedef struct Inbox
{
	uint8_t		lock;
	uint8_t		count;
	uint8_t		largest;		/* index of the largest key, if full */
	uint8_t		full;			/* INBOX distinct keys are stored */
	uint8_t		unused[4];
	uint64_t	keys[INBOX];
} Inbox;

/*
 * The state of a build.  Vertices have positions in the order of grn_pivot_order(), so that
 * vertices that a round uses together are often in the cache.
 */
typedef struct Descent
{
	GrnTile		tile;			/* by position */
	GrnRows		rows;			/* by position */
	GrnGraphParams params;
	GrnGraph   *graph;			/* by vertex */
	uint32_t   *vertex;			/* [n] vertex at a position */
	uint32_t   *row_order;		/* [n] order of rows by position */
	uint64_t   *pools;			/* [n][r] */
	uint8_t    *counts;			/* [n] keys of each pool */
	Inbox	   *read;			/* [n] inboxes that the round reads */
	Inbox	   *write;			/* [n] inboxes that the round writes */
	int8_t	   *bytes;			/* [n][stride] by position */
	int32_t    *terms;			/* [n][2] by position */
	int8_t	   *vertex_bytes;	/* bytes and terms by vertex, before positions are known */
	int32_t    *vertex_terms;
	void	   *scratch;		/* workspace of steps before positions are known */
	uint32_t	copied;			/* grn_copied_dims() */
	bool		fits;			/* the build fits its own projection; otherwise the projection
								 * comes from more rows, */
	float	   *mean;			/* and the build has its own mean, [copied] */
	size_t		stride;			/* bytes of a row in `bytes` */
	uint8_t		not_bytes;		/* a row has values other than integers 0..255 */
	bool		use_bytes;		/* the descent compares bytes: the rows themselves, or projections */
	GrnProject	project;		/* used if use_bytes and not_bytes */
	bool		moving;			/* a vertex had a new key in this round */
} Descent;

/*
 * lists.c: writes the graph from pools and from inboxes with reverse edges.  With fill, short
 * lists are filled with the nearest neighbors of neighbors.
 */
extern void grn_write_lists(Descent *d, GrnParallel *parallel, bool fill);

/* pivot_order.c: computes a cheap order of rows in which near rows are often near each other. */

/*
 * Chooses some hundred or thousand rows at random as pivots.  Sorts rows [0, n) of the tile into
 * bins by their nearest pivot, found in two levels: order[i] is the row at position i.  The order
 * does not depend on the number of threads.  workspace: grn_pivot_order_bytes(n) bytes.
 */
extern size_t grn_pivot_order_bytes(size_t n);
extern void grn_pivot_order(const GrnTile *tile, size_t n, uint64_t seed, GrnParallel *parallel,
							uint32_t *order, void *workspace);

#endif							/* GRN_DESCENT_IMPL_H */
