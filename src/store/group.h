/*
 * group.h - groups of near rows within a list.  A search reads the groups with near middles
 * instead of the whole list.
 *
 * Groups come from balanced k-means (group_means.c): no group has more rows than its room.  If
 * codes are directions or bits, whose means are not defined, cuts make the groups.  A cut splits a
 * list across the direction in which two halves of a sample differ most, then splits each part
 * again, until the number of parts is the number of groups.  Of 79,000 sentence embeddings in
 * groups of at most 148 rows, the 47 groups with the nearest middles hold .95 of a query's ten
 * nearest rows.
 */
#ifndef GRN_GROUP_H
#define GRN_GROUP_H

#include "memory/memory.h"
#include "space/rows.h"
#include "store/codec.h"
#include "store/record.h"

/*
 * Has the list of a bucket groups?  least: records of such a list, at least, because a search would
 * read nearly all of 100 groups.
 *
 * If more than half of the rows pass, searches use the graph, and grouping so many rows would slow
 * the build down.  60,000 rows of which 30% pass, ef 40, with a quarter and a half: SIFT .983 and
 * .989 for 88 and 74 pages, word vectors .948 and .985 for 92 and 80.
 */
#define GRN_MOST_GROUPED 2
static inline bool
grn_has_groups(const GrnLayout *l, uint32_t least, uint64_t rows, uint64_t nodes)
{
	return rows >= (uint64_t) least * grn_list_rows(l) && rows <= nodes / GRN_MOST_GROUPED;
}

/* Number of records in a group, a page's records, and room for rows in a group. */
static inline uint32_t
grn_group_records(const GrnLayout *l)
{
	return l->per_page;
}
static inline uint32_t
grn_group_room(const GrnLayout *l)
{
	return grn_group_records(l) * grn_list_rows(l);
}

typedef struct GrnGrouping
{
	const GrnCodec *codec;		/* has codes; its basis is used only for codes of directions */
	const uint8_t *codes;
	const GrnFactor *factors;
	uint32_t	room;			/* maximum number of rows of a group, at least 2 */
	uint64_t	seed;
	void		(*poll) (void *arg);	/* called hundreds of times a second; may longjmp */
	void	   *arg;
} GrnGrouping;

/* Number of groups of a list of n rows, slightly more than full groups would need. */
extern uint32_t grn_groups(uint32_t n, uint32_t room);

/* Approximate number of rows that `groups` groups hold. */
extern uint64_t grn_rows_of_groups(uint64_t groups, uint32_t room);

/* The groups of a list of n rows. */
typedef struct GrnGroups
{
	uint32_t   *order;			/* [n] positions of rows in the list, by groups */
	uint32_t   *ends;			/* [grn_groups()] end of each group in `order`; no group is empty */
	uint8_t    *middles;		/* [grn_groups()] means of the groups' rows, coded like rows */
	GrnFactor  *factors;		/* [grn_groups()] factors of middles */
} GrnGroups;

/*
 * Puts the rows of a list into groups.  nodes [n]: the rows' nodes, the indices of codes and
 * factors.  workspace: grn_group_bytes().
 */
extern size_t grn_group_bytes(const GrnCodec *codec, uint32_t n, uint32_t room);
extern void grn_group_rows(const GrnGrouping *g, const uint32_t *nodes, uint32_t n, const GrnGroups *groups,
						   void *workspace);

/* cut_order.c: an order of rows that puts near rows on one page. */

#define GRN_CUT_ORDER_BYTES(n) (8 * (size_t) (n) + 3 * GRN_ALIGNMENT)

/*
 * Computes position[i], the place of row i, such that each per_page consecutive places hold rows
 * near to each other.  workspace: GRN_CUT_ORDER_BYTES(rows->n).  Returns false without memory for
 * the threads, up to 2 MB each.
 */
extern bool grn_cut_order(const GrnRows *rows, uint32_t per_page, uint32_t *position, GrnParallel *parallel,
						  void *workspace);

#endif							/* GRN_GROUP_H */
