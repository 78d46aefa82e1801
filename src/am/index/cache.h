/*
 * cache.h - a backend's cache of index descriptions.
 */
#ifndef GRNND_CACHE_H
#define GRNND_CACHE_H

#include "am/grnnd.h"

/*
 * Returns the description of an index, checked (magic, format, geometry, checksum) and cached.
 * The description is valid until the end of the transaction.  The codecs' arrays and the hints are
 * valid only until the next call for any index, because that call may free the arrays.  A caller
 * that encodes must therefore call grnnd_index() again first, unless no other call was made since.
 */
extern const GrnndIndex *grnnd_index(Relation index);
/* grnnd_index() without arrays and hints.  A planner needs neither, and may plan many indexes. */
extern const GrnndIndex *grnnd_index_shape(Relation index);
/* grnnd_index() from the current metapage.  The cache may lag behind changes by fit_codes.c. */
extern const GrnndIndex *grnnd_index_anew(Relation index);
/*
 * grnnd_index_anew() with its own arrays and hints in the current memory context.  For callers of
 * index functions, because such functions may scan other indexes.
 */
extern void grnnd_copy_index(Relation index, GrnndIndex *copy);
/*
 * Do the lists on disk still match this description?  If they do not, the next call of
 * grnnd_index() reads the metapage.
 */
extern bool grnnd_lists_current(Relation index, const GrnndIndex *ix);
/* Does the current metapage say that a fit is giving records their codes? */
extern bool grnnd_is_filling(Relation index);
/* The correct checksum of the metapage. */
extern uint32 grnnd_meta_crc(const GrnndMeta *meta);
/* Does an undamaged metapage of this format have features that this version does not know? */
extern bool grnnd_has_unknown_features(const GrnndMeta *meta);
/*
 * Checks a metapage of this format in a file of `blocks` blocks.  Returns NULL and the records'
 * layout if the metapage is sound, else a static string that names the damage.  All fields used by
 * readers are then within their bounds.
 */
extern const char *grnnd_meta_fault(const GrnndMeta *meta, const GrnndKey *key,
									const GrnndAttrs *attrs, BlockNumber blocks, GrnLayout *layout);

extern uint32 grnnd_report_crc(const GrnndReport *report);
extern uint32 grnnd_measured_crc(const GrnndMeasured *measured);
extern uint32 grnnd_missed_crc(const GrnndMissed *missed);
extern uint32 grnnd_queried_crc(const GrnndQueried *queried);
/* Reads the parts behind GrnndMeta.  The metapage must be locked. */
extern void grnnd_read_notes(Page page, GrnndNotes *notes);

#endif							/* GRNND_CACHE_H */
