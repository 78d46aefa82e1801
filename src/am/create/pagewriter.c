/*
 * pagewriter.c - bulk writing of a new relation; see pagewriter.h.
 *
 * PostgreSQL 17 has an interface for this (bulk_write.h), for one process and one
 * page a write; this one serves all versions, lets workers share the writing,
 * and writes a batch at a time.
 */
#include "postgres.h"

#include <unistd.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/smgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/compat.h"
#include "am/create/pagewriter.h"
#include "am/create/passing.h"

/* Alignment of the pages' memory: direct I/O wants that of a memory page. */
#define PAGE_ALIGN 4096

/* 128 MB at the default segment size: the work of several processes at a time. */
#define WAL_SEGMENTS_AHEAD 8

struct GrnndPageWriter
{
	Relation	rel;
	ForkNumber	fork;
	bool		use_wal;
	bool		write_back;		/* someone will sync: let the disk start now */
	XLogRecPtr	start_redo;		/* of the last checkpoint when we began */
	BlockNumber first;			/* block of pages[0] */
	int			npages;			/* filled or being filled */
	GrnndPassing passing;		/* pages that the kernel need not keep */
	char	   *memory;
	char	   *pages;			/* [GRNND_WRITER_PAGES][BLCKSZ], aligned */
};

bool
grnnd_writer_needs_wal(Relation rel, ForkNumber fork)
{
	/* the init fork of an unlogged relation must survive a crash */
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
	grnnd_passing_begin(&w->passing, NULL, false);
	w->memory = palloc(GRNND_WRITER_PAGES * BLCKSZ + PAGE_ALIGN);
	w->pages = (char *) TYPEALIGN(PAGE_ALIGN, w->memory);
	return w;
}

void
grnnd_writer_pass(GrnndPageWriter *w)
{
	grnnd_passing_begin(&w->passing, w->rel, false);
}

void
grnnd_writer_extend(GrnndPageWriter *w, BlockNumber nblocks)
{
#if PG_VERSION_NUM >= 160000
	/* in pieces, between which a cancel is heard */
	for (uint64 at = 0; at < nblocks; at += RELSEG_SIZE)
	{
		CHECK_FOR_INTERRUPTS();
		smgrzeroextend(RelationGetSmgr(w->rel), w->fork, (BlockNumber) at,
					   (int) Min(nblocks - at, RELSEG_SIZE), true);
	}
#else
	/* the last block alone: what lies before is a hole until it is written */
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
		/* a write must not cross from one file of the relation to the next */
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

static void
flush(GrnndPageWriter *w)
{
	BlockNumber blocks[GRNND_WRITER_PAGES];
	Page		pages[GRNND_WRITER_PAGES];

	if (w->npages == 0)
		return;
	for (int i = 0; i < w->npages; i++)
	{
		blocks[i] = w->first + i;
		pages[i] = (Page) (w->pages + (size_t) i * BLCKSZ);
	}
	if (w->use_wal)
	{
		log_newpages(&w->rel->rd_locator, w->fork, w->npages, blocks, pages, true);

		/*
		 * The WAL writer shall write it, in large pieces.  If it sleeps and WAL buffers
		 * run full, a backend that needs one writes a single page of 8 kB.
		 */
		XLogSetAsyncXactLSN(PageGetLSN(pages[w->npages - 1]));
	}
	for (int i = 0; i < w->npages; i++)
		PageSetChecksumInplace(pages[i], blocks[i]);
	write_pages(w, w->first, w->npages, pages);
	if (w->write_back)
		smgrwriteback(RelationGetSmgr(w->rel), w->fork, w->first, w->npages);
	grnnd_passing_blocks(&w->passing, w->first, w->first + w->npages);
	w->first += w->npages;
	w->npages = 0;
}

void
grnnd_writer_seek(GrnndPageWriter *w, BlockNumber block)
{
	flush(w);
	w->first = block;
}

Page
grnnd_writer_next(GrnndPageWriter *w)
{
	Page		page;

	if (w->npages == GRNND_WRITER_PAGES)
		flush(w);
	page = (Page) (w->pages + (size_t) w->npages++ * BLCKSZ);
	memset(page, 0, BLCKSZ);
	return page;
}

void
grnnd_writer_end(GrnndPageWriter *w)
{
	flush(w);
	grnnd_passing_end(&w->passing);
	pfree(w->memory);
	pfree(w);
}

/* ---- WAL segments ---- */

void
grnnd_wal_ahead_init(GrnndWalAhead *ahead, BlockNumber npages)
{
	XLogSegNo	end;

	XLByteToSeg(GetXLogInsertRecPtr() + (uint64) npages * BLCKSZ, end, wal_segment_size);
	ahead->end = end;
	pg_atomic_init_u64(&ahead->next, 0);
}

void
grnnd_wal_ahead(GrnndWalAhead *ahead)
{
	XLogSegNo	current;
	XLogSegNo	segment;
	uint64		next = pg_atomic_read_u64(&ahead->next);
	int			fd;

	XLByteToSeg(GetXLogInsertRecPtr(), current, wal_segment_size);
	do
	{
		segment = Max(next, current + 1);
		if (segment > current + WAL_SEGMENTS_AHEAD || segment > ahead->end)
			return;
	} while (!pg_atomic_compare_exchange_u64(&ahead->next, &next, segment + 1));

	fd = XLogFileInit(segment, GetWALInsertionTimeLine());
	if (close(fd) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not close a WAL segment: %m")));
}

/*
 * Pages written past shared buffers are unknown to the checkpointer.  Where WAL
 * has them, that suffices as long as no checkpoint has begun since; else they
 * must reach the disk now.  Without WAL, the end of the transaction syncs a new
 * permanent relation, and unlogged ones must survive a clean shutdown.
 */
void
grnnd_writer_finish(GrnndPageWriter *w)
{
	SMgrRelation smgr;

	flush(w);
	smgr = RelationGetSmgr(w->rel);
	if (RelationUsesLocalBuffers(w->rel))
		 /* gone after a crash anyway */ ;
#if PG_VERSION_NUM >= 170000
	else if (!w->use_wal)
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
	else if (w->use_wal || !RelationIsPermanent(w->rel))
		smgrimmedsync(smgr, w->fork);
#endif
	grnnd_writer_end(w);
}
