/*
 * nearest.h - finds the nearest vertices of every vertex by the metric's comparison of rows:
 * by a search of the graph that begins at the vertex, or exactly, by comparing all pairs.
 *
 * On request a vertex is among its own nearest vertices, because a vertex may stand for
 * several rows.
 */
#ifndef GRN_NEAREST_H
#define GRN_NEAREST_H

#include "graph/graph.h"
#include "space/rows.h"

/* The most vertices of one call of grn_nearest_exact(). */
#define GRN_NEAREST_BLOCK 64

typedef struct GrnNear
{
	uint32_t	id;
	float		compared;		/* result of the metric's comparison */
} GrnNear;

typedef struct GrnNearest
{
	const GrnRows *rows;		/* the vertices */
	GrnComparison comparison;
	uint32_t	k;				/* longest list wanted */
	/* The following fields are for searches only. */
	const GrnGraph *graph;
	uint32_t	ef;				/* candidates that a search keeps, >= k */
	const uint32_t *entries;	/* further candidates of each search, for vertices in small
								 * components */
	uint32_t	nentries;
} GrnNearest;

/*
 * Returns the bytes of a thread's workspace for searches.  The caller zeroes the workspace
 * before the first search and passes it unchanged to further searches.
 */
extern size_t grn_nearest_search_bytes(const GrnNearest *n);
/* Writes the nearest vertices of v to out [k], in order; returns their number.  own: v too. */
extern uint32_t grn_nearest_search(const GrnNearest *n, void *work, uint32_t v, bool own,
								   GrnNear *out);

/* Returns the bytes of a thread's workspace for exact lists. */
extern size_t grn_nearest_exact_bytes(const GrnNearest *n);
/*
 * Writes the nearest vertices of vertices [begin, begin + count), count <= GRN_NEAREST_BLOCK,
 * to out [count][k] and counts [count].  own [count]: whether a vertex is among its own
 * nearest.  Of equally near vertices the smaller ids are taken.
 */
extern void grn_nearest_exact(const GrnNearest *n, void *work, size_t begin, uint32_t count,
							  const bool *own, GrnNear *out, uint32_t *counts);

#endif							/* GRN_NEAREST_H */
