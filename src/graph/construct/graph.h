/*
 * graph.h - a graph of neighbour lists, and what makes one sound.
 */
#ifndef GRN_GRAPH_H
#define GRN_GRAPH_H

#include "graph/grn.h"

/* Adjacency: ids[i * degree .. + counts[i]), nearest first. */
typedef struct GrnGraph
{
	uint32_t   *ids;			/* [n][degree] */
	uint8_t    *counts;			/* [n] */
	uint32_t	n;
	uint32_t	degree;
} GrnGraph;

/* NULL when sound: counts <= degree, ids < n, no self, no duplicate; else what is wrong. */
extern const char *grn_graph_check(const GrnGraph *graph, uint32_t *bad_vertex);
/* The same for vertices [begin, end), so that threads can share the work. */
extern const char *grn_graph_check_range(const GrnGraph *graph, size_t begin, size_t end,
										 uint32_t *bad_vertex);

#endif							/* GRN_GRAPH_H */
