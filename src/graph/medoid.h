/*
 * medoid.h - finds the row in the middle, where searches of a graph start.
 */
#ifndef GRN_MEDOID_H
#define GRN_MEDOID_H

#include "space/rows.h"

/* Returns the row of a sample that is nearest to the sample's mean. */
extern uint32_t grn_medoid(const GrnRows *rows, GrnParallel *parallel, uint64_t seed);

#endif							/* GRN_MEDOID_H */
