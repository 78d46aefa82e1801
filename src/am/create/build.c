/*
 * build.c - CREATE INDEX from end to end: collects the vectors (collect.c), has the builder process
 * make a graph of them (launch.c), and writes the index's pages (write_index.c).
 */
#include "am/callbacks.h"

#include "access/tableam.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "utils/guc.h"
#include "utils/rel.h"

#include "am/create/create.h"

/* Address space for 512 MB that other sessions may add to the table before the scan begins. */
#define EXTRA_BLOCKS 65536

/* ---- sparse rows ---- */

/* 10,000 rows of keywords: the same size with half and twice, recall as two builds differ. */
#define SAMPLED_RANGES 64		/* ranges of blocks that the sample reads */
#define SAMPLED_BLOCKS 8		/* blocks of a range */
/*
 * Share of the rows that need no more words than the index has for a row.  10,000 rows of keywords:
 * with .96 and .99 the index is 10% smaller and 12% larger, and recall differs as two builds do;
 * after three quarters are deleted, recall at ef 200 with this, .99, .995 and 1 is .978, .985, .990
 * and .997 in 9, 10, 10 and 16 MB.
 */
#define FITTING 0.98

typedef struct WordsSample
{
	const GrnndKey *key;
	uint64		counts[GRNND_MOST_WORDS + 1];	/* rows by words */
	uint64		rows;
} WordsSample;

/* An IndexBuildCallback. */
static void
count_words(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	WordsSample *s = state;
	Datum		plain;

	if (isnull[0])
		return;
	plain = PointerGetDatum(PG_DETOAST_DATUM(values[0]));
	s->counts[Min(s->key->type->words(plain), GRNND_MOST_WORDS)]++;
	s->rows++;
	if (plain != values[0])
		pfree(DatumGetPointer(plain));
}

/*
 * The words of a sparse row for an index of the table's rows, from a sample of blocks.  Longer rows
 * are rounded, and scans read them from the table.
 */
static uint32
sample_words(const GrnndKey *key, Relation heap, Relation index, IndexInfo *info)
{
	WordsSample *s = palloc0(sizeof(WordsSample));
	BlockNumber blocks = RelationGetNumberOfBlocks(heap);
	uint32		ranges = blocks <= SAMPLED_RANGES * SAMPLED_BLOCKS ? 1 : SAMPLED_RANGES;
	uint64		below = 0;
	uint32		words = GRNND_LEAST_WORDS;

	s->key = key;
	for (uint32 i = 0; i < ranges && blocks > 0; i++)
		(void) table_index_build_range_scan(heap, index, info, false, false, false,
											(BlockNumber) ((uint64) blocks * i / ranges),
											ranges == 1 ? blocks : SAMPLED_BLOCKS, count_words, s, NULL);
	for (uint32 i = 0; i <= GRNND_MOST_WORDS && (double) below < FITTING * (double) s->rows; i++)
	{
		below += s->counts[i];
		words = Max(i, words);
	}
	if (s->rows == 0)
		words = key->words;
	pfree(s);
	return words;
}

/* Initializes a build by an index's definition.  heap and info may be NULL. */
static void
init_build(GrnndBuild *build, Relation heap, Relation index, IndexInfo *info)
{
	GrnndKey	key = grnnd_key(index);

	if (key.type->words != NULL && heap != NULL)
		key.words = sample_words(&key, heap, index, info);
	grnnd_build_init(build, key, grnnd_attrs(index),
					 TupleDescAttr(RelationGetDescr(index), 0),
					 (GrnndOptions *) index->rd_options);
	build->heap = heap;
	build->index = index;
	build->info = info;
}

/* A sentence for the user: the measured recall at the default width, or "". */
static const char *
recall_text(const GrnBuildResult *result)
{
	static const uint32 widths[] = GRN_CURVE_WIDTHS;

	for (int i = 0; i < GRN_CURVE_POINTS && result->curve.queries > 0; i++)
		if (widths[i] == GRNND_DEFAULT_EF)
			return psprintf(" Recall of the 10 nearest is %.3f at ef_search %u.",
							result->curve.recall[0][i], widths[i]);
	return "";
}

static void
run_build(GrnndBuild *build)
{
	GrnndBuilder *builder = &build->builder;
	GrnBuildResult *result = &builder->result;
	instr_time	start;
	double		build_s,
				end_s,
				write_s;
	BlockNumber pages;
	double		allvisible;
	BlockNumber blocks;
	char	   *server = grnnd_look_up_build_server(&build->spec);

	/* Only this leader reads VECTORS, so rows may move.  On another host rows do not move. */
	build->spec.may_move = 1;

	/* Room for all rows of the heap, and for a chunk of the leader and of each worker. */
	blocks = RelationGetNumberOfBlocks(build->heap);
	grnnd_build_map(build, ((uint64) blocks + (build->info->ii_Concurrent ? EXTRA_BLOCKS : 0)) *
					MaxHeapTuplesPerPage +
					(1 + (uint64) max_parallel_maintenance_workers) * GRNND_CHUNK_ROWS);

	/*
	 * For a large table the builder starts now, and opens its device during the table's scan.
	 * Otherwise the builder starts after the scan, if there are rows.
	 */
	estimate_rel_size(build->heap, NULL, &blocks, &build->expected_rows, &allvisible);
	if (server != NULL)
	{
		/* The builder sends rows to the other host while the leader collects rows. */
		build->spec.expected = (uint64) Max(build->expected_rows, 0);
		grnnd_builder_start(builder, build->map, &build->spec);
		grnnd_builder_connect(builder, server);
	}
	else if (build->spec.device == GRN_DEVICE_GPU ||
			 (build->spec.device == GRN_DEVICE_AUTO && !grnnd_builds_in_backend(build, build->expected_rows) &&
			  grnnd_worth_gpu(build, build->expected_rows)))
		grnnd_builder_start(builder, build->map, &build->spec);

	INSTR_TIME_SET_CURRENT(start);
	grnnd_collect(build);
	build->collect_seconds = grnnd_seconds_since(start);

	if (build->rows == 0)
	{
		grnnd_write_empty_index(build, MAIN_FORKNUM);
		return;
	}

	INSTR_TIME_SET_CURRENT(start);
	if (builder->pid == 0 && grnnd_builds_in_backend(build, (double) build->rows))
		grnnd_build_in_backend(build);
	else if (builder->pid == 0)
	{
		bool		automatic = build->spec.device == GRN_DEVICE_AUTO;

		grnnd_choose_device(build, (double) build->rows);
		if (automatic && build->spec.device == GRN_DEVICE_CPU)
			grnnd_note_cpu_build(build, (double) build->rows);
		grnnd_builder_start(builder, build->map, &build->spec);
	}
	if (builder->pid != 0)
		grnnd_builder_begin(builder, build->rows);
	/* Values are made while the builder makes the graph.  Too few rows seldom have lists. */
	if (build->rows >= build->spec.fit_rows)
		grnnd_make_values(build, true);
	if (builder->pid != 0)
		grnnd_builder_await_end(builder);
	build_s = grnnd_seconds_since(start);
	if (build->spec.device == GRN_DEVICE_AUTO && builder->no_gpu)
		grnnd_note_no_gpu();

	INSTR_TIME_SET_CURRENT(start);
	pages = grnnd_write_index(build, result);
	write_s = grnnd_seconds_since(start) - build->empty_seconds;

	INSTR_TIME_SET_CURRENT(start);
	grnnd_builder_end(builder);
	end_s = grnnd_seconds_since(start) + build->empty_seconds;

	/* Shown only if client_min_messages = info. */
	if (client_min_messages <= INFO)
		ereport(INFO,
				(errmsg("index \"%s\" has been built on %s: %llu rows, %u of them distinct, in %.1f s",
						RelationGetRelationName(build->index), result->on_gpu ? "a GPU" : "CPU cores",
						(unsigned long long) build->rows, result->nodes,
						build->collect_seconds + build_s + write_s + end_s),
				 errdetail("Collecting rows took %.1f s, the graph %.1f s, codes %.1f s, measuring recall %.1f s, writing pages %.1f s.%s",
						   build->collect_seconds, build_s - result->seconds[GRN_STEP_CODES] - result->seconds[GRN_STEP_RECALL],
						   result->seconds[GRN_STEP_CODES], result->seconds[GRN_STEP_RECALL], write_s + end_s,
						   recall_text(result))));
	ereport(DEBUG1,
			(errmsg_internal("grnnd build: rows %llu, nodes %u, pages %u, device %s, workers %d and %d, "
							 "collect %.3f s, build %.3f s (%s), "
							 "load %.3f s, end %.3f s, memory " UINT64_FORMAT ", temporary file " UINT64_FORMAT ", parts %u%s%s",
							 (unsigned long long) build->rows, result->nodes, pages,
							 result->on_gpu ? "gpu" : "cpu", build->workers, build->write_workers,
							 build->collect_seconds, build_s, grnnd_builder_seconds(result), write_s, end_s, build->map->memory_used,
							 build->map->file_size[GRNND_FILE_DISK], result->parts,
							 result->moved ? ", rows moved" : "",
							 builder->sizes.groups > 0 ? psprintf(", %llu groups of lists", (unsigned long long) builder->sizes.groups) : "")));
	if (server != NULL)
		ereport(DEBUG1,
				(errmsg_internal("grnnd build server: connect %.3f s, rows %.3f s, graph %.3f s, result %.3f s, end %.3f s",
								 result->remote.connect, result->remote.rows, result->remote.graph,
								 result->remote.result, result->remote.end)));
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

/* The ambuildempty callback: writes the init fork of an UNLOGGED table's index. */
void
grnnd_buildempty(Relation index)
{
	GrnndBuild *build = palloc(sizeof(GrnndBuild));

	init_build(build, NULL, index, NULL);
	grnnd_write_empty_index(build, INIT_FORKNUM);
	pfree(build);
}
