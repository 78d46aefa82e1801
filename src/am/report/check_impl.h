/*
 * check_impl.h - the state of a check, for check.c (pages, records, edges and chains) and
 * check_tids.c (heap TIDs and rows of the table).
 */
#ifndef GRNND_CHECK_IMPL_H
#define GRNND_CHECK_IMPL_H

#include "postgres.h"

#include "access/tableam.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"
#include "utils/tuplesort.h"

#include "am/grnnd.h"
#include "am/index/index.h"
#include "am/write/write.h"

/* check_own.c: compares the vectors in records with the rows of the table, for grnnd_check(). */

typedef struct GrnndOwn GrnndOwn;

/* The digest of an unknown vector; no vector has this digest. */
#define GRNND_NO_DIGEST 0

extern GrnndOwn *grnnd_own_begin(Relation index, const GrnndIndex *ix);
extern void grnnd_own_end(GrnndOwn *own);
/* The digest of a stored vector [vec_bytes] and its error. */
extern uint64 grnnd_own_digest(GrnndOwn *own, const void *vec, float error);
/* Computes the digest of a row with this value.  Returns false if the row is not indexed. */
extern bool grnnd_own_wanted(GrnndOwn *own, Datum value, uint64 *digest);
/* Do a stored vector and its error belong to a row of the table, by any processor's arithmetic? */
extern bool grnnd_own_matches(GrnndOwn *own, TupleTableSlot *row, const void *vec, float error);

typedef struct IndexCheck
{
	Relation	heap;
	Relation	index;
	const GrnndIndex *ix;
	const GrnSigBook *books;	/* a copy of the index's books */
	ReturnSetInfo *result;
	BufferAccessStrategy strategy;
	Snapshot	snapshot;
	IndexFetchTableData *fetch;
	TupleTableSlot *slot;
	BlockNumber heap_blocks;
	uint32		limit;			/* upper bound of ids */
	uint32	   *marks;			/* [limit] a record's state, a hash of code, factor and signature */
	GrnndSet	chains;			/* ids of GRN_TIDS records */
	GrnndSet	chained;		/* GRN_TIDS records found in a chain */
	GrnndSet	unlisted;		/* records with a value whose list lacks the node */
	GrnndSet	reported;		/* records that searches cannot use correctly, already reported */
	GrnndSet	damaged;		/* records that could not be read, already reported */
	GrnndReach	reach;
	char	   *tail_page;
	char	   *spanning;		/* buffer for an own vector of several pages */
	GrnRecord  *record;			/* of grnnd_chain_record() and check_own() */
	/*
	 * rows: (block << 16 | offset, id of the record with the TID, hash of the values beside the
	 * TID, digest by GrnndOwn)
	 */
	Tuplesortstate *tids;
	TupleTableSlot *tid_slot;
	GrnndOwn   *own;			/* with heapallindexed: compares own vectors with rows; else NULL */
	uint8	   *attrs;			/* with heapallindexed: [attr_bytes], scratch */
	MemoryContext values;		/* memory for forming these values */
} IndexCheck;

/* ---- check.c ---- */

/* Reports a fault.  slot -1: the whole page; invalid block: no page. */
extern void grnnd_report(IndexCheck *c, BlockNumber block, int slot, const char *format,...)
			pg_attribute_printf(4, 5);
/* Reports a fault of a record.  other: a second id that ends the text, or GRN_INVALID_ID. */
extern void grnnd_report_record(IndexCheck *c, uint32 id, const char *what, uint32 other);
/* Copies a page.  Returns false and reports a page of another kind. */
extern bool grnnd_copy_page(IndexCheck *c, BlockNumber block, GrnndPageKind kind, char *page);
/*
 * A record's own vector, valid until the next call.  Reads and checks the later pages of a
 * spanning record.  Returns NULL if they cannot be read, and without heapallindexed.
 */
extern const void *grnnd_own_vector(IndexCheck *c, const GrnRecord *rec, uint32 id);
/* A GRN_TIDS record, valid until the next call, or NULL if the id is something else. */
extern const GrnRecord *grnnd_chain_record(IndexCheck *c, uint32 id);

/* ---- check_lists.c ---- */

/*
 * Checks all lists of values.  All records below the limit must be sound, and inserts must be
 * locked out, because an unfinished insert looks like a fault.  Records with a TID whose value's
 * list lacks the node are added to c->unlisted; this is a fault only if a query could miss a row.
 */
extern void grnnd_check_lists(IndexCheck *c);
/* Is the node's signature made of its own TIDs' values?  GRN_SIG_ANY matches every value. */
extern bool grnnd_signature_fits(const GrnndIndex *ix, const GrnSigBook *books, const GrnRecord *rec);

/* ---- check_tids.c ---- */

/* Begins the sort of heap TIDs with `memory` bytes. */
extern void grnnd_begin_tids(IndexCheck *c, Size memory);
/*
 * Adds a heap TID of a record to the sort.  attrs: [attr_bytes] values beside the TID; digest: of
 * the record's own vector, or GRNND_NO_DIGEST.
 */
extern void grnnd_put_tid(IndexCheck *c, ItemPointer tid, int64 id, const uint8 *attrs, uint64 digest);
/* With heapallindexed: adds the heap TIDs of the table. */
extern void grnnd_check_heap(IndexCheck *c);
/* Compares all heap TIDs in their order. */
extern void grnnd_check_tids(IndexCheck *c);

#endif							/* GRNND_CHECK_IMPL_H */
