/*
 * codec.h - codes: a row in a few bits a dimension, the same bytes in whichever record they
 * stand.  estimate.h computes distances from them.
 *
 * A code describes u = B (x - c): c is the mean of the data and B the first principal
 * directions, in three blocks (shape.h), each of them randomly rotated within itself so
 * that no dimension carries more than its share.  Each u_j is kept in the block's 4, 2 or
 * 1 bits: as d_j = step (code_j - middle), step being one number for the whole block, times
 * alpha, one number for the row.  The factors keep |x - c| and alpha / |x - c|, corrected so
 * that <u, alpha d> = |u|^2 (as RaBitQ does, Gao & Long, SIGMOD 2024; several bits as in
 * its extension, SIGMOD 2025).  Then
 *   |q - x|^2 ~ |q - c|^2 + |x - c|^2 - 2 alpha(x) sum_j v_j d_j,
 * v = B (q - c).  What x - c has outside of the directions of B enters through the norms.
 * Among rows that lie far from c and near to each other, errors of a factor weigh as much as
 * the distance to c; so both factors are precise at any distance.
 *
 * Codes of directions (GRN_CODES_DIRECTIONS; inner product, Jaccard) describe
 * u = B (x / |x| - c), and the factors keep |x| and alpha.  The error is then a share of the
 * row's own length.  Two factors give the inner product with a query:
 *   q.x ~ |x| (q.c + alpha(x) sum_j v_j d_j), v = B q,
 * and the distances of rows in the space of the graph (space.h), which follow from lengths
 * and angles.  Here the part of the error that lies along c counts, because queries have a
 * share of c, too: the encoder chooses levels such that it nearly vanishes.
 *
 * Where rows of bits are their own codes, there is nothing to fit and no factor: distances
 * are counts of bits.
 */
#ifndef GRN_CODEC_H
#define GRN_CODEC_H

#include "graph/form.h"
#include "graph/kernels/dist.h"
#include "graph/metric.h"
#include "graph/stored/shape.h"

typedef struct GrnCodec
{
	uint32_t	dim;
	GrnCodeShape shape;			/* k dimensions in all; GRN_NO_CODES: this index has none */
	float		norm_unit;		/* unit of factors' lengths; of codes of rows its square */
	float		steps[GRN_CODE_BLOCKS]; /* > 0 where the block has dimensions */
	const float *mean;			/* [dim] */
	const float *basis;			/* [k][dim], rows orthonormal (k > dim: columns) */
	const int16_t *short_basis; /* the same by grn_codec_shorten(), for queries; or NULL */
	/* by grn_codec_set_metric(): */
	GrnCodeKind kind;
	float		power;			/* of places */
	GrnEstimated own;			/* where codes are rows: what they give of a query and a row, */
	GrnEstimated own_places;	/* and of the places of two rows */
	float		length_unit;	/* of factors' lengths */
	float		alpha_unit;		/* of factors' alphas */
	int8_t		decoded[GRN_CODE_BLOCKS][16];	/* step^2 (level - middle), in units of */
	float		decoded_unit;	/* this */
	/* only for codes of directions */
	float		mean_norm2;		/* |c|^2 */
	float		mean_head[GRN_MAX_CODE_DIMS];	/* [k] B c */
} GrnCodec;

/*
 * Says by what metric rows are compared, and completes it, without a short basis; all else is
 * set.  For codes of directions norm_unit is the unit of lengths; codes of rows keep the unit
 * that the codec has.
 */
extern void grn_codec_set_metric(GrnCodec *codec, const GrnMetricInfo *metric, float norm_unit);

/*
 * The basis in 16-bit integers, out: [k][dim].  Queries projected by it are as good, for they are
 * rounded to 8 bits in the end, and it is half as much to read: of 384 dimensions a projection
 * takes 3 microseconds instead of 8, of 1,536 10 instead of 27.
 */
extern void grn_codec_shorten(const GrnCodec *codec, int16_t *out);

static inline bool
grn_has_codes(const GrnCodec *codec)
{
	return grn_code_bytes(codec->shape) > 0;
}

/* Are codes the rows themselves, so that estimates are distances? */
static inline bool
grn_codes_exact(const GrnCodec *codec)
{
	return codec->shape.own > 0;
}

/*
 * Does the row of factor a lie nearer to the middle of the graph's space than that of b?  Where
 * codes are of directions, factors have lengths, and the longest rows lie in the middle.
 */
static inline bool
grn_is_more_central(const GrnCodec *codec, GrnFactor a, GrnFactor b)
{
	float		x = grn_factor_length(a);
	float		y = grn_factor_length(b);

	return codec->kind == GRN_CODES_DIRECTIONS ? x > y : x < y;
}

/* Are rows of this form bits, and short enough to be their own codes? */
static inline bool
grn_may_be_codes(GrnForm form, uint32_t dim)
{
	return grn_form(form)->direct && grn_form_bytes(form, dim) <= GRN_MOST_OWN_BYTES;
}

/*
 * The shape of codes that are rows of this form themselves, or GRN_NO_CODES where such rows
 * need shorter ones, or counts of ones say nothing of how the metric compares them.
 */
extern GrnCodeShape grn_own_shape(const GrnMetricInfo *metric, GrnForm form, uint32_t dim);

/* Floats of mean and basis together, as they are stored: mean, then basis. */
static inline size_t
grn_codec_floats(uint32_t dim, uint32_t code_dims)
{
	return code_dims == 0 ? 0 : (size_t) dim * (1 + (size_t) code_dims);
}

/* x: [codec->dim]; code: [grn_code_bytes()]; scratch: [k] floats. */
extern void grn_encode(const GrnCodec *codec, const float *x, uint8_t *code,
					   GrnFactor *factor, float *scratch);

/*
 * The factor of a row's code that was made of a vector so far from the row, and perpendicular to it
 * (graph/rotated.h).  The length is the row's then; codes of directions stay as they are.
 */
extern GrnFactor grn_factor_without(const GrnCodec *codec, GrnFactor factor, float error);

#endif							/* GRN_CODEC_H */
