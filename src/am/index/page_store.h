/*
 * page_store.h - the pages of an index as a GrnStore (store/search.h).  Searches read
 * records through this store.
 */
#ifndef GRNND_PAGE_STORE_H
#define GRNND_PAGE_STORE_H

#include "postgres.h"

#include "miscadmin.h"

#include "am/grnnd.h"
#include "store/search.h"

/*
 * hints.c: hints about the buffers in which a backend has found pages of an index.  Looking a
 * page up in the buffer table takes half as long as the work on the page, and reads memory that is
 * seldom in the processor's cache.  So the description of an index stores the last buffer of each
 * page; PostgreSQL verifies the hint.
 */

#define GRNND_CACHE_LINE 64

static inline int32 *
grnnd_hint_of(const GrnndHints *hints, BlockNumber block)
{
	return &hints->at[(block >> hints->shift) & hints->mask];
}

/*
 * The buffer that probably has a block, or InvalidBuffer.  Pages that were read in order into
 * empty or old buffers, for example by grnnd_prewarm(), are mostly in consecutive buffers.  So one
 * hint serves a run of blocks.
 */
static inline Buffer
grnnd_likely_buffer(const GrnndHints *hints, BlockNumber block)
{
	int32		hint = *grnnd_hint_of(hints, block);
	Buffer		buffer = (Buffer) (block + (uint32) hint);

	return hint == GRNND_NO_HINT || buffer <= 0 || buffer > NBuffers ? InvalidBuffer : buffer;
}

static inline void
grnnd_note_buffer(const GrnndHints *hints, BlockNumber block, Buffer buffer)
{
	*grnnd_hint_of(hints, block) = (int32) ((uint32) buffer - block);
}

/*
 * Prefetches into the L2 cache.  The L1 cache accepts few lines at a time, and cores would wait.
 */
static inline void
grnnd_touch_bytes(const char *from, uint32 bytes)
{
	for (uint32 at = 0; at < bytes; at += GRNND_CACHE_LINE)
		__builtin_prefetch(from + at, 0, 2);
}

/*
 * Pins a block of the main fork by its hint.  On InvalidBuffer the caller must look the block up
 * and call grnnd_note_buffer().
 */
extern Buffer grnnd_pin_likely(const GrnndHints *hints, Relation rel, BlockNumber block);

/* Number of hints (a power of two) for a relation of `blocks` blocks, each for 2^*shift blocks. */
extern uint32 grnnd_hints_for(BlockNumber blocks, uint32 *shift);

/*
 * Prefetching costs a lookup in the buffer table for each prefetched page.  So a store prefetches
 * only while pages are missing: for this number of visits after the last page that was not in
 * shared buffers.  A query that misses every sixteenth page prefetches throughout.  A query that
 * misses a single page prefetches for 16 visits in vain, fewer than a search makes at any usual
 * ef_search.  10,000 sentences, 40% of the index in shared buffers: half and twice take the same
 * time.
 */
#define GRNND_MISSING_VISITS 16

typedef struct GrnndStore
{
	GrnStore	base;
	Relation	index;
	const GrnndIndex *ix;
	MemoryContext context;
	BufferAccessStrategy strategy;
	Snapshot	snapshot;		/* a scan's snapshot, else NULL: checks for pages that have lost
								 * the snapshot's rows */
	uint32		id_limit;
	char	   *vector;			/* buffer for the vector of a spanning record */
	int			prefetch_width; /* effective_io_concurrency; -1: not read yet */
	int			missing_left;	/* remaining visits for which pages count as missing */
	const GrnndHints *hints;	/* of a description, which may replace the array between calls */
	uint64		pages;			/* number of pages read, including repeated reads */
} GrnndStore;

extern void grnnd_store_init(GrnndStore *store, Relation index, const GrnndIndex *ix,
							 MemoryContext context);

/* Reads a page of a kind and locks it in share mode. */
extern Buffer grnnd_store_read(GrnndStore *store, BlockNumber block, GrnndPageKind kind);

/* Prefetches a record into the processor's cache if the hint's buffer still has its page. */
extern void grnnd_store_touch(const GrnndStore *store, uint32 id);

#endif							/* GRNND_PAGE_STORE_H */
