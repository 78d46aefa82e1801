/*
 * longest.c - maintains the long entry points; see space.h.
 */
#include "space/space.h"

/* Moves order[i] before all entries that are shorter. */
static void
move_up(GrnEntryLengths *e, uint32_t i)
{
	uint32_t	at = e->order[i];

	for (; i > 0 && e->lengths[e->order[i - 1]] < e->lengths[at]; i--)
		e->order[i] = e->order[i - 1];
	e->order[i] = at;
}

void
grn_sort_entries(GrnEntryLengths *e, uint32_t most)
{
	uint32_t	n = e->count > 0 ? e->count - 1 : 0;

	e->nlong = n < most ? n : most;
	for (uint32_t i = 0; i < n; i++)
	{
		e->order[i] = i + 1;
		if (most > 0)
			move_up(e, i);
	}
}

uint32_t
grn_shorter_entry(const GrnEntryLengths *e, float length)
{
	uint32_t	last = e->nlong > 0 ? e->order[e->nlong - 1] : 0;

	return last > 0 && length > e->lengths[last] ? last : 0;
}

void
grn_enter_long(GrnEntryLengths *e, float length)
{
	e->lengths[e->order[e->nlong - 1]] = length;
	move_up(e, e->nlong - 1);
}
