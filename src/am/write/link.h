/*
 * link.h - links back to a node from its neighbors.
 */
#ifndef GRNND_LINK_H
#define GRNND_LINK_H

#include "am/write/choose.h"
#include "am/write/edit.h"

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
	const GrnndShares *shares;	/* for `chosen` */
	bool		by_self;		/* a neighbor is given up only if x leads to the neighbor: a vacuum
								 * relies on lists that it has read before */
	bool		dead_allowed;	/* vacuum: x may get edges to dead nodes, which vacuum drops later */
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
/* Does both for an existing node, which gets edges to plan->chosen as far as it has room. */
extern bool grnnd_link_node(Relation index, const GrnndIndex *ix, const GrnndLinkPlan *plan,
							uint32 id, uint16 version);

#endif							/* GRNND_LINK_H */
