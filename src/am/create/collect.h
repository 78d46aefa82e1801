/*
 * collect.h - reads the table's vectors into shared memory.
 */
#ifndef GRNND_COLLECT_H
#define GRNND_COLLECT_H

#include "am/create/build_state.h"

/*
 * Largest number of rows that a participant claims at a time.  The unused rows of the last chunk
 * take address space too, so grnnd_build_map() must add a chunk for each participant.
 */
#define GRNND_CHUNK_ROWS 4096
#define GRNND_CHUNK_BYTES (1024 * 1024) /* approximate bytes of vectors in a chunk */
static inline uint32
grnnd_chunk_rows(uint64 row_bytes)
{
	return (uint32) Max(1, Min(GRNND_CHUNK_ROWS, GRNND_CHUNK_BYTES / row_bytes));
}

/* Fills VECTORS, TIDS and, if there are rows, ORDER.  Sets rows and heap_tuples. */
extern void grnnd_collect(GrnndBuild *build);

#endif							/* GRNND_COLLECT_H */
