/*
 * prune.h - the relative-neighbourhood rule for single nodes of a finished graph, used by inserts
 * and vacuum, on vectors or on codes.
 *
 * The rule (RNN-Descent; GRNND paper, Algorithm 2): a candidate c is kept out of u's list if a
 * neighbour a of u is nearer to u than c is, and c is nearer to a than to u.  The path u -> a -> c
 * then replaces the edge.
 */
#ifndef GRN_PRUNE_H
#define GRN_PRUNE_H

#include "graph/stored/estimate.h"
#include "graph/stored/record.h"

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
	const float *dist;			/* [n] squared distances to u */
	uint32_t	n;
	uint32_t	nfixed;
	float		slack;			/* the rule keeps a candidate out only if the candidate is nearer
								 * to a neighbour than to u by more than this share of its squared
								 * distance to u */
	uint32_t	most;			/* maximum number of neighbours, including the fixed neighbours */
	uint32_t	fill;			/* up to this number of neighbours, the nearest refused candidates
								 * are added */
} GrnPrune;

/* Bytes of workspace for grn_prune() with n candidates. */
extern size_t grn_prune_bytes(uint32_t n);

/*
 * Chooses among candidates nfixed..n-1.  Writes the chosen indices into keep (at most most -
 * nfixed): first the candidates that pass the rule, nearest first, then the nearest refused
 * candidates up to `fill`.  Returns their number.
 */
extern uint32_t grn_prune(const GrnPrune *p, uint32_t *keep, void *workspace);

/* What is farther than others by this factor leads far: of squared distances. */
#define GRN_FAR 4

/*
 * A full node v is to take x in: grn_yield() says which neighbour y of v gives way, by its
 * position in v's list, or -1.
 *
 * Paths through v -> y then lead over v -> x -> y, so x -> y must exist.  Preferred is a y
 * that is one of x's neighbours x_ids.  Otherwise, if may_add is set, y is one that `from`
 * allows, and the caller adds x -> y first.  Of each kind the one is taken whose distance from v
 * is the largest multiple of that from x, since the path over x is hardly a detour to it.
 * Without codes, distances from v are those given, or the order of v's list stands for
 * them; then only GRN_YIELD_ANY allows a y of the second kind, the last of the list.
 */
typedef enum GrnYieldFrom
{
	GRN_YIELD_SERVED,			/* farther from v than x is, and nearer to x than to v */
	GRN_YIELD_FARTHER,			/* farther from v than x is */
	GRN_YIELD_ANY				/* the farthest, if x itself were farther still */
} GrnYieldFrom;
typedef struct GrnYield
{
	const GrnLayout *layout;
	const GrnCodec *codec;		/* may have none */
	const GrnRecord *v;
	const GrnCodeQuery *x;		/* x as a query (codes) */
	const uint32_t *x_ids;
	uint32_t	x_count;
	const float *v_to;			/* [nknown] without codes: v's distances to the first x_ids, or
								 * NULL */
	uint32_t	nknown;
	float		x_to_v;			/* with v_to */
	bool		may_add;
	bool		keep_far;		/* no y of x_ids gives way that is GRN_FAR times as far from v as x
								 * is; without codes: that is in the last quarter of v's list */
	GrnYieldFrom from;
} GrnYield;
extern int	grn_yield(const GrnYield *y);

/*
 * The same where it is known how far v's neighbours are from v and from x.  By that v can tell
 * whether it is to take x at all: not if one of them occludes x.
 *
 * What gives way is farther from v than x is, and stays reached: another neighbour of v has an
 * edge to it, or x has.  If may_add is set, others may give way, too, and the caller adds an edge
 * of x first.  Preferred are, in this order, those that do not lead far (GRN_FAR times as far as x
 * is), that are reached, that x occludes, and that have no edge to v themselves; of several the
 * farthest.  (Where rows lie in clusters, few edges lead out of them, and each of them may be
 * reached by way of another row there.)  Returns a position among v's neighbours, or -1.
 */
typedef struct GrnExchange
{
	uint32_t	count;			/* v's neighbours */
	const float *to_v;			/* [count] squared distances, INFINITY where they are not known; */
	const float *to_x;			/* [count] those are never chosen, and occlude nothing */
	float		x_to_v;
	float		slack;			/* as GrnPrune's */
	const bool *reached;		/* [count] */
	const bool *one_way;		/* [count] it has no edge to v */
	bool		may_add;
} GrnExchange;
extern bool grn_exchange_occludes(const GrnExchange *e);	/* by distances alone */
extern int	grn_exchange(const GrnExchange *e);

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
