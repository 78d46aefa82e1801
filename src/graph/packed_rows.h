/*
 * packed_rows.h - rows of a build on their way to another host: without gaps between them, and in
 * a form that may be shorter than theirs.
 */
#ifndef GRN_PACKED_ROWS_H
#define GRN_PACKED_ROWS_H

#include "graph/rows.h"

/* Whether rows may be packed in that form, a number from elsewhere: it takes no more bytes. */
extern bool grn_may_pack(const GrnRows *rows, uint32_t form);
/* The shortest form in which rows [first, first + n) lose nothing. */
extern GrnForm grn_pack_form(const GrnRows *rows, size_t first, size_t n);
/* Writes these rows in a form that may be: [n] of grn_form_bytes(). */
extern void grn_pack(const GrnRows *rows, GrnForm form, size_t first, size_t n, void *out);

/*
 * Rows [first, first + n) are unpacked where they are to lie.  Packed, they lie at the end of that
 * place: so many bytes behind rows->base.
 */
static inline size_t
grn_packed_offset(const GrnRows *rows, GrnForm form, size_t first, size_t n)
{
	return (first + n) * rows->row_bytes - n * grn_form_bytes(form, rows->dim);
}

/* Unpacks them, first to last: none is overwritten before its turn.  Their rest becomes zero. */
extern void grn_unpack(const GrnRows *rows, GrnForm form, size_t first, size_t n);

#endif							/* GRN_PACKED_ROWS_H */
