/*
 * medoid.c - finds the row in the middle: the row of a sample that is nearest to the sample's
 * mean.
 */
#include "graph/medoid.h"

#include <math.h>
#include <string.h>

/* Half and twice: recall within .0005 at ef 40 of 20,000 sentences and image patches. */
#define MEDOID_SAMPLE 16384
#define MEDOID_ON_DISK 4096		/* rows of the sample if memory does not hold the rows */
#define MEAN_PIECE 64			/* dimensions of the mean that one worker computes */
#define MEDOID_PIECE 1024		/* rows that one worker compares with the mean */

typedef struct Medoid
{
	const GrnRows *rows;
	size_t		nsample;
	uint64_t	seed;
	float		best[MEDOID_SAMPLE / MEDOID_PIECE];
	uint32_t	best_row[MEDOID_SAMPLE / MEDOID_PIECE];
	double		mean[GRN_MOST_DIMS];
} Medoid;

/* Returns row i of the sample.  One row is drawn from each of nsample equal ranges. */
static uint32_t
sample_row(const Medoid *m, size_t i)
{
	size_t		low = m->rows->n * i / m->nsample;
	size_t		high = m->rows->n * (i + 1) / m->nsample;

	return (uint32_t) (low + grn_random(m->seed, UINT64_C(0x6D65646F), i) % (high - low));
}

/* Computes coordinates [begin, end) of the mean.  Each sum has one fixed order. */
static void
mean_range(void *arg, int worker, size_t begin, size_t end)
{
	Medoid	   *m = arg;

	(void) worker;
	for (size_t j = begin; j < end; j++)
		m->mean[j] = 0;
	for (size_t i = 0; i < m->nsample; i++)
	{
		const void *x = grn_row(m->rows, sample_row(m, i));
		float		place[MEAN_PIECE];

		grn_row_place(m->rows, x, begin, end - begin, place);
		for (size_t j = begin; j < end; j++)
			m->mean[j] += place[j - begin];
	}
	for (size_t j = begin; j < end; j++)
		m->mean[j] /= (double) m->nsample;
}

static void
nearest_range(void *arg, int worker, size_t begin, size_t end)
{
	Medoid	   *m = arg;

	float		place[GRN_MOST_DIMS];

	(void) worker;
	for (size_t piece = begin; piece < end; piece++)
	{
		size_t		stop = (piece + 1) * MEDOID_PIECE;

		m->best[piece] = INFINITY;
		m->best_row[piece] = GRN_INVALID_ID;
		if (stop > m->nsample)
			stop = m->nsample;
		for (size_t i = piece * MEDOID_PIECE; i < stop; i++)
		{
			uint32_t	row = sample_row(m, i);
			float		d = 0;

			grn_row_place(m->rows, grn_row(m->rows, row), 0, m->rows->dim, place);
			for (uint32_t j = 0; j < m->rows->dim; j++)
			{
				float		e = place[j] - (float) m->mean[j];

				d += e * e;
			}
			if (d < m->best[piece] || m->best_row[piece] == GRN_INVALID_ID)
			{
				m->best[piece] = d;
				m->best_row[piece] = row;
			}
		}
	}
}

uint32_t
grn_medoid(const GrnRows *rows, GrnParallel *parallel, uint64_t seed)
{
	Medoid		m;
	size_t		pieces;
	size_t		best = 0;

	if (rows->n == 0)
		return GRN_INVALID_ID;
	m.rows = rows;
	m.seed = seed;
	m.nsample = rows->on_disk ? MEDOID_ON_DISK : MEDOID_SAMPLE;
	if (m.nsample > rows->n)
		m.nsample = rows->n;
	for (size_t i = 0; i < m.nsample && rows->on_disk; i++)
		grn_prefetch_rows(rows, sample_row(&m, i), sample_row(&m, i) + 1);
	pieces = (m.nsample + MEDOID_PIECE - 1) / MEDOID_PIECE;
	parallel->run(parallel, rows->dim, MEAN_PIECE, mean_range, &m);
	parallel->run(parallel, pieces, 1, nearest_range, &m);
	for (size_t i = 1; i < pieces; i++)
		if (m.best[i] < m.best[best])
			best = i;
	return m.best_row[best];
}
