/*
 * codec_impl.h - functions shared by the fit (codec_fit.c), encoding (codec.c), estimates
 * (estimate.c) and groups of coded rows (group.c).
 */
#ifndef GRN_CODEC_IMPL_H
#define GRN_CODEC_IMPL_H

#include "store/codec.h"

#include <math.h>

/*
 * For normally distributed numbers of variance 1 in 4, 2 and 1 bits: the step between levels with
 * the least loss, and the lost share of the variance.
 */
static const float grn_best_steps[GRN_CODE_BLOCKS] = {0.3352f, 0.9957f, 1.5958f};
static const float grn_lost_in_bits[GRN_CODE_BLOCKS] = {0.01154f, 0.1188f, 0.3634f};

/* The highest level of a block; level - top / 2 is symmetric around 0. */
static inline int
grn_block_top(int block)
{
	return (1 << grn_block_bits(block)) - 1;
}
static inline float
grn_block_middle(int block)
{
	return (float) grn_block_top(block) / 2;
}

/* Loops over the blocks that have dimensions; block b has dimensions [first, last). */
#define GRN_FOR_BLOCKS(shape, b, first, last) \
	for (uint32_t b = 0, first = 0, last = 0; b < GRN_CODE_BLOCKS; first = last, b++) \
		if ((last = first + (shape).dims[b]) > first)

/* Computes u = B (scale x - from). u: [k]; from: [dim] or NULL. Returns |scale x - from|^2. */
extern float grn_codec_project(const GrnCodec *codec, const float *x, float scale,
							   const float *from, float *u);

/* Computes u = B (q - from), with the short basis if the codec has one.  Returns |q - from|^2. */
extern float grn_codec_project_query(const GrnCodec *codec, const float *q, const float *from,
									 float *u);

/*
 * Computes u = B (x / |x| - c), and *length = |x| in units.  Returns |x / |x| - c|^2.  A row that
 * counts as zero (grn_scale()) has length 0 and the direction c.
 */
extern float grn_codec_project_direction(const GrnCodec *codec, const float *x, float *u,
										 float *length);

/*
 * Encodes a row from u [k] = B (x - c) and norm2 = |x - c|^2.  For directions u = B (x / |x| - c),
 * and length is |x| in units.  Codes must not be rows.
 */
extern void grn_encode_head(const GrnCodec *codec, const float *u, float norm2, float length,
							uint8_t *code, GrnFactor *factor);

/* Decodes a code into u [k].  Returns |x - c|, or |x| for directions. */
extern float grn_decode_head(const GrnCodec *codec, const uint8_t *code, GrnFactor factor, float *u);

#endif							/* GRN_CODEC_IMPL_H */
