/*
 * graph.h - a graph of neighbor lists, and the check that a graph is sound.
 */
#ifndef GRN_GRAPH_H
#define GRN_GRAPH_H

#include "space/grn.h"

/*
 * Adjacency lists: the neighbors of vertex v are ids[v * degree ..  + counts[v]), nearest first.
 */
typedef struct GrnGraph
{
	uint32_t   *ids;			/* [n][degree] */
	uint8_t    *counts;			/* [n] */
	uint32_t	n;
	uint32_t	degree;
} GrnGraph;

/*
 * Returns NULL if vertices [begin, end) are sound: counts <= degree, ids < n, no vertex is its own
 * neighbor, no neighbor is repeated.  Otherwise returns a description of the fault, and
 * *bad_vertex.  Threads can share the work.
 */
extern const char *grn_graph_check(const GrnGraph *graph, size_t begin, size_t end,
								   uint32_t *bad_vertex);

#endif							/* GRN_GRAPH_H */
