/*
 * bitset.c - sets of node ids, one bit an id.
 */
#include "am/write/write.h"

#include "port/pg_bitutils.h"

void
grnnd_set_init(GrnndSet *set, uint32 limit)
{
	set->limit = limit;
	set->count = 0;
	set->words = palloc_extended(grnnd_set_bytes(limit),
								 MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
}

void
grnnd_set_grow(GrnndSet *set, uint32 limit)
{
	Size		old = (Size) set->limit / 64 + 1;
	Size		new = (Size) limit / 64 + 1;

	if (limit <= set->limit)
		return;
	set->words = repalloc_huge(set->words, new * sizeof(uint64));
	memset(set->words + old, 0, (new - old) * sizeof(uint64));
	set->limit = limit;
}

void
grnnd_set_clear(GrnndSet *set)
{
	memset(set->words, 0, grnnd_set_bytes(set->limit));
	set->count = 0;
}

uint32
grnnd_set_next(const GrnndSet *set, uint32 id)
{
	while (id < set->limit)
	{
		uint64		word = set->words[id / 64] >> (id % 64);

		if (word != 0)
		{
			id += pg_rightmost_one_pos64(word);
			return id < set->limit ? id : GRN_INVALID_ID;
		}
		id = (id / 64 + 1) * 64;
	}
	return GRN_INVALID_ID;
}
