/*
 * value_graph.h - the graph of the vertices that have a frequent value, made on cores from the
 * graph of all vertices.
 *
 * A GPU builds such graphs as it builds that of all (RNN-Descent).  Cores would take a fifth of the
 * build's time for it.  But the graph of all is there already, and so are codes.
 */
#ifndef GRN_VALUE_GRAPH_H
#define GRN_VALUE_GRAPH_H

#include "graph/build/graph.h"
#include "graph/build/value_edges.h"
#include "graph/stored/codec.h"

#define GRN_MEMBER_DEGREE 16	/* as many as a vertex may take of such a graph, about */

typedef struct GrnValueGraph
{
	const GrnGraph *all;
	const GrnRows *rows;
	const GrnValues *values;
	uint32_t	column;
	const uint32_t *members;	/* [graph.n] vertices with the value, ascending */
	const GrnCodec *codec;
	const uint8_t *codes;		/* [all->n] of code bytes */
	const GrnFactor *factors;	/* [all->n] */
	GrnGraph	graph;			/* of GRN_MEMBER_DEGREE, by positions of members */
} GrnValueGraph;

/*
 * Fills g->graph.  A member's neighbours are chosen by the RNG rule, by codes, among its neighbours
 * in the graph of all and theirs that have the value, and among members that have chosen it.
 */
extern void grn_value_graph(GrnValueGraph *g, GrnParallel *parallel);

#endif							/* GRN_VALUE_GRAPH_H */
