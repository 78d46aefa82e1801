/*
 * reach_sweeps.h - which nodes of an index can be reached, by the edges on its pages.
 */
#ifndef GRNND_REACH_H
#define GRNND_REACH_H

#include "am/grnnd.h"
#include "am/write/bitset.h"

/*
 * A search for all nodes that the marked ones reach, in sweeps through the file in its order.
 * Lists noted in memory are used instead of the pages.
 */
typedef struct GrnndReach
{
	Relation	index;
	const GrnndIndex *ix;
	BufferAccessStrategy strategy;
	const GrnndSet *without;	/* not to be entered, or NULL */
	GrnndSet   *fresh;			/* also gets what is newly reached, or NULL */
	GrnndSet	reached;
	GrnndSet	pending;		/* reached, but their lists not looked at */
	uint32		first_pending;	/* none of them lies before it */
	GrnndSet	noted;
	uint32	   *offsets;		/* [limit] of noted lists in lists */
	uint32	   *lists;			/* count, then ids */
	Size		used;			/* uint32s */
	Size		room;
	GrnRecord  *rec;
} GrnndReach;

/* memory: bytes for its sets and, as far as that goes, for noted lists. */
extern void grnnd_reach_init(GrnndReach *reach, Relation index, const GrnndIndex *ix,
							 uint32 limit, Size memory, BufferAccessStrategy strategy);
/* Remembers a node's list, where there is room; lists noted are trusted later. */
extern void grnnd_reach_note(GrnndReach *reach, uint32 id, const uint32 *ids, uint32 count);
extern void grnnd_reach_mark(GrnndReach *reach, uint32 id);
/*
 * A node's list as noted, else as its page has it, written to ids [GRN_MAX_DEGREE];
 * returns its length.
 */
extern uint32 grnnd_reach_list(GrnndReach *reach, uint32 id, uint32 *ids);
/* Goes on until everything that can be reached from the marked nodes is. */
extern void grnnd_reach_run(GrnndReach *reach);

#endif							/* GRNND_REACH_H */
