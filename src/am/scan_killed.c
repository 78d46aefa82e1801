/*
 * scan_killed.c - rows that the executor found to be dead to every transaction.  A scan
 * marks the records that hold no others (GRN_KILLED), so that later scans look none of their
 * TIDs up.  Only the table knows of a row whether it is dead, so the first scan after a DELETE
 * has to look.
 *
 * The mark must not outlive the rows: vacuum may take a TID that the scan has read, and an
 * insert may then store a new row under it.  Each change of a page moves its LSN.  So a scan
 * marks no page that has changed since the scan began.
 *
 * The mark is WAL-logged, but a standby does not rely on it: its snapshots may be older than
 * every snapshot here.
 */
#include "am/scan_impl.h"

#include "access/generic_xlog.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "am/page.h"
#include "am/test_point.h"

/* Fewer dead TIDs than this are not worth a page's change. */
#define LEAST_DEAD_TIDS 8

/* Most records that one scan marks, so that its end does not take long. */
#define MOST_KILLED 4096
#define LEAST_ROOM 64			/* power of two */

void
grnnd_begin_killed(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;

	so->skip_killed = scan->ignore_killed_tuples;
	/* without WAL, pages keep their LSN */
	so->begun_at = so->skip_killed && RelationNeedsWAL(scan->indexRelation)
		? GetXLogInsertRecPtr() : InvalidXLogRecPtr;
	so->ndead_tids = 0;
	so->killed = NULL;
	so->nkilled = 0;
}

/* All current TIDs are dead.  Where the scan has a filter, their record may have others. */
static void
remember_killed(GrnndScan *so)
{
	if (so->nkilled == MOST_KILLED || so->record == GRN_INVALID_ID)
		return;
	if (so->killed == NULL)
		so->killed = palloc(LEAST_ROOM * sizeof(uint64));
	else if (so->nkilled >= LEAST_ROOM && (so->nkilled & (so->nkilled - 1)) == 0)
		so->killed = repalloc(so->killed, 2 * so->nkilled * sizeof(uint64));
	so->killed[so->nkilled++] = (uint64) so->record << 32 | so->ntids;
}

void
grnnd_note_killed(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;

	if (XLogRecPtrIsInvalid(so->begun_at))
		return;
	so->all_killed = scan->kill_prior_tuple && (so->next_tid == 1 || so->all_killed);
	so->ndead_tids += scan->kill_prior_tuple;
	if (so->all_killed && so->next_tid == so->ntids)
		remember_killed(so);
}

void
grnnd_note_dead(GrnndScan *so, uint32 ndead)
{
	if (XLogRecPtrIsInvalid(so->begun_at))
		return;
	so->ndead_tids += ndead;
	if (ndead > 0 && ndead == so->ntids)
		remember_killed(so);
}

static int
compare_killed(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return (x > y) - (x < y);
}

/* The buffer of a page that is as the scan has seen it, locked; else invalid.  Never waits. */
static Buffer
lock_unchanged(IndexScanDesc scan, BlockNumber block)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	Buffer		buffer = ReadBuffer(scan->indexRelation, block);

	if (!ConditionalLockBuffer(buffer))
	{
		ReleaseBuffer(buffer);
		return InvalidBuffer;
	}
	grnnd_check_page(scan->indexRelation, buffer, GRNND_NODES);
	if (PageIsNew(BufferGetPage(buffer)) || PageGetLSN(BufferGetPage(buffer)) > so->begun_at)
	{
		UnlockReleaseBuffer(buffer);
		return InvalidBuffer;
	}
	return buffer;
}

/* Marks a record if all of its TIDs were dead. */
static void
mark_record(const GrnndScan *so, Page page, uint64 killed)
{
	uint32		id = (uint32) (killed >> 32);
	GrnRecord  *rec = grnnd_page_record(page, so->ix, grn_node_slot(&so->ix->layout, id));

	if ((rec->state == GRN_TIDS ? rec->ntids16 : rec->ntids) == (uint32) killed)
		rec->flags |= GRN_KILLED;
}

/* Marks records on the next few pages, in one WAL record.  Returns how many it dealt with. */
static uint32
mark_pages(IndexScanDesc scan, const uint64 *killed, uint32 n)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GenericXLogState *xlog = NULL;
	Buffer		buffers[MAX_GENERIC_XLOG_PAGES];
	int			nbuffers = 0;
	uint32		i = 0;

	while (i < n && nbuffers < MAX_GENERIC_XLOG_PAGES)
	{
		BlockNumber block = grnnd_node_block(so->ix, (uint32) (killed[i] >> 32));
		Buffer		buffer = lock_unchanged(scan, block);
		Page		page = NULL;

		if (BufferIsValid(buffer))
		{
			if (xlog == NULL)
				xlog = GenericXLogStart(scan->indexRelation);
			page = GenericXLogRegisterBuffer(xlog, buffer, 0);
			buffers[nbuffers++] = buffer;
		}
		for (; i < n && grnnd_node_block(so->ix, (uint32) (killed[i] >> 32)) == block; i++)
			if (page != NULL)
				mark_record(so, page, killed[i]);
	}
	if (xlog != NULL)
		GenericXLogFinish(xlog);
	while (nbuffers > 0)
		UnlockReleaseBuffer(buffers[--nbuffers]);
	return i;
}

void
grnnd_mark_killed(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	uint32		done = 0;

	if (!so->started || so->nkilled == 0 || so->ndead_tids < LEAST_DEAD_TIDS)
		return;
	grnnd_test_point("scan-kill");
	qsort(so->killed, so->nkilled, sizeof(uint64), compare_killed);
	while (done < so->nkilled)
	{
		CHECK_FOR_INTERRUPTS();
		done += mark_pages(scan, so->killed + done, so->nkilled - done);
	}
	so->nkilled = 0;
}
