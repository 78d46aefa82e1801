/*
 * page.h - pages of an index: their form, checks, and where records lie.
 */
#ifndef GRNND_PAGE_H
#define GRNND_PAGE_H

#include "postgres.h"

#include "storage/bufmgr.h"
#include "storage/itemptr.h"

#include "am/grnnd.h"

extern void grnnd_page_init(Page page, GrnndPageKind kind);
/*
 * Reads and locks a block and checks that it is a page of this kind; a new page is
 * allowed for GRNND_NODES (check PageIsNew()).
 */
extern Buffer grnnd_read(Relation index, BlockNumber block, int lockmode,
						 GrnndPageKind kind, BufferAccessStrategy strategy);
/* Can a table have a row there?  A heap TID of a damaged index may lie beyond the table's end. */
extern bool grnnd_has_row(Relation table, const ItemPointerData *tid);
/* Asks for n blocks that follow each other, if the first is in no buffer; there are as many. */
extern void grnnd_ask_for(Relation index, BlockNumber block, uint32 n);
extern void grnnd_check_page(Relation index, Buffer buffer, GrnndPageKind kind);
extern GRNND_NORETURN void grnnd_corrupt(Relation index, BlockNumber block,
										 const char *what);
extern BlockNumber grnnd_node_block(const GrnndIndex *ix, uint32 id);
extern GrnRecord *grnnd_page_record(Page page, const GrnndIndex *ix, uint32 slot);
/* Node ids below this may exist: from the relation's size. */
extern uint32 grnnd_id_limit(Relation index, const GrnndIndex *ix);

#endif							/* GRNND_PAGE_H */
