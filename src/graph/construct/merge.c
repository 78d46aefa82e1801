/*
 * merge.c - one graph from the lists of parts' graphs.
 */
#include "graph/construct/merge.h"

#include <string.h>

#include "graph/file_pages.h"

#define GRAIN 256
#define DISK_GRAIN 64			/* where rows lie on a disk: memory has to hold their neighbours */

/* Pages that have just been asked for, by their numbers. */
#define ASKED 4096
#define PAGE_BYTES 4096			/* of most machines */
#define MAX_CANDIDATES (2 * GRN_MAX_DEGREE)

/* A neighbour to be: distance (tile.h) above its row. */
#define KEY(distance, row) ((uint64_t) (distance) << 32 | (row))
#define KEY_ROW(key) ((uint32_t) (key))
#define KEY_DISTANCE(key) ((uint32_t) ((key) >> 32))

typedef struct Merge
{
	const GrnTile *tile;
	const GrnParts *parts;
	const uint32_t *lists;
	GrnGraph   *graph;
	bool		on_disk;
} Merge;

/* Asks for bytes that are going to be read, if their pages have not just been asked for. */
static void
ask(uintptr_t * asked, const void *base, size_t bytes)
{
	uintptr_t	first = (uintptr_t) base / PAGE_BYTES;
	uintptr_t	last = ((uintptr_t) base + bytes - 1) / PAGE_BYTES;

	if (asked[first % ASKED] == first && asked[last % ASKED] == last)
		return;
	asked[first % ASKED] = first;
	asked[last % ASKED] = last;
	grn_pages_ahead(base, bytes);
}

/* Asks for a list, or for the rows that it names. */
static void
ask_for_list(const Merge *m, uintptr_t * asked, uint32_t position, bool rows)
{
	const uint32_t *list = m->lists + (size_t) position * m->graph->degree;

	if (position == GRN_INVALID_ID)
		return;
	if (!rows)
		ask(asked, list, m->graph->degree * sizeof(uint32_t));
	for (uint32_t i = 0; rows && i < m->graph->degree && list[i] != GRN_INVALID_ID; i++)
		ask(asked, grn_row(m->tile->rows, list[i]), m->tile->rows->row_bytes);
}

/* Asks for all that rows [begin, end) are merged from, so that the disk brings much at once. */
static void
ask_ahead(const Merge *m, size_t begin, size_t end)
{
	uintptr_t	asked[ASKED] = {0};

	for (int rows = 0; rows < 2; rows++)
		for (size_t v = begin; v < end; v++)
		{
			ask_for_list(m, asked, m->parts->home[v], rows);
			ask_for_list(m, asked, m->parts->guest[v], rows);
		}
}

/* Appends the keys of one part's list of row v. */
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
	if (m->on_disk)
		ask_ahead(m, begin, end);
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
	Merge		m = {.tile = tile, .parts = parts, .lists = lists, .graph = graph,
		.on_disk = tile->bytes == NULL && tile->rows->on_disk};

	parallel->run(parallel, graph->n, m.on_disk ? DISK_GRAIN : GRAIN, merge_range, &m);
}
