/*
 * entry_points.h - which nodes are entry points, but for those that vacuum replaces.
 */
#ifndef GRNND_ENTRY_POINTS_H
#define GRNND_ENTRY_POINTS_H

#include "am/entries.h"
#include "am/write/link.h"

/*
 * Inner product: the median length of the entry points that are a sample of the rows, in
 * the codec's unit; 0 where codes say nothing of lengths.
 */
extern float grnnd_typical_length(const GrnndIndex *ix, const GrnndEntries *entries);

/* A new node may become an entry point; entries: as its insert has seen them. */
extern void grnnd_offer_entry(Relation index, const GrnndIndex *ix, uint32 id,
							  const GrnndPoint *p, const GrnndEntries *entries);
/* Makes a node entries[0] where `expected` stands there still; false: it does not. */
extern bool grnnd_put_first_entry(Relation index, const GrnndIndex *ix, uint32 id,
								  const GrnndPoint *p, uint32 expected);

/* Live nodes that are to be entry points because they are the longest: inner product. */
typedef struct GrnndLongest
{
	uint32		n;
	uint32		ids[GRN_MAX_ENTRIES];	/* the longest first */
	float		lengths[GRN_MAX_ENTRIES];
} GrnndLongest;

/* Notes a live node that may be one of the longest. */
extern void grnnd_note_length(const GrnndIndex *ix, GrnndLongest *longest, uint32 id,
							  GrnFactor factor);
/* Makes those noted entry points where they are longer. */
extern void grnnd_enter_longest(Relation index, const GrnndIndex *ix,
								const GrnndLongest *longest, BufferAccessStrategy strategy);

#endif							/* GRNND_ENTRY_POINTS_H */
