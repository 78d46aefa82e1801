/*
 * choose_entries.c - chooses entry points far from others, and maintains the long ones.
 */
#include "space/space.h"

/*
 * Random nodes from which each entry is chosen.  Recall and visits are the same with 4, 8 and 16
 * (20,000 sentences, patches of images, and rows in tight clusters).  With one, three of twelve
 * indexes of 10,000 rows in 100 tight clusters, of which three quarters were deleted, miss clusters
 * at ef 40 instead of none.
 */
#define ENTRY_TRIES 8

uint32_t
grn_far_entry(uint64_t seed, uint32_t number, uint32_t limit, float (*distance) (void *arg, uint32_t *id), void *arg)
{
	uint32_t	best = GRN_INVALID_ID;
	float		best_distance = 0;

	for (uint32_t try = 0; try < ENTRY_TRIES; try++)
	{
		uint32_t	id = (uint32_t) (grn_random(seed, UINT64_C(0x656E7472), number * ENTRY_TRIES + try) % limit);
		float		d = distance(arg, &id);

		if (d > best_distance)
		{
			best_distance = d;
			best = id;
		}
	}
	return best;
}

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
