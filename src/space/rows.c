/*
 * rows.c - rows of a build as floats, and distances of rows that are not floats or not their
 * own places.
 */
#include "space/rows.h"

#include "memory/memory.h"
#include "space/form.h"

/* The most bytes between two rows that one request covers: a memory page, which has no gap. */
#define NEXT_BYTES 4096

size_t
grn_row_bytes(GrnForm form, GrnEmbedding embedding, uint32_t dim)
{
	size_t		bytes = grn_form_bytes(form, dim);

	if (grn_is_scaled(embedding))
		bytes = ((bytes + 1) & ~(size_t) 1) + sizeof(GrnScale);
	return (bytes + GRN_ROW_ALIGN - 1) / GRN_ROW_ALIGN * GRN_ROW_ALIGN;
}

void
grn_prefetch_rows(const GrnRows *rows, size_t begin, size_t end)
{
	const char *first = NULL;
	const char *last = NULL;	/* end of the current request */

	for (size_t i = begin; i < end; i++)
	{
		const char *row = grn_row(rows, i);

		if (first && (row < last || row > last + NEXT_BYTES))
		{
			grn_prefetch_pages(first, (size_t) (last - first));
			first = NULL;
		}
		first = first ? first : row;
		last = row + rows->row_bytes;
	}
	if (first)
		grn_prefetch_pages(first, (size_t) (last - first));
}

void
grn_row_place(const GrnRows *rows, const void *x, size_t from, size_t n, float *out)
{
	float		scale;

	grn_form_piece(rows->form, x, from, n, out);
	if (!grn_is_scaled(rows->embedding))
		return;
	scale = grn_row_scale(rows, x).scale;
	for (size_t i = 0; i < n; i++)
		out[i] *= scale;
}

float
grn_row_distance_of(const GrnRows *rows, const void *x, const void *y)
{
	GrnScale	a,
				b;
	float		d;

	if (grn_form(rows->form)->sparse)
	{
		grn_row_distances(rows, x, &y, 1, &d);
		return d;
	}
	if (!grn_is_scaled(rows->embedding))
		return grn_form_apart(rows->form, x, 1, y, 1, rows->dim);
	a = grn_row_scale(rows, x);
	b = grn_row_scale(rows, y);
	if (!grn_form_is_floats(rows->form))
		return grn_form_apart(rows->form, x, a.scale, y, b.scale, rows->dim);
	if (x == y)
		return 0;				/* exactly, whatever rounding would leave */
	d = (a.norm2 + b.norm2) - 2 * (a.scale * b.scale) * grn_dist->ip_f32(x, y, rows->dim);
	return d > 0 ? d : 0;
}

void
grn_row_distances(const GrnRows *rows, const void *x, const void *const *others, size_t n, float *out)
{
	bool		scaled = grn_is_scaled(rows->embedding);
	GrnScale	a;

	if (!grn_form(rows->form)->sparse)
	{
		for (size_t i = 0; i < n; i++)
			out[i] = grn_row_distance(rows, x, others[i]);
		return;
	}
	grn_sparse_many(x, others, n, rows->dim, rows->comparison, out);
	if (!scaled)
		return;
	a = grn_row_scale(rows, x);
	for (size_t i = 0; i < n; i++)
	{
		GrnScale	b = grn_row_scale(rows, others[i]);
		float		d = (a.norm2 + b.norm2) - 2 * (a.scale * b.scale) * -out[i];

		out[i] = d > 0 && others[i] != x ? d : 0;
	}
}

float
grn_row_to_point(const GrnRows *rows, const void *x, const float *point, float norm2)
{
	GrnScale	s;
	float		numbers[GRN_MAX_DIM];

	if (grn_form(rows->form)->sparse)
	{
		grn_row_place(rows, x, 0, rows->dim, numbers);
		return grn_dist->l2_f32(point, numbers, rows->dim);
	}
	if (!grn_is_scaled(rows->embedding))
		return grn_form_l2(rows->form, point, x, rows->dim);
	s = grn_row_scale(rows, x);
	return s.norm2 + norm2 - 2 * s.scale * grn_form_ip(rows->form, point, x, rows->dim);
}

GrnForm
grn_rows_form(uint32_t needed, GrnForm came)
{
	GrnForm		widest = GRN_FORM_WIDEST;
	bool		any = false;

	for (uint32_t id = 0; needed >> id != 0; id++)
		if (needed >> id & 1)
		{
			widest = any ? grn_form_wider(widest, (GrnForm) id) : (GrnForm) id;
			any = true;
		}
	/* Rows fit the form in which they came, whatever factor their heads have. */
	return grn_form_wider(widest, came) == widest ? came : widest;
}
