/*
 * page.c - pages of an index: their format, checks, and the location of records.
 */
#include "am/index/index.h"

#include "catalog/pg_am_d.h"
#include "storage/itemptr.h"
#include "utils/rel.h"

#include "am/filter/filter.h"
#include "store/codec.h"

void
grnnd_corrupt(Relation index, BlockNumber block, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" is corrupted at block %u: %s",
					RelationGetRelationName(index), block, what),
			 errhint("REINDEX the index.")));
}

void
grnnd_page_adopt(Page page, GrnndPageKind kind)
{
	PageHeader	header = (PageHeader) page;

	memset(header, 0, SizeOfPageHeaderData);
	header->pd_special = BLCKSZ - MAXALIGN(sizeof(GrnndSpecial));
	/* the page must have no hole, because generic WAL zeroes a hole on replay */
	header->pd_lower = header->pd_upper = header->pd_special;
	PageSetPageSizeAndVersion(page, BLCKSZ, PG_PAGE_LAYOUT_VERSION);
	*GrnndPageSpecial(page) = (GrnndSpecial) {.kind = kind, .page_id = GRNND_PAGE_ID};
}

void
grnnd_page_init(Page page, GrnndPageKind kind)
{
	memset(page, 0, BLCKSZ);
	grnnd_page_adopt(page, kind);
}

static bool
page_is_ours(Page page)
{
	return PageGetPageSize(page) == BLCKSZ &&
		PageGetSpecialSize(page) == MAXALIGN(sizeof(GrnndSpecial)) &&
		GrnndPageSpecial(page)->page_id == GRNND_PAGE_ID;
}

void
grnnd_check_page(Relation index, Buffer buffer, GrnndPageKind kind)
{
	Page		page = BufferGetPage(buffer);

	if (PageIsNew(page))
	{
		if (kind == GRNND_NODES)
			return;
		grnnd_corrupt(index, BufferGetBlockNumber(buffer), "unexpected zero page");
	}
	if (!page_is_ours(page))
		grnnd_corrupt(index, BufferGetBlockNumber(buffer), "not a page of grnnd");
	if (GrnndPageSpecial(page)->kind != kind)
		grnnd_corrupt(index, BufferGetBlockNumber(buffer),
					  psprintf("page of kind %u where %u is expected",
							   GrnndPageSpecial(page)->kind, kind));
}

/* The last known size of a relation's file. */
typedef struct KnownSize
{
	RelFileLocator of;
	BlockNumber blocks;
} KnownSize;

/*
 * Does the relation have this block?  A test is needed because the server's own error would not
 * report damage.  A file does not shrink while a backend reads it, so the known size is valid for
 * all blocks below it.
 */
static bool
has_block(KnownSize *known, Relation rel, BlockNumber block)
{
	if (block >= known->blocks || memcmp(&known->of, &rel->rd_locator, sizeof(known->of)) != 0)
	{
		known->of = rel->rd_locator;
		known->blocks = RelationGetNumberOfBlocks(rel);
	}
	return block < known->blocks;
}

bool
grnnd_has_row(Relation table, const ItemPointerData *tid)
{
	static KnownSize known;

	return table->rd_rel->relam != HEAP_TABLE_AM_OID ||
		has_block(&known, table, ItemPointerGetBlockNumber(tid));
}

Buffer
grnnd_read(Relation index, BlockNumber block, int lockmode, GrnndPageKind kind,
		   BufferAccessStrategy strategy)
{
	static KnownSize known;
	Buffer		buffer;

	if (!has_block(&known, index, block))
		grnnd_corrupt(index, block, "the block does not exist");
	buffer = ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	LockBuffer(buffer, lockmode);
	grnnd_check_page(index, buffer, kind);
	return buffer;
}

/*
 * Each read that starts costs a call of the device.  In a virtual machine this call takes as long
 * as the read.  So a single call prefetches all blocks except the first, if the server has such a
 * call.
 */
void
grnnd_prefetch_blocks(Relation index, BlockNumber block, uint32 n)
{
	if (n > 0 && PrefetchBuffer(index, MAIN_FORKNUM, block).initiated_io && n > 1)
		GRNND_PREFETCH(index, block + 1, n - 1);
}

/* Number of pages for `floats` floats. */
static uint32
pages_of(Size floats)
{
	return (uint32) ((floats * sizeof(float) + GRNND_PAYLOAD - 1) / GRNND_PAYLOAD);
}

uint64
grnnd_place_areas(GrnndMeta *meta, const GrnLayout *l, bool centered)
{
	meta->entry_block = 1;
	meta->codec_block = 2;
	meta->codec_pages = pages_of(grn_codec_floats(l->dim, grn_code_dims(l->shape)));
	meta->center_pages = centered ? pages_of(l->dim) : 0;
	meta->first_node_block = meta->codec_block + meta->codec_pages + meta->center_pages;
	meta->sample_pages = grnnd_sample_pages(l);
	meta->book_pages = 0;
	if (meta->sig_bytes == 0)
		meta->list_pages = 0;
	else
	{
		meta->book_pages = (meta->ncolumns + GRNND_BOOKS_PER_PAGE - 1) / GRNND_BOOKS_PER_PAGE;
		meta->book_block = meta->first_node_block;
		meta->sample_block = meta->book_block + meta->book_pages;
		meta->list_block = meta->sample_block + meta->sample_pages;
		meta->first_node_block = meta->list_block + meta->list_pages;
	}
	return meta->first_node_block;
}

BlockNumber
grnnd_node_block(const GrnndIndex *ix, uint32 id)
{
	return ix->meta.first_node_block + grn_node_page(&ix->layout, id);
}

GrnRecord *
grnnd_page_record(Page page, const GrnndIndex *ix, uint32 slot)
{
	return (GrnRecord *) (GrnndPagePayload(page) +
						  (Size) slot * ix->layout.record_bytes);
}

uint32
grnnd_id_limit(Relation index, const GrnndIndex *ix)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(index);
	uint64		limit;

	if (blocks <= ix->meta.first_node_block)
		return 0;
	blocks -= ix->meta.first_node_block;
	limit = ix->layout.span > 1 ? blocks / ix->layout.span
		: (uint64) blocks * ix->layout.per_page;
	return (uint32) Min(limit, GRN_MAX_NODES);
}
