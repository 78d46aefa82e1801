/*
 * prune.h - the relative-neighborhood rule for single nodes of a finished graph, used by inserts
 * and vacuum, on vectors or on codes.
 *
 * The rule (RNN-Descent; GRNND paper, Algorithm 2): a candidate c is kept out of u's list if a
 * neighbor a of u is nearer to u than c is, and c is nearer to a than to u.  The path u -> a -> c
 * then replaces the edge.
 */
#ifndef GRN_PRUNE_H
#define GRN_PRUNE_H

#include "store/codec.h"
#include "store/record.h"

/*
 * Candidates for the list of node u, with codes (codec not NULL) or with vectors.  u always keeps
 * the first nfixed candidates.
 */
typedef struct GrnPrune
{
	const GrnCodec *codec;		/* NULL: compare rows */
	const uint8_t *codes;		/* [n][code_bytes] */
	const GrnFactor *factors;	/* [n] */
	const float *rows;			/* vectors of `stride` floats each */
	const uint32_t *at;			/* [n] indices of the candidates' rows; NULL: candidate i has row i */
	size_t		stride;
	uint32_t	dim;			/* dimensions of the rows */
	GrnForm		form;			/* for grn_between() */
	GrnComparison comparison;
	const float *dist;			/* [n] squared distances to u */
	uint32_t	n;
	uint32_t	nfixed;
	float		slack;			/* the rule keeps a candidate out only if the candidate is nearer
								 * to a neighbor than to u by more than this share of its squared
								 * distance to u */
	uint32_t	most;			/* maximum number of neighbors, including the fixed neighbors */
	uint32_t	fill;			/* up to this number of neighbors, the nearest refused candidates
								 * are added, */
	const float *wanted;		/* [n] or, unless NULL, those with the least of these */
} GrnPrune;

/* Bytes of workspace for grn_prune() with n candidates. */
extern size_t grn_prune_bytes(uint32_t n);

/*
 * Chooses among candidates nfixed..n-1.  Writes the chosen indices into keep (at most most -
 * nfixed): first the candidates that pass the rule, nearest first, then refused candidates up to
 * `fill`.  Returns their number.
 */
extern uint32_t grn_prune(const GrnPrune *p, uint32_t *keep, void *workspace);

/*
 * A full node v must give up the edge to one of its neighbors, y, for an edge to a new node x.
 * grn_evict() chooses y by this table.  The first row that tells two neighbors apart decides.
 *
 *	preferred                               reason
 *	farther from v than x                   x may replace y; a nearer y only with GRN_EVICT_ANY
 *	reached without v's edge                x needs no edge to y
 *	nearer to x than to v (x occludes y)    paths v -> x -> y are short
 *	without an edge to v                    edges in both directions serve searches best
 *	with the largest to_v / to_x            the way over x is the shortest detour
 *
 * A y that is not reached otherwise is allowed if x has room for an edge to y (may_add): the caller
 * adds the edge first.  Neighbors at unknown distances count as nearer than x, and among nearer
 * neighbors the last of the list comes first, because lists are usually nearest first.
 *
 * In lists that are filled by products (`wanted`) x replaces only neighbors with smaller products
 * with v.  There an occluded x may replace neighbors that are farther than OCCLUDED_NEAREST times
 * its own squared distance from v.  10,000 rows created empty, recall at ef 40 with a quarter, half
 * and all, and without a bound: clusters of unequal spread .916, .916, .911, .935; days that drift
 * -, .826, .785, .823; Cauchy numbers .996, .998, .999, .951.
 */
#define OCCLUDED_NEAREST 0.5f

typedef enum GrnEvictLevel
{
	GRN_EVICT_UNOCCLUDED,		/* none, if a neighbor of v occludes x */
	GRN_EVICT_FARTHER,			/* a neighbor that is farther from v than x is */
	GRN_EVICT_ANY				/* if necessary also a nearer neighbor */
} GrnEvictLevel;
typedef struct GrnEvict
{
	GrnEvictLevel level;
	uint32_t	count;			/* neighbors of v */
	const float *to_v;			/* [count] squared distances from v; INFINITY: unknown */
	const float *to_x;			/* [count] the same from x */
	float		x_to_v;
	float		slack;			/* as in GrnPrune */
	const bool *reached;		/* [count] x or another neighbor of v has an edge to it */
	const bool *one_way;		/* [count] it has no edge to v */
	bool		may_add;
	const float *wanted;		/* [count] negative products with v, or NULL; INFINITY: unknown */
	float		x_wanted;
} GrnEvict;

/* Returns the position of y among v's neighbors, or -1. */
extern int	grn_evict(const GrnEvict *e);

/* Position of id in a list, or -1. */
static inline int
grn_find_id(const uint32_t *ids, uint32_t count, uint32_t id)
{
	for (uint32_t i = 0; i < count; i++)
		if (ids[i] == id)
			return (int) i;
	return -1;
}

#endif							/* GRN_PRUNE_H */
