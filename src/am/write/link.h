/*
 * link.h - a node's edges: choosing its neighbours, and links back from them.
 */
#ifndef GRNND_LINK_H
#define GRNND_LINK_H

#include "am/entries.h"
#include "am/page_store.h"
#include "am/write/edit.h"

/*
 * Below this degree a new node gets more of both kinds of edges.  Of 3,000 sentences inserted
 * behind 3,000 built ones, layout compact, recall at ef 100 was .895 otherwise, is .943, and .963
 * where all are built.  Of 4,000 SIFT descriptors behind 4,000, with 16 edges, recall at ef 40 was
 * .916 otherwise, is .962, and .966 where all are built.
 */
#define GRNND_FEW_EDGES 18

/* A node's vector and code, as the search and the links need it. */
typedef struct GrnndPoint
{
	float	   *x;				/* [dim] */
	float		error2;			/* squared error of its record, if that keeps x rotated and x is
								 * not what it keeps; else 0 */
	uint8_t    *code;
	GrnFactor	factor;
	GrnCodeQuery *query;		/* NULL where estimates are not used */
	const GrnRecord *rec;		/* of a new row: what its record will be, without edges; or NULL */
} GrnndPoint;

/* Writes where a row x [dim] lies in the graph's space (graph/space.h); place may be x. */
extern void grnnd_place(const GrnndIndex *ix, const float *x, float *place);
/* Encodes x, which stays the caller's.  error: grnnd_noise() if x is from a record, else 0. */
extern void grnnd_make_point(const GrnndIndex *ix, float *x, float error, GrnndPoint *p);

/* How many edges a new node gets. */
typedef struct GrnndShares
{
	uint32		own;			/* it begins with */
	uint32		asked;			/* neighbours that are asked for a link back, these among them */
	uint32		filled;			/* of these: up to here also the nearest that the rule refused */
	uint32		least;			/* links back that it should get, even from neighbours that then
								 * lose a nearer one */
	float		slack;			/* of the rule */
} GrnndShares;
extern GrnndShares grnnd_shares(const GrnndIndex *ix);

/* Neighbours chosen for a new node. */
typedef struct GrnndList
{
	uint32		count;
	uint32		own;			/* the first so many are for its own list */
	uint32		ids[GRN_MAX_DEGREE];
	GrnFactor	factors[GRN_MAX_DEGREE];
	uint8_t    *codes;			/* [degree][code_bytes] */
	uint8_t    *sigs;			/* [degree][sig_bytes] */
	/* without codes: distances in the graph's space */
	float	   *to_p;			/* [count] */
	float	   *between;		/* [count][count] */
} GrnndList;

/* The edge to list->ids[i]. */
extern GrnndEdge grnnd_list_edge(const GrnndIndex *ix, const GrnndList *list, uint32 i);

/*
 * Chooses among the live nodes that a search's last run found, by the RNG rule on exact
 * distances, the neighbours of p and those that are to link to it; self is not among them.
 */
extern void grnnd_choose_neighbours(Relation index, const GrnndIndex *ix, GrnSearch *search,
									uint32 nfound, const GrnndPoint *p,
									uint32 self, GrnndList *list);

/*
 * Searches for the live nodes near p.  It sees few dead ones, so it may miss live nodes
 * behind those, but it finds one where an entry point lives.  Sets *nfound; p and
 * entries are used by reference.  End it with grn_search_end().
 */
extern GrnSearch *grnnd_find_near(GrnndStore *store, const GrnndPoint *p, uint32 ef,
								  const GrnndEntries *entries, uint32 *nfound);

/*
 * Links to a node x (vector: p) from the nodes `from`, nearest first: from each where
 * a neighbour that x serves gives way (grn_yield()), from `least` of them where any
 * farther one does, and from one in any case where that can be had.
 */
typedef struct GrnndLinkPlan
{
	const GrnndPoint *p;
	const uint32 *from;			/* [nfrom] */
	uint32		nfrom;
	uint32		ntwins;			/* the first of them: nodes of x's vector, whose list x has */
	uint32		least;
	const GrnndList *chosen;	/* x's list, if it was chosen for this, or NULL */
	bool		dead_allowed;	/* vacuum: edges to dead nodes may be made, it drops them later */
} GrnndLinkPlan;
typedef struct GrnndLink GrnndLink;

/*
 * Looks at the nodes that are to have a link to x, and adds the edges that x needs for
 * it to self, x's record.  id: x, GRN_INVALID_ID where it is yet to be written.  All
 * arguments are used by reference.
 */
extern GrnndLink *grnnd_plan_links(Relation index, const GrnndIndex *ix,
								   const GrnndLinkPlan *plan, GrnRecord *self, uint32 id);
/* Makes the links to x, which is written now.  Returns whether it got one. */
extern bool grnnd_make_links(GrnndLink *link, uint32 id, uint16 version);
/* Both, for a node that is there; it gets edges to plan->chosen, too, as far as it has room. */
extern bool grnnd_link_node(Relation index, const GrnndIndex *ix, const GrnndLinkPlan *plan,
							uint32 id, uint16 version);

#endif							/* GRNND_LINK_H */
