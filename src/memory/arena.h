/*
 * arena.h - arrays placed one after the other in a workspace.
 *
 * The caller provides the memory and must know its size.  The function that places the arrays
 * of a workspace therefore runs twice: with workspace NULL it computes the bytes (and every
 * array is NULL), and with the workspace it computes the addresses.
 */
#ifndef GRN_ARENA_H
#define GRN_ARENA_H

#include <stddef.h>
#include <stdint.h>

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

#endif							/* GRN_ARENA_H */
