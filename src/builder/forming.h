/*
 * forming.h - forms the pages of an index from the result of its build: records that lack heap TIDs
 * and values of filter columns alone, which the leader has.
 *
 * The builder forms pages with its threads and hands them over by slots (slots.h).  In a build
 * without a builder process the leader calls these functions.
 */
#ifndef GRN_FORMING_H
#define GRN_FORMING_H

#include "builder/host.h"
#include "builder/protocol.h"
#include "space/rows.h"
#include "store/codec.h"
#include "store/group.h"
#include "store/record.h"

/* ---- new_lists.c: lists of the values of filter columns ---- */

/*
 * The first of a bucket's items in the arrays of all lists.  Buckets are in the order of columns.
 */
typedef struct GrnBucket
{
	uint64_t	row;
	uint32_t	record;			/* record of the chain */
	uint32_t	group;
	uint32_t	guide;			/* record of the guide */
} GrnBucket;

/* Whether the list of a bucket has groups.  Another bucket, or the end of all, must follow. */
static inline bool
grn_is_grouped(const GrnBucket *bucket)
{
	return bucket[1].group > bucket->group;
}

/* The list of a bucket that has groups. */
typedef struct GrnLongList
{
	uint32_t	n;				/* rows */
	uint32_t	bucket;
} GrnLongList;

/* The arrays of LISTS. */
typedef struct GrnNewLists
{
	uint8_t    *sigs;			/* [nodes][sig_bytes] */
	GrnBucket  *buckets;		/* [nbuckets + 1] */
	uint32_t   *counts;			/* [shares][nbuckets] number of rows; later the position of the
								 * share's first row */
	/* once the sizes are known: */
	GrnLongList *longest;		/* [lists], longest first */
	uint32_t   *nodes;			/* [rows] of all lists, by bucket */
	uint32_t   *ranks;			/* [rows] */
	GrnGroups	groups;			/* order [rows], the others [groups] */
	uint64_t	bytes;			/* bytes of LISTS */
} GrnNewLists;

/*
 * Places the arrays for `nbuckets` buckets of all columns.  sizes: NULL while unknown.  segment:
 * LISTS, or NULL, for the bytes alone.
 */
extern GRN_EXPORT GrnNewLists grn_place_new_lists(const GrnLayout *l, uint32_t nodes, uint32_t nbuckets,
												  const GrnListSizes *sizes, void *segment);
/* Adds the list of a bucket with n rows of `nodes`.  least: GrnFormSpec.least_records. */
extern GRN_EXPORT void grn_add_list(GrnListSizes *all, const GrnLayout *l, uint32_t least, uint64_t n,
									uint64_t nodes);

/* Ids of the first records of lists, and the id behind the last record. */
typedef struct GrnListPlaces
{
	uint64_t	chains;
	uint64_t	groups;			/* each fills a page (grn_group_records()) */
	uint64_t	guides;
	uint64_t	end;
} GrnListPlaces;

/* first: id behind all earlier records. */
extern GRN_EXPORT GrnListPlaces grn_place_lists(const GrnLayout *l, uint64_t first, const GrnListSizes *all);

/* ---- forming.c ---- */

typedef struct GrnForming
{
	/* set by the caller: */
	const GrnBuildSpec *spec;
	const GrnBuildResult *result;
	GrnFormSpec form;
	uint64_t	rows;			/* rows of the build */
	const GrnHost *host;
	GrnParallel *parallel;
	void	   *base[GRN_NSEGMENTS];	/* mapped segments, */
	uint64_t	bytes[GRN_NSEGMENTS];	/* and their sizes */
	/* set by grn_forming_begin(): */
	GrnLayout	layout;
	GrnCenter	center;
	GrnResultArrays at;
	GrnRows		vectors;		/* own vectors of nodes, or the rows from which they are made */
	GrnCodec	codec;
	uint32_t	nbuckets;		/* of all columns */
	GrnNewLists lists;
	GrnListSizes sizes;
	GrnListPlaces places;
	uint64_t	next_long;		/* next list without groups that no thread has taken, */
	uint64_t	grouped;		/* and lists that have their groups */
} GrnForming;

/*
 * Finds the arrays of the result, signs all nodes, and sorts their rows into lists.  Errors: arrays
 * that lie outside their segments, XX000; no memory.
 */
extern bool grn_forming_begin(GrnForming *f, GrnFailure *failure);
/*
 * Puts the rows of the next list that has groups into groups.  Returns false if no list is left.
 * *failure is filled without memory for the work, and otherwise unchanged.
 */
extern bool grn_forming_group(GrnForming *f, GrnFailure *failure);

/* Room of a thread that forms pages. */
typedef struct GrnFormRoom
{
	float	   *x;				/* [dim] */
	uint8_t    *record;			/* a record that spans several pages, */
	uint64_t	id;				/* and its id */
} GrnFormRoom;

/* Returns false without memory. */
extern bool grn_form_room_begin(GrnFormRoom *room, const GrnForming *f);
extern void grn_form_room_end(GrnFormRoom *room);
/*
 * Forms n pages of the node area from page `first` on, of GrnFormSpec.page_bytes each.  Bytes
 * outside of records are zero, as are chained records of heap TIDs.  A node that the result does
 * not describe soundly becomes a free record.  Pages with lists need the groups of all lists.
 */
extern void grn_form_pages(const GrnForming *f, GrnFormRoom *room, uint64_t first, uint32_t n, char *pages);
/* Whether pages before page `end` have no record of a list. */
static inline bool
grn_are_of_nodes(const GrnForming *f, uint64_t end)
{
	return (end * f->layout.per_page + f->layout.span - 1) / f->layout.span <= f->form.first_list;
}

/* Forms the list record `id`, in a zeroed record.  (new_lists.c, as the next function) */
extern void grn_form_list(const GrnForming *f, uint64_t id, GrnRecord *rec);
extern bool grn_make_lists(GrnForming *f, GrnFailure *failure);

#endif							/* GRN_FORMING_H */
