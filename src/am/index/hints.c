/*
 * hints.c - pins pages in the buffers of their last use; see page_store.h.
 */
#include "am/index/page_store.h"

#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "storage/buf_internals.h"
#include "utils/rel.h"

/*
 * Each n-th pin by a hint looks the block up nevertheless, because ReadRecentBuffer() does not
 * raise a buffer's usage count, and a page in frequent use should stay.  LOOKUP_EVERY applies
 * while pages are missing, so that other pages are evicted.
 */
#define LOOKUP_EVERY 8
#define LOOKUP_EVERY_IN_MEMORY 64

/*
 * FIRST_TRUST: surplus of wrong hints over right hints that ends the use of hints in a search.
 * MOST_TRUST: maximum surplus of right hints that counts.  Hints are wrong for evicted pages, and
 * mostly wrong if a relation has outgrown its hints, or if pages of a run are in scattered
 * buffers.
 */
#define FIRST_TRUST 4
#define MOST_TRUST 16

#ifdef GRNND_TEST_POINTS
#define MOST_HINTS 64			/* small relations in tests have runs too */
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
	/*
	 * test the tag without a lock first: wrong hints then cost no lock, and right hints are
	 * verified under the lock
	 */
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
