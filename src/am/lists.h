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
 * The rows that a long list had when it was made are in groups of near ones (group.h), a page
 * each: a chain of the page's records.  The list's guide, a chain of GRN_LIST records, has for each
 * group the code of its middle and the id of its first record.  So a search reads the guide and the
 * nearest groups, beside the chain, where rows are that came later.  A vacuum frees groups without
 * rows, and its guide may name one still, if it is interrupted.  So only a record with the flag of
 * groups, and the list's bucket, is one of a group.
 *
 * Of an array there is a list for each of its elements, or rather of their classes, but for those
 * that many rows have (element.c).  Rows with more than GRNND_MOST_ELEMENTS are in one list for
 * all of them, which bucket 0 of the column holds alone.
 *
 * A row of a list may be stale: its node has lost the value, or the slot holds another node.  So
 * readers visit the node to see.
 */
#ifndef GRNND_LISTS_H
#define GRNND_LISTS_H

#include "am/grnnd.h"

#include <math.h>

#include "am/page_store.h"
#include "am/write/edit.h"
#include "graph/stored/group.h"
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
	uint32		guide;			/* 12: record that begins the guide, or GRN_INVALID_ID */
	uint32		groups;			/* 16: of the guide, about */
} GrnndListHead;

StaticAssertDecl(sizeof(GrnndListHead) == 20, "GrnndListHead is on disk");

#define GRNND_NO_LIST ((GrnndListHead) {GRN_INVALID_ID, GRN_INVALID_ID, 0, GRN_INVALID_ID, 0})
#define GRNND_LISTS_PER_PAGE ((uint32) (GRNND_PAYLOAD / sizeof(GrnndListHead)))

/*
 * Has the list of a bucket groups?  If it has many records; of 100 a search would read nearly all.
 * Where more than a quarter of the rows pass, searches go by the graph, and to put so many rows
 * into groups would hold a build up.  Nor have lists of elements of arrays: an insert looks whether
 * one has its row already, and would have to look through all groups.
 */
#ifdef GRNND_TEST_POINTS
#define GRNND_LEAST_GROUPS 8	/* for small indexes to have groups, too */
#else
#define GRNND_LEAST_GROUPS 128
#endif
#define GRNND_MOST_GROUPED 4
static inline bool
grnnd_has_groups(const GrnndMeta *meta, const GrnLayout *l, uint32 column, uint64 rows, uint64 nodes)
{
	return rows >= (uint64) GRNND_LEAST_GROUPS * grn_list_rows(l) && rows <= nodes / GRNND_MOST_GROUPED &&
		meta->columns[column].kind != GRNND_ATTR_ARRAY;
}

/* Records of a group: those of a page, which a search reads at once; and rows of a group. */
static inline uint32
grnnd_group_records(const GrnLayout *l)
{
	return l->per_page;
}

static inline uint32
grnnd_group_room(const GrnLayout *l)
{
	return grnnd_group_records(l) * grn_list_rows(l);
}

/* The head of a bucket on its page of the directory. */
static inline GrnndListHead *
grnnd_list_head_on(Page page, uint32 bucket)
{
	return (GrnndListHead *) GrnndPagePayload(page) + bucket % GRNND_LISTS_PER_PAGE;
}

/* The bucket of a rank, counted through all columns. */
extern uint32 grnnd_list_bucket(const GrnndMeta *meta, uint32 column, uint32 rank);

/* Buckets of a column for so many nodes. */
extern uint32 grnnd_list_buckets(const GrnLayout *l, uint64 nodes);
/* Pages of a directory for lists that a fit is to make. */
extern uint32 grnnd_open_list_pages(uint32 ncolumns);
/* Writes the directory of lists without rows. */
extern void grnnd_clear_lists(Relation index, const GrnndIndex *ix);
extern GrnndListHead grnnd_list_head(Relation index, const GrnndIndex *ix, uint32 bucket);

/* Writes what it says of the chain, if that begins with the same record as expected. */
extern bool grnnd_change_list_head(Relation index, const GrnndIndex *ix, uint32 bucket,
								   const GrnndListHead *expected, const GrnndListHead *head);
/*
 * Writes what a bucket's head says of its guide: only a fit or a vacuum does, of which there is
 * one.
 */
extern void grnnd_set_guide(Relation index, const GrnndIndex *ix, uint32 bucket, uint32 guide,
							uint32 groups);
/* Is it a record of the lists that there are?  Others are garbage. */
extern bool grnnd_is_listing(const GrnndIndex *ix, const GrnRecord *rec);
/* Is it a record of that bucket's chain?  Groups and guides are not. */
extern bool grnnd_in_list(const GrnndIndex *ix, const GrnRecord *rec, uint32 bucket);

/*
 * Of a list with groups a search reads those with the nearest middles, until so many rows for each
 * of ef, and a fifth of all that it has read, have shown none that is among the nearest; of
 * these it goes by one for so many rows.  So at the same ef recall is about that of searches
 * without a filter.
 */
#define GRNND_GROUPS_PATIENCE 24
#define GRNND_ROWS_PER_NEAREST 16
/*
 * About how many rows that takes of a list of n groups.  (In units of the patience alone: of 73,
 * 327 and 859 groups of sentences 4.6, 5.2 and 6.6, of 47, 209, 695 and 2,084 of SIFT descriptors
 * 4.5, 5.2, 7.2 and 9.7.)
 */
static inline double
grnnd_grouped_rows(double ef, double n)
{
	return GRNND_GROUPS_PATIENCE * ef * 1.7 * pow(Max(n, 1), 0.21);
}

/* What of a column's lists a scan may read. */
#define GRNND_MOST_RANKS 256
typedef struct GrnndListed
{
	uint32		column;
	bool		covers;			/* ranks say all that signatures of the column do */
	uint32		n;				/* 0: nothing */
	GrnndRanks	ranks[GRNND_MOST_RANKS];	/* ascending and apart */
} GrnndListed;

/*
 * About how many records hold those ranks: of chains, and groups with how many records of guides.
 */
typedef struct GrnndListSize
{
	uint64		records;
	uint64		groups;
} GrnndListSize;
extern GrnndListSize grnnd_list_size(GrnndStore *store, const GrnndListed *listed);

/*
 * Reads them: the rows whose signatures pass become candidates of the search, those of chains all
 * at once, and those of the nearest groups until the search is settled.  more() reads as many
 * rows of groups again as the search's patience.  NULL, false: a fit has begun other lists since,
 * and these may lack rows.  All is kept by reference.
 */
typedef struct GrnndListReader GrnndListReader;
extern GrnndListReader *grnnd_list_read(GrnndStore *store, const GrnndListed *listed,
										const GrnFilter *filter, GrnSearch *search);
extern bool grnnd_list_more(GrnndListReader *reader);
/* Are there groups that were not read? */
extern bool grnnd_list_has_more(const GrnndListReader *reader);
/* Records that were read, those of guides among them. */
extern uint64 grnnd_list_records_read(const GrnndListReader *reader);

/* Writes an empty record of a bucket.  flags: 0, of its chain; GRN_GROUP; GRN_GUIDE. */
extern void grnnd_list_start(const GrnndMeta *meta, GrnRecord *rec, uint32 bucket, uint8 flags);
/*
 * Is the row on one of the first records of a bucket's chain?  False may be wrong where the chain
 * is long: then the list has the row twice, until vacuum takes a row from the node.
 */
extern bool grnnd_list_has(Relation index, const GrnndIndex *ix, uint32 bucket,
						   const GrnListRow *row);
/* Adds rows [n] to a bucket's chain. */
extern void grnnd_list_add(Relation index, Relation heap, const GrnndIndex *ix, uint32 bucket,
						   const GrnListRow *rows, uint32 n);

#endif							/* GRNND_LISTS_H */
