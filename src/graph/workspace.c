/*
 * workspace.c - places the arrays of a build, except the graph's own, in the workspace.
 */
#include "graph/descent.h"

#include "graph/graph.h"
#include "store/group.h"

static uint64_t
larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

size_t
grn_finish_bytes(size_t n)
{
	return larger(grn_reach_bytes(n), GRN_CUT_ORDER_BYTES(n));
}

/* Steps use the scratch space in turn: numbering rows, the codec's fit, the graph's end. */
static uint64_t
scratch_bytes(const GrnWorkNeeds *needs)
{
	GrnCodecFit fit = {.nsample = grn_fitted_rows(needs->dim, needs->nodes), .dim = needs->dim,
		.max_code_dims = needs->code_dims};
	uint64_t	bytes = larger(grn_finish_bytes(needs->nodes), needs->rows * sizeof(uint32_t));

	if (needs->code_dims == 0)
		return bytes;
	return larger(bytes, grn_aligned(fit.nsample * sizeof(uint32_t)) + grn_codec_fit_bytes(&fit));
}

GrnWork
grn_place_work_arrays(const GrnWorkNeeds *needs, char *work)
{
	uint64_t	n = needs->rows;
	uint64_t	m = needs->nodes;
	GrnArena	a = {work, needs->placed_bytes};	/* the rows, which begin at the start of a page */
	GrnWork		w = {0};

	w.vertex_of_rank = grn_take(&a, n, sizeof(uint32_t));
	if (needs->placed_bytes > 0)
	{
		w.order = grn_take(&a, n, sizeof(uint32_t));
		w.own = grn_take(&a, m, needs->own_bytes);
	}
	w.distinct = grn_take(&a, m, sizeof(uint32_t));
	w.position = grn_take(&a, m, sizeof(uint32_t));
	w.factors = grn_take(&a, m, sizeof(GrnFactor));
	w.ids = grn_take(&a, m, needs->degree * sizeof(uint32_t));
	w.counts = grn_take(&a, m, 1);
	w.codes = grn_take(&a, m, needs->code_dims > 0 ? needs->code_bytes : 0);
	w.codec = grn_take(&a, grn_codec_floats(needs->dim, needs->code_dims), sizeof(float));
	if (needs->centered)
		w.center = grn_take(&a, needs->dim, sizeof(float));
	w.kept_bytes = a.used;
	w.scratch = grn_take(&a, 1, scratch_bytes(needs));
	w.bytes = a.used;
	return w;
}
