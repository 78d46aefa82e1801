/*
 * scan_killed.c - rows that are dead to every transaction.
 *
 * A scan marks records all of whose rows are dead (GRN_KILLED), and later scans skip the TIDs of
 * marked records.  Each change of a page advances the page's LSN, so a scan marks no page that has
 * changed since the scan's start: the mark must not outlive the dead rows (README).
 */
#include "am/scan/scan_impl.h"

#include "access/generic_xlog.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "am/index/index.h"
#include "am/test_point.h"

/* With fewer dead TIDs a mark is not worth the change of a page. */
#define LEAST_DEAD_TIDS 8

/* Maximum number of records that one scan marks, to bound the time of the scan's end. */
#define MOST_KILLED 4096

void
grnnd_begin_killed(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;

	so->killed.skip = scan->ignore_killed_tuples;
	/* pages of an index without WAL do not advance their LSN */
	so->killed.begun_at = so->killed.skip && RelationNeedsWAL(scan->indexRelation)
		? GetXLogInsertRecPtr() : InvalidXLogRecPtr;
}

/*
 * Adds the current record to the records to mark, because all current TIDs are dead.  A scan with
 * a filter may not have seen all TIDs of the record.
 */
static void
remember_killed(GrnndScan *so)
{
	if (so->killed.records.n < MOST_KILLED && so->now.record != GRN_INVALID_ID)
		grnnd_add_number(&so->killed.records, so->context, (uint64) so->now.record << 32 | so->now.ntids);
}

void
grnnd_note_killed(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;

	if (XLogRecPtrIsInvalid(so->killed.begun_at))
		return;
	so->killed.all = scan->kill_prior_tuple && (so->now.next == 1 || so->killed.all);
	so->killed.ndead += scan->kill_prior_tuple;
	if (so->killed.all && so->now.next == so->now.ntids)
		remember_killed(so);
}

void
grnnd_note_dead(GrnndScan *so, uint32 ndead)
{
	if (XLogRecPtrIsInvalid(so->killed.begun_at))
		return;
	so->killed.ndead += ndead;
	if (ndead > 0 && ndead == so->now.ntids)
		remember_killed(so);
}

/* Returns the locked buffer of a page unchanged since the scan's start, or none.  Never waits. */
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
	if (PageIsNew(BufferGetPage(buffer)) || PageGetLSN(BufferGetPage(buffer)) > so->killed.begun_at)
	{
		UnlockReleaseBuffer(buffer);
		return InvalidBuffer;
	}
	return buffer;
}

/* Marks a record if the dead TIDs are all TIDs of the record. */
static void
mark_record(const GrnndScan *so, Page page, uint64 killed)
{
	uint32		id = (uint32) (killed >> 32);
	GrnRecord  *rec = grnnd_page_record(page, so->ix, grn_node_slot(&so->ix->layout, id));

	if ((rec->state == GRN_TIDS ? rec->ntids16 : rec->ntids) == (uint32) killed)
		rec->flags |= GRN_KILLED;
}

/* Marks the records of the next few pages in one WAL record.  Returns the records' number. */
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
	GrnndNumbers *records = &so->killed.records;
	Size		done = 0;

	if (records->n == 0 || so->killed.ndead < LEAST_DEAD_TIDS)
		return;
	grnnd_test_point("scan-kill");
	grnnd_sort_numbers(records);
	while (done < records->n)
	{
		CHECK_FOR_INTERRUPTS();
		done += mark_pages(scan, records->items + done, (uint32) (records->n - done));
	}
	records->n = 0;
}
