/*
 * tid_set.h - the row addresses in a bitmap of other indexes, for tests by a search.
 *
 * PostgreSQL's TIDBitmap can list its rows, but cannot tell quickly whether a row is among these.
 * A set adds an array of bits: some bits for each page of the table, in chunks of pages.  Chunks
 * without rows take no bits.  A lossy page of the bitmap stands for all rows of the page, so tests
 * of these rows answer "perhaps", and the executor tests the rows again.
 */
#ifndef GRNND_TID_SET_H
#define GRNND_TID_SET_H

#include "postgres.h"

#include "nodes/tidbitmap.h"
#include "storage/itemptr.h"

#define GRNND_CHUNK_SHIFT 6		/* log2 of the pages of a chunk */

typedef struct GrnndTidSet
{
	TIDBitmap  *bitmap;			/* freed with the set */
	MemoryContext context;		/* memory of the bits */
	uint64		rows;			/* row addresses, without those of lossy pages */
	uint64		pages;			/* pages with rows, lossy pages included */
	uint64		lossy;			/* lossy pages */
	OffsetNumber last_offset;
	BlockNumber last_block;
	/* the bits; chunks is NULL before grnnd_tid_set_prepare() */
	uint32		shift;			/* log2 of the bits of a page */
	BlockNumber end;			/* pages from here on have no rows */
	uint32	   *chunks;			/* number of the chunk in `bits`; 0: the chunk has no rows */
	uint64	   *bits;
} GrnndTidSet;

/* Makes a set of a bitmap, palloc'd, and counts its rows.  The set owns the bitmap. */
extern GrnndTidSet *grnnd_tid_set(TIDBitmap * bitmap);
/* Makes the bits.  Must be called before grnnd_tid_set_has(). */
extern void grnnd_tid_set_prepare(GrnndTidSet *set);
extern void grnnd_tid_set_free(GrnndTidSet *set);

/* Calls fn for each page in order: [n] offsets, or n < 0: all rows.  fn ends it by false. */
typedef bool (*GrnndTidPageFn) (void *arg, BlockNumber block, const OffsetNumber *offsets, int n);
extern void grnnd_tid_set_each(const GrnndTidSet *set, GrnndTidPageFn fn, void *arg);

/* Is the row perhaps in the set?  tid: GRN_TID_BYTES at any address. */
static inline bool
grnnd_tid_set_has(const GrnndTidSet *set, const uint8 *tid)
{
	ItemPointerData row;
	BlockNumber block;
	uint32		last = (UINT32_C(1) << set->shift) - 1;
	uint64		bit;

	memcpy(&row, tid, sizeof(row));
	block = ItemPointerGetBlockNumberNoCheck(&row);
	if (block >= set->end)
		return false;
	/* all offsets beyond those of exact pages share the last bit, which lossy pages alone have */
	bit = (((uint64) set->chunks[block >> GRNND_CHUNK_SHIFT] << GRNND_CHUNK_SHIFT |
			(block & ((1 << GRNND_CHUNK_SHIFT) - 1))) << set->shift) +
		Min(ItemPointerGetOffsetNumberNoCheck(&row), last);
	return set->bits[bit >> 6] >> (bit & 63) & 1;
}

#endif							/* GRNND_TID_SET_H */
