/*
 * group.h - groups of near rows within a list: so a search reads the groups whose middles are
 * near, and not the whole list.
 *
 * A list is cut in two, across the direction in which two halves of a sample of its codes differ
 * most, and each part again, until there are as many parts as groups.  Then each row moves to the
 * nearest middle that has room, and many get a copy in a second group (group_refine.c).  So groups
 * are those of balanced k-means, begun with a tree.  Of 79,000 sentence embeddings in groups of
 * 148 rows at most, 47 groups with the nearest middles hold .95 of a query's ten nearest rows.
 */
#ifndef GRN_GROUP_H
#define GRN_GROUP_H

#include "graph/stored/codec.h"

/* A row of a list. */
typedef struct GrnGrouped
{
	uint32_t	node;			/* codes and factors are by this */
	uint32_t	rank;			/* of its value */
} GrnGrouped;

typedef struct GrnGrouping
{
	const GrnCodec *codec;		/* has codes; its basis does not matter, but for codes of
								 * directions */
	const uint8_t *codes;
	const GrnFactor *factors;
	uint32_t	room;			/* rows of a group at most, 2 or more */
	uint64_t	seed;
	void		(*look) (void *arg);	/* called hundreds of times a second; may longjmp */
	void	   *arg;
} GrnGrouping;

/*
 * How many rows the groups of a list of n rows have with copies, at most, and how many groups there
 * are: a few more than would do if all were full.
 */
extern uint32_t grn_group_entries(const GrnCodec *codec, uint32_t n, uint32_t room);
extern uint32_t grn_groups(const GrnCodec *codec, uint32_t n, uint32_t room);

/* About how many rows so many groups hold that are no copies. */
extern uint64_t grn_rows_of_groups(const GrnCodec *codec, uint64_t groups, uint32_t room);

/* Groups that were made, [grn_groups()] each. */
typedef struct GrnGroups
{
	uint32_t   *ends;			/* the position behind each; none is empty */
	uint8_t    *middles;		/* codes of grn_group_middle() */
	GrnFactor  *factors;
} GrnGroups;

/*
 * Brings rows [n] into the order of their groups, with copies: there is room for
 * grn_group_entries().  workspace: grn_group_bytes().
 */
extern size_t grn_group_bytes(const GrnCodec *codec, uint32_t n, uint32_t room);
extern void grn_group_rows(const GrnGrouping *g, GrnGrouped *rows, uint32_t n, const GrnGroups *groups,
						   void *workspace);

/*
 * Numbers of a row's code by which groups are refined, the first ones; 0: groups of such codes are
 * cuts alone, or codes are rows.  A GPU may choose groups by them.
 */
extern uint32_t grn_group_refined_dims(const GrnCodec *codec);

/*
 * grn_group_rows() of groups that have been chosen, but for middles.  chosen [n]: each row's group,
 * of ngroups; copied [n]: its second one, or GRN_INVALID_ID.  A group has rows of its own first,
 * own [ngroups] of them and one at least, and then copies.  False, with rows as they were: a
 * number is no group's, or a group has more rows than there is room for.  workspace:
 * grn_group_place_bytes().
 */
extern size_t grn_group_place_bytes(uint32_t n, uint32_t ngroups);
extern bool grn_group_place(GrnGrouped *rows, uint32_t n, const uint32_t *chosen, const uint32_t *copied,
							uint32_t ngroups, uint32_t room, uint32_t *ends, uint32_t *own, void *workspace);

/*
 * The middle of a group of n rows, coded as a row is: an estimate from it is about the distance
 * of the rows' mean, and where distances are Euclidean somewhat more the farther apart they are.
 */
extern void grn_group_middle(const GrnGrouping *g, const GrnGrouped *rows, uint32_t n, uint8_t *code,
							 GrnFactor *factor);

#endif							/* GRN_GROUP_H */
