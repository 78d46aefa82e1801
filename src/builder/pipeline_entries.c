/*
 * pipeline_entries.c - chooses the vertices from which searches start.
 */
#include "builder/pipeline_impl.h"

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "space/space.h"
#include "store/prune.h"

static float
vertex_length(const GrnPipeline *p, uint32_t v)
{
	const void *row = grn_row(&p->rows, v);

	if (p->result->power == 0)
		return sqrtf(grn_form_norm2(p->rows.form, row, p->rows.dim));
	return grn_placed_length(grn_row_scale(&p->rows, row).norm2, p->result->power);
}

/*
 * Replaces some of the entries after the first by the longest rows (space/choose_entries.c), and
 * sorts the entries after the first by length, longest first.
 */
static void
enter_longest(GrnPipeline *p)
{
	GrnBuildResult *r = p->result;
	uint32_t	entries[GRN_MAX_ENTRIES];
	GrnEntryLengths e = {.count = r->nentries};

	for (uint32_t i = 0; i < e.count; i++)
		e.lengths[i] = vertex_length(p, r->entries[i]);
	grn_sort_entries(&e, p->metric->long_entries);
	for (uint32_t v = 0; v < p->rows.n; v++)
	{
		float		length = vertex_length(p, v);
		uint32_t	at = grn_shorter_entry(&e, length);

		if (at == 0 || grn_find_id(r->entries, r->nentries, v) >= 0)
			continue;
		r->entries[at] = v;
		grn_enter_long(&e, length);
	}
	/* Sort by length, longest first. */
	memcpy(entries, r->entries, sizeof(entries));
	for (uint32_t i = 1; i < e.count; i++)
		r->entries[i] = entries[e.order[i - 1]];
}

/* grn_far_entry().  Rows are distinct, so only the entry itself has distance 0. */
static float
entry_distance(void *arg, uint32_t *v)
{
	const GrnPipeline *p = arg;
	float		nearest = INFINITY;

	for (uint32_t e = 0; e < p->result->nentries; e++)
		nearest = fminf(nearest, grn_row_distance(&p->rows, grn_row(&p->rows, *v),
												  grn_row(&p->rows, p->result->entries[e])));
	return nearest;
}

void
grn_pipeline_choose_entries(GrnPipeline *p)
{
	GrnBuildResult *r = p->result;
	uint32_t	m = (uint32_t) p->rows.n;

	grn_pipeline_sample_rows(p, true);
	r->nentries = 0;
	while (m <= GRN_MAX_ENTRIES && r->nentries < m)
	{
		r->entries[r->nentries] = r->nentries;
		r->nentries++;
	}
	if (r->nentries == 0)
		r->entries[r->nentries++] = grn_medoid(&p->rows, p->build->spec->params.seed);
	while (r->nentries < GRN_MAX_ENTRIES && r->nentries < m)
	{
		uint32_t	best = grn_far_entry(p->build->spec->params.seed, r->nentries, m, entry_distance, p);

		if (best == GRN_INVALID_ID)
			break;
		r->entries[r->nentries++] = best;
	}
	grn_pipeline_sample_rows(p, false);
	if (p->metric->long_entries > 0)
		enter_longest(p);
}
