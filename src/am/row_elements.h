/*
 * row_elements.h - reads the elements of arrays from rows of the table.  Records keep only 64 bits
 * of an array, which do not determine the lists of its row.
 */
#ifndef GRNND_ROW_ELEMENTS_H
#define GRNND_ROW_ELEMENTS_H

#include "am/grnnd.h"
#include "utils/snapshot.h"

typedef struct GrnndRowElements GrnndRowElements;

/*
 * Opens a table for reading arrays, as the current user; NULL: no column is an array.  snapshot
 * NULL: all versions of a TID, whose TOASTed arrays count as many elements.
 */
extern GrnndRowElements *grnnd_elements_begin(Relation index, const GrnndAttrs *attrs,
											  Snapshot snapshot);
/*
 * Reads the elements of the row with a packed TID [GRN_TID_BYTES].  values: the record's values
 * beside the TID.  The result is valid until the next call; NULL: the row does not exist.
 */
extern const uint8 *grnnd_read_elements(GrnndRowElements *r, const uint8 *tid,
										const uint8 *values);
/* Closes the table.  r may be NULL. */
extern void grnnd_elements_end(GrnndRowElements *r);

#endif							/* GRNND_ROW_ELEMENTS_H */
