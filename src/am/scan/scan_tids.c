/*
 * scan_tids.c - scans for the rows of other indexes' bitmaps.
 *
 * The size of the bitmap decides how a scan finds its rows (README).  If nearly all rows are in the
 * bitmap, the search tests nothing.
 */
#include "am/scan/scan_impl.h"

#include <math.h>

#include "access/htup_details.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

/*
 * A set with this share of the rows is no condition of the search.  20,000 sentences and image
 * patches, sets of 1 to 30%: no visit changes with half and twice.
 */
#define NEARLY_ALL 0.8
/*
 * The rows of a set are read unless the estimate of a search is less than 1/SURE of their cost: a
 * search that gives up has cost as much as the rows, which are then read as well.  Of 12 conditions
 * on 10,000 rows of 128 numbers, the worst takes 3 times as long as the exact plan with 1, twice
 * with 2, and as long with 4, which would also read the rows at 3% of 100,000 sentences, where a
 * search takes a fifth of the time.
 */
#define SURE 2

/* A row that was read. */
typedef struct SetRow
{
	double		value;
	uint64		tid;			/* block << 16 | offset; LATE: returned after all other rows */
} SetRow;

#define LATE (UINT64_C(1) << 63)

static inline uint64
tid_number(const ItemPointerData *tid)
{
	return (uint64) ItemPointerGetBlockNumberNoCheck(tid) << 16 | ItemPointerGetOffsetNumberNoCheck(tid);
}

/* ---- the size of the set ---- */

static bool
has_set(const void *rows, const uint8_t *tid)
{
	return grnnd_tid_set_has(rows, tid);
}

/* Number of rows of the set, about. */
static double
set_size(const GrnndScan *so, const GrnndTidSet *set, Relation table)
{
	double		on_page = Max(1, (double) so->store.id_limit / Max(1, RelationGetNumberOfBlocks(table)));

	return set->rows + set->lossy * on_page;
}

void
grnnd_begin_set(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	GrnndPlanned *note = grnnd_planned(so->keys);
	GrnndTidSet *set = note == NULL ? NULL : note->set;

	so->set.share = 1;
	if (set == NULL)
		return;
	so->set.size = set_size(so, set, scan->heapRelation);
	if (so->set.size > NEARLY_ALL * so->store.id_limit)
	{
		so->set.filtered = true;
		return;
	}
	so->set.rows = set;
	so->set.share = Max(so->set.size, 1) / Max(so->store.id_limit, 1);
	if (so->filter == NULL)
		so->filter = palloc0(sizeof(GrnndFilter));
	so->filter->base.has = has_set;
	so->filter->base.rows = set;
}

double
grnnd_set_cost(const GrnndScan *so)
{
	return grnnd_set_rows_cost(so->ix, so->set.size);
}

bool
grnnd_set_serves(const GrnndScan *so)
{
	return so->set.rows != NULL && so->set.size * sizeof(SetRow) <= so->asked.memory_limit;
}

bool
grnnd_set_is_small(const GrnndScan *so)
{
	return grnnd_set_serves(so) &&
		grnnd_set_cost(so) <= SURE * grnnd_set_visits(so->ix, (double) so->width.ef * grnnd_beam(so->ix), so->set.share);
}

void
grnnd_note_set_row(GrnndScan *so, const ItemPointerData *tid)
{
	if (so->set.rows != NULL && so->set.heap == NULL)
		grnnd_add_number(&so->set.returned, so->context, tid_number(tid));
}

/* ---- the rows of the set ---- */

/* Does row a come before row b? */
static bool
is_before(const SetRow *a, const SetRow *b)
{
	if ((a->tid & LATE) != (b->tid & LATE))
		return a->tid < b->tid;
	return float8_lt(a->value, b->value) || (a->value == b->value && a->tid < b->tid);
}

/* Moves row i of a heap with the nearest row on top down to its place. */
static void
sift_down(SetRow *rows, Size n, Size i)
{
	SetRow		row = rows[i];

	for (Size child; (child = 2 * i + 1) < n; i = child)
	{
		if (child + 1 < n && is_before(&rows[child + 1], &rows[child]))
			child++;
		if (!is_before(&rows[child], &row))
			break;
		rows[i] = rows[child];
	}
	rows[i] = row;
}

typedef struct Reading
{
	IndexScanDesc scan;
	Size		room;
	Size		at;				/* position in so->set.returned */
	BlockNumber blocks;			/* of the table */
} Reading;

static void
read_set_row(Reading *r, BlockNumber block, OffsetNumber offset)
{
	GrnndScan  *so = (GrnndScan *) r->scan->opaque;
	ItemPointerData tid;
	SetRow		row;

	ItemPointerSet(&tid, block, offset);
	row.tid = tid_number(&tid);
	if (grnnd_has_number(&so->set.returned, &r->at, row.tid))
		return;
	if (!grnnd_read_value(r->scan, &tid, &row.value) || row.value > so->asked.threshold)
		return;
	if (so->asked.iterative != GRNND_ITERATIVE_RELAXED && float8_lt(row.value, so->results.last))
		row.tid |= LATE;
	if (so->set.n == r->room)
	{
		r->room *= 2;
		so->set.heap = repalloc_huge(so->set.heap, r->room * sizeof(SetRow));
	}
	so->set.heap[so->set.n++] = row;
}

/* Number of line pointers of a page of the table. */
static OffsetNumber
last_offset(IndexScanDesc scan, BlockNumber block)
{
	Buffer		buffer = ReadBuffer(scan->heapRelation, block);
	OffsetNumber last;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	last = PageGetMaxOffsetNumber(BufferGetPage(buffer));
	TestForOldSnapshot(scan->xs_snapshot, scan->heapRelation, BufferGetPage(buffer));
	UnlockReleaseBuffer(buffer);
	return last;
}

static bool
read_set_page(void *arg, BlockNumber block, const OffsetNumber *offsets, int n)
{
	Reading    *r = arg;
	OffsetNumber last = 0;

	CHECK_FOR_INTERRUPTS();
	/* lossy pages may lie beyond the table's end */
	if (block >= r->blocks)
		return true;
	if (n < 0 || old_snapshot_threshold >= 0)
		last = last_offset(r->scan, block);
	for (int i = 0; i < n; i++)
		read_set_row(r, block, offsets[i]);
	/* an address inside a chain of updated rows leads to no row */
	for (OffsetNumber offset = FirstOffsetNumber; n < 0 && offset <= last; offset++)
		read_set_row(r, block, offset);
	return true;
}

static bool
next_set_row(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	SetRow		row;
	ItemPointerData tid;

	if (so->set.n == 0)
		return false;
	row = so->set.heap[0];
	so->set.heap[0] = so->set.heap[--so->set.n];
	if (so->set.n > 1)
		sift_down(so->set.heap, so->set.n, 0);
	ItemPointerSet(&tid, (BlockNumber) ((row.tid & ~LATE) >> 16), (OffsetNumber) row.tid);
	grnnd_take_row(so, GRN_INVALID_ID, &tid);
	so->now.value = row.value;
	so->now.exact = true;
	return true;
}

void
grnnd_begin_set_rows(IndexScanDesc scan)
{
	GrnndScan  *so = (GrnndScan *) scan->opaque;
	Reading		r = {.scan = scan, .room = 64, .blocks = RelationGetNumberOfBlocks(scan->heapRelation)};

	so->list.reader = NULL;
	so->rerank = NULL;
	grnnd_leave_search(so, GRNND_WAY_SET);
	so->source = next_set_row;
	grnnd_sort_numbers(&so->set.returned);
	so->set.heap = MemoryContextAllocHuge(so->context, r.room * sizeof(SetRow));
	grnnd_tid_set_each(so->set.rows, read_set_page, &r);
	grnnd_end_reading(so);
	for (Size i = so->set.n / 2; i-- > 0;)
		sift_down(so->set.heap, so->set.n, i);
}
