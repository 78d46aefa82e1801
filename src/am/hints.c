/*
 * hints.c - pins pages where they were last; see hints.h.
 */
#include "am/hints.h"

#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "storage/buf_internals.h"
#include "utils/rel.h"

/*
 * Of the pins by hints one of so many looks the block up all the same: ReadRecentBuffer() does
 * not raise a buffer's usage count, and a page that is read often should stay.  The first is for
 * while pages are missing, so that others are evicted.
 */
#define LOOKUP_EVERY 8
#define LOOKUP_EVERY_IN_MEMORY 64

/*
 * So many more wrong hints than right ones end their use for a search, and at most so many right
 * ones are remembered.  Wrong are those of pages that have gone, and most where a relation has
 * outgrown its hints, or where pages of a run lie apart.
 */
#define FIRST_TRUST 4
#define MOST_TRUST 16

#ifdef GRNND_TEST_POINTS
#define MOST_HINTS 64			/* for small relations to have runs, too */
#else
#define MOST_HINTS 1048576		/* power of two; 4 MB */
#endif

void
grnnd_finder_init(GrnndFinder *finder, const GrnndHints *hints)
{
	finder->hints = hints;
	finder->pins = 0;
	finder->trust = FIRST_TRUST;
}

Buffer
grnnd_pin_likely(GrnndFinder *finder, Relation rel, BlockNumber block, bool missing)
{
	Buffer		likely = grnnd_likely_buffer(finder, block);
	uint32		every = missing ? LOOKUP_EVERY : LOOKUP_EVERY_IN_MEMORY;
	bool		right;

	if (!BufferIsValid(likely))
		return InvalidBuffer;
	/* a look without a lock spares wrong hints the lock; right ones are looked at once more */
	right = GetBufferDescriptor(likely - 1)->tag.blockNum == block;
	finder->trust = right ? Min(finder->trust + 1, MOST_TRUST) : finder->trust - 1;
	if (!right || ++finder->pins % every == 0 ||
		!ReadRecentBuffer(rel->rd_locator, MAIN_FORKNUM, block, likely))
		return InvalidBuffer;
	pgstat_count_buffer_read(rel);
	pgstat_count_buffer_hit(rel);
	return likely;
}

uint32
grnnd_hints_for(BlockNumber blocks, uint32 *shift)
{
	*shift = 0;
	while ((Max(blocks, 1) - 1) >> *shift >= MOST_HINTS)
		(*shift)++;
	return pg_nextpower2_32(Min(Max(blocks, 1), MOST_HINTS));
}
