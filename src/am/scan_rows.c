/*
 * scan_rows.c - prefetches rows of the table for a scan or its executor, while pages are missing
 * from shared buffers.
 */
#include "am/scan_impl.h"

#include "access/tableam.h"
#include "utils/rel.h"

#include "am/page.h"

static bool
is_heap(Relation table)
{
	return table != NULL && table->rd_tableam == GetHeapamTableAmRoutine();
}

/* Number of coming nodes that the scan will probably take. */
static uint32
likely_taken(const GrnndScan *so)
{
	double		likely = (double) so->width.wanted;

	/* the same number as in cost.c */
	if (grnnd_has_stand_ins(so->ix->key.type))
		likely += so->width.ef;
	else if (so->rerank != NULL)
		likely = ceil(likely * Max(grn_form(so->ix->layout.form)->reads, 1));
	if (likely > so->batch.taken)
		return (uint32) Min(likely - so->batch.taken, so->batch.size);
	return likely > 0 ? 1 + so->batch.taken / 4 : so->batch.taken;
}

void
grnnd_prefetch_rows(IndexScanDesc scan, int width)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	uint32		until = Min(so->batch.taken + Min((uint32) width, likely_taken(so)), so->batch.size);

	if (!is_heap(scan->heapRelation))
		return;
	for (; so->batch.prefetched < until; so->batch.prefetched++)
	{
		const ScanCandidate *r = &so->batch.nodes[so->batch.prefetched];

		for (uint32 i = 0; i < r->ntids; i++)
		{
			ItemPointerData tid;

			memcpy(&tid, r->tids + i * GRN_TID_BYTES, GRN_TID_BYTES);
			if (grnnd_has_row(scan->heapRelation, &tid))
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
}

void
grnnd_check_row(IndexScanDesc scan, const ItemPointerData *tid)
{
	const GrnndScan *so = (const GrnndScan *) scan->opaque;

	if (scan->heapRelation != NULL && !grnnd_has_row(scan->heapRelation, tid))
		grnnd_corrupt(scan->indexRelation,
					  so->now.record == GRN_INVALID_ID ? 0 : grnnd_node_block(so->ix, so->now.record),
					  "a row beyond the end of the table");
}
