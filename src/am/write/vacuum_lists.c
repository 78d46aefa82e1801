/*
 * vacuum_lists.c - takes dead nodes out of the lists of values, and changed nodes out of lists of
 * values that they have lost.
 *
 * First all pages with records of lists are read in file order. Rows of dead nodes are dropped, and
 * so are all rows of records that belong to no list because a fit has begun new lists.
 *
 * A changed node has lost some of its rows. If none of the remaining rows has a list's value, the
 * list's row for the node is stale. A record may also have several rows for a node and value,
 * because an insert did not see the first; all but one are then stale. Vacuum gathers the rows of
 * changed nodes from as many pages as memory allows, then waits for inserts, and then reads the
 * nodes. So vacuum sees the TIDs for which inserts have added these rows, and drops no row on which
 * an insert relies: an insert adds a row to the list unless the node has a TID with the value, and
 * only vacuum removes TIDs.
 *
 * Then vacuum walks the chains that have lost rows: records without rows are taken out, and the
 * directory learns where a chain has room. Meanwhile inserts put new records in front, and rows
 * into records that are not empty.
 *
 * All records of a group lie on one page. The remaining rows move to the first records, and records
 * without rows are freed; the guide drops a group that has no row. A guide is freed as a whole when
 * it names no group, because scans go from one record of a guide to the next without a lock.
 */
#include "am/write/vacuum.h"

#include "access/generic_xlog.h"
#include "storage/bufmgr.h"

#include "am/filter/filter.h"
#include "am/index/index.h"
#include "am/test_point.h"
#include "am/write/write.h"

/* Rows gathered at once, and those of a page. Sorting them handles no cancel. */
#define LEAST_ROOM 64
#ifdef GRNND_TEST_POINTS
#define MOST_ROOM 512			/* small, so that small indexes need several turns, too */
#else
#define MOST_ROOM (1 << 20)
#endif

/* ---- changed nodes ---- */

/* A list's row for a changed node. */
typedef struct Row
{
	uint32		node;
	uint32		rank;
	uint32		record;			/* the record of the row */
	uint16		at;
	uint8		column;
	bool		there;			/* whether a TID of the node has the value */
} Row;

/* The gathered rows; later the stale rows. */
typedef struct Rows
{
	uint32		n;
	uint32		next;			/* the first stale row of the records not cleaned yet */
	uint32		room;
	uint32		allocated;
	Row		   *rows;
} Rows;

static int
compare_nodes(const void *a, const void *b)
{
	const Row  *x = a;
	const Row  *y = b;

#define COMPARE(field) if (x->field != y->field) return x->field < y->field ? -1 : 1
	COMPARE(node);
	COMPARE(column);
	COMPARE(rank);
	COMPARE(record);
	COMPARE(at);
	return 0;
}

static int
compare_places(const void *a, const void *b)
{
	const Row  *x = a;
	const Row  *y = b;

	COMPARE(record);
	COMPARE(at);
	return 0;
#undef COMPARE
}

static void
add_row(Rows *r, const Row *row)
{
	if (r->n == r->allocated)
	{
		r->allocated *= 2;
		r->rows = repalloc_huge(r->rows, (Size) r->allocated * sizeof(Row));
	}
	r->rows[r->n++] = *row;
}

/* Gathers the rows of a page, whose first record has the id `first`. */
static void
gather_page(GrnndVacuum *v, Rows *r, uint32 first)
{
	const GrnLayout *l = &v->ix->layout;
	Buffer		buffer = grnnd_read(v->index, grnnd_node_block(v->ix, first), BUFFER_LOCK_SHARE,
									GRNND_NODES, v->strategy);
	Page		page = BufferGetPage(buffer);
	uint32		limit = 0;

	for (uint32 i = 0; i < l->per_page && !PageIsNew(page); i++)
	{
		const GrnRecord *rec = grnnd_page_record(page, v->ix, i);
		Row			row = {.record = first + i};
		uint16		unused;

		grnnd_check_record(v->index, v->ix, first + i, rec, &limit);
		if (!grnnd_is_listing(v->ix, rec) || (rec->flags & GRN_GUIDE) != 0)
			continue;
		row.column = (uint8) (grn_tids_owner(rec, &unused) / v->ix->meta.list_buckets);
		for (row.at = 0; row.at < rec->ntids16; row.at++)
		{
			GrnListRow	of_list = grn_list_row(l, rec, row.at);

			row.node = of_list.id;
			row.rank = of_list.rank;
			if (grnnd_set_has(&v->changed, row.node))
				add_row(r, &row);
		}
	}
	UnlockReleaseBuffer(buffer);
}

/* The first of a node's rows [n] that does not precede a column and rank. */
static uint32
find_rank(const Row *rows, uint32 n, uint32 column, uint32 rank)
{
	uint32		low = 0;
	uint32		high = n;

	while (low < high)
	{
		uint32		mid = (low + high) / 2;

		if (rows[mid].column < column || (rows[mid].column == column && rows[mid].rank < rank))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Marks the rows [n] of a node that have a value beside the TIDs [ntids] of its record. */
static void
find_values(const GrnndIndex *ix, const GrnRecord *rec, uint32 ntids, Row *rows, uint32 n)
{
	for (uint32 i = 0; i < ntids; i++)
		for (uint32 c = 0; c < ix->attrs->n; c++)
		{
			const uint8 *values = grn_rec_attrs(&ix->layout, rec) + i * ix->layout.attr_bytes;
			uint32		rank = grnnd_attr_rank(ix->attrs, ix->books, c, values);

			for (uint32 k = find_rank(rows, n, c, rank);
				 k < n && rows[k].column == c && rows[k].rank == rank; k++)
				rows[k].there = grnnd_has_list(&ix->attrs->attr[c]);
		}
}

/* Finds the stale rows among a node's rows [n]; rec: room for records. */
static void
judge_node(GrnndVacuum *v, Row *rows, uint32 n, GrnRecord *rec)
{
	uint32		node = rows[0].node;
	uint32		limit = grnnd_id_limit(v->index, v->ix);
	uint32		steps = 0;
	uint16		version;

	/* rows of dead nodes are dropped anyway */
	if (grnnd_copy_record(v->index, v->ix, node, rec, v->strategy) != GRN_NODE)
		return;
	version = rec->version;
	find_values(v->ix, rec, rec->ntids, rows, n);
	for (uint32 id = rec->next; id != GRN_INVALID_ID; id = rec->next)
	{
		grnnd_delay_point();
		grnnd_copy_record(v->index, v->ix, id, rec, v->strategy);
		if (!grn_tids_owned_by(rec, node, version) || ++steps > limit)
			grnnd_corrupt(v->index, grnnd_node_block(v->ix, id),
						  "chain of heap TIDs holds a foreign record");
		find_values(v->ix, rec, rec->ntids16, rows, n);
	}
}

/* Keeps the stale rows of the gathered rows, in the order of their places. */
static void
judge(GrnndVacuum *v, Rows *r)
{
	GrnRecord  *rec = palloc(grnnd_copy_bytes(v->ix));
	Row			kept = {0};
	uint32		left = 0;
	uint32		end;

	qsort(r->rows, r->n, sizeof(Row), compare_nodes);
	for (uint32 i = 0; i < r->n; i = end)
	{
		for (end = i + 1; end < r->n && r->rows[end].node == r->rows[i].node;)
			end++;
		grnnd_delay_point();
		judge_node(v, r->rows + i, end - i, rec);
	}
	pfree(rec);
	for (uint32 i = 0; i < r->n; i++)
	{
		const Row  *row = &r->rows[i];

		/* the rows before i are overwritten, but not the last row that stays */
		if (!row->there || (kept.there && kept.node == row->node && kept.column == row->column &&
							kept.rank == row->rank && kept.record == row->record))
			r->rows[left++] = *row;
		else
			kept = *row;
	}
	r->n = left;
	qsort(r->rows, r->n, sizeof(Row), compare_places);
}

/*
 * Gathers the rows for changed nodes from page `page` on, as far as memory allows, and keeps the
 * stale rows.  Returns the page of lists that follows, or GRN_INVALID_ID.
 */
static uint32
gather(GrnndVacuum *v, Rows *r, uint32 page)
{
	const GrnLayout *l = &v->ix->layout;

	r->n = r->next = 0;
	for (; page != GRN_INVALID_ID && r->n < r->room; page = grnnd_set_next(&v->listed, page + 1))
		if (v->changed.count > 0)
		{
			grnnd_delay_point();
			gather_page(v, r, page * l->per_page);
		}
	if (r->n > 0)
	{
		grnnd_test_point("vacuum-gathered");
		grnnd_wait_for_inserts(v->index);
		judge(v, r);
	}
	return page;
}

/* ---- rows of lists ---- */

/*
 * Returns whether row i of record id must go.  Asked in the order of places; rows added after the
 * gathering come behind the stale rows.
 */
static bool
is_to_go(const GrnndVacuum *v, Rows *r, uint32 id, uint32 i, const GrnListRow *row)
{
	while (r->next < r->n && r->rows[r->next].record < id)
		r->next++;
	if (r->next < r->n && r->rows[r->next].record == id && r->rows[r->next].at == i)
	{
		const Row  *stale = &r->rows[r->next++];

		if (stale->node == row->id && stale->rank == row->rank)
			return true;
	}
	return row->id < v->limit && grnnd_set_has(&v->dead, row->id);
}

/*
 * Drops dead rows from a record, and all rows if the record is garbage.  Rows of guides are groups.
 * Returns false if no row had to go.
 */
static bool
drop_dead_rows(const GrnndVacuum *v, Rows *r, uint32 id, GrnRecord *rec)
{
	const GrnLayout *l = &v->ix->layout;
	bool		listing = grnnd_is_listing(v->ix, rec);
	uint16		n = rec->ntids16;
	uint16		left = 0;

	if (listing && (rec->flags & GRN_GUIDE) != 0)
		return false;
	for (uint32 i = 0; i < n && listing; i++)
	{
		GrnListRow	row = grn_list_row(l, rec, i);

		if (is_to_go(v, r, id, i, &row))
			continue;
		if (left < i)
			grn_list_set_row(l, rec, left, &row);
		left++;
	}
	rec->ntids16 = left;
	return left < n;
}

/*
 * Fills record i of a page, part of a group, with rows of the group's following records, and makes
 * record i the group's last if the following records have no row left. first: id of the page's
 * first record.
 */
static void
close_up(GrnndVacuum *v, Page page, uint32 first, uint32 i)
{
	const GrnLayout *l = &v->ix->layout;
	GrnRecord  *rec = grnnd_page_record(page, v->ix, i);

	for (uint32 id = rec->next; id != GRN_INVALID_ID;)
	{
		GrnRecord  *from;

		/* each record of a group follows its predecessor on the same page, so the loop ends */
		if (id <= first + i || id - first >= l->per_page)
			grnnd_corrupt(v->index, grnnd_node_block(v->ix, first), "impossible group of rows");
		from = grnnd_page_record(page, v->ix, id - first);
		if (!grnnd_is_listing(v->ix, from) || (from->flags & GRN_GROUP) == 0)
			grnnd_corrupt(v->index, grnnd_node_block(v->ix, first), "impossible group of rows");
		while (rec->ntids16 < grn_list_rows(l) && from->ntids16 > 0)
		{
			GrnListRow	row = grn_list_row(l, from, --from->ntids16);

			grn_list_set_row(l, rec, rec->ntids16++, &row);
		}
		if (from->ntids16 > 0)
			return;
		id = from->next;
	}
	rec->next = GRN_INVALID_ID;
}

/*
 * Drops rows on one page, in a copy of the page; adds the buckets whose chains and guides must be
 * walked.
 */
static void
clean_page(GrnndVacuum *v, Rows *r, uint32 first, char *copy, GrnndSet *buckets, GrnndSet *guided)
{
	const GrnLayout *l = &v->ix->layout;
	Buffer		buffer = grnnd_read(v->index, grnnd_node_block(v->ix, first),
									BUFFER_LOCK_EXCLUSIVE, GRNND_NODES, v->strategy);
	uint32		records = PageIsNew(BufferGetPage(buffer)) ? 0 : l->per_page;
	uint32		limit = 0;
	bool		changed = false;

	memcpy(copy, BufferGetPage(buffer), BLCKSZ);
	for (uint32 i = 0; i < records; i++)
	{
		GrnRecord  *rec = grnnd_page_record(copy, v->ix, i);
		uint16		unused;
		uint32		bucket;
		bool		dropped;

		grnnd_check_record(v->index, v->ix, first + i, rec, &limit);
		if (rec->state != GRN_LIST)
			continue;
		bucket = grn_tids_owner(rec, &unused);
		if (grnnd_is_listing(v->ix, rec) && bucket >= buckets->limit)
			grnnd_corrupt(v->index, grnnd_node_block(v->ix, first), "impossible list of rows");
		dropped = drop_dead_rows(v, r, first + i, rec);
		changed |= dropped;
		if (grnnd_is_listing(v->ix, rec) && (dropped || rec->ntids16 == 0))
			grnnd_set_add((rec->flags & (GRN_GROUP | GRN_GUIDE)) != 0 ? guided : buckets, bucket);
	}
	for (uint32 i = 0; i < records; i++)
	{
		GrnRecord  *rec = grnnd_page_record(copy, v->ix, i);

		if (changed && grnnd_is_listing(v->ix, rec) && (rec->flags & GRN_GROUP) != 0)
			close_up(v, copy, first, i);
		/* an interrupted insert or vacuum may have left the record in no chain or guide */
		if (rec->state == GRN_LIST && rec->ntids16 == 0)
			grnnd_set_add(&v->empty, first + i);
	}
	if (changed)
	{
		GenericXLogState *xlog = GenericXLogStart(v->index);

		memcpy(GrnndPagePayload(GenericXLogRegisterBuffer(xlog, buffer, 0)), GrnndPagePayload(copy), GRNND_PAYLOAD);
		GenericXLogFinish(xlog);
	}
	UnlockReleaseBuffer(buffer);
}

/* Takes the empty record id out of its chain. Returns false if the preceding record has changed. */
static bool
take_out(GrnndVacuum *v, uint32 bucket, uint32 before, uint32 id, uint32 next)
{
	GrnndEdit	e;
	bool		same;

	if (before == GRN_INVALID_ID)
	{
		GrnndListHead head = grnnd_list_head(v->index, v->ix, bucket);
		GrnndListHead shorter = head;

		if (head.first != id)
			return false;
		shorter.first = shorter.room = next;
		shorter.records -= shorter.records > 0;
		return grnnd_change_list_head(v->index, v->ix, bucket, &head, &shorter);
	}
	grnnd_edit_begin(&e, v->index, v->ix, before);
	same = grnnd_in_list(v->ix, e.rec, bucket, 0) && e.rec->next == id;
	if (same)
		grnnd_edit_change(&e)->next = next;
	grnnd_edit_end(&e);
	return same;
}

static void
clean_chain(GrnndVacuum *v, uint32 bucket, GrnRecord *rec)
{
	const GrnLayout *l = &v->ix->layout;
	GrnndListHead head;
	GrnndListHead better;
	uint32		limit;
	uint32		steps;
	uint32		before;
	uint32		id;

again:
	limit = grnnd_id_limit(v->index, v->ix);
	head = better = grnnd_list_head(v->index, v->ix, bucket);
	better.room = GRN_INVALID_ID;
	better.records = 0;
	before = GRN_INVALID_ID;
	steps = 0;
	for (id = head.first; id != GRN_INVALID_ID; id = rec->next)
	{
		grnnd_delay_point();
		grnnd_copy_record(v->index, v->ix, id, rec, v->strategy);
		if (!grnnd_in_list(v->ix, rec, bucket, 0) || ++steps > limit)
			grnnd_corrupt(v->index, grnnd_node_block(v->ix, id), "impossible list of rows");
		if (rec->ntids16 == 0)
		{
			bool		first = before == GRN_INVALID_ID;

			if (!take_out(v, bucket, before, id, rec->next))
				goto again;
			if (first)
				head.first = better.first = rec->next;
			continue;
		}
		if (better.room == GRN_INVALID_ID && rec->ntids16 < grn_list_rows(l))
			better.room = id;
		better.records++;
		before = id;
	}
	if (better.room == GRN_INVALID_ID)
		better.room = better.first;
	/* if an insert has put a record in front, that record has room */
	grnnd_change_list_head(v->index, v->ix, bucket, &head, &better);
}

/* Drops the empty groups from a guide. Frees the guide if it has no other group. */
static void
clean_guide(GrnndVacuum *v, uint32 bucket)
{
	const GrnLayout *l = &v->ix->layout;
	uint32		limit = v->limit;	/* nothing has made a guide since */
	uint32		first = grnnd_list_head(v->index, v->ix, bucket).guide;
	uint32		groups = 0;
	uint32		steps = 0;
	uint32		next;

	for (uint32 id = first; id != GRN_INVALID_ID; id = next)
	{
		GrnndEdit	e;
		uint16		left = 0;

		grnnd_delay_point();
		if (id >= limit || ++steps > limit)
			grnnd_corrupt(v->index, grnnd_node_block(v->ix, id), "impossible list of rows");
		grnnd_edit_begin(&e, v->index, v->ix, id);
		if (!grnnd_in_list(v->ix, e.rec, bucket, GRN_GUIDE))
			grnnd_corrupt(v->index, grnnd_node_block(v->ix, id), "impossible list of rows");
		/* clean_page() has marked the record as free if it names no group */
		grnnd_set_remove(&v->empty, id);
		for (uint32 i = 0; i < e.rec->ntids16; i++)
			left += !grnnd_set_has(&v->empty, grn_list_row(l, e.rec, i).id);
		if (left < e.rec->ntids16)
		{
			GrnRecord  *rec = grnnd_edit_change(&e);
			uint16		kept = 0;

			for (uint32 i = 0; i < rec->ntids16; i++)
			{
				GrnListRow	row = grn_list_row(l, rec, i);

				if (!grnnd_set_has(&v->empty, row.id))
					grn_list_set_row(l, rec, kept++, &row);
			}
			rec->ntids16 = kept;
		}
		next = e.rec->next;
		grnnd_edit_end(&e);
		groups += left;
	}
	grnnd_set_guide(v->index, v->ix, bucket, groups > 0 ? first : GRN_INVALID_ID, groups);
	/* scans that have read the head find records of no list, as in an empty guide */
	for (uint32 id = first; groups == 0 && id != GRN_INVALID_ID; id = next)
	{
		GrnndEdit	e;

		grnnd_edit_begin(&e, v->index, v->ix, id);
		next = e.rec->next;
		grnnd_edit_end(&e);
		grnnd_set_add(&v->empty, id);
	}
}

void
grnnd_clean_lists(GrnndVacuum *v)
{
	const GrnLayout *l = &v->ix->layout;
	GrnndSet	buckets;
	GrnndSet	guided;
	GrnRecord  *rec;
	char	   *copy;
	Rows		r = {0};

	if (v->listed.count == 0)
		return;
	grnnd_set_init(&buckets, v->ix->meta.list_buckets * v->ix->meta.ncolumns);
	grnnd_set_init(&guided, buckets.limit);
	/* the array doubles */
	r.room = (uint32) Min(Max(v->memory.limit / (2 * sizeof(Row)), LEAST_ROOM), MOST_ROOM);
	r.rows = palloc(LEAST_ROOM * sizeof(Row));
	r.allocated = LEAST_ROOM;
	copy = palloc(BLCKSZ);
	for (uint32 page = grnnd_set_next(&v->listed, 0), end; page != GRN_INVALID_ID; page = end)
	{
		end = gather(v, &r, page);
		for (; page != end; page = grnnd_set_next(&v->listed, page + 1))
		{
			grnnd_delay_point();
			clean_page(v, &r, page * l->per_page, copy, &buckets, &guided);
		}
	}
	grnnd_note_memory(v);
	pfree(r.rows);
	pfree(copy);
	grnnd_test_point("vacuum-lists");
	rec = palloc(grnnd_copy_bytes(v->ix));
	for (uint32 b = grnnd_set_next(&buckets, 0); b != GRN_INVALID_ID;
		 b = grnnd_set_next(&buckets, b + 1))
		clean_chain(v, b, rec);
	for (uint32 b = grnnd_set_next(&guided, 0); b != GRN_INVALID_ID;
		 b = grnnd_set_next(&guided, b + 1))
		clean_guide(v, b);
	pfree(rec);
}
