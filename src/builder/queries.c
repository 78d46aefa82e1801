/*
 * queries.c - the rows that are nearest to a few queries; see queries.h.
 *
 * Rows of floats are first multiplied with all queries at a time, which takes a tenth of the time
 * that comparing them one by one does.  Inner products tell of most rows that they are farther than
 * the nearest so far.  Those are sums in another order than comparisons are, so rows that
 * may be near are compared: what is found does not depend on this.
 */
#include "builder/queries.h"

#include <float.h>
#include <string.h>

#include "graph/memory.h"

/*
 * How far an inner product of two vectors may be from what another kernel makes of it, in parts of
 * the sum of their squared lengths: ten times what kernels are held to (dist.h).  Of squares that
 * are no normal numbers it may be any part.
 */
#define UNSURE(norms2) (1e-4f * (norms2) + FLT_MIN)

bool
grn_queries_make(GrnQueries *q, GrnComparison comparison, const GrnRows *rows,
				 const void *const *of, uint32_t n, int threads)
{
	uint32_t	dim = rows->dim;
	memset(q, 0, sizeof(*q));
	q->comparison = comparison;
	q->rows = *rows;
	q->n = n;
	q->threads = threads;
	q->made_bytes = (grn_query_bytes(comparison, rows->form, dim) + 63) & ~(size_t) 63;
	q->floats = grn_alloc((size_t) n * dim * sizeof(float));
	q->nearest = grn_alloc_zeroed((size_t) threads * n, sizeof(GrnLeast));
	q->made = q->made_bytes > 0 ? grn_alloc(n * q->made_bytes) : NULL;
	if (q->floats == NULL || q->nearest == NULL || (q->made_bytes > 0 && q->made == NULL))
		return false;
	for (uint32_t i = 0; i < n; i++)
	{
		float	   *x = q->floats + (size_t) i * dim;

		memmove(x, grn_row_values(rows, of[i], x), dim * sizeof(float));
		q->norm2[i] = grn_dist->ip_f32(x, x, dim);
		if (q->made != NULL && !grn_query_make(rows->form, x, dim, q->made + i * q->made_bytes))
		{
			grn_free(q->made);
			q->made = NULL;
		}
	}
	q->by_products = q->made == NULL && grn_compares_by_product(comparison);
	return true;
}

void
grn_queries_free(GrnQueries *q)
{
	grn_free(q->floats);
	grn_free(q->made);
	grn_free(q->nearest);
	memset(q, 0, sizeof(*q));
}

float
grn_queries_compare(const GrnQueries *q, uint32_t i, const void *row)
{
	uint32_t	dim = q->rows.dim;

	return q->made != NULL
		? grn_query_compare(q->comparison, q->rows.form, q->made + i * q->made_bytes, row, dim)
		: grn_compare(q->comparison, q->rows.form, q->floats + (size_t) i * dim, row, dim);
}

static void
keep(GrnLeast *nearest, float d)
{
	uint32_t	at;

	/* (products that are infinite both ways have no sum) */
	if (d != d || (nearest->n == GRN_CURVE_MOST_K && !(d < nearest->d[GRN_CURVE_MOST_K - 1])))
		return;
	at = nearest->n < GRN_CURVE_MOST_K ? nearest->n++ : GRN_CURVE_MOST_K - 1;
	for (; at > 0 && nearest->d[at - 1] > d; at--)
		nearest->d[at] = nearest->d[at - 1];
	nearest->d[at] = d;
}

/* Queries for which the row is not surely farther than all that they have; returns how many. */
static uint32_t
likely(const GrnQueries *q, const GrnLeast *nearest, const void *row, float *scratch, uint32_t *out)
{
	uint32_t	dim = q->rows.dim;
	float		products[GRN_MOST_QUERIES];
	const float *x = grn_row_values(&q->rows, row, scratch);
	float		norm2 = grn_dist->ip_f32(x, x, dim);
	uint32_t	n = 0;

	memset(products, 0, q->n * sizeof(float));
	grn_dist->ip_rows(x, q->floats, dim, dim, q->n, products);
	for (uint32_t i = 0; i < q->n; i++)
	{
		float		d = grn_compared_by_product(q->comparison, norm2, q->norm2[i], products[i]);

		out[n] = i;
		/* not so, too, where a sum is infinite */
		n += !(nearest[i].n == GRN_CURVE_MOST_K &&
			   d - UNSURE(norm2 + q->norm2[i]) > nearest[i].d[GRN_CURVE_MOST_K - 1]);
	}
	return n;
}

void
grn_queries_see(GrnQueries *q, int thread, const uint32_t *ids, uint32_t id, const void *row,
				float *scratch)
{
	GrnLeast   *nearest = q->nearest + (size_t) thread * q->n;
	uint32_t	those[GRN_MOST_QUERIES];
	uint32_t	n = q->by_products ? likely(q, nearest, row, scratch, those) : q->n;

	for (uint32_t j = 0; j < n; j++)
	{
		uint32_t	i = q->by_products ? those[j] : j;

		if (ids[i] != id)
			keep(&nearest[i], grn_queries_compare(q, i, row));
	}
}

void
grn_queries_join(GrnQueries *q)
{
	for (int thread = 1; thread < q->threads; thread++)
		for (uint32_t i = 0; i < q->n; i++)
		{
			const GrnLeast *other = &q->nearest[(size_t) thread * q->n + i];

			for (uint32_t k = 0; k < other->n; k++)
				keep(&q->nearest[i], other->d[k]);
		}
}
