/*
 * queries.c - finds the rows nearest to a few queries; see recall.h.
 *
 * Each row of floats is first multiplied with all queries at once.  A product takes a tenth of the
 * time of a comparison, and shows for most rows that they are farther than the nearest rows so far.
 * Only the rows that may be near are compared.  A product sums in another order than a comparison
 * and is less exact, but the comparison decides, so the result does not depend on products.
 */
#include "store/recall.h"

#include <float.h>
#include <string.h>

#include "memory/memory.h"

/*
 * Largest difference between the inner products of two kernels, for vectors whose squared lengths
 * sum to norms2: ten times the difference that dist.h allows kernels.  FLT_MIN covers squares that
 * are denormal numbers, where the relative error has no limit.
 */
#define UNSURE(norms2) (1e-4f * (norms2) + FLT_MIN)

size_t
grn_queries_place(GrnQueries *q, GrnComparison comparison, const GrnLayout *rows, uint32_t n, int threads,
				  void *workspace)
{
	GrnArena	arena = grn_arena(workspace);

	q->comparison = comparison;
	q->rows = rows;
	q->n = n;
	q->threads = threads;
	q->made_bytes = grn_aligned(grn_query_bytes(comparison, rows->form, rows->dim));
	q->floats = grn_take(&arena, n, rows->dim * sizeof(float));
	q->nearest = grn_take(&arena, (size_t) threads * n, sizeof(GrnLeast));
	q->made = grn_take(&arena, n, q->made_bytes);
	return grn_arena_bytes(&arena);
}

void
grn_queries_ready(GrnQueries *q)
{
	uint32_t	dim = q->rows->dim;

	memset(q->nearest, 0, (size_t) q->threads * q->n * sizeof(GrnLeast));
	if (q->made_bytes == 0)
		q->made = NULL;
	for (uint32_t i = 0; i < q->n; i++)
	{
		const float *x = q->floats + (size_t) i * dim;

		q->norm2[i] = (float) grn_query_norm2(q->rows->form, x, dim);
		if (q->made != NULL && !grn_own_query(q->rows, x, q->made + i * q->made_bytes))
			q->made = NULL;
	}
	q->by_products = q->made == NULL && grn_compares_by_product(q->comparison);
}

float
grn_queries_compare(const GrnQueries *q, uint32_t i, const void *row)
{
	uint32_t	dim = q->rows->dim;

	return q->made != NULL
		? grn_query_compare(q->comparison, q->rows->form, q->made + i * q->made_bytes, row, dim)
		: grn_compare(q->comparison, q->rows->form, q->floats + (size_t) i * dim, row, dim);
}

static void
insert_distance(GrnLeast *nearest, float d)
{
	uint32_t	at;

	/* Infinite products of both signs sum to NaN. */
	if (d != d || (nearest->n == GRN_CURVE_MOST_K && !(d < nearest->d[GRN_CURVE_MOST_K - 1])))
		return;
	at = nearest->n < GRN_CURVE_MOST_K ? nearest->n++ : GRN_CURVE_MOST_K - 1;
	for (; at > 0 && nearest->d[at - 1] > d; at--)
		nearest->d[at] = nearest->d[at - 1];
	nearest->d[at] = d;
}

/*
 * Finds the queries to which the row may be nearer than their farthest kept row.  Fills out [n]
 * with query numbers.  Returns their number.
 */
static uint32_t
find_possible(const GrnQueries *q, const GrnLeast *nearest, const void *row, float *scratch, uint32_t *out)
{
	uint32_t	dim = q->rows->dim;
	float		products[GRN_MOST_QUERIES];
	const float *x = row;
	float		norm2;
	uint32_t	n = 0;

	if (!grn_form_is_floats(q->rows->form))
	{
		grn_form_load(q->rows->form, row, dim, scratch);
		x = scratch;
	}
	norm2 = grn_dist->ip_f32(x, x, dim);
	memset(products, 0, q->n * sizeof(float));
	grn_dist->ip_rows(x, q->floats, dim, dim, q->n, products);
	for (uint32_t i = 0; i < q->n; i++)
	{
		float		d = grn_compared_by_product(q->comparison, norm2, q->norm2[i], products[i]);

		out[n] = i;
		/* The negated test also keeps queries whose sum is infinite or NaN. */
		n += !(nearest[i].n == GRN_CURVE_MOST_K &&
			   d - UNSURE(norm2 + q->norm2[i]) > nearest[i].d[GRN_CURVE_MOST_K - 1]);
	}
	return n;
}

void
grn_queries_compare_row(GrnQueries *q, int thread, uint32_t id, const void *row, float *scratch)
{
	GrnLeast   *nearest = q->nearest + (size_t) thread * q->n;
	uint32_t	possible[GRN_MOST_QUERIES];
	uint32_t	n = q->by_products ? find_possible(q, nearest, row, scratch, possible) : q->n;

	for (uint32_t j = 0; j < n; j++)
	{
		uint32_t	i = q->by_products ? possible[j] : j;

		if (q->ids[i] != id)
			insert_distance(&nearest[i], grn_queries_compare(q, i, row));
	}
}

void
grn_queries_merge(GrnQueries *q)
{
	for (int thread = 1; thread < q->threads; thread++)
		for (uint32_t i = 0; i < q->n; i++)
		{
			const GrnLeast *other = &q->nearest[(size_t) thread * q->n + i];

			for (uint32_t k = 0; k < other->n; k++)
				insert_distance(&q->nearest[i], other->d[k]);
		}
}
