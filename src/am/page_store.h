/*
 * page_store.h - the pages of an index as a GrnStore (graph/stored/search.h), through which
 * searches read records.
 */
#ifndef GRNND_PAGE_STORE_H
#define GRNND_PAGE_STORE_H

#include "am/grnnd.h"
#include "graph/stored/absent.h"
#include "graph/stored/search.h"

/*
 * Prefetching costs a lookup in the buffer table for each page asked for.  So it is on only while
 * pages are missing: for this many calls after the last page that was not in shared buffers.
 * A query that misses every sixteenth page has it on throughout.  One that misses a single page
 * makes 16 calls in vain, fewer than it visits records at any usual ef_search.
 */
#define GRNND_PREFETCH_CALLS 16

typedef struct GrnndStore
{
	GrnStore	base;
	Relation	index;
	const GrnndIndex *ix;
	MemoryContext context;
	BufferAccessStrategy strategy;
	Snapshot	snapshot;		/* a scan's, else NULL: whether a page has lost rows of it */
	uint32		id_limit;
	char	   *vector;			/* gathers a spanning vector */
	Page		page;			/* that is being visited, the first of a record */
	int			prefetch_width; /* effective_io_concurrency; -1: not yet known */
	int			prefetch_left;	/* further calls, unless another page is missing */
	uint32		pins;			/* of blocks found by their hint */
	int			trust;			/* in guesses of buffers; none are made at 0 */
	uint64		pages;			/* that were read, each time */
	GrnAbsent  *absent;			/* a node that searches do not see; or NULL */
} GrnndStore;

extern void grnnd_store_init(GrnndStore *store, Relation index, const GrnndIndex *ix,
							 MemoryContext context);

/* Locks a page with records, to be read. */
extern Buffer grnnd_store_read(GrnndStore *store, BlockNumber block);

/*
 * A node's vector, [dim], with its state and version, and grnnd_noise() of it.  False: there is
 * nothing to visit.
 */
extern bool grnnd_store_fetch(GrnndStore *store, uint32 id, float *x, GrnState *state,
							  uint16 *version, float *error);

#endif							/* GRNND_PAGE_STORE_H */
