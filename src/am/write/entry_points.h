/*
 * entry_points.h - changes of entry points by inserts, and for the longest rows. (Vacuum replaces
 * dead entry points in vacuum_entries.c.)
 */
#ifndef GRNND_ENTRY_POINTS_H
#define GRNND_ENTRY_POINTS_H

#include "am/index/entries.h"
#include "am/write/link.h"

/* Inner product: the median length of sampled entry points in the codec's unit, or 0. */
extern float grnnd_typical_length(const GrnndIndex *ix, const GrnndEntries *entries);

/* Makes a new node an entry point, by chance; entries: as the insert has read the entry points. */
extern void grnnd_offer_entry(Relation index, const GrnndIndex *ix, uint32 id,
							  const GrnndPoint *p, const GrnndEntries *entries);
/* Makes a node entries[0], if entries[0] is still `expected`; returns false if not. */
extern bool grnnd_put_first_entry(Relation index, const GrnndIndex *ix, uint32 id,
								  const GrnndPoint *p, uint32 expected);

/* Inner product: the longest live nodes, candidates for entry points. */
typedef struct GrnndLongest
{
	uint32		n;
	uint32		ids[GRN_MAX_ENTRIES];	/* longest first */
	float		lengths[GRN_MAX_ENTRIES];
} GrnndLongest;

/* Notes a live node that may be among the longest. */
extern void grnnd_note_length(const GrnndIndex *ix, GrnndLongest *longest, uint32 id,
							  GrnFactor factor);
/* Makes the noted nodes entry points in place of shorter nodes. */
extern void grnnd_enter_longest(Relation index, const GrnndIndex *ix,
								const GrnndLongest *longest, BufferAccessStrategy strategy);

#endif							/* GRNND_ENTRY_POINTS_H */
