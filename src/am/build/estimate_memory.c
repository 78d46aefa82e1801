/*
 * estimate_memory.c - what a build that is to come takes of memory and of a temporary file.
 */
#include "postgres.h"

#include <math.h>

#include "am/build/collect.h"
#include "am/build/estimate_memory.h"
#include "graph/build/descent.h"

/* A row in the search for duplicates, of however few nodes. */
#define DUPLICATE_BYTES 20

double
grnnd_cores_work(const GrnndBuild *build, double rows, double nodes)
{
	const GrnBuildSpec *spec = &build->spec;
	const GrnBuildResult *r = &build->builder.result;
	GrnLayoutSpec of = grn_result_layout_spec(spec, r);
	GrnRows		like = {.dim = spec->dim, .form = (GrnForm) spec->form};
	GrnCodeCosts costs;
	double		of_node;

	/* what lay_out_work() keeps beside it (src/builder/pipeline.c), but for the codec */
	grn_layout_code_costs_of(&of, &costs);
	of_node = 2 * sizeof(uint32) + sizeof(GrnFactor) + r->degree * sizeof(uint32) + 1 +
		(spec->use_codes ? grn_most_code_bytes(&costs) : 0);
	return rows * sizeof(uint32) + nodes * of_node +
		(double) grn_rnnd_bytes(&spec->params, (size_t) nodes, grn_copied_dims(&like));
}

/* The segments, as grnnd_mapping_grow() lengthens them. */
typedef struct Segments
{
	uint64		size[GRN_NSEGMENTS];
	uint64		left;			/* of memory that they may have */
	GrnndBuildMemory taken;
} Segments;

static void
grow(Segments *s, GrnSegment segment, double bytes)
{
	while ((double) s->size[segment] < bytes)
	{
		uint64		piece = grnnd_next_piece(s->size[segment], (uint64) ceil(bytes), UINT64_MAX, s->left);

		s->size[segment] += piece;
		if (s->left == 0)
			s->taken.disk += (double) piece;
		else
		{
			s->taken.memory += (double) piece;
			s->left -= piece;
		}
	}
}

GrnndBuildMemory
grnnd_build_memory(const GrnndBuild *build, const GrnLayout *layout, const GrnndMemoryNeeds *needs)
{
	double		of_row = grnnd_row_bytes(build->attrs);
	uint32		factor_bytes = layout->code_bytes > 0 ? sizeof(GrnFactor) : 0;
	double		rows = needs->rows;
	uint32		chunk = grnnd_chunk_rows(build->row_bytes);
	Segments	s = {.left = build->map->memory_limit};

	for (double n = 0; n < rows; n += chunk)
	{
		double		end = Min(n + chunk, rows);

		grow(&s, GRN_SEG_VECTORS, end * build->row_bytes);
		grow(&s, GRN_SEG_TIDS, end * sizeof(uint64));
		grow(&s, GRN_SEG_ATTRS, end * of_row);
	}
	grow(&s, GRN_SEG_ORDER, rows * sizeof(uint32));
	if (build->map->size[GRN_SEG_VALUES] > 0)
		grow(&s, GRN_SEG_VALUES, rows * build->spec.sig_bytes);
	grow(&s, GRN_SEG_WORK, rows * DUPLICATE_BYTES);
	grow(&s, GRN_SEG_WORK, needs->work_bytes);
	grow(&s, GRN_SEG_RESULT, needs->nodes * (layout->degree * sizeof(uint32) + 1 + sizeof(uint32)) +
		 rows * sizeof(uint32));
	grow(&s, GRN_SEG_CODES, needs->nodes * (layout->code_bytes + factor_bytes));
	if (needs->filter_bytes > 0)
		grow(&s, GRN_SEG_ATTRS, rows * of_row + needs->filter_bytes);
	return s.taken;
}
