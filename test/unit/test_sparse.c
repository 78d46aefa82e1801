/*
 * test_sparse.c - rows of non-zero elements: what is stored, distances, and damaged rows.
 */
#include "space/form.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "space/grn.h"
#include "unit.h"

#define MOST 300
#define WORDS 160

typedef struct Elements
{
	int32_t		columns[MOST];
	float		values[MOST];
	size_t		n;
} Elements;

/* Elements whose columns are below n * apart. */
static Elements
elements_of(size_t n, uint32_t apart, uint64_t seed)
{
	Elements	e = {.n = n};

	for (size_t i = 0; i < n; i++)
	{
		e.columns[i] = (int32_t) (i * apart + grn_random(seed, 1, i) % apart);
		e.values[i] = (float) (1 + grn_random(seed, 2, i) % 9) * (grn_random(seed, 3, i) % 8 == 0 ? -1 : 1);
	}
	return e;
}

static double
distance(const Elements *a, const Elements *b, int power)
{
	double		sum = 0;
	size_t		i = 0;
	size_t		j = 0;

	while (i < a->n || j < b->n)
	{
		int32_t		c = i < a->n ? a->columns[i] : INT32_MAX;
		int32_t		d = j < b->n ? b->columns[j] : INT32_MAX;
		double		e = (c <= d ? a->values[i] : 0) - (d <= c ? b->values[j] : 0);

		i += c <= d;
		j += d <= c;
		sum += power == 2 ? e * e : fabs(e);
	}
	return sum;
}

static bool
near(double a, double b)
{
	return fabs(a - b) <= 1e-5 * (fabs(a) + fabs(b)) + 1e-6;
}

/* All ways to compare two rows agree, for columns of 2 and of 4 bytes. */
static void
comparisons_agree(void)
{
	GrnSparseQuery *query = malloc(sizeof(GrnSparseQuery));

	for (uint64_t seed = 0; seed < 200; seed++)
	{
		Elements	a = elements_of(seed % 70, seed % 3 == 0 ? 5000 : 40, seed);
		Elements	b = elements_of(seed % 11 * 6, seed % 5 == 0 ? 5000 : 40, seed + 1000);
		float		x[WORDS];
		float		y[WORDS];
		const void *others[2] = {y, x};
		float		many[2];
		double		l2 = distance(&a, &b, 2);
		double		ip;

		CHECK(grn_sparse_store(a.columns, a.values, a.n, WORDS, x) &&
			  grn_sparse_store(b.columns, b.values, b.n, WORDS, y) &&
			  grn_sparse_error(x) == 0 && grn_sparse_check(x, WORDS) == NULL, "seed %d", (int) seed);
		ip = (grn_sparse_norm2(x) + grn_sparse_norm2(y) - l2) / 2;
		grn_sparse_query(x, query);
		CHECK(near(grn_sparse_compare(GRN_COMPARE_L2, query, y, WORDS), l2) &&
			  near(grn_sparse_compare(GRN_COMPARE_IP, query, y, WORDS), -ip) &&
			  near(grn_sparse_compare(GRN_COMPARE_L1, query, y, WORDS), distance(&a, &b, 1)), "seed %d: %g", (int) seed, l2);
		CHECK(grn_sparse_compare(GRN_COMPARE_L2, query, x, WORDS) == 0, "seed %d: %g to itself", (int) seed,
			  grn_sparse_compare(GRN_COMPARE_L2, query, x, WORDS));
		grn_sparse_many(x, others, 2, WORDS, GRN_COMPARE_L2, many);
		CHECK(near(many[0], l2) && many[1] == 0, "seed %d: %g and %g", (int) seed, many[0], many[1]);
		grn_sparse_many(y, (const void *[]) {x}, 1, WORDS, GRN_COMPARE_L2, many + 1);
		CHECK(many[0] == many[1], "seed %d: %.9g and %.9g", (int) seed, many[0], many[1]);
		grn_sparse_many(x, others, 1, WORDS, GRN_COMPARE_IP, many);
		grn_sparse_many(y, (const void *[]) {x}, 1, WORDS, GRN_COMPARE_IP, many + 1);
		CHECK(many[0] == many[1] && near(many[0], -ip), "seed %d: %g and %g", (int) seed, many[0], many[1]);
		grn_sparse_many(x, others, 1, WORDS, GRN_COMPARE_L1, many);
		grn_sparse_many(y, (const void *[]) {x}, 1, WORDS, GRN_COMPARE_L1, many + 1);
		CHECK(many[0] == many[1] && near(many[0], distance(&a, &b, 1)), "seed %d: %g and %g by L1", (int) seed, many[0], many[1]);
	}
	free(query);
}

/* A comparison follows a chain for each column that both rows have. */
static void
equal_intervals_have_short_chains(void)
{
	static const uint32_t intervals[] = {1, 4095, 4096, 4097, 4099, 8194, 16384, 16388, 32776, 65536};
	GrnSparseQuery *query = malloc(sizeof(GrnSparseQuery));
	float		row[3 * MOST];

	for (size_t k = 0; k < sizeof(intervals) / sizeof(intervals[0]); k++)
	{
		Elements	e = {.n = MOST};
		size_t		longest = 0;

		for (size_t i = 0; i < e.n; i++)
		{
			e.columns[i] = (int32_t) (i * intervals[k]);
			e.values[i] = 1;
		}
		CHECK(grn_sparse_store(e.columns, e.values, e.n, 3 * MOST, row), "interval %u", intervals[k]);
		grn_sparse_query(row, query);
		for (size_t i = 1; i <= e.n; i++)
		{
			size_t		length = 1;

			for (size_t j = i; query->next[j] != 0; j = query->next[j])
				length++;
			longest = length > longest ? length : longest;
		}
		CHECK(longest <= 2, "interval %u: a chain of %zu", intervals[k], longest);
	}
	free(query);
}

/* Elements that differ count beside a large common element. */
static void
small_elements_count(void)
{
	GrnSparseQuery *query = malloc(sizeof(GrnSparseQuery));

	for (uint64_t seed = 0; seed < 100; seed++)
	{
		Elements	a = elements_of(1 + seed % 30, 40, seed);
		Elements	b = elements_of(1 + seed % 7 * 5, 40, seed + 1000);
		float		x[WORDS];
		float		y[WORDS];
		double		l2;
		float		many;

		a.columns[0] = b.columns[0] = 0;
		a.values[0] = b.values[0] = seed % 2 == 0 ? 1.7e9f : 3e4f;
		l2 = distance(&a, &b, 2);
		grn_sparse_store(a.columns, a.values, a.n, WORDS, x);
		grn_sparse_store(b.columns, b.values, b.n, WORDS, y);
		grn_sparse_query(x, query);
		CHECK(near(grn_sparse_compare(GRN_COMPARE_L2, query, y, WORDS), l2), "seed %d: %g, not %g", (int) seed,
			  grn_sparse_compare(GRN_COMPARE_L2, query, y, WORDS), l2);
		grn_sparse_many(y, (const void *[]) {x}, 1, WORDS, GRN_COMPARE_L2, &many);
		CHECK(many == grn_sparse_compare(GRN_COMPARE_L2, query, y, WORDS), "seed %d: %g from the other end", (int) seed, many);
	}
	free(query);
}

/* A row without room for all elements keeps the largest, and knows what is lost. */
static void
long_rows_keep_the_largest(void)
{
	for (uint64_t seed = 0; seed < 20; seed++)
	{
		Elements	e = elements_of(MOST, seed % 2 == 0 ? 40 : 5000, seed);
		float		row[WORDS];
		double		norm2 = 0;
		double		error;

		for (size_t i = 0; i < e.n; i++)
			norm2 += e.values[i] * e.values[i];
		CHECK(!grn_sparse_store(e.columns, e.values, e.n, WORDS, row) && grn_sparse_check(row, WORDS) == NULL,
			  "seed %d", (int) seed);
		error = grn_sparse_error(row);
		CHECK(near(grn_sparse_norm2(row), norm2) && fabs(grn_sparse_whole_norm2(row) / norm2 - 1) < 1e-3,
			  "seed %d: %g of %g", (int) seed, grn_sparse_norm2(row), norm2);
		CHECK(error > 0 && error * error < norm2 / 2, "seed %d: %g", (int) seed, error);
		grn_sparse_normalize((uint8_t *) row, WORDS, sqrt(grn_sparse_whole_norm2(row)));
		CHECK(fabs(grn_sparse_whole_norm2(row) - 1) < 1e-3, "seed %d: %g", (int) seed, grn_sparse_whole_norm2(row));
	}
}

/* Rows of any length can be scaled to length 1. */
static void
all_lengths_normalize(void)
{
	static const float values[] = {1e-45f, 1e-40f, 1e-20f, 1, 1e20f, 3e38f};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
	{
		float		row[WORDS];
		const void *other = row;
		float		ip;

		grn_sparse_store((const int32_t[]) {7}, &values[i], 1, WORDS, row);
		grn_sparse_normalize((uint8_t *) row, WORDS, sqrt(grn_sparse_whole_norm2(row)));
		grn_sparse_many(row, &other, 1, WORDS, GRN_COMPARE_IP, &ip);
		CHECK(grn_sparse_check(row, WORDS) == NULL && near(ip, -1) && near(grn_sparse_norm2(row), 1),
			  "%g: %g", values[i], ip);
	}
}

/* Any bytes can be compared; unsound bytes are named. */
static void
damaged_rows_are_harmless(void)
{
	Elements	e = elements_of(50, 40, 1);
	GrnSparseQuery *query = malloc(sizeof(GrnSparseQuery));
	float		q[WORDS];
	uint32_t	named = 0;

	grn_sparse_store(e.columns, e.values, e.n, WORDS, q);
	grn_sparse_query(q, query);
	for (uint64_t seed = 0; seed < 3000; seed++)
	{
		/* of the row's size, so that AddressSanitizer sees reads behind it */
		uint8_t    *row = malloc(WORDS * sizeof(float));

		grn_sparse_store(e.columns, e.values, e.n, WORDS, row);
		for (uint64_t k = 0; k < 1 + seed % 20; k++)
			row[grn_random(seed, 1, k) % (seed % 2 == 0 ? 16 : WORDS * sizeof(float))] = (uint8_t) grn_random(seed, 2, k);
		named += grn_sparse_check(row, WORDS) != NULL;
		for (int comparison = GRN_COMPARE_L2; comparison <= GRN_COMPARE_L1; comparison++)
			(void) grn_sparse_compare((GrnComparison) comparison, query, row, WORDS);
		free(row);
	}
	CHECK(named > 1000, "%u named", named);
	/* a loaded copy may be read without bounds */
	for (uint64_t seed = 0; seed < 300; seed++)
	{
		Elements	full = elements_of(104, 40, 1);
		Elements	wide = elements_of(70, 5000, seed);
		uint8_t    *row = malloc(WORDS * sizeof(float));
		uint8_t    *other = malloc(WORDS * sizeof(float));
		float	   *copy = malloc(WORDS * sizeof(float));

		grn_sparse_store(full.columns, full.values, full.n, WORDS, other);
		grn_sparse_store(wide.columns, wide.values, wide.n, WORDS, row);
		if (seed % 2 == 0)
			memset(row + offsetof(GrnSparseHead, count), (int) seed, 2);
		else
			memset(row + sizeof(GrnSparseHead) + 4 * (seed % 70), 0xFF, 4 * (70 - seed % 70));
		grn_sparse_load(row, WORDS, copy);
		grn_sparse_query(copy, query);
		for (int comparison = GRN_COMPARE_L2; comparison <= GRN_COMPARE_L1; comparison++)
			(void) grn_sparse_compare((GrnComparison) comparison, query, other, WORDS);
		free(row);
		free(other);
		free(copy);
	}
	free(query);
}

int
main(void)
{
	RUN(comparisons_agree);
	RUN(equal_intervals_have_short_chains);
	RUN(small_elements_count);
	RUN(long_rows_keep_the_largest);
	RUN(all_lengths_normalize);
	RUN(damaged_rows_are_harmless);
	UNIT_END();
}
