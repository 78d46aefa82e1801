/*
 * page_store.c - the pages of an index as a GrnStore: reads records under a share lock and
 * allocates memory.
 */
#include "am/page_store.h"

#include "executor/instrument.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/buf_internals.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/spccache.h"

#include "am/page.h"

/*
 * Maximum pages of a record: 16,000 dimensions of 4 bytes take 8 pages, and the hot part may take
 * one.
 */
#define MAX_SPAN 10

/*
 * Pages that are not in shared buffers are taken to come from a disk, and not from the kernel's
 * cache, if asking for one or reading one takes more seconds than this on average.  Of a page in
 * the kernel's cache the first takes some 2 microseconds and the second 5.  Whole pages pay from
 * about there on.
 */
#define DISK_SECONDS 10e-6

/*
 * A record is seldom in the processor's cache.  Asks for all that a visit is going to read of its
 * first page, the whole page where it takes all records there (search_mates.c), before the lock,
 * whose atomic operation would hold back the first of those reads.
 */
static void
touch(const GrnndStore *store, Page page, uint32 id, bool whole)
{
	const GrnLayout *l = &store->ix->layout;
	const char *from = (const char *) grnnd_page_record(page, store->ix,
														whole ? 0 : grn_node_slot(l, id));

	__builtin_prefetch(page);
	__builtin_prefetch((const char *) page + BLCKSZ - sizeof(GrnndSpecial));
	if (store->base.skips_neighbours)
	{
		grnnd_touch_bytes(from, l->off_ids);
		grnnd_touch_bytes(from + l->off_vec, l->vec_first);
		return;
	}
	grnnd_touch_bytes(from, whole ? l->record_bytes * l->per_page : Min(l->record_bytes, l->payload));
}

void
grnnd_store_touch(const GrnndStore *store, uint32 id)
{
	Buffer		buffer = grnnd_likely_buffer(&store->finder, grnnd_node_block(store->ix, id));

	if (buffer <= 0)
		return;
	__builtin_prefetch(GetBufferDescriptor(buffer - 1));
	/* (prefetching whole pages would mostly be wasted) */
	touch(store, BufferGetPage(buffer), id, false);
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
	store->base.whole_pages = store->always_whole;
	store->base.prefetch = touch_ahead;
	store->base.ahead = 0;
}

/* Adds the time since `since`, in which this number of missing pages was prefetched or read. */
static void
count_wait(GrnndStore *store, uint32 pages, instr_time since)
{
	instr_time	now;

	store->awaited += pages;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, since);
	store->waited += INSTR_TIME_GET_DOUBLE(now);
}

/*
 * GrnStore.prefetch() while pages are missing: prefetches the pages into the kernel's cache,
 * nearest record first.
 */
static void
store_prefetch(GrnStore *self, const uint32_t *ids, uint32_t count)
{
	GrnndStore *store = (GrnndStore *) self;
	instr_time	since;
	uint32		initiated = 0;

	INSTR_TIME_SET_CURRENT(since);
	for (uint32_t i = 0; i < count; i++)
	{
		BlockNumber block = grnnd_node_block(store->ix, ids[i]);

		if (ids[i] < store->id_limit)
			for (uint32 j = 0; j < store->ix->layout.span; j++)
				initiated += PrefetchBuffer(store->index, MAIN_FORKNUM, block + j).initiated_io;
	}
	count_wait(store, initiated, since);
}

/* Are pages that are missing to be taken as wholes? */
static bool
whole_pages_pay(const GrnndStore *store)
{
	if (grnnd_whole_pages != GRNND_WHOLE_PAGES_AUTO)
		return grnnd_whole_pages == GRNND_WHOLE_PAGES_ON;
	return grn_has_few_edges(&store->ix->layout) ||
		store->waited > DISK_SECONDS * (double) store->awaited;
}

/*
 * A page was not in shared buffers.  The first that the search asks for is one that it is going to
 * wait for, so effective_io_concurrency counts the others.
 */
static void
begin_missing(GrnndStore *store)
{
	store->missing_left = GRNND_MISSING_VISITS;
	store->base.whole_pages = store->always_whole || whole_pages_pay(store);
	if (store->prefetch_width < 0)
		store->prefetch_width = get_tablespace_io_concurrency(store->index->rd_rel->reltablespace);
	if (store->prefetch_width == 0)
		return;
	store->base.prefetch = store_prefetch;
	store->base.ahead = Min((uint32) store->prefetch_width + 1, GRN_MAX_AHEAD);
}

void
grnnd_store_take_pages(GrnndStore *store)
{
	if (grn_has_few_edges(&store->ix->layout))
		store->always_whole = store->base.whole_pages = true;
}

/* Pins a block, and updates its hint if the hint was wrong. */
static Buffer
pin_block(GrnndStore *store, BlockNumber block)
{
	Relation	index = store->index;
	bool		missing = store->missing_left > 0;
	Buffer		buffer = grnnd_pin_likely(&store->finder, index, block, missing);
	int64		misses;
	instr_time	since = {0};

	if (BufferIsValid(buffer))
		return buffer;
	misses = pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read;
	/*
	 * the first missing page is not timed, because reading the clock for each page in memory would
	 * cost more than the measurement is worth
	 */
	if (missing)
		INSTR_TIME_SET_CURRENT(since);
	buffer = ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_NORMAL, store->strategy);
	grnnd_note_buffer(&store->finder, block, buffer);
	if (pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read != misses)
	{
		if (missing)
			count_wait(store, 1, since);
		begin_missing(store);
	}
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

/*
 * Copies the vector of a spanning record into store->vector.  The caller holds a lock on the first
 * page.
 */
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
 * GrnStore.check(): raises an error unless the record is sound.  A link may lead beyond the known
 * size of the relation if another backend has extended it.
 */
static void
store_check(GrnStore *self, uint32_t id, const GrnRecord *rec)
{
	GrnndStore *store = (GrnndStore *) self;
	const GrnLayout *l = &store->ix->layout;
	const char *what = grn_record_check(l, rec, id, store->id_limit);

	if (what != NULL)
	{
		store->id_limit = grnnd_id_limit(store->index, store->ix);
		what = grn_record_check(l, rec, id, store->id_limit);
		if (what != NULL)
			grnnd_corrupt(store->index, grnnd_node_block(store->ix, id), what);
	}
}

/* GrnStore.mate(): the page is locked.  The absent node is a slot that was never used. */
static const GrnRecord *
store_mate(GrnStore *self, uint32_t id)
{
	static const GrnRecord none;	/* GRN_FREE */
	GrnndStore *store = (GrnndStore *) self;
	const GrnLayout *l = &store->ix->layout;
	const GrnRecord *rec = grnnd_page_record(store->page, store->ix, grn_node_slot(l, id));
	const GrnRecord *seen = grn_absent_view(store->absent, id, rec);

	return seen != NULL ? seen : &none;
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
	store->page = page;
	/* (a page that has just come from a disk is in the processor's cache already) */
	touch(store, page, id, self->whole_pages && grn_has_few_edges(&ix->layout));
	LockBuffer(buffers[0], BUFFER_LOCK_SHARE);
	grnnd_check_page(store->index, buffers[0], GRNND_NODES);
	TestForOldSnapshot(store->snapshot, store->index, page);
	if (!PageIsNew(page))
	{
		const GrnRecord *rec = grnnd_page_record(page, ix, grn_node_slot(&ix->layout, id));
		const void *vec = (const char *) rec + ix->layout.off_vec;

		store_check(self, id, rec);
		if (grn_record_leads_on(rec))
		{

			if (ix->layout.span > 1)
			{
				gather_vector(store, id, rec, buffers);
				vec = store->vector;
			}
			rec = grn_absent_view(store->absent, id, rec);
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

typedef struct Fetch
{
	const GrnndIndex *ix;
	float	   *x;
	GrnState	state;
	uint16		version;
	float		error;
} Fetch;

static void
take_vector(void *arg, const GrnRecord *rec, const void *vec)
{
	Fetch	   *f = arg;

	grn_own_load(&f->ix->layout, vec, f->x);
	f->state = (GrnState) rec->state;
	f->version = rec->version;
	f->error = grnnd_noise(f->ix, rec);
}

bool
grnnd_store_fetch(GrnndStore *store, uint32 id, float *x, GrnState *state, uint16 *version,
				  float *error)
{
	Fetch		f = {.ix = store->ix, .x = x};

	if (!store_visit(&store->base, id, take_vector, &f))
		return false;
	*state = f.state;
	*version = f.version;
	*error = f.error;
	return true;
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
	grnnd_finder_init(&store->finder, &ix->hints);
	store->base.visit = store_visit;
	end_missing(store);
	if (ix->layout.code_bytes > 0 && ix->layout.per_page > 1)
	{
		store->base.mate = store_mate;
		store->base.check = store_check;
	}
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
