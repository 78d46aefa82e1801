/*
 * list_read.c - scans read lists of rows by the values of filter columns.
 */
#include "am/filter/filter.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"

#include "am/index/index.h"

/* Returns the directory's page with a bucket's entry, locked in share mode. */
static Buffer
lock_head_page(GrnndStore *store, uint32 bucket)
{
	const GrnndMeta *meta = &store->ix->meta;

	Assert(bucket / GRNND_LISTS_PER_PAGE < meta->list_pages);
	return grnnd_store_read(store, meta->list_block + bucket / GRNND_LISTS_PER_PAGE, GRNND_LISTS);
}

/*
 * Number of the directory's pages that are read to estimate a price: an eighth of the pages that
 * the shortest search visits.  Half and twice change no visit by filters that 1 to 30% of 20,000
 * sentences and image patches pass.
 */
#define MOST_PIECES 8

/* Buckets from first to last, which hold the ranks with numbers from `from` to `to`. */
typedef struct Run
{
	uint32		first;
	uint32		last;
	uint32		from;
	uint32		to;
} Run;

/* The run that begins with rank number `from`.  The next run begins with number `to` + 1. */
static Run
run_of(const GrnndIndex *ix, const GrnndListed *listed, uint32 from)
{
	const GrnndRanks *r = listed->ranks;
	Run			run = {.from = from, .to = from};

	run.first = grn_list_bucket(ix->meta.list_buckets, listed->column, r[from].least);
	run.last = grn_list_bucket(ix->meta.list_buckets, listed->column, r[from].most);
	while (run.to + 1 < listed->n &&
		   grn_list_bucket(ix->meta.list_buckets, listed->column, r[run.to + 1].least) <= run.last)
		run.last = grn_list_bucket(ix->meta.list_buckets, listed->column, r[++run.to].most);
	return run;
}

/* Adds the sizes of buckets first to last, which lie on one page of the directory. */
static void
add_sizes(GrnndStore *store, uint32 first, uint32 last, GrnndListSize *size)
{
	Buffer		buffer = lock_head_page(store, first);

	for (uint32 b = first; b <= last; b++)
	{
		const GrnndListHead *head = grnnd_list_head_on(BufferGetPage(buffer), b);

		size->records += head->records;
		size->groups += head->groups;
	}
	UnlockReleaseBuffer(buffer);
}

GrnndListSize
grnnd_list_size(GrnndStore *store, const GrnndListed *listed)
{
	GrnndListSize size = {0, 0};
	uint64		pieces = 0;		/* of runs, each of one page */

	for (uint32 i = 0; i < listed->n;)
	{
		Run			run = run_of(store->ix, listed, i);

		for (uint32 b = run.first; b <= run.last; pieces++)
		{
			uint32		end = Min((b / GRNND_LISTS_PER_PAGE + 1) * GRNND_LISTS_PER_PAGE - 1, run.last);

			if (pieces < MOST_PIECES)
				add_sizes(store, b, end, &size);
			b = end + 1;
		}
		i = run.to + 1;
	}
	if (pieces > MOST_PIECES)
	{
		size.records = size.records * pieces / MOST_PIECES;
		size.groups = size.groups * pieces / MOST_PIECES;
	}
	return size;
}

/*
 * A walk along a chain of records, with detection of cycles.  The mark is the id at the last step
 * that was a power of two, so a walk ends before it has gone around a cycle three times.
 */
typedef struct ChainWalk
{
	uint32		steps;
	uint32		mark;
} ChainWalk;

#define WALK_BEGINS ((ChainWalk) {0, GRN_INVALID_ID})

/* Advances the walk.  Returns false if the walk is in a cycle. */
static bool
walk_on(ChainWalk *walk, uint32 id)
{
	if (id == walk->mark)
		return false;
	if ((walk->steps & (walk->steps + 1)) == 0)
		walk->mark = id;
	walk->steps++;
	return true;
}

/* Number of groups determined ahead, for prefetching.  In memory half and twice take as long. */
#define GROUPS_AHEAD 8

struct GrnndListReader
{
	GrnndStore *store;
	Relation	index;
	const GrnndIndex *ix;
	const GrnndListed *listed;
	GrnFilter	filter;			/* conditions that ranks do not cover */
	GrnSearch  *search;
	uint32		limit;			/* upper bound of ids */
	uint32		last;			/* the last bucket to read */
	GrnndListHead *heads;		/* directory entries of buckets first_head to last_head, all on one
								 * page */
	uint32		first_head;
	uint32		last_head;
	Buffer		buffer;			/* the current page of records, locked in share mode, or
								 * InvalidBuffer */
	BlockNumber block;
	bool	   *wanted;			/* [rows of a record] */
	uint64		records;		/* number of records read */
	uint32		groups[GROUPS_AHEAD];	/* [ngroups] the nearest groups not read yet, nearest first */
	uint32		next_group;		/* index of the next group in groups[] */
	uint32		ngroups;
};
typedef GrnndListReader Reader;

static bool
is_wanted(const GrnndListed *listed, const Run *run, uint32 rank)
{
	uint32		i = run->from;

	while (i < run->to && listed->ranks[i].most < rank)
		i++;
	return rank >= listed->ranks[i].least && rank <= listed->ranks[i].most;
}

#define BLOCK 16				/* rows compared in one inner loop */

/* Are all ranks within one range, and all ids below the limit? */
static bool
are_all(const GrnListArrays *a, uint32 n, GrnndRanks ranks, uint32 limit)
{
	uint32		width = ranks.most - ranks.least;
	uint32		others = 0;
	uint32		i = 0;

	/* compilers vectorize a loop of constant length */
	for (; i + BLOCK <= n; i += BLOCK)
		for (uint32 j = i; j < i + BLOCK; j++)
			others |= (a->ranks[j] - ranks.least > width) | (a->ids[j] >= limit);
	for (; i < n; i++)
		others |= (a->ranks[i] - ranks.least > width) | (a->ids[i] >= limit);
	return others == 0;
}

static void
offer_rows(Reader *r, const Run *run, const GrnRecord *rec)
{
	const GrnLayout *l = &r->ix->layout;
	GrnListArrays a = grn_list_arrays(l, rec);
	uint32		n = rec->ntids16;
	bool		any = false;

	if (run->from == run->to)
	{
		GrnndRanks	ranks = r->listed->ranks[run->from];

		/* the usual case for frequent values */
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

static const GrnndListHead *
head_of(Reader *r, uint32 bucket)
{
	if (bucket < r->first_head || bucket > r->last_head)
	{
		uint32		end = (bucket / GRNND_LISTS_PER_PAGE + 1) * GRNND_LISTS_PER_PAGE - 1;
		Buffer		buffer;

		leave_page(r);
		r->first_head = bucket;
		r->last_head = Min(r->last, end);
		buffer = lock_head_page(r->store, bucket);
		memcpy(r->heads, grnnd_list_head_on(BufferGetPage(buffer), bucket),
			   (r->last_head - bucket + 1) * sizeof(GrnndListHead));
		UnlockReleaseBuffer(buffer);
	}
	return &r->heads[bucket - r->first_head];
}

/*
 * Prefetches the record at an equal place on the next page while a record is read.  A chain mostly
 * continues in that record, and so does the next bucket.  Pages from a file are consecutive, so
 * the kernel reads them ahead.
 */
static void
prefetch_next(Reader *r, uint32 id)
{
	uint32		next = id + r->ix->layout.per_page;

	if (next < r->limit && r->store->missing_left == 0)
		r->store->base.prefetch(&r->store->base, &next, 1);
}

/*
 * Reads a record and locks its page in share mode.  The lock stays until another page is read,
 * because a chain mostly continues on its page.  Returns NULL if vacuum has freed the record in
 * the meantime.
 */
static const GrnRecord *
read_record(Reader *r, uint32 id)
{
	BlockNumber block = grnnd_node_block(r->ix, id);
	const GrnRecord *rec;

	if (id >= r->limit)
		r->limit = grnnd_id_limit(r->index, r->ix);
	if (id >= r->limit)
		grnnd_corrupt(r->index, block, "impossible list of rows");
	if (!BufferIsValid(r->buffer) || block != r->block)
	{
		leave_page(r);
		CHECK_FOR_INTERRUPTS();
		r->buffer = grnnd_store_read(r->store, block, GRNND_NODES);
		r->block = block;
	}
	rec = grnnd_page_record(BufferGetPage(r->buffer), r->ix, grn_node_slot(&r->ix->layout, id));
	if (PageIsNew(BufferGetPage(r->buffer)) || !grnnd_is_listing(r->ix, rec))
		return NULL;
	if (grn_record_check(&r->ix->layout, rec, id, GRN_MAX_NODES) != NULL)
		grnnd_corrupt(r->index, block, "impossible list of rows");
	r->records++;
	return rec;
}

/*
 * Offers the groups of a bucket's guide.  Vacuum frees a guide if all its groups are empty, and
 * the slot may then hold a record of another generation of lists; are_current() detects this case
 * at the reader's end.
 */
static void
read_guide(Reader *r, uint32 bucket)
{
	uint32		id = head_of(r, bucket)->guide;
	ChainWalk	walk = WALK_BEGINS;

	while (id != GRN_INVALID_ID)
	{
		const GrnRecord *rec = read_record(r, id);
		GrnListArrays a;

		if (rec == NULL || !grnnd_in_list(r->ix, rec, bucket, GRN_GUIDE))
			return;
		if (!walk_on(&walk, id))
			grnnd_corrupt(r->index, r->block, "impossible list of rows");
		prefetch_next(r, id);
		a = grn_list_arrays(&r->ix->layout, rec);
		grn_search_groups(r->search, a.ids, a.codes, a.factors, rec->ntids16);
		id = rec->next;
	}
}

/* Reads the rows of a bucket.  Returns false if a fit has begun to replace the lists. */
static bool
read_bucket(Reader *r, const Run *run, uint32 bucket)
{
	uint32		id = head_of(r, bucket)->first;
	uint32		left = GRN_INVALID_ID;	/* the last record that had left the chain */
	ChainWalk	walk = WALK_BEGINS;

	while (id != GRN_INVALID_ID)
	{
		const GrnRecord *rec = read_record(r, id);

		/* if the record has left the chain, start again; the search may get rows twice */
		if (rec == NULL || !grnnd_in_list(r->ix, rec, bucket, 0))
		{
			leave_page(r);
			if (!grnnd_lists_current(r->index, r->ix))
				return false;
			/*
			 * a record is freed only after it has left the chain, and its slot is not reused
			 * meanwhile: meeting it twice means damage
			 */
			if (id == left)
				grnnd_corrupt(r->index, grnnd_node_block(r->ix, id), "impossible list of rows");
			left = id;
			id = grnnd_list_head(r->index, r->ix, bucket).first;
			walk = WALK_BEGINS;
			continue;
		}
		if (!walk_on(&walk, id))
			grnnd_corrupt(r->index, r->block, "impossible list of rows");
		prefetch_next(r, id);
		offer_rows(r, run, rec);
		id = rec->next;
	}
	if (head_of(r, bucket)->guide != GRN_INVALID_ID)
		read_guide(r, bucket);
	return true;
}

/* The nearest group not read yet, or GRN_INVALID_ID.  Prefetches groups while pages are missing. */
static uint32
take_group(Reader *r)
{
	if (r->next_group == r->ngroups)
	{
		uint32		id;

		r->next_group = r->ngroups = 0;
		while (r->ngroups < GROUPS_AHEAD &&
			   (id = grn_search_next_group(r->search)) != GRN_INVALID_ID)
			r->groups[r->ngroups++] = id;
		if (r->ngroups == 0)
			return GRN_INVALID_ID;
		if (r->store->missing_left > 0)
			r->store->base.prefetch(&r->store->base, r->groups, r->ngroups);
	}
	return r->groups[r->next_group++];
}

/* Prefetches record `number` of the next group into the processor's cache. */
static void
touch_next(Reader *r, uint32 number)
{
	if (r->next_group < r->ngroups)
		grnnd_store_touch(r->store, r->groups[r->next_group] + number);
}

/* Offers the rows of a group's record with the run of its bucket. */
static void
offer_grouped(Reader *r, const GrnRecord *rec)
{
	uint16		unused;
	uint32		bucket = grn_tids_owner(rec, &unused);

	for (uint32 i = 0; i < r->listed->n;)
	{
		Run			run = run_of(r->ix, r->listed, i);

		if (bucket >= run.first && bucket <= run.last)
		{
			offer_rows(r, &run, rec);
			return;
		}
		i = run.to + 1;
	}
}

static void
read_group(Reader *r, uint32 id)
{
	uint32		steps = 0;

	while (id != GRN_INVALID_ID)
	{
		const GrnRecord *rec = read_record(r, id);

		/* vacuum has freed the empty group, and its slot may hold another record */
		if (rec == NULL || (rec->flags & GRN_GROUP) == 0)
			return;
		if (steps == grn_group_records(&r->ix->layout))
			grnnd_corrupt(r->index, r->block, "impossible list of rows");
		touch_next(r, steps++);
		offer_grouped(r, rec);
		id = rec->next;
	}
}

/* Are the lists complete for the snapshot?  A fit may have begun to replace them. */
static bool
are_current(const Reader *r)
{
	return !grnnd_renews_lists(&r->ix->meta) || grnnd_lists_current(r->index, r->ix);
}

GrnndListReader *
grnnd_list_read(GrnndStore *store, const GrnndListed *listed, const GrnFilter *filter,
				GrnSearch *search)
{
	const GrnndIndex *ix = store->ix;
	MemoryContext before = MemoryContextSwitchTo(store->context);
	Reader	   *r = palloc0(sizeof(Reader));
	GrnSigSet  *sets = palloc(filter->nsets * sizeof(GrnSigSet));
	bool		whole = true;
	uint32		id;

	r->store = store;
	r->index = store->index;
	r->ix = ix;
	r->listed = listed;
	r->search = search;
	r->first_head = PG_UINT32_MAX;
	r->buffer = InvalidBuffer;
	r->filter.sets = sets;
	for (uint32 i = 0; i < filter->nsets; i++)
		if (!listed->covers || filter->sets[i].at != listed->column)
			sets[r->filter.nsets++] = filter->sets[i];
	r->limit = grnnd_id_limit(r->index, ix);
	r->last = grn_list_bucket(ix->meta.list_buckets, listed->column, listed->ranks[listed->n - 1].most);
	r->heads = palloc(GRNND_LISTS_PER_PAGE * sizeof(GrnndListHead));
	r->wanted = palloc(grn_list_rows(&ix->layout) * sizeof(bool));
	MemoryContextSwitchTo(before);
	for (uint32 i = 0; i < listed->n && whole;)
	{
		Run			run = run_of(ix, listed, i);

		for (uint32 bucket = run.first; bucket <= run.last && whole; bucket++)
			whole = read_bucket(r, &run, bucket);
		i = run.to + 1;
	}
	while (whole && !grn_search_settled(search) && (id = take_group(r)) != GRN_INVALID_ID)
		read_group(r, id);
	leave_page(r);
	return whole && are_current(r) ? r : NULL;
}

bool
grnnd_list_more(GrnndListReader *r)
{
	uint32		rows = grn_group_room(&r->ix->layout);
	uint32		groups = (grn_search_patience(r->search) + rows - 1) / rows;
	uint32		id;

	while (groups-- > 0 && (id = take_group(r)) != GRN_INVALID_ID)
		read_group(r, id);
	leave_page(r);
	return are_current(r);
}

bool
grnnd_list_has_more(const GrnndListReader *r)
{
	return r->next_group < r->ngroups || grn_search_has_groups(r->search);
}

uint64
grnnd_list_records_read(const GrnndListReader *r)
{
	return r->records;
}
