/*
 * group_impl.h - functions shared by group.c (cuts, middles), group_means.c (balanced k-means) and
 * cut_order.c.
 */
#ifndef GRN_GROUP_IMPL_H
#define GRN_GROUP_IMPL_H

#include "memory/memory.h"
#include "store/codec.h"
#include "store/codec_impl.h"
#include "store/group.h"

/* Maximum numbers of a decoded row, by which parts are cut and means are taken. */
#define GRN_GROUP_DIMS (8 * GRN_MOST_OWN_BYTES)
_Static_assert(GRN_GROUP_DIMS >= GRN_MAX_CODE_DIMS, "a decoded row has room");

/*
 * Maximum sample size of a cut.  Of the ten nearest sentences and image patches .57 and .71 share a
 * page in the order of cut_order.c, with half .66 and .71, with twice .64 and .62.
 */
#define GRN_GROUP_SAMPLED 256

/* The workspace of cuts. */
typedef struct GrnGroupTree
{
	float	   *sample;			/* [GRN_GROUP_SAMPLED][grn_group_dims()] */
	float	   *along;			/* [n] positions of rows along the direction of the cut */
} GrnGroupTree;

/*
 * Sorts the indices of n rows into `groups` groups, whose sizes differ by at most one, by a tree of
 * cuts.  ends: receives the end of each group.
 */
extern void grn_group_cut(const GrnGrouping *g, const GrnGroupTree *tree, uint32_t *rows, uint32_t n,
						  uint32_t *ends, uint32_t groups);

/*
 * Computes the direction w [dims] between the two means of a sample of n rows, at most
 * GRN_GROUP_SAMPLED.  sums: room for [2][dims].  Returns false if all rows are equal.
 */
extern bool grn_group_apart(const float *const *sample, uint32_t n, uint32_t dims, float *sums, float *w);
/* Moves the k rows with the least positions to the front. */
extern void grn_group_select(uint32_t *rows, float *along, uint32_t n, uint32_t k);

/* Number of dimensions of a decoded row. */
extern uint32_t grn_group_dims(const GrnCodec *codec);

/*
 * Decodes a row into x [grn_group_dims()], without the codec's mean.  Codes of directions include
 * the mean, because rows of other lengths have other shares of the mean.  Returns the length as
 * grn_decode_head() does.
 */
extern float grn_group_decode(const GrnGrouping *g, uint32_t node, float *x);

/*
 * Encodes a mean of decoded rows, [GRN_GROUP_DIMS] padded with zeroes, with the mean of their
 * lengths; changes `mean`.
 */
extern void grn_group_encode(const GrnCodec *codec, float *mean, float length, uint8_t *code,
							 GrnFactor *factor);

/*
 * Puts n rows into groups by k-means.  order, ends: as in GrnGroups, at first as grn_group_cut()
 * has made them.  Only for Euclidean distances.
 */
extern bool grn_group_has_means(const GrnCodec *codec);
extern size_t grn_group_means_bytes(const GrnCodec *codec, uint32_t n, uint32_t room);
extern void grn_group_by_means(const GrnGrouping *g, const GrnGroupTree *tree, uint32_t n, uint32_t *order,
							   uint32_t *ends, void *workspace);

#endif							/* GRN_GROUP_IMPL_H */
