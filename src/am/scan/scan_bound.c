/*
 * scan_bound.c - the operator's values of stored vectors, and lower bounds of these values.  The
 * executor compares the bounds with its own values.
 */
#include "am/scan/scan_impl.h"

#include <math.h>

#include "utils/float.h"

#include "space/space.h"

/* The most elements of two sparse rows, which their distance sums. */
#define SPARSEVEC_ELEMENTS 32000

bool
grnnd_take_query(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	ScanKey		key = &scan->orderByData[0];
	GrnForm		form = so->ix->key.type->form;

	if (key->sk_flags & SK_ISNULL)
		return false;
	so->query.q = grnnd_form_query(&so->ix->key, so->ix->meta.column_dim, key->sk_argument);
	if (so->query.q == NULL)
		return false;
	so->query.norm = sqrt(grn_query_norm2(form, so->query.q, so->ix->meta.dim));
	so->query.share = grn_own_query_share(&so->ix->layout, so->query.q);
	so->query.norms = so->ix->key.metric->bound_by_norm &&
		(grnnd_reranks(so->ix->key.type, so->ix->layout.form) || scan->numberOfOrderBys > 1 ||
		 grnnd_has_threshold(so));
	return true;
}

double
grnnd_operator_value(const GrnndScan *so, const GrnFound *f, double norm, bool bound)
{
	const GrnMetricInfo *metric = so->ix->key.metric;
	const GrnFormInfo *form = grn_form(so->ix->layout.form);
	GrnBound	b = {
		.compared = f->distance,
		.error = f->error,
		.query_norm = so->query.norm,
		.norm = norm,
		.dim = form->sparse ? SPARSEVEC_ELEMENTS : so->ix->meta.dim
	};

	if (!bound)
		return metric->value(f->distance);
	/* the distance overflowed: the executor sums in another order and may get any value */
	if (!isfinite(f->distance))
		return -get_float8_infinity();
	if (form->deviations > 0)
		b.error *= Min(1, form->deviations / sqrt(b.dim));
	b.error *= so->query.share;
	if (form->rotated || (form->sparse && grn_compares_by_product(metric->comparison) &&
						  !grn_compares_products(metric->comparison)))
		b.across = f->error;
	return metric->bound(&b);
}
