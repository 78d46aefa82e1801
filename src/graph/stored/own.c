/*
 * own.c - own vectors of records.
 *
 * With a centre c the stored vector s is near x - c, and e, what it lacks of that, is across it.
 * Squared distances are those of s and q - c.  Of an inner product
 *   <q, x> = <q, c> + <q - c, x - c> + <c, x - c>
 * the last part is kept exactly, in the head instead of |s|^2.  So e counts by its part along
 * q - c, which is a fraction of q where all lie far from the origin.
 */
#include "graph/stored/own.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "graph/rotated.h"

/* ---- the centre ---- */

void
grn_centre_make(GrnCentre *centre, GrnComparison comparison, const float *x, uint32_t dim)
{
	centre->x = x;
	centre->norm2 = grn_dist->ip_f32(x, x, dim);
	centre->products = grn_compares_products(comparison);
}

/* x without the centre, if there is one: x itself or out [dim]. */
static const float *
without_centre(const GrnLayout *l, const float *x, float *out)
{
	if (l->centre == NULL)
		return x;
	for (uint32_t j = 0; j < l->dim; j++)
		out[j] = x[j] - l->centre->x[j];
	return out;
}

/* <c, x - c> of a stored vector, where it is kept. */
static float
centre_product(const void *vec)
{
	GrnRotatedHead head;

	memcpy(&head, vec, sizeof(head));
	return head.norm2;
}

/* ---- stored vectors ---- */

void
grn_own_load(const GrnLayout *l, const void *vec, float *x)
{
	grn_form_load(l->form, vec, l->dim, x);
	for (uint32_t j = 0; l->centre != NULL && j < l->dim; j++)
		x[j] += l->centre->x[j];
}

float
grn_own_norm2(const GrnLayout *l, const void *vec)
{
	float		row[GRN_MAX_DIM];
	float		norm2;

	if (l->centre == NULL)
		return grn_form_norm2(l->form, vec, l->dim);
	if (!l->centre->products)
	{
		grn_own_load(l, vec, row);
		return grn_dist->ip_f32(row, row, l->dim);
	}
	norm2 = grn_rotated_levels_norm2(grn_form(l->form)->bits, vec, l->dim) +
		2 * centre_product(vec) + l->centre->norm2;
	return norm2 > 0 ? norm2 : 0;
}

bool
grn_own_query(const GrnLayout *l, GrnComparison comparison, const float *q, void *query)
{
	float		rest[GRN_MAX_DIM];

	if (!grn_query_make(l->form, without_centre(l, q, rest), l->dim, query))
		return false;
	if (l->centre != NULL && grn_compares_products(comparison))
		grn_rotated_raise(query, grn_dist->ip_f32(q, l->centre->x, l->dim));
	return true;
}

float
grn_own_compare(const GrnLayout *l, GrnComparison comparison, const void *query, const void *vec)
{
	float		compared = grn_query_compare(comparison, l->form, query, vec, l->dim);

	return l->centre != NULL && l->centre->products ? compared - centre_product(vec) : compared;
}

float
grn_own_query_share(const GrnLayout *l, const float *q)
{
	float		rest[GRN_MAX_DIM];
	const float *left = without_centre(l, q, rest);
	float		whole = grn_dist->ip_f32(q, q, l->dim);

	if (l->centre == NULL || !l->centre->products || !(whole > 0) || isinf(whole))
		return 1;
	return sqrtf(grn_dist->ip_f32(left, left, l->dim) / whole);
}

/* More than any 16,000 differences whose squares vanish in single precision. */
#define LEAST_ERROR 1e-20f
/* More than rounding adds to a sum of 16,000 squares in 16 lanes, and to its root. */
#define ERROR_SURPLUS 1.0001f

float
grn_own_error(const GrnLayout *l, const float *x, const void *vec)
{
	float		rest[GRN_MAX_DIM];
	float		l2 = grn_form_l2(l->form, without_centre(l, x, rest), vec, l->dim);

	return fminf(sqrtf(l2) * ERROR_SURPLUS + LEAST_ERROR, FLT_MAX);
}

float
grn_own_store(const GrnLayout *l, const float *x, const void *stored, void *vec)
{
	float		rest[GRN_MAX_DIM];
	const float *left = without_centre(l, x, rest);
	bool		exact;

	if (stored != NULL)
	{
		memcpy(vec, stored, l->vec_bytes);
		return 0;
	}
	exact = grn_form_store(l->form, left, l->dim, vec);
	if (l->centre != NULL && l->centre->products)
	{
		GrnRotatedHead head;

		memcpy(&head, vec, sizeof(head));
		head.norm2 = grn_dist->ip_f32(l->centre->x, left, l->dim);
		memcpy(vec, &head, sizeof(head));
	}
	return exact ? 0 : grn_own_error(l, x, vec);
}
