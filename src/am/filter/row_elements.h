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
 * Opens the table of an index for reading arrays.  Returns NULL if no filter column is an array.
 * Index expressions run with the current user's privileges.  snapshot: selects the rows; NULL:
 * reads all versions of a TID, dead ones too, and combines their elements; an array stored outside
 * its row then counts as having many elements.
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
