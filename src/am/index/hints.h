/*
 * hints.h - hints about the buffers in which a backend has found pages of an index.  Looking a
 * page up in the buffer table takes half as long as the work on the page, and reads memory that is
 * seldom in the processor's cache.  So the description of an index stores the last buffer of each
 * page; PostgreSQL verifies the hint.
 */
#ifndef GRNND_HINTS_H
#define GRNND_HINTS_H

#include "am/grnnd.h"

#include "miscadmin.h"

#define GRNND_CACHE_LINE 64

/* A scan's use of hints. */
typedef struct GrnndFinder
{
	const GrnndHints *hints;
	uint32		pins;			/* blocks pinned by hints */
	int			trust;			/* confidence in hints; at 0 the scan ignores all hints */
} GrnndFinder;

static inline int32 *
grnnd_hint_of(const GrnndFinder *finder, BlockNumber block)
{
	const GrnndHints *hints = finder->hints;

	return &hints->at[(block >> hints->shift) & hints->mask];
}

/*
 * The buffer that probably has a block, or InvalidBuffer.  Pages that were read in order into
 * empty or old buffers, for example by grnnd_prewarm(), are mostly in consecutive buffers.  So one
 * hint serves a run of blocks.
 */
static inline Buffer
grnnd_likely_buffer(const GrnndFinder *finder, BlockNumber block)
{
	int32		hint = *grnnd_hint_of(finder, block);
	Buffer		buffer = (Buffer) (block + (uint32) hint);

	return hint == GRNND_NO_HINT || finder->trust <= 0 || buffer <= 0 || buffer > NBuffers
		? InvalidBuffer : buffer;
}

static inline void
grnnd_note_buffer(const GrnndFinder *finder, BlockNumber block, Buffer buffer)
{
	*grnnd_hint_of(finder, block) = (int32) ((uint32) buffer - block);
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
 * Initializes a finder.  Keeps a pointer to the hints of a description; the description may
 * replace their array between calls.
 */
extern void grnnd_finder_init(GrnndFinder *finder, const GrnndHints *hints);

/*
 * Pins a block of the main fork by its hint.  On InvalidBuffer the caller must look the block up
 * and call grnnd_note_buffer().  missing: pages of the relation had to be read lately.
 */
extern Buffer grnnd_pin_likely(GrnndFinder *finder, Relation rel, BlockNumber block, bool missing);

/* Number of hints (a power of two) for a relation of `blocks` blocks, each for 2^*shift blocks. */
extern uint32 grnnd_hints_for(BlockNumber blocks, uint32 *shift);

#endif							/* GRNND_HINTS_H */
