/*
 * deal.c - rows of parts that are too large, dealt out to several.
 */
#include "graph/build/cut.h"

#include <math.h>
#include <string.h>

/* A row becomes a guest of a part if that has room. */
static void
set_guest(GrnParts *parts, uint32_t v, uint32_t part, size_t *sizes, size_t capacity)
{
	uint32_t   *guest = &parts->guest[v];

	if (sizes[part] >= capacity)
		return;
	if (*guest != GRN_INVALID_ID)
		sizes[*guest]--;
	*guest = part;
	sizes[part]++;
}

bool
grn_parts_deal(const GrnRows *rows, uint32_t most, float overlap, size_t capacity,
			   GrnParallel *parallel, void *workspace, GrnParts *parts)
{
	uint32_t	pieces[GRN_MAX_PARTS];
	uint32_t	first[GRN_MAX_PARTS + 1] = {0};
	size_t		sizes[GRN_MAX_PARTS] = {0};
	size_t		left = most;
	uint32_t	landmarks = parts->nlandmarks < capacity / 4 ? parts->nlandmarks : 0;

	capacity -= landmarks;
	for (uint32_t c = 0; c < parts->nparts; c++)
	{
		size_t		homes = parts->guests[c] - parts->start[c];
		size_t		n = (homes + capacity - 1) / capacity;

		if (n > left)
			return false;
		pieces[c] = (uint32_t) n;
		left -= n;
	}
	for (uint32_t c = 0; c < parts->nparts; c++)
	{
		/* room for guests, too, as far as there are parts for it */
		double		members = (double) (parts->others[c] - parts->start[c]) * (1 + (double) overlap);
		double		more = ceil(members / (double) capacity) - pieces[c];

		if (pieces[c] > 1 && more > 0)
		{
			more = more < (double) left ? more : (double) left;
			pieces[c] += (uint32_t) more;
			left -= (size_t) more;
		}
		first[c + 1] = first[c] + pieces[c];
	}

	/* positions become parts' numbers again, those of parts' rows first */
	memset(parts->guest, 0xff, rows->n * sizeof(*parts->guest));
	for (uint32_t c = 0; c < parts->nparts; c++)
		for (size_t i = parts->start[c]; i < parts->guests[c]; i++)
		{
			uint32_t	part = first[c] + (uint32_t) ((i - parts->start[c]) % pieces[c]);

			parts->home[parts->members[i]] = part;
			sizes[part]++;
		}
	for (uint32_t c = 0; c < parts->nparts; c++)
	{
		/* a cell without rows of its own is none any more */
		for (size_t i = parts->guests[c]; i < parts->others[c] && pieces[c] > 0; i++)
			set_guest(parts, parts->members[i],
					  first[c] + (uint32_t) ((i - parts->guests[c]) % pieces[c]), sizes, capacity);
	}
	for (uint32_t c = 0; c < parts->nparts; c++)
		for (size_t i = parts->start[c]; i < parts->guests[c] && pieces[c] > 1; i++)
		{
			size_t		turn = (i - parts->start[c]) / pieces[c];
			uint32_t	next = (uint32_t) ((i - parts->start[c] + 1) % pieces[c]);

			if ((size_t) ((double) (turn + 1) * (double) overlap) >
				(size_t) ((double) turn * (double) overlap))
				set_guest(parts, parts->members[i], first[c] + next, sizes, capacity);
		}
	parts->nlandmarks = landmarks;
	grn_parts_list_members(rows, first[parts->nparts], overlap, parallel, workspace, parts);
	return true;
}
