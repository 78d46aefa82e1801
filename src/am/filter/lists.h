/*
 * lists.h - lists of values: for each value of a filter column, the packed codes of the rows with
 * this value.  A search for few rows reads a list instead of the graph.
 *
 * A value's rank (grnnd_key_rank()) determines its bucket.  Ranks of numbers and times are in the
 * order of the values, so a range of values is a range of buckets.  A bucket is a chain of
 * GRN_LIST records (record.h), which lie among the nodes.  The directory, on its own pages, has
 * the first record of each bucket's chain.  A build chooses the number of buckets so that the
 * chain of a rare value takes few pages.  A fit makes lists for an index built without codes, and
 * replaces all lists as an index grows (fit_lists.c).  Records of each new set of lists have a new
 * generation.
 *
 * When a list is made, the rows of a long list are divided into groups of near rows (group.h), a
 * page each: a group is a chain of one page's records.  The list's guide, a chain of GRN_LIST
 * records, has the code of each group's middle and the id of the group's first record.  A search
 * reads the guide, the nearest groups, and the chain, which has the rows added later.  Vacuum
 * frees empty groups.  If that vacuum is interrupted, the guide may still name a freed group.  So
 * a record belongs to a group only if it has GRN_GROUP and the list's bucket.
 *
 * An array has a list for each of its elements, or rather for each class of elements, except for
 * elements that many rows have (element.c).  Rows with more than GRNND_MOST_ELEMENTS elements
 * share one list, bucket 0 of the column.
 *
 * A row of a list may be stale: its node may have lost the value, or the slot may hold another
 * node.  So readers must visit the node to check the value.
 */
#ifndef GRNND_LISTS_H
#define GRNND_LISTS_H

#include "am/grnnd.h"

#include <math.h>

#include "am/index/page_store.h"
#include "am/write/edit.h"
#include "store/group.h"
#include "store/search.h"

/*
 * The directory's entry for a bucket, on disk.  Buckets of one column follow each other, columns
 * too; a page has GRNND_LISTS_PER_PAGE entries.
 */
typedef struct GrnndListHead
{
	uint32		first;			/* 0: first record of the chain, or GRN_INVALID_ID */
	uint32		room;			/* 4: a record of the chain; earlier records are full */
	uint32		records;		/* 8: approximate number of records in the chain */
	uint32		guide;			/* 12: first record of the guide, or GRN_INVALID_ID */
	uint32		groups;			/* 16: approximate number of groups in the guide */
} GrnndListHead;

StaticAssertDecl(sizeof(GrnndListHead) == 20, "GrnndListHead is on disk");

#define GRNND_NO_LIST ((GrnndListHead) {GRN_INVALID_ID, GRN_INVALID_ID, 0, GRN_INVALID_ID, 0})
#define GRNND_LISTS_PER_PAGE ((uint32) (GRNND_PAYLOAD / sizeof(GrnndListHead)))

/*
 * Does the list of a bucket have groups?  A list of few records has none, because a search would
 * read nearly all of 100 groups.  If more than a quarter of the rows pass, searches use the graph,
 * and grouping so many rows would slow the build down.  Lists of arrays' elements have none
 * either: an insert checks whether a list has its row already, and would have to read all groups.
 * 20,000 sentences and image patches: half of GRNND_MOST_GROUPED takes 15 and 17% fewer visits
 * where 30% pass, for .009 less recall and the same recall; twice changes nothing.
 */
#ifdef GRNND_TEST_POINTS
#define GRNND_LEAST_GROUPS 8	/* small indexes in tests have groups too */
#else
#define GRNND_LEAST_GROUPS 128
#endif
#define GRNND_MOST_GROUPED 4
static inline bool
grnnd_has_groups(const GrnLayout *l, uint8 kind, uint64 rows, uint64 nodes)
{
	return rows >= (uint64) GRNND_LEAST_GROUPS * grn_list_rows(l) && rows <= nodes / GRNND_MOST_GROUPED &&
		kind != GRNND_ATTR_ARRAY;
}

/* Number of records in a group, a page's records, and room for rows in a group. */
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

/* The directory's entry for a bucket on its page. */
static inline GrnndListHead *
grnnd_list_head_on(Page page, uint32 bucket)
{
	return (GrnndListHead *) GrnndPagePayload(page) + bucket % GRNND_LISTS_PER_PAGE;
}

/* The bucket of a rank, counted across all columns. */
extern uint32 grnnd_list_bucket(const GrnndMeta *meta, uint32 column, uint32 rank);

/* The number of buckets of a column, for this number of nodes. */
extern PGDLLEXPORT uint32 grnnd_list_buckets(const GrnLayout *l, uint64 nodes);
/* Pages of a directory for lists that a later fit makes. */
extern uint32 grnnd_open_list_pages(uint32 ncolumns);
/* Writes a directory of empty lists. */
extern void grnnd_clear_lists(Relation index, const GrnndIndex *ix);
extern GrnndListHead grnnd_list_head(Relation index, const GrnndIndex *ix, uint32 bucket);

/* Writes a bucket's chain if it still begins with the expected record, or returns false. */
extern bool grnnd_change_list_head(Relation index, const GrnndIndex *ix, uint32 bucket,
								   const GrnndListHead *expected, const GrnndListHead *head);
/*
 * Writes the guide of a bucket.  Only a fit or a vacuum may call this function, and a lock admits
 * only one of them at a time.
 */
extern void grnnd_set_guide(Relation index, const GrnndIndex *ix, uint32 bucket, uint32 guide,
							uint32 groups);
/* Is the record of the current generation of lists?  Other GRN_LIST records are garbage. */
extern bool grnnd_is_listing(const GrnndIndex *ix, const GrnRecord *rec);
/* Is the record part of this bucket's chain?  Records of groups and guides are not. */
extern bool grnnd_in_list(const GrnndIndex *ix, const GrnRecord *rec, uint32 bucket);

/*
 * Limits for lists with groups.  A search reads the groups with the nearest middles until
 * GRNND_GROUPS_PATIENCE rows for each unit of ef, and a fifth of all rows read, have brought no
 * row among the nearest.  The nearest are one row for each GRNND_ROWS_PER_NEAREST rows of this
 * patience.  With these limits recall at a given ef is about the recall of searches without a
 * filter.  The second condition saves a fifth of the groups at recall .93 to .95 (52 instead of
 * 66; test/bench/decisions.md).
 */
#define GRNND_GROUPS_PATIENCE 24
#define GRNND_ROWS_PER_NEAREST 16
/* Ranges of a column's lists that a scan may read: half serves ranges of 3% of 20,000 rows. */
#define GRNND_MOST_RANKS 256
typedef struct GrnndListed
{
	uint32		column;
	bool		covers;			/* the ranks imply the condition on the column's signature byte */
	uint32		n;				/* 0: no list can be used */
	GrnndRanks	ranks[GRNND_MOST_RANKS];	/* ascending, not overlapping */
} GrnndListed;

/* Approximate size of the lists of some ranks: records of chains and of groups. */
typedef struct GrnndListSize
{
	uint64		records;
	uint64		groups;
} GrnndListSize;
extern GrnndListSize grnnd_list_size(GrnndStore *store, const GrnndListed *listed);

/*
 * Reads lists: rows whose signatures pass become candidates of the search, all rows of chains, and
 * rows of the nearest groups until the search is settled.  grnnd_list_more() reads further groups,
 * as many rows as the search's patience.  Returns NULL or false if a fit has begun to replace the
 * lists, because lists then may lack rows.  All arguments are kept by reference.
 */
typedef struct GrnndListReader GrnndListReader;
extern GrnndListReader *grnnd_list_read(GrnndStore *store, const GrnndListed *listed,
										const GrnFilter *filter, GrnSearch *search);
extern bool grnnd_list_more(GrnndListReader *reader);
/* Are there groups not read yet? */
extern bool grnnd_list_has_more(const GrnndListReader *reader);
/* Number of records read, including guides. */
extern uint64 grnnd_list_records_read(const GrnndListReader *reader);

/* Initializes an empty record of a bucket.  flags: 0 for its chain; GRN_GROUP; GRN_GUIDE. */
extern void grnnd_list_start(const GrnndMeta *meta, GrnRecord *rec, uint32 bucket, uint8 flags);
/*
 * Is the row in one of the first records of a bucket's chain?  In a long chain the result may be
 * wrongly false.  The list then has the row twice, until vacuum removes a row of the node.
 */
extern bool grnnd_list_has(Relation index, const GrnndIndex *ix, uint32 bucket,
						   const GrnListRow *row);
/* Adds n rows to a bucket's chain. */
extern void grnnd_list_add(Relation index, Relation heap, const GrnndIndex *ix, uint32 bucket,
						   const GrnListRow *rows, uint32 n);

#endif							/* GRNND_LISTS_H */
