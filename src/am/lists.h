/*
 * lists.h - the lists of values: for each value of a filter column, the codes of the rows that
 * have it, packed, so that a search for few rows reads those instead of the graph.
 *
 * A value's rank (grnnd_key_rank()) names its bucket.  Ranks of numbers and times are in their
 * order, so the buckets of a range follow each other.  A bucket is a chain of GRN_LIST records
 * (record.h), which lie among the nodes.  The directory, on pages of its own, says where each
 * bucket's chain begins.  A build makes so many buckets that the chain of a rare value takes few
 * pages.  Of an index that was built without codes a fit makes them, and of every index others as
 * it grows (fit_lists.c); each time their records have another generation.
 *
 * Of an array there is a list for each of its elements, or rather of their classes, but for those
 * that many rows have (element.c).  Rows with more than GRNND_MOST_ELEMENTS are in one list for all
 * of them, which bucket 0 of the column holds alone.
 *
 * A row of a list may be stale: its node has lost the value, or the slot holds another node.  So
 * readers visit the node to see.
 */
#ifndef GRNND_LISTS_H
#define GRNND_LISTS_H

#include "am/grnnd.h"
#include "am/page_store.h"
#include "am/write/edit.h"
#include "graph/stored/search.h"

/*
 * On disk, one for each bucket of each column, columns one after the other, GRNND_LISTS_PER_PAGE
 * on a page.
 */
typedef struct GrnndListHead
{
	uint32		first;			/* 0: record that begins the chain, or GRN_INVALID_ID */
	uint32		room;			/* 4: a record of it from which on there may be room */
	uint32		records;		/* 8: of the chain, about */
} GrnndListHead;

StaticAssertDecl(sizeof(GrnndListHead) == 12, "GrnndListHead is on disk");

#define GRNND_LISTS_PER_PAGE ((uint32) (GRNND_PAYLOAD / sizeof(GrnndListHead)))

/* The bucket of a rank, counted through all columns. */
extern uint32 grnnd_list_bucket(const GrnndMeta *meta, uint32 column, uint32 rank);

/* Buckets of a column for so many nodes. */
extern uint32 grnnd_list_buckets(const GrnLayout *l, uint64 nodes);
/* Pages of a directory for lists that a fit is to make. */
extern uint32 grnnd_open_list_pages(uint32 ncolumns);
/* Writes the directory of lists without rows. */
extern void grnnd_clear_lists(Relation index, const GrnndIndex *ix);
extern GrnndListHead grnnd_list_head(Relation index, const GrnndIndex *ix, uint32 bucket);

/* Writes it, if the chain begins with the same record as expected. */
extern bool grnnd_change_list_head(Relation index, const GrnndIndex *ix, uint32 bucket,
								   const GrnndListHead *expected, const GrnndListHead *head);
/* Is it a record of the lists that there are?  Others are garbage. */
extern bool grnnd_is_listing(const GrnndIndex *ix, const GrnRecord *rec);
/* Is it a record of that bucket's chain? */
extern bool grnnd_in_list(const GrnndIndex *ix, const GrnRecord *rec, uint32 bucket);

/* What of a column's lists a scan may read. */
#define GRNND_MOST_RANKS 256
typedef struct GrnndListed
{
	uint32		column;
	bool		covers;			/* ranks say all that signatures of the column do */
	uint32		n;				/* 0: nothing */
	GrnndRanks	ranks[GRNND_MOST_RANKS];	/* ascending and apart */
} GrnndListed;

/* About how many records hold those ranks. */
extern uint64 grnnd_list_records(GrnndStore *store, const GrnndListed *listed);
/*
 * Reads them: the rows whose signatures pass become candidates of the search.  False: a fit has
 * begun other lists since, and these may lack rows.
 */
extern bool grnnd_list_read(GrnndStore *store, const GrnndListed *listed,
							const GrnFilter *filter, GrnSearch *search);

/* Writes an empty record of a bucket's chain. */
extern void grnnd_list_start(const GrnndMeta *meta, GrnRecord *rec, uint32 bucket);
/*
 * Is the row on one of the first records of a bucket's chain?  False may be wrong where the chain
 * is long.
 */
extern bool grnnd_list_has(Relation index, const GrnndIndex *ix, uint32 bucket,
						   const GrnListRow *row);
/* Adds rows [n] to a bucket's chain. */
extern void grnnd_list_add(Relation index, Relation heap, const GrnndIndex *ix, uint32 bucket,
						   const GrnListRow *rows, uint32 n);

#endif							/* GRNND_LISTS_H */
