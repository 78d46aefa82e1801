/*
 * pagewriter.c - bulk writing of a new relation; see pagewriter.h.
 *
 * PostgreSQL 17 has an interface for this, which takes one page at a time; this one
 * serves all versions, forms pages in place and can write ranges out of order.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/smgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "compat.h"
#include "pagewriter.h"

/* Alignment of the pages' memory: direct I/O wants that of a memory page. */
#define PAGE_ALIGN 4096

struct GrnndPageWriter
{
	Relation	rel;
	ForkNumber	fork;
	bool		use_wal;
	XLogRecPtr	start_redo;		/* of the last checkpoint when we began */
	BlockNumber first;			/* block of pages[0] */
	int			npages;			/* filled or being filled */
	BlockNumber extended;		/* blocks that the file has */
	char	   *memory;
	char	   *pages;			/* [GRNND_WRITER_PAGES][BLCKSZ], aligned */
};

GrnndPageWriter *
grnnd_writer_begin(Relation rel, ForkNumber fork)
{
	GrnndPageWriter *w = palloc0(sizeof(GrnndPageWriter));

	w->rel = rel;
	w->fork = fork;
	/* an unlogged relation's init fork must survive a crash */
	w->use_wal = RelationNeedsWAL(rel) || fork == INIT_FORKNUM;
	w->start_redo = GetRedoRecPtr();
	w->memory = palloc(GRNND_WRITER_PAGES * BLCKSZ + PAGE_ALIGN);
	w->pages = (char *) TYPEALIGN(PAGE_ALIGN, w->memory);
	return w;
}

/* Writes n consecutive pages from w->pages as blocks [first, first + n). */
static void
write_batch(GrnndPageWriter *w, BlockNumber first, int n)
{
	SMgrRelation smgr = RelationGetSmgr(w->rel);
	BlockNumber blocks[GRNND_WRITER_PAGES];
	Page		pages[GRNND_WRITER_PAGES];

	for (int i = 0; i < n; i++)
	{
		blocks[i] = first + i;
		pages[i] = (Page) (w->pages + (size_t) i * BLCKSZ);
	}
	if (w->use_wal)
		log_newpages(&w->rel->rd_locator, w->fork, n, blocks, pages, true);
	for (int i = 0; i < n; i++)
	{
		PageSetChecksumInplace(pages[i], blocks[i]);
		if (blocks[i] >= w->extended)
		{
			smgrextend(smgr, w->fork, blocks[i], pages[i], true);
			w->extended = blocks[i] + 1;
		}
		else
			smgrwrite(smgr, w->fork, blocks[i], pages[i], true);
	}
}

void
grnnd_writer_flush(GrnndPageWriter *w)
{
	if (w->npages == 0)
		return;
	write_batch(w, w->first, w->npages);
	w->first += w->npages;
	w->npages = 0;
}

Page
grnnd_writer_next(GrnndPageWriter *w)
{
	Page		page;

	if (w->npages == GRNND_WRITER_PAGES)
		grnnd_writer_flush(w);
	page = (Page) (w->pages + (size_t) w->npages++ * BLCKSZ);
	memset(page, 0, BLCKSZ);
	return page;
}

void
grnnd_writer_skip(GrnndPageWriter *w)
{
	grnnd_writer_flush(w);
	memset(w->pages, 0, BLCKSZ);
	smgrextend(RelationGetSmgr(w->rel), w->fork, w->first, w->pages, true);
	w->extended = ++w->first;
}

Page
grnnd_writer_block(GrnndPageWriter *w, BlockNumber block)
{
	Assert(w->npages == 0 && block < w->extended);
	w->first = block;
	w->npages = 1;
	memset(w->pages, 0, BLCKSZ);
	return (Page) w->pages;
}

/*
 * Pages written past shared buffers are unknown to the checkpointer.  Where WAL
 * has them, that suffices as long as no checkpoint has begun since; else they
 * must reach the disk now.  Without WAL, the end of the transaction syncs a new
 * permanent relation, and unlogged ones must survive a clean shutdown.
 */
static void
make_durable(GrnndPageWriter *w)
{
	SMgrRelation smgr = RelationGetSmgr(w->rel);

	if (RelationUsesLocalBuffers(w->rel))
		return;
#if PG_VERSION_NUM >= 170000
	if (!w->use_wal)
		smgrregistersync(smgr, w->fork);
	else
	{
		/* no checkpoint may begin between the question and the registration */
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
	if (w->use_wal || !RelationIsPermanent(w->rel))
		smgrimmedsync(smgr, w->fork);
#endif
}

void
grnnd_writer_end(GrnndPageWriter *w)
{
	grnnd_writer_flush(w);
	make_durable(w);
	pfree(w->memory);
	pfree(w);
}
