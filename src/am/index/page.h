/*
 * page.h - pages of an index: their format, checks, and the location of records.
 */
#ifndef GRNND_PAGE_H
#define GRNND_PAGE_H

#include "postgres.h"

#include "storage/bufmgr.h"
#include "storage/itemptr.h"

#include "am/grnnd.h"

extern void grnnd_page_init(Page page, GrnndPageKind kind);
/*
 * Reads and locks a block, and checks that it is a page of this kind.  GRNND_NODES also allows a
 * new page; the caller must test PageIsNew().
 */
extern Buffer grnnd_read(Relation index, BlockNumber block, int lockmode,
						 GrnndPageKind kind, BufferAccessStrategy strategy);
/* Can the table have a row at this TID, which may come from a damaged index? */
extern bool grnnd_has_row(Relation table, const ItemPointerData *tid);
/* Prefetches n consecutive blocks, all of which exist, if the first is not in shared buffers. */
extern void grnnd_prefetch_blocks(Relation index, BlockNumber block, uint32 n);
extern void grnnd_check_page(Relation index, Buffer buffer, GrnndPageKind kind);
extern GRNND_NORETURN void grnnd_corrupt(Relation index, BlockNumber block,
										 const char *what);
extern BlockNumber grnnd_node_block(const GrnndIndex *ix, uint32 id);
extern GrnRecord *grnnd_page_record(Page page, const GrnndIndex *ix, uint32 slot);
/* Upper bound of node ids, from the size of the relation. */
extern uint32 grnnd_id_limit(Relation index, const GrnndIndex *ix);

#endif							/* GRNND_PAGE_H */
