/*
 * tid_set.c - sets of row addresses, made of PostgreSQL's bitmaps.
 */
#include "am/scan/scan_impl.h"

#include "access/htup_details.h"
#include "utils/memutils.h"

/* ---- reading a bitmap ---- */

void
grnnd_tid_set_each(const GrnndTidSet *set, GrnndTidPageFn fn, void *arg)
{
	bool		more = true;
#if PG_VERSION_NUM >= 180000
	TBMPrivateIterator *iterator = tbm_begin_private_iterate(set->bitmap);
	TBMIterateResult page;

	while (more && tbm_private_iterate(iterator, &page))
	{
		OffsetNumber offsets[MaxHeapTuplesPerPage];
		int			n = -1;

		if (!page.lossy)
			n = Min(tbm_extract_page_tuple(&page, offsets, MaxHeapTuplesPerPage), MaxHeapTuplesPerPage);
		more = fn(arg, page.blockno, offsets, n);
	}
	tbm_end_private_iterate(iterator);
#else
	TBMIterator *iterator = tbm_begin_iterate(set->bitmap);
	TBMIterateResult *page;

	while (more && (page = tbm_iterate(iterator)) != NULL)
		more = fn(arg, page->blockno, page->offsets, page->ntuples);
	tbm_end_iterate(iterator);
#endif
}

static bool
count_page(void *arg, BlockNumber block, const OffsetNumber *offsets, int n)
{
	GrnndTidSet *set = arg;

	set->pages++;
	set->last_block = block;
	if (n < 0)
		set->lossy++;
	else if (n > 0)
	{
		set->rows += n;
		set->last_offset = Max(set->last_offset, offsets[n - 1]);
	}
	return true;
}

GrnndTidSet *
grnnd_tid_set(TIDBitmap * bitmap)
{
	GrnndTidSet *set = palloc0(sizeof(GrnndTidSet));

	set->bitmap = bitmap;
	set->context = CurrentMemoryContext;
	grnnd_tid_set_each(set, count_page, set);
	return set;
}

void
grnnd_tid_set_free(GrnndTidSet *set)
{
	tbm_free(set->bitmap);
	if (set->chunks != NULL)
	{
		pfree(set->chunks);
		pfree(set->bits);
	}
	pfree(set);
}

/* ---- the bits ---- */

/* Words of a chunk's bits. */
#define CHUNK_WORDS(set) ((Size) 1 << ((set)->shift + GRNND_CHUNK_SHIFT - 6))

typedef struct Filling
{
	GrnndTidSet *set;
	uint32		nchunks;		/* chunks in set->bits, the empty chunk included */
	uint32		room;
} Filling;

static bool
fill_page(void *arg, BlockNumber block, const OffsetNumber *offsets, int n)
{
	Filling    *f = arg;
	GrnndTidSet *set = f->set;
	Size		bytes = CHUNK_WORDS(set) * sizeof(uint64);
	uint32	   *chunk = &set->chunks[block >> GRNND_CHUNK_SHIFT];
	uint64		first;

	if (*chunk == 0)
	{
		if (f->nchunks == f->room)
		{
			f->room *= 2;
			set->bits = repalloc_huge(set->bits, f->room * bytes);
		}
		memset((char *) set->bits + f->nchunks * bytes, 0, bytes);
		*chunk = f->nchunks++;
	}
	first = ((uint64) *chunk << GRNND_CHUNK_SHIFT | (block & ((1 << GRNND_CHUNK_SHIFT) - 1))) << set->shift;
	for (int i = 0; i < n; i++)
		set->bits[(first + offsets[i]) >> 6] |= UINT64_C(1) << ((first + offsets[i]) & 63);
	for (uint32 i = 0; n < 0 && i < UINT32_C(1) << set->shift; i++)
		set->bits[(first + i) >> 6] |= UINT64_C(1) << ((first + i) & 63);
	return true;
}

void
grnnd_tid_set_prepare(GrnndTidSet *set)
{
	Filling		f = {.set = set, .nchunks = 1, .room = 64};
	Size		chunks;

	if (set->chunks != NULL)
		return;
	/* the last bit of a page is for lossy pages */
	while ((UINT32_C(1) << set->shift) <= (uint32) set->last_offset + 1)
		set->shift++;
	set->end = set->pages > 0 ? set->last_block + 1 : 0;
	chunks = ((Size) set->end >> GRNND_CHUNK_SHIFT) + 1;
	set->bits = MemoryContextAllocHuge(set->context, f.room * CHUNK_WORDS(set) * sizeof(uint64));
	memset(set->bits, 0, CHUNK_WORDS(set) * sizeof(uint64));
	set->chunks = MemoryContextAllocExtended(set->context, chunks * sizeof(uint32), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	grnnd_tid_set_each(set, fill_page, &f);
}
