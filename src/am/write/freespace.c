/*
 * freespace.c - slots for new records: freed slots that no transaction can know any more, and pages
 * appended to the relation.
 */
#include "am/write/write.h"

#include "access/generic_xlog.h"
#include "access/xlog.h"
#include "storage/freespace.h"
#include "storage/indexfsm.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "am/index/index.h"

/*
 * Free space recorded in the map says which slots of a page may be taken. Pages whose free slots
 * are too young have the least space, so that they are tried last.
 */
static const Size space[] = {
	[GRNND_ROOM_LATER] = BLCKSZ / 2,
	[GRNND_ROOM] = BLCKSZ * 7 / 8,
};
#define SPACE_FREE (BLCKSZ * 3 / 4)
#define SPACE_YOUNG (BLCKSZ / 2)

/* Useless pages that the map may name before the relation is extended. */
#define MAX_MAP_TRIES 32

typedef struct Slot
{
	uint32		id;
	uint16		version;
	Buffer		buffer;			/* first page, locked exclusively */
} Slot;

void
grnnd_free_slot(GrnRecord *rec, FullTransactionId stamp)
{
	uint64		xid = U64FromFullTransactionId(stamp);
	GrnFreed	freed;

	/* a node's edges stay, for searches that still hold the node's id */
	rec->state = GRN_FREE;
	rec->flags = 0;
	rec->ntids = 0;
	rec->ntids16 = 0;
	rec->next = GRN_INVALID_ID;
	rec->version++;
	freed.xid_low = (uint32) xid;
	freed.xid_high = (uint32) (xid >> 32);
	memcpy(rec + 1, &freed, sizeof(freed));
}

/* Returns whether a new row may take this slot. */
static bool
is_reusable(Relation heap, const GrnRecord *rec)
{
	GrnFreed	freed;
	uint64		xid;

	if (rec->state != GRN_FREE)
		return false;
	memcpy(&freed, rec + 1, sizeof(freed));
	xid = ((uint64) freed.xid_high << 32) | freed.xid_low;
	if (xid == 0)
		return true;			/* never used */
	return GlobalVisCheckRemovableFullXid(heap, FullTransactionIdFromU64(xid));
}

void
grnnd_note_room(Relation index, BlockNumber block, GrnndRoom room)
{
	RecordPageWithFreeSpace(index, block, space[room]);
}

GrnndRoom
grnnd_page_room(Relation heap, const GrnndIndex *ix, Page page)
{
	GrnndRoom	room = GRNND_NO_ROOM;

	if (PageIsNew(page))
		return GRNND_ROOM;
	for (uint32 i = 0; i < ix->layout.per_page && room != GRNND_ROOM; i++)
	{
		const GrnRecord *rec = grnnd_page_record(page, ix, i);

		if (rec->state == GRN_FREE)
			room = is_reusable(heap, rec) ? GRNND_ROOM : GRNND_ROOM_LATER;
	}
	return room;
}

/*
 * Searches a page (the first page of a spanning record) for a free slot. True: `slot` is filled,
 * its page locked, and *more says whether the page has more slots. False: *more says whether the
 * page has slots that can be used later.
 */
static bool
take_slot(Relation index, Relation heap, const GrnndIndex *ix, BlockNumber block,
		  Slot *slot, bool *more)
{
	const GrnLayout *l = &ix->layout;
	Buffer		buffer = grnnd_read(index, block, BUFFER_LOCK_EXCLUSIVE,
									GRNND_NODES, NULL);
	Page		page = BufferGetPage(buffer);
	uint32		group = (block - ix->meta.first_node_block) / l->span;
	bool		found = false;
	bool		later = false;

	*more = false;
	for (uint32 i = 0; i < l->per_page && !*more; i++)
	{
		const GrnRecord *rec = grnnd_page_record(page, ix, i);

		if (!PageIsNew(page) && !is_reusable(heap, rec))
		{
			later |= rec->state == GRN_FREE;
			continue;
		}
		if (found)
			*more = true;
		else
		{
			slot->id = group * l->per_page + i;
			slot->version = PageIsNew(page) ? 0 : rec->version;
			slot->buffer = buffer;
			found = true;
		}
	}
	if (found)
		return true;
	UnlockReleaseBuffer(buffer);
	*more = later;
	return false;
}

/* Returns whether block is the first page of existing records. The map may name other blocks. */
static bool
is_node_block(const GrnndIndex *ix, BlockNumber block, BlockNumber nblocks)
{
	return block >= ix->meta.first_node_block &&
		(block - ix->meta.first_node_block) % ix->layout.span == 0 &&
		block + ix->layout.span <= nblocks;
}

/*
 * Takes a slot of a page that the free space map names for `wanted` bytes.  Marks the page as full
 * in the map first, so that other backends try further pages.
 */
static bool
take_slot_by_map(Relation index, Relation heap, const GrnndIndex *ix,
				 BlockNumber nblocks, Size wanted, Slot *slot)
{
	for (int tries = 0; tries < MAX_MAP_TRIES; tries++)
	{
		BlockNumber block = GetPageWithFreeSpace(index, wanted);
		bool		more;
		bool		found;

		if (block == InvalidBlockNumber)
			return false;
		RecordUsedIndexPage(index, block);
		if (!is_node_block(ix, block, nblocks))
			continue;
		found = take_slot(index, heap, ix, block, slot, &more);
		/* other backends may take the remaining slots, now or when these are old enough */
		if (more)
			grnnd_note_room(index, block, found ? GRNND_ROOM : GRNND_ROOM_LATER);
		if (found)
			return true;
		if (more && wanted == SPACE_YOUNG)
			return false;
	}
	return false;
}

static bool
take_known_slot(Relation index, Relation heap, const GrnndIndex *ix, Slot *slot)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(index);
	BlockNumber target = RelationGetTargetBlock(index);
	bool		more;

	/* the page of this backend's last record */
	if (target != InvalidBlockNumber && is_node_block(ix, target, nblocks))
	{
		if (take_slot(index, heap, ix, target, slot, &more))
		{
			if (!more)
				RecordUsedIndexPage(index, target);
			return true;
		}
		RelationSetTargetBlock(index, InvalidBlockNumber);
	}

	if (take_slot_by_map(index, heap, ix, nblocks, SPACE_FREE, slot) ||
		take_slot_by_map(index, heap, ix, nblocks, SPACE_YOUNG, slot))
		return true;

	/* free slots that an ended backend left on the page that it appended */
	if (ix->layout.span == 1 && nblocks > ix->meta.first_node_block &&
		nblocks - 1 != target &&
		take_slot(index, heap, ix, nblocks - 1, slot, &more))
		return true;
	return false;
}

/*
 * Appends the pages of one slot, or completes pages that a crash left incomplete, and returns the
 * first. Content locks wait until the extension lock is released.
 */
static BlockNumber
extend(Relation index, const GrnndIndex *ix)
{
	BlockNumber first = ix->meta.first_node_block;
	BlockNumber nblocks;
	BlockNumber block;
	bool		lock = !RELATION_IS_LOCAL(index);

	if (lock)
		LockRelationForExtension(index, ExclusiveLock);
	nblocks = RelationGetNumberOfBlocks(index);
	if (nblocks < first)
		grnnd_corrupt(index, 0, "the file ends before its first node page");
	block = nblocks - (nblocks - first) % ix->layout.span;
	if ((uint64) (block - first) / ix->layout.span * ix->layout.per_page +
		ix->layout.per_page > GRN_MAX_NODES ||
		block > MaxBlockNumber - ix->layout.span)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index \"%s\" has reached its maximum size",
						RelationGetRelationName(index)),
				 errhint("Partition the table.")));
	for (; nblocks < block + ix->layout.span; nblocks++)
		ReleaseBuffer(ReadBufferExtended(index, MAIN_FORKNUM, P_NEW, RBM_NORMAL, NULL));
	if (lock)
		UnlockRelationForExtension(index, ExclusiveLock);
	return block;
}

/*
 * Writes the pages that follow the first page of a spanning record. The first page's lock, held by
 * the caller, keeps other backends out. Until the first page says otherwise the slot is free, so a
 * crash in between loses nothing.
 *
 * A record of TIDs stores nothing on these pages. Its last page is written all the same: without
 * WAL the file would end before this page on a standby, or after a crash, and the record would not
 * exist.
 */
static void
write_tail(Relation index, const GrnndIndex *ix, const Slot *slot, const GrnRecord *rec)
{
	const GrnLayout *l = &ix->layout;
	BlockNumber first = BufferGetBlockNumber(slot->buffer);

	for (uint32 i = rec->state == GRN_NODE ? 1 : Max(l->span - 1, 1); i < l->span;)
	{
		GenericXLogState *xlog = GenericXLogStart(index);
		Buffer		buffers[MAX_GENERIC_XLOG_PAGES];
		int			n = 0;

		for (; n < MAX_GENERIC_XLOG_PAGES && i < l->span; i++)
		{
			Size		done = (Size) i * l->payload;
			Page		page;

			buffers[n] = ReadBuffer(index, first + i);
			LockBuffer(buffers[n], BUFFER_LOCK_EXCLUSIVE);
			page = GenericXLogRegisterBuffer(xlog, buffers[n], GENERIC_XLOG_FULL_IMAGE);
			grnnd_page_init(page, GRNND_TAIL);
			memcpy(GrnndPagePayload(page), (const char *) rec + done,
				   Min(l->record_bytes - done, l->payload));
			n++;
		}
		GenericXLogFinish(xlog);
		while (n > 0)
			UnlockReleaseBuffer(buffers[--n]);
	}
}

uint32
grnnd_new_record(Relation index, Relation heap, const GrnndIndex *ix, GrnRecord *rec)
{
	const GrnLayout *l = &ix->layout;
	GenericXLogState *xlog;
	Slot		slot;
	Page		page;
	bool		is_new;
	int			compression = wal_compression;

	while (!take_known_slot(index, heap, ix, &slot))
	{
		bool		more;

		if (take_slot(index, heap, ix, extend(index, ix), &slot, &more))
			break;
		/* another insert took the slot, or a freed slot is too young */
	}
	RelationSetTargetBlock(index, BufferGetBlockNumber(slot.buffer));

	rec->version = slot.version;
	write_tail(index, ix, &slot, rec);
	is_new = PageIsNew(BufferGetPage(slot.buffer));
	xlog = GenericXLogStart(index);
	page = GenericXLogRegisterBuffer(xlog, slot.buffer,
									 is_new ? GENERIC_XLOG_FULL_IMAGE : 0);
	if (is_new)
		grnnd_page_init(page, GRNND_NODES);
	memcpy(grnnd_page_record(page, ix, grn_node_slot(l, slot.id)), rec,
		   Min(l->record_bytes, l->payload));
	/* A new page is mostly zeroes and logged whole.  Any server can replay a compressed image. */
	if (is_new && l->per_page > 1)
		wal_compression = WAL_COMPRESSION_PGLZ;
	GenericXLogFinish(xlog);
	wal_compression = compression;
	UnlockReleaseBuffer(slot.buffer);
	return slot.id;
}

/* Returns an appended page, locked. */
static Buffer
take_page(Relation index, const GrnndIndex *ix)
{
	for (;;)
	{
		Buffer		buffer = grnnd_read(index, extend(index, ix), BUFFER_LOCK_EXCLUSIVE, GRNND_NODES, NULL);
		if (PageIsNew(BufferGetPage(buffer)))
			return buffer;
		/* another insert took the page */
		UnlockReleaseBuffer(buffer);
	}
}

uint32
grnnd_new_page(Relation index, const GrnndIndex *ix, char *recs, uint32 n)
{
	const GrnLayout *l = &ix->layout;
	Buffer		buffer = take_page(index, ix);
	BlockNumber block = BufferGetBlockNumber(buffer);
	uint32		first = (block - ix->meta.first_node_block) * l->per_page;
	GenericXLogState *xlog = GenericXLogStart(index);
	Page		page = GenericXLogRegisterBuffer(xlog, buffer, GENERIC_XLOG_FULL_IMAGE);

	Assert(l->span == 1 && n <= l->per_page);
	grnnd_page_init(page, GRNND_NODES);
	for (uint32 i = 0; i < n; i++)
	{
		GrnRecord  *rec = (GrnRecord *) (recs + (Size) i * l->record_bytes);

		rec->next = i + 1 < n ? first + i + 1 : GRN_INVALID_ID;
		memcpy(grnnd_page_record(page, ix, i), rec, l->record_bytes);
	}
	GenericXLogFinish(xlog);
	UnlockReleaseBuffer(buffer);
	if (n < l->per_page)
		grnnd_note_room(index, block, GRNND_ROOM);
	return first;
}
