/*
 * codec.h - global codes: a row's vector in a few bits a dimension, the same
 * bytes in whatever record they stand, and distances estimated from them.
 *
 * A code describes u = B (x - c): c is the mean of the data and B the first
 * code_dims principal directions, randomly rotated among themselves so that
 * no dimension carries more than its share.  Each u_j is kept in 4 bits,
 * (code_j - 7.5) times one scale per row; the factors keep |x - c|^2 and
 * that scale, corrected so that <u, decoded u> = |u|^2 (as RaBitQ does,
 * Gao & Long, SIGMOD 2024; 4 bits as in its extension, SIGMOD 2025).  Then
 *   |q - x|^2 ~ |q - c|^2 + norm2(x) - 2 alpha(x) sum_j v_j (code_j - 7.5),
 * v = B (q - c): the energy outside the head enters through the exact norms.
 *
 * For inner product a code describes the direction, u = B (x / |x| - c), and the
 * factors keep |x| and the scale.  The error is then a share of the row's own
 * length, and what is asked for comes from two factors:
 *   q.x ~ |x| (q.c + alpha(x) sum_j v_j (code_j - 7.5)), v = B q.
 * So do distances of rows in the space of the graph (GrnScale), which follow from
 * lengths and angles.  Here the part of the error that lies along c counts,
 * because queries have a share of c, too: the encoder chooses levels such that it
 * nearly vanishes.
 */
#ifndef GRN_CODEC_H
#define GRN_CODEC_H

#include "graph/kernels/dist.h"
#include "graph/metric.h"

#define GRN_MAX_CODE_DIMS 256
#define GRN_CODE_ALIGN 32		/* code_dims is a multiple of this */

/*
 * The two factors of a code, 4 bytes an edge, on disk.  norm2 is in units of
 * GrnCodec.norm_unit so that it cannot overflow half precision; so is alpha,
 * in units of sqrt(norm_unit).  Inner product: |x| instead, in that unit, and alpha
 * of a direction needs none.
 */
typedef struct GrnFactor
{
	uint16_t	norm2;			/* binary16 */
	uint16_t	alpha;			/* binary16 */
} GrnFactor;

typedef struct GrnCodec
{
	uint32_t	dim;
	uint32_t	code_dims;		/* k; 0: this index has no codes */
	float		norm_unit;		/* unit of GrnFactor.norm2 */
	const float *mean;			/* [dim] */
	const float *basis;			/* [k][dim], rows orthonormal (k > dim: columns) */
	GrnCodeKind kind;			/* see grn_codec_set_kind() */
	/* only for codes of directions */
	float		mean_norm2;		/* |c|^2 */
	float		mean_head[GRN_MAX_CODE_DIMS];	/* [k] B c */
} GrnCodec;

/*
 * Says what its codes describe; mean and basis are set.  For directions norm_unit is the
 * unit of lengths; codes of rows keep the unit that the codec has.
 */
extern void grn_codec_set_kind(GrnCodec *codec, GrnCodeKind kind, float norm_unit);

static inline size_t
grn_code_bytes(uint32_t code_dims)
{
	return code_dims / 2;
}

/* Floats of mean and basis together, as they are stored: mean, then basis. */
static inline size_t
grn_codec_floats(uint32_t dim, uint32_t code_dims)
{
	return code_dims == 0 ? 0 : (size_t) dim * (1 + (size_t) code_dims);
}

/* x: [codec->dim]; scratch: [code_dims] floats. */
extern void grn_encode(const GrnCodec *codec, const float *x, uint8_t *code,
					   GrnFactor *factor, float *scratch);

#endif							/* GRN_CODEC_H */
