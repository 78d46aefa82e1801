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
 * Vectors here are in the Euclidean space of grn_space_dim() dimensions.
 */
#ifndef GRN_CODEC_H
#define GRN_CODEC_H

#include "dist.h"

#define GRN_MAX_CODE_DIMS 256
#define GRN_CODE_ALIGN 32		/* code_dims is a multiple of this */

/*
 * The two factors of a code, 4 bytes an edge, on disk.  norm2 is in units of
 * GrnCodec.norm_unit so that it cannot overflow half precision; so is alpha,
 * in units of sqrt(norm_unit).
 */
typedef struct GrnFactor
{
	uint16_t	norm2;			/* binary16 */
	uint16_t	alpha;			/* binary16 */
} GrnFactor;

typedef struct GrnCodec
{
	uint32_t	dim;			/* of the space: grn_space_dim() */
	uint32_t	code_dims;		/* k; 0: this index has no codes */
	float		norm_unit;		/* unit of GrnFactor.norm2 */
	const float *mean;			/* [dim] */
	const float *basis;			/* [k][dim], rows orthonormal (k > dim: columns) */
} GrnCodec;

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

/*
 * Fits a codec to a sample of the rows and chooses code_dims: where costs are
 * given, what makes a search cheapest, which may be no codes at all (0); else the
 * smallest multiple of GRN_CODE_ALIGN whose principal directions hold `energy`
 * of the sample's variance, at most max_code_dims.
 * Where the sample is smaller than 32 rows, or constant, directions are
 * random and max_code_dims are used.  out points to room for
 * grn_codec_floats(dim, max_code_dims) floats; workspace for
 * grn_codec_fit_bytes().  Deterministic for a seed whatever
 * parallel->nworkers is.  *held is the share of the variance held.
 */
typedef struct GrnCodecFit
{
	const float *rows;			/* [nrows] of stride floats */
	size_t		nrows;
	size_t		stride;
	const uint32_t *sample;		/* [nsample] indices of rows, or NULL: the first */
	size_t		nsample;		/* 0 and no sample: all rows */
	uint32_t	dim;
	uint32_t	max_code_dims;
	float		energy;			/* without costs */
	const float *costs;			/* [max_code_dims / GRN_CODE_ALIGN + 1], or NULL */
	uint64_t	seed;
} GrnCodecFit;
extern size_t grn_codec_fit_bytes(const GrnCodecFit *fit);
extern GrnCodec grn_codec_fit(const GrnCodecFit *fit, GrnParallel *parallel,
							  float *out, void *workspace, float *held);

/*
 * code_dims for rows that are not known yet: what makes a search cheapest where the
 * variance in the i-th principal direction is proportional to 1/i, much as in SIFT
 * and in embeddings of text.  costs: as in GrnCodecFit.
 */
extern uint32_t grn_codec_usual_dims(uint32_t dim, uint32_t max_code_dims,
									 const float *costs);

/* x: [codec->dim]; scratch: [code_dims] floats. */
extern void grn_encode(const GrnCodec *codec, const float *x, uint8_t *code,
					   GrnFactor *factor, float *scratch);

/* A query made ready for estimates. */
typedef struct GrnCodeQuery
{
	float		norm2;			/* |q - c|^2 */
	float		scale;			/* v_j ~ scale * q8[j] */
	int32_t		sum;			/* of q8 */
	float		norm_unit;
	float		norm_root;		/* sqrt(norm_unit) */
	uint32_t	code_dims;
	int8_t		q8[GRN_MAX_CODE_DIMS];
} GrnCodeQuery;

/* q: [codec->dim]; scratch: [code_dims] floats. */
extern void grn_code_query(const GrnCodec *codec, const float *q,
						   GrnCodeQuery *out, float *scratch);
/* The same query made from a code, for distances between two coded rows. */
extern void grn_code_query_from_code(const GrnCodec *codec, const uint8_t *code,
									 GrnFactor factor, GrnCodeQuery *out);

/* Estimated squared distances of count rows; codes lie code_bytes apart. */
extern void grn_estimate(const GrnCodeQuery *q, const uint8_t *codes,
						 const GrnFactor *factors, uint32_t count, float *out);

#endif							/* GRN_CODEC_H */
