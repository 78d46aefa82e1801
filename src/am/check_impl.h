/*
 * check_impl.h - the state of a check, for check.c (pages, records, edges and chains) and
 * check_tids.c (heap TIDs, and the rows of the table).
 */
#ifndef GRNND_CHECK_IMPL_H
#define GRNND_CHECK_IMPL_H

#include "postgres.h"

#include "access/tableam.h"
#include "nodes/execnodes.h"
#include "utils/tuplesort.h"

#include "am/check_own.h"
#include "am/page.h"
#include "am/write/maintenance.h"
#include "am/write/reach_sweeps.h"

typedef struct Check
{
	Relation	heap;
	Relation	index;
	const GrnndIndex *ix;
	const GrnSigBook *books;	/* a copy */
	ReturnSetInfo *result;
	BufferAccessStrategy strategy;
	Snapshot	snapshot;
	IndexFetchTableData *fetch;
	TupleTableSlot *slot;
	BlockNumber heap_blocks;
	uint32		limit;			/* ids */
	/* marks of ids from first_mark on: state, and a hash of a node's own code and factor */
	uint32	   *marks;			/* [nmarks] */
	uint32		first_mark;
	uint32		nmarks;
	GrnndSet	chains;			/* GRN_TIDS records */
	GrnndSet	chained;		/* those of them found in a chain */
	GrnndSet	killed;			/* those with GRN_KILLED */
	GrnndSet	unlisted;		/* records with a value of which no list has the node */
	GrnndSet	reported;		/* records that no search can find, or not as they should */
	GrnndSet	damaged;		/* what could not be read, and is reported */
	GrnndReach	reach;
	char	   *tail_page;
	char	   *spanning;		/* gathers an own vector of several pages */
	char	   *chain_page;		/* the copy of block chain_block, if that is valid */
	BlockNumber chain_block;
	/*
	 * (block << 16 | offset, id of the record that holds it, digest of the values beside it,
	 * GrnndOwn's digest)
	 */
	Tuplesortstate *tids;
	TupleTableSlot *tid_slot;
	GrnndOwn   *own;			/* heapallindexed: own vectors and the rows'; else NULL */
	uint8	   *attrs;			/* [attr_bytes] heapallindexed: scratch */
	MemoryContext values;		/* what forming those takes */
} Check;

/* ---- check.c ---- */

/* slot -1: the whole page; block invalid: no page in particular. */
extern void grnnd_report(Check *c, BlockNumber block, int slot, const char *format,...)
			pg_attribute_printf(4, 5);
/* other: a further id that the text ends with, or GRN_INVALID_ID. */
extern void grnnd_report_record(Check *c, uint32 id, const char *what, uint32 other);
/* Copies a page; false where it is not one of this kind, which is reported. */
extern bool grnnd_copy_page(Check *c, BlockNumber block, GrnndPageKind kind, char *page);
/*
 * A record's own vector, good until the next call.  Reads and checks the pages that follow the
 * record's.  NULL where they cannot be read, and without heapallindexed.
 */
extern const void *grnnd_own_vector(Check *c, const GrnRecord *rec, uint32 id);
/* A record of heap TIDs, or NULL where it is something else. */
extern const GrnRecord *grnnd_chain_record(Check *c, uint32 id);

/* ---- check_tids.c ---- */

/* Begins the sort of heap TIDs in so much memory. */
extern void grnnd_begin_tids(Check *c, Size memory);
/*
 * Adds a heap TID of a record, the values [attr_bytes] beside it, and the digest of the record's
 * own vector (GRNND_NO_DIGEST: not known).
 */
extern void grnnd_put_tid(Check *c, ItemPointer tid, int64 id, const uint8 *attrs, uint64 digest);
/* heapallindexed: adds the heap TIDs of the table. */
extern void grnnd_check_heap(Check *c);
/* Goes through all heap TIDs in their order. */
extern void grnnd_check_tids(Check *c);

#endif							/* GRNND_CHECK_IMPL_H */
