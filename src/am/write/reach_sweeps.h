/* reach_sweeps.h - finds the nodes of an index that can be reached, by the edges on its pages. */
#ifndef GRNND_REACH_H
#define GRNND_REACH_H

#include "am/grnnd.h"
#include "am/write/bitset.h"

/*
 * A search for all nodes reachable from the marked nodes, in sweeps in the order of the file. Lists
 * noted in memory are used instead of the pages.
 */
typedef struct GrnndReach
{
	Relation	index;
	const GrnndIndex *ix;
	BufferAccessStrategy strategy;
	const GrnndSet *without;	/* nodes that the search must not enter, or NULL */
	GrnndSet   *fresh;			/* receives newly reached nodes, too, or NULL */
	GrnndSet	reached;
	GrnndSet	pending;		/* reached nodes whose lists are unread */
	uint32		first_pending;	/* lower bound of pending ids */
	GrnndSet	noted;
	uint32	   *offsets;		/* [limit] positions of noted lists in `lists` */
	uint32	   *lists;			/* count, then ids */
	Size		used;			/* uint32s */
	Size		room;
	GrnRecord  *rec;
} GrnndReach;

/* memory: bytes for the sets and, as far as the memory lasts, for noted lists. */
extern void grnnd_reach_init(GrnndReach *reach, Relation index, const GrnndIndex *ix,
							 uint32 limit, Size memory, BufferAccessStrategy strategy);
/* Notes a node's list, if memory allows. Later searches trust noted lists. */
extern void grnnd_reach_note(GrnndReach *reach, uint32 id, const uint32 *ids, uint32 count);
extern void grnnd_reach_mark(GrnndReach *reach, uint32 id);
/* Writes a node's list, noted or from its page, to ids [GRN_MAX_DEGREE]; returns its length. */
extern uint32 grnnd_reach_list(GrnndReach *reach, uint32 id, uint32 *ids);
/* Searches until all nodes reachable from the marked nodes are reached. */
extern void grnnd_reach_run(GrnndReach *reach);

#endif							/* GRNND_REACH_H */
