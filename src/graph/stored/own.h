/*
 * own.h - the own vector of a record: the row in the index's form (graph/form.h).
 *
 * The embeddings of many models lie far from the origin, and near to each other.  Few bits a
 * number (graph/rotated.h) would say more of where they all lie than of what tells them apart.
 * So an index of such a form may have a centre: its vectors are what is left of rows without it.
 */
#ifndef GRN_OWN_H
#define GRN_OWN_H

#include <string.h>

#include "graph/stored/record.h"

/* What all rows have in common, of forms with few bits a number. */
typedef struct GrnCentre
{
	const float *x;				/* [dim] */
	double		norm2;			/* |x|^2 */
	bool		products;		/* rows are compared by inner products, see own.c */
} GrnCentre;

/* Does a build of so many rows give own vectors of the form a centre?  Few rows say too little. */
static inline bool
grn_has_centre(GrnForm form, uint64_t rows)
{
	return grn_form(form)->rotated && rows >= 16;
}

/* Makes a centre of x [dim], which stays the caller's. */
extern void grn_centre_make(GrnCentre *centre, GrnComparison comparison, const float *x, uint32_t dim);

/* The row that a stored vector stands for, x: [dim]. */
extern void grn_own_load(const GrnLayout *l, const void *vec, float *x);
/*
 * The same, and a row x [dim], in a space where the forms of few bits are kept: rotated, and
 * without the centre.  Squared distances are the same there, and loading takes a fraction of the
 * time.
 */
extern void grn_own_load_turned(const GrnLayout *l, const void *vec, float *x);
extern void grn_own_turn(const GrnLayout *l, const float *x, float *out);
/* Its squared length; with a centre only where rows are compared by inner products. */
extern float grn_own_norm2(const GrnLayout *l, const void *vec);
/*
 * Makes a query q [dim] ready for grn_query_compare(), in grn_query_bytes() at an aligned address.
 * False: grn_compare() has to serve it.
 */
extern bool grn_own_query(const GrnLayout *l, const float *q, void *query);
/*
 * Of a query q [dim], the part that a stored vector's error counts by where rows are compared by
 * inner products, as a share of |q|.
 */
extern double grn_own_query_share(const GrnLayout *l, const float *q);

/* Writes an own vector [vec_bytes], of stored or else of x (GrnRecordSource); returns its error. */
extern float grn_own_store(const GrnLayout *l, const float *x, const void *stored, void *vec);

/*
 * Own vectors that are made before their records: each with its error behind it, in so many bytes,
 * a multiple of 4.
 */
static inline size_t
grn_own_item_bytes(GrnForm form, uint32_t dim)
{
	return ((grn_form_bytes(form, dim) + 3) & ~(size_t) 3) + sizeof(float);
}

/* For grn_own_item_make(): items of GRN_FORM_ROUNDED. */
extern GrnLayout grn_rounded_layout(uint32_t dim);
extern void grn_own_item_make(const GrnLayout *l, const float *x, void *item);
static inline float
grn_own_item_error(GrnForm form, uint32_t dim, const void *item)
{
	float		error;

	memcpy(&error, (const char *) item + grn_own_item_bytes(form, dim) - sizeof(float), sizeof(float));
	return error;
}

/*
 * How far rounding moved x to the stored vector, a little too large rather than too small: a
 * scan subtracts it for a lower bound.  The sum may overflow or vanish where x does not.
 */
extern float grn_own_error(const GrnLayout *l, const float *x, const void *vec);

#endif							/* GRN_OWN_H */
