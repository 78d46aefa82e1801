/*
 * page_store.h - the pages of an index as a GrnStore (store/search.h).  Searches read
 * records through this store.
 */
#ifndef GRNND_PAGE_STORE_H
#define GRNND_PAGE_STORE_H

#include "am/index/hints.h"
#include "store/absent.h"
#include "store/search.h"

/*
 * Prefetching costs a lookup in the buffer table for each prefetched page.  So a store prefetches
 * only while pages are missing: for this number of visits after the last page that was not in
 * shared buffers.  A query that misses every sixteenth page prefetches throughout.  A query that
 * misses a single page prefetches for 16 visits in vain, fewer than a search makes at any usual
 * ef_search.
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
	GrnndFinder finder;			/* finds buffers by hints */
	uint64		pages;			/* number of pages read, including repeated reads */
	GrnAbsent  *absent;			/* view without a node that searches must not see; or NULL */
} GrnndStore;

extern void grnnd_store_init(GrnndStore *store, Relation index, const GrnndIndex *ix,
							 MemoryContext context);

/* Reads a page of a kind and locks it in share mode. */
extern Buffer grnnd_store_read(GrnndStore *store, BlockNumber block, GrnndPageKind kind);

/* Prefetches a record into the processor's cache if the hint's buffer still has its page. */
extern void grnnd_store_touch(const GrnndStore *store, uint32 id);

#endif							/* GRNND_PAGE_STORE_H */
