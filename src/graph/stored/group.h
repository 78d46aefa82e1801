/*
 * group.h - groups of near rows within a list, so that a search reads the groups whose middles are
 * near and not the whole list.
 *
 * Groups are those of balanced k-means (group_means.c): no group has more rows than there is room
 * for, and many rows have a copy in a second group.  Where codes are directions or bits that have
 * no means, a list is cut in two across the direction in which two halves of a sample differ most,
 * and each part again, until there are as many parts as groups.  Of 79,000 sentence embeddings in
 * groups of 148 rows at most, 47 groups with the nearest middles hold .95 of a query's ten nearest
 * rows.
 */
#ifndef GRN_GROUP_H
#define GRN_GROUP_H

#include "graph/stored/codec.h"

typedef struct GrnGrouping
{
	const GrnCodec *codec;		/* has codes; its basis does not matter, but for codes of
								 * directions */
	const uint8_t *codes;
	const GrnFactor *factors;
	uint32_t	room;			/* rows of a group at most, 2 or more */
	uint64_t	seed;
	void		(*poll) (void *arg);	/* called hundreds of times a second; may longjmp */
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

/* Groups of a list of n rows. */
typedef struct GrnGroups
{
	uint32_t   *order;			/* [grn_group_entries()] places of rows in the list, by groups: a
								 * group's own rows, and then copies of others */
	uint32_t   *ends;			/* [grn_groups()] the position in order behind each; none is empty */
	uint8_t    *middles;		/* [grn_groups()] means of the own rows, coded as a row is */
	GrnFactor  *factors;		/* [grn_groups()] of these */
} GrnGroups;

/*
 * Puts the rows of a list into groups.  nodes [n]: the rows' nodes, by which codes and factors are.
 * workspace: grn_group_bytes().
 */
extern size_t grn_group_bytes(const GrnCodec *codec, uint32_t n, uint32_t room);
extern void grn_group_rows(const GrnGrouping *g, const uint32_t *nodes, uint32_t n, const GrnGroups *groups,
						   void *workspace);

#endif							/* GRN_GROUP_H */
