/*
 * codec_fit.h - fitting of codecs to a sample of the rows.
 */
#ifndef GRN_CODEC_FIT_H
#define GRN_CODEC_FIT_H

#include "graph/stored/codec.h"

typedef struct GrnCodecFit
{
	const float *rows;			/* [nrows] of stride floats */
	size_t		nrows;
	size_t		stride;
	GrnEmbedding embedding;		/* a GrnScale follows each row where it is scaled: */
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
