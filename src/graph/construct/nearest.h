/*
 * nearest.h - the nearest vertices of every vertex, as the metric compares rows: by a search of
 * the graph that begins at the vertex, or exactly, by comparing all with all.
 *
 * A vertex is among its own nearest where that is asked for, since it may stand for several rows.
 */
#ifndef GRN_NEAREST_H
#define GRN_NEAREST_H

#include "graph/construct/graph.h"
#include "graph/rows.h"

/* Vertices that grn_nearest_exact() takes at once. */
#define GRN_NEAREST_BLOCK 64

typedef struct GrnNear
{
	uint32_t	id;
	float		compared;		/* by the metric's comparison */
} GrnNear;

typedef struct GrnNearest
{
	const GrnRows *rows;		/* the vertices */
	GrnComparison comparison;
	uint32_t	k;				/* longest list wanted */
	/* of searches alone */
	const GrnGraph *graph;
	uint32_t	ef;				/* candidates that are kept, >= k */
	const uint32_t *entries;	/* where a search goes on from if few are near the vertex */
	uint32_t	nentries;
} GrnNearest;

/* Bytes of a thread's workspace for searches, which is zeroed before the first and then kept. */
extern size_t grn_nearest_search_bytes(const GrnNearest *n);
/* Of vertex v: out [k], nearest first; returns how many there are.  own: v counts, too. */
extern uint32_t grn_nearest_search(const GrnNearest *n, void *work, uint32_t v, bool own,
								   GrnNear *out);

/* Bytes of a thread's workspace for exact lists. */
extern size_t grn_nearest_exact_bytes(const GrnNearest *n);
/*
 * Of vertices [begin, begin + count), count <= GRN_NEAREST_BLOCK: out [count][k], counts [count];
 * own [count].  Of equally near ones those of smaller ids are taken.
 */
extern void grn_nearest_exact(const GrnNearest *n, void *work, size_t begin, uint32_t count,
							  const bool *own, GrnNear *out, uint32_t *counts);

#endif							/* GRN_NEAREST_H */
