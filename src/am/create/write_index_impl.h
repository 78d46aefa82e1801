/*
 * write_index_impl.h - the state of an index that is being written.  write_index.c lays the index
 * out and runs the leader and the workers, write_index_check.c checks the builder's result,
 * write_index_pages.c forms the pages, write_filters.c makes the data of filters, and
 * write_groups.c puts the rows of long lists into groups.
 */
#ifndef GRNND_WRITE_INDEX_IMPL_H
#define GRNND_WRITE_INDEX_IMPL_H

#include "storage/condition_variable.h"

#include "am/create/build_state.h"
#include "am/create/mapping.h"
#include "am/create/progress.h"
#include "am/create/write_index.h"
#include "graph/rows.h"
#include "graph/stored/group.h"
#include "graph/stored/own.h"

/* A GRN_TIDS record to write, for TIDs that do not fit a node's own record. */
typedef struct GrnndChain
{
	uint32		node;
	uint32		first;			/* index of the record's first TID among the node's TIDs */
	uint32		ntids;
} GrnndChain;

/*
 * The data of filters, in segment ATTRS behind the values.  Offsets are in bytes.  Rows of lists
 * are in the order of buckets: first all buckets of column 0, then of column 1, and so on.
 */
typedef struct GrnndFilterPlan
{
	uint64		off_books;		/* GrnSigBook [ncolumns] */
	uint64		off_sigs;		/* [nodes][sig_bytes] */
	uint64		off_counts;		/* uint32 [shares][buckets] number of rows; later the position of
								 * the share's first row */
	uint64		off_row_starts; /* uint64 [buckets + 1] first row of each bucket */
	uint64		off_record_starts;	/* uint32 [buckets + 1] first record of the bucket's chain */
	uint64		off_group_starts;	/* uint32 [buckets + 1] first group of the bucket */
	uint64		off_guide_starts;	/* uint32 [buckets + 1] first record of the bucket's guide */
	uint64		off_entry_starts;	/* uint64 [buckets + 1] first place in the order of groups */
	uint64		off_ranks;		/* uint32 [rows of lists] */
	uint64		end;			/* end of the data planned so far */
	uint32		buckets;		/* buckets of all columns; 0: no lists */
	GrnLists	lists;			/* the arrays in segment LISTS */
	/* Ids of the first records of lists, which follow the nodes' chains: */
	uint32		first_list;		/* first record of a chain */
	uint32		first_group;	/* first group, each of which fills a page (grnnd_group_records()) */
	uint32		first_guide;	/* first record of a guide */
} GrnndFilterPlan;

/* The data that an index is written from: its metapage, and the places of all arrays. */
typedef struct GrnndNewIndex
{
	GrnndMeta	meta;
	GrnndReport report;
	GrnndMissed missed;
	GrnndQueried queried;
	GrnLayout	layout;
	GrnCenter	center;			/* center of own vectors; its x lies in the mapping, or is NULL */
	uint64		nrows;			/* rows of the table */
	uint32		nodes;
	uint64		records;		/* nodes, chains and lists */
	uint32		nchains;
	uint32		nentries;
	const uint32 *entries;
	/* Arrays in the mapping: */
	GrnRows		vectors;
	bool		own_items;		/* vectors are own items already (graph/stored/own.h) */
	const uint64 *tids;			/* [rows], packed */
	uint8	   *attrs;			/* [rows][grnnd_row_bytes()] */
	const uint32 *ids;			/* [nodes][degree] */
	const uint8 *counts;		/* [nodes] */
	const uint32 *row_start;	/* [nodes + 1] */
	const uint32 *rows;			/* [rows] */
	const uint32 *moved;		/* [nodes] row in vectors, or NULL: the node's first row */
	const uint8 *codes;			/* [nodes][code_bytes] */
	const GrnFactor *factors;	/* [nodes] */
	const float *codec;			/* mean, basis */
	GrnndChain *chains;			/* [nchains], by node; in segment ORDER */
	/* Data of filters, in segment ATTRS as planned: */
	GrnndFilterPlan filters;
	const GrnndAttrs *columns;
	GrnSigBook *books;			/* [ncolumns] */
	uint8	   *sigs;			/* [nodes][sig_bytes] */
	uint32	   *list_counts;	/* [shares][buckets] */
	uint64	   *list_row_starts;	/* [buckets + 1] */
	uint32	   *list_record_starts; /* [buckets + 1] */
	uint32	   *list_group_starts;	/* [buckets + 1] */
	uint32	   *list_guide_starts;	/* [buckets + 1] */
	uint64	   *list_entry_starts;	/* [buckets + 1] */
	uint32	   *list_ranks;		/* [rows of lists] */
	/* In segment LISTS (GrnLists): */
	uint32	   *list_nodes;		/* [rows of lists] */
	const uint32 *group_order;	/* [entries] */
	const uint32 *group_ends;	/* [groups] */
	const uint8 *middles;		/* [groups][code_bytes] */
	const GrnFactor *middle_factors;	/* [groups] */
	/* Allocated by palloc(): */
	float	   *floats;			/* [dim] */
	uint8	   *scratch;		/* a record that spans several pages */
	uint64		scratch_id;		/* id of the record in scratch */
} GrnndNewIndex;

/* The values of a row; the elements of the row's arrays follow the values. */
static inline uint8 *
grnnd_row_attrs(const GrnndNewIndex *new, uint32 row)
{
	return new->attrs + (uint64) row * grnnd_row_bytes(new->columns);
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
 * Returns the address of an array of the result, of `count` elements of `size` bytes, after a check
 * of bounds and alignment.
 */
extern PGDLLEXPORT const void *grnnd_result_array(const GrnndMapping *map, GrnSegment segment, uint64 offset,
												  uint64 count, uint64 size);
/* Sets the pointers to the result's arrays, as mapped in this process. */
extern void grnnd_find_result_arrays(GrnndNewIndex *new, const GrnndMapping *map,
									 const GrnBuildResult *r, uint64 nrows);
/* Checks that the codec and the center are finite. */
extern void grnnd_check_result_codec(const GrnndNewIndex *new);
/* Checks the lists and vectors of nodes [begin, end). */
extern void grnnd_check_result_nodes(const GrnndNewIndex *new, uint32 begin, uint32 end);
/* Checks that each row belongs to exactly a single node, and that each node has a row. */
extern PGDLLEXPORT void grnnd_check_result_rows(const uint32 *row_start, const uint32 *rows, uint32 nodes,
												uint64 nrows);

/* ---- write_index_pages.c ---- */

/*
 * Requests from the disk the data of nodes [begin, end), if memory is short: lists, codes, and
 * vectors.  The vectors lie in a cell or two, in an order different from the nodes'.
 */
extern void grnnd_nodes_ahead(const GrnndNewIndex *new, uint64 begin, uint64 end);
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
extern void grnnd_plan_filters(GrnndNewIndex *new, GrnndMapping *map, uint64 nrows);
/*
 * Does this process's share of counting the rows of lists, or, with `place`, of copying rows to
 * planned lists.  next_share must be 0 at the beginning of each.
 */
extern void grnnd_sort_lists(GrnndNewIndex *new, pg_atomic_uint64 *next_share, bool place);
/* Plans the lists, whose rows must all be counted.  Only the leader calls this function. */
extern void grnnd_plan_lists(GrnndNewIndex *new, GrnndMapping *map);
/* The sizes of lists. */
typedef struct GrnndListSizes
{
	uint64		rows;			/* rows of all lists */
	uint64		lists;			/* lists with groups */
	uint64		entries;		/* places of rows in groups, including copies */
	uint64		records;		/* records of chains */
	uint64		groups;
	uint64		guides;			/* records of guides */
} GrnndListSizes;

/* Adds the list of a column's bucket with n rows. */
extern PGDLLEXPORT void grnnd_add_list(GrnndListSizes *all, const GrnndMeta *meta, const GrnLayout *l,
									   const GrnCodec *codec, uint32 column, uint64 n, uint64 nodes);

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
/* Makes the signatures of nodes [begin, end). */
extern void grnnd_sign_nodes(GrnndNewIndex *new, uint32 begin, uint32 end);
/*
 * Returns the last bucket whose part of an array starts at or before `number`.  starts: the start
 * of each bucket's part; an empty part starts at the start of the next part.
 */
extern uint32 grnnd_bucket_of(const uint32 *starts, uint32 buckets, uint32 number);
/* The codec of the rows' codes, for groups. */
extern void grnnd_find_codec(const GrnndNewIndex *new, GrnCodec *codec);
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
 * Takes the builder's answer, and sets *made for all processes once groups may be read.  wait:
 * waits for that.  Errors: groups that the builder cannot have made, XX000.
 */
extern bool grnnd_take_groups(GrnndNewIndex *new, GrnndBuild *build, bool wait, pg_atomic_uint32 *made);

/* Whether the list of a bucket has groups. */
static inline bool
grnnd_is_grouped(const GrnndNewIndex *new, uint32 bucket)
{
	return new->list_group_starts[bucket + 1] > new->list_group_starts[bucket];
}

#endif							/* GRNND_WRITE_INDEX_IMPL_H */
