/*
 * gpu_standin_cuts.h - the stand-in's order of rows by cuts, in plain C.
 */
#ifndef GPU_STANDIN_CUTS_H
#define GPU_STANDIN_CUTS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CUT_SAMPLE 256
#define CUT_STEPS 4				/* of 2-means */

typedef struct CutRow
{
	float		along;
	uint32_t	row;
} CutRow;

static int
by_along(const void *a, const void *b)
{
	const CutRow *x = a;
	const CutRow *y = b;

	return x->along != y->along ? (x->along > y->along) - (x->along < y->along) : (x->row > y->row) - (x->row < y->row);
}

/* Cuts n of the rows x [.][dim] in two, again and again, down to pages; means: [2][dim] scratch. */
static void
cut_rows(const float *x, uint32_t dim, CutRow *rows, uint32_t n, uint32_t pages, uint32_t per_page, float *means)
{
	uint32_t	few = n < CUT_SAMPLE ? n : CUT_SAMPLE;
	uint32_t	half = pages / 2 * per_page;

	if (pages < 2)
		return;
	for (int step = 0; step < CUT_STEPS; step++)
	{
		double		middle = 0;
		uint32_t	counts[2] = {0};

		memset(means, 0, 2 * dim * sizeof(*means));
		for (uint32_t i = 0; i < few; i++)
			middle += rows[(uint64_t) n * i / few].along / few;
		for (uint32_t i = 0; i < few; i++)
		{
			const CutRow *of = &rows[(uint64_t) n * i / few];
			/* the first row and all others, to begin with */
			uint32_t	above = step == 0 ? i == 0 : of->along > middle;

			counts[above]++;
			for (uint32_t j = 0; j < dim; j++)
				means[above * dim + j] += x[(size_t) of->row * dim + j];
		}
		if (counts[0] == 0 || counts[1] == 0)
			break;
		for (uint32_t j = 0; j < dim; j++)
			means[j] = means[dim + j] / counts[1] - means[j] / counts[0];
		for (uint32_t i = 0; i < n; i++)
		{
			rows[i].along = 0;
			for (uint32_t j = 0; j < dim; j++)
				rows[i].along += means[j] * x[(size_t) rows[i].row * dim + j];
		}
	}
	qsort(rows, n, sizeof(*rows), by_along);
	cut_rows(x, dim, rows, half, pages / 2, per_page, means);
	cut_rows(x, dim, rows + half, n - half, pages - pages / 2, per_page, means);
}

/* position [n] of rows x [n][dim], such that near ones share pages. */
static void
order_by_cuts(const float *x, uint32_t n, uint32_t dim, uint32_t per_page, uint32_t *position)
{
	CutRow	   *rows = calloc(n, sizeof(*rows));
	float	   *means = malloc(2 * dim * sizeof(*means));

	for (uint32_t v = 0; v < n; v++)
		rows[v].row = v;
	cut_rows(x, dim, rows, n, (n - 1) / per_page + 1, per_page, means);
	for (uint32_t i = 0; i < n; i++)
		position[rows[i].row] = i;
	free(means);
	free(rows);
}

#endif							/* GPU_STANDIN_CUTS_H */
