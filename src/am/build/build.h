/*
 * build.h - what the files of CREATE INDEX (build.c, collect.c, launch.c, write_index.c)
 * share.
 */
#ifndef GRNND_BUILD_H
#define GRNND_BUILD_H

#include "nodes/execnodes.h"
#include "portability/instr_time.h"

#include "am/grnnd.h"
#include "am/build/launch.h"
#include "am/build/mapping.h"
#include "am/options.h"

typedef struct GrnndBuild
{
	Relation	heap;
	Relation	index;
	IndexInfo  *info;
	GrnndKey	key;
	GrnndOptions options;
	uint32		dim;
	uint32		stride;			/* floats between rows of VECTORS */
	uint64		max_rows;		/* for which address space is reserved */
	GrnBuildSpec spec;
	GrnndMapping *map;			/* NULL before it is made and after its release */
	GrnndBuilder builder;
	/* collect.c's results */
	uint64		rows;			/* in VECTORS and TIDS */
	double		heap_tuples;
	int			workers;		/* that took part in collecting */
	int			load_workers;	/* that took part in writing */
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

/* build.c: also for grnnd_build_estimate(), which builds over a sample of the rows. */
extern void grnnd_report_phase(GrnPhase phase, uint64 done, uint64 total);
/* Errors: 22023 where the column's type has no dimensions, 54000 where it has too many. */
extern void grnnd_build_init(GrnndBuild *build, GrnndKey key, Form_pg_attribute column,
							 const GrnndOptions *options);
extern void grnnd_build_map(GrnndBuild *build, uint64 rows);
extern void grnnd_choose_device(GrnndBuild *build, double rows);
extern void grnnd_build_abandon(int code, Datum build);
extern void grnnd_build_finish(GrnndBuild *build);
extern double grnnd_seconds_since(instr_time start);

/*
 * collect.c: fills VECTORS, TIDS and, unless there is no row, ORDER; sets rows and
 * heap_tuples.
 */
extern void grnnd_collect(GrnndBuild *build);

/*
 * write_index.c: checks the builder's result and writes all pages of the index; returns
 * the number of blocks.  grnnd_write_empty_index() writes an index without rows.
 */
extern BlockNumber grnnd_write_index(GrnndBuild *build, const GrnBuildResult *result);
extern void grnnd_write_empty_index(GrnndBuild *build, ForkNumber fork);
/* row_start of a result (protocol.h), [nodes + 1], once its numbers and bounds are checked. */
extern const uint32 *grnnd_result_row_start(const GrnndBuild *build, const GrnBuildResult *result);
/* Blocks of an index with so many records, as write_index.c lays them out. */
extern uint64 grnnd_index_blocks(const GrnLayout *layout, uint64 records);

#endif							/* GRNND_BUILD_H */
