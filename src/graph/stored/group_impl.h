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

/* How many numbers the first blocks of a code have. */
extern uint32_t grn_group_dims(const GrnCodec *codec, int blocks);

/*
 * A row without the codec's mean into x [grn_group_dims()]; of directions with it, since rows of
 * other lengths have another share of it.  Returns its length as grn_decode_head() does.
 */
extern float grn_group_decode(const GrnGrouping *g, int blocks, uint32_t node, float *x);

/*
 * Has rows [n] of groups move to the nearest middle with room, and brings them into the order of
 * their groups again.  Only where distances are Euclidean.
 */
extern bool grn_group_may_refine(const GrnCodec *codec);
extern size_t grn_group_refine_bytes(const GrnCodec *codec, uint32_t n, uint32_t room);
extern void grn_group_refine(const GrnGrouping *g, GrnGrouped *rows, uint32_t n, uint32_t *ends,
							 uint32_t groups, void *workspace);

#endif							/* GRN_GROUP_IMPL_H */
