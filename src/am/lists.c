/*
 * lists.c - lists of rows by the values of filter columns: reading them, and adding rows.
 */
#include "am/lists.h"

#include "access/generic_xlog.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "am/page.h"
#include "am/test_point.h"
#include "am/write/freespace.h"

/* Pages that the list of a value is to take where many values share the rows. */
#define BUCKET_PAGES 2
#define MIN_BUCKETS 8
#define MAX_BUCKETS 65536

bool
grnnd_is_listed(const GrnndAttrs *attrs, uint32 column, const uint8 *values)
{
	int64		key;

	return attrs->attr[column].type->kind != GRNND_ATTR_ARRAY ||
		!grnnd_attr_key(attrs, column, values, &key);
}

uint32
grnnd_list_bucket(const GrnndMeta *meta, uint32 column, uint32 hash)
{
	return column * meta->list_buckets +
		(uint32) ((uint64) hash * meta->list_buckets >> 32);
}

uint32
grnnd_list_buckets(const GrnLayout *l, uint64 nodes)
{
	uint64		rows = (uint64) grn_list_rows(l) * l->per_page * BUCKET_PAGES;

	return (uint32) Min(Max(nodes / rows, MIN_BUCKETS), MAX_BUCKETS);
}

/* ---- the directory ---- */

/* Locks the directory's page of a bucket. */
static Buffer
read_head(Relation index, const GrnndIndex *ix, uint32 bucket, int lockmode)
{
	Assert(bucket / GRNND_LISTS_PER_PAGE < ix->meta.list_pages);
	return grnnd_read(index, ix->meta.list_block + bucket / GRNND_LISTS_PER_PAGE, lockmode,
					  GRNND_LISTS, NULL);
}

static GrnndListHead *
head_on(Page page, uint32 bucket)
{
	return (GrnndListHead *) GrnndPagePayload(page) + bucket % GRNND_LISTS_PER_PAGE;
}

GrnndListHead
grnnd_list_head(Relation index, const GrnndIndex *ix, uint32 bucket)
{
	Buffer		buffer = read_head(index, ix, bucket, BUFFER_LOCK_SHARE);
	GrnndListHead head = *head_on(BufferGetPage(buffer), bucket);

	UnlockReleaseBuffer(buffer);
	return head;
}

bool
grnnd_change_list_head(Relation index, const GrnndIndex *ix, uint32 bucket,
					   const GrnndListHead *expected, const GrnndListHead *head)
{
	Buffer		buffer = read_head(index, ix, bucket, BUFFER_LOCK_EXCLUSIVE);
	bool		same = head_on(BufferGetPage(buffer), bucket)->first == expected->first;

	if (same)
	{
		GenericXLogState *xlog = GenericXLogStart(index);

		*head_on(GenericXLogRegisterBuffer(xlog, buffer, 0), bucket) = *head;
		GenericXLogFinish(xlog);
	}
	UnlockReleaseBuffer(buffer);
	return same;
}

bool
grnnd_in_list(const GrnRecord *rec, uint32 bucket)
{
	uint16		unused;

	return rec->state == GRN_LIST && grn_tids_owner(rec, &unused) == bucket;
}

/* ---- reading ---- */

typedef struct Rows
{
	uint32		n;
	uint32		ids[GRN_MAX_DEGREE];
	GrnFactor	factors[GRN_MAX_DEGREE];
	uint8_t    *codes;			/* [GRN_MAX_DEGREE][code_bytes] */
} Rows;

static void
offer_rows(Rows *rows, GrnSearch *search)
{
	grn_search_entries(search, rows->ids, rows->codes, rows->factors, rows->n);
	rows->n = 0;
}

static void
take_rows(const GrnLayout *l, const GrnRecord *rec, uint32 hash, const GrnFilter *filter,
		  uint32 limit, Rows *rows, GrnSearch *search)
{
	for (uint32 i = 0; i < rec->ntids16; i++)
	{
		const uint8_t *at = grn_list_row(l, rec, i);
		GrnListRow	row;

		memcpy(&row, at, sizeof(row));
		if (row.hash != hash || row.id >= limit ||
			!grn_sig_passes(filter, at + sizeof(row) + l->code_bytes))
			continue;
		rows->ids[rows->n] = row.id;
		rows->factors[rows->n] = row.factor;
		memcpy(rows->codes + (Size) rows->n * l->code_bytes, at + sizeof(row), l->code_bytes);
		if (++rows->n == GRN_MAX_DEGREE)
			offer_rows(rows, search);
	}
}

void
grnnd_list_read(Relation index, const GrnndIndex *ix, uint32 bucket, uint32 hash,
				const GrnFilter *filter, GrnSearch *search)
{
	const GrnLayout *l = &ix->layout;
	uint32		id = grnnd_list_head(index, ix, bucket).first;
	uint32		limit = grnnd_id_limit(index, ix);
	char	   *copy = palloc(BLCKSZ);
	Rows		rows = {.codes = palloc((Size) GRN_MAX_DEGREE * l->code_bytes + 1)};
	uint32		steps = 0;

	while (id != GRN_INVALID_ID)
	{
		BlockNumber block = grnnd_node_block(ix, id);
		Buffer		buffer;

		CHECK_FOR_INTERRUPTS();
		if (id >= limit)
			limit = grnnd_id_limit(index, ix);
		if (id >= limit || steps > limit)
			grnnd_corrupt(index, block, "impossible list of rows");
		/* the chain mostly goes on along a page, so all of it is copied */
		buffer = grnnd_read(index, block, BUFFER_LOCK_SHARE, GRNND_NODES, NULL);
		memcpy(copy, BufferGetPage(buffer), BLCKSZ);
		UnlockReleaseBuffer(buffer);
		do
		{
			const GrnRecord *rec = grnnd_page_record((Page) copy, ix, grn_node_slot(l, id));

			steps++;
			/* vacuum has freed it since we knew of it: what was read before comes twice */
			if (PageIsNew((Page) copy) || !grnnd_in_list(rec, bucket))
			{
				id = grnnd_list_head(index, ix, bucket).first;
				break;
			}
			if (grn_record_check(l, rec, id, GRN_MAX_NODES) != NULL)
				grnnd_corrupt(index, block, "impossible list of rows");
			take_rows(l, rec, hash, filter, limit, &rows, search);
			id = rec->next;
		} while (id != GRN_INVALID_ID && grnnd_node_block(ix, id) == block && steps <= limit);
	}
	offer_rows(&rows, search);
	pfree(rows.codes);
	pfree(copy);
}

/* ---- adding ---- */

void
grnnd_list_put(const GrnLayout *l, GrnRecord *rec, uint32 hash, const GrnndEdge *row)
{
	GrnListRow	head = {.id = row->id, .hash = hash, .factor = row->factor};
	uint8_t    *at = grn_list_row(l, rec, rec->ntids16++);

	memcpy(at, &head, sizeof(head));
	if (l->code_bytes > 0)
		memcpy(at + sizeof(head), row->code, l->code_bytes);
	memcpy(at + sizeof(head) + l->code_bytes, row->sig, l->sig_bytes);
}

/*
 * Puts the row into the first record from id on that has room; GRN_INVALID_ID: none has.  An
 * empty record takes none: it belongs to vacuum, which is about to free it.
 */
static uint32
add_from(Relation index, const GrnndIndex *ix, uint32 bucket, uint32 id, uint32 hash,
		 const GrnndEdge *row)
{
	const GrnLayout *l = &ix->layout;
	uint32		limit = grnnd_id_limit(index, ix);

	for (uint32 steps = 0; id != GRN_INVALID_ID && id < limit && steps < limit; steps++)
	{
		GrnndEdit	e;
		uint32		next = GRN_INVALID_ID;
		bool		added = false;

		CHECK_FOR_INTERRUPTS();
		grnnd_edit_begin(&e, index, ix, id);
		if (grnnd_in_list(e.rec, bucket))
		{
			next = e.rec->next;
			if (e.rec->ntids16 > 0 && e.rec->ntids16 < grn_list_rows(l))
			{
				grnnd_list_put(l, grnnd_edit_change(&e), hash, row);
				added = true;
			}
		}
		grnnd_edit_end(&e);
		if (added)
			return id;
		id = next;
	}
	return GRN_INVALID_ID;
}

void
grnnd_list_add(Relation index, Relation heap, const GrnndIndex *ix, uint32 bucket, uint32 hash,
			   const GrnndEdge *row)
{
	const GrnLayout *l = &ix->layout;
	GrnndListHead head = grnnd_list_head(index, ix, bucket);
	GrnndListHead longer;
	GrnRecord  *rec;
	uint32		id = add_from(index, ix, bucket, head.room, hash, row);

	if (id != GRN_INVALID_ID)
	{
		longer = head;
		longer.room = id;
		/* several steps away, so the next insert need not take them */
		if (id != head.room)
			grnnd_change_list_head(index, ix, bucket, &head, &longer);
		return;
	}
	rec = palloc0(l->record_bytes);
	rec->state = GRN_LIST;
	rec->next = head.first;
	grn_tids_set_owner(rec, bucket, 0);
	grnnd_list_put(l, rec, hash, row);
	id = grnnd_new_record(index, heap, ix, rec);
	pfree(rec);
	grnnd_test_point("list-written");
	for (;;)
	{
		GrnndEdit	e;

		longer = head;
		longer.first = longer.room = id;
		longer.records++;
		if (grnnd_change_list_head(index, ix, bucket, &head, &longer))
			break;
		/* no other backend knows of our record yet: aim it anew */
		head = grnnd_list_head(index, ix, bucket);
		grnnd_edit_begin(&e, index, ix, id);
		grnnd_edit_change(&e)->next = head.first;
		grnnd_edit_end(&e);
	}
}
