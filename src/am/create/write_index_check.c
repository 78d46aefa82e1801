/*
 * write_index_check.c - checks the builder's result, because the result is the output of another
 * program: its numbers, the places of its arrays, and their contents.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "utils/memutils.h"

#include "am/create/write_index_impl.h"
#include "graph/stored/codec_fit.h"

GRNND_NORETURN void
grnnd_bad_result(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("the index builder's result is invalid: %s", what),
			 errhint("The table is unchanged. If the GPU reports no memory errors, please report this as a bug of grnnd.")));
}

const void *
grnnd_result_array(const GrnndMapping *map, GrnSegment segment, uint64 offset,
				   uint64 count, uint64 size)
{
	if (offset % 4 != 0 || count > UINT64_MAX / size ||
		offset > map->size[segment] || count * size > map->size[segment] - offset)
		grnnd_bad_result("an array lies outside its segment");
	return map->base[segment] + offset;
}

void
grnnd_check_result_numbers(const GrnndBuild *build, const GrnBuildResult *r)
{
	bool		coded = grn_code_bytes(r->shape) > 0;

	if (r->nodes == 0 || r->nodes > build->rows || r->nodes >= GRN_MAX_NODES)
		grnnd_bad_result("impossible number of nodes");
	if (r->degree != build->spec.params.degree)
		grnnd_bad_result("another degree than the one asked for");
	if (grn_form_for(r->form, build->key.type->form) == NULL)
		grnnd_bad_result("unknown vector format");
	if (!grn_shape_sound(r->shape) || (coded && !build->spec.use_codes))
		grnnd_bad_result("impossible shape of codes");
	for (int b = 0; b < GRN_CODE_BLOCKS; b++)
		if (r->shape.dims[b] > 0 && (!(r->steps[b] > 0) || isinf(r->steps[b])))
			grnnd_bad_result("a step of codes is not a positive number");
	if (!(r->norm_unit >= 0) || isinf(r->norm_unit) ||
		((coded || grn_is_scaled(build->key.metric->embedding)) && r->norm_unit == 0) ||
		!(r->held >= 0))
		grnnd_bad_result("a scale is not a positive number");
	if (grn_is_scaled(build->key.metric->embedding) ? !grn_is_power(r->power) : r->power != 0)
		grnnd_bad_result("impossible power of places");
	if (r->centered && !grn_form(r->form)->rotated)
		grnnd_bad_result("a center of vectors that have none");
	if (r->curve.queries > 0)
	{
		/* A query misses at most once at each width. */
		if (!(r->misses.first >= 0 && r->misses.first <= (float) r->curve.queries * GRN_CURVE_POINTS) ||
			!(r->misses.ten >= 0 && r->misses.ten <= (float) r->curve.queries * GRN_CURVE_POINTS))
			grnnd_bad_result("impossible recall");
		for (int i = 0; i < GRN_CURVE_POINTS; i++)
			if (!(r->contrast.at[i] >= 0) || isinf(r->contrast.at[i]))
				grnnd_bad_result("impossible distances");
		for (int i = 0; i < GRN_CURVE_POINTS; i++)
			for (int k = 0; k < GRN_CURVE_KS; k++)
				if (!(r->curve.recall[k][i] >= 0 && r->curve.recall[k][i] <= 1) ||
					!(r->curve.visits[i] >= 0))
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
grnnd_find_result_arrays(GrnndNewIndex *new, const GrnndMapping *map,
						 const GrnBuildResult *r, uint64 nrows)
{
	new->nodes = r->nodes;
	new->nentries = r->nentries;
	new->entries = r->entries;
	new->vectors.base = map->base[GRN_SEG_VECTORS];
	if (r->moved)
	{
		new->own_items = r->own_items != 0;
		if (new->own_items)
		{
			if (r->form != (uint32) new->layout.form)
				grnnd_bad_result("own vectors of another form than records");
			new->vectors.form = (GrnForm) r->form;
			new->vectors.row_bytes = grn_own_item_bytes((GrnForm) r->form, new->meta.dim);
		}
		new->vectors.base = grnnd_result_array(map, GRN_SEG_WORK, r->off_vectors, r->moved,
											   new->vectors.row_bytes);
		new->vectors.n = r->moved;
	}
	new->tids = (const uint64 *) map->base[GRN_SEG_TIDS];
	new->attrs = (uint8 *) map->base[GRN_SEG_ATTRS];
	new->chains = (GrnndChain *) map->base[GRN_SEG_ORDER];
	new->ids = grnnd_result_array(map, GRN_SEG_RESULT, r->off_ids,
								  (uint64) r->nodes * r->degree, sizeof(uint32));
	new->counts = grnnd_result_array(map, GRN_SEG_RESULT, r->off_counts, r->nodes, 1);
	new->row_start = grnnd_result_array(map, GRN_SEG_RESULT, r->off_row_start,
										(uint64) r->nodes + 1, sizeof(uint32));
	new->rows = grnnd_result_array(map, GRN_SEG_RESULT, r->off_rows, nrows, sizeof(uint32));
	if (r->moved)
		new->moved = grnnd_result_array(map, GRN_SEG_RESULT, r->off_moved, r->nodes, sizeof(uint32));
	if (r->centered && grn_form(new->layout.form)->rotated)
		new->center.x = grnnd_result_array(map, GRN_SEG_RESULT, r->off_center, new->meta.dim, sizeof(float));
	/*
	 * If the rows are too few for the builder's codes to be kept, the index has a layout of its
	 * own, without codes.
	 */
	if (grn_code_bytes(r->shape) > 0 && new->meta.fit_state == GRNND_FITTED &&
		memcmp(&r->shape, &new->layout.shape, sizeof(r->shape)) == 0)
	{
		new->codes = grnnd_result_array(map, GRN_SEG_CODES, r->off_codes,
										(uint64) r->nodes * new->layout.code_bytes, 1);
		new->factors = grnnd_result_array(map, GRN_SEG_CODES, r->off_factors, r->nodes,
										  sizeof(GrnFactor));
		new->codec = grnnd_result_array(map, GRN_SEG_CODES, r->off_codec,
										grn_codec_floats(new->meta.dim, grn_code_dims(r->shape)),
										sizeof(float));
	}
}

void
grnnd_check_result_codec(const GrnndNewIndex *new)
{
	size_t		floats = new->codec == NULL ? 0 :
		grn_codec_floats(new->meta.dim, grn_code_dims(new->layout.shape));

	for (size_t i = 0; i < floats; i++)
		if (!isfinite(new->codec[i]))
			grnnd_bad_result("a codec is not finite");
	for (uint32 j = 0; new->center.x != NULL && j < new->meta.dim; j++)
		if (!isfinite(new->center.x[j]))
			grnnd_bad_result("a center is not finite");
}

/*
 * Checks a vertex's list: ids below `nodes`, not the vertex itself, no duplicate.  A bitmap of
 * hashes saves nearly all comparisons of ids.
 */
static void
check_list(const uint32 *ids, uint32 count, uint32 self, uint32 nodes)
{
	uint64		seen[8] = {0};

	for (uint32 i = 0; i < count; i++)
	{
		uint32		id = ids[i];
		uint32		hash = (id * UINT32_C(0x9E3779B1)) >> 23;	/* 9 bits */
		uint64		bit = UINT64_C(1) << (hash & 63);

		if (id >= nodes)
			grnnd_bad_result("a neighbor is not a node");
		if (id == self)
			grnnd_bad_result("a node is its own neighbor");
		if (seen[hash >> 6] & bit)
			for (uint32 j = 0; j < i; j++)
				if (ids[j] == id)
					grnnd_bad_result("a neighbor is there twice");
		seen[hash >> 6] |= bit;
	}
}

void
grnnd_check_result_nodes(const GrnndNewIndex *new, uint32 begin, uint32 end)
{
	for (uint32 i = begin; i < end; i++)
	{
		if (new->counts[i] > new->layout.degree)
			grnnd_bad_result("a node has too many neighbors");
		if (new->moved && new->moved[i] >= new->vectors.n)
			grnnd_bad_result("a node's vector does not exist");
		check_list(new->ids + (uint64) i * new->layout.degree, new->counts[i],
				   i, new->nodes);
	}
}

void
grnnd_check_result_rows(const uint32 *row_start, const uint32 *rows, uint32 nodes, uint64 nrows)
{
	uint64	   *seen;
	const GrnndStretch stretch = {GRN_PHASE_WRITE, nrows, 0, GRNND_ROWS_CHECKED};

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

		grnnd_check_progress(&stretch, i, nrows);
		if (row >= nrows)
			grnnd_bad_result("a node's row does not exist");
		if (seen[row / 64] & bit)
			grnnd_bad_result("a row belongs to two nodes");
		seen[row / 64] |= bit;
	}
	pfree(seen);
}
