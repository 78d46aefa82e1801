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
 * raise a buffer's usage count, and a page in frequent use should stay.  10,000 sentences: half and
 * twice take the same time, also if shared buffers hold 40% of the index.
 */
#define LOOKUP_EVERY 16

#ifdef GRNND_TEST_POINTS
#define MOST_HINTS 64			/* small relations in tests have runs too */
#else
#define MOST_HINTS 1048576		/* power of two; 4 MB */
#endif

Buffer
grnnd_pin_likely(GrnndFinder *finder, Relation rel, BlockNumber block)
{
	Buffer		likely = grnnd_likely_buffer(finder, block);

	if (!BufferIsValid(likely))
		return InvalidBuffer;
	/*
	 * test the tag without a lock first: wrong hints then cost no lock, and right hints are
	 * verified under the lock
	 */
	if (GetBufferDescriptor(likely - 1)->tag.blockNum != block || ++finder->pins % LOOKUP_EVERY == 0 ||
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
