/*
 * group_impl.h - what group.c (cuts, middles), group_means.c (balanced k-means) and cut_order.c
 * share.
 */
#ifndef GRN_GROUP_IMPL_H
#define GRN_GROUP_IMPL_H

#include "graph/arena.h"
#include "graph/stored/codec_impl.h"
#include "graph/stored/estimate.h"
#include "graph/stored/group.h"

/* Numbers of a row by which parts are cut and means taken. */
#define GRN_GROUP_DIMS (8 * GRN_MOST_OWN_BYTES)
_Static_assert(GRN_GROUP_DIMS >= GRN_MAX_CODE_DIMS, "a decoded row has room");

/* A row that is cut away from others. */
typedef struct GrnGrouped
{
	uint32_t	node;			/* codes and factors are by this */
	uint32_t	rank;			/* the caller's */
} GrnGrouped;

/* By how many rows a part of n is cut: n / rows_each, within limits. */
#define GRN_GROUP_SAMPLED 1024	/* at most */
typedef struct GrnGroupSampling
{
	uint32_t	least;
	uint32_t	most;			/* up to GRN_GROUP_SAMPLED */
	uint32_t	rows_each;
} GrnGroupSampling;

/* Workspace of cuts. */
typedef struct GrnGroupTree
{
	GrnGroupSampling sampling;
	float	   *sample;			/* [.][grn_group_dims()] */
	float	   *along;			/* [n] where rows lie in the direction of the cut */
	uint8_t    *codes;			/* [.][code_bytes] */
} GrnGroupTree;

/* Takes it from an arena, but for along. */
extern GrnGroupTree grn_group_tree(GrnArena *a, const GrnCodec *codec, const GrnGroupSampling *by);

/*
 * Brings rows [n] into the order of so many groups of a tree of cuts: all of the size but the last,
 * or, if that is 0, of sizes that differ by one.  ends: the position behind each group, or NULL.
 */
extern void grn_group_cut(const GrnGrouping *g, const GrnGroupTree *tree, GrnGrouped *rows, uint32_t n,
						  uint32_t *ends, uint32_t groups, uint32_t size);

/*
 * The direction w [dims] from one mean of a sample, of GRN_GROUP_SAMPLED rows at most, to the
 * other.  sums: room for [2][dims].  False: all rows are equal.
 */
extern bool grn_group_apart(const float *const *sample, uint32_t n, uint32_t dims, float *sums, float *w);

/*
 * The steps of a cut: the direction w [grn_group_dims()] in which two halves of a sample differ
 * most, false where all of it is equal; where rows [n] lie along it, into along, by which w
 * [GRN_MAX_CODE_DIMS] is changed; and the k rows that lie least far along come first.
 */
extern bool grn_group_direction(const GrnGrouping *g, const GrnGroupTree *tree, const GrnGrouped *rows,
								uint32_t n, float *w);
extern void grn_group_project(const GrnGrouping *g, const GrnGroupTree *tree, const GrnGrouped *rows,
							  uint32_t n, float *w);
extern void grn_group_select(GrnGrouped *rows, float *along, uint32_t n, uint32_t k);

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
 * Puts rows [n] into groups by means, with copies.  order, ends: as in GrnGroups.  own [groups]
 * becomes the number of a group's rows that are no copies.  Only where distances are Euclidean.
 */
extern bool grn_group_has_means(const GrnCodec *codec);
extern size_t grn_group_means_bytes(const GrnCodec *codec, uint32_t n, uint32_t room);
extern void grn_group_by_means(const GrnGrouping *g, const GrnGroupTree *tree, uint32_t n, uint32_t *order,
							   uint32_t *ends, uint32_t *own, void *workspace);

#endif							/* GRN_GROUP_IMPL_H */
