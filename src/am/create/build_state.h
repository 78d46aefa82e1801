/*
 * build_state.h - one build of an index: what it is to make, its memory, and its end.
 */
#ifndef GRNND_BUILD_STATE_H
#define GRNND_BUILD_STATE_H

#include "postgres.h"

#include "nodes/execnodes.h"

#include "am/create/launch.h"
#include "am/create/mapping.h"
#include "am/grnnd.h"
#include "am/options.h"

typedef struct GrnndBuild
{
	Relation	heap;
	Relation	index;
	IndexInfo  *info;
	GrnndKey	key;
	GrnndOptions options;
	uint32		dim;			/* of the graph */
	uint32		column_dim;
	uint32		row_bytes;		/* from row to row of VECTORS */
	const GrnndAttrs *attrs;	/* filter columns */
	uint64		attrs_bytes;	/* address space of ATTRS, where there are no filter columns */
	uint32		words;			/* of 8 bytes a row in TIDS */
	double		expected_rows;	/* about, by the table's statistics */
	uint64		max_rows;		/* for which address space is reserved */
	GrnBuildSpec spec;
	GrnndMapping *map;			/* NULL before it is made and after its release */
	GrnndBuilder builder;
	bool		holds_builder;	/* it may have groups to choose (write_groups.c) */
	/* collect.c's results */
	uint64		rows;			/* in VECTORS and TIDS */
	double		heap_tuples;
	double		collect_seconds;
	double		empty_seconds;	/* in which its memory went back */
	int			workers;		/* that took part in collecting */
	int			write_workers;	/* that took part in writing */
} GrnndBuild;

/* A row's heap TID in segment TIDS: block << 16 | offset, so that it sorts. */
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
 * From what the build is to index; map, heap, index and info are still to come.  Errors: 22023
 * where the column's type has no dimensions, 54000 where it has too many.
 */
extern void grnnd_build_init(GrnndBuild *build, GrnndKey key, const GrnndAttrs *attrs,
							 Form_pg_attribute column, const GrnndOptions *options);
/* What the session's settings say of devices and threads.  Error: grnnd_check_settings()'s. */
extern void grnnd_set_devices(GrnBuildSpec *spec);
/*
 * Reserves address space for so many rows, or as many as are possible.  Memory is limited by
 * maintenance_work_mem, or in bytes by another setting.
 */
extern void grnnd_build_map(GrnndBuild *build, uint64 rows);
extern void grnnd_build_map_within(GrnndBuild *build, uint64 rows, uint64 memory, const char *setting);
/* Once nothing more is wanted of the builder: parks it for a later build, or has it end. */
extern void grnnd_build_let_go(GrnndBuild *build);
/* Error cleanup: an on_shmem_exit callback, whose argument is the GrnndBuild. */
extern void grnnd_build_abandon(int code, Datum build);
/* The end of a build that went well. */
extern void grnnd_build_finish(GrnndBuild *build);

#endif							/* GRNND_BUILD_STATE_H */
