/*
 * merge.c - makes one graph of the lists of the parts' graphs.
 */
#include "graph/merge.h"

#include <string.h>

#include "memory/file_pages.h"

#define GRAIN 256
#define DISK_GRAIN 64			/* rows of a work item if rows are on a disk: memory must hold
								 * their neighbors */

/* Slots of the table of pages that were prefetched lately, by page number. */
#define PREFETCHED 4096
#define PAGE_BYTES 4096			/* bytes of a page on most machines */
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
	bool		on_disk;
} Merge;

/* Tells the kernel which bytes are read next, unless the kernel was told of their pages lately. */
static void
prefetch_bytes(uintptr_t * prefetched, const void *base, size_t bytes)
{
	uintptr_t	first = (uintptr_t) base / PAGE_BYTES;
	uintptr_t	last = ((uintptr_t) base + bytes - 1) / PAGE_BYTES;

	if (prefetched[first % PREFETCHED] == first && prefetched[last % PREFETCHED] == last)
		return;
	prefetched[first % PREFETCHED] = first;
	prefetched[last % PREFETCHED] = last;
	grn_prefetch_pages(base, bytes);
}

/* Prefetches a list, or the rows that a list names. */
static void
prefetch_list(const Merge *m, uintptr_t * prefetched, uint32_t position, bool rows)
{
	const uint32_t *list = m->lists + (size_t) position * m->graph->degree;

	if (position == GRN_INVALID_ID)
		return;
	if (!rows)
		prefetch_bytes(prefetched, list, m->graph->degree * sizeof(uint32_t));
	for (uint32_t i = 0; rows && i < m->graph->degree && list[i] != GRN_INVALID_ID; i++)
		prefetch_bytes(prefetched, grn_row(m->tile->rows, list[i]), m->tile->rows->row_bytes);
}

/*
 * Prefetches the lists of rows [begin, end) and the rows that these lists name, so that the
 * disk can read many pages at once.
 */
static void
prefetch_rows(const Merge *m, size_t begin, size_t end)
{
	uintptr_t	prefetched[PREFETCHED] = {0};

	for (int rows = 0; rows < 2; rows++)
		for (size_t v = begin; v < end; v++)
		{
			prefetch_list(m, prefetched, m->parts->home[v], rows);
			prefetch_list(m, prefetched, m->parts->guest[v], rows);
		}
}

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
	if (m->on_disk)
		prefetch_rows(m, begin, end);
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
