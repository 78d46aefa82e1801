/*
 * codec_fit.h - fitting of codecs to a sample of the rows.
 */
#ifndef GRN_CODEC_FIT_H
#define GRN_CODEC_FIT_H

#include "graph/rows.h"
#include "graph/stored/codec.h"

typedef struct GrnCodecFit
{
	const GrnRows *of;			/* the rows of a build, by their places in memory; or NULL: */
	const float *rows;			/* [nrows] of stride floats */
	size_t		nrows;
	size_t		stride;
	GrnEmbedding embedding;		/* of `rows`: a GrnScale follows each row where it is scaled: */
	GrnCodeKind kind;			/* then the fit is of places, or of directions */
	const uint32_t *sample;		/* [nsample] indices of rows, or NULL: the first */
	size_t		nsample;		/* 0 and no sample: all rows */
	uint32_t	dim;
	uint32_t	max_code_dims;
	float		energy;			/* without costs */
	const float *costs;			/* [max_code_dims / GRN_CODE_ALIGN + 1], or NULL */
	uint64_t	seed;
} GrnCodecFit;

/*
 * Fits a codec to a sample of the rows and chooses code_dims, max_code_dims at most.
 * With costs it takes the number that makes a search cheapest; that may be 0, no codes.
 * Without costs it takes the smallest multiple of GRN_CODE_ALIGN whose principal directions
 * hold `energy` of the sample's variance.  If the sample has fewer than 32 rows, or all are
 * equal, directions are random and there are max_code_dims.
 *
 * out: room for grn_codec_floats(dim, max_code_dims) floats; workspace:
 * grn_codec_fit_bytes().  *held becomes the share of the variance that codes describe.  The
 * result depends on the seed but not on parallel->nworkers.
 */
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

#endif							/* GRN_CODEC_FIT_H */
