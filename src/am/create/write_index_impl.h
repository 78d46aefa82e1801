/*
 * write_index_impl.h - the state of an index that is being written.  write_index.c lays the index
 * out and runs the leader and the workers, write_index_check.c checks the builder's result,
 * write_index_pages.c forms the pages, write_filters.c makes the data of filters, and
 * write_groups.c puts the rows of long lists into groups.
 */
#ifndef GRNND_WRITE_INDEX_IMPL_H
#define GRNND_WRITE_INDEX_IMPL_H

#include "storage/condition_variable.h"

#include "am/create/create.h"
#include "am/create/mapping.h"
#include "space/rows.h"
#include "store/group.h"
#include "store/record.h"

/* A GRN_TIDS record to write, for TIDs that do not fit a node's own record. */
typedef struct GrnndChain
{
	uint32		node;
	uint32		first;			/* index of the record's first TID among the node's TIDs */
	uint32		ntids;
} GrnndChain;

/*
 * The plan of the data of filters.  Offsets are in bytes of segment ATTRS, where the data follows
 * the values.  Rows of lists are in the order of buckets: first all buckets of column 0, then of
 * column 1, and so on.
 */
typedef struct GrnndFilterPlan
{
	uint64		off_books;
	uint64		off_sigs;
	uint64		off_counts;
	uint64		off_buckets;
	uint64		off_ranks;
	uint64		end;			/* end of the data planned so far */
	uint32		nbuckets;		/* buckets of all columns; 0: no lists */
	GrnLists	lists;			/* the arrays in segment LISTS */
	/* Ids of the first records of lists, which follow the nodes' chains: */
	uint32		first_list;		/* first record of a chain */
	uint32		first_group;	/* first group, each of which fills a page (grnnd_group_records()) */
	uint32		first_guide;	/* first record of a guide */
} GrnndFilterPlan;

/* The first of a bucket's items in the arrays of all lists. */
typedef struct GrnndBucket
{
	uint64		row;
	uint32		record;			/* record of the chain */
	uint32		group;
	uint32		guide;			/* record of the guide */
} GrnndBucket;

/* The data of filters, as mapped in this process. */
typedef struct GrnndFilters
{
	GrnSigBook *books;			/* [columns] */
	uint8	   *sigs;			/* [nodes][sig_bytes] */
	uint32	   *counts;			/* [shares][nbuckets] number of rows; later the position of the
								 * share's first row */
	GrnndBucket *buckets;		/* [nbuckets + 1] */
	uint32	   *ranks;			/* [rows of lists] */
	GrnListArraysToGroup lists;
} GrnndFilters;

/* What the leader decides of an index before any page is formed, and workers read. */
typedef struct GrnndIndexPlan
{
	GrnBuildResult result;
	GrnndMeta	meta;
	GrnRows		vectors;		/* the rows as collected, without the address */
	uint64		records;		/* nodes, chains and lists */
	uint32		nchains;
	GrnndFilterPlan filters;
} GrnndIndexPlan;

/* The data that an index is written from. */
typedef struct GrnndNewIndex
{
	GrnndIndexPlan plan;
	/* of the leader alone, for the metapage: */
	GrnndReport report;
	GrnndQueried queried;
	/* as follows from the plan: */
	GrnLayout	layout;
	GrnCenter	center;			/* see layout.center; its x lies in the mapping */
	uint32		nodes;
	GrnRows		vectors;		/* own vectors of nodes, or the rows from which they are made */
	/* Arrays in the mapping: */
	GrnResultArrays built;		/* codes, factors, codec: NULL if the index has no codes */
	const uint64 *tids;			/* [rows], packed */
	uint8	   *attrs;			/* [rows][columns->bytes] */
	GrnndChain *chains;			/* [nchains], by node; in segment ORDER */
	const GrnndAttrs *columns;
	GrnndFilters filters;
	/* Allocated by palloc(): */
	float	   *floats;			/* [dim] */
	uint8	   *scratch;		/* a record that spans several pages */
	uint64		scratch_id;		/* id of the record in scratch */
} GrnndNewIndex;

/* The values of a row. */
static inline uint8 *
grnnd_row_attrs(const GrnndNewIndex *new, uint32 row)
{
	return new->attrs + (uint64) row * new->columns->bytes;
}

/* ---- write_index.c ---- */

/* Errors: 54000 if an index cannot hold `records` records. */
extern PGDLLEXPORT void grnnd_check_records(uint64 records);

/* ---- write_index_check.c ---- */

/* The functions of this file report a fault as an ERROR, XX000. */
extern PGDLLEXPORT GRNND_NORETURN void grnnd_bad_result(const char *what);
/* Checks the numbers of the result, without its arrays. */
extern void grnnd_check_result_numbers(const GrnndBuild *build, const GrnBuildResult *r);
/*
 * Places the arrays of a result whose numbers are checked, for a build of `rows` rows of `dim`
 * numbers, after a check that they lie in their segments.  near: of lists of nearest rows.
 */
extern PGDLLEXPORT GrnResultArrays grnnd_result_arrays(const GrnndMapping *map, const GrnBuildResult *r,
													   uint64 rows, uint32 dim, bool near);
/* Sets the pointers to all arrays of the plan, as mapped in this process. */
extern void grnnd_find_result_arrays(GrnndNewIndex *new, const GrnndMapping *map);
/* Checks that the codec and the center are finite. */
extern void grnnd_check_result_codec(const GrnndNewIndex *new);
/* Checks the lists and vectors of nodes [begin, end), before their records are formed. */
extern void grnnd_check_result_nodes(const GrnndNewIndex *new, uint32 begin, uint32 end);
/* Checks that each row belongs to exactly a single node, and that each node has a row. */
extern PGDLLEXPORT void grnnd_check_result_rows(const uint32 *row_start, const uint32 *rows, uint32 nodes,
												uint64 nrows);

/* ---- write_index_pages.c ---- */

/* Forms page number `number` of the node area. */
extern void grnnd_form_node_page(GrnndNewIndex *new, BlockNumber number, Page page);
extern void grnnd_form_entry_page(const GrnndNewIndex *new, Page page);
/* Forms page `number` of the codec's pages. */
extern void grnnd_form_codec_page(const GrnndNewIndex *new, uint32 number, Page page);
extern void grnnd_form_center_page(const GrnndNewIndex *new, uint32 number, Page page);
extern void grnnd_form_meta_page(GrnndNewIndex *new, Page page);

/* ---- write_filters.c ---- */

/*
 * Fits books and lays out the data of filters.  Chains must be planned.  Only the leader calls this
 * function.
 */
extern void grnnd_plan_filters(GrnndNewIndex *new, GrnndMapping *map);
/*
 * Does this process's share of counting the rows of lists, or, with `place`, of signing nodes and
 * copying rows to planned lists.  next_share must be 0 at the beginning of each.
 */
extern void grnnd_sort_lists(GrnndNewIndex *new, pg_atomic_uint64 *next_share, bool place);
/* Plans the lists, whose rows must all be counted.  Only the leader calls this function. */
extern void grnnd_plan_lists(GrnndNewIndex *new, GrnndMapping *map);
/* The sizes of lists. */
typedef struct GrnndListSizes
{
	uint64		rows;			/* rows of all lists */
	uint64		lists;			/* lists with groups */
	uint64		records;		/* records of chains */
	uint64		groups;
	uint64		guides;			/* records of guides */
} GrnndListSizes;

/* Adds the list of a column's bucket with n rows. */
extern PGDLLEXPORT void grnnd_add_list(GrnndListSizes *all, const GrnLayout *l, uint64 n, uint64 nodes);

/*
 * The ids of the first records of lists, behind `records` earlier records, and the id behind the
 * last record.
 */
typedef struct GrnndListPlaces
{
	uint64		first_list;
	uint64		first_group;
	uint64		first_guide;
	uint64		end;
} GrnndListPlaces;
extern PGDLLEXPORT GrnndListPlaces grnnd_place_lists(const GrnLayout *l, uint64 records, const GrnndListSizes *all);
/*
 * Bytes of all planned data behind the rows' values, without gaps between arrays, by the number of
 * columns, list_buckets and lists of an index.
 */
extern PGDLLEXPORT uint64 grnnd_filter_bytes(const GrnndMeta *meta, const GrnLayout *l, uint64 nodes,
											 const GrnndListSizes *all);
/* Sets the pointers to all planned arrays, as mapped in this process. */
extern void grnnd_find_filters(GrnndNewIndex *new, const GrnndMapping *map);
/*
 * Assigns blocks to the pages of books, of the sample and of lists' heads.  The sample's pages may
 * be formed only after all signatures.
 */
extern PGDLLEXPORT void grnnd_place_filters(GrnndMeta *meta, const GrnLayout *layout, BlockNumber first);
extern PGDLLEXPORT uint32 grnnd_filter_pages(const GrnndMeta *meta);
extern void grnnd_form_filter_page(const GrnndNewIndex *new, uint32 number, Page page);
/* Forms the list record with the id `id`. */
extern void grnnd_form_list(const GrnndNewIndex *new, uint32 id, void *rec);

/* ---- write_groups.c ---- */

/*
 * Tells the builder of the lists that are to have groups, once rows are sorted into lists: before
 * nodes are written.  The leader's alone, as the following.
 */
extern void grnnd_begin_groups(GrnndNewIndex *new, GrnndBuild *build);
/*
 * Waits for the groups and checks them.  Errors: groups that the builder cannot have made, XX000.
 */
extern void grnnd_take_groups(GrnndNewIndex *new, GrnndBuild *build);

/* Whether the list of a bucket has groups.  Another bucket, or the end of all, must follow. */
static inline bool
grnnd_is_grouped(const GrnndBucket *bucket)
{
	return bucket[1].group > bucket->group;
}

#endif							/* GRNND_WRITE_INDEX_IMPL_H */
