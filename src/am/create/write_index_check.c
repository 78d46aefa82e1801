/*
 * write_index_check.c - checks the builder's result, because the result is the output of another
 * program: its numbers, the places of its arrays, and their contents.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "utils/memutils.h"

#include "am/create/write_index_impl.h"
#include "store/codec.h"

GRNND_NORETURN void
grnnd_bad_result(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("the index builder's result is invalid: %s", what),
			 errhint("The table is unchanged. If the GPU reports no memory errors, please report this as a bug of grnnd.")));
}

GrnResultArrays
grnnd_result_arrays(const GrnndMapping *map, const GrnBuildResult *r, uint64 rows, uint32 dim, bool near)
{
	GrnResultArrays at = grn_result_arrays(r, rows, dim, near, map->base[GRN_SEG_RESULT]);

	if (at.bytes > map->size[GRN_SEG_RESULT])
		grnnd_bad_result("an array lies outside its segment");
	return at;
}

void
grnnd_check_result_numbers(const GrnndBuild *build, const GrnBuildResult *r)
{
	bool		coded = grn_code_bytes(r->shape) > 0;

	if (r->nodes == 0 || r->nodes > build->rows || r->nodes >= GRN_MAX_NODES)
		grnnd_bad_result("impossible number of nodes");
	if (r->degree != build->spec.params.degree && (coded || r->degree != build->spec.bare_degree))
		grnnd_bad_result("another degree than the one asked for");
	if (!isfinite(r->params.rho))
		grnnd_bad_result("a parameter of the graph is not a number");
	if (grn_form_for(r->form, build->key.type->form) == NULL)
		grnnd_bad_result("unknown vector format");
	if (!grn_shape_sound(r->shape) || (coded && !build->spec.use_codes))
		grnnd_bad_result("impossible shape of codes");
	for (int b = 0; b < GRN_CODE_BLOCKS; b++)
		if (!isfinite(r->steps[b]) || (r->shape.dims[b] > 0 && r->steps[b] <= 0))
			grnnd_bad_result("a step of codes is not a positive number");
	if (!isfinite(r->norm_unit) || r->norm_unit < 0 ||
		((coded || grn_is_scaled(build->key.metric->embedding)) && r->norm_unit == 0) ||
		!isfinite(r->held) || r->held < 0)
		grnnd_bad_result("a scale is not a positive number");
	if (build->key.metric->power > 0 ? !grn_is_power(r->power) : r->power != 0)
		grnnd_bad_result("impossible power of places");
	if (r->centered && !grn_form(r->form)->rotated)
		grnnd_bad_result("a center of vectors that have none");
	for (int i = 0; i < GRN_CURVE_POINTS; i++)
	{
		if (!isfinite(r->contrast.at[i]) || r->contrast.at[i] < 0)
			grnnd_bad_result("impossible distances");
		if (!isfinite(r->curve.visits[i]) || r->curve.visits[i] < 0)
			grnnd_bad_result("impossible recall");
		for (int k = 0; k < GRN_CURVE_KS; k++)
			if (!(r->curve.recall[k][i] >= 0 && r->curve.recall[k][i] <= 1))
				grnnd_bad_result("impossible recall");
	}
	if (r->nentries == 0 || r->nentries > GRN_MAX_ENTRIES)
		grnnd_bad_result("impossible number of entry points");
	for (uint32 i = 0; i < r->nentries; i++)
	{
		if (r->entries[i] >= r->nodes)
			grnnd_bad_result("an entry point is not a node");
		for (uint32 j = 0; j < i; j++)
			if (r->entries[j] == r->entries[i])
				grnnd_bad_result("an entry point is there twice");
	}
}

void
grnnd_find_result_arrays(GrnndNewIndex *new, const GrnndMapping *map)
{
	const GrnBuildResult *r = &new->plan.result;

	new->nodes = r->nodes;
	new->tids = (const uint64 *) map->base[GRN_SEG_TIDS];
	new->attrs = (uint8 *) map->base[GRN_SEG_ATTRS];
	new->chains = (GrnndChain *) map->base[GRN_SEG_ORDER];
	new->built = grnnd_result_arrays(map, r, new->plan.rows, new->plan.meta.dim, false);
	if (!grn_form(new->layout.form)->rotated)
		new->built.center = NULL;
	/*
	 * If the rows are too few for the builder's codes to be kept, the index has a layout of its
	 * own, without codes.
	 */
	if (new->plan.meta.fit_state != GRNND_FITTED || memcmp(&r->shape, &new->layout.shape, sizeof(r->shape)) != 0)
	{
		new->built.codes = NULL;
		new->built.factors = NULL;
		new->built.codec = NULL;
	}
}

void
grnnd_check_result_codec(const GrnndNewIndex *new)
{
	size_t		floats = new->built.codec == NULL ? 0 :
		grn_codec_floats(new->plan.meta.dim, grn_code_dims(new->layout.shape));

	for (size_t i = 0; i < floats; i++)
		if (!isfinite(new->built.codec[i]))
			grnnd_bad_result("a codec is not finite");
	for (uint32 j = 0; new->built.center != NULL && j < new->plan.meta.dim; j++)
		if (!isfinite(new->built.center[j]))
			grnnd_bad_result("a center is not finite");
}

void
grnnd_check_result_rows(const uint32 *row_start, const uint32 *rows, uint32 nodes, uint64 nrows)
{
	uint64	   *seen;

	if (row_start[0] != 0 || row_start[nodes] != nrows)
		grnnd_bad_result("not every row belongs to a node");
	for (uint32 i = 0; i < nodes; i++)
		if (row_start[i] >= row_start[i + 1])
			grnnd_bad_result("a node has no row");
	CHECK_FOR_INTERRUPTS();

	seen = MemoryContextAllocExtended(CurrentMemoryContext, nrows / 64 * 8 + 8,
									  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (uint64 i = 0; i < nrows; i++)
	{
		uint32		row = rows[i];
		uint64		bit = UINT64_C(1) << (row % 64);

		grnnd_check_cancel(i);
		if (row >= nrows)
			grnnd_bad_result("a node's row does not exist");
		if (seen[row / 64] & bit)
			grnnd_bad_result("a row belongs to two nodes");
		seen[row / 64] |= bit;
	}
	pfree(seen);
}
