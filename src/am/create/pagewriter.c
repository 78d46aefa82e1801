/*
 * pagewriter.c - bulk writing of a new relation; see pagewriter.h.
 *
 * PostgreSQL 17 has an interface for bulk writes (bulk_write.h), for a single process and a single
 * page a write.  This file serves all versions, lets workers share the writing, and writes a batch
 * at a time.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/smgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/compat.h"
#include "am/create/pagewriter.h"

/* Alignment of the pages' memory: direct I/O needs the alignment of a memory page. */
#define PAGE_ALIGN 4096

struct GrnndPageWriter
{
	Relation	rel;
	ForkNumber	fork;
	bool		use_wal;
	bool		write_back;		/* the file will be synced, so the disk should start to write now */
	XLogRecPtr	start_redo;		/* redo pointer of the last checkpoint at the beginning */
	BlockNumber first;			/* block of pages[0] */
	int			npages;			/* pages filled, and the page being filled */
	char	   *memory;
	char	   *pages;			/* [GRNND_WRITER_PAGES][BLCKSZ], aligned */
};

bool
grnnd_writer_needs_wal(Relation rel, ForkNumber fork)
{
	/* The init fork of an unlogged relation must survive a crash. */
	return fork == INIT_FORKNUM || RelationNeedsWAL(rel);
}

GrnndPageWriter *
grnnd_writer_begin(Relation rel, ForkNumber fork, bool use_wal)
{
	GrnndPageWriter *w = palloc0(sizeof(GrnndPageWriter));

	w->rel = rel;
	w->fork = fork;
	w->use_wal = use_wal;
	w->write_back = RelationIsPermanent(rel) && (!use_wal || PG_VERSION_NUM < 170000);
	w->start_redo = GetRedoRecPtr();
	w->memory = palloc(GRNND_WRITER_PAGES * BLCKSZ + PAGE_ALIGN);
	w->pages = (char *) TYPEALIGN(PAGE_ALIGN, w->memory);
	return w;
}

void
grnnd_writer_extend(GrnndPageWriter *w, BlockNumber nblocks)
{
#if PG_VERSION_NUM >= 160000
	/* in pieces, so that a cancel is handled between pieces */
	for (uint64 at = 0; at < nblocks; at += RELSEG_SIZE)
	{
		CHECK_FOR_INTERRUPTS();
		smgrzeroextend(RelationGetSmgr(w->rel), w->fork, (BlockNumber) at,
					   (int) Min(nblocks - at, RELSEG_SIZE), true);
	}
#else
	/* Only the last block is written: the blocks before are a hole until they are written. */
	memset(w->pages, 0, BLCKSZ);
	smgrextend(RelationGetSmgr(w->rel), w->fork, nblocks - 1, w->pages, true);
#endif
}

static void
write_pages(GrnndPageWriter *w, BlockNumber first, int n, Page *pages)
{
	SMgrRelation smgr = RelationGetSmgr(w->rel);

#if PG_VERSION_NUM >= 170000
	while (n > 0)
	{
		/* A write must not cross from a file of the relation to the next file. */
		int			count = (int) Min(n, RELSEG_SIZE - first % RELSEG_SIZE);

		smgrwritev(smgr, w->fork, first, (const void **) pages, count, true);
		first += count;
		pages += count;
		n -= count;
	}
#else
	for (int i = 0; i < n; i++)
		smgrwrite(smgr, w->fork, first + i, (char *) pages[i], true);
#endif
}

void
grnnd_writer_put(GrnndPageWriter *w, BlockNumber block, uint32 n, char *memory)
{
	BlockNumber blocks[GRNND_WRITER_PAGES];
	Page		pages[GRNND_WRITER_PAGES];

	Assert(n > 0 && n <= GRNND_WRITER_PAGES);
	for (uint32 i = 0; i < n; i++)
	{
		blocks[i] = block + i;
		pages[i] = (Page) (memory + (size_t) i * BLCKSZ);
	}
	if (w->use_wal)
	{
		log_newpages(&w->rel->rd_locator, w->fork, (int) n, blocks, pages, true);

		/*
		 * Asks the WAL writer to write the WAL in large pieces.  If the WAL writer sleeps and WAL
		 * buffers run full, a backend that needs a buffer writes a single page of 8 kB.
		 */
		XLogSetAsyncXactLSN(PageGetLSN(pages[n - 1]));
	}
	for (uint32 i = 0; i < n; i++)
		PageSetChecksumInplace(pages[i], blocks[i]);
	write_pages(w, block, (int) n, pages);
	if (w->write_back)
		smgrwriteback(RelationGetSmgr(w->rel), w->fork, block, n);
}

static void
flush(GrnndPageWriter *w)
{
	if (w->npages > 0)
		grnnd_writer_put(w, w->first, (uint32) w->npages, w->pages);
	w->npages = 0;
}

Page
grnnd_writer_page(GrnndPageWriter *w, BlockNumber block)
{
	Page		page;

	if (block != w->first + w->npages || w->npages == GRNND_WRITER_PAGES)
		flush(w);
	if (w->npages == 0)
		w->first = block;
	page = (Page) (w->pages + (size_t) w->npages++ * BLCKSZ);
	memset(page, 0, BLCKSZ);
	return page;
}

void
grnnd_writer_end(GrnndPageWriter *w)
{
	flush(w);
	pfree(w->memory);
	pfree(w);
}

/*
 * Makes the pages durable.  The checkpointer does not know pages written past shared buffers.  With
 * WAL, the WAL suffices unless a checkpoint has begun since the writer began; after a checkpoint
 * the pages must be synced now.  Without WAL, the end of the transaction syncs a new permanent
 * relation.  Unlogged relations must survive a clean shutdown.
 */
void
grnnd_writer_finish(GrnndPageWriter *w)
{
	SMgrRelation smgr;

	flush(w);
	smgr = RelationGetSmgr(w->rel);
	if (RelationUsesLocalBuffers(w->rel))
		 /* a crash drops temporary relations anyway */ ;
#if PG_VERSION_NUM >= 170000
	else if (!w->use_wal)
		smgrregistersync(smgr, w->fork);
	else
	{
		/* No checkpoint may begin between the comparison and the registration. */
		Assert((MyProc->delayChkptFlags & DELAY_CHKPT_START) == 0);
		MyProc->delayChkptFlags |= DELAY_CHKPT_START;
		if (w->start_redo == GetRedoRecPtr())
		{
			smgrregistersync(smgr, w->fork);
			MyProc->delayChkptFlags &= ~DELAY_CHKPT_START;
		}
		else
		{
			MyProc->delayChkptFlags &= ~DELAY_CHKPT_START;
			smgrimmedsync(smgr, w->fork);
		}
	}
#else
	else if (w->use_wal || !RelationIsPermanent(w->rel))
		smgrimmedsync(smgr, w->fork);
#endif
	grnnd_writer_end(w);
}
