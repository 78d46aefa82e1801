/*
 * prepare.c - the first pass over collected rows: checks that all values are finite, finds the
 * smallest exact form, writes the scales of scaled rows (space.h), and computes hashes.
 */
#include "builder/prepare.h"

#include <math.h>
#include <string.h>

#include "builder/host.h"
#include "graph/graph.h"
#include "memory/memory.h"
#include "space/space.h"

static void
scan_range(void *arg, int worker, size_t begin, size_t end)
{
	GrnPrepare *p = arg;
	float		most = 0;
	uint32_t	forms = 0;
	uint32_t	bits;
	uint32_t	seen;
	uint32_t	dim = p->rows->dim;
	size_t		bytes = grn_form_bytes(p->rows->form, dim);
	/* rows of a form that holds no floats keep the form */
	bool		chooses = grn_form(p->rows->form)->holds != NULL;
	float		scratch[GRN_MOST_DIMS];

	begin += p->first;
	end += p->first;
	if (p->ahead)
		grn_prefetch_rows(p->rows, begin, end);
	for (size_t i = begin; i < end; i++)
	{
		const float *x = grn_row_query(p->rows, grn_row(p->rows, i), scratch);
		double		norm2 = grn_query_norm2(p->rows->form, x, dim);

		if (p->hashes != NULL)
			p->hashes[i - p->first] = grn_hash_row(grn_row(p->rows, i), bytes);
		/* The square of a finite float is in the range of doubles. */
		if (!isfinite(norm2))
		{
			size_t		bad = __atomic_load_n(&p->bad, __ATOMIC_RELAXED);

			while (i < bad &&
				   !__atomic_compare_exchange_n(&p->bad, &bad, i, false,
												__ATOMIC_RELAXED, __ATOMIC_RELAXED))
				;
			return;
		}
		if (grn_is_scaled(p->rows->embedding))
		{
			int			octave = grn_octave(norm2);

			if (octave != GRN_NO_OCTAVE)
				__atomic_fetch_add(&p->octaves[octave], 1, __ATOMIC_RELAXED);
		}
		/* rounded up, so that no row's norm exceeds the largest */
		if (norm2 > most)
			most = nextafterf((float) norm2, INFINITY);
		if (chooses && !(forms & (1u << GRN_FORM_WIDEST | 1u << p->rows->form)))
			forms |= 1u << grn_form_smallest(x, dim);
	}
	if (p->also != NULL)
		p->also(p->arg, worker, begin, end);
	__atomic_fetch_or(&p->forms, forms, __ATOMIC_RELAXED);
	memcpy(&bits, &most, sizeof(bits));
	seen = __atomic_load_n(&p->max_norm2, __ATOMIC_RELAXED);
	while (bits > seen &&
		   !__atomic_compare_exchange_n(&p->max_norm2, &seen, bits, false,
										__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void
scale_range(void *arg, int worker, size_t begin, size_t end)
{
	GrnPrepare *p = arg;
	uint32_t	dim = p->rows->dim;
	float		scratch[GRN_MOST_DIMS];

	(void) worker;
	if (p->ahead)
		grn_prefetch_rows(p->rows, begin, end);
	for (size_t i = begin; i < end; i++)
	{
		uint8_t    *row = (uint8_t *) grn_row(p->rows, i);
		GrnScale	s = grn_scale(grn_query_norm2(p->rows->form, grn_row_query(p->rows, row, scratch), dim),
								  p->norm_unit, p->power);

		memcpy(row + grn_row_scale_offset(p->rows), &s, sizeof(s));
	}
}

void
grn_prepare_begin(GrnPrepare *p)
{
	p->bad = p->rows->n;
}

bool
grn_prepare_stretch(GrnPrepare *p, size_t first, size_t n, GrnParallel *parallel, size_t grain,
					GrnFailure *failure)
{
	p->first = first;
	parallel->run(parallel, n, grain, scan_range, p);
	if (p->bad < p->rows->n)
		return grn_fail(failure, "22000", "Vectors must hold finite numbers.",
						"row %zu holds a value that is NaN or infinite", p->bad + 1);
	return true;
}

/* Bytes of the rows that the power is chosen by. */
#define POWER_BYTES ((size_t) 16 << 20)

/* The power of places by rows spread over `order`, or the usual power if memory is short. */
static float
choose_power(const GrnRows *rows, const uint32_t *order, const GrnMetricInfo *metric, double norm_unit,
			 GrnParallel *parallel)
{
	size_t		n = POWER_BYTES / (rows->dim * sizeof(float));
	float	   *x;
	float	   *work;
	float		power = metric->power;
	float		scratch[GRN_MOST_DIMS];

	n = n < GRN_POWER_ROWS ? n : GRN_POWER_ROWS;
	n = n < rows->n ? n : rows->n;
	if (!metric->unit_of_rows || power == 0)
		return power;
	x = grn_alloc(n * rows->dim * sizeof(float) + 1);
	work = grn_alloc(n * n * sizeof(float) + 1);
	for (size_t i = 0; i < n && x != NULL; i++)
	{
		size_t		at = i * rows->n / n;

		memcpy(x + i * rows->dim, grn_row_values(rows, grn_row(rows, order ? order[at] : at), scratch),
			   rows->dim * sizeof(float));
	}
	if (x != NULL && work != NULL)
		power = grn_choose_power(x, rows->dim, (uint32_t) n, rows->dim, norm_unit, power, work, parallel);
	grn_free(x);
	grn_free(work);
	return power;
}

bool
grn_prepare_end(GrnPrepare *p, const GrnRows *rows, const uint32_t *order, const GrnMetricInfo *metric,
				GrnParallel *parallel, GrnPrepared *out, GrnFailure *failure)
{
	float		max_norm2;

	memcpy(&max_norm2, &p->max_norm2, sizeof(max_norm2));
	if (!isfinite(max_norm2))
		return grn_fail(failure, "22003", "Scale the vectors down.",
						"the squared length of a vector is out of range");
	*out = (GrnPrepared) {.form = grn_rows_form(p->forms, p->rows->form)};
	if (!grn_is_scaled(rows->embedding))
		return true;
	p->rows = rows;
	p->norm_unit = grn_metric_norm_unit(metric, p->octaves);
	p->power = out->power = choose_power(rows, order, metric, p->norm_unit, parallel);
	out->norm_unit = (float) p->norm_unit;
	parallel->run(parallel, rows->n, GRN_GRAIN, scale_range, p);
	return true;
}

bool
grn_prepare(const GrnRows *rows, const uint32_t *order, const GrnMetricInfo *metric, GrnParallel *parallel,
			uint64_t *hashes, GrnPrepared *out, GrnFailure *failure)
{
	GrnPrepare	p = {.rows = rows, .hashes = hashes};

	grn_prepare_begin(&p);
	return grn_prepare_stretch(&p, 0, rows->n, parallel, GRN_GRAIN, failure) &&
		grn_prepare_end(&p, rows, order, metric, parallel, out, failure);
}
