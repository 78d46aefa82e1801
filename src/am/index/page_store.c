/*
 * page_store.c - the pages of an index as a GrnStore: reads records under a share lock and
 * allocates memory.
 */
#include "am/index/page_store.h"

#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/buf_internals.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/spccache.h"

#include "am/index/index.h"

/* Most pages of a record: 16,000 floats take 8 pages, and the hot part may take one. */
#define MAX_SPAN 10

/*
 * A record is seldom in the processor's cache.  Prefetches all bytes that a visit reads of the
 * record's first page.
 */
static void
touch(const GrnndStore *store, Page page, uint32 id)
{
	const GrnLayout *l = &store->ix->layout;
	const char *from = (const char *) grnnd_page_record(page, store->ix, grn_node_slot(l, id));

	__builtin_prefetch(page);
	__builtin_prefetch((const char *) page + BLCKSZ - sizeof(GrnndSpecial));
	if (store->base.skips_neighbors)
	{
		grnnd_touch_bytes(from, l->off_ids);
		grnnd_touch_bytes(from + l->off_vec, l->vec_first);
		return;
	}
	grnnd_touch_bytes(from, Min(l->record_bytes, l->payload));
}

void
grnnd_store_touch(const GrnndStore *store, uint32 id)
{
	Buffer		buffer = grnnd_likely_buffer(store->hints, grnnd_node_block(store->ix, id));

	if (buffer <= 0)
		return;
	__builtin_prefetch(GetBufferDescriptor(buffer - 1));
	touch(store, BufferGetPage(buffer), id);
}

/*
 * GrnStore.prefetch() while pages are in shared buffers: prefetches records into the processor's
 * cache by hints.  A wrong hint only costs time.
 */
static void
touch_ahead(GrnStore *self, const uint32_t *ids, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		grnnd_store_touch((GrnndStore *) self, ids[i]);
}

/* Pages no longer count as missing. */
static void
end_missing(GrnndStore *store)
{
	store->missing_left = 0;
	store->base.prefetch = touch_ahead;
	store->base.ahead = 0;
}

/* GrnStore.prefetch() while pages are missing: into the kernel's cache, nearest record first. */
static void
store_prefetch(GrnStore *self, const uint32_t *ids, uint32_t count)
{
	GrnndStore *store = (GrnndStore *) self;

	for (uint32_t i = 0; i < count; i++)
	{
		BlockNumber block = grnnd_node_block(store->ix, ids[i]);

		if (ids[i] < store->id_limit)
			for (uint32 j = 0; j < store->ix->layout.span; j++)
				(void) PrefetchBuffer(store->index, MAIN_FORKNUM, block + j);
	}
}

/*
 * A page was not in shared buffers.  The search waits for the first candidate in any case, so
 * effective_io_concurrency counts the further candidates.
 */
static void
begin_missing(GrnndStore *store)
{
	store->missing_left = GRNND_MISSING_VISITS;
	if (store->prefetch_width < 0)
		store->prefetch_width = get_tablespace_io_concurrency(store->index->rd_rel->reltablespace);
	if (store->prefetch_width == 0)
		return;
	store->base.prefetch = store_prefetch;
	store->base.ahead = Min((uint32) store->prefetch_width + 1, GRN_MAX_AHEAD);
}

/* Pins a block, and updates its hint if the hint was wrong. */
static Buffer
pin_block(GrnndStore *store, BlockNumber block)
{
	Relation	index = store->index;
	Buffer		buffer = grnnd_pin_likely(store->hints, index, block);
	int64		misses;

	if (BufferIsValid(buffer))
		return buffer;
	misses = pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read;
	buffer = ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_NORMAL, store->strategy);
	grnnd_note_buffer(store->hints, block, buffer);
	if (pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read != misses)
		begin_missing(store);
	return buffer;
}

Buffer
grnnd_store_read(GrnndStore *store, BlockNumber block, GrnndPageKind kind)
{
	Buffer		buffer = pin_block(store, block);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	grnnd_check_page(store->index, buffer, kind);
	return buffer;
}

/* Copies the vector of a spanning record into store->vector, under a lock on its first page. */
static void
gather_vector(GrnndStore *store, uint32 id, const GrnRecord *rec, const Buffer *tails)
{
	const GrnLayout *l = &store->ix->layout;
	Size		done = l->vec_first;

	memcpy(store->vector, (const char *) rec + l->off_vec, l->vec_first);
	for (uint32 i = 1; i < l->span; i++)
	{
		Size		piece = Min(l->vec_bytes - done, l->payload);

		LockBuffer(tails[i], BUFFER_LOCK_SHARE);
		grnnd_check_page(store->index, tails[i], GRNND_TAIL);
		memcpy(store->vector + done, GrnndPagePayload(BufferGetPage(tails[i])), piece);
		LockBuffer(tails[i], BUFFER_LOCK_UNLOCK);
		done += piece;
	}
}

/*
 * Raises an error unless the record is sound.  A link may lead beyond the known
 * size of the relation if another backend has extended it.
 */
static void
check_record(GrnndStore *store, uint32_t id, const GrnRecord *rec)
{
	const GrnLayout *l = &store->ix->layout;
	const char *(*check) (const GrnLayout *, const void *, uint32_t, uint32_t) =
	store->base.skips_neighbors ? grn_record_check_own : grn_record_check;
	const char *what = check(l, rec, id, store->id_limit);

	if (what != NULL)
	{
		store->id_limit = grnnd_id_limit(store->index, store->ix);
		what = check(l, rec, id, store->id_limit);
		if (what != NULL)
			grnnd_corrupt(store->index, grnnd_node_block(store->ix, id), what);
	}
}

/* GrnStore.visit(): calls fn under share locks of the record's pages. */
static bool
store_visit(GrnStore *self, uint32_t id, GrnVisitFn fn, void *arg)
{
	GrnndStore *store = (GrnndStore *) self;
	const GrnndIndex *ix = store->ix;
	BlockNumber block = grnnd_node_block(ix, id);
	Buffer		buffers[MAX_SPAN];
	Page		page;
	bool		visited = false;

	CHECK_FOR_INTERRUPTS();
	if (store->missing_left > 0 && --store->missing_left == 0)
		end_missing(store);
	if (id >= store->id_limit)
	{
		store->id_limit = grnnd_id_limit(store->index, ix);
		if (id >= store->id_limit)
			grnnd_corrupt(store->index, block, "a link to it, but it does not exist");
	}

	/* pin first, so that no page is read from disk under a lock */
	for (uint32 i = 0; i < ix->layout.span; i++)
		buffers[i] = pin_block(store, block + i);
	store->pages += ix->layout.span;
	page = BufferGetPage(buffers[0]);
	LockBuffer(buffers[0], BUFFER_LOCK_SHARE);
	grnnd_check_page(store->index, buffers[0], GRNND_NODES);
	TestForOldSnapshot(store->snapshot, store->index, page);
	if (!PageIsNew(page))
	{
		const GrnRecord *rec = grnnd_page_record(page, ix, grn_node_slot(&ix->layout, id));
		const void *vec = (const char *) rec + ix->layout.off_vec;

		check_record(store, id, rec);
		if (grn_record_leads_on(rec))
		{

			if (ix->layout.span > 1)
			{
				gather_vector(store, id, rec, buffers);
				vec = store->vector;
			}
			rec = grn_absent_view(self->absent, id, rec);
			visited = rec != NULL;
			if (visited)
				fn(arg, rec, vec);
		}
	}
	LockBuffer(buffers[0], BUFFER_LOCK_UNLOCK);
	for (uint32 i = 0; i < ix->layout.span; i++)
		ReleaseBuffer(buffers[i]);
	return visited;
}

/*
 * GrnStore.test(): reads the addresses of rows under a share lock of each page, two lines of the
 * processor's cache.  Visits check pages and records, tests do not.  A record that is no node, on a
 * new page too, gets a visit; a chain may have any rows.
 */
static void
store_test(GrnStore *self, const GrnFilter *filter, const uint32_t *ids, uint32_t count, bool *may)
{
	GrnndStore *store = (GrnndStore *) self;
	const GrnndIndex *ix = store->ix;
	const GrnLayout *l = &ix->layout;

	CHECK_FOR_INTERRUPTS();
	if (store->missing_left > 0)
		store_prefetch(self, ids, count);
	for (uint32_t i = 0; i < count; i++)
	{
		Buffer		buffer = grnnd_likely_buffer(store->hints, grnnd_node_block(ix, ids[i]));
		const char *rec;

		if (buffer <= 0)
			continue;
		rec = (const char *) grnnd_page_record(BufferGetPage(buffer), ix, grn_node_slot(l, ids[i]));
		__builtin_prefetch(GetBufferDescriptor(buffer - 1));
		__builtin_prefetch(rec);
		__builtin_prefetch(rec + l->off_tids);
	}
	for (uint32_t i = 0; i < count; i++)
	{
		Buffer		buffer;
		const GrnRecord *rec;

		may[i] = true;
		if (ids[i] >= store->id_limit)
			continue;
		buffer = pin_block(store, grnnd_node_block(ix, ids[i]));
		store->pages++;
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		TestForOldSnapshot(store->snapshot, store->index, BufferGetPage(buffer));
		rec = grnnd_page_record(BufferGetPage(buffer), ix, grn_node_slot(l, ids[i]));
		may[i] = rec->state != GRN_NODE || rec->next != GRN_INVALID_ID;
		for (uint32 t = 0; !may[i] && t < Min(rec->ntids, l->tids_max); t++)
			may[i] = filter->has(filter->rows, (const uint8 *) rec + l->off_tids + (Size) t * GRN_TID_BYTES);
		UnlockReleaseBuffer(buffer);
	}
}

static void *
store_alloc(GrnStore *self, size_t bytes)
{
	return MemoryContextAllocHuge(((GrnndStore *) self)->context, bytes);
}

static void
store_free(GrnStore *self, void *p)
{
	pfree(p);
}

void
grnnd_store_init(GrnndStore *store, Relation index, const GrnndIndex *ix,
				 MemoryContext context)
{
	memset(store, 0, sizeof(*store));
	store->prefetch_width = -1;
	store->hints = &ix->hints;
	store->base.visit = store_visit;
	store->base.test = store_test;
	end_missing(store);
	store->base.alloc = store_alloc;
	store->base.free = store_free;
	store->index = index;
	store->ix = ix;
	store->context = context;
	store->id_limit = grnnd_id_limit(index, ix);
	if (ix->layout.span > MAX_SPAN)
		grnnd_corrupt(index, 0, "impossible record geometry");
	if (ix->layout.span > 1)
		store->vector = MemoryContextAlloc(context, ix->layout.vec_bytes);
}
