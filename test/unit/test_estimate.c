/*
 * test_estimate.c - grnnd_build_estimate()'s model of time, and its count of distinct rows.
 */
#include "am/build/estimate_distinct.h"
#include "am/build/estimate_time.h"
#include "unit.h"

#include <math.h>

/*
 * Phases of builds of halfvec(128) in the compact layout on a GPU with 32 cores:
 * test/bench/scale/results.md.
 */
static const GrnndSampleTimes million = {1e6, 0.04, 0.14, 0.03, 0.17, 64, 0};
static const GrnndSampleTimes ten_million = {1e7, 0.32, 1.13, 0.22, 0.67, 64, 0};

/*
 * A hundred million rows took 89.1 s, of which collecting 11.8, pages with the sync 33.6, and
 * 8.7 in a loop that all threads share since then.  By the phases of the smaller builds it is
 * within a fifth.
 */
static void
test_measured(void)
{
	GrnndBuildSize size = {.nodes = 1e8, .threads = 32, .gpus = 1};
	double		all = 11.8 + grnnd_build_times(&million, &ten_million, &size).all + 33.6;

	CHECK(fabs(all - (89.1 - 8.7)) < 0.2 * (89.1 - 8.7), "%.1f s", all);
}

/* Devices divide what is theirs of a build in parts among them; a build as a whole is one's. */
static void
test_gpus_share_parts(void)
{
	GrnndBuildTimes whole[3];
	GrnndBuildTimes parts[3];

	for (int gpus = 1; gpus <= 2; gpus++)
	{
		GrnndBuildSize size = {.nodes = 2e7, .threads = 32, .gpus = gpus};

		whole[gpus] = grnnd_build_times(&million, &ten_million, &size);
		size.parts = true;
		parts[gpus] = grnnd_build_times(&million, &ten_million, &size);
	}
	CHECK(whole[1].graph == whole[2].graph, "%g and %g", whole[1].graph, whole[2].graph);
	CHECK(fabs(parts[1].graph / whole[1].graph - 1.7) < 1e-9, "%g", parts[1].graph / whole[1].graph);
	/* 0.13 of it is the host's */
	CHECK(fabs((parts[1].graph - 0.13 * parts[1].graph) / (parts[2].graph - 0.13 * parts[1].graph) - 2) < 1e-9,
		  "%g and %g", parts[1].graph, parts[2].graph);
	CHECK(parts[1].all - parts[2].all > 0.99 * (parts[1].graph - parts[2].graph) - parts[1].recall, "all: %g and %g",
		  parts[1].all, parts[2].all);
	{
		/* four share what one could hold, from 8,000,000 rows on */
		GrnndBuildSize few = {.nodes = 7.9e6, .threads = 32, .gpus = 4};
		GrnndBuildSize many = {.nodes = 8e6, .threads = 32, .gpus = 4};

		CHECK(grnnd_build_times(&million, &ten_million, &many).graph <
			  0.7 * grnnd_build_times(&million, &ten_million, &few).graph, "four GPUs");
	}
}

/*
 * Recall is measured for as many queries as there is time for: what small builds spend on 400
 * queries large ones do not spend on each.
 */
static void
test_recall(void)
{
	/* of a query 0.1 ms for searches, and 2 ms for comparisons with a million rows */
	GrnndSampleTimes small = {8192, 0.001, 0.01, 0.01, 400 * (1e-4 + 2e-9 * 8192), 400, 0};
	GrnndSampleTimes large = {131072, 0.005, 0.02, 0.01, 275 * (1e-4 + 2e-9 * 131072), 275, 0};
	GrnndBuildSize size = {.nodes = 1e7, .threads = 32, .gpus = 1};

	CHECK(fabs(grnnd_build_times(&small, &large, &size).recall - 64 * (1e-4 + 2e-9 * 1e7)) < 0.01, "%g s",
		  grnnd_build_times(&small, &large, &size).recall);
	/* after a build on cores fewer are the least */
	size = (GrnndBuildSize) {.nodes = 1e6, .threads = 2};
	CHECK(fabs(grnnd_build_times(&small, &large, &size).recall - 8 * (1e-4 + 2e-9 * 1e6)) < 1e-3, "%g s",
		  grnnd_build_times(&small, &large, &size).recall);
	/* none was measured */
	small.queries = large.queries = 0;
	CHECK(grnnd_build_times(&small, &large, &size).recall == 0, "no recall");
}

/*
 * Phases that were faster in the larger build cost nothing a row, and no row costs more than
 * all of them.
 */
static void
test_noise(void)
{
	GrnndSampleTimes small = {8192, 0.01, 0.02, 0.05, 0, 0, 0.01};
	GrnndSampleTimes large = {131072, 0.02, 0.01, 0.04, 0, 0, 0.02};
	GrnndBuildSize size = {.nodes = 1e6, .threads = 2, .gpus = 1};
	GrnndBuildTimes t = grnnd_build_times(&small, &large, &size);

	CHECK(t.graph == 0.01 && t.all < 0.01 + 0.04 + 0.02 + 0.02 * 1e6 / 131072, "%g, %g", t.graph, t.all);
	/* one sample alone */
	t = grnnd_build_times(&large, &large, &size);
	CHECK(t.graph == 0.01, "%g", t.graph);
}

/* ---- distinct rows ---- */

#define PAGE_ROWS 27

/* How rows of a table are alike; next: copies lie next to each other. */
typedef enum Shape
{
	DISTINCT, MOST_ALIKE, TWICE, TEN_TIMES, HALF_TWENTY_TIMES, ZIPF
} Shape;

/* The value of a table's row. */
static uint64_t
value_of(Shape shape, uint64_t row, uint64_t rows)
{
	double		u = (double) (grn_random(7, 1, (uint32_t) row) % 1000003 + 1) / 1000004;

	switch (shape)
	{
		case DISTINCT:
			return row;
		case MOST_ALIKE:
			return row % 10 == 0 ? row : UINT64_MAX;
		case TWICE:
			return row / 2;
		case TEN_TIMES:
			return row / 10;
		case HALF_TWENTY_TIMES:
			return row < rows / 2 ? row : rows + row / 20;
		case ZIPF:
			/* of value v a part of about v^-1.5 */
			return (uint64_t) fmin(pow(u, -2), 1e9);
	}
	return 0;
}

static int
compare_values(const void *a, const void *b)
{
	uint64_t	x = *(const uint64_t *) a;
	uint64_t	y = *(const uint64_t *) b;

	return (x > y) - (x < y);
}

/*
 * The estimate, by a sample of a table's pages, as a share of what there is.  scattered: rows are
 * in an order of their own.
 */
static double
estimated(Shape shape, uint64_t rows, double share, bool scattered)
{
	uint64_t   *values = malloc(rows * sizeof(uint64_t));
	GrnndSeenRow *seen = malloc(rows * sizeof(GrnndSeenRow));
	uint64_t	distinct = 0;
	size_t		n = 0;
	GrnndDistinct d;

	for (uint64_t i = 0; i < rows; i++)
		values[i] = value_of(shape, i, rows);
	for (uint64_t i = rows - 1; scattered && i > 0; i--)
	{
		uint64_t	other = grn_random(7, 2, (uint32_t) i) % (i + 1);
		uint64_t	value = values[i];

		values[i] = values[other];
		values[other] = value;
	}
	for (uint64_t i = 0; i < rows; i++)
		if (grn_random(7, 3, (uint32_t) (i / PAGE_ROWS)) % 10000 < 10000 * share)
			seen[n++] = (GrnndSeenRow) {values[i] * UINT64_C(0x9E3779B97F4A7C15), (uint32_t) (i / PAGE_ROWS)};
	d = grnnd_estimate_distinct(seen, n, (double) n / (double) rows, NULL, NULL);
	qsort(values, rows, sizeof(uint64_t), compare_values);
	for (uint64_t i = 0; i < rows; i++)
		distinct += i == 0 || values[i] != values[i - 1];
	free(values);
	free(seen);
	return (d.frequent + d.rare) / (double) distinct;
}

/* Within a fifth, of a sixth of a table's pages and of half of them. */
static void
test_distinct(void)
{
	for (Shape shape = DISTINCT; shape <= ZIPF; shape++)
		for (int half = 0; half < 2; half++)
			for (int scattered = 0; scattered < 2; scattered++)
			{
				double		share = estimated(shape, 100000, half ? 0.5 : 0.16, scattered);

				CHECK(share > 0.8 && share < 1.2, "shape %d, %s, %s: %.3f", shape, half ? "half" : "a sixth",
					  scattered ? "scattered" : "next to each other", share);
			}
	/* of the whole table it is a count, and of nothing nothing */
	CHECK(estimated(ZIPF, 20000, 1, false) == 1, "all pages");
	CHECK(grnnd_estimate_distinct(NULL, 0, 0.5, NULL, NULL).rare == 0, "no rows");
}

/* Rows of rare values add up, whatever the kinds. */
static void
test_distinct_rows(void)
{
	GrnndSeenRow rows[3000];
	GrnndDistinct d;
	double		all = 0;

	/* three rows a value, on one page */
	for (uint32_t i = 0; i < 3000; i++)
		rows[i] = (GrnndSeenRow) {i / 3 * UINT64_C(0x9E3779B97F4A7C15), i / 30};
	d = grnnd_estimate_distinct(rows, 3000, 0.1, NULL, NULL);
	for (uint32_t k = 0; k < d.kinds; k++)
		all += d.kind[k].values * d.kind[k].rows;
	CHECK(fabs(d.rare - 10000) < 1, "%.0f values", d.rare);
	CHECK(fabs(all - 30000) < 3, "%.0f rows", all);
}

int
main(void)
{
	RUN(test_measured);
	RUN(test_gpus_share_parts);
	RUN(test_recall);
	RUN(test_noise);
	RUN(test_distinct);
	RUN(test_distinct_rows);
	UNIT_END();
}
