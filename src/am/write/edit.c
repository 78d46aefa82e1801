/*
 * edit.c - reading and changing records under their pages' locks.
 */
#include "am/write/write.h"

#include "utils/rel.h"

#include "am/index/index.h"
#include "store/prune.h"

void
grnnd_check_record(Relation index, const GrnndIndex *ix, uint32 id,
				   const GrnRecord *rec, uint32 *limit)
{
	const char *what = grn_record_check(&ix->layout, rec, id, *limit);

	if (what == NULL)
		return;
	*limit = grnnd_id_limit(index, ix);
	what = grn_record_check(&ix->layout, rec, id, *limit);
	if (what != NULL)
		grnnd_corrupt(index, grnnd_node_block(ix, id), what);
}

/* Reads and locks the page of id, which must exist; if not, the index is corrupt. */
static Buffer
lock_page_of(Relation index, const GrnndIndex *ix, uint32 id, int lockmode,
			 BufferAccessStrategy strategy)
{
	BlockNumber block = grnnd_node_block(ix, id);
	Buffer		buffer;

	if (id >= GRN_MAX_NODES || id >= grnnd_id_limit(index, ix))
		grnnd_corrupt(index, block, "a link to it, but it does not exist");
	buffer = grnnd_read(index, block, lockmode, GRNND_NODES, strategy);
	/* only a crash leaves a zero page, and nothing links to a zero page */
	if (PageIsNew(BufferGetPage(buffer)))
		grnnd_corrupt(index, block, "a link to it, but it was never written");
	return buffer;
}

Size
grnnd_copy_bytes(const GrnndIndex *ix)
{
	return Min(ix->layout.record_bytes, ix->layout.payload);
}

GrnState
grnnd_copy_record(Relation index, const GrnndIndex *ix, uint32 id, GrnRecord *rec,
				  BufferAccessStrategy strategy)
{
	uint32		limit = 0;
	Buffer		buffer = lock_page_of(index, ix, id, BUFFER_LOCK_SHARE, strategy);

	memcpy(rec, grnnd_page_record(BufferGetPage(buffer), ix,
								  grn_node_slot(&ix->layout, id)),
		   grnnd_copy_bytes(ix));
	UnlockReleaseBuffer(buffer);
	grnnd_check_record(index, ix, id, rec, &limit);
	return rec->state;
}

bool
grnnd_copy_own_code(Relation index, const GrnndIndex *ix, uint32 id,
					BufferAccessStrategy strategy, uint8_t *code, GrnFactor *factor)
{
	GrnRecord  *rec = palloc(grnnd_copy_bytes(ix));
	bool		live = grnnd_copy_record(index, ix, id, rec, strategy) == GRN_NODE;

	if (live)
	{
		*factor = rec->factor;
		memcpy(code, GRN_REC_PTR(rec, ix->layout.off_code), ix->layout.code_bytes);
	}
	pfree(rec);
	return live;
}

void
grnnd_edit_begin(GrnndEdit *e, Relation index, const GrnndIndex *ix, uint32 id)
{
	e->index = index;
	e->ix = ix;
	e->xlog = NULL;
	e->npages = 0;
	grnnd_edit_next(e, id);
}

void
grnnd_edit_next(GrnndEdit *e, uint32 id)
{
	uint32		limit = 0;
	int			last = e->npages - 1;

	if (last < 0 || BufferGetBlockNumber(e->buffers[last]) != grnnd_node_block(e->ix, id))
	{
		Assert(e->npages < MAX_GENERIC_XLOG_PAGES);
		Assert(last < 0 ||
			   BufferGetBlockNumber(e->buffers[last]) < grnnd_node_block(e->ix, id));
		last = e->npages;
		e->buffers[last] = lock_page_of(e->index, e->ix, id, BUFFER_LOCK_EXCLUSIVE, NULL);
		e->pages[last] = BufferGetPage(e->buffers[last]);
		e->changed[last] = false;
		e->npages++;
	}
	e->id = id;
	e->rec = grnnd_page_record(e->pages[last], e->ix, grn_node_slot(&e->ix->layout, id));
	grnnd_check_record(e->index, e->ix, id, e->rec, &limit);
}

GrnRecord *
grnnd_edit_change(GrnndEdit *e)
{
	int			last = e->npages - 1;

	if (e->xlog == NULL)
		e->xlog = GenericXLogStart(e->index);
	if (!e->changed[last])
	{
		e->pages[last] = GenericXLogRegisterBuffer(e->xlog, e->buffers[last], 0);
		e->changed[last] = true;
		e->rec = grnnd_page_record(e->pages[last], e->ix,
								   grn_node_slot(&e->ix->layout, e->id));
	}
	return e->rec;
}

void
grnnd_edit_end(GrnndEdit *e)
{
	if (e->xlog != NULL)
		GenericXLogFinish(e->xlog);
	while (e->npages > 0)
		UnlockReleaseBuffer(e->buffers[--e->npages]);
}

void
grnnd_store_edit(GrnStore *self, uint32_t id, GrnEditFn fn, void *arg)
{
	GrnndStore *store = (GrnndStore *) self;
	GrnndEdit	e;

	grnnd_edit_begin(&e, store->index, store->ix, id);
	fn(arg, grnnd_edit_change(&e));
	grnnd_edit_end(&e);
}
