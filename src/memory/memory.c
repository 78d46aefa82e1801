/*
 * memory.c - memory of builds; see memory.h.
 */
#include "memory/memory.h"

#include <stdlib.h>
#include <string.h>


GrnMemory	grn_memory = {malloc, free};

void *
grn_alloc(size_t bytes)
{
	char	   *got;
	char	   *aligned;

	if (bytes > GRN_NO_SIZE - GRN_ALIGNMENT - sizeof(got) ||
		(got = grn_memory.alloc(bytes + GRN_ALIGNMENT + sizeof(got))) == NULL)
		return NULL;
	/* The address to free is stored before the array. */
	aligned = (char *) grn_aligned((size_t) (got + sizeof(got)));
	memcpy(aligned - sizeof(got), &got, sizeof(got));
	return aligned;
}

void *
grn_alloc_zeroed(size_t count, size_t bytes)
{
	size_t		all;
	void	   *p = __builtin_mul_overflow(count, bytes, &all) ? NULL : grn_alloc(all);

	return p == NULL ? NULL : memset(p, 0, all);
}

void
grn_free(void *p)
{
	void	   *got;

	if (p == NULL)
		return;
	memcpy(&got, (char *) p - sizeof(got), sizeof(got));
	grn_memory.free(got);
}
