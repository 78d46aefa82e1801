/*
 * duplicates.h - finds rows that are identical in every bit.
 */
#ifndef GRN_DUPLICATES_H
#define GRN_DUPLICATES_H

#include "space/rows.h"

/* The most loops that grn_find_duplicates() runs over the rows. */
#define GRN_DUPLICATE_STRETCHES 16

/* Hashes the first `bytes` bytes of a row, which exclude the row's scale. */
extern uint64_t grn_hash_row(const void *row, size_t bytes);

/*
 * Groups identical rows.  first[i] is the smallest j for which row j equals row i (i itself
 * for the first of equal rows).  Returns the number of distinct rows.  hashes: [n] results of
 * grn_hash_row(), by storage order and not by rank.  workspace: 8 * n bytes.  visit: NULL, or
 * [n] places of rows in the order of comparison.  With visit, rows->order must be an order of
 * all rows.  If memory does not hold the rows, copies should be near each other in visit.
 */
extern size_t grn_find_duplicates(const GrnRows *rows, const uint64_t *hashes, const uint32_t *visit,
								  GrnParallel *parallel, uint32_t *first, void *workspace);

#endif							/* GRN_DUPLICATES_H */
