/*
 * write_index_impl.h - the state of an index that is being written.  write_index.c lays the index
 * out and runs the leader and the workers, write_index_check.c checks the builder's result,
 * write_slots.c gets pages of records from the builder, write_index_pages.c completes them and
 * forms the other pages, and write_filters.c has the values of filter columns.
 */
#ifndef GRNND_WRITE_INDEX_IMPL_H
#define GRNND_WRITE_INDEX_IMPL_H

#include "am/create/create.h"
#include "am/create/mapping.h"
#include "am/create/pagewriter.h"
#include "builder/slots.h"
#include "store/record.h"

/* A GRN_TIDS record to write, for TIDs that do not fit a node's own record. */
typedef struct GrnndChain
{
	uint32		node;
	uint32		first;			/* index of the record's first TID among the node's TIDs */
	uint32		ntids;
} GrnndChain;

/* What the leader decides of an index before any page is formed, and workers read. */
typedef struct GrnndIndexPlan
{
	GrnBuildResult result;
	GrnndMeta	meta;
	uint64		rows;			/* rows of the build */
	uint64		records;		/* nodes, chains and lists */
	uint32		nchains;
	uint32		slots;			/* slots of each process, */
	GrnFormSpec form;			/* and what the builder forms in them */
} GrnndIndexPlan;

/* The data that an index is written from. */
typedef struct GrnndNewIndex
{
	GrnndIndexPlan plan;
	/* of the leader alone, for the metapage: */
	GrnndReport report;
	GrnndQueried queried;
	GrnListPlaces lists;
	/* as follows from the plan: */
	GrnLayout	layout;
	uint32		nodes;
	/* Arrays in the mapping: */
	GrnResultArrays built;		/* codes, factors, codec: NULL if the index has no codes */
	const uint64 *tids;			/* [rows], packed */
	uint8	   *attrs;			/* [rows][columns->bytes] */
	GrnndChain *chains;			/* [nchains], by node; in segment ORDER */
	const GrnndAttrs *columns;
	GrnSigBook *books;			/* [columns]; the leader's alone */
	GrnNewLists new_lists;		/* signatures and buckets; the leader's alone */
	GrnForming *forming;		/* a build without a builder process, or NULL */
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
/* Checks that each row belongs to exactly a single node, and that each node has a row. */
extern PGDLLEXPORT void grnnd_check_result_rows(const uint32 *row_start, const uint32 *rows, uint32 nodes,
												uint64 nrows);

/* ---- write_slots.c ---- */

/* Slots of each of the processes that write, at most GRN_MOST_SLOTS. */
extern PGDLLEXPORT uint32 grnnd_slots_of_process(uint32 threads, uint32 processes);

/* The slots of a process. */
typedef struct GrnndSlots
{
	GrnndNewIndex *new;
	GrnSlots   *all;
	GrnndBuilder *builder;		/* the leader's, or NULL in a worker */
	GrnFormRoom room;			/* used without a builder process */
	uint32		begin;			/* numbers of the process's slots */
	uint32		end;
	uint32		next;			/* the next slot to ask in; slots are used in turn */
	uint32		asked;			/* slots that are asked for pages */
} GrnndSlots;

/*
 * Has the builder sign nodes, make lists, and form pages for `processes` processes.  The leader's
 * alone.
 */
extern void grnnd_begin_pages(GrnndNewIndex *new, GrnndBuild *build, uint32 processes);
/* builder: the leader's, or NULL in a worker.  number: of the process. */
extern void grnnd_slots_begin(GrnndSlots *slots, GrnndNewIndex *new, const GrnndMapping *map, GrnndBuilder *builder,
							  uint32 number);
/* Asks for n pages of the node area from page `first` on.  Returns false if no slot is idle. */
extern bool grnnd_ask_pages(GrnndSlots *slots, uint64 first, uint32 n);
/*
 * Waits for the pages that were asked first.  Returns the pages, *n of them from *first on, or NULL
 * if none are asked.  The next call of grnnd_ask_pages() may reuse their memory.
 */
extern char *grnnd_take_pages(GrnndSlots *slots, uint64 *first, uint32 *n);

/* ---- write_index_pages.c ---- */

/* Completes page `number` of the node area.  Errors: a record that is not sound, XX000. */
extern void grnnd_complete_page(GrnndNewIndex *new, BlockNumber number, Page page);
extern void grnnd_form_entry_page(const GrnndNewIndex *new, Page page);
/* Forms page `number` of the codec's pages. */
extern void grnnd_form_codec_page(const GrnndNewIndex *new, uint32 number, Page page);
extern void grnnd_form_center_page(const GrnndNewIndex *new, uint32 number, Page page);
extern void grnnd_form_meta_page(GrnndNewIndex *new, Page page);

/* ---- write_filters.c ---- */

/* Pages of lists' heads. */
extern uint16 grnnd_list_pages(const GrnndMeta *meta, const GrnLayout *layout);
/* Forms page `number` of books, sample and lists' heads; of the sample after all signatures. */
extern void grnnd_form_filter_page(const GrnndNewIndex *new, uint32 number, Page page);

#endif							/* GRNND_WRITE_INDEX_IMPL_H */
