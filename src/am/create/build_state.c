/*
 * build_state.c - the state of an index build: its settings, its memory, and its end.
 */
#include "am/create/create.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "am/write/write.h"
#include "space/rows.h"

/* Largest address space of a segment.  A process has 128 TB in all. */
#define SEGMENT_LIMIT (UINT64_C(16) << 40)

/* Address space for the builder's workspace and results, in bytes a row. */
#define WORK_BYTES_PER_ROW 16384
#define RESULT_BYTES_PER_ROW 768
/*
 * Bytes a row and filter column in LISTS: a signature, and of the list's entry node, rank, places
 * and part of a group.
 */
#define LIST_BYTES_PER_COLUMN 128
#define SEGMENT_SLACK (UINT64_C(256) << 20)

/*
 * The form in which records keep own vectors.  L1 distances from a few bits of rotated rows are too
 * inexact.
 */
static GrnKeep
layout_of(const GrnndBuild *build)
{
	GrnKeep		keep = (GrnKeep) build->options.layout;

	if (keep == GRN_KEEP_EXACT || grn_form(build->key.type->form)->sparse)
		return GRN_KEEP_EXACT;
	if (!grn_rotated_serves(build->key.metric->comparison))
		return GRN_KEEP_BYTES;
	return keep;
}

void
grnnd_set_devices(GrnBuildSpec *spec)
{
	grnnd_check_settings();
	spec->device = grnnd_build_device;
	spec->threads = grnnd_build_threads > 0 ? grnnd_build_threads :
		max_parallel_maintenance_workers + 1;
	spec->work_limit = (uint64) grnnd_build_memory_limit * 1024 * 1024;
	spec->gpu_memory_limit = (uint64) grnnd_gpu_memory_limit * 1024 * 1024;
	strlcpy(spec->gpu_devices, grnnd_gpu_devices ? grnnd_gpu_devices : "",
			sizeof(spec->gpu_devices));
}

void
grnnd_build_init(GrnndBuild *build, GrnndKey key, const GrnndAttrs *attrs,
				 Form_pg_attribute column, const GrnndOptions *options)
{
	GrnBuildSpec *spec = &build->spec;
	GrnLayoutSpec layout;
	int32		typmod = column->atttypmod;

	memset(build, 0, sizeof(*build));
	build->builder.sock = -1;
	build->key = key;
	build->attrs = attrs;
	if (options == NULL)
		options = (GrnndOptions *) grnnd_options((Datum) 0, false);
	build->options = *options;

	/* For a domain over a type, the typmod of the domain. */
	if (getBaseTypeAndTypmod(column->atttypid, &typmod) == VARBITOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("type %s is not supported by a grnnd index", format_type_be(VARBITOID)),
				 errhint("Its values differ in length. Give the column the type bit(n), or index an expression cast to bit(n).")));
	if (typmod < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("column does not have dimensions"),
				 errhint("Declare the number of dimensions with ALTER TABLE ... ALTER COLUMN ... TYPE %s(128), or index an expression cast to such a type.",
						 build->key.type->name)));
	if (typmod > build->key.type->max_dim)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("column cannot have more than %d dimensions for a grnnd index",
						build->key.type->max_dim),
				 errhint("Index an expression of fewer dimensions, such as substring() of bits.")));
	build->column_dim = (uint32) typmod;
	build->dim = (uint32) grnnd_graph_dim(&build->key, typmod);
	/*
	 * Sparse rows vary alike in very many directions, so codes do not pay.
	 *
	 * Compact records keep 24 edges without codes instead of 10 edges with codes: half the bytes,
	 * and higher recall (420,000 lines of source code: .950 at ef 40 instead of .799).
	 *
	 * By L1 and Jaccard codes would estimate distances of the surrogate.  Scans by such estimates
	 * visit two to four times ef records: histograms by L1 take four times as long at recall .99,
	 * in five times the bytes (test/bench/decisions.md).
	 */
	if (grn_form(build->key.type->form)->sparse || build->options.layout == GRN_KEEP_COMPACT ||
		(build->key.metric->surrogate_beam > 0 &&
		 grn_own_shape(build->key.metric, (GrnForm) build->key.type->form, build->dim).own == 0))
		build->options.codes = false;

	spec->version = GRN_PROTOCOL_VERSION;
	spec->metric = build->key.metric->id;
	spec->dim = build->dim;
	spec->form = build->key.type->form;
	spec->row_bytes = grn_row_bytes(build->key.type->form, build->key.metric->embedding,
									build->dim);
	spec->payload = GRNND_PAYLOAD;
	spec->attr_bytes = attrs->bytes;
	spec->use_codes = build->options.codes;
	/* searches compare signatures beside codes alone */
	spec->sig_bytes = spec->use_codes ? attrs->n : 0;
	spec->keep = layout_of(build);
	spec->fit_rows = grnnd_fit_rows(build->dim);
	layout = (GrnLayoutSpec) {.dim = spec->dim, .form = (GrnForm) spec->form,
							  .attr_bytes = spec->attr_bytes, .sig_bytes = spec->sig_bytes, .payload = spec->payload};
	spec->params.degree = grnnd_option_degree(&build->options, spec->use_codes, spec->keep, &layout);
	spec->bare_degree = grnnd_option_degree(&build->options, false, spec->keep, &layout);
#ifdef GRNND_TEST_POINTS
	spec->params.t1 = build->options.t1;
	spec->params.t2 = build->options.t2;
#endif
	spec->params.seed = build->options.seed;
	grnnd_set_devices(spec);
	/* A GPU compares rows by their numbers. */
	if (grn_form(build->key.type->form)->sparse)
		spec->device = GRN_DEVICE_CPU;
	build->row_bytes = spec->row_bytes;
}

static uint64
segment_bytes(const GrnndBuild *build, uint64 bytes_per_row)
{
	if (build->max_rows > (SEGMENT_LIMIT - SEGMENT_SLACK) / bytes_per_row)
		return SEGMENT_LIMIT;
	return TYPEALIGN64(GRNND_EXTENT_ALIGN, build->max_rows * bytes_per_row + SEGMENT_SLACK);
}

void
grnnd_build_map(GrnndBuild *build, uint64 rows)
{
	grnnd_build_map_within(build, rows, (uint64) maintenance_work_mem * 1024, "maintenance_work_mem");
}

void
grnnd_build_map_within(GrnndBuild *build, uint64 rows, uint64 memory, const char *setting)
{
	uint64		row_bytes = build->row_bytes;
	uint64	   *max = build->spec.segment_max;

	build->max_rows = Min(rows, GRN_MAX_NODES - 1);
	build->max_rows = Min(build->max_rows, (SEGMENT_LIMIT - SEGMENT_SLACK) / row_bytes);
	max[GRN_SEG_VECTORS] = segment_bytes(build, row_bytes);
	max[GRN_SEG_TIDS] = segment_bytes(build, sizeof(uint64));
	max[GRN_SEG_ATTRS] = build->attrs_bytes;
	max[GRN_SEG_VALUES] = max[GRN_SEG_LISTS] = 0;
	if (build->attrs != NULL && build->attrs->bytes > 0)
	{
		max[GRN_SEG_ATTRS] = segment_bytes(build, build->attrs->bytes);
		/* (rows without codes have no lists) */
		if (build->spec.sig_bytes > 0)
		{
			max[GRN_SEG_VALUES] = segment_bytes(build, build->spec.sig_bytes * GRN_VALUE_BYTES);
			max[GRN_SEG_LISTS] = segment_bytes(build, build->spec.sig_bytes * LIST_BYTES_PER_COLUMN);
		}
	}
	max[GRN_SEG_PAGES] = SEGMENT_SLACK;
	max[GRN_SEG_ORDER] = segment_bytes(build, sizeof(uint32));
	max[GRN_SEG_RESULT] = segment_bytes(build, RESULT_BYTES_PER_ROW + build->spec.near.k * sizeof(GrnNear));
	max[GRN_SEG_WORK] = segment_bytes(build, WORK_BYTES_PER_ROW + build->dim * sizeof(float));
	build->map = grnnd_mapping_create(max, memory, setting);
}

void
grnnd_build_release_builder(GrnndBuild *build)
{
	GrnndBuilder *builder = &build->builder;

	/* The client of another host then ends its connection without the leader. */
	if (builder->spec.remote != GRN_REMOTE_NONE)
		grnnd_builder_release(builder);
	else if (builder->result.on_gpu)
		grnnd_builder_park(builder);
	else
		grnnd_builder_kill(builder);
}

/* Error cleanup. */
void
grnnd_build_abandon(int code, Datum arg)
{
	GrnndBuild *build = (GrnndBuild *) DatumGetPointer(arg);
	GrnndMapping *map = build->map;

	grnnd_builder_end(&build->builder);
	build->map = NULL;
	build->builder.map = NULL;
	if (map)
		grnnd_mapping_release(map, false);
}

/* Ends a successful build. */
void
grnnd_build_finish(GrnndBuild *build)
{
	GrnndMapping *map = build->map;

	grnnd_builder_end(&build->builder);
	build->map = NULL;
	grnnd_mapping_release(map, true);
}
