/*
 * own.h - the own vector of a record: the row in the index's form (space/form.h).
 *
 * The embeddings of many models lie far from the origin and near to each other.  In forms with few
 * bits a number (space/rotated.h), most bits would describe the common part of all rows and not
 * their differences.  So an index with such a form may have a center: the own vectors are rows
 * minus the center.
 */
#ifndef GRN_OWN_H
#define GRN_OWN_H

#include <string.h>

#include "store/record.h"

/* The center of own vectors in forms with few bits a number. */
typedef struct GrnCenter
{
	const float *x;				/* [dim] */
	double		norm2;			/* |x|^2 */
	bool		products;		/* rows are compared by inner products, see own.c */
} GrnCenter;

/* Does a build of `rows` rows have a center?  Fewer than 16 rows have no reliable mean. */
static inline bool
grn_has_center(GrnForm form, uint64_t rows)
{
	return grn_form(form)->rotated && rows >= 16;
}

/*
 * Gives a layout the center x [dim], described in *center.  The caller keeps both alive.  No center
 * is given if x is NULL, or for a form without centers.
 */
extern void grn_layout_set_center(GrnLayout *l, GrnCenter *center, GrnComparison comparison, const float *x);

/* Loads the row of a stored vector into x [dim]. */
extern void grn_own_load(const GrnLayout *l, const void *vec, float *x);
/*
 * Stored vectors and rows x [dim] in the space of forms with few bits: rotated, and without the
 * center.  Squared distances are equal in both spaces, and loading skips the inverse rotation,
 * which takes most of the time.
 */
extern void grn_own_load_turned(const GrnLayout *l, const void *vec, float *x);
extern void grn_own_turn(const GrnLayout *l, const float *x, float *out);
/* The squared length of the row.  With a center only if rows are compared by inner products. */
extern float grn_own_norm2(const GrnLayout *l, const void *vec);
/*
 * Prepares a query q [dim] for grn_query_compare(), in an aligned buffer of grn_query_bytes().
 * Returns false if the form has no prepared query; the caller must then use grn_compare().
 */
extern bool grn_own_query(const GrnLayout *l, const float *q, void *query);
/*
 * The length of q [dim] without its part along the center, as a share of |q|.  With inner products
 * the error of a stored vector counts in proportion to this length.
 */
extern double grn_own_query_share(const GrnLayout *l, const float *q);

/* Writes an own vector [vec_bytes] from x or `stored`.  Returns the rounding error. */
extern float grn_own_store(const GrnLayout *l, const float *x, const void *stored, void *vec);

/*
 * The distance of two places a, b [dim] in the space of the graph: squared L2.  Places of sparse
 * rows are the rows, compared by the metric; by inner product the distance is the negative product.
 */
typedef float (*GrnBetweenFn) (const float *a, const float *b, size_t dim);
extern GrnBetweenFn grn_between(GrnForm form, const GrnMetricInfo *metric);

/* Bytes of an own vector made before its record, with its error behind it; a multiple of 4. */
static inline size_t
grn_own_item_bytes(GrnForm form, uint32_t dim)
{
	return ((grn_form_bytes(form, dim) + 3) & ~(size_t) 3) + sizeof(float);
}

/* A layout of own vectors alone, without a center, for the functions of this file. */
extern GrnLayout grn_own_layout(GrnForm form, uint32_t dim);
extern void grn_own_item_make(const GrnLayout *l, const float *x, void *item);
static inline float
grn_own_item_error(GrnForm form, uint32_t dim, const void *item)
{
	float		error;

	memcpy(&error, (const char *) item + grn_own_item_bytes(form, dim) - sizeof(float), sizeof(float));
	return error;
}

/*
 * The distance of x and its stored vector, rounded up: a scan subtracts the error to get a lower
 * bound.  The sum of squares may overflow or vanish for finite x.
 */
extern float grn_own_error(const GrnLayout *l, const float *x, const void *vec);

#endif							/* GRN_OWN_H */
