/*
 * lists.c - lists of rows by the values of filter columns: reading them, and adding rows.
 */
#include "am/lists.h"

#include "access/generic_xlog.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "am/cache.h"
#include "am/page.h"
#include "am/test_point.h"
#include "am/write/freespace.h"

/* Pages that the list of a value is to take where many values share the rows. */
#define BUCKET_PAGES 2
/*
 * In a small index buckets are short, so that a frequent value has one of its own: ranks tell 256
 * groups of values apart.  With fewer rows a bucket the empty ends of records would take as much as
 * rows do.
 */
#define GROUPS 256
#define LEAST_ROWS 16
#define MIN_BUCKETS 8
#define MAX_BUCKETS 65536
/* Full records that an insert passes, at most, on its way to one that has room. */
#define MOST_STEPS 8
/* Records on which a row is sought before it is added to a list that has it perhaps. */
#define MOST_SOUGHT 256
/* So many a column will do for a million rows: five pages each. */
#define OPEN_BUCKETS 1024

uint32
grnnd_list_bucket(const GrnndMeta *meta, uint32 column, uint32 rank)
{
	uint32		first = column * meta->list_buckets;

	if (meta->columns[column].kind != GRNND_ATTR_ARRAY)
		return first + (uint32) ((uint64) rank * meta->list_buckets >> 32);
	return rank == GRNND_MANY_RANK ? first
		: first + 1 + (uint32) ((uint64) rank * (meta->list_buckets - 1) >> 32);
}

uint32
grnnd_list_buckets(const GrnLayout *l, uint64 nodes)
{
	uint64		rows = (uint64) grn_list_rows(l) * l->per_page * BUCKET_PAGES;

	uint64		buckets = Max(nodes / rows, Min(nodes / LEAST_ROWS, GROUPS));

	return (uint32) Min(Max(buckets, MIN_BUCKETS), MAX_BUCKETS);
}

uint32
grnnd_open_list_pages(uint32 ncolumns)
{
	return (OPEN_BUCKETS * ncolumns + GRNND_LISTS_PER_PAGE - 1) / GRNND_LISTS_PER_PAGE;
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

/* The same for a scan, which knows where the page was. */
static Buffer
look_at_head(GrnndStore *store, uint32 bucket)
{
	const GrnndMeta *meta = &store->ix->meta;

	Assert(bucket / GRNND_LISTS_PER_PAGE < meta->list_pages);
	return grnnd_store_read(store, meta->list_block + bucket / GRNND_LISTS_PER_PAGE, GRNND_LISTS);
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

void
grnnd_clear_lists(Relation index, const GrnndIndex *ix)
{
	for (uint32 i = 0; i < ix->meta.list_pages; i++)
	{
		Buffer		buffer = read_head(index, ix, i * GRNND_LISTS_PER_PAGE, BUFFER_LOCK_EXCLUSIVE);
		GenericXLogState *xlog = GenericXLogStart(index);
		GrnndListHead *heads = head_on(GenericXLogRegisterBuffer(xlog, buffer, 0), 0);

		for (uint32 b = 0; b < GRNND_LISTS_PER_PAGE; b++)
			heads[b] = (GrnndListHead) {GRN_INVALID_ID, GRN_INVALID_ID, 0};
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
grnnd_in_list(const GrnndIndex *ix, const GrnRecord *rec, uint32 bucket)
{
	uint16		unused;

	return grnnd_is_listing(ix, rec) && grn_tids_owner(rec, &unused) == bucket;
}

/* ---- reading ---- */

/*
 * Pages of the directory that are looked at for a price.  So many are an eighth of what the
 * shortest search visits.
 */
#define MOST_LOOKED 8

/* Buckets from first to last, which hold ranks from number from to number to. */
typedef struct Run
{
	uint32		first;
	uint32		last;
	uint32		from;
	uint32		to;
} Run;

/* The run that begins with rank number `from`; others may follow from to + 1 on. */
static Run
run_of(const GrnndIndex *ix, const GrnndListed *listed, uint32 from)
{
	const GrnndRanks *r = listed->ranks;
	Run			run = {.from = from, .to = from};

	run.first = grnnd_list_bucket(&ix->meta, listed->column, r[from].least);
	run.last = grnnd_list_bucket(&ix->meta, listed->column, r[from].most);
	while (run.to + 1 < listed->n &&
		   grnnd_list_bucket(&ix->meta, listed->column, r[run.to + 1].least) <= run.last)
		run.last = grnnd_list_bucket(&ix->meta, listed->column, r[++run.to].most);
	return run;
}

/* Adds what a page of the directory says of buckets from first to last, as far as it goes. */
static uint64
count_records(GrnndStore *store, uint32 first, uint32 last)
{
	Buffer		buffer = look_at_head(store, first);
	uint64		records = 0;

	for (uint32 b = first; b <= last; b++)
		records += head_on(BufferGetPage(buffer), b)->records;
	UnlockReleaseBuffer(buffer);
	return records;
}

uint64
grnnd_list_records(GrnndStore *store, const GrnndListed *listed)
{
	const GrnndIndex *ix = store->ix;
	struct
	{
		uint32		first;
		uint32		last;
	}			pieces[MOST_LOOKED];
	uint64		records = 0;
	uint64		npieces = 0;
	uint32		looked;

	/* pieces of runs that each lie on one page, of which a reservoir keeps an even choice */
	for (uint32 i = 0; i < listed->n;)
	{
		Run			run = run_of(ix, listed, i);

		for (uint32 b = run.first; b <= run.last; npieces++)
		{
			uint32		end = (b / GRNND_LISTS_PER_PAGE + 1) * GRNND_LISTS_PER_PAGE - 1;
			uint64		at = npieces < MOST_LOOKED ? npieces
				: grn_random(ix->meta.build_id, run.first, npieces) % (npieces + 1);

			if (at < MOST_LOOKED)
			{
				pieces[at].first = b;
				pieces[at].last = Min(end, run.last);
			}
			b = Min(end, run.last) + 1;
		}
		i = run.to + 1;
	}
	looked = (uint32) Min(npieces, MOST_LOOKED);
	for (uint32 i = 0; i < looked; i++)
		records += count_records(store, pieces[i].first, pieces[i].last);
	return looked > 0 ? records * npieces / looked : 0;
}

typedef struct Reader
{
	GrnndStore *store;
	Relation	index;
	const GrnndIndex *ix;
	const GrnndListed *listed;
	GrnFilter	filter;			/* what is to be tested beside ranks */
	GrnSearch  *search;
	uint32		limit;			/* ids */
	uint32		last;			/* bucket that is read */
	GrnndListHead *heads;		/* of buckets from first_head to last_head, all on one page */
	uint32		first_head;
	uint32		last_head;
	Buffer		buffer;			/* of a page with records, locked, or InvalidBuffer */
	BlockNumber block;
	bool	   *wanted;			/* [rows of a record] */
} Reader;

static bool
is_wanted(const GrnndListed *listed, const Run *run, uint32 rank)
{
	uint32		i = run->from;

	while (i < run->to && listed->ranks[i].most < rank)
		i++;
	return rank >= listed->ranks[i].least && rank <= listed->ranks[i].most;
}

#define BLOCK 16				/* rows that are looked at at once */

/* Do all rows have ranks of one range, and ids below the limit? */
static bool
are_all(const GrnListArrays *a, uint32 n, GrnndRanks ranks, uint32 limit)
{
	uint32		width = ranks.most - ranks.least;
	uint32		others = 0;
	uint32		i = 0;

	/* (a loop of known length, which compilers vectorize) */
	for (; i + BLOCK <= n; i += BLOCK)
		for (uint32 j = i; j < i + BLOCK; j++)
			others |= (a->ranks[j] - ranks.least > width) | (a->ids[j] >= limit);
	for (; i < n; i++)
		others |= (a->ranks[i] - ranks.least > width) | (a->ids[i] >= limit);
	return others == 0;
}

static void
take_rows(Reader *r, const Run *run, const GrnRecord *rec)
{
	const GrnLayout *l = &r->ix->layout;
	GrnListArrays a = grn_list_arrays(l, rec);
	uint32		n = rec->ntids16;
	bool		any = false;

	if (run->from == run->to)
	{
		GrnndRanks	ranks = r->listed->ranks[run->from];

		/* so it is with frequent values */
		if (r->filter.nsets == 0 && are_all(&a, n, ranks, r->limit))
		{
			grn_search_listed(r->search, a.ids, a.codes, a.factors, NULL, n);
			return;
		}
		for (uint32 i = 0; i < n; i++)
			r->wanted[i] = (a.ranks[i] - ranks.least <= ranks.most - ranks.least) &
				(a.ids[i] < r->limit);
	}
	else
		for (uint32 i = 0; i < n; i++)
			r->wanted[i] = a.ids[i] < r->limit && is_wanted(r->listed, run, a.ranks[i]);
	for (uint32 i = 0; i < n; i++)
	{
		r->wanted[i] &= grn_sig_passes(&r->filter, a.sigs + i * l->sig_bytes);
		any |= r->wanted[i];
	}
	if (any)
		grn_search_listed(r->search, a.ids, a.codes, a.factors, r->wanted, n);
}

static void
leave_page(Reader *r)
{
	if (BufferIsValid(r->buffer))
		UnlockReleaseBuffer(r->buffer);
	r->buffer = InvalidBuffer;
}

/* The record that begins a bucket's chain. */
static uint32
first_record(Reader *r, uint32 bucket)
{
	if (bucket < r->first_head || bucket > r->last_head)
	{
		uint32		end = (bucket / GRNND_LISTS_PER_PAGE + 1) * GRNND_LISTS_PER_PAGE - 1;
		Buffer		buffer;

		leave_page(r);
		r->first_head = bucket;
		r->last_head = Min(r->last, end);
		buffer = look_at_head(r->store, bucket);
		memcpy(r->heads, head_on(BufferGetPage(buffer), bucket),
			   (r->last_head - bucket + 1) * sizeof(GrnndListHead));
		UnlockReleaseBuffer(buffer);
	}
	return r->heads[bucket - r->first_head].first;
}

/*
 * While a record is read, asks for the one at its place on the next page, to which a chain mostly
 * leads, and at its end the next bucket's.  Pages that come from a file follow each other, so the
 * kernel reads them ahead.
 */
static void
ask_ahead(Reader *r, uint32 id)
{
	uint32		next = id + r->ix->layout.per_page;

	if (next < r->limit && r->store->missing_left == 0)
		r->store->base.prefetch(&r->store->base, &next, 1);
}

/* False: a fit has begun other lists. */
static bool
read_bucket(Reader *r, const Run *run, uint32 bucket)
{
	uint32		id = first_record(r, bucket);
	uint32		steps = 0;

	while (id != GRN_INVALID_ID)
	{
		BlockNumber block = grnnd_node_block(r->ix, id);
		const GrnRecord *rec;

		if (id >= r->limit)
			r->limit = grnnd_id_limit(r->index, r->ix);
		if (id >= r->limit || steps++ > r->limit)
			grnnd_corrupt(r->index, block, "impossible list of rows");
		/* chains mostly go on along a page, and the next bucket's begins there */
		if (!BufferIsValid(r->buffer) || block != r->block)
		{
			leave_page(r);
			CHECK_FOR_INTERRUPTS();
			r->buffer = grnnd_store_read(r->store, block, GRNND_NODES);
			r->block = block;
		}
		rec = grnnd_page_record(BufferGetPage(r->buffer), r->ix,
								grn_node_slot(&r->ix->layout, id));
		/* vacuum has freed it since we knew of it: what was read before comes twice */
		if (PageIsNew(BufferGetPage(r->buffer)) || !grnnd_in_list(r->ix, rec, bucket))
		{
			leave_page(r);
			if (!grnnd_lists_current(r->index, r->ix))
				return false;
			id = grnnd_list_head(r->index, r->ix, bucket).first;
			continue;
		}
		if (grn_record_check(&r->ix->layout, rec, id, GRN_MAX_NODES) != NULL)
			grnnd_corrupt(r->index, block, "impossible list of rows");
		ask_ahead(r, id);
		take_rows(r, run, rec);
		id = rec->next;
	}
	return true;
}

bool
grnnd_list_read(GrnndStore *store, const GrnndListed *listed, const GrnFilter *filter,
				GrnSearch *search)
{
	Relation	index = store->index;
	const GrnndIndex *ix = store->ix;
	Reader		r = {.store = store, .index = index, .ix = ix, .listed = listed, .search = search,
		.first_head = PG_UINT32_MAX, .last_head = 0, .buffer = InvalidBuffer};
	GrnSigSet  *sets = palloc(filter->nsets * sizeof(GrnSigSet));
	bool		whole = true;

	r.filter.sets = sets;
	for (uint32 i = 0; i < filter->nsets; i++)
		if (!listed->covers || filter->sets[i].at != listed->column)
			sets[r.filter.nsets++] = filter->sets[i];
	r.limit = grnnd_id_limit(index, ix);
	r.last = grnnd_list_bucket(&ix->meta, listed->column, listed->ranks[listed->n - 1].most);
	r.heads = palloc(GRNND_LISTS_PER_PAGE * sizeof(GrnndListHead));
	r.wanted = palloc(grn_list_rows(&ix->layout) * sizeof(bool));
	for (uint32 i = 0; i < listed->n && whole;)
	{
		Run			run = run_of(ix, listed, i);

		for (uint32 bucket = run.first; bucket <= run.last && whole; bucket++)
			whole = read_bucket(&r, &run, bucket);
		i = run.to + 1;
	}
	leave_page(&r);
	pfree(r.wanted);
	pfree(r.heads);
	pfree(sets);
	/* inserts that the snapshot sees wrote to these lists if there are no others even now */
	return whole && (!grnnd_renews_lists(&ix->meta) || grnnd_lists_current(index, ix));
}

/* ---- adding ---- */

void
grnnd_list_start(const GrnndMeta *meta, GrnRecord *rec, uint32 bucket)
{
	rec->state = GRN_LIST;
	rec->next = GRN_INVALID_ID;
	grn_tids_set_owner(rec, bucket, meta->list_generation);
}

/* Puts as many of the rows [n] into a record as it has room for, and returns how many. */
static uint32
put_rows(const GrnLayout *l, GrnRecord *rec, const GrnListRow *rows, uint32 n)
{
	uint32		count = Min(n, grn_list_rows(l) - rec->ntids16);

	for (uint32 i = 0; i < count; i++)
		grn_list_set_row(l, rec, rec->ntids16++, &rows[i]);
	return count;
}

/*
 * Puts rows into the first record from id on that has room, and returns how many: 0 if it is
 * farther than a few steps away, lest inserts walk long chains whose records are full.  An empty
 * record takes none: it belongs to vacuum, which is about to free it.
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
		if (grnnd_in_list(ix, e.rec, bucket))
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

/* Puts rows into a new record before the chain, and returns how many. */
static uint32
prepend(Relation index, Relation heap, const GrnndIndex *ix, uint32 bucket, const GrnListRow *rows,
		uint32 n)
{
	GrnndListHead head = grnnd_list_head(index, ix, bucket);
	GrnRecord  *rec = palloc0(ix->layout.record_bytes);
	uint32		added;
	uint32		id;

	grnnd_list_start(&ix->meta, rec, bucket);
	rec->next = head.first;
	added = put_rows(&ix->layout, rec, rows, n);
	id = grnnd_new_record(index, heap, ix, rec);
	pfree(rec);
	grnnd_test_point("list-written");
	for (;;)
	{
		GrnndListHead longer = {.first = id, .room = id, .records = head.records + 1};
		GrnndEdit	e;

		if (grnnd_change_list_head(index, ix, bucket, &head, &longer))
			return added;
		/* no other backend knows of our record yet: aim it anew */
		head = grnnd_list_head(index, ix, bucket);
		grnnd_edit_begin(&e, index, ix, id);
		grnnd_edit_change(&e)->next = head.first;
		grnnd_edit_end(&e);
	}
}

bool
grnnd_list_has(Relation index, const GrnndIndex *ix, uint32 bucket, const GrnListRow *row)
{
	const GrnLayout *l = &ix->layout;
	uint32		limit = grnnd_id_limit(index, ix);
	uint32		id = grnnd_list_head(index, ix, bucket).first;
	bool		found = false;

	for (uint32 steps = 0; !found && id < limit && steps < MOST_SOUGHT; steps++)
	{
		GrnndEdit	e;

		CHECK_FOR_INTERRUPTS();
		grnnd_edit_begin(&e, index, ix, id);
		id = GRN_INVALID_ID;
		if (grnnd_in_list(ix, e.rec, bucket))
		{
			id = e.rec->next;
			for (uint32 i = 0; i < e.rec->ntids16 && !found; i++)
			{
				GrnListRow	r = grn_list_row(l, e.rec, i);

				/* a stale one of the slot's last node has another code */
				found = r.id == row->id && r.rank == row->rank &&
					memcmp(&r.factor, &row->factor, sizeof(GrnFactor)) == 0 &&
					memcmp(r.code, row->code, l->code_bytes) == 0 &&
					memcmp(r.sig, row->sig, l->sig_bytes) == 0;
			}
		}
		grnnd_edit_end(&e);
	}
	return found;
}

void
grnnd_list_add(Relation index, Relation heap, const GrnndIndex *ix, uint32 bucket,
			   const GrnListRow *rows, uint32 n)
{
	GrnndListHead head = grnnd_list_head(index, ix, bucket);
	GrnndListHead longer = head;
	uint32		done = add_from(index, ix, bucket, &longer.room, rows, n);

	/* several steps away, so the next insert need not take them */
	if (done > 0 && longer.room != head.room)
		grnnd_change_list_head(index, ix, bucket, &head, &longer);
	while (done < n)
		done += prepend(index, heap, ix, bucket, rows + done, n - done);
}
