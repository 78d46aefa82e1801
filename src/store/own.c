/*
 * own.c - own vectors of records.
 *
 * With a center c, the stored vector s approximates x - c, and its error e is perpendicular to s.
 * Squared distances are computed between s and q - c.  Inner products use
 *   <q, x> = <q, c> + <q - t c, x - c> + t <c, x - c>   for any t.
 * The head of a stored vector holds <c, x - c> exactly, in place of |s|^2.  t c is the part of q
 * along c, so q - t c is as short as possible.  The error counts only by its part along q - t c,
 * which is a small part of q if all rows lie far from the origin.
 */
#include "store/record.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "space/form.h"
#include "space/kernels/dist.h"
#include "space/space.h"

/* ---- the center ---- */

/*
 * A center with a smaller squared length is not removed from queries, because products with the
 * center would underflow.
 */
#define LEAST_CENTER2 1e-24

void
grn_layout_set_center(GrnLayout *l, GrnCenter *center, GrnComparison comparison, const float *x)
{
	l->center = NULL;
	if (x == NULL || !grn_form(l->form)->rotated)
		return;
	*center = (GrnCenter) {x, grn_norm2(x, l->dim), grn_compares_products(comparison)};
	l->center = center;
}

/* x minus `times` times the center in out [dim]; x itself without a center. */
static const float *
without_center(const GrnLayout *l, const float *x, float times, float *out)
{
	if (l->center == NULL)
		return x;
	for (uint32_t j = 0; j < l->dim; j++)
		out[j] = x[j] - times * l->center->x[j];
	return out;
}

/* The factor t of the center that is subtracted from a query. */
static float
times_center(const GrnLayout *l, const float *q)
{
	double		product = 0;

	if (l->center == NULL || !l->center->products)
		return 1;
	if (l->center->norm2 < LEAST_CENTER2)
		return 0;
	for (uint32_t j = 0; j < l->dim; j++)
		product += (double) q[j] * l->center->x[j];
	return (float) (product / l->center->norm2);
}

/* <c, x - c> of a stored vector; valid if rows are compared by inner products. */
static float
center_product(const void *vec)
{
	GrnRotatedHead head;

	memcpy(&head, vec, sizeof(head));
	return head.norm2;
}

/* ---- stored vectors ---- */

void
grn_own_load(const GrnLayout *l, const void *vec, float *x)
{
	if (grn_form(l->form)->sparse)
		grn_sparse_load(vec, l->dim, x);
	else
		grn_form_load(l->form, vec, l->dim, x);
	for (uint32_t j = 0; l->center != NULL && j < l->dim; j++)
		x[j] += l->center->x[j];
}

void
grn_own_load_turned(const GrnLayout *l, const void *vec, float *x)
{
	if (grn_form(l->form)->rotated)
		grn_rotated_load_rotated(grn_form(l->form)->bits, vec, l->dim, x);
	else
		grn_own_load(l, vec, x);
}

void
grn_own_turn(const GrnLayout *l, const float *x, float *out)
{
	const float *left = grn_form(l->form)->rotated ? without_center(l, x, 1, out) : x;

	if (left != out)
		memcpy(out, left, l->dim * sizeof(float));
	if (grn_form(l->form)->rotated)
		grn_rotate(out, l->dim);
}

float
grn_own_norm2(const GrnLayout *l, const void *vec)
{
	float		norm2;

	if (l->center == NULL)
		return grn_form_norm2(l->form, vec, l->dim);
	norm2 = grn_rotated_levels_norm2(grn_form(l->form)->bits, vec, l->dim) +
		2 * center_product(vec) + (float) l->center->norm2;
	return norm2 > 0 ? norm2 : 0;
}

bool
grn_own_query(const GrnLayout *l, const float *q, void *query)
{
	float		rest[GRN_MAX_DIM];
	float		times = times_center(l, q);

	if (!grn_query_make(l->form, without_center(l, q, times, rest), l->dim, query))
		return false;
	if (l->center != NULL && l->center->products)
		grn_rotated_shift_products(query, grn_dist->ip_f32(q, l->center->x, l->dim), times);
	return true;
}

double
grn_own_query_share(const GrnLayout *l, const float *q)
{
	float		rest[GRN_MAX_DIM];
	double		whole;

	if (l->center == NULL || !l->center->products)
		return 1;
	whole = grn_norm2(q, l->dim);
	if (whole == 0)
		return 1;
	return sqrt(grn_norm2(without_center(l, q, times_center(l, q), rest), l->dim) / whole);
}

/*
 * Greater than the length of any 16,000 differences whose squares underflow in single precision.
 */
#define LEAST_ERROR 1e-20f
/* Greater than the rounding error of a sum of 16,000 squares in 16 lanes, and of its root. */
#define ERROR_SURPLUS 1.0001f

float
grn_own_error(const GrnLayout *l, const float *x, const void *vec)
{
	float		rest[GRN_MAX_DIM];
	float		l2;

	if (grn_form(l->form)->sparse)
		return grn_sparse_error(vec);
	l2 = grn_form_l2(l->form, without_center(l, x, 1, rest), vec, l->dim);

	return fminf(sqrtf(l2) * ERROR_SURPLUS + LEAST_ERROR, FLT_MAX);
}

/*
 * Bounds as shares of a row's squared norm.  The difference of two squared norms
 * (grn_rotated_error2()) has a relative error of some millionths, so LACK_SURPLUS is added: a scan
 * needs an error that is not too small.  For differences below LEAST_LACK the surplus would be
 * large against the error itself, and grnnd_check() compares the error with grn_own_error(); such
 * rows use grn_own_error().
 */
#define LEAST_LACK 4e-3
#define LACK_SURPLUS 5e-6
/* The scales of rows with smaller squared lengths have few digits in single precision. */
#define LEAST_NORM2 1e-60

/*
 * The error of the vector just stored for x.  left: x without the center.  Rotating the stored
 * vector back would take a third of the time of storing it, so the error of a rotated form comes
 * from norms.
 */
static float
error_of_stored(const GrnLayout *l, const float *left, const float *x, const void *vec)
{
	const GrnFormInfo *form = grn_form(l->form);

	if (form->rotated)
	{
		double		norm2 = grn_norm2(left, l->dim);
		double		lack2 = grn_rotated_error2(form->bits, vec, l->dim, norm2);

		if (norm2 > LEAST_NORM2 && lack2 > LEAST_LACK * norm2)
			return (float) fmin(sqrt(lack2 + LACK_SURPLUS * norm2), FLT_MAX);
	}
	return grn_own_error(l, x, vec);
}

float
grn_own_store(const GrnLayout *l, const float *x, const void *stored, void *vec)
{
	float		rest[GRN_MAX_DIM];
	const float *left;
	bool		exact;

	if (grn_form(l->form)->sparse)
	{
		memcpy(vec, stored != NULL ? stored : x, l->vec_bytes);
		return grn_sparse_error(vec);
	}
	if (stored != NULL)
	{
		memcpy(vec, stored, l->vec_bytes);
		return 0;
	}
	left = without_center(l, x, 1, rest);
	exact = grn_form_store(l->form, left, l->dim, vec);
	if (l->center != NULL && l->center->products)
	{
		GrnRotatedHead head;

		memcpy(&head, vec, sizeof(head));
		head.norm2 = grn_dist->ip_f32(l->center->x, left, l->dim);
		memcpy(vec, &head, sizeof(head));
	}
	return exact ? 0 : error_of_stored(l, left, x, vec);
}

GrnLayout
grn_own_layout(GrnForm form, uint32_t dim)
{
	return (GrnLayout) {.dim = dim, .form = form, .vec_bytes = (uint32_t) grn_form_bytes(form, dim)};
}

void
grn_own_item_make(const GrnLayout *l, const float *x, void *item)
{
	float		error = grn_own_store(l, x, NULL, item);

	memcpy((char *) item + grn_own_item_bytes(l->form, l->dim) - sizeof(float), &error, sizeof(float));
}
