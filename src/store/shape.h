/*
 * shape.h - the shape of codes: how many principal directions have 4, 2 and 1 bits.
 *
 * Directions with larger variances have more bits.  Directions with equal bits form a block, and a
 * code holds its three blocks in a row.  Byte i of a block of n bytes holds the block's dimensions
 * i, n + i, 2 n + i, ..., the first in the lowest bits.
 *
 * Rows of bits may be their own codes.  A code is then the stored row, and distances computed from
 * codes are exact.
 */
#ifndef GRN_SHAPE_H
#define GRN_SHAPE_H

#include "space/grn.h"

#define GRN_CODE_BLOCKS 3
#define GRN_CODE_ALIGN 16		/* the dimensions of a block are a multiple of this */
#define GRN_CODE_STEP 4			/* the bytes of a code are a multiple of this */
#define GRN_MAX_CODE_DIMS 256
#define GRN_MOST_OWN_BYTES 64	/* longer rows of bits get codes of directions; rows of 384 bits as
								 * codes have recall .989 at ef 40 instead of .977
								 * (test/bench/decisions.md) */

typedef struct GrnCodeShape
{
	uint16_t	dims[GRN_CODE_BLOCKS];	/* dimensions with 4, 2 and 1 bits */
	uint16_t	own;			/* bytes of a row that is its own code; dims[] are then 0 */
} GrnCodeShape;					/* all 0: no codes */

_Static_assert(sizeof(GrnCodeShape) == 8, "GrnCodeShape is on disk");

#define GRN_NO_CODES ((GrnCodeShape) {.own = 0})

/* Bits of each dimension of a block. */
static inline uint32_t
grn_block_bits(int block)
{
	return 4u >> block;
}

static inline uint32_t
grn_block_bytes(GrnCodeShape shape, int block)
{
	return shape.dims[block] * grn_block_bits(block) / 8;
}

/* Number of directions that a code describes; 0 without codes and if codes are rows. */
static inline uint32_t
grn_code_dims(GrnCodeShape shape)
{
	return (uint32_t) shape.dims[0] + shape.dims[1] + shape.dims[2];
}

static inline uint32_t
grn_code_bytes(GrnCodeShape shape)
{
	return grn_block_bytes(shape, 0) + grn_block_bytes(shape, 1) + grn_block_bytes(shape, 2) +
		shape.own;
}

/* Is this a valid shape, or the shape of no codes? For shapes read from disk or from a message. */
static inline bool
grn_shape_sound(GrnCodeShape shape)
{
	if (shape.own > 0)
		return shape.own <= GRN_MOST_OWN_BYTES && grn_code_dims(shape) == 0;
	for (int b = 0; b < GRN_CODE_BLOCKS; b++)
		if (shape.dims[b] > GRN_MAX_CODE_DIMS || shape.dims[b] % GRN_CODE_ALIGN != 0)
			return false;
	return grn_code_dims(shape) <= GRN_MAX_CODE_DIMS &&
		grn_code_bytes(shape) % GRN_CODE_STEP == 0;
}

/* The largest number of dimensions of codes for rows of dim dimensions. */
static inline uint32_t
grn_max_code_dims(uint32_t dim)
{
	uint32_t	all = (dim + GRN_CODE_ALIGN - 1) / GRN_CODE_ALIGN * GRN_CODE_ALIGN;

	/* few dimensions are spread over more code dimensions, see codec_fit.c */
	return all < 2 * GRN_CODE_ALIGN ? 2 * GRN_CODE_ALIGN
		: all < GRN_MAX_CODE_DIMS ? all : GRN_MAX_CODE_DIMS;
}

#endif							/* GRN_SHAPE_H */
