/*
 * freespace.h - slots for new records.
 */
#ifndef GRNND_FREESPACE_H
#define GRNND_FREESPACE_H

#include "postgres.h"

#include "access/transam.h"

#include "am/grnnd.h"

/*
 * Puts rec (record_bytes, contiguous) into a free slot and logs it; sets
 * rec->version, which is the slot's.  Returns its id.  heap is for the horizon
 * of reuse.  Holds no lock when it returns.
 */
extern uint32 grnnd_new_record(Relation index, Relation heap, const GrnndIndex *ix,
							   GrnRecord *rec);

/*
 * Puts recs [n], record_bytes apart, onto a page of their own and logs it: each names the one
 * behind it as its `next`.  n is at most per_page.  Returns the id of the first.
 */
extern uint32 grnnd_new_page(Relation index, Relation heap, const GrnndIndex *ix, char *recs,
							 uint32 n);

/* Makes a record free; the caller registered its page.  stamp: see "Slot reuse". */
extern void grnnd_free_slot(GrnRecord *rec, FullTransactionId stamp);

/* What of a page's slots may be taken. */
typedef enum GrnndRoom
{
	GRNND_NO_ROOM = 0,
	GRNND_ROOM_LATER,			/* some, when transactions have ended */
	GRNND_ROOM,					/* some */
	GRNND_WHOLE_PAGE			/* all */
} GrnndRoom;

/* heap may be NULL. */
extern GrnndRoom grnnd_page_room(Relation heap, const GrnndIndex *ix, Page page);

/* Tells the free space map of it. */
extern void grnnd_note_room(Relation index, BlockNumber block, GrnndRoom room);

#endif							/* GRNND_FREESPACE_H */
