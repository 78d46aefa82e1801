/*
 * codec.h - codes: rows in a few bits a dimension.  All records that name a row hold identical
 * bytes.  estimate.c computes distances from codes.
 *
 * A code describes u = B (x - c).  c is the mean of the data.  B holds the first principal
 * directions in three blocks (codec.h).  Each block is rotated at random within itself, so that
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
#include "space/grn.h"
#include "space/kernels/dist.h"
#include "space/metric.h"
#include "space/rows.h"

/*
 * The shape of codes: how many principal directions have 4, 2 and 1 bits.
 *
 * Directions with larger variances have more bits.  Directions with equal bits form a block, and a
 * code holds its three blocks in a row.  Byte i of a block of n bytes holds the block's dimensions
 * i, n + i, 2 n + i, ..., the first in the lowest bits.
 *
 * Rows of bits may be their own codes.  A code is then the stored row, and distances computed from
 * codes are exact.
 */

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
 * stored vector, perpendicular to it (space/rotated.c).  The returned length is the row's length.
 * Factors of directions are returned unchanged.
 */
extern GrnFactor grn_factor_without(const GrnCodec *codec, GrnFactor factor, float error);

/* codec_fit.c: fits codecs to a sample of rows. */

#define GRN_FIT_ALIGN 32		/* the number of directions chosen by energy is a multiple of this */

/*
 * The cost of a visit with codes of 0, GRN_CODE_STEP, 2 GRN_CODE_STEP, ... bytes, in any unit;
 * infinite if such codes do not fit.  The cost without codes covers all visits that replace a
 * visit with codes.
 */
typedef struct GrnCodeCosts
{
	float		visit[GRN_MAX_CODE_BYTES / GRN_CODE_STEP + 1];
} GrnCodeCosts;

typedef struct GrnCodecFit
{
	const GrnRows *of;			/* rows of a build, indexed by position in memory; or NULL: use
								 * `rows` */
	const float *rows;			/* [nrows] of stride floats */
	size_t		nrows;
	size_t		stride;
	GrnEmbedding embedding;		/* embedding of `rows`: with a scaled embedding a GrnScale follows
								 * each row */
	GrnCodeKind kind;			/* kind of codes: rows give a fit of places, directions a fit of
								 * directions */
	const uint32_t *sample;		/* [nsample] indices of rows, or NULL: the first nsample rows */
	size_t		nsample;		/* 0 without `sample`: all rows */
	uint32_t	dim;
	uint32_t	least_code_dims;	/* with costs */
	uint32_t	max_code_dims;	/* at most grn_max_code_dims(); with `energy` a multiple of
								 * GRN_FIT_ALIGN; 0: no codec */
	/* The shape comes from costs, shape or energy; a `shape` with own > 0 always applies. */
	const GrnCodeCosts *costs;
	GrnCodeShape shape;			/* the given shape */
	float		energy;			/* share of the variance that the directions must hold */
	uint64_t	seed;
} GrnCodecFit;

/*
 * Least number of rows for a fit; an index with fewer rows has no codes yet (am/write/write.h).
 * Four rows a dimension, up to 2,048, give directions that hold nearly as much of other rows'
 * variance as directions of 20,000 rows: 0.906 instead of 0.920 in 64 directions with 512 SIFT
 * descriptors, and 0.76 instead of 0.79 in 128 of 384 directions with 1,536 sentence embeddings.
 * The number is smaller if the rows would take more memory than GRN_LEAST_FITTED_BYTES.  4,000
 * sentences created empty, recall at ef 10 and 40: .965 and .995, the same with half of rows a
 * dimension and of the most, .968 and .995 with twice of rows a dimension.
 */
#define GRN_LEAST_FITTED_PER_DIM 4
#define GRN_LEAST_FITTED 64
#define GRN_MOST_LEAST_FITTED 2048
#define GRN_LEAST_FITTED_BYTES (UINT32_C(16) << 20)
static inline uint32_t
grn_least_fitted_rows(uint32_t dim)
{
	uint64_t	rows = GRN_LEAST_FITTED_PER_DIM * (uint64_t) dim;
	uint64_t	room = GRN_LEAST_FITTED_BYTES / (dim * sizeof(float));

	rows = rows < GRN_MOST_LEAST_FITTED ? rows : GRN_MOST_LEAST_FITTED;
	rows = rows < room ? rows : room;
	return rows > GRN_LEAST_FITTED ? (uint32_t) rows : GRN_LEAST_FITTED;
}

/*
 * Number of rows, of n, that a build uses for its fit: GRN_FITTED_ROWS, or GRN_FITTED_ROWS_PER_DIM
 * for each dimension if that is more.  Small builds use half of their rows, because a fit takes
 * longer than their graph.  Recall of 20,000 rows at ef 20 with half of GRN_FITTED_ROWS, with
 * GRN_FITTED_ROWS, and with 10,000 rows: sentences .979, .977, .979; patches of images .915, .925,
 * .926; rows in tight clusters .857, .886, .887.
 */
#define GRN_FITTED_ROWS 8192
#define GRN_FITTED_ROWS_PER_DIM 8
static inline uint64_t
grn_fitted_rows(uint32_t dim, uint64_t n)
{
	uint64_t	rows = GRN_FITTED_ROWS_PER_DIM * (uint64_t) dim;

	if (rows < GRN_FITTED_ROWS)
		rows = GRN_FITTED_ROWS;
	if (rows > n / 2)
		rows = n / 2 > grn_least_fitted_rows(dim) ? n / 2 : grn_least_fitted_rows(dim);
	return rows < n ? rows : n;
}

/*
 * Fits a codec to a sample of the rows and chooses its shape.
 *
 * With costs, the shape makes a search cheapest; the result may be no codes.  Without costs, the
 * shape is fit->shape.  If fit->shape is GRN_NO_CODES, the shape is the smallest multiple of
 * GRN_FIT_ALIGN directions in 4 bits that holds `energy` of the sample's variance.  Codes that are
 * rows need no fit and no floats.  If the sample has fewer than 32 rows, or if all rows are equal,
 * directions are random.
 *
 * out: grn_codec_floats(dim, max_code_dims) floats; workspace: grn_codec_fit_bytes().  *held:
 * share of the variance that codes keep (with `energy`: that directions hold).  The result depends
 * on the seed, not on parallel->nworkers.
 */
extern size_t grn_codec_fit_bytes(const GrnCodecFit *fit);
extern GrnCodec grn_codec_fit(const GrnCodecFit *fit, GrnParallel *parallel,
							  float *out, void *workspace, float *held);

/*
 * The shape for rows that do not exist yet: the cheapest shape if variances decline about as they
 * do in SIFT and in text embeddings.
 */
extern GrnCodeShape grn_codec_usual_shape(uint32_t dim, const GrnCodeCosts *costs);

/* estimate.c: estimates distances from codes, and judges how well estimates order neighbors. */

/* A query prepared for estimates. */
typedef struct GrnCodeQuery
{
	GrnEstimated what;
	float		base;			/* L2: |q - c|^2; IP: q.c; PLACES: component of the row's direction
								 * along c */
	float		place;			/* PLACES: grn_place_norm() of the query's row */
	float		power;			/* PLACES: power for grn_place_norm() of other rows */
	float		scale;			/* unit of the numbers in the planes: step v_j ~ scale times the
								 * number */
	float		offset;			/* dot product of the query with all blocks' middles */
	float		length_unit;	/* units of factors */
	float		alpha_unit;
	GrnCodePlanes planes;
	/* only if codes are rows: */
	float		norm_unit;
	uint32_t	own;			/* bytes of a row */
	uint32_t	ones;			/* number of ones in bits[] */
	uint8_t		bits[GRN_MOST_OWN_BYTES];
} GrnCodeQuery;

/*
 * Prepares a query for distances of the operator, squared if Euclidean.  q: [codec->dim]; scratch:
 * [k] floats of the codec's shape.
 */
extern void grn_code_query(const GrnCodec *codec, const float *q,
						   GrnCodeQuery *out, float *scratch);
/* Prepares a row, or a row's code, for distances of coded rows in the graph's space. */
extern void grn_code_query_row(const GrnCodec *codec, const float *x,
							   GrnCodeQuery *out, float *scratch);
extern void grn_code_query_from_code(const GrnCodec *codec, const uint8_t *code,
									 GrnFactor factor, GrnCodeQuery *out);

/*
 * Prepares a query from its head v [k], the counterpart of grn_decode_head(); overwrites v.
 * GRN_ESTIMATE_IP: estimates are -(base |x| + sum_j v_j u_j), for directions times |x|.
 * GRN_ESTIMATE_L2: squared distances, with base = |q - c|^2.  Codes must not be rows.
 */
extern void grn_code_query_head(const GrnCodec *codec, GrnEstimated what, float base, float *v,
								GrnCodeQuery *out);

/* Estimates the distances of `count` rows. */
extern void grn_estimate(const GrnCodeQuery *q, const uint8_t *codes,
						 const GrnFactor *factors, uint32_t count, float *out);
/*
 * Estimates the distances of n rows at any places: row ids[i] has its code at codes + ids[i] *
 * bytes, and its factor at factors[ids[i]].
 */
extern void grn_estimate_ids(const GrnCodeQuery *q, const uint8_t *codes, size_t bytes,
							 const GrnFactor *factors, const uint32_t *ids, uint32_t n, float *out);

/*
 * Limits of the judgment whether codes can tell neighbors apart.
 *
 * An estimate's error is a share of the extent of all data.  Neighbors therefore look alike in
 * tight clusters, or if one direction with a large variance says nothing about near rows.  A
 * vertex is poor if fewer than GRN_LEAST_ORDERED of the pairs of its neighbors have estimates in
 * the order of their distances.  Measured share of poor vertices, and recall at the default
 * ef_search: 6% .96, 12% .90, 19% .85, 64% .50, 91% .13; uniform data in two dimensions 26% .97.
 * SIFT and sentence embeddings have no poor vertices.
 */
#define GRN_LEAST_ORDERED 0.7
#define GRN_MOST_POOR 0.1
/*
 * The limit for long own vectors: a page has few records, so a search without codes reads 30 times
 * as many pages.  Of 50,000 rows of four sentences' embeddings side by side (1536 dimensions; 23%
 * poor), a search without codes finds .95 in 8,546 pages and a search with codes in 515.
 */
#define GRN_MOST_POOR_LONG 0.4
/*
 * Vertices that are judged where each neighbor may cost a read of the disk.  Sentences and image
 * patches, built beyond memory and created empty, are the same with half and twice.
 */
#define GRN_JUDGED_VERTICES 256

/* The number of judged vertices, and of poor vertices among them. */
typedef struct GrnJudgment
{
	uint64_t	vertices;
	uint64_t	poor;
} GrnJudgment;

/* Judges a vertex by its n neighbors, and adds it to the judgment. */
extern void grn_judge_neighbors(const float *distances, const float *estimates, uint32_t n,
								GrnJudgment *judgment);

/* True if codes order neighbors well enough. */
static inline bool
grn_codes_order_well(const GrnJudgment *judgment)
{
	return (double) judgment->poor <= GRN_MOST_POOR * (double) judgment->vertices;
}

/* True if searches with codes are better than searches without. is_long: by grn_is_long() */
static inline bool
grn_codes_serve(const GrnJudgment *judgment, bool is_long)
{
	return grn_codes_order_well(judgment) ||
		(is_long && (double) judgment->poor <= GRN_MOST_POOR_LONG * (double) judgment->vertices);
}

/* Maps distances to integers of equal order; NaN is the largest. */
static inline uint32_t
grn_ordinal(float distance)
{
	uint32_t	bits;

	if (distance != distance)
		return UINT32_MAX;
	memcpy(&bits, &distance, sizeof(bits));
	return bits ^ ((uint32_t) ((int32_t) bits >> 31) | 0x80000000);
}

#endif							/* GRN_CODEC_H */
