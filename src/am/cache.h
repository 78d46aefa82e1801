/*
 * cache.h - the descriptions of indexes that a backend keeps.
 */
#ifndef GRNND_CACHE_H
#define GRNND_CACHE_H

#include "am/grnnd.h"

/*
 * The index's description, checked (magic, format, geometry, crc) and cached for
 * the backend.  The description stays until the end of the transaction.  Its codecs' arrays
 * and its hints stay only until the next call, for whatever index, when they may have to make
 * room.  So a caller that encodes calls again first, unless nothing else was asked for since.
 */
extern const GrnndIndex *grnnd_index(Relation index);
/* The same without arrays and hints: a planner meets many indexes and uses neither. */
extern const GrnndIndex *grnnd_index_shape(Relation index);
/* grnnd_index() by the metapage as it is now: what fit_codes.c writes reaches backends late. */
extern const GrnndIndex *grnnd_index_anew(Relation index);
/*
 * The same, with arrays and hints of its own in the current memory context: for who computes values
 * of the table's rows, by functions that may scan other indexes.
 */
extern void grnnd_copy_index(Relation index, GrnndIndex *copy);
/*
 * Are lists of values on the disk what this description says?  Where they are not, the next call of
 * grnnd_index() reads the metapage.
 */
extern bool grnnd_lists_current(Relation index, const GrnndIndex *ix);
/* Does the metapage say, now, that a fit gives records their codes? */
extern bool grnnd_is_filling(Relation index);
/* The metapage's checksum, as it should be. */
extern uint32 grnnd_meta_crc(const GrnndMeta *meta);
/*
 * What is wrong with a metapage of this format, of a file of so many blocks; NULL: nothing, and
 * its records have this layout.  Every field that reading relies on is within its bounds then.
 */
extern const char *grnnd_meta_fault(const GrnndMeta *meta, const GrnndKey *key,
									const GrnndAttrs *attrs, BlockNumber blocks, GrnLayout *layout);

extern uint32 grnnd_report_crc(const GrnndReport *report);
extern uint32 grnnd_measured_crc(const GrnndMeasured *measured);
extern uint32 grnnd_missed_crc(const GrnndMissed *missed);
/* What is behind GrnndMeta on a metapage that is locked. */
extern void grnnd_read_notes(Page page, GrnndNotes *notes);

#endif							/* GRNND_CACHE_H */
