/*
 * duplicates.h - which rows are identical, bit by bit.
 */
#ifndef GRN_DUPLICATES_H
#define GRN_DUPLICATES_H

#include "graph/rows.h"

/* Its loops; of few rows fewer. */
#define GRN_DUPLICATE_STRETCHES 16

/* Of a row's first bytes: without its scale. */
extern uint64_t grn_hash_row(const void *row, size_t bytes);

/*
 * Groups identical rows.  first[i] is the smallest j with row j equal to row i (i
 * itself for the first of its kind); returns the number of distinct rows.
 * hashes: [n] those of grn_hash_row(), by row and not by rank.  workspace: 8 * n bytes.
 * visit: NULL, or [n] where rows lie, in the order in which they are compared; rows then have an
 * order, too, which is of all.  Where memory does not hold them copies should be near each other.
 */
extern size_t grn_find_duplicates(const GrnRows *rows, const uint64_t *hashes, const uint32_t *visit,
								  GrnParallel *parallel, uint32_t *first, void *workspace);

#endif							/* GRN_DUPLICATES_H */
