/*
 * test_queries.c - the rows nearest to a few queries: what inner products spare must change
 * nothing of what comparing all with all finds.
 */
#include <float.h>

#include "unit.h"

#include "space/kernels/dist.h"
#include "space/rows.h"
#include "store/recall.h"

#define ROWS 700
#define DIM 37
#define QUERIES 24
#define THREADS 3

static int
by_value(const void *a, const void *b)
{
	float		x = *(const float *) a;
	float		y = *(const float *) b;

	return (x > y) - (x < y);
}

/* Three clusters: far from the origin, products are large where distances are small. */
static void
make_values(float *x, size_t n, float center, float width)
{
	for (size_t i = 0; i < n; i++)
		x[i] = center * (float) (i / DIM % 3) + width * (float) unit_normal();
}

/* Every seventh row is a query, and compared with all others. */
static void
check_found(GrnComparison comparison, GrnForm form, float *values, bool by_products, const char *what)
{
	GrnRows		rows = {.n = ROWS, .row_bytes = grn_row_bytes(form, GRN_EMBED_ROW, DIM), .dim = DIM,
		.embedding = GRN_EMBED_ROW, .form = form};
	char	   *base = calloc(ROWS, rows.row_bytes);
	const GrnLayout layout = {.form = form, .dim = DIM};
	GrnQueries	q;
	void	   *workspace = malloc(grn_queries_place(&q, comparison, &layout, QUERIES, THREADS, NULL));
	float		scratch[DIM];
	float		all[ROWS];

	rows.base = base;
	for (size_t i = 0; i < ROWS; i++)
		grn_form_store(form, values + i * DIM, DIM, base + i * rows.row_bytes);
	(void) grn_queries_place(&q, comparison, &layout, QUERIES, THREADS, workspace);
	for (uint32_t i = 0; i < QUERIES; i++)
	{
		q.ids[i] = i * 7;
		memcpy(q.floats + i * DIM, grn_row_values(&rows, grn_row(&rows, q.ids[i]), scratch), DIM * sizeof(float));
	}
	grn_queries_ready(&q);
	CHECK(q.by_products == by_products, "%s", what);
	for (uint32_t v = 0; v < ROWS; v++)
		grn_queries_compare_row(&q, (int) (v % THREADS), v, grn_row(&rows, v), scratch);
	grn_queries_merge(&q);
	for (uint32_t i = 0; i < QUERIES; i++)
	{
		uint32_t	n = 0;
		uint32_t	kept;

		for (uint32_t v = 0; v < ROWS; v++)
		{
			float		d = grn_queries_compare(&q, i, grn_row(&rows, v));

			if (v != q.ids[i] && d == d)
				all[n++] = d;
		}
		qsort(all, n, sizeof(float), by_value);
		kept = n < GRN_CURVE_MOST_K ? n : GRN_CURVE_MOST_K;
		CHECK(q.nearest[i].n == kept, "%s: query %u has %u", what, i, q.nearest[i].n);
		for (uint32_t k = 0; k < kept; k++)
			CHECK(q.nearest[i].d[k] == all[k], "%s: query %u, rank %u: %g, not %g", what, i, k,
				  (double) q.nearest[i].d[k], (double) all[k]);
	}
	free(workspace);
	free(base);
}

static void
nearest_are_those_of_all(void)
{
	static float values[ROWS * DIM];

	make_values(values, ROWS * DIM, 0, 1);
	check_found(GRN_COMPARE_L2, GRN_FORM_F32, values, true, "distances");
	check_found(GRN_COMPARE_IP, GRN_FORM_F32, values, true, "products");
	check_found(GRN_COMPARE_L1, GRN_FORM_F32, values, false, "sums");
	check_found(GRN_COMPARE_L2, GRN_FORM_F16, values, true, "halves");
	check_found(GRN_COMPARE_IP, GRN_FORM_F16, values, true, "products of halves");
	/* distances far below what products of such rows can tell */
	make_values(values, ROWS * DIM, 1000, .01f);
	check_found(GRN_COMPARE_L2, GRN_FORM_F32, values, true, "far from the origin");
	check_found(GRN_COMPARE_IP, GRN_FORM_F32, values, true, "products far from the origin");
	/* squares that are no normal numbers */
	make_values(values, ROWS * DIM, 0, 3e-23f);
	check_found(GRN_COMPARE_L2, GRN_FORM_F32, values, true, "very short");
	check_found(GRN_COMPARE_IP, GRN_FORM_F32, values, true, "products of very short rows");
	/* all the same, and zero */
	make_values(values, ROWS * DIM, 0, 0);
	check_found(GRN_COMPARE_L2, GRN_FORM_F32, values, true, "zero");
}

static void
sums_may_be_infinite(void)
{
	static float values[ROWS * DIM];

	make_values(values, ROWS * DIM, 0, 1);
	for (size_t i = 0; i < ROWS; i += 5)
		values[i * DIM + i % DIM] = i % 2 ? FLT_MAX : -FLT_MAX;
	check_found(GRN_COMPARE_L2, GRN_FORM_F32, values, true, "distances");
	check_found(GRN_COMPARE_IP, GRN_FORM_F32, values, true, "products");
}

int
main(void)
{
	grn_dist_init();
	RUN(nearest_are_those_of_all);
	RUN(sums_may_be_infinite);
	UNIT_END();
}
