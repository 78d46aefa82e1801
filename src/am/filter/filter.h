/*
 * filter.h - filter columns on pages: lists of values, samples, and costs.
 */
#ifndef GRNND_FILTER_H
#define GRNND_FILTER_H

#include "postgres.h"

#include <math.h>

#include "am/grnnd.h"
#include "am/index/page_store.h"
#include "am/write/write.h"
#include "store/group.h"
#include "store/search.h"

/*
 * lists.c: lists of values: for each value of a filter column, the packed codes of the rows with
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
 * A row of a list may be stale: its node may have lost the value, or the slot may hold another
 * node.  So readers must visit the node to check the value.
 */

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
 * Records of a list that has groups, at least.  A list of 6,000 of 20,000 sentences has recall .994
 * at ef 40 by 73 pages with groups, and without, as with twice, 1.000 by 88 pages in the same time.
 */
#ifdef GRNND_TEST_POINTS
#define GRNND_LEAST_GROUPS 8	/* small indexes in tests have groups too */
#else
#define GRNND_LEAST_GROUPS 128
#endif

/* The directory's entry for a bucket on its page. */
static inline GrnndListHead *
grnnd_list_head_on(Page page, uint32 bucket)
{
	return (GrnndListHead *) GrnndPagePayload(page) + bucket % GRNND_LISTS_PER_PAGE;
}

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
/* Is the record of this bucket's list?  part: GRN_GROUP, GRN_GUIDE, or 0 for the chain. */
extern bool grnnd_in_list(const GrnndIndex *ix, const GrnRecord *rec, uint32 bucket, uint16 part);

/*
 * Limits for lists with groups.  A search reads the groups with the nearest middles until
 * GRNND_GROUPS_PATIENCE rows for each unit of ef have brought no row among the nearest.  The
 * nearest are one row for each GRNND_ROWS_PER_NEAREST rows of this patience.  With these limits
 * recall at a given ef is about the recall of searches without a filter (test/bench/decisions.md).
 * 6,000 of 20,000 sentences, ef 40: .994 by 73 pages; with half of the patience .959 by 58, with
 * twice the graph is cheaper, by 72 pages; with half of GRNND_ROWS_PER_NEAREST .999 by 81, with
 * twice .988 by 66.
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

/* Adds n rows to a bucket's chain. */
extern void grnnd_list_add(Relation index, Relation heap, const GrnndIndex *ix, uint32 bucket,
						   const GrnListRow *rows, uint32 n);

/*
 * filter_cost.c: the costs of the ways to find the nearest rows that pass a filter: by the graph,
 * by a list of rows, or by all rows in turn.  The planner (cost.c) and scans (scan_filter.c) use
 * these functions.
 *
 * The unit of cost is a visit of the graph whose page is in shared buffers.  ef is the number of
 * candidates of a search: its width, times grnnd_beam().
 */

/* How a scan with a filter finds its rows. */
typedef enum GrnndWay
{
	GRNND_WAY_CHECK = 0,		/* by the graph; values are tested at visits, without signatures */
	GRNND_WAY_GRAPH,
	GRNND_WAY_LIST,
	GRNND_WAY_HANDED_OVER,		/* first by the graph, then by a list */
	GRNND_WAY_REST,				/* by reading all rows in turn */
	GRNND_WAY_SET				/* by reading the rows of a bitmap from the table */
} GrnndWay;

/* Visits of a search of the graph without any limit.  share: of the rows that pass, over 0. */
extern double grnnd_graph_visits(double ef, double share);
/* The cost of these visits and of reading the sample (sample.c). */
extern double grnnd_graph_cost(double ef, double share);

/* Expansions of the graph for each row that a scan returns after its first search. */
extern double grnnd_expansions_per_row(const GrnCodec *codec, bool strict);

/*
 * The width of a scan's first search if conditions that the index does not test let a share of the
 * rows pass, by the planner's statistics.  0: the scan begins with a search of width ef, because
 * few rows are wanted, or because statistics of so few rows may be far wrong.
 */
/*
 * GRNND_FIRST_SHARE, 20,000 sentences and image patches, conditions of another index that 10 and
 * 30% pass, ef 40: half takes 50 to 71% more visits for .01 to .03 more recall, twice has .02 to
 * .11 less recall.  GRNND_LEAST_FILTERED: the same with half, with twice 37 to 129% more visits
 * for .03 more recall at most.  Half and twice of GRNND_TESTS_PER_VISIT change nothing.
 */
#define GRNND_FIRST_SHARE 0.5	/* see scan_width.c */
#define GRNND_LEAST_FILTERED 10
extern double grnnd_filtered_width(double ef, double limit, double share);

/* Visits that cost as much as reading all rows in turn.  rows: records of the index. */
extern double grnnd_all_rows_cost(const GrnndIndex *ix, double rows);

/*
 * Searches for the rows of a bitmap of other indexes (scan_tids.c), without any signature: the cost
 * until ef rows are found, and the cost of reading `rows` rows from the table instead.
 */
#define GRNND_TESTS_PER_VISIT 4 /* tests of rows' addresses that cost as much as a visit */
extern double grnnd_set_visits(const GrnndIndex *ix, double ef, double share);
extern double grnnd_set_rows_cost(const GrnndIndex *ix, double rows);

/* The search of a list. */
typedef struct GrnndListWork
{
	double		rows;			/* rows on the list, or a few more */
	double		pages;			/* pages read of the list; visits come on top */
	double		cost;			/* of pages, rows and visits */
} GrnndListWork;

/* pieces: the number of places where parts of the list begin. */
extern GrnndListWork grnnd_list_work(const GrnndIndex *ix, GrnndListSize size, uint32 pieces, double ef);
/* The cost of a visit by a list. */
extern double grnnd_list_visit_cost(const GrnLayout *l);
/* The size of the list of a value with n rows, or of several lists, as a build makes lists. */
extern GrnndListSize grnnd_size_of_list(const GrnndIndex *ix, bool several, double n, double rows);

/*
 * sample.c: rows of the index drawn at random, with code and signature.  The sample gives an
 * estimate of how many rows pass a filter, and a filtered search starts from sample rows that
 * pass.  20,000 sentences and image patches, filters that 1 to 30% pass: the same recall and visits
 * with half and twice, by an index .1% smaller and larger.
 */

#define GRNND_SAMPLE_ROWS 1000

/*
 * The start of a sample page's payload.  Rows follow: id (uint32), GrnFactor, code and signature,
 * padded to a multiple of 4 bytes.
 */
typedef struct GrnndSampleHeader
{
	uint32		count;			/* 0: number of rows on the page */
	uint32		unused;			/* 4: 0 */
} GrnndSampleHeader;

StaticAssertDecl(sizeof(GrnndSampleHeader) == 8, "GrnndSampleHeader is on disk");

/* Copies of rows of the sample. */
typedef struct GrnndSample
{
	uint32		count;
	uint32		ids[GRNND_SAMPLE_ROWS];
	GrnFactor	factors[GRNND_SAMPLE_ROWS];
	uint8	   *codes;			/* [count][code_bytes] */
} GrnndSample;

/* Number of pages of a sample.  0 without signatures, because only filters use the sample. */
extern uint32 grnnd_sample_pages(const GrnLayout *l);
/* Adds a row to a page under construction.  Returns false if the page is full. */
extern bool grnnd_sample_append(const GrnLayout *l, Page page, const GrnEdge *row);
/*
 * Copies sample rows whose signatures pass a filter, without signatures, palloc'd.  Reads page by
 * page until it has GRNND_ENOUGH_ROWS rows.  Ids may be stale, as a search's candidates may be.
 * *share: estimated share of rows that pass, never 0.  With half and twice of GRNND_ENOUGH_ROWS
 * filters of 20,000 sentences and image patches take 1.5% fewer and .5% more visits at most, at
 * recall within .002.
 */
#define GRNND_ENOUGH_ROWS 64
extern GrnndSample *grnnd_pick_sample(GrnndStore *store, const GrnFilter *filter, double *share);

/* Puts a new node into the sample with the probability that keeps the sample uniform. */
extern void grnnd_offer_sample(Relation index, const GrnndIndex *ix, uint32 id,
							   const GrnRecord *rec);

/*
 * Draws a new sample among all nodes: after a vacuum has freed nodes, and after a fit has given
 * records codes.
 */
extern void grnnd_renew_sample(Relation index, const GrnndIndex *ix, BufferAccessStrategy strategy);

#endif							/* GRNND_FILTER_H */
