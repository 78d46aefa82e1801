/*
 * hints.h - in which buffers a backend has found pages of an index.
 *
 * Finding a page in the buffer table costs as much as half of the work on it, and reads memory
 * that is seldom in the processor's cache.  So the description of an index remembers where its
 * pages were last; PostgreSQL checks that they still are.
 */
#ifndef GRNND_HINTS_H
#define GRNND_HINTS_H

#include "am/grnnd.h"

#include "miscadmin.h"

#define GRNND_CACHE_LINE 64

/* What a scan makes of hints. */
typedef struct GrnndFinder
{
	const GrnndHints *hints;
	uint32		pins;			/* of blocks found by their hint */
	int			trust;			/* in hints; none are taken at 0 */
} GrnndFinder;

static inline int32 *
grnnd_hint_of(const GrnndFinder *finder, BlockNumber block)
{
	const GrnndHints *hints = finder->hints;

	return &hints->at[(block >> hints->shift) & hints->mask];
}

/*
 * The buffer that has a block, probably, or InvalidBuffer.  Pages that were read one after the
 * other into empty or old buffers, as by grnnd_prewarm(), mostly lie one after the other.  So where
 * a run of blocks shares a hint, one of them tells where the others are.
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

/* Prefetches into the L2 cache: the L1 cache takes few lines at a time, and then cores wait. */
static inline void
grnnd_touch_bytes(const char *from, uint32 bytes)
{
	for (uint32 at = 0; at < bytes; at += GRNND_CACHE_LINE)
		__builtin_prefetch(from + at, 0, 2);
}

/* Keeps a pointer to a description's hints, which the description may replace between calls. */
extern void grnnd_finder_init(GrnndFinder *finder, const GrnndHints *hints);

/*
 * Pins a block of the main fork by its hint.  InvalidBuffer: the caller is to look it up, and to
 * note where it is.  missing: pages of the relation had to be read a while ago.
 */
extern Buffer grnnd_pin_likely(GrnndFinder *finder, Relation rel, BlockNumber block, bool missing);

/*
 * How many hints a relation of so many blocks gets, which is a power of two, and the blocks that
 * share one: 2^*shift.
 */
extern uint32 grnnd_hints_for(BlockNumber blocks, uint32 *shift);

#endif							/* GRNND_HINTS_H */
