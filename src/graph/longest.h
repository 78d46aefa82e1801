/*
 * longest.h - entry points that are there because their rows are long.
 *
 * For inner product half of the entry points are the longest rows
 * (GrnMetricInfo.long_entries).  Rows much longer than others answer every query and lie
 * close together in the graph's space, but no way that a search by inner products takes
 * need lead to them.  One alone is not enough: its own product with the query may be less
 * than those of the short rows nearby.
 *
 * A build knows lengths from the places of rows, a finished index from the factors of
 * codes.  The unit of lengths is the caller's.
 */
#ifndef GRN_LONGEST_H
#define GRN_LONGEST_H

#include "graph/grn.h"

/* A row takes over from a long entry that is shorter by this factor, since lengths are rounded. */
#define GRN_LONGER 1.01f

/* How long the rows of the entry points are. */
typedef struct GrnEntryLengths
{
	uint32_t	count;			/* entry points, with entries[0] */
	float		lengths[GRN_MAX_ENTRIES];	/* [count] */
	uint32_t	nlong;			/* how many are long entries */
	uint32_t	order[GRN_MAX_ENTRIES]; /* [count - 1] entries but the first: nlong, the longest
										 * first, then the others */
} GrnEntryLengths;

/*
 * Fills nlong and order, once count and lengths are set.  most: long entries there may be; if
 * that is 0, lengths do not matter, and the order is that of the entries.
 */
extern void grn_sort_entries(GrnEntryLengths *e, uint32_t most);
/* Which long entry gives way to a row of that length, because it is shorter; or 0. */
extern uint32_t grn_shorter_entry(const GrnEntryLengths *e, float length);
/* What grn_shorter_entry() found has given way to a row of that length. */
extern void grn_enter_long(GrnEntryLengths *e, float length);

#endif							/* GRN_LONGEST_H */
