/*
 * page_store.h - the pages of an index as a GrnStore (graph/stored/search.h), through which
 * searches read records.
 */
#ifndef GRNND_PAGE_STORE_H
#define GRNND_PAGE_STORE_H

#include "am/hints.h"
#include "graph/stored/absent.h"
#include "graph/stored/search.h"

/*
 * Prefetching costs a lookup in the buffer table for each page asked for, and pages as wholes
 * (search_mates.c) cost time.  So both are on only while pages are missing: for this many visits
 * after the last page that was not in shared buffers; the latter, unless records have few edges,
 * only if pages come from a disk.  A query that misses every sixteenth page has them on
 * throughout.  One that misses a single page does both for 16 visits in vain, fewer than it makes
 * at any usual ef_search.
 */
#define GRNND_MISSING_VISITS 16

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
	int			missing_left;	/* visits for which pages still count as missing */
	uint64		awaited;		/* pages that were asked for or read meanwhile, */
	double		waited;			/* and the seconds of that */
	bool		always_whole;	/* pages are taken as wholes also where none are missing */
	GrnndFinder finder;			/* of its pages */
	uint64		pages;			/* that were read, each time */
	GrnAbsent  *absent;			/* a node that searches do not see; or NULL */
} GrnndStore;

extern void grnnd_store_init(GrnndStore *store, Relation index, const GrnndIndex *ix,
							 MemoryContext context);

/*
 * Has searches take pages as wholes at any time, where records have few edges.  They find more
 * then, which matters where that becomes edges.
 */
extern void grnnd_store_take_pages(GrnndStore *store);

/* Locks a page of a kind, to be read. */
extern Buffer grnnd_store_read(GrnndStore *store, BlockNumber block, GrnndPageKind kind);

/* Asks memory for a record, if its page is where it was last. */
extern void grnnd_store_touch(const GrnndStore *store, uint32 id);

/*
 * A node's vector, [dim], with its state and version, and grnnd_noise() of it.  False: there is
 * nothing to visit.
 */
extern bool grnnd_store_fetch(GrnndStore *store, uint32 id, float *x, GrnState *state,
							  uint16 *version, float *error);

#endif							/* GRNND_PAGE_STORE_H */
