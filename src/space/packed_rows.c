/*
 * packed_rows.c - packs rows of a build for the network; see rows.h.
 */
#include "space/rows.h"

#include <string.h>

bool
grn_may_pack(const GrnRows *rows, uint32_t form)
{
	const GrnFormInfo *info = grn_form(form);

	/* A short form with a head may take more bytes for few dimensions. */
	return form == (uint32_t) rows->form ||
		(grn_form_is_floats(rows->form) && info != NULL && info->holds != NULL && !info->rotated &&
		 grn_form_bytes((GrnForm) form, rows->dim) <= rows->row_bytes);
}

GrnForm
grn_pack_form(const GrnRows *rows, size_t first, size_t n)
{
	GrnForm		form = rows->form;

	if (!grn_form_is_floats(form))
		return form;
	for (size_t i = 0; i < n; i++)
	{
		GrnForm		least = grn_form_smallest(grn_row(rows, first + i), rows->dim);

		form = i == 0 ? least : grn_form_wider(form, least);
		/* No shorter form holds all rows. */
		if (form == rows->form)
			break;
	}
	return grn_may_pack(rows, form) ? form : rows->form;
}

void
grn_pack(const GrnRows *rows, GrnForm form, size_t first, size_t n, void *out)
{
	size_t		bytes = grn_form_bytes(form, rows->dim);
	uint8_t    *to = out;

	if (form == rows->form && bytes == rows->row_bytes && !rows->order)
	{
		memcpy(to, grn_row(rows, first), n * bytes);
		return;
	}
	for (size_t i = 0; i < n; i++, to += bytes)
	{
		const void *row = grn_row(rows, first + i);

		if (form == rows->form)
			memcpy(to, row, bytes);
		else
			grn_form_store(form, row, rows->dim, to);
	}
}

void
grn_unpack(const GrnRows *rows, GrnForm form, size_t first, size_t n)
{
	size_t		bytes = grn_form_bytes(form, rows->dim);
	size_t		used = grn_form_bytes(rows->form, rows->dim);
	uint8_t    *to = (uint8_t *) rows->base + first * rows->row_bytes;
	const uint8_t *from = (const uint8_t *) rows->base + grn_packed_offset(rows, form, first, n);
	float		x[GRN_MOST_DIMS];

	if (form == rows->form && bytes == rows->row_bytes)
		return;
	for (size_t i = 0; i < n; i++, from += bytes, to += rows->row_bytes)
	{
		if (form == rows->form)
			memmove(to, from, bytes);
		else
		{
			/* The last rows overlap with their own packed numbers. */
			grn_form_load(form, from, rows->dim, x);
			memcpy(to, x, used);
		}
		memset(to + used, 0, rows->row_bytes - used);
	}
}
