/*
 * scan_rows.c - rows of the table that a scan and its executor are going to read.
 *
 * Where pages are missing from shared buffers, the kernel is asked for them in advance.
 *
 * Where they are there, reading a row is waiting for memory: an entry of the buffer table, a
 * buffer's descriptor, the page's head, and the row are each far from the processor and known
 * only from the one before.  A scan of LIMIT 10 reads some 22 rows, its own and the executor's,
 * which takes a quarter of its time.  So a backend that scans an index often has hints of where
 * pages of the table were (hints.h).  By these, heads and rows that come soon are asked for early,
 * and pages are pinned without a look into the buffer table.
 */
#include "am/scan_impl.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "storage/buf_internals.h"
#include "utils/rel.h"

#include "am/cache.h"

/*
 * So many rows ahead their pages' heads are asked for, and then the rows, to which heads lead.  A
 * query of LIMIT 10 reads about twelve, so it asks for all heads at once.
 */
#define HEADS_AHEAD 12
#define ROWS_AHEAD 5

static bool
is_heap(Relation table)
{
	return table != NULL && table->rd_tableam == GetHeapamTableAmRoutine();
}

const GrnndIndex *
grnnd_scanned_index(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	const GrnndIndex *ix;

	so->finds_rows = false;
	if (!GRNND_KNOWS_HEAP_FETCH || !is_heap(scan->heapRelation))
		return grnnd_index(scan->indexRelation);
	ix = grnnd_index_of_scan(scan->indexRelation, scan->heapRelation);
	grnnd_finder_init(&so->row_finder, &ix->row_hints);
	so->finds_rows = ix->row_hints.mask > 0;
	return ix;
}

/* How many nodes behind those taken are likely to be taken, too. */
static uint32
likely_taken(const GrnndScan *so)
{
	double		likely = (double) so->wanted;

	/* what cost.c counts */
	if (grnnd_has_stand_ins(so->ix->key.type))
		likely += so->ef;
	else if (so->rerank != NULL)
		likely = ceil(likely * Max(grn_form(so->ix->layout.form)->reads, 1));
	if (likely > so->batch_taken)
		return (uint32) Min(likely - so->batch_taken, so->batch_size);
	return likely > 0 ? 1 + so->batch_taken / 4 : so->batch_taken;
}

/* The end of the nodes that are likely to be taken soon, `width` at most behind those taken. */
static uint32
soon_taken(const GrnndScan *so, uint32 width)
{
	return Min(so->batch_taken + Min(width, likely_taken(so)), so->batch_size);
}

/* The first TID of a node of the batch, if it has any; for most nodes it is the only one. */
static bool
first_tid(const Candidate *r, ItemPointer tid)
{
	if (r->ntids == 0)
		return false;
	memcpy(tid, r->tids, GRN_TID_BYTES);
	return true;
}

/* Asks memory for what a row is found by in its page, if that is where it was last. */
static void
touch_head(const GrnndScan *so, const Candidate *r)
{
	ItemPointerData tid;
	Buffer		buffer;

	if (!first_tid(r, &tid))
		return;
	buffer = grnnd_likely_buffer(&so->row_finder, ItemPointerGetBlockNumber(&tid));
	if (buffer <= 0)
		return;
	__builtin_prefetch(GetBufferDescriptor(buffer - 1));
	__builtin_prefetch(BufferGetPage(buffer));
	__builtin_prefetch(PageGetItemId(BufferGetPage(buffer), ItemPointerGetOffsetNumber(&tid)));
}

/*
 * Asks memory for a row.  The page is neither pinned nor locked, so its line pointer may be
 * anything; whatever it says, what is asked for is bytes of shared buffers.
 */
static void
touch_row(const GrnndScan *so, const Candidate *r)
{
	ItemPointerData tid;
	Buffer		buffer;
	char	   *page;
	ItemIdData	at;

	if (!first_tid(r, &tid) || ItemPointerGetOffsetNumber(&tid) > MaxHeapTuplesPerPage)
		return;
	buffer = grnnd_likely_buffer(&so->row_finder, ItemPointerGetBlockNumber(&tid));
	if (buffer <= 0 ||
		GetBufferDescriptor(buffer - 1)->tag.blockNum != ItemPointerGetBlockNumber(&tid))
		return;
	page = BufferGetPage(buffer);
	at = *PageGetItemId(page, ItemPointerGetOffsetNumber(&tid));
	if (at.lp_off + at.lp_len <= BLCKSZ)
		grnnd_touch_bytes(page + at.lp_off, at.lp_len);
}

void
grnnd_touch_rows(GrnndScan *so)
{
	uint32		heads;
	uint32		rows;

	if (!so->finds_rows || so->store.missing_left > 0)
		return;
	heads = soon_taken(so, HEADS_AHEAD);
	rows = soon_taken(so, ROWS_AHEAD);
	for (; so->batch_heads < heads; so->batch_heads++)
		touch_head(so, &so->batch[so->batch_heads]);
	for (; so->batch_rows < rows; so->batch_rows++)
		touch_row(so, &so->batch[so->batch_rows]);
}

void
grnnd_prefetch_rows(IndexScanDesc scan, int width)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	uint32		until = soon_taken(so, (uint32) width);

	if (!is_heap(scan->heapRelation))
		return;
	for (; so->batch_asked < until; so->batch_asked++)
	{
		const Candidate *r = &so->batch[so->batch_asked];

		for (uint32 i = 0; i < r->ntids; i++)
		{
			ItemPointerData tid;

			memcpy(&tid, r->tids + i * GRN_TID_BYTES, GRN_TID_BYTES);
			PrefetchBuffer(scan->heapRelation, MAIN_FORKNUM, ItemPointerGetBlockNumber(&tid));
		}
	}
}

void
grnnd_prefetch_results(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;

	if (so->store.missing_left > 0)
		grnnd_prefetch_rows(scan, so->store.prefetch_width);
	else
		grnnd_touch_rows(so);
}

/*
 * A fetch keeps its page pinned, and looks for no other as long as rows are on that one.  So what
 * it is given here is what it would have found itself, and is pruned as that would have been.
 */
void
grnnd_bring_row_page(IndexScanDesc scan, IndexFetchTableData *fetch, const ItemPointerData *tid)
{
#if GRNND_KNOWS_HEAP_FETCH
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	IndexFetchHeapData *heap = (IndexFetchHeapData *) fetch;
	BlockNumber block = ItemPointerGetBlockNumber(tid);
	Buffer		buffer;

	if (!so->finds_rows ||
		(BufferIsValid(heap->xs_cbuf) && BufferGetBlockNumber(heap->xs_cbuf) == block))
		return;
	buffer = grnnd_pin_likely(&so->row_finder, scan->heapRelation, block,
							  so->store.missing_left > 0);
	if (!BufferIsValid(buffer))
	{
		buffer = ReadBuffer(scan->heapRelation, block);
		grnnd_note_buffer(&so->row_finder, block, buffer);
	}
	if (BufferIsValid(heap->xs_cbuf))
		ReleaseBuffer(heap->xs_cbuf);
	heap->xs_cbuf = buffer;
	heap_page_prune_opt(scan->heapRelation, buffer);
#endif
}
