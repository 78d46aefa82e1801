/*
 * tile.h - distances from one row to a panel of rows: the inner loop of the CPU build.
 *
 * A distance is an ordered 32-bit integer: either the bits of a non-negative float (whose
 * order is the order of the integers) or an exact integer.  The distance of two rows does not
 * depend on which of the two is in the panel, so equal keys are duplicates.
 */
#ifndef GRN_TILE_H
#define GRN_TILE_H

#include "space/rows.h"

#define GRN_PANEL_ROWS GRN_MAX_DEGREE

/* Rows to compare with, gathered one by one. */
typedef struct GrnPanel
{
	uint32_t	count;
	uint32_t	ids[GRN_PANEL_ROWS];
	const void *rows[GRN_PANEL_ROWS];
	int32_t		terms[GRN_PANEL_ROWS];	/* for rows of bytes: |x|^2 + 256 sum x */
} GrnPanel;

typedef struct GrnTile
{
	const GrnRows *rows;		/* used if bytes is NULL */
	const int8_t *bytes;		/* [n][stride] rows in signed bytes */
	const int32_t *terms;		/* [n][2]: |x|^2 and |x|^2 + 256 sum x */
	size_t		stride;			/* bytes of a row: a multiple of 64, padded with zeros */
	/*
	 * Computes the distances from row to the panel's rows.  row: a row of this tile or of a
	 * tile of the same kind.  term: the row's first term.  out: [panel->count + 3].
	 */
	void		(*dists) (const struct GrnTile *tile, const void *row, int32_t term,
						  const GrnPanel *panel, uint32_t *out);
} GrnTile;

/* Makes a tile of the rows themselves.  Distances are 32-bit floats. */
extern void grn_tile_floats(GrnTile *tile, const GrnRows *rows);

/* Makes a tile of rows in signed bytes.  Distances are exact for the bytes. */
extern void grn_tile_bytes(GrnTile *tile, const int8_t *bytes, const int32_t *terms,
						   size_t stride);

/* Computes the two terms of a row of bytes. */
extern void grn_tile_terms(const int8_t *x, size_t stride, int32_t *terms);

static inline size_t
grn_tile_stride(uint32_t dim)
{
	return ((size_t) dim + 63) & ~(size_t) 63;
}

static inline const void *
grn_tile_row(const GrnTile *tile, uint32_t id)
{
	return tile->bytes ? tile->bytes + id * tile->stride : grn_row(tile->rows, id);
}

/* Computes the distances from row id to the panel's rows.  out: [panel->count + 3]. */
static inline void
grn_tile_dists(const GrnTile *tile, uint32_t id, const GrnPanel *panel, uint32_t *out)
{
	tile->dists(tile, grn_tile_row(tile, id),
				tile->bytes ? tile->terms[2 * (size_t) id] : 0, panel, out);
}

static inline void
grn_panel_add(GrnPanel *panel, const GrnTile *tile, uint32_t id)
{
	panel->ids[panel->count] = id;
	panel->rows[panel->count] = grn_tile_row(tile, id);
	panel->terms[panel->count] = tile->bytes ? tile->terms[2 * (size_t) id + 1] : 0;
	panel->count++;
}

/* Prefetches the row's cache lines. */
static inline void
grn_tile_prefetch(const GrnTile *tile, uint32_t id)
{
	const char *p = grn_tile_row(tile, id);
	size_t		bytes = tile->bytes ? tile->stride : tile->rows->row_bytes;

	if (tile->bytes)
		__builtin_prefetch(tile->terms + 2 * (size_t) id);
	/* The processor's own prefetcher finds further lines. */
	if (bytes > 512)
		bytes = 512;
	for (size_t i = 0; i < bytes; i += 64)
		__builtin_prefetch(p + i);
}

/*
 * Sorts keys of neighbors: the distance in the upper bits, the row's name below.  Insertion
 * sort suits lists as short as a pool.
 */
static inline void
grn_sort_few_keys(uint64_t *keys, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
	{
		uint64_t	key = keys[i];
		uint32_t	j = i;

		for (; j > 0 && keys[j - 1] > key; j--)
			keys[j] = keys[j - 1];
		keys[j] = key;
	}
}

/* Sorts keys and drops repeated keys.  Returns the number of remaining keys. */
static inline uint32_t
grn_sort_distinct(uint64_t *keys, uint32_t count)
{
	uint32_t	n = 0;

	grn_sort_few_keys(keys, count);
	for (uint32_t i = 0; i < count; i++)
		if (n == 0 || keys[n - 1] != keys[i])
			keys[n++] = keys[i];
	return n;
}

#endif							/* GRN_TILE_H */
