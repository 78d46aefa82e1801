/*
 * write_index_impl.h - an index that is about to be written: write_index.c lays it out and
 * has leader and workers write it, write_index_check.c checks what the builder has sent,
 * write_index_pages.c forms the pages, write_filters.c makes what filters need, and write_groups.c
 * has the rows of long lists put into groups.
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

/* A GRN_TIDS record to write: TIDs that a node's own record has no room for. */
typedef struct GrnndChain
{
	uint32		node;
	uint32		first;			/* index of its first TID among the node's */
	uint32		ntids;
} GrnndChain;

/*
 * What filters need, in segment ATTRS behind the values; offsets in bytes.  Rows of lists are in
 * the order of their buckets, of all columns in turn.
 */
typedef struct GrnndFilterPlan
{
	uint64		off_books;		/* GrnSigBook [ncolumns] */
	uint64		off_sigs;		/* [nodes][sig_bytes] */
	uint64		off_counts;		/* uint32 [shares][buckets] rows; later, where a share's rows begin */
	uint64		off_row_starts; /* uint64 [buckets + 1] first row of each bucket */
	uint64		off_record_starts;	/* uint32 [buckets + 1] the first record of its chain */
	uint64		off_group_starts;	/* uint32 [buckets + 1] its first group */
	uint64		off_guide_starts;	/* uint32 [buckets + 1] the first record of its guide */
	uint64		off_group_rows; /* uint64 [buckets + 1] rows of lists before it that have groups */
	uint64		off_lengths;	/* uint32 [buckets] rows without copies */
	uint64		off_rows;		/* GrnGrouped [rows of lists] */
	uint64		off_group_ends; /* uint32 [groups] the row of the bucket behind each */
	uint64		off_group_own;	/* uint32 [groups] rows that are no copies, where the builder
								 * chooses */
	uint64		off_middles;	/* [groups][code_bytes] */
	uint64		off_middle_factors; /* GrnFactor [groups] */
	uint64		end;			/* of all that is planned so far */
	uint32		buckets;		/* of all columns; 0: no lists */
	uint32		to_group;		/* lists whose groups the builder is to choose; 0: we make them */
	/* Ids of the first records of lists, which follow the nodes' chains: */
	uint32		first_list;		/* of chains, */
	uint32		first_group;	/* of groups, each of which fills a page (grnnd_group_records()), */
	uint32		first_guide;	/* and of guides */
} GrnndFilterPlan;

/* What a process has to do yet of groups (write_groups.c). */
typedef enum GrnndGroupStep
{
	GRNND_GROUP_LISTS = 0,
	GRNND_GROUP_MIDDLES,
	GRNND_GROUP_NOTHING
} GrnndGroupStep;

/* What an index is written from: what its metapage is to say, and where the rest lies. */
typedef struct GrnndNewIndex
{
	GrnndMeta	meta;
	GrnndReport report;
	GrnndMissed missed;
	GrnLayout	layout;
	GrnCentre	centre;			/* of own vectors; its x is in the mapping, or NULL */
	uint64		nrows;			/* of the table */
	uint32		nodes;
	uint64		records;		/* nodes, chains and lists */
	uint32		nchains;
	uint32		nentries;
	const uint32 *entries;
	/* in the mapping */
	GrnRows		vectors;
	bool		own_items;		/* vectors are own ones already (graph/stored/own.h) */
	const uint64 *tids;			/* [rows], packed */
	uint8	   *attrs;			/* [rows][grnnd_row_bytes()] */
	const uint32 *ids;			/* [nodes][degree] */
	const uint8 *counts;		/* [nodes] */
	const uint32 *row_start;	/* [nodes + 1] */
	const uint32 *rows;			/* [rows] */
	const uint32 *moved;		/* [nodes] row in vectors, or NULL: the first of the node's */
	const uint8 *codes;			/* [nodes][code_bytes] */
	const GrnFactor *factors;	/* [nodes] */
	const float *codec;			/* mean, basis */
	GrnndChain *chains;			/* [nchains], by node; in segment ORDER */
	/* for filters: by the plan, in segment ATTRS */
	GrnndFilterPlan filters;
	const GrnndAttrs *columns;
	GrnSigBook *books;			/* [ncolumns] */
	uint8	   *sigs;			/* [nodes][sig_bytes] */
	uint32	   *list_counts;	/* [shares][buckets] */
	uint64	   *list_row_starts;	/* [buckets + 1] */
	uint32	   *list_record_starts; /* [buckets + 1] */
	uint32	   *list_group_starts;	/* [buckets + 1] */
	uint32	   *list_guide_starts;	/* [buckets + 1] */
	uint64	   *list_group_rows;	/* [buckets + 1] */
	uint32	   *list_lengths;	/* [buckets] */
	GrnGrouped *list_rows;
	uint32	   *group_ends;		/* [groups] */
	uint32	   *group_own;		/* [groups] */
	uint8	   *middles;		/* [groups][code_bytes] */
	GrnFactor  *middle_factors; /* [groups] */
	/* of all lists with groups, in segment WORK (grn_group_places()); NULL: we make the groups */
	uint32	   *group_members;
	const uint32 *group_chosen;
	const uint32 *group_copied;
	GrnndGroupStep group_step;	/* of this process */
	/* palloc'd */
	float	   *floats;			/* [dim] */
	uint8	   *scratch;		/* one spanning record, */
	uint64		scratch_id;		/* this one */
} GrnndNewIndex;

/* The values of a row, and behind them the elements of its arrays. */
static inline uint8 *
grnnd_row_attrs(const GrnndNewIndex *new, uint32 row)
{
	return new->attrs + (uint64) row * grnnd_row_bytes(new->columns);
}

/* ---- write_index.c ---- */

/* Error: 54000 where an index cannot hold so many. */
extern void grnnd_check_records(uint64 records);

/* ---- write_index_check.c ---- */

/* All of these report a fault by ERROR, XX000. */
extern GRNND_NORETURN void grnnd_bad_result(const char *what);
extern void grnnd_check_result_numbers(const GrnndBuild *build, const GrnBuildResult *r);
/* An array of the result in a segment: its bounds and alignment are checked. */
extern const void *grnnd_result_array(const GrnndMapping *map, GrnSegment segment, uint64 offset,
									  uint64 count, uint64 size);
/* Finds the arrays of the result, as this process has them mapped. */
extern void grnnd_find_result_arrays(GrnndNewIndex *new, const GrnndMapping *map,
									 const GrnBuildResult *r, uint64 nrows);
extern void grnnd_check_result_codec(const GrnndNewIndex *new);
/* Checks what belongs to nodes [begin, end). */
extern void grnnd_check_result_nodes(const GrnndNewIndex *new, uint32 begin, uint32 end);
/* Each row belongs to exactly one node, and each node has one. */
extern void grnnd_check_result_rows(const uint32 *row_start, const uint32 *rows, uint32 nodes,
									uint64 nrows);

/* ---- write_index_pages.c ---- */

/*
 * Asks for what nodes [begin, end) are written from, where memory is short: their lists and codes,
 * and their vectors, which lie in one cell or two and not in the order of the nodes.
 */
extern void grnnd_nodes_ahead(const GrnndNewIndex *new, uint64 begin, uint64 end);
/* Forms page number `number` of the node area. */
extern void grnnd_form_node_page(GrnndNewIndex *new, BlockNumber number, Page page);
extern void grnnd_form_entry_page(const GrnndNewIndex *new, Page page);
/* Forms the page of the codec's bytes with that number. */
extern void grnnd_form_codec_page(const GrnndNewIndex *new, uint32 number, Page page);
extern void grnnd_form_centre_page(const GrnndNewIndex *new, uint32 number, Page page);
extern void grnnd_form_meta_page(GrnndNewIndex *new, Page page);

/* ---- write_filters.c ---- */

/* Fits books, and lays out what filters need; chains are planned already.  The leader's alone. */
extern void grnnd_plan_filters(GrnndNewIndex *new, GrnndMapping *map, uint64 nrows);
/*
 * This process's share of counting the rows of lists, and, once these are planned, of putting rows
 * there (place).  next_share: begins with 0, each time.
 */
extern void grnnd_sort_lists(GrnndNewIndex *new, pg_atomic_uint64 *next_share, bool place);
/* Plans the lists, of which all rows are counted.  The leader's alone. */
extern void grnnd_plan_lists(GrnndNewIndex *new, GrnndMapping *map);
/* What lists take. */
typedef struct GrnndListSizes
{
	uint64		rows;			/* places for them while groups are made, copies included */
	uint64		records;		/* of chains */
	uint64		groups;
	uint64		guides;			/* records of guides */
} GrnndListSizes;

/* Adds the list of n rows of a bucket of a column. */
extern void grnnd_add_list(GrnndListSizes *all, const GrnndMeta *meta, const GrnLayout *l,
						   const GrnCodec *codec, uint32 column, uint64 n, uint64 nodes);

/* Ids of the first records of lists, behind so many others, and the id behind the last. */
typedef struct GrnndListPlaces
{
	uint64		first_list;
	uint64		first_group;
	uint64		first_guide;
	uint64		end;
} GrnndListPlaces;
extern GrnndListPlaces grnnd_place_lists(const GrnLayout *l, uint64 records, const GrnndListSizes *all);
/*
 * Bytes of all that is planned behind the rows' values, but for gaps between arrays: by the number
 * of columns, list_buckets and lists of an index.
 */
extern uint64 grnnd_filter_bytes(const GrnndMeta *meta, const GrnLayout *l, uint64 nodes,
								 const GrnndListSizes *all);
/* Finds all that is planned in this process's mapping. */
extern void grnnd_find_filters(GrnndNewIndex *new, const GrnndMapping *map);
/* Makes the signatures of nodes [begin, end). */
extern void grnnd_sign_nodes(GrnndNewIndex *new, uint32 begin, uint32 end);
/*
 * The last bucket whose part of an array begins at `number` or before, by where parts start: empty
 * ones start where the next does.
 */
extern uint32 grnnd_bucket_of(const uint32 *starts, uint32 buckets, uint32 number);
/* The codec of the rows' codes, for groups. */
extern void grnnd_find_codec(const GrnndNewIndex *new, GrnCodec *codec);
/* Pages of books, sample and lists' heads; those of the sample want all signatures. */
extern void grnnd_place_filters(GrnndMeta *meta, const GrnLayout *layout, BlockNumber first);
extern uint32 grnnd_filter_pages(const GrnndMeta *meta);
extern void grnnd_form_filter_page(const GrnndNewIndex *new, uint32 number, Page page);
/* Forms the record of lists with that id. */
extern void grnnd_form_list(const GrnndNewIndex *new, uint32 id, void *rec);

/* ---- write_groups.c ---- */

/* What leader and workers share of groups. */
typedef struct GrnndGrouping
{
	pg_atomic_uint64 next_list; /* bucket whose list no process has put into groups yet */
	pg_atomic_uint64 placed;	/* buckets whose lists are in groups */
	pg_atomic_uint64 next_group;	/* first group whose middle no process finds yet, */
	pg_atomic_uint64 middles;	/* and groups with a middle, where the builder has chosen them */
	pg_atomic_uint32 awaited;	/* 1: the builder is at work on them */
	bool		chosen;			/* it has chosen them; written before awaited becomes 0 */
	ConditionVariable changed;	/* awaited is 0, or all lists are placed */
} GrnndGrouping;

extern void grnnd_groups_init(GrnndGrouping *grouping);
/*
 * Plans that the builder chooses groups, where lists want that and its memory holds them; else lets
 * it go.  The leader's alone, as grnnd_begin_groups() is.
 */
extern void grnnd_plan_groups(GrnndNewIndex *new, GrnndBuild *build, GrnndGrouping *grouping);
/* Finds what that says in this process's mapping. */
extern void grnnd_find_groups(GrnndNewIndex *new, const GrnndMapping *map);
/* Once rows are sorted into lists: has the builder begin, where that is planned. */
extern void grnnd_begin_groups(GrnndNewIndex *new, GrnndBuild *build);
/*
 * This process's share of the groups, as far as it can be done now.  False: there is more to come,
 * from the builder or other processes.  build: the leader's, or NULL.  Errors: what the builder has
 * said is wrong, XX000.
 */
extern bool grnnd_make_groups(GrnndNewIndex *new, GrnndBuild *build, GrnndGrouping *grouping);
/* The rest of it, when there is nothing else to do. */
extern void grnnd_await_groups(GrnndNewIndex *new, GrnndBuild *build, GrnndGrouping *grouping);
/* Whether all lists have their groups, which may be read then. */
extern bool grnnd_are_grouped(const GrnndNewIndex *new, GrnndGrouping *grouping);

/* Whether the list of a bucket has groups. */
static inline bool
grnnd_is_grouped(const GrnndNewIndex *new, uint32 bucket)
{
	return new->list_group_starts[bucket + 1] > new->list_group_starts[bucket];
}

#endif							/* GRNND_WRITE_INDEX_IMPL_H */
