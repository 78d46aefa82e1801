/*
 * estimate.h - estimates distances from codes, and judges how well estimates order neighbors.
 */
#ifndef GRN_ESTIMATE_H
#define GRN_ESTIMATE_H

#include "store/codec.h"

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
 * Prepares a query for distances of the operator: squared if Euclidean, or the surrogate's.  q:
 * [codec->dim]; scratch: [k] floats of the codec's shape.
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
#define GRN_JUDGED_VERTICES 512 /* number of vertices to judge */

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

/*
 * True if other vertices could give the opposite judgment: the share is within three standard
 * errors of the limit.
 */
static inline bool
grn_codes_unclear(const GrnJudgment *judgment)
{
	double		n = (double) judgment->vertices;
	double		off = (double) judgment->poor - GRN_MOST_POOR * n;

	return off * off < 9 * GRN_MOST_POOR * (1 - GRN_MOST_POOR) * n;
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

#endif							/* GRN_ESTIMATE_H */
