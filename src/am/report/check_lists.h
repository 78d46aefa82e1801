/*
 * check_lists.h - the check of lists of values, for grnnd_check().
 */
#ifndef GRNND_CHECK_LISTS_H
#define GRNND_CHECK_LISTS_H

#include "am/grnnd.h"
#include "am/write/bitset.h"
#include "utils/snapshot.h"

/* Reports a fault of record id.  other: a second id, or GRN_INVALID_ID. */
typedef void (*GrnndReportFn) (void *arg, uint32 id, const char *what, uint32 other);

/*
 * Checks all lists.  All records below limit must be sound, and inserts must be locked out,
 * because an unfinished insert looks like a fault.  Records with a TID whose value's list lacks
 * the node are added to unlisted [limit]; this is a fault only if a query could miss a row.
 * snapshot: to read arrays' elements from the table; NULL: arrays are not checked.
 */
extern void grnnd_check_lists(Relation index, const GrnndIndex *ix, const GrnSigBook *books,
							  BufferAccessStrategy strategy, uint32 limit, Snapshot snapshot,
							  GrnndReportFn report, void *arg, GrnndSet *unlisted);

/* Is the node's signature made of its own TIDs' values?  GRN_SIG_ANY matches every value. */
extern bool grnnd_signature_fits(const GrnndIndex *ix, const GrnSigBook *books,
								 const GrnRecord *rec);

#endif							/* GRNND_CHECK_LISTS_H */
