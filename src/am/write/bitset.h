/*
 * bitset.h - sets of node ids, one bit an id.
 */
#ifndef GRNND_BITSET_H
#define GRNND_BITSET_H

#include "postgres.h"

#include "space/grn.h"

typedef struct GrnndSet
{
	uint64	   *words;
	uint32		limit;			/* all members are below this */
	uint32		count;
} GrnndSet;

static inline Size
grnnd_set_bytes(uint32 limit)
{
	return ((Size) limit / 64 + 1) * sizeof(uint64);
}
extern void grnnd_set_init(GrnndSet *set, uint32 limit);
extern void grnnd_set_grow(GrnndSet *set, uint32 limit);
/* Removes all members. */
extern void grnnd_set_clear(GrnndSet *set);
static inline bool
grnnd_set_has(const GrnndSet *set, uint32 id)
{
	return id < set->limit && (set->words[id / 64] >> (id % 64) & 1) != 0;
}

/* Adds an id below the limit. Returns false if the id was a member. */
static inline bool
grnnd_set_add(GrnndSet *set, uint32 id)
{
	uint64		bit = UINT64CONST(1) << (id % 64);

	if (set->words[id / 64] & bit)
		return false;
	set->words[id / 64] |= bit;
	set->count++;
	return true;
}
static inline void
grnnd_set_remove(GrnndSet *set, uint32 id)
{
	if (grnnd_set_has(set, id))
	{
		set->words[id / 64] &= ~(UINT64CONST(1) << (id % 64));
		set->count--;
	}
}

/* The smallest member from id on, or GRN_INVALID_ID. */
extern uint32 grnnd_set_next(const GrnndSet *set, uint32 id);

#endif							/* GRNND_BITSET_H */
