/*
 * passing.h - pages of a table or an index that a build reads or writes once, where memory holds
 * not all that the build comes back to: the kernel need not keep those.
 *
 * Otherwise they take half of its cache, and what the build has made of the rows lies on the disk
 * alone, though it is read several times.
 */
#ifndef GRNND_PASSING_H
#define GRNND_PASSING_H

#include "postgres.h"

#include "storage/block.h"
#include "utils/rel.h"

/* Runs of blocks that the kernel keeps yet: until it has put them in order, or has written them. */
#define GRNND_PASSING_RUNS 4

typedef struct GrnndBlockRun
{
	BlockNumber begin;
	BlockNumber end;
} GrnndBlockRun;

/* Of one process. */
typedef struct GrnndPassing
{
	Relation	rel;			/* NULL: pages stay */
	bool		alone;			/* no other process has blocks in between */
	GrnndBlockRun run;			/* that grows */
	uint32		nruns;			/* that have been full */
	GrnndBlockRun runs[GRNND_PASSING_RUNS]; /* the last of them, in a ring */
	int			file;			/* of the relation, transient; -1: none is open */
	BlockNumber file_number;	/* which one it is */
} GrnndPassing;

extern void grnnd_passing_begin(GrnndPassing *passing, Relation rel, bool alone);
/* Blocks [begin, end) are in shared buffers, or have been given to the kernel to be written. */
extern void grnnd_passing_blocks(GrnndPassing *passing, BlockNumber begin, BlockNumber end);
extern void grnnd_passing_end(GrnndPassing *passing);

#endif							/* GRNND_PASSING_H */
