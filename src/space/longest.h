/*
 * longest.h - entry points that were chosen because their rows are long.
 *
 * For inner product half of the entry points are the longest rows
 * (GrnMetricInfo.long_entries).  Rows much longer than average answer every query and are
 * close together in the graph's space, but a search by inner products may find no path to
 * them.  One long entry is not enough: its product with the query may be less than the
 * products of short rows near the query.
 *
 * A build computes lengths from the places of rows, a finished index from the factors of
 * codes.  The caller chooses the unit of lengths.
 */
#ifndef GRN_LONGEST_H
#define GRN_LONGEST_H

#include "space/grn.h"

/*
 * A row replaces a long entry if the row is longer by this factor.  Lengths are rounded, so a
 * smaller difference may not be real.
 */
#define GRN_LONGER 1.01f

/* The lengths of the entry points' rows. */
typedef struct GrnEntryLengths
{
	uint32_t	count;			/* entry points, entries[0] included */
	float		lengths[GRN_MAX_ENTRIES];	/* [count] */
	uint32_t	nlong;			/* number of long entries */
	uint32_t	order[GRN_MAX_ENTRIES]; /* [count - 1] entries except the first: nlong entries,
										 * longest first, then the remaining entries */
} GrnEntryLengths;

/*
 * Computes nlong and order from count and lengths.  most: the most long entries; 0: lengths do
 * not matter, and the entries keep their order.
 */
extern void grn_sort_entries(GrnEntryLengths *e, uint32_t most);
/* Returns the long entry that a row of this length replaces, or 0. */
extern uint32_t grn_shorter_entry(const GrnEntryLengths *e, float length);
/* Records that a row of this length has replaced the entry from grn_shorter_entry(). */
extern void grn_enter_long(GrnEntryLengths *e, float length);

#endif							/* GRN_LONGEST_H */
