/*
 * packed_rows.h - packs rows of a build for transfer to another host: without gaps, and in a
 * form that may be shorter.
 */
#ifndef GRN_PACKED_ROWS_H
#define GRN_PACKED_ROWS_H

#include "space/rows.h"

/* Whether a form, a number from elsewhere, packs rows into no more bytes. */
extern GRN_EXPORT bool grn_may_pack(const GrnRows *rows, uint32_t form);
/* Returns the shortest form that holds rows [first, first + n) exactly. */
extern GrnForm grn_pack_form(const GrnRows *rows, size_t first, size_t n);
/* Packs rows [first, first + n) in a form of grn_may_pack(): out [n] of grn_form_bytes(). */
extern void grn_pack(const GrnRows *rows, GrnForm form, size_t first, size_t n, void *out);

/*
 * Rows [first, first + n) are unpacked in place.  Returns the offset from rows->base at which
 * the packed rows must be: at the end of the unpacked rows' memory.
 */
static inline size_t
grn_packed_offset(const GrnRows *rows, GrnForm form, size_t first, size_t n)
{
	return (first + n) * rows->row_bytes - n * grn_form_bytes(form, rows->dim);
}

/*
 * Unpacks the rows from first to last, so that no packed row is overwritten before its turn.
 * The rest of each row becomes zero.
 */
extern void grn_unpack(const GrnRows *rows, GrnForm form, size_t first, size_t n);

#endif							/* GRN_PACKED_ROWS_H */
