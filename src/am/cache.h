/*
 * cache.h - the descriptions of indexes that a backend keeps.
 */
#ifndef GRNND_CACHE_H
#define GRNND_CACHE_H

#include "am/grnnd.h"

/*
 * The index's description, checked (magic, format, geometry, crc) and cached for
 * the backend.  The description stays until the end of the transaction.  Its codecs' arrays
 * and its hints stay until the next call, for whatever index: then they may have to make
 * room.  So whoever encodes asks anew first, unless nothing else was asked for meanwhile.
 */
extern const GrnndIndex *grnnd_index(Relation index);
/* The same without arrays and hints, for those who use neither: a planner meets many indexes. */
extern const GrnndIndex *grnnd_index_shape(Relation index);
/* The same by the metapage as it is now: what fit_codes.c writes there reaches others late. */
extern const GrnndIndex *grnnd_index_anew(Relation index);
/* The metapage's checksum, as it should be. */
extern uint32 grnnd_meta_crc(const GrnndMeta *meta);

#endif							/* GRNND_CACHE_H */
