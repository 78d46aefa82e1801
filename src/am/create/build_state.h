/*
 * build_state.h - the state of an index build: its settings, its memory, and its end.
 */
#ifndef GRNND_BUILD_STATE_H
#define GRNND_BUILD_STATE_H

#include "postgres.h"

#include "nodes/execnodes.h"

#include "am/create/launch.h"
#include "am/create/mapping.h"
#include "am/grnnd.h"
#include "am/index/options.h"

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
	bool		holds_builder;	/* the builder may have groups to make (write_groups.c) */
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
 * Releases the builder after its last task: parks the builder for a later build of the transaction,
 * or ends it.
 */
extern void grnnd_build_release_builder(GrnndBuild *build);
/* Error cleanup: an on_shmem_exit callback, whose argument is the GrnndBuild. */
extern PGDLLEXPORT void grnnd_build_abandon(int code, Datum build);
/* Ends a successful build. */
extern PGDLLEXPORT void grnnd_build_finish(GrnndBuild *build);

#endif							/* GRNND_BUILD_STATE_H */
