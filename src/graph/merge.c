/*
 * merge.c - makes one graph of the lists of the parts' graphs.
 */
#include "graph/cut.h"

#include <string.h>

#define MAX_CANDIDATES (2 * GRN_MAX_DEGREE)

/* A candidate: distance (tile.h), then row. */
#define KEY(distance, row) ((uint64_t) (distance) << 32 | (row))
#define KEY_ROW(key) ((uint32_t) (key))
#define KEY_DISTANCE(key) ((uint32_t) ((key) >> 32))

typedef struct Merge
{
	const GrnTile *tile;
	const GrnParts *parts;
	const uint32_t *lists;
	GrnGraph   *graph;
} Merge;

/* Appends the keys of one part's list of row v.  Returns the new count. */
static uint32_t
take_list(const Merge *m, uint32_t v, const uint32_t *list, uint64_t *keys, uint32_t count)
{
	uint32_t	distances[GRN_PANEL_ROWS + 3];
	GrnPanel	panel;

	panel.count = 0;
	while (panel.count < m->graph->degree && list[panel.count] != GRN_INVALID_ID)
		grn_panel_add(&panel, m->tile, list[panel.count]);
	if (panel.count == 0)
		return count;
	grn_tile_dists(m->tile, v, &panel, distances);
	for (uint32_t i = 0; i < panel.count; i++)
		keys[count++] = KEY(distances[i], list[i]);
	return count;
}

static void
merge_range(void *arg, int worker, size_t begin, size_t end)
{
	Merge	   *m = arg;
	uint32_t	degree = m->graph->degree;

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		uint32_t   *ids = m->graph->ids + v * degree;
		uint64_t	keys[MAX_CANDIDATES];
		uint64_t	kept[GRN_MAX_DEGREE];
		uint32_t	distances[GRN_PANEL_ROWS + 3];
		uint32_t	count;
		uint32_t	nkept = 0;
		uint32_t	nrefused = 0;
		GrnPanel	panel;

		count = take_list(m, (uint32_t) v, m->lists + (size_t) m->parts->home[v] * degree, keys, 0);
		if (m->parts->guest[v] != GRN_INVALID_ID)
			count = take_list(m, (uint32_t) v, m->lists + (size_t) m->parts->guest[v] * degree,
							  keys, count);
		count = grn_sort_distinct(keys, count);
		panel.count = 0;
		for (uint32_t i = 0; i < count && nkept < degree; i++)
		{
			bool		refused = false;

			if (nkept > 0)
				grn_tile_dists(m->tile, KEY_ROW(keys[i]), &panel, distances);
			for (uint32_t j = 0; j < nkept && !refused; j++)
				refused = distances[j] <= KEY_DISTANCE(keys[i]);
			if (refused)
			{
				keys[nrefused++] = keys[i];
				continue;
			}
			grn_panel_add(&panel, m->tile, KEY_ROW(keys[i]));
			kept[nkept++] = keys[i];
		}
		for (uint32_t i = 0; i < nrefused && nkept < degree; i++)
			kept[nkept++] = keys[i];
		grn_sort_few_keys(kept, nkept);
		for (uint32_t i = 0; i < nkept; i++)
			ids[i] = KEY_ROW(kept[i]);
		m->graph->counts[v] = (uint8_t) nkept;
	}
}

void
grn_parts_merge(const GrnTile *tile, const GrnParts *parts, const uint32_t *lists, GrnParallel *parallel,
				GrnGraph *graph)
{
	Merge		m = {.tile = tile, .parts = parts, .lists = lists, .graph = graph};

	parallel->run(parallel, graph->n, GRN_GRAIN, merge_range, &m);
}
