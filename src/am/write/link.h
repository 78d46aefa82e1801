/*
 * link.h - links back to a node from its neighbors.
 */
#ifndef GRNND_LINK_H
#define GRNND_LINK_H

#include "am/index/index.h"
#include "am/index/page_store.h"
#include "am/write/write.h"
#include "store/prune.h"

/*
 * choose.c: the neighbors of a new node: searches for nearby nodes, chooses neighbors among
 * them, and chooses the neighbor that a full node gives up for the new node.
 */

/*
 * Records for one vector whose rows have different signatures.  Further rows share one more record
 * for all signatures.  So an update of a filter column makes a record as good as the first, and
 * many values do not make many vertices.  10,000 sentences whose filter value was updated three
 * times, values of 1/8 and 3/8 of the rows: 105 and 188 pages at ef 40, with half 141 and 304, with
 * twice the same.
 */
#define GRNND_MOST_SIGNED 2

/* A node's vector and code, for the search and the links. */
typedef struct GrnndPoint
{
	float	   *x;				/* [dim] */
	float		error2;			/* squared error of the record, if the record is rotated, x is the
								 * unrounded row and rows are not scaled; else 0 */
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

/* The width of an insert's search. */
extern uint32 grnnd_insert_ef(const GrnndIndex *ix);
/*
 * Searches for live nodes near p. The search visits few dead nodes, so live nodes behind dead nodes
 * may be missed, but if an entry point lives, the search finds a live node. Keeps references to p
 * and entries; end with grnnd_near_end().
 */
extern GrnndNear *grnnd_find_near(GrnndStore *store, const GrnndPoint *p, uint32 ef,
								  const GrnndEntries *entries);
/* The search, for its results, and the number of nodes found. */
extern GrnSearch *grnnd_near_search(const GrnndNear *near, uint32 *nfound);
extern void grnnd_near_end(GrnndNear *near);

/* How many edges a new node gets. */
typedef struct GrnndShares
{
	uint32		fill;			/* the nearest refused nodes fill the chosen ones up to this number */
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
	uint32		wanted;			/* own edges, the last ids first, also to nodes without a link back */
	uint32		ids[GRN_MAX_DEGREE];
	GrnFactor	factors[GRN_MAX_DEGREE];
	uint8_t    *codes;			/* [count][code_bytes] */
	uint8_t    *sigs;			/* [count][sig_bytes] */
} GrnndList;

/* The edge to list->ids[i]. */
extern GrnEdge grnnd_list_edge(const GrnndIndex *ix, const GrnndList *list, uint32 i);

/* Chooses neighbors of the point, by the RNG rule, among the found live nodes except self. */
extern void grnnd_choose_neighbors(GrnndNear *near, uint32 self, GrnndList *list);

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

/*
 * Links to a node x from the nodes `from`: twins of x (nodes with the same vector), then the chosen
 * neighbors of x, then further nodes.  x gets edges to the chosen neighbors (grnnd_shares()).  At
 * least one node must link to x; if none gives up a neighbor by the usual rule, one has to.
 */
typedef struct GrnndLinkPlan
{
	GrnndNear  *near;			/* x, and the nodes around x */
	const uint32 *from;			/* [nfrom]: ntwins, then nchosen, then further nodes */
	uint32		nfrom;
	uint32		ntwins;
	uint32		nchosen;		/* 0, or chosen->count */
	const GrnndList *chosen;
	bool		by_self;		/* a neighbor is given up only if x leads to the neighbor: a vacuum
								 * relies on lists that it has read before */
} GrnndLinkPlan;
typedef struct GrnndLink GrnndLink;

/*
 * Reads the nodes `from`, and adds the edges of x to `self`, x's record.  id: of x, GRN_INVALID_ID
 * before x is written.  Keeps references to all arguments.
 */
extern GrnndLink *grnnd_plan_links(Relation index, const GrnndIndex *ix,
								   const GrnndLinkPlan *plan, GrnRecord *self, uint32 id);
/* Makes the links to x after x is written.  Returns the number of links that x got. */
extern uint32 grnnd_make_links(GrnndLink *link, uint32 id, uint16 version);

/*
 * Searches for neighbors of an existing node, whose point is p, as an insert does, and links the
 * node to these neighbors.  by_self: see GrnndLinkPlan.  Returns false if no neighbor has an edge
 * to the node; alone: the search has found no other node.
 */
extern bool grnnd_link_anew(GrnndStore *store, const GrnndPoint *p, const GrnndEntries *entries,
							uint32 id, uint16 version, bool by_self, bool *alone);

/*
 * entry_points.c: changes of entry points by inserts, and for the longest rows. (Vacuum replaces
 * dead entry points in vacuum_entries.c.)
 */

/* Inner product: the median length of sampled entry points in the codec's unit, or 0. */
extern float grnnd_typical_length(const GrnndIndex *ix, const GrnndEntries *entries);

/* Makes a new node an entry point, by chance; entries: as the insert has read the entry points. */
extern void grnnd_offer_entry(Relation index, const GrnndIndex *ix, uint32 id,
							  const GrnndPoint *p, const GrnndEntries *entries);
/* Makes a node entries[0], if entries[0] is still `expected`; returns false if not. */
extern bool grnnd_put_first_entry(Relation index, const GrnndIndex *ix, uint32 id,
								  const uint8_t *code, GrnFactor factor, uint32 expected);

/* Inner product: the longest live nodes, candidates for entry points. */
typedef struct GrnndLongest
{
	uint32		n;
	uint32		ids[GRN_MAX_ENTRIES];	/* longest first */
	float		lengths[GRN_MAX_ENTRIES];
} GrnndLongest;

/* Notes a live node that may be among the longest. */
extern void grnnd_note_length(const GrnndIndex *ix, GrnndLongest *longest, uint32 id,
							  GrnFactor factor);
/* Makes the noted nodes entry points in place of shorter nodes. */
extern void grnnd_enter_longest(Relation index, const GrnndIndex *ix,
								const GrnndLongest *longest, BufferAccessStrategy strategy);

#endif							/* GRNND_LINK_H */
