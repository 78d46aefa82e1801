/*
 * moved.h - for tests of builds whose rows have moved: what the result has of each row.
 */
#ifndef MOVED_H
#define MOVED_H

#include "leader.h"

/* What lies in WORK of row x: the row, or what records keep of it. */
static inline bool
is_moved_row(const Leader *l, uint32_t at, const float *x)
{
	const GrnBuildResult *r = &l->last.u.result;
	const char *vectors = l->base[GRN_SEG_WORK] + r->off_vectors;
	GrnLayout	layout;
	GrnCenter	center;
	char	   *item;
	size_t		bytes;
	bool		same;

	if (!r->own_items)
		return memcmp(vectors + (uint64_t) at * l->spec.row_bytes, x, l->spec.dim * sizeof(float)) == 0;
	grn_result_layout(&layout, &l->spec, r);
	grn_layout_set_center(&layout, &center, grn_metric(l->spec.metric)->comparison, built_by(l).center);
	bytes = grn_own_item_bytes(layout.form, layout.dim);
	item = calloc(1, bytes);
	grn_own_item_make(&layout, x, item);
	same = memcmp(vectors + at * bytes, item, layout.vec_bytes) == 0 &&
		grn_own_item_error(layout.form, layout.dim, vectors + at * bytes) ==
		grn_own_item_error(layout.form, layout.dim, item);
	free(item);
	return same;
}

/*
 * Rows that have moved: the result names each once.  Then they are where they were, for other
 * checks.
 */
static inline void
take_back(Leader *l, uint32_t n, FillFn fill)
{
	const GrnBuildResult *r = &l->last.u.result;
	GrnResultArrays at = built_by(l);
	const uint32_t *order = (const uint32_t *) l->base[GRN_SEG_ORDER];
	const uint32_t *start = at.row_start;
	const uint32_t *rows = at.rows;
	const uint32_t *moved = at.moved;
	uint32_t   *rank = malloc(n * sizeof(uint32_t));
	uint8_t    *taken = calloc(n, 1);
	uint32_t	elsewhere = 0;
	uint32_t	dim = l->spec.dim;
	float		x[GRN_MOST_DIMS];

	for (uint32_t i = 0; i < n; i++)
		rank[order[i]] = i;
	for (uint32_t v = 0; r->moved && v < r->nodes; v++)
	{
		CHECK(moved[v] < r->moved && r->moved <= n && !taken[moved[v]], "node %u: row %u", v, moved[v]);
		taken[moved[v]] = 1;
		fill(x, rank[rows[start[v]]], dim);
		CHECK(is_moved_row(l, moved[v], x), "node %u has another row", v);
		elsewhere += moved[v] != rows[start[v]];
	}
	CHECK(!r->moved || elsewhere > r->nodes / 2, "%u of %u rows moved", elsewhere, r->nodes);
	for (uint32_t i = 0; i < n; i++)
	{
		fill(x, i, dim);
		memcpy(l->base[GRN_SEG_VECTORS] + (uint64_t) order[i] * l->spec.row_bytes, x, dim * sizeof(float));
	}
	free(rank);
	free(taken);
}

#endif							/* MOVED_H */
