/*
 * counters.h - cumulative statistics of an index, for the view grnnd_stat_indexes.
 */
#ifndef GRNND_COUNTERS_H
#define GRNND_COUNTERS_H

#include "am/scan/scan.h"

/* Counts the work of one scan. */
extern void grnnd_count_scan(Relation index, const GrnndWork *work);
/* Counts an inserted row, and the links back to its node from neighbors. */
extern void grnnd_count_insert(Relation index, uint32 links);

#endif							/* GRNND_COUNTERS_H */
