/*
 * codec_fit.h - fits codecs to a sample of rows.
 */
#ifndef GRN_CODEC_FIT_H
#define GRN_CODEC_FIT_H

#include "space/rows.h"
#include "store/codec.h"

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
	uint32_t	max_code_dims;	/* at most grn_max_code_dims(); with `energy` a multiple of
								 * GRN_FIT_ALIGN; 0: no codec */
	/* The shape comes from costs, shape or energy; a `shape` with own > 0 always applies. */
	const GrnCodeCosts *costs;
	GrnCodeShape shape;			/* the given shape */
	float		energy;			/* share of the variance that the directions must hold */
	uint64_t	seed;
	bool		again;			/* workspace and `out` are the result of a fit of identical rows;
								 * only costs, shape or energy may differ */
} GrnCodecFit;

/*
 * Least number of rows for a fit; an index with fewer rows has no codes yet (am/write/fit.h).
 * Four rows a dimension, up to 2,048, give directions that hold nearly as much of other rows'
 * variance as directions of 20,000 rows: 0.906 instead of 0.920 in 64 directions with 512 SIFT
 * descriptors, and 0.76 instead of 0.79 in 128 of 384 directions with 1,536 sentence embeddings.
 * The number is smaller if the rows would take more memory than GRN_LEAST_FITTED_BYTES.
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

#endif							/* GRN_CODEC_FIT_H */
