/*
 * vacuum_lists.c - dead nodes out of the lists by values.
 *
 * First all pages with records of lists are read in file order and rows of dead nodes dropped, and
 * all rows of records that are of no list any more, since a fit has begun others.
 * Then the chains that have lost rows are walked: records without rows are taken out, and the
 * directory is told where there is room.  Inserts put new records in front meanwhile, and rows
 * into those that are not empty.
 *
 * All records of a group lie on one page.  The rows that are left move to the first ones, and
 * records without rows are freed; the guide forgets a group that has no row.  A guide is freed as a
 * whole, when it names no group: scans go from one of its records to the next without a lock.
 */
#include "am/write/vacuum.h"

#include "access/generic_xlog.h"
#include "storage/bufmgr.h"

#include "am/lists.h"
#include "am/page.h"
#include "am/test_point.h"
#include "am/write/edit.h"
#include "am/write/maintenance.h"

/* (Rows of guides are groups.) */
static bool
has_dead_row(GrnndVacuum *v, const GrnRecord *rec)
{
	for (uint32 i = 0; i < rec->ntids16 && (rec->flags & GRN_GUIDE) == 0; i++)
	{
		GrnListRow	row = grn_list_row(&v->ix->layout, rec, i);

		if (row.id < v->limit && grnnd_set_has(&v->dead, row.id))
			return true;
	}
	return false;
}

static void
drop_dead_rows(GrnndVacuum *v, GrnRecord *rec)
{
	const GrnLayout *l = &v->ix->layout;
	uint16		left = 0;

	for (uint32 i = 0; i < rec->ntids16 && grnnd_is_listing(v->ix, rec); i++)
	{
		GrnListRow	row = grn_list_row(l, rec, i);

		if (row.id >= v->limit || !grnnd_set_has(&v->dead, row.id))
			grn_list_set_row(l, rec, left++, &row);
	}
	rec->ntids16 = left;
}

/*
 * Fills record i of a page, which belongs to a group, with rows of the group's records behind it,
 * and makes it the group's last record if those have no row left.  first: id of the page's first
 * record.
 */
static void
close_up(GrnndVacuum *v, Page page, uint32 first, uint32 i)
{
	const GrnLayout *l = &v->ix->layout;
	GrnRecord  *rec = grnnd_page_record(page, v->ix, i);

	for (uint32 id = rec->next; id != GRN_INVALID_ID;)
	{
		GrnRecord  *from;

		/* each record of a group lies behind the one before on the same page, so the loop ends */
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

/* Drops rows on one page; adds the buckets whose chains are to be walked, and whose guides. */
static void
clean_page(GrnndVacuum *v, uint32 first, GrnndSet *buckets, GrnndSet *guided)
{
	const GrnLayout *l = &v->ix->layout;
	Buffer		buffer = grnnd_read(v->index, grnnd_node_block(v->ix, first),
									BUFFER_LOCK_EXCLUSIVE, GRNND_NODES, v->strategy);
	GenericXLogState *xlog = NULL;
	Page		page = BufferGetPage(buffer);
	uint32		records = PageIsNew(page) ? 0 : l->per_page;
	uint32		limit = 0;

	for (uint32 i = 0; i < records; i++)
	{
		GrnRecord  *rec = grnnd_page_record(page, v->ix, i);
		uint16		unused;
		uint32		bucket;
		bool		listing;
		bool		dead;

		grnnd_check_record(v->index, v->ix, first + i, rec, &limit);
		if (rec->state != GRN_LIST)
			continue;
		bucket = grn_tids_owner(rec, &unused);
		listing = grnnd_is_listing(v->ix, rec);
		if (listing && bucket >= buckets->limit)
			grnnd_corrupt(v->index, grnnd_node_block(v->ix, first), "impossible list of rows");
		dead = listing ? has_dead_row(v, rec) : rec->ntids16 > 0;
		if (dead)
		{
			if (xlog == NULL)
			{
				xlog = GenericXLogStart(v->index);
				page = GenericXLogRegisterBuffer(xlog, buffer, 0);
				rec = grnnd_page_record(page, v->ix, i);
			}
			drop_dead_rows(v, rec);
		}
		if (listing && (dead || rec->ntids16 == 0))
			grnnd_set_add((rec->flags & (GRN_GROUP | GRN_GUIDE)) != 0 ? guided : buckets, bucket);
	}
	for (uint32 i = 0; i < records; i++)
	{
		GrnRecord  *rec = grnnd_page_record(page, v->ix, i);

		if (xlog != NULL && grnnd_is_listing(v->ix, rec) && (rec->flags & GRN_GROUP) != 0)
			close_up(v, page, first, i);
		/* an insert or a vacuum that was interrupted may have left it in no chain or guide */
		if (rec->state == GRN_LIST && rec->ntids16 == 0)
			grnnd_set_add(&v->empty, first + i);
	}
	if (xlog != NULL)
		GenericXLogFinish(xlog);
	UnlockReleaseBuffer(buffer);
}

/* Takes record id, which is empty, out of its chain.  False: what was before it has changed. */
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
	same = grnnd_in_list(v->ix, e.rec, bucket) && e.rec->next == id;
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
		if (!grnnd_in_list(v->ix, rec, bucket) || ++steps > limit)
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
	/* where an insert has put a record in front, that one has room */
	grnnd_change_list_head(v->index, v->ix, bucket, &head, &better);
}

/* Has a guide forget the groups that are empty.  If it has no other, it goes. */
static void
clean_guide(GrnndVacuum *v, uint32 bucket)
{
	const GrnLayout *l = &v->ix->layout;
	uint32		limit = v->limit;	/* (nobody has made a guide since) */
	uint32		first = grnnd_list_head(v->index, v->ix, bucket).guide;
	uint32		groups = 0;
	uint32		steps = 0;
	uint32		next;

	for (uint32 id = first; id != GRN_INVALID_ID; id = next)
	{
		GrnndEdit	e;
		uint16		unused;
		uint16		left = 0;

		grnnd_delay_point();
		if (id >= limit || ++steps > limit)
			grnnd_corrupt(v->index, grnnd_node_block(v->ix, id), "impossible list of rows");
		grnnd_edit_begin(&e, v->index, v->ix, id);
		if (!grnnd_is_listing(v->ix, e.rec) || (e.rec->flags & GRN_GUIDE) == 0 ||
			grn_tids_owner(e.rec, &unused) != bucket)
			grnnd_corrupt(v->index, grnnd_node_block(v->ix, id), "impossible list of rows");
		/* (clean_page() has taken it for one to be freed if it names no group) */
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
	/* scans that have read the head find records of no list, as an empty guide is */
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

	if (v->listed.count == 0)
		return;
	grnnd_set_init(&buckets, v->ix->meta.list_buckets * v->ix->meta.ncolumns);
	grnnd_set_init(&guided, buckets.limit);
	for (uint32 page = grnnd_set_next(&v->listed, 0); page != GRN_INVALID_ID;
		 page = grnnd_set_next(&v->listed, page + 1))
	{
		grnnd_delay_point();
		clean_page(v, page * l->per_page, &buckets, &guided);
	}
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
