/*
 * numbers.h - growing arrays of numbers: records and rows that a scan has read or returned.
 */
#ifndef GRNND_NUMBERS_H
#define GRNND_NUMBERS_H

#include "postgres.h"

#include "utils/memutils.h"

/* All zero: an empty array. */
typedef struct GrnndNumbers
{
	uint64	   *items;			/* [n] */
	Size		n;
	Size		room;
} GrnndNumbers;

static inline void
grnnd_add_number(GrnndNumbers *to, MemoryContext context, uint64 number)
{
	if (to->n == to->room)
	{
		to->room = Max(16, 2 * to->room);
		to->items = to->items == NULL ? MemoryContextAllocHuge(context, to->room * sizeof(uint64))
			: repalloc_huge(to->items, to->room * sizeof(uint64));
	}
	to->items[to->n++] = number;
}

static inline int
grnnd_compare_numbers(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return (x > y) - (x < y);
}

static inline void
grnnd_sort_numbers(const GrnndNumbers *numbers)
{
	if (numbers->n > 0)
		qsort(numbers->items, numbers->n, sizeof(uint64), grnnd_compare_numbers);
}

/* Is the number in a sorted array?  *at: where the search of a smaller number ended, at first 0. */
static inline bool
grnnd_has_number(const GrnndNumbers *in, Size *at, uint64 number)
{
	while (*at < in->n && in->items[*at] < number)
		(*at)++;
	return *at < in->n && in->items[*at] == number;
}

#endif							/* GRNND_NUMBERS_H */
