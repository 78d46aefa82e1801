/*
 * link.h - links back to a node from its neighbours.
 */
#ifndef GRNND_LINK_H
#define GRNND_LINK_H

#include "am/write/choose.h"
#include "am/write/edit.h"

/*
 * Links to a node x (vector: p) from the nodes `from`, nearest first.  With mutual edges from those
 * of chosen->ids that take x (grnnd_exchange()), and x gets an edge to each of them.  From others,
 * and otherwise: from each where a neighbour that x serves gives way (grn_yield()), from `least` of
 * them where any farther one does.  From one in any case where that can be had.
 */
typedef struct GrnndLinkPlan
{
	const GrnndPoint *p;
	const uint32 *from;			/* [nfrom], with mutual edges those of the chosen first */
	uint32		nfrom;
	uint32		ntwins;			/* the first of them: nodes of x's vector, whose list x has */
	const GrnndShares *shares;	/* for `least`, `links` and `mutual`; NULL: none of them */
	GrnndNear  *near;			/* with mutual edges: what was searched for x, until
								 * grnnd_plan_links() has ended */
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
