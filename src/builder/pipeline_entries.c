/*
 * pipeline_entries.c - the vertices from which searches start.
 */
#include "builder/pipeline_impl.h"

#include <math.h>

#include "graph/build/medoid.h"
#include "graph/space.h"

#define ENTRY_TRIES 8			/* random vertices from which an entry is chosen */

/* |y|^2 of a vertex's place: the longer the row, the less.  Zero counts as short. */
static float
place_norm2(const GrnPipeline *p, uint32_t v)
{
	float		norm2 = grn_row_scale(&p->rows, grn_row(&p->rows, v)).norm2;

	return norm2 > 0 ? norm2 : INFINITY;
}

/* Puts v at or before entries[i], where it comes by place_norm2(). */
static void
sort_entry(const GrnPipeline *p, uint32_t i, uint32_t v)
{
	uint32_t   *entries = p->result->entries;

	for (; i > 1 && place_norm2(p, entries[i - 1]) > place_norm2(p, v); i--)
		entries[i] = entries[i - 1];
	entries[i] = v;
}

/*
 * Some entry points after the first are the longest rows (GrnMetricInfo.long_entries), as
 * src/am/write/entry_points.c keeps it and says why.  There lengths are known from factors, here
 * places from rows.
 */
static void
enter_longest(GrnPipeline *p)
{
	GrnBuildResult *r = p->result;
	uint32_t	most = p->metric->long_entries;
	uint32_t	last = r->nentries - 1 < most ? r->nentries - 1 : most;

	if (last == 0)
		return;
	for (uint32_t i = 2; i < r->nentries; i++)
		sort_entry(p, i, r->entries[i]);
	for (uint32_t v = 0; v < p->rows.n; v++)
	{
		bool		is_entry = false;

		if (place_norm2(p, v) * GRN_PLACE_LONGER >= place_norm2(p, r->entries[last]))
			continue;
		for (uint32_t i = 0; i < last; i++)
			is_entry = is_entry || r->entries[i] == v;
		if (!is_entry)
			sort_entry(p, last, v);
	}
}

void
grn_pipeline_choose_entries(GrnPipeline *p)
{
	GrnBuildResult *r = p->result;
	uint32_t	m = (uint32_t) p->rows.n;

	r->entries[0] = grn_medoid(&p->rows, p->parallel, r->params.seed);
	r->nentries = 1;
	while (r->nentries < GRN_MAX_ENTRIES && r->nentries < m)
	{
		uint32_t	best = GRN_INVALID_ID;
		float		best_distance = 0;

		for (uint32_t try = 0; try < ENTRY_TRIES; try++)
		{
			uint32_t	v = (uint32_t) (grn_random(r->params.seed, UINT64_C(0x656E7472),
												   r->nentries * ENTRY_TRIES + try) % m);
			float		nearest = -1;

			for (uint32_t i = 0; i < r->nentries; i++)
			{
				float		d = grn_row_distance(&p->rows, grn_row(&p->rows, v),
												 grn_row(&p->rows, r->entries[i]));

				if (nearest < 0 || d < nearest)
					nearest = d;
			}
			/* rows are distinct, so only an entry itself has distance 0 */
			if (nearest > best_distance)
			{
				best_distance = nearest;
				best = v;
			}
		}
		if (best == GRN_INVALID_ID)
			break;
		r->entries[r->nentries++] = best;
	}
	if (p->metric->long_entries > 0)
		enter_longest(p);
}
