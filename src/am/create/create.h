/*
 * create.h - CREATE INDEX in the server: the state of a build, and the steps that other rooms and
 * extensions call.
 */
#ifndef GRNND_CREATE_H
#define GRNND_CREATE_H

#include "postgres.h"

#include "access/parallel.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "portability/instr_time.h"
#include "storage/shm_toc.h"

#include "am/create/launch.h"
#include "am/create/mapping.h"
#include "am/grnnd.h"
#include "am/index/index.h"
#include "space/grn.h"

/* progress.c: the progress of CREATE INDEX. */

/* The seconds of the builder's steps, for a log; palloc'd. */
extern PGDLLEXPORT char *grnnd_builder_seconds(const GrnBuildResult *result);
/* Shows a phase and its counters in pg_stat_progress_create_index. */
extern void grnnd_report_phase(GrnStep phase, uint64 done, uint64 total);

/* Turns of a loop between two checks: some ten milliseconds. */
#define GRNND_CHECK_TURNS (UINT64CONST(1) << 20)

/*
 * Rows that a leader reads between two checks of the builder and of the segments.  A build of
 * 10,000 sentences takes the same time with half and twice.
 */
#define GRNND_ROWS_PER_CHECK 64

/* Checks for a cancel in every GRNND_CHECK_TURNS-th turn of a loop. */
static inline void
grnnd_check_cancel(uint64 turn)
{
	if ((turn & (GRNND_CHECK_TURNS - 1)) == 0)
		CHECK_FOR_INTERRUPTS();
}
extern PGDLLEXPORT double grnnd_seconds_since(instr_time start);

/* build_state.c: the state of an index build: its settings, its memory, and its end. */

typedef struct GrnndBuild
{
	Relation	heap;
	Relation	index;
	IndexInfo  *info;
	GrnndKey	key;
	GrnndOptions options;
	uint32		dim;			/* dimensions of the graph's vectors */
	uint32		column_dim;
	uint32		row_bytes;		/* bytes of a row in VECTORS */
	const GrnndAttrs *attrs;	/* filter columns */
	uint64		attrs_bytes;	/* address space of ATTRS in bytes, for builds without filter
								 * columns */
	double		expected_rows;	/* estimated rows, by the table's statistics */
	uint64		max_rows;		/* rows for which address space is reserved */
	GrnBuildSpec spec;
	GrnndMapping *map;			/* NULL before grnnd_build_map() and after release */
	GrnndBuilder builder;
	GrnSigBook *books;			/* [attrs->n] of VALUES; NULL without filter columns */
	/* results of collect.c */
	uint64		rows;			/* rows in VECTORS and TIDS */
	double		heap_tuples;
	double		collect_seconds;
	double		empty_seconds;	/* seconds in which the build's memory was freed */
	int			workers;		/* workers that collected rows */
	int			write_workers;	/* workers that wrote pages */
} GrnndBuild;

/* A row's heap TID in segment TIDS: block << 16 | offset.  The integers sort as TIDs do. */
static inline uint64
grnnd_pack_tid(ItemPointer tid)
{
	return (uint64) ItemPointerGetBlockNumberNoCheck(tid) << 16 |
		ItemPointerGetOffsetNumberNoCheck(tid);
}

static inline void
grnnd_unpack_tid(uint64 packed, ItemPointer tid)
{
	ItemPointerSet(tid, (BlockNumber) (packed >> 16), (OffsetNumber) (packed & 0xFFFF));
}

/*
 * Initializes a build by the definition of the index.  The caller sets map, heap, index and info
 * later.  Errors: 22023 if the column's type has no dimensions, 54000 if the type has too many
 * dimensions, 42804 for varbit.
 */
extern PGDLLEXPORT void grnnd_build_init(GrnndBuild *build, GrnndKey key, const GrnndAttrs *attrs,
										 Form_pg_attribute column, const GrnndOptions *options);
/* Copies the session's devices and threads to the spec.  Errors: as grnnd_check_settings(). */
extern PGDLLEXPORT void grnnd_set_devices(GrnBuildSpec *spec);
/*
 * Reserves address space for `rows` rows, or for as many rows as possible.  maintenance_work_mem
 * limits the memory; grnnd_build_map_within() takes another limit in bytes, and the name of its
 * setting.
 */
extern PGDLLEXPORT void grnnd_build_map(GrnndBuild *build, uint64 rows);
extern PGDLLEXPORT void grnnd_build_map_within(GrnndBuild *build, uint64 rows, uint64 memory, const char *setting);
/*
 * Releases the builder after its last page.  A builder with a GPU is parked: a later build of the
 * transaction takes it, and the end of the transaction does not wait until the driver has freed the
 * device.
 */
extern void grnnd_build_release_builder(GrnndBuild *build);
/* Error cleanup: an on_shmem_exit callback, whose argument is the GrnndBuild. */
extern PGDLLEXPORT void grnnd_build_abandon(int code, Datum build);
/* Ends a successful build. */
extern PGDLLEXPORT void grnnd_build_finish(GrnndBuild *build);

/* build_server.c: grnnd.build_server: the PostgreSQL on another host that builds. */

/*
 * grnnd_find_build_server() of the library of grnnd_build_server.  Sets spec->remote and returns a
 * connection string of libpq.  Errors: 42704 if there is no such server or user mapping, 2F003 if
 * the mapping lacks a password.
 */
typedef char *(*GrnndFindServerFn) (const char *name, GrnBuildSpec *spec);

/*
 * Calls that function, and sets spec->patience.  Returns NULL if this host builds.  Further error:
 * 58P01 if the library is not installed.
 */
extern char *grnnd_look_up_build_server(GrnBuildSpec *spec);

/* device_choice.c: chooses the device of a build with grnnd.build_device = auto. */

/* Processor seconds of a graph of `rows` rows on a core: 40 us a row and .03 us a number. */
static inline double
grnnd_core_seconds(const GrnndBuild *build, double rows)
{
	return rows * (40e-6 + 0.03e-6 * build->dim);
}

/* Whether a GPU, if the host has one, should build a graph of `rows` rows. */
extern PGDLLEXPORT bool grnnd_worth_gpu(const GrnndBuild *build, double rows);
/* Resolves grnnd.build_device = auto to the processor if the rows are too few for a GPU. */
extern PGDLLEXPORT void grnnd_choose_device(GrnndBuild *build, double rows);
/*
 * Estimated seconds of the graph of `rows` rows: on a GPU if the settings demand a GPU, otherwise
 * on cores.  For a GPU only the start counts, because the rest runs beside other work.
 */
extern PGDLLEXPORT double grnnd_graph_seconds(const GrnndBuild *build, double rows);
/* Notes, for later builds of the transaction, a build on cores that a GPU might have done. */
extern void grnnd_note_cpu_build(const GrnndBuild *build, double rows);
/* Notes, for later builds of the transaction, that no GPU is usable. */
extern void grnnd_note_no_gpu(void);

/* collect.c: reads the table's vectors into shared memory. */

/*
 * Largest number of rows that a participant claims at a time.  The unused rows of the last chunk
 * take address space too, so grnnd_build_map() must add a chunk for each participant.  Builds of
 * 10,000 sentences take the same time with half and twice of both numbers.
 */
#define GRNND_CHUNK_ROWS 4096
#define GRNND_CHUNK_BYTES (1024 * 1024) /* approximate bytes of vectors in a chunk */
static inline uint32
grnnd_chunk_rows(uint64 row_bytes)
{
	return (uint32) Max(1, Min(GRNND_CHUNK_ROWS, GRNND_CHUNK_BYTES / row_bytes));
}

/* Fills VECTORS, TIDS and, if there are rows, ORDER.  Sets rows and heap_tuples. */
extern void grnnd_collect(GrnndBuild *build);

/* in_backend.c: builds of few rows in the leader, without a builder process. */

/*
 * Whether the leader itself builds the graph of `rows` rows.  A setting may demand another place: a
 * GPU (grnnd.build_device = gpu) or another host (grnnd.build_server).
 */
extern bool grnnd_builds_in_backend(const GrnndBuild *build, double rows);
/*
 * Builds the graph of the collected rows like a builder process: fills build->builder.result, and
 * the segments that the result names.  Errors: those of the pipeline, as ereport().
 */
extern void grnnd_build_in_backend(GrnndBuild *build);
/* Begins to form pages of such a build.  (builder/forming.h) */
extern struct GrnForming *grnnd_form_in_backend(GrnndBuild *build, const GrnFormSpec *form);

/*
 * write_filters.c: fits books, unless rows have signatures without, and writes the ranks and
 * signatures of all rows to VALUES.
 */
extern void grnnd_make_values(GrnndBuild *build, bool fit);

/* parallel.c: parallel workers of CREATE INDEX: their number, their start and their end. */

typedef struct GrnndWorkers
{
	ParallelContext *pcxt;
	int			launched;
	BufferUsage *buffer_usage;	/* [workers] */
	WalUsage   *wal_usage;		/* [workers] */
} GrnndWorkers;

extern int	grnnd_collect_workers(Relation heap, Relation index);
/* Number of workers that may write pages.  build->index NULL: the index does not exist yet. */
extern PGDLLEXPORT int grnnd_write_workers(const GrnndBuild *build, uint64 index_pages);

/*
 * Enters parallel mode and allocates shared memory for at most nworkers workers, which will run
 * `function`.  *shared receives shared_bytes zeroed bytes.  Returns NULL if no shared memory is
 * left.
 */
extern GrnndWorkers *grnnd_workers_prepare(const char *function, int nworkers,
										   Size shared_bytes, void **shared);
extern void grnnd_workers_launch(GrnndWorkers *workers);
/* Waits for the workers' exit, rethrows their errors, and leaves parallel mode. */
extern void grnnd_workers_finish(GrnndWorkers *workers);

/* In a worker: returns the shared memory of grnnd_workers_prepare(). */
extern void *grnnd_worker_begin(shm_toc *toc);
extern void grnnd_worker_end(shm_toc *toc);

/* write_index.c: writes the pages of the index from the builder's result. */

/*
 * Checks the builder's result and writes all pages of the index.  Returns the number of blocks.
 * Errors: XX000 if the result is invalid, 54000 if the index would be too large.
 */
extern BlockNumber grnnd_write_index(GrnndBuild *build, const GrnBuildResult *result);
/* Writes an index without rows. */
extern void grnnd_write_empty_index(GrnndBuild *build, ForkNumber fork);
/*
 * The geometry of records whose own vectors have the form `form`, before rows are known: with codes
 * of the usual shape.
 */
extern PGDLLEXPORT GrnLayoutSpec grnnd_usual_layout(const GrnndBuild *build, GrnForm form);
/*
 * Assigns blocks to all parts of an index with `records` records, in a metapage with the numbers of
 * nodes, columns and buckets.  Returns the number of blocks.  centered: own vectors have a center.
 */
extern PGDLLEXPORT uint64 grnnd_place_blocks(GrnndMeta *meta, const GrnLayout *l, bool centered, uint64 records);

#endif							/* GRNND_CREATE_H */
