/*
 * passing.c - drops pages from the kernel's cache that a build reads or writes only once; see
 * passing.h.
 *
 * PostgreSQL has no call for this, so passing.c opens the relation's files once more, for reading.
 * Errors are ignored: if a file is missing or the kernel ignores the advice, the build only takes
 * longer.
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/relpath.h"
#include "storage/fd.h"

#include "am/create/passing.h"
#include "am/compat.h"

/* Blocks dropped at a time, 4 MB: a build beyond memory takes 17.6 s, with none dropped 21.8 s. */
#define RUN_BLOCKS ((BlockNumber) (4 * 1024 * 1024 / BLCKSZ))

/*
 * The kernel caches read-ahead in pieces of up to 2 MB, and keeps a piece if only a part is to be
 * dropped: with runs of 1 MB the kernel kept 98%.
 */
#define PIECE_BLOCKS ((BlockNumber) (2 * 1024 * 1024 / BLCKSZ))

/*
 * Largest gap in a run, in blocks.  Blocks without rows are not reported but have been read as
 * well.  A larger gap, if several processes read the table, belongs to another process.
 */
#define MOST_SKIPPED ((BlockNumber) 32)

void
grnnd_passing_begin(GrnndPassing *passing, Relation rel, bool alone)
{
	memset(passing, 0, sizeof(*passing));
	passing->rel = rel;
	passing->alone = alone;
	passing->file = -1;
}

static void
close_file(GrnndPassing *passing)
{
	if (passing->file >= 0)
		CloseTransientFile(passing->file);
	passing->file = -1;
}

/* Opens the relation's file that contains a block.  Returns false if it cannot be opened. */
static bool
open_file(GrnndPassing *passing, BlockNumber block)
{
	BlockNumber number = block / RELSEG_SIZE;
	char		path[MAXPGPATH];

	if (passing->file >= 0 && passing->file_number == number)
		return true;
	close_file(passing);
	GRNND_MAIN_PATH(path, passing->rel);
	if (number > 0)
		snprintf(path + strlen(path), sizeof(path) - strlen(path), ".%u", number);
	passing->file = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	passing->file_number = number;
	return passing->file >= 0;
}

static void
forget(GrnndPassing *passing, GrnndBlockRun run)
{
	if (run.begin < run.end)
	{
		run.begin = run.begin / PIECE_BLOCKS * PIECE_BLOCKS;
		run.end = (run.end + PIECE_BLOCKS - 1) / PIECE_BLOCKS * PIECE_BLOCKS;
	}
	while (run.begin < run.end && passing->rel != NULL)
	{
		BlockNumber in_file = run.begin % RELSEG_SIZE;
		BlockNumber n = Min(run.end - run.begin, RELSEG_SIZE - in_file);

		if (open_file(passing, run.begin))
			(void) posix_fadvise(passing->file, (off_t) in_file * BLCKSZ, (off_t) n * BLCKSZ,
								 POSIX_FADV_DONTNEED);
		run.begin += n;
	}
}

/* Ends a full run, and drops the oldest run in the ring. */
static void
end_run(GrnndPassing *passing)
{
	GrnndBlockRun *oldest = &passing->runs[passing->nruns++ % GRNND_PASSING_RUNS];

	forget(passing, *oldest);
	*oldest = passing->run;
	passing->run.begin = passing->run.end;
}

void
grnnd_passing_blocks(GrnndPassing *passing, BlockNumber begin, BlockNumber end)
{
	GrnndBlockRun *run = &passing->run;

	/* A page has several rows, so the same block comes repeatedly. */
	if (passing->rel == NULL || end == run->end)
		return;
	if (begin < run->end || (begin > run->end + MOST_SKIPPED && !passing->alone))
	{
		if (run->begin < run->end)
			end_run(passing);
		run->begin = begin;
	}
	run->end = end;
	if (run->end - run->begin >= RUN_BLOCKS)
		end_run(passing);
}

void
grnnd_passing_end(GrnndPassing *passing)
{
	for (uint32 i = 0; i < GRNND_PASSING_RUNS; i++)
		forget(passing, passing->runs[i]);
	forget(passing, passing->run);
	close_file(passing);
}
