/*
 * collect.h - reads the table's vectors into shared memory.
 */
#ifndef GRNND_COLLECT_H
#define GRNND_COLLECT_H

#include "am/create/build_state.h"

/*
 * Each process that collects takes so many rows' places at a time, at most.  What is left of its
 * last ones at the end counts, too, so grnnd_build_map() must allow for it.
 */
#define GRNND_CHUNK_ROWS 4096
#define GRNND_CHUNK_BYTES (1024 * 1024) /* of vectors, about */
static inline uint32
grnnd_chunk_rows(uint64 row_bytes)
{
	return (uint32) Max(1, Min(GRNND_CHUNK_ROWS, GRNND_CHUNK_BYTES / row_bytes));
}

/*
 * Fills VECTORS, TIDS and, unless there is no row, ORDER; sets rows and
 * heap_tuples.
 */
extern void grnnd_collect(GrnndBuild *build);

#endif							/* GRNND_COLLECT_H */
