/*
 * write_filters.c - writes the data that an index keeps for filters beside the values: signatures
 * and their books, the sample, and lists.
 *
 * The leader fits the books.  Leader and workers count the rows of each bucket of values, and the
 * leader plans the lists by these counts.  Then all processes make signatures, sort the rows by
 * bucket, put the rows of long lists into groups (write_groups.c), and finally form the pages.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufpage.h"

#include "am/create/write_index_impl.h"
#include "am/filter/filter.h"
#include "am/index/index.h"
#include "am/index/page_store.h"

/*
 * Growth that the directory of lists allows: the directory has room for the buckets of an index
 * with LATER_NODES times as many nodes.  Half and twice build indexes of the same visits in the
 * same time, within a tenth (20,000 sentences, image patches and SIFT rows, four columns), as do
 * half and twice of ROWS_AHEAD and SHARES below.
 */
#define LATER_NODES 16

/* ---- books ---- */

static void
fit_book(GrnndNewIndex *new, uint32 column, uint64 nrows)
{
	uint64		sampled = Min(nrows, GRNND_BOOK_ROWS);
	GrnndBookSample *sample = palloc0(sizeof(GrnndBookSample));

	for (uint64 i = 0; i < sampled; i++)
	{
		CHECK_FOR_INTERRUPTS();
		grnnd_sample_row(new->columns, column, grnnd_row_attrs(new, (uint32) (i * nrows / sampled)), sample);
	}
	grnnd_fit_book(&new->columns->attr[column], sample, false, &new->filters.books[column]);
	pfree(sample);
}

/* ---- signatures ---- */

static void
sign_node(GrnndNewIndex *new, uint32 node)
{
	uint32		bytes = new->layout.sig_bytes;
	uint8	   *sig = new->filters.sigs + (uint64) node * bytes;
	const uint32 *rows = new->built.rows + new->built.row_start[node];
	uint32		n = new->built.row_start[node + 1] - new->built.row_start[node];

	grnnd_sign(new->columns, new->filters.books, grnnd_row_attrs(new, rows[0]), sig);
	for (uint32 i = 1; i < n; i++)
	{
		uint8		other[GRN_MAX_SIG_BYTES];

		grnnd_sign(new->columns, new->filters.books, grnnd_row_attrs(new, rows[i]), other);
		for (uint32 c = 0; c < bytes; c++)
			if (other[c] != sig[c])
				sig[c] = GRN_SIG_ANY;
	}
}

/* ---- lists ---- */

/*
 * Rows that are prefetched ahead.  Nodes and rows have different orders, so the values of
 * successive nodes are scattered in memory.
 */
#define ROWS_AHEAD 16

static void
prefetch_row(const GrnndNewIndex *new, uint32 row)
{
	grnnd_touch_bytes((const char *) grnnd_row_attrs(new, row), new->columns->bytes);
}

/*
 * Number of shares in which nodes are counted and sorted.  Any process may take any share.  The
 * rows of a list are always in the order of nodes.
 */
#define SHARES 32

static uint32
share_begin(const GrnndNewIndex *new, uint32 share)
{
	return (uint32) ((uint64) new->nodes * share / SHARES);
}

/*
 * For each value of each node in a share: counts the rows of each bucket, or, with `place`, copies
 * the rows behind the rows of earlier shares, and signs the node.
 */
static void
sort_share(GrnndNewIndex *new, uint32 share, bool place)
{
	uint32	   *at = new->filters.counts + (uint64) share * new->plan.filters.nbuckets;
	uint32		last_node = share_begin(new, share + 1);

	for (uint32 node = share_begin(new, share); node < last_node; node++)
	{
		uint32		begin = new->built.row_start[node];

		if (node % 65536 == 0)
			CHECK_FOR_INTERRUPTS();
		if (node + ROWS_AHEAD < new->nodes)
			prefetch_row(new, new->built.rows[new->built.row_start[node + ROWS_AHEAD]]);
		if (place)
			sign_node(new, node);
		for (uint32 c = 0; new->plan.filters.nbuckets > 0 && c < new->columns->n; c++)
		{
			uint32		before = 0;
			uint32		end = grnnd_has_list(&new->columns->attr[c]) ? new->built.row_start[node + 1] : begin;

			for (uint32 i = begin; i < end; i++)
			{
				uint32		rank = grnnd_attr_rank(new->columns, new->filters.books, c,
												   grnnd_row_attrs(new, new->built.rows[i]));
				uint32		bucket = grnnd_list_bucket(&new->plan.meta, c, rank);

				/* A node that is in a list twice does no harm. */
				if (i > begin && rank == before)
					continue;
				before = rank;
				if (place)
				{
					uint64		row = new->filters.buckets[bucket].row + at[bucket];

					new->filters.lists.nodes[row] = node;
					new->filters.ranks[row] = rank;
				}
				at[bucket]++;
			}
		}
	}
}

void
grnnd_sort_lists(GrnndNewIndex *new, pg_atomic_uint64 *next_share, bool place)
{
	uint64		share;

	if ((place ? new->layout.sig_bytes : new->plan.filters.nbuckets) == 0)
		return;
	while ((share = pg_atomic_fetch_add_u64(next_share, 1)) < SHARES)
		sort_share(new, (uint32) share, place);
}

/* Replaces a bucket's counts by the position of each share's first row.  Returns the rows. */
static uint64
begin_shares(GrnndNewIndex *new, uint32 bucket)
{
	uint64		n = 0;

	for (uint32 share = 0; share < SHARES; share++)
	{
		uint32	   *at = new->filters.counts + (uint64) share * new->plan.filters.nbuckets + bucket;
		uint32		of_share = *at;

		*at = (uint32) n;
		n += of_share;
	}
	return n;
}

/* Extends the segment by an array.  Returns the array's offset. */
static uint64
plan_array(GrnndMapping *map, uint64 *end, uint64 count, uint64 size)
{
	uint64		offset = TYPEALIGN64(8, *end);

	*end = offset + count * size;
	grnnd_mapping_grow(map, GRN_SEG_ATTRS, *end);
	grnnd_mapping_populate(map, GRN_SEG_ATTRS, offset, *end);
	return offset;
}

void
grnnd_add_list(GrnndListSizes *all, const GrnLayout *l, uint64 n, uint64 nodes)
{
	uint64		room = grn_list_rows(l);
	uint32		group_room = grnnd_group_room(l);

	all->rows += n;
	if (grnnd_has_groups(l, n, nodes))
	{
		uint32		groups = grn_groups((uint32) n, group_room);

		all->lists++;
		all->groups += groups;
		all->guides += (groups + room - 1) / room;
	}
	else
		all->records += (n + room - 1) / room;
}

GrnndListPlaces
grnnd_place_lists(const GrnLayout *l, uint64 records, const GrnndListSizes *all)
{
	GrnndListPlaces places = {.first_list = records, .first_group = records + all->records};

	/* The first group begins a page.  Slots left before the first group stay free. */
	if (all->groups > 0)
		places.first_group = (places.first_group + l->per_page - 1) / l->per_page * l->per_page;
	places.first_guide = places.first_group + all->groups * grnnd_group_records(l);
	places.end = places.first_guide + all->guides;
	return places;
}

void
grnnd_plan_lists(GrnndNewIndex *new, GrnndMapping *map)
{
	GrnndFilterPlan *p = &new->plan.filters;
	const GrnLayout *l = &new->layout;
	GrnndListSizes all = {0};
	GrnndListPlaces places;
	uint64		bytes;

	if (p->nbuckets == 0)
		return;
	p->off_buckets = plan_array(map, &p->end, (uint64) p->nbuckets + 1, sizeof(GrnndBucket));
	grnnd_find_filters(new, map);
	for (uint32 b = 0; b <= p->nbuckets; b++)
	{
		uint64		n;

		new->filters.buckets[b] = (GrnndBucket) {all.rows, (uint32) all.records, (uint32) all.groups,
												 (uint32) all.guides};
		if (b == p->nbuckets)
			break;
		n = begin_shares(new, b);
		grnnd_add_list(&all, l, n, new->nodes);
		grnnd_check_records(grnnd_place_lists(l, new->plan.records, &all).end);
	}
	places = grnnd_place_lists(l, new->plan.records, &all);
	p->first_list = (uint32) places.first_list;
	p->first_group = (uint32) places.first_group;
	p->first_guide = (uint32) places.first_guide;
	new->plan.records = places.end;
	p->off_ranks = plan_array(map, &p->end, all.rows, sizeof(uint32));
	p->lists = (GrnLists) {all.lists, all.rows, all.groups, grnnd_group_room(l)};
	bytes = grn_place_lists(&p->lists, l->code_bytes, NULL).bytes;
	grnnd_mapping_grow(map, GRN_SEG_LISTS, bytes);
	grnnd_mapping_populate(map, GRN_SEG_LISTS, 0, bytes);
	grnnd_find_filters(new, map);
}

uint64
grnnd_filter_bytes(const GrnndMeta *meta, const GrnLayout *l, uint64 nodes, const GrnndListSizes *all)
{
	uint64		buckets = (uint64) meta->list_buckets * meta->ncolumns;

	return meta->ncolumns * sizeof(GrnSigBook) + nodes * l->sig_bytes +
		buckets * (SHARES * sizeof(uint32) + sizeof(GrnndBucket)) +
		all->rows * 3 * sizeof(uint32) + all->lists * sizeof(GrnListToGroup) +
		all->groups * (sizeof(uint32) + l->code_bytes + sizeof(GrnFactor));
}

void
grnnd_plan_filters(GrnndNewIndex *new, GrnndMapping *map)
{
	uint64		nrows = new->plan.vectors.n;
	GrnndFilterPlan *p = &new->plan.filters;

	if (new->layout.sig_bytes == 0)
		return;
	p->end = nrows * new->columns->bytes;
	p->off_books = plan_array(map, &p->end, new->columns->n, sizeof(GrnSigBook));
	p->off_sigs = plan_array(map, &p->end, new->nodes, new->layout.sig_bytes);
	/* Without codes signatures and lists are of no use, and a later fit will know more rows. */
	if (new->built.codes != NULL)
	{
		new->plan.meta.list_buckets = grnnd_list_buckets(&new->layout, new->nodes);
		p->nbuckets = new->plan.meta.list_buckets * new->columns->n;
		p->off_counts = plan_array(map, &p->end, (uint64) SHARES * p->nbuckets, sizeof(uint32));
	}
	grnnd_find_filters(new, map);
	memset(new->filters.books, 0, new->columns->n * sizeof(GrnSigBook));
	if (new->built.codes != NULL)
	{
		for (uint32 c = 0; c < new->columns->n; c++)
			fit_book(new, c, nrows);
		memset(new->filters.counts, 0, (Size) SHARES * p->nbuckets * sizeof(uint32));
	}
}

void
grnnd_find_filters(GrnndNewIndex *new, const GrnndMapping *map)
{
	const GrnndFilterPlan *p = &new->plan.filters;
	char	   *base = map->base[GRN_SEG_ATTRS];

	if (new->layout.sig_bytes == 0)
		return;
	new->attrs = (uint8 *) base;
	new->filters.books = (GrnSigBook *) (base + p->off_books);
	new->filters.sigs = (uint8 *) base + p->off_sigs;
	new->filters.counts = (uint32 *) (base + p->off_counts);
	new->filters.buckets = (GrnndBucket *) (base + p->off_buckets);
	new->filters.ranks = (uint32 *) (base + p->off_ranks);
	new->filters.lists = grn_place_lists(&p->lists, new->layout.code_bytes, map->base[GRN_SEG_LISTS]);
}

/* ---- pages and records ---- */

void
grnnd_place_filters(GrnndMeta *meta, const GrnLayout *layout, BlockNumber first)
{
	uint32		heads = 0;

	if (meta->sig_bytes == 0)
		return;
	meta->book_block = first;
	meta->book_pages = (meta->ncolumns + GRNND_BOOKS_PER_PAGE - 1) / GRNND_BOOKS_PER_PAGE;
	meta->sample_block = meta->book_block + meta->book_pages;
	meta->sample_pages = grnnd_sample_pages(layout);
	meta->list_block = meta->sample_block + meta->sample_pages;
	/* Room for the lists that a later fit makes of a larger index. */
	if (meta->list_buckets > 0)
		heads = grnnd_list_buckets(layout, (uint64) meta->build_nodes * LATER_NODES) * meta->ncolumns;
	meta->list_pages = (uint16) ((heads + GRNND_LISTS_PER_PAGE - 1) / GRNND_LISTS_PER_PAGE);
	if (heads == 0 && layout->code_bytes > 0)
		meta->list_pages = (uint16) grnnd_open_list_pages(meta->ncolumns);
}

uint32
grnnd_filter_pages(const GrnndMeta *meta)
{
	return meta->book_pages + meta->sample_pages + meta->list_pages;
}

static void
form_book_page(const GrnndNewIndex *new, uint32 number, Page page)
{
	uint32		first = number * GRNND_BOOKS_PER_PAGE;
	uint32		n = Min(new->plan.meta.ncolumns - first, GRNND_BOOKS_PER_PAGE);

	grnnd_page_init(page, GRNND_BOOKS);
	/* An index that is built empty has no books: its signatures are hashes. */
	if (new->filters.books != NULL)
		memcpy(GrnndPagePayload(page), new->filters.books + first, n * sizeof(GrnSigBook));
}

static void
form_sample_page(const GrnndNewIndex *new, uint32 number, Page page)
{
	const GrnLayout *l = &new->layout;
	uint32		rows = Min(new->nodes, GRNND_SAMPLE_ROWS);

	grnnd_page_init(page, GRNND_SAMPLE);
	for (uint32 i = number; i < rows; i += new->plan.meta.sample_pages)
	{
		uint32		node = (uint32) ((uint64) i * new->nodes / rows);
		GrnEdge		row = {.id = node, .sig = new->filters.sigs + (uint64) node * l->sig_bytes};
		static const uint8 no_code[GRN_MAX_CODE_BYTES];

		row.code = no_code;
		if (new->built.codes != NULL)
		{
			row.code = new->built.codes + (uint64) node * l->code_bytes;
			row.factor = new->built.factors[node];
		}
		if (!grnnd_sample_append(l, page, &row))
			break;
	}
}

static void
form_heads_page(const GrnndNewIndex *new, uint32 number, Page page)
{
	uint32		first = number * GRNND_LISTS_PER_PAGE;
	GrnndListHead *heads = (GrnndListHead *) GrnndPagePayload(page);

	grnnd_page_init(page, GRNND_LISTS);
	for (uint32 b = first; b < Min(first + GRNND_LISTS_PER_PAGE, new->plan.filters.nbuckets); b++)
	{
		const GrnndBucket *of = &new->filters.buckets[b];
		GrnndListHead *head = &heads[b - first];
		uint32		records = of[1].record - of->record;
		uint32		id = new->plan.filters.first_list + of->record;

		*head = GRNND_NO_LIST;
		if (grnnd_is_grouped(of))
		{
			head->guide = new->plan.filters.first_guide + of->guide;
			head->groups = of[1].group - of->group;
			continue;
		}
		head->first = records > 0 ? id : GRN_INVALID_ID;
		/* All records except the last are full. */
		head->room = records > 0 ? id + records - 1 : GRN_INVALID_ID;
		head->records = records;
	}
}

void
grnnd_form_filter_page(const GrnndNewIndex *new, uint32 number, Page page)
{
	const GrnndMeta *meta = &new->plan.meta;

	if (number < meta->book_pages)
		form_book_page(new, number, page);
	else if (number < meta->book_pages + meta->sample_pages)
		form_sample_page(new, number - meta->book_pages, page);
	else
		form_heads_page(new, number - meta->book_pages - meta->sample_pages, page);
}

/*
 * The last bucket whose items start at or before `number`.  field: offset of the item's number in a
 * GrnndBucket.  A bucket without items starts at the start of the next bucket.
 */
static uint32
bucket_of(const GrnndNewIndex *new, Size field, uint32 number)
{
	uint32		low = 0;
	uint32		high = new->plan.filters.nbuckets;

	while (high - low > 1)
	{
		uint32		middle = low + (high - low) / 2;

		if (*(const uint32 *) ((const char *) &new->filters.buckets[middle] + field) <= number)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Fills a record with rows [first, end) of a bucket's groups by `order`, or of its list. */
static void
form_rows(const GrnndNewIndex *new, const GrnndBucket *of, const uint32 *order, uint64 first, uint64 end,
		  GrnRecord *rec)
{
	const GrnLayout *l = &new->layout;

	for (uint64 i = first; i < end; i++)
	{
		uint64		row = of->row + (order != NULL ? order[i] : i);
		uint32		node = new->filters.lists.nodes[row];
		GrnListRow	listed = {node, new->filters.ranks[row], new->built.factors[node],
			new->built.codes + (uint64) node * l->code_bytes, new->filters.sigs + (uint64) node * l->sig_bytes};

		grn_list_set_row(l, rec, rec->ntids16++, &listed);
	}
}

/* Forms a record of a list's chain.  number: among the records of all chains. */
static void
form_chained(const GrnndNewIndex *new, uint32 number, GrnRecord *rec)
{
	uint64		room = grn_list_rows(&new->layout);
	uint32		bucket = bucket_of(new, offsetof(GrnndBucket, record), number);
	const GrnndBucket *of = &new->filters.buckets[bucket];
	uint64		first = (number - of->record) * room;

	grnnd_list_start(&new->plan.meta, rec, bucket, 0);
	if (number + 1 < of[1].record)
		rec->next = new->plan.filters.first_list + number + 1;
	form_rows(new, of, NULL, first, Min(first + room, of[1].row - of->row), rec);
}

/* Forms a record of a group.  number: among all groups' records.  Without rows it stays free. */
static void
form_group(const GrnndNewIndex *new, uint32 number, GrnRecord *rec)
{
	uint64		room = grn_list_rows(&new->layout);
	uint32		of_group = grnnd_group_records(&new->layout);
	uint32		group = number / of_group;
	uint32		bucket = bucket_of(new, offsetof(GrnndBucket, group), group);
	const GrnndBucket *of = &new->filters.buckets[bucket];
	const GrnGroups *groups = &new->filters.lists.groups;
	uint64		first = group > of->group ? groups->ends[group - 1] : 0;
	uint64		end = groups->ends[group];

	first += number % of_group * room;
	if (first >= end)
		return;
	grnnd_list_start(&new->plan.meta, rec, bucket, GRN_GROUP);
	if (first + room < end)
		rec->next = new->plan.filters.first_group + number + 1;
	form_rows(new, of, groups->order + of->row, first, Min(first + room, end), rec);
}

/* Forms a record of a guide.  number: among the records of all guides. */
static void
form_guide(const GrnndNewIndex *new, uint32 number, GrnRecord *rec)
{
	static const uint8 any[GRN_MAX_SIG_BYTES];
	const GrnLayout *l = &new->layout;
	uint32		bucket = bucket_of(new, offsetof(GrnndBucket, guide), number);
	const GrnndBucket *of = &new->filters.buckets[bucket];
	const GrnGroups *groups = &new->filters.lists.groups;
	uint32		room = grn_list_rows(l);
	uint32		first = of->group + (number - of->guide) * room;
	uint32		end = Min(first + room, of[1].group);

	StaticAssertStmt(GRN_SIG_ANY == 0, "zeroes are signatures for any");
	grnnd_list_start(&new->plan.meta, rec, bucket, GRN_GUIDE);
	if (number + 1 < of[1].guide)
		rec->next = new->plan.filters.first_guide + number + 1;
	for (uint32 i = first; i < end; i++)
	{
		GrnListRow	row = {new->plan.filters.first_group + i * grnnd_group_records(l), 0, groups->factors[i],
			groups->middles + (uint64) i * l->code_bytes, any};

		grn_list_set_row(l, rec, rec->ntids16++, &row);
	}
}

void
grnnd_form_list(const GrnndNewIndex *new, uint32 id, void *rec)
{
	const GrnndFilterPlan *p = &new->plan.filters;
	GrnRecord  *r = rec;

	memset(rec, 0, new->layout.record_bytes);
	if (id >= p->first_guide)
		form_guide(new, id - p->first_guide, r);
	else if (id >= p->first_group)
		form_group(new, id - p->first_group, r);
	else if (id - p->first_list < new->filters.buckets[p->nbuckets].record)
		form_chained(new, id - p->first_list, r);
	/* A node that a later insert writes here must not count as a node of the build (vacuum.c). */
	if (r->state == GRN_FREE)
		r->version = 1;
}
