/*
 * estimate.h - distances estimated from codes, and how well they order neighbours.
 */
#ifndef GRN_ESTIMATE_H
#define GRN_ESTIMATE_H

#include "graph/stored/codec.h"

/* A query made ready for estimates. */
typedef struct GrnCodeQuery
{
	GrnEstimated what;
	float		base;			/* |q - c|^2; else q.c, or c's share of a row's direction */
	float		place;			/* of PLACES: the row's grn_place_norm(), */
	float		power;			/* and the power by which others have theirs */
	float		scale;			/* of the planes: step v_j ~ scale times the number there */
	float		offset;			/* dot of all blocks' middles */
	float		length_unit;	/* of factors */
	float		alpha_unit;
	GrnCodePlanes planes;
	/* where codes are rows: */
	float		norm_unit;
	uint32_t	own;			/* bytes */
	uint32_t	ones;			/* of them */
	uint8_t		bits[GRN_MOST_OWN_BYTES];
} GrnCodeQuery;

/*
 * For the operator's distances from q, squared where they are Euclidean, or its surrogate's.
 * q: [codec->dim]; scratch: [k] floats, of the codec's shape.
 */
extern void grn_code_query(const GrnCodec *codec, const float *q,
						   GrnCodeQuery *out, float *scratch);
/* For distances between coded rows in the graph's space, from one of them or its code. */
extern void grn_code_query_row(const GrnCodec *codec, const float *x,
							   GrnCodeQuery *out, float *scratch);
extern void grn_code_query_from_code(const GrnCodec *codec, const uint8_t *code,
									 GrnFactor factor, GrnCodeQuery *out);

/*
 * For a query that is known by v [k], its head as grn_decode_head() has rows' (v is changed).
 * GRN_ESTIMATE_IP: estimates are -(base |x| + sum_j v_j u_j), of directions times |x|;
 * GRN_ESTIMATE_L2: squared distances, base the query's own |q - c|^2.  Codes must not be rows.
 */
extern void grn_code_query_head(const GrnCodec *codec, GrnEstimated what, float base, float *v,
								GrnCodeQuery *out);

/* Estimates for count rows. */
extern void grn_estimate(const GrnCodeQuery *q, const uint8_t *codes,
						 const GrnFactor *factors, uint32_t count, float *out);
/* For n rows that lie anywhere: row ids[i] has code ids[i] of bytes each, and that factor. */
extern void grn_estimate_ids(const GrnCodeQuery *q, const uint8_t *codes, size_t bytes,
							 const GrnFactor *factors, const uint32_t *ids, uint32_t n, float *out);

/*
 * Whether codes tell neighbours apart.  An estimate's error is a share of the data's extent.  So
 * neighbours look alike where clusters are tight, or where a long direction says nothing of what
 * is near.  A vertex is poor if, of the pairs of its neighbours, a share of less than
 * GRN_LEAST_ORDERED has estimates in the order of their distances from it.
 *
 * Share of the vertices that are poor, and recall at the default ef_search: 6% .96, 12% .90,
 * 19% .85, 64% .50, 91% .13; of uniform data in two dimensions 26% .97.  Of SIFT and of sentence
 * embeddings no vertex is poor.
 */
#define GRN_LEAST_ORDERED 0.7
#define GRN_MOST_POOR 0.1
/* Where all is kept coarsely, a search that visits each neighbour fares worse still. */
#define GRN_MOST_POOR_COMPACT 0.6
/*
 * Of records with long own vectors a page has few, so a search without codes reads 30 times as many
 * pages.  Of 50,000 rows of four sentences' embeddings side by side (1536 dimensions; 23% poor) it
 * finds .95 in 8,546 pages, with codes in 515.
 */
#define GRN_MOST_POOR_LONG 0.4
#define GRN_JUDGED_VERTICES 512 /* vertices to look at */

/* How many vertices were looked at, and how many of them are poor. */
typedef struct GrnJudgement
{
	uint64_t	vertices;
	uint64_t	poor;
} GrnJudgement;

/* Counts a vertex by its n neighbours. */
extern void grn_judge_neighbours(const float *distances, const float *estimates, uint32_t n,
								 GrnJudgement *judgement);

/* compact: by grn_is_compact() */
static inline bool
grn_codes_tell(const GrnJudgement *judgement, bool compact)
{
	return (double) judgement->poor <=
		(compact ? GRN_MOST_POOR_COMPACT : GRN_MOST_POOR) * (double) judgement->vertices;
}

/* Whether codes are better than none; is_long: by grn_is_long() */
static inline bool
grn_codes_serve(const GrnJudgement *judgement, bool compact, bool is_long)
{
	return grn_codes_tell(judgement, compact) ||
		(is_long && (double) judgement->poor <= GRN_MOST_POOR_LONG * (double) judgement->vertices);
}

/* Whether other vertices might well have said the opposite: three standard errors are more. */
static inline bool
grn_codes_unclear(const GrnJudgement *judgement, bool compact)
{
	double		most = compact ? GRN_MOST_POOR_COMPACT : GRN_MOST_POOR;
	double		n = (double) judgement->vertices;
	double		off = (double) judgement->poor - most * n;

	return off * off < 9 * most * (1 - most) * n;
}

/* Distances as integers in the same order; a NaN is the largest of all. */
static inline uint32_t
grn_ordinal(float distance)
{
	uint32_t	bits;

	if (distance != distance)
		return UINT32_MAX;
	memcpy(&bits, &distance, sizeof(bits));
	return bits ^ ((uint32_t) ((int32_t) bits >> 31) | 0x80000000);
}

#endif							/* GRN_ESTIMATE_H */
