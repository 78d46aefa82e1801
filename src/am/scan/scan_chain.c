/*
 * scan_chain.c - the heap TIDs of a record and of its chain: the rows equal to a node's row.
 */
#include "am/scan/scan_impl.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

#include "am/index/index.h"
#include "am/test_point.h"

/*
 * Limit of how often in a row a chain may lead to an equal foreign record.  Vacuum removes a
 * record from its chain before freeing the record, and the slot is not reused during the scan.  So
 * more repetitions mean damage, or a standby, where slots may be reused at once.
 */
#define MOST_TIMES 8

void
grnnd_begin_chain(Chain *chain, uint32 node, uint16 version, uint32 next)
{
	chain->node = node;
	chain->version = version;
	chain->next = next;
	chain->seen.n = 0;
	chain->gone = GRN_INVALID_ID;
	chain->times = 0;
	chain->steps = 0;
}

static bool
was_seen(const Chain *chain, uint32 id)
{
	for (Size i = 0; i < chain->seen.n; i++)
		if (chain->seen.items[i] == id)
			return true;
	return false;
}

static void
take_chain(void *arg, const GrnRecord *rec, const void *vec)
{
	Chain	   *chain = (Chain *) arg;

	if (rec->state == GRN_NODE && rec->version == chain->version)
		chain->next = rec->next;
}

/*
 * Restarts the chain at the node, because record `gone` no longer belongs to the node.  Each
 * vacuum may free the next record, so a scan may need several restarts.
 */
static void
restart_chain(GrnndScan *so, uint32 gone)
{
	Chain	   *chain = &so->now.chain;

	chain->times = gone == chain->gone ? chain->times + 1 : 1;
	if (chain->times > MOST_TIMES)
		grnnd_corrupt(so->store.index, grnnd_node_block(so->ix, gone),
					  "chain of heap TIDs holds a foreign record");
	chain->gone = gone;
	chain->next = GRN_INVALID_ID;
	chain->steps = 0;
	so->store.base.visit(&so->store.base, chain->node, take_chain, chain);
	grnnd_test_point("chain-restarted");
}

void
grnnd_take_row(GrnndScan *so, uint32 record, const void *tid)
{
	memcpy(so->now.buffer, tid, GRN_TID_BYTES);
	so->now.record = record;
	so->now.tids = so->now.buffer;
	so->now.ntids = 1;
	so->now.next = 0;
	so->now.chain.next = GRN_INVALID_ID;
}

/* Makes the TIDs of a record that pass the filter current.  The record's page must be locked. */
static void
take_tids(GrnndScan *so, const GrnRecord *rec, uint32 id)
{
	const GrnLayout *l = &so->ix->layout;
	uint32		n = rec->state == GRN_TIDS ? rec->ntids16 : rec->ntids;
	const uint8 *tids = (const uint8 *) rec + l->off_tids;
	const uint8 *attrs = grn_rec_attrs(l, rec);

	so->now.record = id;
	so->now.ntids = 0;
	for (uint32 i = 0; i < n; i++)
		if (so->filter == NULL ||
			grn_row_passes(&so->filter->base, tids + (Size) i * GRN_TID_BYTES, attrs + i * l->attr_bytes))
			memcpy(so->now.buffer + (Size) so->now.ntids++ * GRN_TID_BYTES,
				   tids + (Size) i * GRN_TID_BYTES, GRN_TID_BYTES);
}

static void
take_node(void *arg, const GrnRecord *rec, const void *vec)
{
	GrnndScan  *so = (GrnndScan *) arg;
	uint32		id = so->now.chain.node;

	if (rec->state != GRN_NODE)
		return;
	take_tids(so, rec, id);
	grnnd_begin_chain(&so->now.chain, id, rec->version, rec->next);
}

bool
grnnd_read_node(GrnndScan *so, uint32 id)
{
	so->now.tids = so->now.buffer;
	so->now.ntids = 0;
	so->now.next = 0;
	grnnd_begin_chain(&so->now.chain, id, 0, GRN_INVALID_ID);
	so->store.base.visit(&so->store.base, id, take_node, so);
	return so->now.ntids > 0 || so->now.chain.next != GRN_INVALID_ID;
}

void
grnnd_read_chain(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	Relation	index = scan->indexRelation;
	const GrnLayout *l = &so->ix->layout;
	Chain	   *chain = &so->now.chain;
	uint32		id = chain->next;
	BlockNumber block = grnnd_node_block(so->ix, id);
	Buffer		buffer;
	Page		page;
	bool		owned = false;

	CHECK_FOR_INTERRUPTS();
	so->now.ntids = 0;
	so->now.next = 0;
	so->now.tids = so->now.buffer;

	if (id >= so->store.id_limit)
		so->store.id_limit = grnnd_id_limit(index, so->ix);
	if (id >= so->store.id_limit || ++chain->steps > so->store.id_limit)
		grnnd_corrupt(index, block, "impossible chain of equal rows");

	buffer = grnnd_read(index, block, BUFFER_LOCK_SHARE, GRNND_NODES, NULL);
	so->store.pages++;
	page = BufferGetPage(buffer);
	TestForOldSnapshot(scan->xs_snapshot, index, page);
	if (!PageIsNew(page))
	{
		const GrnRecord *rec = grnnd_page_record(page, so->ix, grn_node_slot(l, id));

		owned = grn_tids_owned_by(rec, chain->node, chain->version);
		if (owned)
		{
			/* chain->next is checked when the scan reads that record */
			if (grn_record_check(l, rec, id, GRN_MAX_NODES) != NULL)
				grnnd_corrupt(index, block, "impossible chain of equal rows");
			take_tids(so, rec, id);
			chain->next = rec->next;
		}
	}
	UnlockReleaseBuffer(buffer);

	if (!owned)
		restart_chain(so, id);
	else if (chain->gone != GRN_INVALID_ID && was_seen(chain, id))
		so->now.ntids = 0;
	else
		grnnd_add_number(&chain->seen, so->context, id);
}
