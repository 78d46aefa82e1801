/*
 * value_edges.c - edges between vertices that share a frequent value of a filter column.
 */
#include "graph/build/value_edges.h"

#include "graph/stored/prune.h"

#define STAYING 6				/* nearest neighbours that never give way */

static bool
shares_value(const GrnRows *rows, const GrnValues *values, uint32_t a, uint32_t b)
{
	for (uint32_t c = 0; c < values->columns; c++)
	{
		uint8_t		value = grn_value(values, rows, c, a);

		if (value != 0 && grn_value(values, rows, c, b) == value)
			return true;
	}
	return false;
}

uint32_t
grn_sharing(const GrnRows *rows, const GrnValues *values, uint32_t column, const GrnGraph *graph,
			uint32_t vertex)
{
	const uint32_t *ids = graph->ids + (size_t) vertex * graph->degree;
	uint8_t		value = grn_value(values, rows, column, vertex);
	uint32_t	sharing = 0;

	for (uint32_t i = 0; i < graph->counts[vertex]; i++)
		sharing += grn_value(values, rows, column, ids[i]) == value;
	return sharing;
}

void
grn_add_value_edges(const GrnRows *rows, const GrnValues *values, uint32_t column, GrnGraph *graph,
					uint32_t vertex, const uint32_t *near, uint32_t n, uint32_t most)
{
	uint32_t   *ids = graph->ids + (size_t) vertex * graph->degree;
	uint32_t	count = graph->counts[vertex];
	uint32_t	last = count;	/* neighbours from here on have been looked at: they stay */
	uint32_t	enough = grn_enough_sharing(graph->degree);
	uint32_t	sharing = grn_sharing(rows, values, column, graph, vertex);
	uint32_t	added = 0;
	uint32_t	places[GRN_MAX_DEGREE]; /* of those that give way, from the end on, */
	uint32_t	replacing[GRN_MAX_DEGREE];	/* and what comes there */
	uint32_t	nplaces = 0;

	for (uint32_t i = 0; i < n && added < most && sharing < enough; i++)
	{
		if (grn_find_id(ids, count, near[i]) >= 0)
			continue;
		if (count == graph->degree)
		{
			while (last > STAYING && shares_value(rows, values, vertex, ids[last - 1]))
				last--;
			if (last <= STAYING)
				break;
			places[nplaces] = --last;
			replacing[nplaces++] = near[i];
		}
		else
			ids[count++] = near[i];
		added++;
		sharing++;
	}
	/* the nearest comes foremost */
	for (uint32_t i = 0; i < nplaces; i++)
		ids[places[nplaces - 1 - i]] = replacing[i];
	graph->counts[vertex] = (uint8_t) count;
}
