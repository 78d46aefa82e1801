/*
 * tile.h - distances from one row to a few others, as ordered 32-bit integers:
 * the inner loop of the CPU build.
 *
 * A distance is either the bits of a non-negative float (whose order is that
 * of the integers) or an exact integer.  Whatever pair asks, the same two rows
 * give the same bits, so equal keys are duplicates.
 */
#ifndef GRN_TILE_H
#define GRN_TILE_H

#include "rnnd.h"

typedef struct GrnTile
{
	const GrnRows *rows;		/* where bytes is NULL */
	const uint8_t *bytes;		/* [n][byte_stride]: rows as integers 0..255 */
	const int32_t *terms;		/* [n][2], see grn_tile_bytes_prepare() */
	size_t		byte_stride;	/* multiple of 64, zero padded */
	void		(*dists) (const struct GrnTile *tile, uint32_t from,
						  const uint32_t *to, uint32_t count, uint32_t *out);
} GrnTile;

/* Distances of the rows themselves, in 32-bit floats. */
extern void grn_tile_floats(GrnTile *tile, const GrnRows *rows);

/* True where every value of rows [begin, end) is an integer of 0..255. */
extern bool grn_tile_is_bytes(const GrnRows *rows, size_t begin, size_t end);

static inline size_t
grn_tile_byte_stride(uint32_t dim)
{
	return ((size_t) dim + 63) & ~(size_t) 63;
}

/*
 * Distances of rows that are integers 0..255: exact.  The caller fills bytes and
 * terms by grn_tile_bytes_prepare() for every row.
 */
extern void grn_tile_bytes(GrnTile *tile, const uint8_t *bytes, const int32_t *terms,
						   size_t byte_stride);
extern void grn_tile_bytes_prepare(const float *x, uint32_t dim, size_t byte_stride,
								   uint8_t *bytes, int32_t *terms);

/* Asks for the row's cache lines. */
static inline void
grn_tile_prefetch(const GrnTile *tile, uint32_t id)
{
	const char *p;
	size_t		bytes;

	if (tile->bytes)
	{
		p = (const char *) tile->bytes + (size_t) id * tile->byte_stride;
		bytes = tile->byte_stride;
		__builtin_prefetch(tile->terms + 2 * (size_t) id);
	}
	else
	{
		p = (const char *) grn_row(tile->rows, id);
		bytes = 4 * (size_t) tile->rows->dim;
	}
	/* what lies further the processor's own prefetcher finds */
	if (bytes > 512)
		bytes = 512;
	for (size_t i = 0; i < bytes; i += 64)
		__builtin_prefetch(p + i);
}

#endif							/* GRN_TILE_H */
