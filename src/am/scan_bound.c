/*
 * scan_bound.c - lower bounds of distances, which the executor checks against its own.
 */
#include "am/scan.h"

#include <math.h>

#include "utils/float.h"

#include "graph/space.h"

/*
 * Rounding.  The executor computes distances anew by pgvector's functions and raises an
 * error where one is below the bound that it was given, so bounds allow for both
 * computations.  Each sums n products or squares in single precision, in some
 * order: that moves the sum by at most n u / (1 - n u) of the sum of absolute values,
 * u = 2^-24, whatever the order.  The terms' own roundings count as a few terms more.
 */
#define UNIT_ROUNDING (1.0 / (1 << 24))
#define MORE_TERMS 8
/* What squares and products lose below the range of single precision, each. */
#define VANISHED 3e-45
/* More than double precision loses in between. */
#define DOUBLE_SLACK 1e-12

void
grnnd_measure_query(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	uint32		dim = so->ix->meta.dim;
	double		terms = (dim + MORE_TERMS) * UNIT_ROUNDING;

	so->q_norm = sqrt(grn_norm2(so->q, dim));
	so->sum_error = terms / (1 - terms);
	/* products may cancel, so rounding is a share of |q| |x| and not of their sum */
	so->row = NULL;
	if (so->ix->meta.metric == GRN_IP &&
		(scan->numberOfOrderBys > 1 || so->ix->layout.vec_format != GRN_VEC_F32))
		so->row = palloc(dim * sizeof(float));
}

double
grnnd_found_norm(const GrnndScan *so, uint32 i)
{
	const GrnLayout *l = &so->ix->layout;

	if (so->row == NULL)
		return 0;
	grn_vec_load(l->vec_format, grn_search_vector(so->search, i), l->dim, so->row);
	return sqrt(grn_norm2(so->row, l->dim));
}

/* The least distance that single precision may make of a computed square. */
static double
least_root(const GrnndScan *so, double square)
{
	double		vanished = so->ix->meta.dim * VANISHED;

	return sqrt(Max(square - vanished, 0) / (1 + so->sum_error));
}

double
grnnd_operator_value(const GrnndScan *so, const GrnFound *f, double norm, bool bound)
{
	double		d = f->distance;
	double		e = f->error;
	double		g = so->sum_error;
	double		vanished = so->ix->meta.dim * VANISHED;

	/* overflown: the executor's sum, in another order, can be anything */
	if (bound && !isfinite(d))
		return -get_float8_infinity();
	switch (so->ix->meta.metric)
	{
		case GRN_IP:
			if (bound)
				d -= so->q_norm * (e + g * (2 * norm + e)) * (1 + DOUBLE_SLACK) + 2 * vanished;
			return d;
		case GRN_COSINE:
			if (bound)
			{
				/* numbers of normalised vectors are rounded; a cosine's products and norms, too */
				d = Max(least_root(so, d) - e - 2.1 * UNIT_ROUNDING, 0);
				return d * d / 2 - 2 * g * (1 + g) - DOUBLE_SLACK;
			}
			return d / 2;
		default:
			if (bound)
			{
				d = Max(least_root(so, d) - e, 0);
				return sqrt(Max(d * d * (1 - g) - vanished, 0)) * (1 - DOUBLE_SLACK);
			}
			return sqrt(Max(d, 0));
	}
}
