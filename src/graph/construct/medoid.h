/*
 * medoid.h - the row in the middle, from which searches of a graph start.
 */
#ifndef GRN_MEDOID_H
#define GRN_MEDOID_H

#include "graph/rows.h"

/* The row nearest to the mean of a sample. */
extern uint32_t grn_medoid(const GrnRows *rows, GrnParallel *parallel, uint64_t seed);

#endif							/* GRN_MEDOID_H */
