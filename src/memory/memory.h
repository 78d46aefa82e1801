/*
 * memory.h - memory that builds allocate in addition to the workspaces from their callers: a
 * few short-lived arrays.
 *
 * The builder process uses malloc().  A backend installs functions whose memory is freed if an
 * error leaves the build.  These functions may also raise errors of their own.
 */
#ifndef GRN_MEMORY_H
#define GRN_MEMORY_H

#include <stddef.h>

typedef struct GrnMemory
{
	void	   *(*alloc) (size_t bytes);
	void		(*free) (void *p);
} GrnMemory;

/* Must be set before the first build of a process, and not changed after that. */
extern GrnMemory grn_memory;

/* Allocates memory aligned to GRN_ALIGNMENT, so any array fits.  Returns NULL if out of memory. */
extern void *grn_alloc(size_t bytes);
/* Allocates count items of `bytes` bytes each, zeroed. */
extern void *grn_alloc_zeroed(size_t count, size_t bytes);
/* p may be NULL. */
extern void grn_free(void *p);

#endif							/* GRN_MEMORY_H */
