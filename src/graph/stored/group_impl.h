/*
 * group_impl.h - what group.c (cuts, middles) and group_refine.c (rows that move) share.
 */
#ifndef GRN_GROUP_IMPL_H
#define GRN_GROUP_IMPL_H

#include "graph/stored/codec_impl.h"
#include "graph/stored/estimate.h"
#include "graph/stored/group.h"

/* Numbers of a row by which parts are cut and means taken. */
#define GRN_GROUP_DIMS (8 * GRN_MOST_OWN_BYTES)
_Static_assert(GRN_GROUP_DIMS >= GRN_MAX_CODE_DIMS, "a decoded row has room");

/* Groups that are dealt with between two calls of GrnGrouping.look(). */
#define GRN_GROUPS_A_LOOK 16

/* Workspace of cuts. */
typedef struct GrnGroupTree
{
	float	   *sample;			/* [.][GRN_GROUP_DIMS] */
	float	   *along;			/* [n] where rows lie in the direction of the cut */
	uint8_t    *codes;			/* [.][code_bytes] */
} GrnGroupTree;

/*
 * Brings rows [n] into the order of so many groups, of sizes that differ by one, of a tree of
 * cuts.
 */
extern void grn_group_cut(const GrnGrouping *g, const GrnGroupTree *tree, GrnGrouped *rows, uint32_t n,
						  uint32_t *ends, uint32_t groups);

/* The first blocks of a code, by which parts are cut and rows move. */
extern int	grn_group_blocks(const GrnCodec *codec);
/* How many numbers the first blocks of a code have. */
extern uint32_t grn_group_dims(const GrnCodec *codec, int blocks);

/*
 * A row without the codec's mean into x [grn_group_dims()]; of directions with it, since rows of
 * other lengths have another share of it.  Returns its length as grn_decode_head() does.
 */
extern float grn_group_decode(const GrnGrouping *g, int blocks, uint32_t node, float *x);

/*
 * The code of a mean of rows as they are decoded, [GRN_GROUP_DIMS] with zeroes behind what is known
 * of it, and of their lengths; mean is changed.  apart: what codes of rows are to add to squared
 * distances.
 */
extern void grn_group_encode(const GrnCodec *codec, float *mean, float length, float apart,
							 uint8_t *code, GrnFactor *factor);

/*
 * Has rows [n] of groups move to the nearest middle with room, adds copies of them, and brings all
 * into the order of their groups again: rows has room for grn_group_entries().  own [groups]
 * becomes how many of a group's rows are no copies; they come first.  Only where distances are
 * Euclidean.
 */
extern bool grn_group_may_refine(const GrnCodec *codec);
extern size_t grn_group_refine_bytes(const GrnCodec *codec, uint32_t n, uint32_t room);
extern void grn_group_refine(const GrnGrouping *g, const GrnGroupTree *tree, GrnGrouped *rows,
							 uint32_t n, uint32_t *ends, uint32_t *own, uint32_t groups, void *workspace);

#endif							/* GRN_GROUP_IMPL_H */
