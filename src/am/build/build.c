/*
 * build.c - CREATE INDEX from end to end: collect the vectors (collect.c), have
 * the builder process make a graph of them (launch.c), write its pages (write_index.c).
 */
#include "postgres.h"

#include <unistd.h>

#include "access/tableam.h"
#include "access/xact.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "utils/backend_progress.h"
#include "utils/backend_status.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "am/build/build.h"
#include "am/handler.h"

/*
 * What grnnd.build_device = auto weighs against each other: the start of a GPU, and
 * the processor's time for a graph.  Measured: see src/README, "Which device".
 */
#define GPU_START_SECONDS 0.35
#define CPU_SECONDS_PER_ROW 40e-6
#define CPU_SECONDS_PER_FLOAT 0.03e-6
#define CPU_SECONDS_PER_DIM_SQUARED 0.5e-6	/* once, on one core: the projection */

/* No segment reserves more address space than this, of the 128 TB that there are. */
#define SEGMENT_LIMIT (UINT64_C(16) << 40)

/* Address space for the builder's workspace and results, bytes a row. */
#define WORK_BYTES_PER_ROW 16384
#define RESULT_BYTES_PER_ROW 512
#define CODES_BYTES_PER_ROW 256
#define SEGMENT_SLACK (UINT64_C(256) << 20)

/* Rows that blocks added during the scan may hold (CREATE INDEX CONCURRENTLY). */
#define EXTRA_BLOCKS 65536

char *
grnnd_buildphasename(int64 phase)
{
	switch (phase)
	{
		case PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE:
			return "initializing";
		case GRN_PHASE_COLLECT + 1:
			return "collecting vectors";
		case GRN_PHASE_PREPARE + 1:
			return "preparing vectors";
		case GRN_PHASE_DESCENT + 1:
			return "building graph";
		case GRN_PHASE_CONNECT + 1:
			return "connecting graph";
		case GRN_PHASE_CODES + 1:
			return "computing codes";
		case GRN_PHASE_WRITE + 1:
			return "writing pages";
		default:
			return NULL;
	}
}

/*
 * Shows a phase and its counters in pg_stat_progress_create_index.  While rows are
 * collected the table scan counts its blocks there.  Afterwards blocks_done is the same
 * share of them as done of total, so that a percentage by blocks is that of the phase.
 */
void
grnnd_report_phase(GrnPhase phase, uint64 done, uint64 total)
{
	const int	params[] = {
		PROGRESS_CREATEIDX_SUBPHASE,
		PROGRESS_CREATEIDX_TUPLES_TOTAL,
		PROGRESS_CREATEIDX_TUPLES_DONE,
		PROGRESS_SCAN_BLOCKS_DONE
	};
	int64		values[] = {(int64) phase + 1, (int64) total, (int64) done, 0};
	int			n = lengthof(params);

	if (phase == GRN_PHASE_COLLECT)
		n--;
	else if (MyBEEntry && total > 0)
		values[3] = (int64) ((double) MyBEEntry->st_progress_param[PROGRESS_SCAN_BLOCKS_TOTAL] *
							 (double) Min(done, total) / (double) total);
	pgstat_progress_update_multi_param(n, params, values);
}

void
grnnd_build_init(GrnndBuild *build, GrnndKey key, Form_pg_attribute column,
				 const GrnndOptions *options)
{
	GrnBuildSpec *spec = &build->spec;
	int32		typmod = column->atttypmod;

	memset(build, 0, sizeof(*build));
	build->builder.sock = -1;
	build->key = key;
	if (options == NULL)
		options = (GrnndOptions *) grnnd_options((Datum) 0, false);
	build->options = *options;

	/* a domain's own, where it is one */
	getBaseTypeAndTypmod(column->atttypid, &typmod);
	if (typmod < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("column does not have dimensions"),
				 errhint("Give its type a number of dimensions, as in ALTER TABLE ... ALTER COLUMN ... TYPE %s(128), or index an expression cast to such a type.",
						 build->key.type->name)));
	if (typmod > build->key.type->max_dim)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("column cannot have more than %d dimensions for a grnnd index",
						build->key.type->max_dim)));
	build->dim = (uint32) typmod;

	spec->version = GRN_PROTOCOL_VERSION;
	spec->metric = build->key.metric->id;
	spec->dim = build->dim;
	spec->stride = TYPEALIGN(4, grn_row_floats(build->key.metric, build->dim));
	spec->payload = GRNND_PAYLOAD;
	spec->use_codes = build->options.codes;
	spec->params.degree = grnnd_option_degree(&build->options, build->dim);
	spec->params.r = build->options.r;
	spec->params.s = build->options.s;
	spec->params.t1 = build->options.t1;
	spec->params.t2 = build->options.t2;
	spec->params.rho = build->options.rho;
	spec->params.seed = build->options.seed;
	spec->device = grnnd_build_device;
	spec->threads = grnnd_build_threads > 0 ? grnnd_build_threads :
		max_parallel_maintenance_workers + 1;
	spec->gpu_memory_limit = (uint64) grnnd_gpu_memory_limit * 1024 * 1024;
	strlcpy(spec->gpu_devices, grnnd_gpu_devices ? grnnd_gpu_devices : "",
			sizeof(spec->gpu_devices));
	build->stride = spec->stride;
}

/* From an index's definition.  heap and info may be NULL. */
static void
init_build(GrnndBuild *build, Relation heap, Relation index, IndexInfo *info)
{
	grnnd_build_init(build, grnnd_key(index),
					 TupleDescAttr(RelationGetDescr(index), 0),
					 (GrnndOptions *) index->rd_options);
	build->heap = heap;
	build->index = index;
	build->info = info;
}

static uint64
segment_bytes(uint64 rows, uint64 bytes_per_row, uint64 slack)
{
	if (rows > (SEGMENT_LIMIT - slack) / bytes_per_row)
		return SEGMENT_LIMIT;
	return TYPEALIGN64(GRNND_EXTENT_ALIGN, rows * bytes_per_row + slack);
}

/* Reserves address space for so many rows, or as many as are possible. */
void
grnnd_build_map(GrnndBuild *build, uint64 rows)
{
	uint64		row_bytes = (uint64) build->stride * sizeof(float);
	uint64	   *max = build->spec.segment_max;

	build->max_rows = Min(rows, GRN_MAX_NODES - 1);
	build->max_rows = Min(build->max_rows, (SEGMENT_LIMIT - SEGMENT_SLACK) / row_bytes);
	max[GRN_SEG_VECTORS] = segment_bytes(build->max_rows, row_bytes, SEGMENT_SLACK);
	max[GRN_SEG_TIDS] = segment_bytes(build->max_rows, sizeof(uint64), SEGMENT_SLACK);
	max[GRN_SEG_ORDER] = segment_bytes(build->max_rows, sizeof(uint32), SEGMENT_SLACK);
	max[GRN_SEG_RESULT] = segment_bytes(build->max_rows, RESULT_BYTES_PER_ROW, SEGMENT_SLACK);
	max[GRN_SEG_CODES] = segment_bytes(build->max_rows, CODES_BYTES_PER_ROW, SEGMENT_SLACK);
	max[GRN_SEG_WORK] = segment_bytes(build->max_rows, WORK_BYTES_PER_ROW + row_bytes, SEGMENT_SLACK);
	build->map = grnnd_mapping_create(max, (uint64) maintenance_work_mem * 1024);
}

/*
 * What this transaction's builds have been so far, for those of many partitions: each
 * may be too small for the start of a GPU, which serves them all.
 */
static struct
{
	TimestampTz start;			/* names the transaction */
	double		cpu_seconds;	/* spent where a GPU might have helped */
	bool		no_gpu;			/* there is none */
} transaction;

/* Seconds that the processor takes for a graph of so many rows. */
static double
cpu_seconds(const GrnndBuild *build, double rows)
{
	double		cpus = Max(sysconf(_SC_NPROCESSORS_ONLN), 1);

	return CPU_SECONDS_PER_DIM_SQUARED * build->dim * build->dim +
		rows * (CPU_SECONDS_PER_ROW + CPU_SECONDS_PER_FLOAT * build->dim) /
		Min(build->spec.threads, cpus);
}

/*
 * Whether grnnd.build_device = auto would have a GPU build so many rows, if there is
 * one.  Together, small builds lose by this rule at most what the GPU's start costs.
 */
static bool
worth_gpu(const GrnndBuild *build, double rows)
{
	if (transaction.start != GetCurrentTransactionStartTimestamp())
	{
		memset(&transaction, 0, sizeof(transaction));
		transaction.start = GetCurrentTransactionStartTimestamp();
	}
	return !transaction.no_gpu &&
		(grnnd_builder_parked(&build->spec) ||
		 transaction.cpu_seconds + cpu_seconds(build, rows) >= GPU_START_SECONDS);
}

/* Settles grnnd.build_device = auto, as far as that is done by the number of rows. */
void
grnnd_choose_device(GrnndBuild *build, double rows)
{
	if (build->spec.device == GRN_DEVICE_AUTO && !worth_gpu(build, rows))
		build->spec.device = GRN_DEVICE_CPU;
}

/* Whether this transaction may have another build to follow. */
static bool
more_to_come(const GrnndBuild *build)
{
	return build->heap->rd_rel->relispartition || IsTransactionBlock();
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

/* The end of a build that went well. */
void
grnnd_build_finish(GrnndBuild *build)
{
	GrnndMapping *map = build->map;

	grnnd_builder_end(&build->builder);
	build->map = NULL;
	grnnd_mapping_release(map, true);
}

double
grnnd_seconds_since(instr_time start)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);
	return INSTR_TIME_GET_DOUBLE(now);
}

static void
run_build(GrnndBuild *build)
{
	GrnndBuilder *builder = &build->builder;
	const GrnBuildResult *result = &builder->result;
	instr_time	start;
	double		collect_s,
				build_s,
				end_s,
				load_s;
	BlockNumber pages;
	double		tuples,
				allvisible;
	BlockNumber blocks;

	/* all that the heap can hold */
	grnnd_build_map(build, ((uint64) RelationGetNumberOfBlocks(build->heap) +
							EXTRA_BLOCKS) * MaxHeapTuplesPerPage);

	/*
	 * Where the table is large the builder starts now, and opens its device
	 * while we scan.  Else it starts when there is a row for it.
	 */
	estimate_rel_size(build->heap, NULL, &blocks, &tuples, &allvisible);
	if (build->spec.device == GRN_DEVICE_GPU ||
		(build->spec.device == GRN_DEVICE_AUTO && worth_gpu(build, tuples)))
		grnnd_builder_start(builder, build->map, &build->spec);

	INSTR_TIME_SET_CURRENT(start);
	grnnd_collect(build);
	collect_s = grnnd_seconds_since(start);

	if (build->rows == 0)
	{
		grnnd_write_empty_index(build, MAIN_FORKNUM);
		return;
	}

	INSTR_TIME_SET_CURRENT(start);
	if (builder->pid == 0)
	{
		bool		automatic = build->spec.device == GRN_DEVICE_AUTO;

		grnnd_choose_device(build, (double) build->rows);
		if (automatic && build->spec.device == GRN_DEVICE_CPU)
			transaction.cpu_seconds += cpu_seconds(build, (double) build->rows);
		grnnd_builder_start(builder, build->map, &build->spec);
	}
	grnnd_builder_run(builder, build->rows);
	build_s = grnnd_seconds_since(start);
	if (build->spec.device == GRN_DEVICE_AUTO && builder->no_gpu)
		transaction.no_gpu = true;

	/*
	 * From here on the result is ours alone: checked once, it cannot change
	 * any more.  The builder's end, which includes that of its device context,
	 * goes on beside the load.
	 */
	if (result->on_gpu && more_to_come(build))
		grnnd_builder_park(builder);
	else
		grnnd_builder_kill(builder);

	INSTR_TIME_SET_CURRENT(start);
	pages = grnnd_write_index(build, result);
	load_s = grnnd_seconds_since(start);

	INSTR_TIME_SET_CURRENT(start);
	grnnd_builder_end(builder);
	end_s = grnnd_seconds_since(start);

	ereport(DEBUG1,
			(errmsg_internal("grnnd build: rows %llu, nodes %u, pages %u, device %s, workers %d and %d, "
							 "collect %.3f s, build %.3f s (device %.3f, prepare %.3f, descent %.3f, connect %.3f, codes %.3f), "
							 "load %.3f s, end %.3f s, memory " UINT64_FORMAT ", temporary file " UINT64_FORMAT,
							 (unsigned long long) build->rows, result->nodes, pages,
							 result->on_gpu ? "gpu" : "cpu", build->workers, build->load_workers,
							 collect_s, build_s, result->sec_device, result->sec_prepare,
							 result->sec_descent, result->sec_connect, result->sec_codes,
							 load_s, end_s, build->map->memory_used,
							 build->map->file_size[GRNND_FILE_DISK])));
}

/* The ambuild callback. */
IndexBuildResult *
grnnd_build(Relation heap, Relation index, IndexInfo *info)
{
	GrnndBuild *build = palloc(sizeof(GrnndBuild));
	IndexBuildResult *result;

	if (RelationGetNumberOfBlocks(index) != 0)
		elog(ERROR, "index \"%s\" already contains data", RelationGetRelationName(index));
	init_build(build, heap, index, info);

	PG_ENSURE_ERROR_CLEANUP(grnnd_build_abandon, PointerGetDatum(build));
	{
		run_build(build);
	}
	PG_END_ENSURE_ERROR_CLEANUP(grnnd_build_abandon, PointerGetDatum(build));

	grnnd_build_finish(build);

	result = palloc(sizeof(IndexBuildResult));
	result->heap_tuples = build->heap_tuples;
	result->index_tuples = (double) build->rows;
	pfree(build);
	return result;
}

/* The ambuildempty callback: the init fork of an UNLOGGED table's index. */
void
grnnd_buildempty(Relation index)
{
	GrnndBuild *build = palloc(sizeof(GrnndBuild));

	init_build(build, NULL, index, NULL);
	grnnd_write_empty_index(build, INIT_FORKNUM);
	pfree(build);
}
