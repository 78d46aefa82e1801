/*
 * row_elements.h - elements of arrays, read from rows of the table: records keep 64 bits of an
 * array, which do not say to which lists a row belongs.
 */
#ifndef GRNND_ROW_ELEMENTS_H
#define GRNND_ROW_ELEMENTS_H

#include "am/grnnd.h"
#include "utils/snapshot.h"

typedef struct GrnndRowElements GrnndRowElements;

/*
 * Opens the table of an index whose rows' arrays are to be read; NULL where no filter column is an
 * array.  Index expressions are computed with the current user's rights.  snapshot: whose rows;
 * NULL: all versions that a TID leads to, dead ones as well, whose elements count together; and
 * arrays of what lies outside of the row count as of many elements.
 */
extern GrnndRowElements *grnnd_elements_begin(Relation index, const GrnndAttrs *attrs,
											  Snapshot snapshot);
/*
 * Reads the elements of the row with a packed TID [GRN_TID_BYTES], beside which a record has
 * values.  They are good until the next call.  NULL: there is no such row.
 */
extern const uint8 *grnnd_read_elements(GrnndRowElements *r, const uint8 *tid,
										const uint8 *values);
/* r may be NULL. */
extern void grnnd_elements_end(GrnndRowElements *r);

#endif							/* GRNND_ROW_ELEMENTS_H */
