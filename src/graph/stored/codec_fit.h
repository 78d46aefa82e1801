/*
 * codec_fit.h - fitting of codecs to a sample of the rows.
 */
#ifndef GRN_CODEC_FIT_H
#define GRN_CODEC_FIT_H

#include "graph/rows.h"
#include "graph/stored/codec.h"

#define GRN_FIT_ALIGN 32		/* directions that are chosen by energy come in these */

/*
 * What a visit costs, in some unit, where codes have 0, GRN_CODE_STEP, ... bytes;
 * infinite where they do not fit.  Of records without codes the cost of all the visits that
 * stand for one with exact distances of the neighbours.
 */
typedef struct GrnCodeCosts
{
	float		visit[GRN_MAX_CODE_BYTES / GRN_CODE_STEP + 1];
} GrnCodeCosts;

typedef struct GrnCodecFit
{
	const GrnRows *of;			/* the rows of a build, by their position in memory; or NULL: */
	const float *rows;			/* [nrows] of stride floats */
	size_t		nrows;
	size_t		stride;
	GrnEmbedding embedding;		/* of `rows`: a GrnScale follows each row where it is scaled: */
	GrnCodeKind kind;			/* then the fit is of places, or of directions */
	const uint32_t *sample;		/* [nsample] indices of rows, or NULL: the first */
	size_t		nsample;		/* 0 and no sample: all rows */
	uint32_t	dim;
	uint32_t	max_code_dims;	/* at most grn_max_code_dims(); of `energy` a multiple of
								 * GRN_FIT_ALIGN; 0: no codec */
	/* how the shape is chosen: one of these, but by `shape` where rows are to be codes */
	const GrnCodeCosts *costs;
	GrnCodeShape shape;			/* this one */
	float		energy;			/* share of the variance */
	uint64_t	seed;
	bool		again;			/* the workspace is as a fit of the same rows has left it, as is
								 * `out`: only costs, shape or energy may differ */
} GrnCodecFit;

/*
 * Rows that an index must have to be worth a fit; without them it waits for one (am/write/fit.h).
 * Four rows a dimension, up to 2,048, give directions that hold nearly as much of
 * other rows' variance as those of 20,000 rows do: 512 SIFT descriptors 0.906 in 64
 * directions instead of 0.920, 1,536 sentence embeddings 0.76 in 128 of 384 instead
 * of 0.79.  Fewer where they would take more memory than this.
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
 * Rows, of n, to which a build fits its codec: so many, but for each dimension at least a few.  Of
 * few rows half are enough, as a fit takes longer than their graph.
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
 * Fits a codec to a sample of the rows and chooses its shape.  With costs it takes the shape
 * that makes a search cheapest; that may be no codes.  Without costs it takes the given shape;
 * if that is GRN_NO_CODES, as few directions of 4 bits, a multiple of GRN_FIT_ALIGN, as hold
 * `energy` of the sample's variance.  Codes that are the rows need no fit and no floats.
 * If the sample has fewer than 32 rows, or all are equal, directions are random and as good as
 * one another.
 *
 * out: room for grn_codec_floats(dim, max_code_dims) floats; workspace:
 * grn_codec_fit_bytes().  *held becomes the share of the variance that codes keep (with
 * `energy` that of the directions).  The result depends on the seed but not on
 * parallel->nworkers.
 */
extern size_t grn_codec_fit_bytes(const GrnCodecFit *fit);
extern GrnCodec grn_codec_fit(const GrnCodecFit *fit, GrnParallel *parallel,
							  float *out, void *workspace, float *held);

/*
 * The shape for rows that are not known yet: what makes a search cheapest where variances
 * decline much as they do in SIFT and in embeddings of text.
 */
extern GrnCodeShape grn_codec_usual_shape(uint32_t dim, const GrnCodeCosts *costs);

#endif							/* GRN_CODEC_FIT_H */
