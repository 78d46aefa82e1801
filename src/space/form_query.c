/*
 * form_query.c - queries that are prepared for comparisons with many stored vectors.
 */
#include "space/form.h"

#include "space/space.h"

size_t
grn_query_bytes(GrnComparison comparison, GrnForm form, size_t n)
{
	const GrnFormInfo *f = grn_form(form);

	if (f->rotated)
		return grn_rotated_serves(comparison) ? grn_rotated_query_bytes(f->bits, n) : 0;
	if (f->sparse)
		return sizeof(GrnSparseQuery);
	return (comparison == GRN_COMPARE_JACCARD && f->jaccard != NULL) ||
		(comparison == GRN_COMPARE_L2 && f->direct) ? grn_form_bytes(form, n) : 0;
}

double
grn_query_norm2(GrnForm form, const float *q, size_t n)
{
	const GrnFormInfo *f = grn_form(form);

	return f->norm2 != NULL ? f->norm2(q) : grn_norm2(q, n);
}

bool
grn_query_make(GrnForm form, const float *q, size_t n, void *query)
{
	const GrnFormInfo *f = grn_form(form);

	if (f->sparse)
	{
		grn_sparse_query(q, query);
		return true;
	}
	if (!f->rotated)
		return f->store(q, n, query);
	grn_rotated_query(f->bits, q, n, query);
	return true;
}

float
grn_query_compare(GrnComparison comparison, GrnForm form, const void *query,
				  const void *stored, size_t n)
{
	const GrnFormInfo *f = grn_form(form);

	if (f->sparse)
		return grn_sparse_compare(comparison, query, stored, n);
	if (f->rotated)
		return comparison == GRN_COMPARE_IP ? -grn_rotated_ip(f->bits, query, stored, n)
			: grn_rotated_l2(f->bits, query, stored, n);
	return comparison == GRN_COMPARE_JACCARD ? f->jaccard(query, stored, n)
		: grn_form_apart(form, query, 1, stored, 1, n);
}

void
grn_between(GrnForm form, GrnComparison comparison, const float *x, const float *const *others, size_t n,
			size_t dim, float *out)
{
	if (grn_form(form)->sparse)
		grn_sparse_many(x, (const void *const *) others, n, dim, comparison, out);
	else
		for (size_t i = 0; i < n; i++)
			out[i] = grn_dist->l2_f32(x, others[i], dim);
}
