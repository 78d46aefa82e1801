/*
 * medoid.c - finds the row in the middle: the row of a sample that is nearest to the sample's
 * mean.
 */
#include "graph/graph.h"

#include <math.h>

/*
 * Rows of the sample.  With half and four times, the graphs of 20,000 sentences, normal rows and
 * rows in tight clusters are the same.
 */
#define MEDOID_SAMPLE 4096

/* Returns row i of a sample of m of n rows.  One row is drawn from each of m equal ranges. */
static uint32_t
sample_row(size_t n, size_t m, uint64_t seed, size_t i)
{
	size_t		low = n * i / m;
	size_t		high = n * (i + 1) / m;

	return (uint32_t) (low + grn_random(seed, UINT64_C(0x6D65646F), i) % (high - low));
}

uint32_t
grn_medoid(const GrnRows *rows, uint64_t seed)
{
	size_t		m = rows->n < MEDOID_SAMPLE ? rows->n : MEDOID_SAMPLE;
	double		mean[GRN_MOST_DIMS] = {0};
	float		place[GRN_MOST_DIMS];
	float		least = INFINITY;
	uint32_t	medoid = GRN_INVALID_ID;

	for (size_t i = 0; i < m && rows->on_disk; i++)
		grn_prefetch_rows(rows, sample_row(rows->n, m, seed, i), sample_row(rows->n, m, seed, i) + 1);
	for (size_t i = 0; i < m; i++)
	{
		grn_row_place(rows, grn_row(rows, sample_row(rows->n, m, seed, i)), 0, rows->dim, place);
		for (uint32_t j = 0; j < rows->dim; j++)
			mean[j] += place[j];
	}
	for (uint32_t j = 0; j < rows->dim && m > 0; j++)
		mean[j] /= (double) m;
	for (size_t i = 0; i < m; i++)
	{
		uint32_t	row = sample_row(rows->n, m, seed, i);
		float		d = 0;

		grn_row_place(rows, grn_row(rows, row), 0, rows->dim, place);
		for (uint32_t j = 0; j < rows->dim; j++)
		{
			float		e = place[j] - (float) mean[j];

			d += e * e;
		}
		if (d < least || medoid == GRN_INVALID_ID)
		{
			least = d;
			medoid = row;
		}
	}
	return medoid;
}
