/*
 * collect.h - reads the table's vectors into shared memory.
 */
#ifndef GRNND_COLLECT_H
#define GRNND_COLLECT_H

#include "am/build/build_state.h"

/*
 * Fills VECTORS, TIDS and, unless there is no row, ORDER; sets rows and
 * heap_tuples.
 */
extern void grnnd_collect(GrnndBuild *build);

#endif							/* GRNND_COLLECT_H */
