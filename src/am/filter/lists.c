/*
 * lists.c - lists of rows by the values of filter columns: the directory, and adding rows.
 * list_read.c reads lists.
 */
#include "am/filter/filter.h"

#include "access/generic_xlog.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "am/index/index.h"
#include "am/test_point.h"
#include "am/write/write.h"
#include "builder/protocol.h"

/*
 * Target pages of a value's list if many values share the rows.  20,000 sentences and image
 * patches: half makes the index .2% larger, twice .1% smaller, at the same visits.
 */
#define BUCKET_PAGES 2
/*
 * Small indexes have short buckets, so that a frequent value has its own bucket: ranks distinguish
 * 256 groups of values.  With fewer than LEAST_ROWS rows a bucket, the unused ends of records
 * would take as much space as rows do.  Filters that 1 to 30% of 20,000 sentences and image
 * patches pass: half of GROUPS takes 2 to 69% more visits.  Twice of GROUPS, and half and twice of
 * LEAST_ROWS and MIN_BUCKETS, take as many visits as now.
 */
#define GROUPS 256
#define LEAST_ROWS 16
#define MIN_BUCKETS 8
/*
 * Maximum number of full records that an insert reads before it starts a new record.  With half and
 * twice 6,000 sentences inserted take the same bytes and visits.
 */
#define MOST_STEPS 8
/*
 * Buckets of a column for lists that a later fit makes: enough for a million rows, five pages
 * each.  Half and twice change an index of 6,000 sentences by .1 and .2%, and no visit.
 */
#define OPEN_BUCKETS 1024

uint32
grnnd_list_buckets(const GrnLayout *l, uint64 nodes)
{
	uint64		rows = (uint64) grn_list_rows(l) * l->per_page * BUCKET_PAGES;

	uint64		buckets = Max(nodes / rows, Min(nodes / LEAST_ROWS, GROUPS));

	return (uint32) Min(Max(buckets, MIN_BUCKETS), GRN_MOST_BUCKETS);
}

uint32
grnnd_open_list_pages(uint32 ncolumns)
{
	return (OPEN_BUCKETS * ncolumns + GRNND_LISTS_PER_PAGE - 1) / GRNND_LISTS_PER_PAGE;
}

/* ---- the directory ---- */

/* Locks the directory's page with a bucket's entry. */
static Buffer
read_head(Relation index, const GrnndIndex *ix, uint32 bucket, int lockmode)
{
	Assert(bucket / GRNND_LISTS_PER_PAGE < ix->meta.list_pages);
	return grnnd_read(index, ix->meta.list_block + bucket / GRNND_LISTS_PER_PAGE, lockmode,
					  GRNND_LISTS, NULL);
}

GrnndListHead
grnnd_list_head(Relation index, const GrnndIndex *ix, uint32 bucket)
{
	Buffer		buffer = read_head(index, ix, bucket, BUFFER_LOCK_SHARE);
	GrnndListHead head = *grnnd_list_head_on(BufferGetPage(buffer), bucket);

	UnlockReleaseBuffer(buffer);
	return head;
}

bool
grnnd_change_list_head(Relation index, const GrnndIndex *ix, uint32 bucket,
					   const GrnndListHead *expected, const GrnndListHead *head)
{
	Buffer		buffer = read_head(index, ix, bucket, BUFFER_LOCK_EXCLUSIVE);
	bool		same = grnnd_list_head_on(BufferGetPage(buffer), bucket)->first == expected->first;

	if (same)
	{
		GenericXLogState *xlog = GenericXLogStart(index);

		GrnndListHead *to = grnnd_list_head_on(GenericXLogRegisterBuffer(xlog, buffer, 0), bucket);

		to->first = head->first;
		to->room = head->room;
		to->records = head->records;
		GenericXLogFinish(xlog);
	}
	UnlockReleaseBuffer(buffer);
	return same;
}

void
grnnd_set_guide(Relation index, const GrnndIndex *ix, uint32 bucket, uint32 guide, uint32 groups)
{
	Buffer		buffer = read_head(index, ix, bucket, BUFFER_LOCK_EXCLUSIVE);
	GenericXLogState *xlog = GenericXLogStart(index);
	GrnndListHead *head = grnnd_list_head_on(GenericXLogRegisterBuffer(xlog, buffer, 0), bucket);

	head->guide = guide;
	head->groups = groups;
	GenericXLogFinish(xlog);
	UnlockReleaseBuffer(buffer);
}

void
grnnd_clear_lists(Relation index, const GrnndIndex *ix)
{
	for (uint32 i = 0; i < ix->meta.list_pages; i++)
	{
		Buffer		buffer = read_head(index, ix, i * GRNND_LISTS_PER_PAGE, BUFFER_LOCK_EXCLUSIVE);
		GenericXLogState *xlog = GenericXLogStart(index);
		GrnndListHead *heads = grnnd_list_head_on(GenericXLogRegisterBuffer(xlog, buffer, 0), 0);

		for (uint32 b = 0; b < GRNND_LISTS_PER_PAGE; b++)
			heads[b] = GRNND_NO_LIST;
		GenericXLogFinish(xlog);
		UnlockReleaseBuffer(buffer);
	}
}

bool
grnnd_is_listing(const GrnndIndex *ix, const GrnRecord *rec)
{
	uint16		generation;

	(void) grn_tids_owner(rec, &generation);
	return rec->state == GRN_LIST && grnnd_keeps_lists(&ix->meta) &&
		generation == ix->meta.list_generation;
}

bool
grnnd_in_list(const GrnndIndex *ix, const GrnRecord *rec, uint32 bucket, uint16 part)
{
	uint16		unused;

	return grnnd_is_listing(ix, rec) && (rec->flags & (GRN_GROUP | GRN_GUIDE)) == part &&
		grn_tids_owner(rec, &unused) == bucket;
}

/* ---- adding ---- */

/* Appends up to n rows to a record, as many as fit.  Returns their number. */
static uint32
put_rows(const GrnLayout *l, GrnRecord *rec, const GrnListRow *rows, uint32 n)
{
	uint32		count = Min(n, grn_list_rows(l) - rec->ntids16);

	for (uint32 i = 0; i < count; i++)
		grn_list_set_row(l, rec, rec->ntids16++, &rows[i]);
	return count;
}

/*
 * Adds rows to the first record with room, from *id on.  Returns their number, or 0 if no record
 * among the next few has room, because inserts must not walk long chains of full records.  An
 * empty record gets no rows, because vacuum may be about to free it.
 */
static uint32
add_from(Relation index, const GrnndIndex *ix, uint32 bucket, uint32 *id, const GrnListRow *rows,
		 uint32 n)
{
	const GrnLayout *l = &ix->layout;
	uint32		limit = grnnd_id_limit(index, ix);

	for (uint32 steps = 0; *id != GRN_INVALID_ID && *id < limit && steps < MOST_STEPS; steps++)
	{
		GrnndEdit	e;
		uint32		next = GRN_INVALID_ID;
		uint32		added = 0;

		CHECK_FOR_INTERRUPTS();
		grnnd_edit_begin(&e, index, ix, *id);
		if (grnnd_in_list(ix, e.rec, bucket, 0))
		{
			next = e.rec->next;
			if (e.rec->ntids16 > 0 && e.rec->ntids16 < grn_list_rows(l))
				added = put_rows(l, grnnd_edit_change(&e), rows, n);
		}
		grnnd_edit_end(&e);
		if (added > 0)
			return added;
		*id = next;
	}
	return 0;
}

/* Adds rows in a new record at the front of the chain.  Returns their number. */
static uint32
prepend(Relation index, Relation heap, const GrnndIndex *ix, uint32 bucket, const GrnListRow *rows,
		uint32 n)
{
	GrnndListHead head = grnnd_list_head(index, ix, bucket);
	GrnRecord  *rec = palloc0(ix->layout.record_bytes);
	uint32		added;
	uint32		id;

	grn_list_start(rec, bucket, ix->meta.list_generation, 0);
	rec->next = head.first;
	added = put_rows(&ix->layout, rec, rows, n);
	id = grnnd_new_record(index, heap, ix, rec);
	pfree(rec);
	grnnd_test_point("list-written");
	for (;;)
	{
		GrnndListHead longer = {.first = id, .room = id, .records = head.records + 1};	/* the guide does not
																						 * change */
		GrnndEdit	e;

		if (grnnd_change_list_head(index, ix, bucket, &head, &longer))
			return added;
		/* the chain has a new first record, to which the record that nobody knows yet leads */
		head = grnnd_list_head(index, ix, bucket);
		grnnd_edit_begin(&e, index, ix, id);
		grnnd_edit_change(&e)->next = head.first;
		grnnd_edit_end(&e);
	}
}

void
grnnd_list_add(Relation index, Relation heap, const GrnndIndex *ix, uint32 bucket,
			   const GrnListRow *rows, uint32 n)
{
	GrnndListHead head = grnnd_list_head(index, ix, bucket);
	GrnndListHead longer = head;
	uint32		done = add_from(index, ix, bucket, &longer.room, rows, n);

	/* the record with room was several steps away, so save the next insert these steps */
	if (done > 0 && longer.room != head.room)
		grnnd_change_list_head(index, ix, bucket, &head, &longer);
	while (done < n)
		done += prepend(index, heap, ix, bucket, rows + done, n - done);
}
