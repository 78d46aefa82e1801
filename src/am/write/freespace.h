/*
 * freespace.h - slots for new records.
 */
#ifndef GRNND_FREESPACE_H
#define GRNND_FREESPACE_H

#include "postgres.h"

#include "access/transam.h"

#include "am/grnnd.h"

/*
 * Writes rec (record_bytes, contiguous) into a free slot and logs the change; sets rec->version to
 * the slot's version. Returns the record's id. heap is for the horizon of reuse. Holds no lock on
 * return.
 */
extern uint32 grnnd_new_record(Relation index, Relation heap, const GrnndIndex *ix,
							   GrnRecord *rec);

/*
 * Writes recs [n], record_bytes apart, to a page of their own and logs the page. Each record's
 * `next` is the id of the following record. n is at most per_page. Returns the id of the first.
 */
extern uint32 grnnd_new_page(Relation index, Relation heap, const GrnndIndex *ix, char *recs,
							 uint32 n);

/* Frees a record; the caller has registered its page. stamp: see "Slot reuse" in README. */
extern void grnnd_free_slot(GrnRecord *rec, FullTransactionId stamp);

/* Which slots of a page may be taken. */
typedef enum GrnndRoom
{
	GRNND_NO_ROOM = 0,
	GRNND_ROOM_LATER,			/* some, after transactions have ended */
	GRNND_ROOM,					/* some */
	GRNND_WHOLE_PAGE			/* all */
} GrnndRoom;

/* heap may be NULL. */
extern GrnndRoom grnnd_page_room(Relation heap, const GrnndIndex *ix, Page page);

/* Records the room of a page in the free space map. */
extern void grnnd_note_room(Relation index, BlockNumber block, GrnndRoom room);

#endif							/* GRNND_FREESPACE_H */
