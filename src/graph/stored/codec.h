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
#include "graph/space.h"

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
	/* GRN_IP, see grn_codec_directions() */
	bool		directions;		/* codes are of x / |x| */
	float		mean_norm2;		/* |c|^2 */
	float		mean_head[GRN_MAX_CODE_DIMS];	/* [k] B c */
} GrnCodec;

/* Makes it a codec of directions, as inner product needs: mean and basis are set. */
extern void grn_codec_directions(GrnCodec *codec, float norm_unit);

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
typedef enum GrnFitForm
{
	GRN_FIT_ROWS = 0,			/* as they are */
	GRN_FIT_PLACES,				/* their places in the space, by the GrnScale behind a row */
	GRN_FIT_DIRECTIONS			/* x / |x|, by the same */
} GrnFitForm;
typedef struct GrnCodecFit
{
	const float *rows;			/* [nrows] of stride floats */
	size_t		nrows;
	size_t		stride;
	GrnFitForm	form;
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

/* What is estimated. */
typedef enum GrnCodeKind
{
	GRN_CODE_L2 = 0,			/* squared distances */
	GRN_CODE_IP,				/* negative inner products */
	GRN_CODE_PLACES				/* squared distances in inner product's space */
} GrnCodeKind;

/* A query made ready for estimates. */
typedef struct GrnCodeQuery
{
	GrnCodeKind kind;
	float		base;			/* |q - c|^2; else q.c, or c's share of a row's direction */
	float		place;			/* GRN_CODE_PLACES: the row's grn_place_norm() */
	float		scale;			/* v_j ~ scale * q8[j] */
	int32_t		sum;			/* of q8 */
	float		norm_unit;
	float		alpha_unit;		/* of GrnFactor.alpha */
	uint32_t	code_dims;
	int8_t		q8[GRN_MAX_CODE_DIMS];
} GrnCodeQuery;

/*
 * For the operator's distances from q, squared where they are Euclidean.
 * q: [codec->dim]; scratch: [code_dims] floats.
 */
extern void grn_code_query(const GrnCodec *codec, const float *q,
						   GrnCodeQuery *out, float *scratch);
/* For distances between coded rows in the graph's space, from one of them or its code. */
extern void grn_code_query_row(const GrnCodec *codec, const float *x,
							   GrnCodeQuery *out, float *scratch);
extern void grn_code_query_from_code(const GrnCodec *codec, const uint8_t *code,
									 GrnFactor factor, GrnCodeQuery *out);

/* Estimates for count rows; codes lie code_bytes apart. */
extern void grn_estimate(const GrnCodeQuery *q, const uint8_t *codes,
						 const GrnFactor *factors, uint32_t count, float *out);

/*
 * Whether codes tell neighbours apart.  An estimate's error is a share of the data's
 * extent, so where clusters are tight, or a long direction says nothing of what is near,
 * neighbours look alike.  A vertex is poor where of the pairs of its neighbours too few
 * have estimates in the order of their distances from it.  Poor are none of SIFT's and of
 * sentence embeddings' vertices, 6% where recall at the default ef_search is .96, 12% at .90,
 * 19% at .85, 64% at .5, 91% at .13 (uniform in two dimensions: 26%, .97).
 */
#define GRN_LEAST_ORDERED 0.7
#define GRN_MOST_POOR 0.1
#define GRN_ORDER_PROBES 512	/* vertices to look at */

typedef struct GrnOrder
{
	uint64_t	vertices;
	uint64_t	poor;
} GrnOrder;

/* Counts a vertex by its n neighbours. */
extern void grn_count_order(const float *distances, const float *estimates, uint32_t n,
							GrnOrder *order);

static inline bool
grn_codes_tell(const GrnOrder *order)
{
	return (double) order->poor <= GRN_MOST_POOR * (double) order->vertices;
}

#endif							/* GRN_CODEC_H */
