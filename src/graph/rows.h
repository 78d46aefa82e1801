/*
 * rows.h - the rows that a build's vertices are, in whichever form they were collected, and
 * distances between them.
 *
 * Rows keep the form of the column's type (form.h): halves stay halves.  Nothing else looks
 * into a row: it is read as floats, piece by piece or into the caller's scratch, or compared.
 */
#ifndef GRN_ROWS_H
#define GRN_ROWS_H

#include "graph/form.h"
#include "graph/kernels/dist.h"
#include "graph/metric.h"
#include "graph/space.h"

#include <string.h>

/* Row i is base + order[i] * row_bytes (order NULL: i itself). */
typedef struct GrnRows
{
	const void *base;
	const uint32_t *order;
	size_t		n;
	size_t		row_bytes;		/* from row to row, >= grn_row_bytes() */
	uint32_t	dim;
	GrnEmbedding embedding;		/* of rows in the space of the graph */
	GrnForm		form;
	bool		on_disk;		/* memory does not hold them: who reads them asks for them before */
} GrnRows;

#define GRN_ROW_ALIGN 16		/* rows begin at multiples of it */

/* Bytes of a row: its stored vector, then its GrnScale where it is scaled. */
extern size_t grn_row_bytes(GrnForm form, GrnEmbedding embedding, uint32_t dim);

static inline const void *
grn_row(const GrnRows *rows, size_t i)
{
	return (const uint8_t *) rows->base +
		(rows->order ? rows->order[i] : i) * rows->row_bytes;
}

/*
 * Asks for rows [begin, end), which are on a disk and going to be read: in stretches, as far as
 * they lie together.
 */
extern void grn_rows_ahead(const GrnRows *rows, size_t begin, size_t end);

/* Where a scaled row has its GrnScale: at an even byte, for a device that reads it there. */
static inline size_t
grn_row_scale_offset(const GrnRows *rows)
{
	return grn_form_is_floats(rows->form) ? rows->dim * sizeof(float)
		: (grn_form_bytes(rows->form, rows->dim) + 1) & ~(size_t) 1;
}

/* What takes row x to its place in the space; of scaled rows alone. */
static inline GrnScale
grn_row_scale(const GrnRows *rows, const void *x)
{
	GrnScale	s;

	memcpy(&s, (const uint8_t *) x + grn_row_scale_offset(rows), sizeof(s));
	return s;
}

/* Row x as floats: the row itself, or scratch [dim] that they were written to. */
static inline const float *
grn_row_values(const GrnRows *rows, const void *x, float *scratch)
{
	if (grn_form_is_floats(rows->form))
		return x;
	grn_form_load(rows->form, x, rows->dim, scratch);
	return scratch;
}

/* Coordinates [from, from + n) of the place of row x. */
extern void grn_row_place(const GrnRows *rows, const void *x, size_t from, size_t n, float *out);

/* What follows is for rows that are not floats, or scaled. */
extern float grn_row_distance_of(const GrnRows *rows, const void *x, const void *y);

/* Squared distance in the space of rows x and y; the same for y and x. */
static inline float
grn_row_distance(const GrnRows *rows, const void *x, const void *y)
{
	if (grn_form_is_floats(rows->form) && !grn_is_scaled(rows->embedding))
		return grn_dist->l2_f32(x, y, rows->dim);
	return grn_row_distance_of(rows, x, y);
}

/* Squared distance in the space of row x and a point [dim], whose |point|^2 is norm2. */
extern float grn_row_to_point(const GrnRows *rows, const void *x, const float *point, float norm2);

/*
 * The smallest form that holds all rows that came in a form.  needed: a bit for each GrnForm that
 * some row needs (grn_form_smallest()).
 */
extern GrnForm grn_rows_form(uint32_t needed, GrnForm came);

#endif							/* GRN_ROWS_H */
