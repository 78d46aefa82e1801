/*
 * check_lists.h - lists by values, as grnnd_check() looks at them.
 */
#ifndef GRNND_CHECK_LISTS_H
#define GRNND_CHECK_LISTS_H

#include "am/grnnd.h"
#include "am/write/bitset.h"
#include "utils/snapshot.h"

/* Told of each thing that is wrong with record id, and of another id or GRN_INVALID_ID. */
typedef void (*GrnndReportFn) (void *arg, uint32 id, const char *what, uint32 other);

/*
 * All records below limit are sound.  Nobody inserts meanwhile, or what is reported may be an
 * insert at work.  Records with a TID of whose value no list has the node go to unlisted [limit]:
 * that is a fault only if they hold a row that a query can miss.  snapshot: by which rows of the
 * table are read for the elements of arrays; NULL: these are not looked at.
 */
extern void grnnd_check_lists(Relation index, const GrnndIndex *ix, const GrnSigBook *books,
							  BufferAccessStrategy strategy, uint32 limit, Snapshot snapshot,
							  GrnndReportFn report, void *arg, GrnndSet *unlisted);

/* Is the node's signature that of its own TIDs' values, but for what stands for any? */
extern bool grnnd_signature_fits(const GrnndIndex *ix, const GrnSigBook *books,
								 const GrnRecord *rec);

#endif							/* GRNND_CHECK_LISTS_H */
