/*
 * file_pages.c - advice to the kernel about the pages of a mapped file; see memory.h.
 */
#include "memory/memory.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* The kernel reads no more for one madvise() than one request to the disk may have. */
#define REQUEST ((uintptr_t) 128 << 10)

/* Finds the pages of the bytes.  whole: pages without other bytes.  Returns false if none. */
static bool
pages_of(const void *base, size_t bytes, bool whole, uintptr_t * begin, uintptr_t * end)
{
	uintptr_t	page = (uintptr_t) sysconf(_SC_PAGESIZE);
	uintptr_t	from = (uintptr_t) base;
	uintptr_t	to = from + bytes;

	*begin = (whole ? from + page - 1 : from) / page * page;
	*end = (whole ? to : to + page - 1) / page * page;
	return *begin < *end;
}

void
grn_prefetch_pages(const void *base, size_t bytes)
{
	uintptr_t	at;
	uintptr_t	end;

	if (!pages_of(base, bytes, false, &at, &end))
		return;
	for (; at < end; at += REQUEST)
		(void) madvise((void *) at, end - at < REQUEST ? end - at : REQUEST, MADV_WILLNEED);
}

void
grn_pages_scattered(const void *base, size_t bytes, bool scattered)
{
	uintptr_t	begin;
	uintptr_t	end;

	if (pages_of(base, bytes, false, &begin, &end))
		(void) madvise((void *) begin, end - begin, scattered ? MADV_RANDOM : MADV_NORMAL);
}

bool
grn_pages_remove(const void *base, size_t bytes)
{
	uintptr_t	begin;
	uintptr_t	end;

	return !pages_of(base, bytes, true, &begin, &end) ||
		madvise((void *) begin, end - begin, MADV_REMOVE) == 0;
}
