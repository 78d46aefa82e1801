/*
 * fit_lists.c - makes the lists of values of an index that was built without codes, and so without
 * lists, as soon as the index has codes. Remakes the lists of every index that has grown about
 * fourfold: more rows want more buckets, and books that know today's values.
 * 1. A book for each ordered column is fitted to a sample of the column's values.
 * 2. GRNND_WRITERS_LOCK keeps inserts out for a moment. The metapage says that the index has no
 *    lists; books and an empty directory are written; the metapage says that lists of a new
 *    generation are filling.
 * 3. All nodes are read in file order, and their rows are added to the lists in the order of
 *    buckets, as many at a time as memory holds. Records of earlier lists are freed.
 * 4. The metapage says that the lists are complete.
 *
 * An insert reads the metapage under the lock. So from step 2 on an insert adds its row to the new
 * lists, and step 3 has yet to read every node that an insert finds and that the lists lack. A scan
 * that has read lists reads the metapage afterwards: if the metapage still names the same lists,
 * every insert that the snapshot sees has written to these lists. Long lists get groups of the rows
 * at hand, and a guide that grows with the groups. An attempt that ends before step 4 leaves lists
 * that nobody reads, and the next attempt begins at step 1.
 *
 * Signatures never change. Signatures of an index that was built without codes are hashes, and the
 * books serve ranks alone. If signatures depend on a build's books, these books stay.
 */
#include "am/write/fit_impl.h"

#include "access/generic_xlog.h"
#include "access/transam.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"

#include "am/filter/filter.h"
#include "am/index/index.h"
#include "am/test_point.h"
#include "am/write/write.h"
#include "store/value_list.h"

/* Lists are remade when the number of nodes has doubled about this many times. */
#define DOUBLINGS 2
/* Rows sorted at once, at most: a sort does not handle a cancel. */
#define SORTED_ROWS (1 << 20)
#define GROUPING_BYTES 90		/* memory for each row of a list while groups are made, about */

bool
grnnd_lists_due(const GrnndMeta *meta, uint32 id)
{
	int			scale = pg_leftmost_one_pos32(Max(meta->build_nodes, 1));

	if (!grnnd_renews_lists(meta) || meta->fit_state != GRNND_FITTED || meta->codes_ignored)
		return false;
	if (!grnnd_has_lists(meta))
		return id >= grnnd_fit_rows(meta->dim);
	if (meta->list_scale > 0)
		scale = meta->list_scale;
	return pg_leftmost_one_pos32(id + 1) >= scale + DOUBLINGS;
}

/* ---- reading records ---- */

/* Copies a page of records. Returns false if the page is new. */
static bool
copy_page(Fit *f, uint32 first, char *page)
{
	Buffer		buffer;
	uint32		limit = f->limit;

	grnnd_fit_check_interrupts(f);
	buffer = grnnd_read(f->index, grnnd_node_block(&f->ix, first), BUFFER_LOCK_SHARE, GRNND_NODES,
						NULL);
	memcpy(page, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
	if (PageIsNew((Page) page))
		return false;
	for (uint32 i = 0; i < f->ix.layout.per_page; i++)
		grnnd_check_record(f->index, &f->ix, first + i,
						   grnnd_page_record((Page) page, &f->ix, i), &limit);
	return true;
}

/* The values of a record's TIDs, and their number. */
static const uint8 *
values_of(const GrnLayout *l, const GrnRecord *rec, uint32 *n)
{
	*n = rec->state == GRN_NODE ? rec->ntids : rec->state == GRN_TIDS ? rec->ntids16 : 0;
	return grn_rec_attrs(l, rec);
}

/* ---- step 1 ---- */

/* Makes the new books, palloc'd. */
static GrnSigBook *
fit_books(Fit *f)
{
	const GrnLayout *l = &f->ix.layout;
	const GrnndAttrs *columns = f->ix.attrs;
	GrnSigBook *books = palloc(columns->n * sizeof(GrnSigBook));
	GrnndBookSample *samples = palloc0(columns->n * sizeof(GrnndBookSample));
	char	   *page = palloc(BLCKSZ);
	uint32		every = (f->limit + GRNND_BOOK_ROWS - 1) / GRNND_BOOK_ROWS;

	for (uint32 first = 0; first < f->limit; first += every * l->per_page)
	{
		if (!copy_page(f, first, page))
			continue;
		for (uint32 i = 0; i < l->per_page; i++)
		{
			uint32		n;
			const GrnRecord *rec = grnnd_page_record((Page) page, &f->ix, i);
			const uint8 *values = values_of(l, rec, &n);

			for (uint32 c = 0; c < columns->n && n > 0; c++)
				grnnd_sample_row(columns, c, values, &samples[c]);
		}
	}
	memcpy(books, f->ix.books, columns->n * sizeof(GrnSigBook));
	for (uint32 c = 0; c < columns->n; c++)
		grnnd_fit_book(&columns->attr[c], &samples[c], true, &books[c]);
	pfree(page);
	pfree(samples);
	return books;
}

/* ---- step 2 ---- */

static void
write_books(const Fit *f, const GrnSigBook *books)
{
	for (uint32 first = 0; first < f->ix.attrs->n; first += GRNND_BOOKS_PER_PAGE)
	{
		uint32		n = Min(f->ix.attrs->n - first, GRNND_BOOKS_PER_PAGE);
		BlockNumber block = f->ix.meta.book_block + first / GRNND_BOOKS_PER_PAGE;
		Buffer		buffer = grnnd_read(f->index, block, BUFFER_LOCK_EXCLUSIVE, GRNND_BOOKS, NULL);
		GenericXLogState *xlog = GenericXLogStart(f->index);

		memcpy(GrnndPagePayload(GenericXLogRegisterBuffer(xlog, buffer, 0)), books + first,
			   n * sizeof(GrnSigBook));
		GenericXLogFinish(xlog);
		UnlockReleaseBuffer(buffer);
	}
}

static void
begin_lists(Fit *f)
{
	GrnndMeta  *meta = &f->ix.meta;
	GrnSigBook *books = fit_books(f);
	uint32		most = meta->list_pages * GRNND_LISTS_PER_PAGE / meta->ncolumns;

	grnnd_test_point("lists-fitted");
	/*
	 * Vacuum waits for inserts in the same way. Nobody else waits for this process, because the
	 * process holds no lock on a page.
	 */
	grnnd_lock(f->index, GRNND_WRITERS_LOCK, ExclusiveLock);
	meta->list_state = GRNND_LISTS_FILLING;
	meta->list_buckets = 0;
	grnnd_fit_write_meta(f, false);
	grnnd_test_point("lists-dropped");
	write_books(f, books);
	grnnd_clear_lists(f->index, &f->ix);
	f->limit = f->store.id_limit = grnnd_id_limit(f->index, &f->ix);
	/* room for the nodes that come before the lists are remade */
	meta->list_buckets = grnnd_list_buckets(&f->ix.layout, (uint64) f->limit << DOUBLINGS / 2);
	meta->list_buckets = Min(meta->list_buckets, most);
	meta->list_scale = (uint8) pg_leftmost_one_pos32(f->limit);
	meta->list_generation = meta->list_generation == PG_UINT16_MAX ? 1 : meta->list_generation + 1;
	grnnd_fit_write_meta(f, false);
	grnnd_unlock(f->index, GRNND_WRITERS_LOCK, ExclusiveLock);
	f->ix.books = books;
	grnnd_test_point("lists-begun");
}

/* ---- step 3 ---- */

/* A row that is to be added to its list. */
typedef struct Listed
{
	uint32		bucket;
	uint32		rank;
	uint32		node;			/* position among the nodes at hand */
} Listed;

typedef struct RowGather
{
	Fit		   *f;
	uint32	   *latest;			/* [columns] ranks of the newest node's latest TID */
	Listed	   *rows;			/* [nrows], of room row_room */
	uint32		nrows;
	uint32		row_room;
	uint32	   *nodes;			/* [row_room] nodes and ranks of the sorted rows */
	uint32	   *ranks;
	uint32	   *ids;			/* [nnodes], of room node_room, as the next three */
	GrnFactor  *factors;
	uint8	   *codes;			/* [code_bytes] each */
	uint8	   *sigs;			/* [sig_bytes] each */
	uint32		nnodes;
	uint32		node_room;
	GrnRecord  *owner;			/* copy of a chained record's node */
} RowGather;

static void
gather_begin(RowGather *g, Fit *f)
{
	const GrnLayout *l = &f->ix.layout;
	Size		each = sizeof(uint32) + sizeof(GrnFactor) + l->code_bytes + l->sig_bytes +
		f->ix.attrs->n * (sizeof(Listed) + 2 * sizeof(uint32)) + GROUPING_BYTES;
	uint32		ntids = Max(l->tids_max, l->chain_tids);

	g->f = f;
	g->latest = palloc(f->ix.attrs->n * sizeof(uint32));
	g->node_room = (uint32) Max(Min(grnnd_maintenance_memory() / each,
									SORTED_ROWS / f->ix.attrs->n), 1);
	g->row_room = (g->node_room + ntids) * f->ix.attrs->n;
	g->nrows = g->nnodes = 0;
	g->rows = palloc_extended((Size) g->row_room * sizeof(Listed), MCXT_ALLOC_HUGE);
	g->nodes = palloc_extended((Size) g->row_room * sizeof(uint32), MCXT_ALLOC_HUGE);
	g->ranks = palloc_extended((Size) g->row_room * sizeof(uint32), MCXT_ALLOC_HUGE);
	g->ids = palloc(g->node_room * sizeof(uint32));
	g->factors = palloc(g->node_room * sizeof(GrnFactor));
	g->codes = palloc_extended((Size) g->node_room * l->code_bytes, MCXT_ALLOC_HUGE);
	g->sigs = palloc_extended((Size) g->node_room * l->sig_bytes, MCXT_ALLOC_HUGE);
	g->owner = palloc(grnnd_copy_bytes(&f->ix));
}

static int
compare_listed(const void *a, const void *b)
{
	const Listed *x = a;
	const Listed *y = b;

	return x->bucket != y->bucket ? (x->bucket > y->bucket) - (x->bucket < y->bucket)
		: (x->node > y->node) - (x->node < y->node);
}

/* GrnGrouping.poll() */
static void
check_interrupts(void *f)
{
	grnnd_fit_check_interrupts(f);
}

/* Writes a group of a list as new records.  recs: room for them.  Returns the id of the first. */
static uint32
write_group(const Fit *f, const GrnValueList *list, uint32 group, char *recs)
{
	const GrnLayout *l = list->layout;
	uint32		room = grn_list_rows(l);
	uint32		records = (grn_rows_of_group(list, group) + room - 1) / room;

	memset(recs, 0, (Size) records * l->record_bytes);
	for (uint32 i = 0; i < records; i++)
		grn_fill_group(list, group, i, (GrnRecord *) (recs + (Size) i * l->record_bytes));
	return l->span > 1 ? grnnd_new_record(f->index, f->heap, &f->ix, (GrnRecord *) recs)
		: grnnd_new_page(f->index, &f->ix, recs, records);
}

/* Adds rows at hand to their list as groups, and a part of the list's guide. */
static void
add_groups(Fit *f, GrnValueList *list)
{
	const GrnndIndex *ix = &f->ix;
	const GrnLayout *l = &ix->layout;
	uint32		room = grn_group_room(l);
	uint32		number_of_groups = grn_groups(list->n, room);
	void	   *workspace = palloc_extended(grn_group_bytes(list->codec, list->n, room), MCXT_ALLOC_HUGE);
	char	   *recs = palloc((Size) grn_group_records(l) * l->record_bytes);
	GrnRecord  *guide = palloc0(l->record_bytes);

	list->groups = (GrnGroups) {palloc_extended((Size) list->n * sizeof(uint32), MCXT_ALLOC_HUGE),
								palloc_extended((Size) number_of_groups * sizeof(uint32), MCXT_ALLOC_HUGE),
								palloc_extended((Size) number_of_groups * l->code_bytes, MCXT_ALLOC_HUGE),
								palloc_extended((Size) number_of_groups * sizeof(GrnFactor), MCXT_ALLOC_HUGE)};
	grn_group_value_list(list, check_interrupts, f, workspace);
	for (uint32 group = 0; group < number_of_groups; group++)
	{
		grnnd_fit_check_interrupts(f);
		grn_guide_to(list, group, write_group(f, list, group, recs), guide);
		grnnd_test_point("list-group");
		if (guide->ntids16 == grn_list_rows(l) || group == number_of_groups - 1)
		{
			GrnndListHead head = grnnd_list_head(f->index, ix, list->bucket);

			guide->next = head.guide;
			grnnd_set_guide(f->index, ix, list->bucket, grnnd_new_record(f->index, f->heap, ix, guide),
							head.groups + guide->ntids16);
			guide->ntids16 = 0;
		}
	}
	pfree(guide);
	pfree(recs);
	pfree(workspace);
	pfree(list->groups.factors);
	pfree(list->groups.middles);
	pfree(list->groups.ends);
	pfree(list->groups.order);
}

/* Adds rows at hand to the chain of their list. */
static void
add_chained(Fit *f, const GrnValueList *list, GrnListRow *rows, uint32 piece)
{
	for (uint32 i = 0; i < list->n;)
	{
		uint32		n = 0;

		grnnd_fit_check_interrupts(f);
		while (i < list->n && n < piece)
			rows[n++] = grn_value_row(list, i++);
		grnnd_list_add(f->index, f->heap, &f->ix, list->bucket, rows, n);
	}
}

/* Adds all rows at hand to the lists. */
static void
flush(RowGather *g)
{
	Fit		   *f = g->f;
	const GrnLayout *l = &f->ix.layout;
	uint32		piece = 16 * grn_list_rows(l);
	GrnListRow *rows = palloc(piece * sizeof(GrnListRow));
	GrnValueList list = {.layout = l, .codec = &f->ix.encoder, .generation = f->ix.meta.list_generation,
		.ids = g->ids, .factors = g->factors, .codes = g->codes, .sigs = g->sigs};

	qsort(g->rows, g->nrows, sizeof(Listed), compare_listed);
	for (uint32 i = 0; i < g->nrows; i++)
	{
		g->nodes[i] = g->rows[i].node;
		g->ranks[i] = g->rows[i].rank;
	}
	for (uint32 i = 0; i < g->nrows; i += list.n)
	{
		list.bucket = g->rows[i].bucket;
		list.nodes = g->nodes + i;
		list.ranks = g->ranks + i;
		list.n = 1;
		while (i + list.n < g->nrows && g->rows[i + list.n].bucket == list.bucket)
			list.n++;
		if (grn_has_groups(l, GRNND_LEAST_GROUPS, list.n, f->limit))
			add_groups(f, &list);
		else
			add_chained(f, &list, rows, piece);
	}
	pfree(rows);
	g->nrows = g->nnodes = 0;
	grnnd_test_point("lists-flushed");
}

/*
 * Takes the values of a TID of the newest node.  Most TIDs of a node have the same values.  A node
 * that is in a list twice does no harm.
 */
static void
gather_value(RowGather *g, const uint8 *values, bool first)
{
	const GrnndIndex *ix = &g->f->ix;

	for (uint32 c = 0; c < ix->attrs->n; c++)
	{
		uint32		rank = grnnd_attr_rank(ix->attrs, ix->books, c, values);

		if (!grnnd_has_list(&ix->attrs->attr[c]) || (!first && rank == g->latest[c]))
			continue;
		g->latest[c] = rank;
		g->rows[g->nrows++] = (Listed) {grn_list_bucket(ix->meta.list_buckets, c, rank), rank, g->nnodes - 1};
	}
}

/* Takes the values beside a record's TIDs [n], all of one node. */
static void
gather_values(RowGather *g, const GrnRecord *node, uint32 id, const uint8 *values, uint32 n)
{
	const GrnndIndex *ix = &g->f->ix;
	const GrnLayout *l = &ix->layout;
	uint32		at = g->nnodes;

	if (at == g->node_room || g->row_room - g->nrows < n * ix->attrs->n)
	{
		flush(g);
		at = 0;
	}
	g->nnodes = at + 1;
	g->ids[at] = id;
	g->factors[at] = node->factor;
	memcpy(g->codes + (Size) at * l->code_bytes, GRN_REC_PTR(node, l->off_code), l->code_bytes);
	memcpy(g->sigs + (Size) at * l->sig_bytes, GRN_REC_PTR(node, l->off_sig), l->sig_bytes);
	for (uint32 i = 0; i < n; i++)
		gather_value(g, values + i * l->attr_bytes, i == 0);
}

static void
gather_record(RowGather *g, const GrnRecord *rec, uint32 id)
{
	const GrnndIndex *ix = &g->f->ix;
	const GrnRecord *node = rec;
	uint32		n;
	const uint8 *values = values_of(&ix->layout, rec, &n);
	uint16		version;

	if (n == 0)
		return;
	if (rec->state == GRN_TIDS)
	{
		id = grn_tids_owner(rec, &version);
		/* the chained record of a failed insert belongs to no node */
		if (id >= g->f->limit ||
			grnnd_copy_record(g->f->index, ix, id, g->owner, NULL) != GRN_NODE ||
			g->owner->version != version)
			return;
		node = g->owner;
	}
	gather_values(g, node, id, values, n);
}

/* Frees a page's records of earlier lists. */
static void
free_garbage(const Fit *f, uint32 first, FullTransactionId stamp)
{
	BlockNumber block = grnnd_node_block(&f->ix, first);
	Buffer		buffer = grnnd_read(f->index, block, BUFFER_LOCK_EXCLUSIVE, GRNND_NODES, NULL);
	GenericXLogState *xlog = GenericXLogStart(f->index);
	Page		page = GenericXLogRegisterBuffer(xlog, buffer, 0);

	for (uint32 i = 0; i < f->ix.layout.per_page; i++)
	{
		GrnRecord  *rec = grnnd_page_record(page, &f->ix, i);

		if (rec->state == GRN_LIST && !grnnd_is_listing(&f->ix, rec))
			grnnd_free_slot(rec, stamp);
	}
	GenericXLogFinish(xlog);
	UnlockReleaseBuffer(buffer);
	grnnd_note_room(f->index, block, GRNND_ROOM_LATER);
}

static void
fill_lists(Fit *f)
{
	const GrnLayout *l = &f->ix.layout;
	char	   *page = palloc(BLCKSZ);
	/* scans that know the earlier lists may read their records until this XID */
	FullTransactionId stamp = ReadNextFullTransactionId();
	RowGather	g;

	gather_begin(&g, f);
	for (uint32 first = 0; first < f->limit; first += l->per_page)
	{
		bool		garbage = false;

		if (!copy_page(f, first, page))
			continue;
		for (uint32 i = 0; i < l->per_page; i++)
		{
			const GrnRecord *rec = grnnd_page_record((Page) page, &f->ix, i);

			if (rec->state == GRN_LIST)
				garbage |= !grnnd_is_listing(&f->ix, rec);
			else
				gather_record(&g, rec, first + i);
		}
		if (garbage)
			free_garbage(f, first, stamp);
	}
	flush(&g);
}

void
grnnd_fit_lists(Fit *f)
{
	begin_lists(f);
	fill_lists(f);
	f->ix.meta.list_state = GRNND_LISTS_WHOLE;
	grnnd_fit_write_meta(f, true);
}
