/*
 * duplicates.h - which rows are identical, bit by bit.
 */
#ifndef GRN_DUPLICATES_H
#define GRN_DUPLICATES_H

#include "graph/rows.h"

/*
 * Groups identical rows.  first[i] is the smallest j with row j equal to row i (i
 * itself for the first of its kind); returns the number of distinct rows.
 * workspace: 16 * n bytes.
 */
extern size_t grn_find_duplicates(const GrnRows *rows, GrnParallel *parallel,
								  uint32_t *first, void *workspace);

#endif							/* GRN_DUPLICATES_H */
