/*
 * choose.h - the neighbors of a new node: searches for nearby nodes, chooses neighbors among
 * them, and chooses the neighbor that a full node gives up for the new node.
 */
#ifndef GRNND_CHOOSE_H
#define GRNND_CHOOSE_H

#include "am/index/entries.h"
#include "am/index/page_store.h"
#include "am/write/edit.h"
#include "store/prune.h"

/*
 * Records for one vector whose rows have different signatures.  Further rows share one more record
 * for all signatures.  So an update of a filter column makes a record as good as the first, and
 * many values do not make many vertices.
 */
#define GRNND_MOST_SIGNED 2

/* A node's vector and code, for the search and the links. */
typedef struct GrnndPoint
{
	float	   *x;				/* [dim] */
	float		error2;			/* squared error of the record, if the record is rotated and x is
								 * the unrounded row; else 0 */
	uint8_t    *code;
	GrnFactor	factor;
	GrnCodeQuery *query;		/* NULL if estimates are not used */
	const GrnRecord *rec;		/* the record of a new row, without edges; or NULL */
} GrnndPoint;

/* Writes the place of a row x [dim] in the graph's space (space/space.h); place may be x. */
extern void grnnd_place(const GrnndIndex *ix, const float *x, float *place);
/* Encodes x, which the caller keeps. error: grnnd_rounding_error() if a record has x, else 0. */
extern void grnnd_make_point(const GrnndIndex *ix, float *x, float error, GrnndPoint *p);

/*
 * The nodes around a point: their places in the graph's space, for distances, and their lists, as
 * the search found them or as read later.
 */
typedef struct GrnndNear GrnndNear;

/*
 * Searches for live nodes near p. The search visits few dead nodes, so live nodes behind dead nodes
 * may be missed, but if an entry point lives, the search finds a live node. ef = 0: no search,
 * nodes are read when needed. Keeps references to p and entries; end with grnnd_near_end().
 */
extern GrnndNear *grnnd_find_near(GrnndStore *store, const GrnndPoint *p, uint32 ef,
								  const GrnndEntries *entries);
/* The search, for its results, and the number of nodes found. */
extern GrnSearch *grnnd_near_search(const GrnndNear *near, uint32 *nfound);
extern void grnnd_near_end(GrnndNear *near);

/* How many edges a new node gets. */
typedef struct GrnndShares
{
	uint32		candidates;		/* chosen neighbors, that may link back, in this order */
	uint32		fill;			/* the nearest refused nodes fill the candidates up to this number */
	uint32		most_links;		/* links back, if no neighbor of the linking node occludes the row */
	uint32		least_links;	/* links back, also from nodes with such a neighbor */
	uint32		least_edges;	/* own edges, also to nodes without a link back */
} GrnndShares;

extern GrnndShares grnnd_shares(const GrnndIndex *ix);

/* Neighbors chosen for a new node. */
typedef struct GrnndList
{
	uint32		count;
	uint32		near;			/* number of leading ids within least_edges */
	uint32		ids[GRN_MAX_DEGREE];
	GrnFactor	factors[GRN_MAX_DEGREE];
	uint8_t    *codes;			/* [count][code_bytes] */
	uint8_t    *sigs;			/* [count][sig_bytes] */
} GrnndList;

/* The edge to list->ids[i]. */
extern GrnEdge grnnd_list_edge(const GrnndIndex *ix, const GrnndList *list, uint32 i);

/* Chooses neighbors of the point, by the RNG rule, among the found live nodes except self. */
extern void grnnd_choose_neighbors(GrnndNear *near, uint32 self, const GrnndShares *shares,
								   GrnndList *list);

/* The choice of a neighbor that a full node v gives up for the point (grn_evict()). */
typedef struct GrnndEviction
{
	uint32		id;				/* id of v */
	const GrnRecord *v;
	const GrnRecord *self;		/* the point's record, with the edges planned so far */
	GrnEvictLevel level;
	bool		may_add;		/* the record has room for an edge to the neighbor */
	bool		by_self;		/* the neighbor must be reachable by `self`, not by other lists */
	/* result: */
	uint32		position;		/* of the neighbor in v's list */
	bool		add;			/* `self` needs an edge to the neighbor */
	uint32		over;			/* neighbor of v that has this edge; GRN_INVALID_ID: `self` has */
} GrnndEviction;

/* Chooses the neighbor. Returns false if v cannot take an edge to the point on these terms. */
extern bool grnnd_evict(GrnndNear *near, GrnndEviction *e);
/* Notes that the edge from -> to will go: later evictions must not rely on this edge. */
extern void grnnd_note_evicted(GrnndNear *near, uint32 from, uint32 to);

/* Makes the code of node id for edges written while the index is filling (fit_codes.c). */
extern void grnnd_code_while_filling(Relation index, const GrnndIndex *ix, uint32 id,
									 uint8_t *code, GrnFactor *factor);

#endif							/* GRNND_CHOOSE_H */
