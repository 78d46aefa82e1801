/*
 * graph.c - what makes a graph sound.
 */
#include "graph/build/graph.h"

const char *
grn_graph_check(const GrnGraph *graph, uint32_t *bad_vertex)
{
	return grn_graph_check_range(graph, 0, graph->n, bad_vertex);
}

const char *
grn_graph_check_range(const GrnGraph *graph, size_t begin, size_t end,
					  uint32_t *bad_vertex)
{
	for (size_t v = begin; v < end; v++)
	{
		const uint32_t *ids = graph->ids + v * graph->degree;
		uint32_t	count = graph->counts[v];

		*bad_vertex = (uint32_t) v;
		if (count > graph->degree)
			return "more neighbours than its degree allows";
		for (uint32_t i = 0; i < count; i++)
		{
			bool		again = false;

			if (ids[i] >= graph->n)
				return "a neighbour that does not exist";
			if (ids[i] == v)
				return "itself as a neighbour";
			for (uint32_t j = 0; j < i; j++)
				again |= ids[j] == ids[i];
			if (again)
				return "the same neighbour twice";
		}
	}
	return NULL;
}
