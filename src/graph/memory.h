/*
 * memory.h - what builds allocate beside the workspaces that they are given: a few short-lived
 * arrays.
 *
 * A process of its own takes them by malloc.  A backend puts functions in place whose memory goes
 * back when an error leaves the build; these may also leave it by an error of their own.
 */
#ifndef GRN_MEMORY_H
#define GRN_MEMORY_H

#include <stddef.h>

typedef struct GrnMemory
{
	void	   *(*alloc) (size_t bytes);
	void		(*free) (void *p);
} GrnMemory;

/* Set before the first build of a process, and not changed after that. */
extern GrnMemory grn_memory;

/* Aligned to GRN_ALIGNMENT, so any array may lie there.  NULL: out of memory. */
extern void *grn_alloc(size_t bytes);
/* The same of count items, zeroed. */
extern void *grn_alloc_zeroed(size_t count, size_t bytes);
/* p may be NULL. */
extern void grn_free(void *p);

#endif							/* GRN_MEMORY_H */
