/*
 * group.h - groups of near rows within a list: so a search reads the groups whose middles are
 * near, and not the whole list.
 *
 * A list is cut in two, across the direction in which two halves of a sample of its codes differ
 * most, and each part again, until there are as many parts as groups.  Then each row moves to the
 * nearest middle that has room (group_refine.c).  So groups are those of balanced k-means, begun
 * with a tree.  Of 30,000 sentence embeddings in groups of 37 rows at most, so many groups with
 * the nearest middles hold .95 of a query's ten nearest rows: 216 before rows move, 142 after,
 * and 136 if they move by the rows themselves instead of their codes.
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

/* How many groups a list of n rows has: a few more than would do if all were full. */
extern uint32_t grn_groups(uint32_t n, uint32_t room);

/*
 * Brings rows [n] into the order of their groups.  ends [grn_groups()] becomes the position behind
 * each group; none is empty.  workspace: grn_group_bytes().
 */
extern size_t grn_group_bytes(const GrnCodec *codec, uint32_t n, uint32_t room);
extern void grn_group_rows(const GrnGrouping *g, GrnGrouped *rows, uint32_t n, uint32_t *ends,
						   void *workspace);

/*
 * The middle of a group of n rows, coded as a row is: an estimate from it is about the distance
 * of the rows' mean.
 */
extern void grn_group_middle(const GrnGrouping *g, const GrnGrouped *rows, uint32_t n, uint8_t *code,
							 GrnFactor *factor);

#endif							/* GRN_GROUP_H */
