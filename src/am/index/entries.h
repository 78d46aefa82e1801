/*
 * entries.h - reads and changes the entry page.
 */
#ifndef GRNND_ENTRIES_H
#define GRNND_ENTRIES_H

#include "am/grnnd.h"

/* Copies the entry page into arrays of GRN_MAX_ENTRIES.  Returns the number of entries. */
extern uint32 grnnd_read_entries(Relation index, const GrnndIndex *ix, uint32 *ids,
								 GrnFactor *factors, uint8_t *codes);

typedef struct GrnndEntries
{
	uint32		count;
	uint32		ids[GRN_MAX_ENTRIES];
	GrnFactor	factors[GRN_MAX_ENTRIES];
	uint8_t    *codes;			/* [GRN_MAX_ENTRIES][code_bytes] */
} GrnndEntries;

/* Allocates the struct and reads the entry page. */
extern GrnndEntries *grnnd_get_entries(Relation index, const GrnndIndex *ix);
/* Changes the entry page under its exclusive lock.  fn returns true if it must be written. */
typedef bool (*GrnndEntriesFn) (GrnndEntries *entries, void *arg);
extern bool grnnd_change_entries(Relation index, const GrnndIndex *ix,
								 GrnndEntriesFn fn, void *arg);
extern void grnnd_set_entry(const GrnndIndex *ix, GrnndEntries *entries, uint32 i,
							uint32 id, const uint8_t *code, GrnFactor factor);

#endif							/* GRNND_ENTRIES_H */
