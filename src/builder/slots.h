/*
 * slots.h - the memory by which a builder hands finished pages to the processes that write an
 * index.
 *
 * Each slot belongs to one writer.  The writer asks for pages, a thread of the builder forms them
 * in the slot, and the writer completes and writes them there.
 */
#ifndef GRN_SLOTS_H
#define GRN_SLOTS_H

#include <semaphore.h>

#include "builder/forming.h"

/*
 * Pages of a slot: the largest number in a WAL record.  A million SIFT rows, 16 threads: half takes
 * the same time.
 */
#define GRN_SLOT_PAGES 32
#define GRN_MOST_SLOTS 512

typedef enum GrnSlotState
{
	GRN_SLOT_IDLE = 0,			/* the writer's */
	GRN_SLOT_WANTED,			/* any thread of the builder may take the slot */
	GRN_SLOT_TAKEN,
	GRN_SLOT_FORMED				/* the writer's again */
} GrnSlotState;

typedef struct GrnSlot
{
	sem_t		formed;
	uint32_t	state;			/* GrnSlotState, atomic */
	uint32_t	n;				/* pages wanted, at most GRN_SLOT_PAGES, */
	uint64_t	first;			/* and the first, in the node area */
} GrnSlot;

/* The head of segment PAGES. */
typedef struct GrnSlots
{
	sem_t		wanted;			/* counts slots that are wanted, and threads that are to stop */
	uint32_t	stop;			/* atomic */
	uint32_t	n;
	GrnSlot		slots[GRN_MOST_SLOTS];
} GrnSlots;

/* Pages of slot i; for i the number of slots, the end of all, in bytes from the head on. */
static inline size_t
grn_slot_at(uint32_t i, uint32_t page_bytes)
{
	return ((sizeof(GrnSlots) + 4095) & ~(size_t) 4095) + (size_t) i * GRN_SLOT_PAGES * page_bytes;
}

/*
 * Serves slots with all threads until grn_slots_stop().  Meanwhile some threads put the rows of
 * long lists into groups.  Returns false without memory for that, or if a slot wants more than
 * GRN_SLOT_PAGES pages.
 */
extern bool grn_slots_serve(GrnSlots *slots, GrnForming *f, GrnFailure *failure);
/* Ends the service of `threads` threads.  Any process may call this function. */
static inline void
grn_slots_stop(GrnSlots *slots, uint32_t threads)
{
	__atomic_store_n(&slots->stop, 1, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < threads; i++)
		sem_post(&slots->wanted);
}

#endif							/* GRN_SLOTS_H */
