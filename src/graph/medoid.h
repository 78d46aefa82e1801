/*
 * medoid.h - finds the row in the middle, where searches of a graph start.
 */
#ifndef GRN_MEDOID_H
#define GRN_MEDOID_H

#include "space/rows.h"

/* Returns the row of a sample that is nearest to the sample's mean; GRN_INVALID_ID without rows. */
extern uint32_t grn_medoid(const GrnRows *rows, uint64_t seed);

#endif							/* GRN_MEDOID_H */
