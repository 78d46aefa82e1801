/*
 * memory.h - the memory of builds: arrays in workspaces, allocations, limits, and mapped files.
 */
#ifndef GRN_MEMORY_H
#define GRN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Arrays placed one after the other in a workspace.
 *
 * The caller provides the memory and must know its size.  The function that places the arrays
 * of a workspace therefore runs twice: with workspace NULL it computes the bytes (and every
 * array is NULL), and with the workspace it computes the addresses.
 */

#define GRN_ALIGNMENT 64		/* alignment of each array: a cache line, the widest vector
								 * register */

typedef struct GrnArena
{
	char	   *base;			/* aligned; NULL: only bytes are counted */
	size_t		used;			/* a multiple of GRN_ALIGNMENT, or GRN_NO_SIZE */
} GrnArena;

/* Stands for more bytes than a size_t can count.  An allocation of this size always fails. */
#define GRN_NO_SIZE SIZE_MAX

static inline size_t
grn_aligned(size_t bytes)
{
	return (bytes + GRN_ALIGNMENT - 1) & ~(size_t) (GRN_ALIGNMENT - 1);
}

/* Begins at the workspace's first aligned address. */
static inline GrnArena
grn_arena(void *workspace)
{
	GrnArena	arena = {(char *) grn_aligned((size_t) workspace), 0};

	return arena;
}

/* Places an array of count items of `bytes` bytes each. */
static inline void *
grn_take(GrnArena *arena, size_t count, size_t bytes)
{
	char	   *taken = arena->base ? arena->base + arena->used : NULL;
	size_t		all;

	if (__builtin_mul_overflow(count, bytes, &all) ||
		all > GRN_NO_SIZE - 2 * GRN_ALIGNMENT - 1 ||
		__builtin_add_overflow(arena->used, grn_aligned(all), &arena->used) ||
		arena->used > GRN_NO_SIZE - GRN_ALIGNMENT - 1)
		arena->used = GRN_NO_SIZE;
	return taken;
}

/* Returns the bytes of a workspace, at any address, for all arrays; GRN_NO_SIZE: too many. */
static inline size_t
grn_arena_bytes(const GrnArena *arena)
{
	return arena->used == GRN_NO_SIZE ? GRN_NO_SIZE : arena->used + GRN_ALIGNMENT;
}

/*
 * memory.c: memory that builds allocate in addition to the workspaces from their callers: a
 * few short-lived arrays.
 *
 * The builder process uses malloc().  A backend installs functions whose memory is freed if an
 * error leaves the build.  These functions may also raise errors of their own.
 */

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

/* free_memory.c: finds how much memory a build may take. */

/*
 * Returns the bytes of memory available in the system, or in the cgroup if less.  Builds
 * without a memory limit use this number.
 */
extern uint64_t grn_free_memory(void);
/* Returns the limit `set`, or, if `set` is 0, the available memory, at least 32 MB. */
extern uint64_t grn_memory_limit(uint64_t set);

/*
 * file_pages.c: advises the kernel which pages of a mapped file to read, keep or drop: for
 * arrays that memory does not hold.
 */

/* Bytes of an array that a thread prefetches and then processes at a time. */
#define GRN_PREFETCH_PIECE ((size_t) 1 << 20)

/* Starts reading bytes from the disk, all at once, without waiting. */
extern void grn_prefetch_pages(const void *base, size_t bytes);
/* Accesses to the bytes will be scattered: a missing page is read without its neighbors. */
extern void grn_pages_scattered(const void *base, size_t bytes, bool scattered);
/*
 * Returns the memory and the disk space of whole pages among the bytes, which no process may
 * read again.  Returns false if the file system cannot do so.
 */
extern bool grn_pages_remove(const void *base, size_t bytes);

#endif							/* GRN_MEMORY_H */
