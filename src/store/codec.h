/*
 * codec.h - codes: rows in a few bits a dimension.  All records that name a row hold identical
 * bytes.  estimate.h computes distances from codes.
 *
 * A code describes u = B (x - c).  c is the mean of the data.  B holds the first principal
 * directions in three blocks (shape.h).  Each block is rotated at random within itself, so that
 * all its dimensions have equal variance.  Each u_j is kept in the block's 4, 2 or 1 bits as d_j =
 * step (code_j - middle), with one step for the block, times alpha, one number for the row.  The
 * factor of a row keeps |x - c| and alpha / |x - c|.  alpha is corrected so that <u, alpha d> =
 * |u|^2 (as in RaBitQ, Gao & Long, SIGMOD 2024; several bits as in its extension, SIGMOD 2025).
 * Then
 *   |q - x|^2 ~ |q - c|^2 + |x - c|^2 - 2 alpha(x) sum_j v_j d_j,   v = B (q - c).
 * The part of x - c outside the directions of B enters through the norms.  For rows far from c and
 * near to each other, an error of a factor counts as much as the distance to c, so both factors
 * are precise at any distance.
 *
 * Codes of directions (GRN_CODES_DIRECTIONS; inner product, Jaccard) describe u = B (x / |x| - c),
 * and the factor keeps |x| and alpha.  The error is then a share of the row's own length.  The two
 * numbers give the inner product with a query,
 *   q.x ~ |x| (q.c + alpha(x) sum_j v_j d_j),   v = B q,
 * and the distances of rows in the graph's space (space.h), which follow from lengths and angles.
 * Queries have a component along c, so the error along c matters most: the encoder chooses levels
 * for which this error nearly vanishes.
 *
 * Rows of bits that are their own codes need no fit and no factors: distances are counts of bits.
 */
#ifndef GRN_CODEC_H
#define GRN_CODEC_H

#include "space/form.h"
#include "space/kernels/dist.h"
#include "space/metric.h"
#include "store/shape.h"

typedef struct GrnCodec
{
	uint32_t	dim;
	GrnCodeShape shape;			/* k dimensions in all; GRN_NO_CODES: the index has no codes */
	float		norm_unit;		/* unit of lengths in factors; with GRN_CODES_ROWS its square */
	float		steps[GRN_CODE_BLOCKS]; /* > 0 if the block has dimensions */
	const float *mean;			/* [dim] */
	const float *basis;			/* [k][dim], orthonormal rows (k > dim: orthonormal columns) */
	const int16_t *short_basis; /* the basis in 16 bits by grn_codec_shorten(), for queries; or
								 * NULL */
	float		power;			/* power of places of scaled rows (space.h); 0: the metric's */
	/* set by grn_codec_set_metric(): */
	GrnCodeKind kind;
	GrnEstimated own;			/* if codes are rows: the kind of distance of a query and a row */
	GrnEstimated own_places;	/* and of the places of two rows */
	float		length_unit;	/* unit of lengths in factors */
	float		alpha_unit;		/* unit of alphas in factors */
	int8_t		decoded[GRN_CODE_BLOCKS][16];	/* step^2 (level - middle) in units of decoded_unit */
	float		decoded_unit;
	/* only for codes of directions */
	float		mean_norm2;		/* |c|^2 */
	float		error;			/* standard deviation of the estimated cosine of a row and a random
								 * direction, about */
	float		mean_head[GRN_MAX_CODE_DIMS];	/* [k] B c */
} GrnCodec;

/*
 * Completes the codec for a metric, without a short basis; the fields above `kind` must be set.
 * norm_unit: the unit of lengths for codes of directions.  Codes of rows keep the codec's own
 * unit.
 */
extern void grn_codec_set_metric(GrnCodec *codec, const GrnMetricInfo *metric, float norm_unit);

/*
 * Converts the basis to 16-bit integers, out: [k][dim].  Queries are rounded to 8 bits later, so
 * the short basis loses no recall, and half the bytes are read: a projection takes 3 microseconds
 * instead of 8 for 384 dimensions, and 10 instead of 27 for 1,536.
 */
extern void grn_codec_shorten(const GrnCodec *codec, int16_t *out);

static inline bool
grn_has_codes(const GrnCodec *codec)
{
	return grn_code_bytes(codec->shape) > 0;
}

/* True if codes are the rows themselves and estimates are exact distances. */
static inline bool
grn_codes_exact(const GrnCodec *codec)
{
	return codec->shape.own > 0;
}

/*
 * Is the row with factor a nearer to the middle of the graph's space than the row with factor b?
 * With codes of directions the longest rows are nearest to the middle.
 */
static inline bool
grn_is_more_central(const GrnCodec *codec, GrnFactor a, GrnFactor b)
{
	float		x = grn_factor_length(a);
	float		y = grn_factor_length(b);

	return codec->kind == GRN_CODES_DIRECTIONS ? x > y : x < y;
}

/* True if rows of this form are bits and short enough to be their own codes. */
static inline bool
grn_may_be_codes(GrnForm form, uint32_t dim)
{
	return grn_form(form)->direct && grn_form_bytes(form, dim) <= GRN_MOST_OWN_BYTES;
}

/*
 * The shape of codes that are rows of this form.  Returns GRN_NO_CODES if rows are too long, or if
 * the metric is not a function of counts of ones.
 */
extern GrnCodeShape grn_own_shape(const GrnMetricInfo *metric, GrnForm form, uint32_t dim);

/* Number of floats of mean and basis, stored as mean, then basis. */
static inline size_t
grn_codec_floats(uint32_t dim, uint32_t code_dims)
{
	return code_dims == 0 ? 0 : (size_t) dim * (1 + (size_t) code_dims);
}

/* Encodes a row.  x: [codec->dim]; code: [grn_code_bytes()]; scratch: [k] floats. */
extern void grn_encode(const GrnCodec *codec, const float *x, uint8_t *code,
					   GrnFactor *factor, float *scratch);

/*
 * Corrects the factor of a code made from a stored vector.  error: distance of the row from the
 * stored vector, perpendicular to it (space/rotated.h).  The returned length is the row's length.
 * Factors of directions are returned unchanged.
 */
extern GrnFactor grn_factor_without(const GrnCodec *codec, GrnFactor factor, float error);

#endif							/* GRN_CODEC_H */
