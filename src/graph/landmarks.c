/*
 * landmarks.c - chooses rows of each part that become members of all other parts.
 */
#include "graph/cut_impl.h"

#include <math.h>

/*
 * Draws rows of each part's sample one after the other.  The chance of a row is proportional
 * to its squared distance from the rows drawn before (k-means++, Arthur and Vassilvitskii,
 * SODA 2007), so small clusters get landmarks, too.
 */
static void
landmark_range(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;

	(void) worker;
	for (size_t c = begin; c < end; c++)
	{
		size_t		start = c > 0 ? s->ends[c - 1] : 0;
		size_t		n = s->ends[c] - start;
		const uint32_t *rows = s->rows_by_part + start;
		float	   *distances = s->by_part + start;
		size_t		first = (size_t) s->parts->nlandmarks * c / s->nparts;
		size_t		last = (size_t) s->parts->nlandmarks * (c + 1) / s->nparts;

		for (size_t i = 0; i < n; i++)
		{
			distances[i] = 1;
			if (s->sample->on_disk)
				grn_prefetch_rows(s->sample, rows[i], rows[i] + 1);
		}
		for (size_t at = first; at < last; at++)
		{
			double		all = 0;
			double		chance;
			size_t		next = 0;

			for (size_t i = 0; i < n; i++)
				all += (double) distances[i];
			/* No row is left, all equal an earlier landmark, or distances overflow a float. */
			if (!(all > 0 && all < INFINITY))
			{
				s->parts->landmarks[at] = GRN_INVALID_ID;
				continue;
			}
			chance = ldexp((double) grn_random(s->seed, UINT64_C(0x6C616E64), at), -64) * all;
			for (size_t i = 0; i < n && chance >= 0; i++)
			{
				/* A row drawn before has distance 0 and must not be drawn again. */
				next = distances[i] > 0 ? i : next;
				chance -= (double) distances[i];
			}
			s->parts->landmarks[at] = s->numbers[rows[next]];
			for (size_t i = 0; i < n; i++)
			{
				float		d = grn_row_distance(s->rows, grn_row(s->sample, rows[next]),
												 grn_row(s->sample, rows[i]));

				distances[i] = at == first || d < distances[i] ? d : distances[i];
			}
		}
	}
}

void
grn_parts_find_landmarks(const GrnRows *rows, uint32_t nparts, float overlap, uint64_t seed,
						 GrnParallel *parallel, void *workspace, GrnParts *parts)
{
	GrnRows		sample = *rows;
	GrnParts	own;			/* the caller's GrnParts may be in use */
	Split		s = {.rows = rows, .sample = &sample, .parts = &own, .seed = seed};

	grn_cut_place_arrays(&s, workspace, rows->n, rows->dim, nparts, overlap);
	sample.n = grn_cut_sample_size(rows->n, nparts);
	sample.order = s.order;
	grn_cut_sort_by_part(&s);
	own.nlandmarks = grn_parts_landmarks(rows->n, nparts);
	parallel->run(parallel, nparts, 1, landmark_range, &s);
	parts->nlandmarks = own.nlandmarks;
}
