/*
 * reach_sweeps.c - finds the nodes of an index that can be reached, in sweeps through the file.
 *
 * Nodes lie on disk near their neighbors, and a sweep in the order of the file also handles the
 * nodes that it has just found ahead of its position. So a few sweeps are enough, and the search
 * needs two bits of memory a node where the lists do not fit.
 */
#include "am/write/write.h"

#include "miscadmin.h"

#include "am/index/index.h"

void
grnnd_reach_init(GrnndReach *reach, Relation index, const GrnndIndex *ix,
				 uint32 limit, Size memory, BufferAccessStrategy strategy)
{
	Size		fixed = 3 * grnnd_set_bytes(limit) + (Size) limit * sizeof(uint32);

	memset(reach, 0, sizeof(*reach));
	reach->first_pending = GRN_INVALID_ID;
	reach->index = index;
	reach->ix = ix;
	reach->strategy = strategy;
	grnnd_set_init(&reach->reached, limit);
	grnnd_set_init(&reach->pending, limit);
	reach->rec = palloc(grnnd_copy_bytes(ix));

	/* every node's list, or as many lists as memory holds */
	if (memory > fixed)
		reach->room = Min((Size) limit * (1 + ix->layout.degree),
						  (memory - fixed) / sizeof(uint32));
	reach->room = Min(reach->room, (Size) UINT32_MAX);
	grnnd_set_init(&reach->noted, reach->room > 0 ? limit : 0);
	if (reach->room > 0)
	{
		reach->offsets = palloc_extended((Size) limit * sizeof(uint32), MCXT_ALLOC_HUGE);
		reach->lists = palloc_extended(reach->room * sizeof(uint32), MCXT_ALLOC_HUGE);
	}
}

void
grnnd_reach_note(GrnndReach *reach, uint32 id, const uint32 *ids, uint32 count)
{
	if (grnnd_set_has(&reach->noted, id) && reach->lists[reach->offsets[id]] >= count)
	{
		/* overwrites the list noted before */
		reach->lists[reach->offsets[id]] = count;
		memcpy(reach->lists + reach->offsets[id] + 1, ids, count * sizeof(uint32));
		return;
	}
	if (id >= reach->noted.limit || reach->used + 1 + count > reach->room)
		return;
	grnnd_set_add(&reach->noted, id);
	reach->offsets[id] = (uint32) reach->used;
	reach->lists[reach->used++] = count;
	memcpy(reach->lists + reach->used, ids, count * sizeof(uint32));
	reach->used += count;
}

void
grnnd_reach_mark(GrnndReach *reach, uint32 id)
{
	/* an id past the limit is a newer row, which its insert links */
	if (id >= reach->reached.limit ||
		(reach->without != NULL && grnnd_set_has(reach->without, id)))
		return;
	if (grnnd_set_add(&reach->reached, id))
	{
		grnnd_set_add(&reach->pending, id);
		if (reach->fresh != NULL)
			grnnd_set_add(reach->fresh, id);
		reach->first_pending = Min(reach->first_pending, id);
	}
}

uint32
grnnd_reach_list(GrnndReach *reach, uint32 id, uint32 *ids)
{
	GrnState	state;

	if (grnnd_set_has(&reach->noted, id))
	{
		const uint32 *list = reach->lists + reach->offsets[id];

		memcpy(ids, list + 1, list[0] * sizeof(uint32));
		return list[0];
	}
	grnnd_delay_point();
	state = grnnd_copy_record(reach->index, reach->ix, id, reach->rec, reach->strategy);
	if (state != GRN_NODE && state != GRN_DEAD)
		return 0;
	memcpy(ids, grn_rec_ids(&reach->ix->layout, reach->rec),
		   reach->rec->count * sizeof(uint32));
	return reach->rec->count;
}

static void
expand(GrnndReach *reach, uint32 id)
{
	uint32		ids[GRN_MAX_DEGREE];
	uint32		count = grnnd_reach_list(reach, id, ids);

	for (uint32 i = 0; i < count; i++)
		grnnd_reach_mark(reach, ids[i]);
}

void
grnnd_reach_run(GrnndReach *reach)
{
	GrnndSet   *pending = &reach->pending;

	while (pending->count > 0)
	{
		uint32		start = reach->first_pending;

		reach->first_pending = GRN_INVALID_ID;
		for (uint32 id = grnnd_set_next(pending, start); id != GRN_INVALID_ID;
			 id = grnnd_set_next(pending, id))
		{
			grnnd_set_remove(pending, id);
			if (id % 64 == 0)
				CHECK_FOR_INTERRUPTS();
			expand(reach, id);
		}
	}
}
