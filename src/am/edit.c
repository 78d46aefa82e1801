/*
 * edit.c - reading and changing one record under its page's lock.
 */
#include "write.h"

#include "utils/rel.h"

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

/* Reads and locks the page of id; the caller knows that it exists, or we say so. */
static Buffer
lock_page_of(Relation index, const GrnndIndex *ix, uint32 id, int lockmode,
			 BufferAccessStrategy strategy)
{
	BlockNumber block = grnnd_node_block(ix, id);
	Buffer		buffer;

	if (id >= GRN_MAX_NODES || id >= grnnd_id_limit(index, ix))
		grnnd_corrupt(index, block, "a link to it, but it does not exist");
	buffer = grnnd_read(index, block, lockmode, GRNND_NODES, strategy);
	/* only a crash leaves a zero page, and nothing links to that */
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

void
grnnd_edit_begin(GrnndEdit *e, Relation index, const GrnndIndex *ix, uint32 id)
{
	uint32		limit = 0;

	e->index = index;
	e->ix = ix;
	e->id = id;
	e->xlog = NULL;
	e->buffer = lock_page_of(index, ix, id, BUFFER_LOCK_EXCLUSIVE, NULL);
	e->rec = grnnd_page_record(BufferGetPage(e->buffer), ix,
							   grn_node_slot(&ix->layout, id));
	grnnd_check_record(index, ix, id, e->rec, &limit);
}

GrnRecord *
grnnd_edit_change(GrnndEdit *e)
{
	Page		page;

	e->xlog = GenericXLogStart(e->index);
	page = GenericXLogRegisterBuffer(e->xlog, e->buffer, 0);
	return grnnd_page_record(page, e->ix, grn_node_slot(&e->ix->layout, e->id));
}

void
grnnd_edit_end(GrnndEdit *e)
{
	if (e->xlog != NULL)
		GenericXLogFinish(e->xlog);
	UnlockReleaseBuffer(e->buffer);
}

void
grnnd_set_edge(const GrnLayout *l, GrnRecord *rec, uint32 i, uint32 id,
			   const uint8_t *code, GrnFactor factor)
{
	grn_rec_ids(l, rec)[i] = id;
	if (l->code_dims > 0)
	{
		grn_rec_factors(l, rec)[i] = factor;
		memcpy(grn_rec_codes(l, rec) + (Size) i * l->code_bytes, code, l->code_bytes);
	}
}

void
grnnd_add_edge(const GrnLayout *l, GrnRecord *rec, uint32 id, const uint8_t *code,
			   GrnFactor factor)
{
	grnnd_set_edge(l, rec, rec->count, id, code, factor);
	rec->count++;
}
