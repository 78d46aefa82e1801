/*
 * passing.h - lets the kernel drop pages of a table or an index that a build reads or writes only
 * once.  Used if memory cannot hold all data of the build.
 *
 * Otherwise these pages would fill half of the kernel's cache.  The data of the build, which is
 * read several times, would then be on disk alone.
 */
#ifndef GRNND_PASSING_H
#define GRNND_PASSING_H

#include "postgres.h"

#include "storage/block.h"
#include "utils/rel.h"

/* Runs of blocks kept until the kernel has inserted them into its lists or written them. */
#define GRNND_PASSING_RUNS 4

typedef struct GrnndBlockRun
{
	BlockNumber begin;
	BlockNumber end;
} GrnndBlockRun;

/* The state of a process. */
typedef struct GrnndPassing
{
	Relation	rel;			/* NULL: no pages are dropped */
	bool		alone;			/* no other process reads blocks in between */
	GrnndBlockRun run;			/* the run that grows */
	uint32		nruns;			/* number of runs that have been full */
	GrnndBlockRun runs[GRNND_PASSING_RUNS]; /* the last full runs, in a ring */
	int			file;			/* descriptor of the relation's file, transient; -1: none is open */
	BlockNumber file_number;	/* number of the open file */
} GrnndPassing;

/* Initializes the state.  rel NULL: no page is dropped. */
extern void grnnd_passing_begin(GrnndPassing *passing, Relation rel, bool alone);
/* Notes that blocks [begin, end) are in shared buffers, or that the kernel has them for writing. */
extern void grnnd_passing_blocks(GrnndPassing *passing, BlockNumber begin, BlockNumber end);
/* Drops the remaining runs and closes the file. */
extern void grnnd_passing_end(GrnndPassing *passing);

#endif							/* GRNND_PASSING_H */
