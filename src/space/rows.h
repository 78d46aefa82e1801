/*
 * rows.h - the rows that a build's vertices stand for, in the form in which they were
 * collected, and distances between rows.
 *
 * Rows keep the form of the column's type (form.h): halves remain halves.  All other code
 * reads a row as floats, piece by piece or into a scratch array, or compares rows.
 */
#ifndef GRN_ROWS_H
#define GRN_ROWS_H

#include <string.h>

#include "space/form.h"
#include "space/kernels/dist.h"
#include "space/metric.h"
#include "space/space.h"

/* Row i is at base + order[i] * row_bytes, or base + i * row_bytes if order is NULL. */
typedef struct GrnRows
{
	const void *base;
	const uint32_t *order;
	size_t		n;
	size_t		row_bytes;		/* bytes between the starts of two rows, >= grn_row_bytes() */
	uint32_t	dim;
	GrnEmbedding embedding;		/* embedding of the rows in the space of the graph */
	GrnForm		form;
	GrnComparison comparison;	/* the metric's */
	bool		on_disk;		/* memory does not hold the rows; readers call grn_prefetch_rows()
								 * first */
} GrnRows;

/*
 * Whether lists are filled with the largest products, because places near each other need not have
 * large products.  (The products of sparse rows are the distances of their places.)
 */
static inline bool
grn_fills_by_products(GrnEmbedding embedding, GrnComparison comparison, GrnForm form)
{
	return grn_is_scaled(embedding) && grn_compares_products(comparison) && !grn_form(form)->sparse;
}

#define GRN_ROW_ALIGN 16		/* rows begin at multiples of GRN_ROW_ALIGN */

/* Returns the bytes of a row: the stored vector, and the GrnScale if the row is scaled. */
extern GRN_EXPORT size_t grn_row_bytes(GrnForm form, GrnEmbedding embedding, uint32_t dim);

static inline const void *
grn_row(const GrnRows *rows, size_t i)
{
	return (const uint8_t *) rows->base +
		(rows->order ? rows->order[i] : i) * rows->row_bytes;
}

/* Starts reading rows [begin, end) from the disk, by one request a run of adjacent rows. */
extern void grn_prefetch_rows(const GrnRows *rows, size_t begin, size_t end);

/* Returns the offset of a scaled row's GrnScale: even, as a device reads it there. */
static inline size_t
grn_row_scale_offset(const GrnRows *rows)
{
	return grn_form_is_floats(rows->form) ? rows->dim * sizeof(float)
		: (grn_form_bytes(rows->form, rows->dim) + 1) & ~(size_t) 1;
}

/* Returns the GrnScale of a scaled row, which leads from the row to its place. */
static inline GrnScale
grn_row_scale(const GrnRows *rows, const void *x)
{
	GrnScale	s;

	memcpy(&s, (const uint8_t *) x + grn_row_scale_offset(rows), sizeof(s));
	return s;
}

/* Returns row x as floats: the row itself, or scratch [dim] after conversion. */
static inline const float *
grn_row_values(const GrnRows *rows, const void *x, float *scratch)
{
	if (grn_form_is_floats(rows->form))
		return x;
	grn_form_load(rows->form, x, rows->dim, scratch);
	return scratch;
}

/* Returns row x as a query for stored vectors: floats, or the sparse row itself. */
static inline const float *
grn_row_query(const GrnRows *rows, const void *x, float *scratch)
{
	return grn_form(rows->form)->sparse ? x : grn_row_values(rows, x, scratch);
}

/* Writes coordinates [from, from + n) of the place of row x. */
extern void grn_row_place(const GrnRows *rows, const void *x, size_t from, size_t n, float *out);

/* grn_row_distance() for rows that are not floats, or scaled. */
extern float grn_row_distance_of(const GrnRows *rows, const void *x, const void *y);

/* Returns the squared distance of the places of rows x and y; the same for y and x. */
static inline float
grn_row_distance(const GrnRows *rows, const void *x, const void *y)
{
	if (grn_form_is_floats(rows->form) && !grn_is_scaled(rows->embedding))
		return grn_dist->l2_f32(x, y, rows->dim);
	return grn_row_distance_of(rows, x, y);
}

/* Writes to out [n] the distances of row x from other rows. */
extern void grn_row_distances(const GrnRows *rows, const void *x, const void *const *others, size_t n,
							  float *out);

/* Returns the squared distance of the place of row x and a point [dim] with |point|^2 = norm2. */
extern float grn_row_to_point(const GrnRows *rows, const void *x, const float *point, float norm2);

/*
 * Returns the smallest form that holds all rows.  came: the form in which the rows came.
 * needed: one bit for each GrnForm that a row needs (grn_form_smallest()).
 */
extern GRN_EXPORT GrnForm grn_rows_form(uint32_t needed, GrnForm came);

#endif							/* GRN_ROWS_H */
