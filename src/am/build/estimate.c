/*
 * estimate.c - grnnd_build_estimate(): what CREATE INDEX would take, from builds over a sample
 * of the rows, by the same builder and settings.
 *
 * Everything a build needs is nearly affine in the number of distinct rows: builds of two sizes
 * say what is constant and what a row costs (estimate_time.c).  The smaller one fits its codes
 * to as many rows as any build does, so that this counts as constant.  A still smaller one
 * comes before, because a device's first build takes longer.
 *
 * Where the whole table's build would be done in parts on a GPU, one more of the sample is done
 * in as many, under a limit of the same share of what it needs: it says what parts take of
 * memory.
 */
#include "postgres.h"

#include <math.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type_d.h"
#include "commands/tablespace.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "storage/ipc.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/wait_event.h"

#include "am/build/device_choice.h"
#include "am/build/estimate_distinct.h"
#include "am/build/estimate_filters.h"
#include "am/build/estimate_memory.h"
#include "am/build/estimate_time.h"
#include "am/build/frequent.h"
#include "am/build/parallel.h"
#include "am/build/progress.h"
#include "am/build/write_index.h"
#include "am/owner.h"
#include "am/write/fit.h"
#include "graph/build/duplicates.h"
#include "graph/free_memory.h"

/* Rows of the smaller build: what codes are fitted to (src/builder/pipeline_codes.c). */
#define SAMPLE_ROWS 8192
#define SAMPLE_ROWS_PER_DIM 8
#define SAMPLE_BYTES ((uint64) 1 << 30) /* both builds', of very many dimensions */
#define SAMPLE_SURPLUS 1.2		/* asked for, since TABLESAMPLE takes whole blocks */

/*
 * The larger build's, where there are as many rows, it is not too slow, and memory allows.  A
 * GPU builds so few in a tenth of a second, most of which is constant: with more of them what a
 * row costs is seen.
 */
#define MAX_SAMPLE_ROWS 131072
#define MAX_SAMPLE_ROWS_GPU 262144
#define MAX_SAMPLE_BYTES ((uint64) 128 << 20)
#define LARGE_BUILD_SECONDS 1.0

/* A device's first build. */
#define FIRST_ROWS 4096

/* Rows that the cursor of the sample brings at a time. */
#define FETCH_ROWS 1000

/* Written and synced for the disk's speed, doubled until it takes this many seconds. */
#define PROBE_BYTES (16 << 20)
#define LEAST_PROBE (1 << 20)	/* less cannot be timed */
#define PROBE_MAX_BYTES (512 << 20)
#define PROBE_SECONDS 0.25
/*
 * What is written beyond so many bytes goes at this share of the rate that so short a probe meets:
 * 82 GB at .61, .64 and .69 of it on three hosts, and six more builds of 8 to 82 GB took 9 to 43%
 * longer than by the whole rate (test/bench/scale/results.md).
 */
#define SUSTAINED_FROM ((double) (INT64CONST(2) << 30))
#define SUSTAINED 0.7

/*
 * Bytes that pass between memory and the disk, of those of all rows, where memory does not hold
 * them: rows written twice and read four times, less what stays.
 */
#define ROWS_PASSED 5

/*
 * A row of a frequent value with a graph of its own (src/builder/pipeline_value_edges.c): bytes of
 * the host's memory where a GPU builds all such graphs before their edges are taken, and of cores'
 * time the share of what a row of the graph of all takes.
 */
#define MEMBER_BYTES 73
#define MEMBER_TIME 0.3

/* For a process to form a byte of a page, measured. */
#define FORM_SECONDS_PER_BYTE 1.5e-9

/* How much longer an index takes to write with its WAL, measured: test/bench/tried.md. */
#define WITH_WAL 1.9

/*
 * The leader alone ranks the rows that it has collected, and waits for workers to start and for
 * the disk to have all: 3.4 s of 100,000,000 rows, and 0.2 s (test/bench/scale/results.md).
 */
#define RANK_SECONDS_PER_ROW 30e-9
#define LOAD_SECONDS 0.2
#define LEAST_LOAD ((double) (64 << 20))	/* bytes of an index that has workers */

/* Bytes of WAL for a page: its image, and its share of the record. */
#define WAL_PAGE_BYTES (BLCKSZ + 40)

#define NCOLUMNS 10				/* as in the function's definition */

typedef struct Sample
{
	GrnndBuild	build;
	uint64		wanted;			/* rows of the larger build */
	double		share;			/* of the table's blocks that were asked for */
	/* what was seen */
	uint64		seen;			/* rows, NULL or not */
	uint64		indexed;		/* of them */
	GrnndSeenRow *rows;			/* [indexed] palloc'd */
	uint64		rows_max;		/* there is room for */
	char	   *row;			/* room for one */
	uint8	   *attrs;			/* and for its filter columns */
	MemoryContext values;		/* what forming these takes */
	uint64		blocks;			/* that had rows */
	BlockNumber last_block;
	double		seconds;		/* of reading */
	/* what is known of the table by it */
	double		nodes;			/* distinct rows */
	GrnndDistinct distinct;
	double	   *frequent;		/* [distinct.frequent] the sample's rows of each, palloc'd */
	double		pages;			/* share of the table's that the sample has */
	const GrnndFilterColumns *columns;
	GrnndMembers members;		/* counted by value */
	uint64		built;			/* rows of the last build */
} Sample;

/* One build's needs, of the sample or of the whole table. */
typedef struct Needs
{
	double		nodes;
	GrnndSampleTimes times;
	double		seconds;		/* from BUILD to DONE, the device's start aside */
	double		graph_seconds;	/* of the table's alone */
	double		work_bytes;
	double		gpu_bytes;
} Needs;

/* ---- the arguments ---- */

/* Ends with an error unless oid is a table, and the user's. */
static void
check_table(Oid oid)
{
	const char *name = get_rel_name(oid);
	char		kind = get_rel_relkind(oid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", oid)));
	if (kind != RELKIND_RELATION && kind != RELKIND_MATVIEW)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", name),
				 kind == RELKIND_PARTITIONED_TABLE
				 ? errhint("Ask for each of its partitions.")
				 : errhint("Give a table or a materialized view.")));
	if (!grnnd_owns(oid))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, name);
}

/*
 * Opens a table of the user's.  The checks come before the lock, so that nobody waits for a
 * lock that he may not have, and again under it, for the table may have changed meanwhile.
 */
static Relation
open_table(Oid oid)
{
	Relation	table;

	check_table(oid);
	table = try_relation_open(oid, AccessShareLock);
	check_table(oid);
	if (RecoveryInProgress() && table->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read unlogged tables during recovery"),
				 errhint("Ask on the primary server.")));
	return table;
}

/* ---- the sample ---- */

/* Remembers an indexed row for grnnd_estimate_distinct(). */
static void
remember_row(Sample *s, BlockNumber block)
{
	const GrnndBuild *b = &s->build;

	if (s->indexed == s->rows_max)
	{
		s->rows_max = Max(2 * s->rows_max, s->wanted + FETCH_ROWS);
		s->rows = s->rows == NULL ?
			palloc_extended(s->rows_max * sizeof(GrnndSeenRow), MCXT_ALLOC_HUGE) :
			repalloc_huge(s->rows, s->rows_max * sizeof(GrnndSeenRow));
	}
	s->rows[s->indexed++] = (GrnndSeenRow)
	{
		grn_hash_row(s->row, grn_form_bytes(b->key.type->form, b->dim)), block
	};
}

/*
 * Stores one row, if the index would hold it: its vector is values[0], and filter columns follow.
 * Where there are more than wanted, each stays with the same probability: tables are not the same
 * from end to end.
 */
static void
take_row(Sample *s, ItemPointer tid, const Datum *values, const bool *isnull)
{
	GrnndBuild *b = &s->build;
	const GrnndAttrs *attrs = b->attrs;
	BlockNumber block = ItemPointerGetBlockNumberNoCheck(tid);
	uint64		at;

	s->seen++;
	if (s->blocks == 0 || block != s->last_block)
		s->blocks++;
	s->last_block = block;
	if (isnull[0] || !grnnd_form_row(&b->key, (int) b->column_dim, values[0], s->row))
		return;
	at = s->indexed;
	remember_row(s, block);
	if (at >= s->wanted)
		at = grn_random((uint64) b->options.seed, 0, at) % s->indexed;
	if (at >= s->wanted)
		return;
	memcpy(b->map->base[GRN_SEG_VECTORS] + at * b->row_bytes, s->row,
		   b->row_bytes);
	if (attrs->n > 0)
	{
		MemoryContext old = MemoryContextSwitchTo(s->values);

		grnnd_form_attrs(attrs, values, isnull, s->attrs);
		grnnd_form_elements(attrs, values, isnull, s->attrs + attrs->bytes);
		memcpy(b->map->base[GRN_SEG_ATTRS] + at * grnnd_row_bytes(attrs), s->attrs,
			   grnnd_row_bytes(attrs));
		MemoryContextSwitchTo(old);
		MemoryContextReset(s->values);
	}
	b->rows = Min(s->indexed, s->wanted);
}

/* Reads about a share of the table's blocks. */
static void
read_sample(Sample *s, Relation table, const char *column)
{
	GrnndBuild *b = &s->build;
	MemoryContext caller = CurrentMemoryContext;
	StringInfoData query;
	Portal		portal;

	b->rows = s->seen = s->indexed = s->blocks = 0;
	initStringInfo(&query);
	appendStringInfo(&query, "SELECT ctid, %s", quote_identifier(column));
	for (uint32 i = 0; i < s->columns->n; i++)
		appendStringInfo(&query, ", %s", quote_identifier(s->columns->names[i]));
	appendStringInfo(&query, " FROM ONLY %s",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(table)),
												RelationGetRelationName(table)));
	if (s->share < 1)
		appendStringInfo(&query, " TABLESAMPLE SYSTEM (%g) REPEATABLE (%d)", 100 * s->share,
						 b->options.seed);
	SPI_connect();
	portal = SPI_cursor_open_with_args(NULL, query.data, 0, NULL, NULL, NULL, true, 0);
	do
	{
		SPI_cursor_fetch(portal, true, FETCH_ROWS);
		for (uint64 i = 0; i < SPI_processed; i++)
		{
			Datum		values[2 + GRNND_MAX_ATTRS];
			bool		isnull[2 + GRNND_MAX_ATTRS];
			MemoryContext spi = MemoryContextSwitchTo(caller);

			heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, values, isnull);
			take_row(s, (ItemPointer) DatumGetPointer(values[0]), values + 1, isnull + 1);
			MemoryContextSwitchTo(spi);
		}
		SPI_freetuptable(SPI_tuptable);
		CHECK_FOR_INTERRUPTS();
	} while (SPI_processed > 0);
	SPI_cursor_close(portal);
	SPI_finish();
}

/* Takes a sample that has the rows wanted, or the whole table. */
static void
take_sample(Sample *s, Relation table, const char *column, double tuples)
{
	instr_time	start;

	s->share = tuples > 0 ? SAMPLE_SURPLUS * s->wanted / tuples : 1;
	INSTR_TIME_SET_CURRENT(start);
	read_sample(s, table, column);
	while (s->build.rows < s->wanted && s->share < 1)
	{
		s->share = Min(1, 4 * s->share);
		INSTR_TIME_SET_CURRENT(start);
		read_sample(s, table, column);
	}
	s->seconds = grnnd_seconds_since(start);
}

/* ---- builds over it ---- */

/*
 * Builds over the sample's first rows, under a limit of GPU memory (0: none); the
 * builder stays for the next.
 */
static Needs
build_sample(Sample *s, uint64 rows, double gpu_limit)
{
	GrnndBuilder *builder = &s->build.builder;
	Needs		needs = {0};
	instr_time	start;

	if (builder->pid != 0)
		grnnd_builder_park(builder);
	/* the memory of the build before is there already, and not asked for */
	needs.work_bytes = (double) builder->needed[GRN_SEG_WORK];
	s->build.spec.gpu_memory_limit = (uint64) gpu_limit;
	grnnd_builder_start(builder, s->build.map, &s->build.spec);
	INSTR_TIME_SET_CURRENT(start);
	grnnd_builder_rows(builder, rows);
	grnnd_builder_run(builder, rows);
	needs.nodes = (double) builder->result.nodes;
	needs.seconds = Max(grnnd_seconds_since(start) - builder->result.sec_device, 0);
	needs.work_bytes = Max(needs.work_bytes, (double) builder->needed[GRN_SEG_WORK]);
	needs.gpu_bytes = (double) builder->result.gpu_bytes;
	needs.times = grnnd_sample_times(&builder->result, needs.seconds);
	return needs;
}

/* What so many nodes need, by two builds. */
static Needs
extrapolate(const Needs *small, const Needs *large, const GrnndBuildSize *size)
{
	double		factor = (size->nodes - large->nodes) / Max(large->nodes - small->nodes, 1);
	GrnndBuildTimes times = grnnd_build_times(&small->times, &large->times, size);
	Needs		needs = {.nodes = size->nodes, .seconds = times.all};

	ereport(DEBUG1,
			(errmsg_internal("grnnd build of %.0f nodes on %.0f GPUs%s, estimated: graph %.3f s, recall %.3f s, all %.3f s",
							 size->nodes, size->gpus, size->parts ? ", in parts" : "", times.graph,
							 times.recall, times.all)));
	needs.work_bytes = large->work_bytes + factor * (large->work_bytes - small->work_bytes);
	needs.gpu_bytes = large->gpu_bytes + factor * (large->gpu_bytes - small->gpu_bytes);
	needs.graph_seconds = times.graph;
	return needs;
}

/*
 * Adds what graphs of frequent values take, which samples are mostly too small for.  Cores build
 * them one by one, in memory that the graph of all has had.
 */
static void
add_value_graphs(const Sample *s, double rows, Needs *needs)
{
	const GrnBuildResult *r = &s->build.builder.result;
	double		members = grnnd_rows_with_edges(&s->build, &s->members, rows, needs->nodes);

	for (uint32 i = 0; i < GRN_MAX_SIG_BYTES; i++)
		if (r->value_edges[i] > 0)
			return;
	if (r->on_gpu)
		needs->work_bytes += members * MEMBER_BYTES;
	else
		needs->seconds += needs->graph_seconds / needs->nodes * members * MEMBER_TIME;
}

/* Memory of a build in parts of gpu_limit bytes, by one over the sample's first rows. */
static void
measure_parts(Sample *s, uint64 rows, double gpu_limit, Needs *needs)
{
	Needs		parts = build_sample(s, rows, gpu_limit / needs->nodes * rows);

	needs->work_bytes = parts.work_bytes * needs->nodes / parts.nodes;
	needs->gpu_bytes = Min(parts.gpu_bytes * needs->nodes / parts.nodes, gpu_limit);
}

/* A GrnndFrequentFn. */
static void
take_frequent(void *arg, double rows)
{
	Sample	   *s = arg;

	s->frequent[(int) s->distinct.frequent++] = rows;
}

/* Estimates how many distinct vectors there are among `rows` of the table. */
static void
estimate_nodes(Sample *s, double rows)
{
	s->pages = s->share >= 1 ? 1 : Min((double) s->indexed / rows, 1);
	s->frequent = palloc_extended(s->indexed * sizeof(double), MCXT_ALLOC_HUGE);
	s->distinct.frequent = 0;
	s->distinct = grnnd_estimate_distinct(s->rows, s->indexed, s->pages, take_frequent, s);
	s->nodes = Max(rint(Min(s->distinct.frequent + s->distinct.rare, rows)), 1);
}

/*
 * Records with heap TIDs of a node that has so many, beside its own; of nodes that have so many on
 * average the mean, if they have the whole number below or the one above.
 */
static double
chained(const GrnLayout *layout, double tids)
{
	double		less = ceil(Max(floor(tids) - layout->tids_max, 0) / layout->chain_tids);
	double		more = ceil(Max(floor(tids) + 1 - layout->tids_max, 0) / layout->chain_tids);

	return less + (tids - floor(tids)) * (more - less);
}

/* Those of all nodes. */
static double
chains(const Sample *s, const GrnLayout *layout)
{
	const GrnndDistinct *d = &s->distinct;
	double		records = 0;

	for (int i = 0; i < (int) d->frequent; i++)
		records += chained(layout, s->frequent[i] / s->pages);
	for (uint32 k = 0; k < d->kinds; k++)
		records += d->kind[k].values * chained(layout, d->kind[k].rows);
	return records;
}

/*
 * The needs of an index on so many rows, and the seconds until a device is open.  Leaves
 * the result of a large build in the builder.
 */
static Needs
measure(Sample *s, double rows, double *device_seconds)
{
	uint64		all = s->build.rows;
	uint64		few = Min(all, Max(SAMPLE_ROWS, SAMPLE_ROWS_PER_DIM * (uint64) s->build.dim));
	uint64		n = all;
	double		gpu_limit = 0;
	GrnndBuildSize size = {.threads = s->build.spec.threads};
	Needs		first = {0};
	Needs		small;
	Needs		large;
	Needs		needs;

	*device_seconds = 0;
	/* two builds, unless the sample is the table */
	if (all < rows)
		few = Min(few, Max(all / 2, 1));
	if (s->build.spec.device != GRN_DEVICE_CPU)
	{
		const GrnBuildResult *result = &s->build.builder.result;

		first = build_sample(s, Min(few, FIRST_ROWS), (double) s->build.spec.gpu_memory_limit);
		size.gpus = result->on_gpu ? result->gpus : 0;
		gpu_limit = (double) result->gpu_limit;
		*device_seconds = result->sec_device;
	}
	small = build_sample(s, few, 0);
	if (size.gpus == 0)
		n = Min(n, Max(MAX_SAMPLE_ROWS, 2 * few));
	if (size.gpus == 0 && n > 2 * few)
		n = (uint64) Min(n, Max(2 * few, few * LARGE_BUILD_SECONDS / Max(small.seconds, 1e-3)));
	large = n > few ? build_sample(s, n, 0) : small;
	s->built = n;
	size.nodes = s->nodes;
	needs = extrapolate(&small, &large, &size);
	if (!s->build.builder.result.on_gpu)
		needs.work_bytes = Max(needs.work_bytes, grnnd_cores_work(&s->build, rows, needs.nodes));
	add_value_graphs(s, rows, &needs);
	if (size.gpus > 0)
	{
		GrnndBuildSize begin = {.nodes = first.nodes, .threads = size.threads, .gpus = 1};
		Needs		again = extrapolate(&small, &large, &begin);

		if (gpu_limit > 0 && needs.gpu_bytes > gpu_limit)
		{
			size.parts = true;
			needs = extrapolate(&small, &large, &size);
			measure_parts(s, n, gpu_limit, &needs);
			add_value_graphs(s, rows, &needs);
		}
		/* a device's first build takes longer */
		needs.seconds += Max(first.seconds - again.seconds, 0);
	}
	return needs;
}

/* ---- the disk ---- */

/*
 * Seconds to write and sync a temporary file.  Like the build's pages each piece is sent
 * on its way at once.
 */
static double
probe_disk(int64 bytes)
{
	const int	piece_bytes = 1 << 20;
	char	   *piece = palloc(piece_bytes);
	File		file = OpenTemporaryFile(false);
	instr_time	start;
	double		seconds;

	/* nothing that a file system could compress */
	for (int i = 0; i < piece_bytes; i += sizeof(uint64))
	{
		uint64		word = grn_random(0, 0, i);

		memcpy(piece + i, &word, sizeof(word));
	}
	INSTR_TIME_SET_CURRENT(start);
	for (int64 at = 0; at < bytes; at += piece_bytes)
	{
		CHECK_FOR_INTERRUPTS();
		if (FileWrite(file, piece, piece_bytes, at, PG_WAIT_EXTENSION) != piece_bytes)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not write to temporary file \"%s\": %m", FilePathName(file))));
		FileWriteback(file, at, piece_bytes, PG_WAIT_EXTENSION);
	}
	if (FileSync(file, PG_WAIT_EXTENSION) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not sync temporary file \"%s\": %m", FilePathName(file))));
	seconds = grnnd_seconds_since(start);
	FileClose(file);
	pfree(piece);
	return Max(seconds, 1e-6);
}

/* Bytes a second of writing and syncing, where temporary files go. */
static double
disk_speed(void)
{
	int64		most = PROBE_MAX_BYTES;
	int64		bytes;
	double		seconds;

	/* the sample may take the other half */
	if (temp_file_limit >= 0)
		most = Min(most, (int64) temp_file_limit * 1024 / 2);
	if (most < LEAST_PROBE)
		return PROBE_BYTES / PROBE_SECONDS;
	bytes = Max(Min(PROBE_BYTES, most) >> 20 << 20, LEAST_PROBE);
	PrepareTempTablespaces();
	for (;;)
	{
		seconds = probe_disk(bytes);
		if (seconds >= PROBE_SECONDS || 2 * bytes > most)
			return bytes / seconds;
		bytes *= 2;
	}
}

static double
write_seconds(double bytes, double speed)
{
	return (Min(bytes, SUSTAINED_FROM) + Max(bytes - SUSTAINED_FROM, 0) / SUSTAINED) / speed;
}

/* ---- the result ---- */

/*
 * Seconds in which rows, graph and results that memory does not hold go to the disk and come back
 * (src/builder/pipeline_move.c): 0 where it does.  memory: bytes of the whole build.
 */
static double
beyond_memory(const GrnndBuild *b, double rows, double memory, double speed)
{
	double		limit = (double) grn_memory_limit(b->spec.work_limit);
	double		all = rows * b->row_bytes;
	double		on_disk = Min(all, Max(memory - maintenance_work_mem * 1024.0, 0));

	if (on_disk == 0 || on_disk + memory - all <= limit)
		return 0;
	return ROWS_PASSED * all / speed;
}

static void
fill_result(Sample *s, Relation table, double rows, const Needs *needs, double device_seconds,
			Datum *values)
{
	GrnndBuild *b = &s->build;
	const GrnBuildResult *r = &b->builder.result;
	double		nodes = needs->nodes;
	double		records;
	GrnndBuildMemory memory;
	double		collect;
	double		load;
	double		beyond;
	double		speed;
	bool		wal = RelationNeedsWAL(table) && XLogIsNeeded();
	GrnLayout	layout;
	GrnndFilterNeeds filters;
	double		blocks;

	if (!grn_result_layout(&layout, &b->spec, r))
		elog(ERROR, "the index builder chose a record that does not fit a page");
	records = nodes + chains(s, &layout);
	filters = grnnd_filter_needs(b, &layout, s->built, rows, nodes, records);
	blocks = (double) grnnd_index_blocks(&layout, r->centred != 0, (uint64) (records + filters.records)) +
		filters.pages;
	memory = grnnd_build_memory(b, &layout, &(GrnndMemoryNeeds) {rows, nodes, needs->work_bytes, filters.bytes});

	collect = s->seconds / Max(s->seen, 1) * rows / (1 + grnnd_collect_workers(table, NULL)) +
		rows * RANK_SECONDS_PER_ROW;
	speed = disk_speed();
	load = write_seconds(blocks * BLCKSZ * (wal ? WITH_WAL : 1), speed);
	/* with one process pages are formed and written in turns */
	load = Max(load, (load + blocks * BLCKSZ * FORM_SECONDS_PER_BYTE) /
			   (1 + grnnd_write_workers(b, (uint64) blocks))) + LOAD_SECONDS * Min(blocks * BLCKSZ / LEAST_LOAD, 1);
	beyond = beyond_memory(b, rows, memory.memory + memory.disk, speed);
	ereport(DEBUG1,
			(errmsg_internal("grnnd estimate: collect %.3f s, device %.3f s, build %.3f s, load %.3f s, beyond memory %.3f s at %.0f MB/s",
							 collect, device_seconds, needs->seconds, load, beyond, speed / 1e6)));

	values[0] = Int64GetDatum((int64) rint(rows));
	values[1] = Int64GetDatum((int64) nodes);
	values[2] = Int32GetDatum((int32) b->column_dim);
	values[3] = CStringGetTextDatum(r->on_gpu ? "gpu" : "cpu");
	values[4] = Int64GetDatum((int64) (blocks * BLCKSZ));
	values[5] = Int64GetDatum((int64) (wal ? blocks * WAL_PAGE_BYTES : 0));
	values[6] = Int64GetDatum((int64) memory.memory);
	values[7] = Int64GetDatum((int64) memory.disk);
	values[8] = Int64GetDatum((int64) needs->gpu_bytes);
	values[9] = Float8GetDatum(Max(collect, device_seconds) + needs->seconds + load + beyond);
}

/* Everything but the arguments.  Leaves values[] zero where no row has a vector. */
static void
estimate(Sample *s, Relation table, const char *column, Datum *values)
{
	GrnndBuild *b = &s->build;
	GrnndMapping *map;
	double		rows;
	BlockNumber pages;
	double		tuples;
	double		allvisible;
	uint64		bytes = Min(MAX_SAMPLE_BYTES, (uint64) maintenance_work_mem * 1024 / 2);
	Needs		needs;
	double		device_seconds;

	estimate_rel_size(table, NULL, &pages, &tuples, &allvisible);
	s->wanted = Max(Min(b->spec.device == GRN_DEVICE_CPU ? MAX_SAMPLE_ROWS : MAX_SAMPLE_ROWS_GPU,
						bytes / (b->row_bytes)),
					Min(2 * Max(SAMPLE_ROWS, SAMPLE_ROWS_PER_DIM * (uint64) b->dim),
						SAMPLE_BYTES / (b->row_bytes)));
	/* no more than the table can hold */
	s->wanted = Min(s->wanted, Max((uint64) pages, 1) * MaxHeapTuplesPerPage);
	grnnd_build_map(b, s->wanted);
	map = b->map;
	grnnd_mapping_grow(map, GRN_SEG_VECTORS, s->wanted * b->row_bytes);
	grnnd_mapping_grow(map, GRN_SEG_ORDER, s->wanted * sizeof(uint32));
	grnnd_mapping_populate(map, GRN_SEG_VECTORS, 0, s->wanted * b->row_bytes);
	grnnd_mapping_populate(map, GRN_SEG_ORDER, 0, s->wanted * sizeof(uint32));
	if (b->attrs->n > 0)
	{
		grnnd_mapping_grow(map, GRN_SEG_ATTRS, s->wanted * grnnd_row_bytes(b->attrs));
		grnnd_mapping_populate(map, GRN_SEG_ATTRS, 0, s->wanted * grnnd_row_bytes(b->attrs));
	}
	s->row = palloc0(b->row_bytes);
	s->attrs = palloc0(Max(grnnd_row_bytes(b->attrs), 1));
	s->values = AllocSetContextCreate(CurrentMemoryContext, "grnnd filter columns", ALLOCSET_SMALL_SIZES);
	take_sample(s, table, column, tuples);
	if (b->rows == 0)
		return;

	for (uint64 i = 0; i < b->rows; i++)
		((uint32 *) map->base[GRN_SEG_ORDER])[i] = (uint32) i;
	if (s->share >= 1)
		tuples = (double) s->seen;
	else if (table->rd_rel->reltuples < 0)
		tuples = (double) s->seen / s->blocks * pages;
	rows = Max(tuples * s->indexed / s->seen, b->rows);

	if (b->spec.sig_bytes > 0)
		grnnd_fit_books(b, rows);
	s->members = grnnd_count_members(b);
	estimate_nodes(s, rows);
	grnnd_choose_device(b, rows);
	needs = measure(s, rows, &device_seconds);
	fill_result(s, table, rows, &needs, device_seconds, values);
}

/* Refuses parameters without a value; PostgreSQL would say that it does not know them. */
static void
check_options(ArrayType * options)
{
	Datum	   *each;
	bool	   *nulls;
	int			n;

	deconstruct_array(options, TEXTOID, -1, false, TYPALIGN_INT, &each, &nulls, &n);
	for (int i = 0; i < n; i++)
		if (nulls[i] || strchr(TextDatumGetCString(each[i]), '=') == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("storage parameter \"%s\" has no value",
							nulls[i] ? "NULL" : TextDatumGetCString(each[i])),
					 errhint("Write each as in \"{degree=32,layout=compact}\".")));
}

PG_FUNCTION_INFO_V1(grnnd_build_estimate);
Datum
grnnd_build_estimate(PG_FUNCTION_ARGS)
{
	Datum		values[NCOLUMNS];
	bool		nulls[NCOLUMNS] = {false};
	TupleDesc	tupdesc;
	Relation	table;
	const char *column;
	Form_pg_attribute attribute;
	Sample	   *s = palloc0(sizeof(Sample));
	GrnndOptions *options;
	GrnndFilterColumns *columns;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("table and column must not be null"),
				 errhint("Give the table and the name of the column that is to be indexed.")));
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	table = open_table(PG_GETARG_OID(0));
	column = NameStr(*PG_GETARG_NAME(1));
	attribute = grnnd_table_column(table, column);
	if (!PG_ARGISNULL(3))
		check_options(PG_GETARG_ARRAYTYPE_P(3));
	options = (GrnndOptions *) grnnd_options(PG_ARGISNULL(3) ? (Datum) 0 : PG_GETARG_DATUM(3), true);
	columns = grnnd_filter_columns(table, PG_ARGISNULL(4) ? NULL : PG_GETARG_ARRAYTYPE_P(4));
	grnnd_build_init(&s->build, grnnd_key_by_name(getBaseType(attribute->atttypid),
												  PG_ARGISNULL(2) ? NULL : PG_GETARG_TEXT_PP(2), NULL),
					 columns->attrs, attribute, options);
	s->columns = columns;
	for (int i = 0; i < NCOLUMNS; i++)
		values[i] = Int64GetDatum(0);
	values[2] = Int32GetDatum((int32) s->build.column_dim);
	values[9] = Float8GetDatum(0);
	nulls[3] = true;

	PG_ENSURE_ERROR_CLEANUP(grnnd_build_abandon, PointerGetDatum(&s->build));
	{
		estimate(s, table, column, values);
	}
	PG_END_ENSURE_ERROR_CLEANUP(grnnd_build_abandon, PointerGetDatum(&s->build));
	grnnd_build_finish(&s->build);

	nulls[3] = s->build.rows == 0;
	relation_close(table, AccessShareLock);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}
