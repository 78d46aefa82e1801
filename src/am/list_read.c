/*
 * list_read.c - scans read lists of rows by the values of filter columns.
 */
#include "am/lists.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"

#include "am/cache.h"
#include "am/page.h"

/*
 * The page of the directory that has a bucket's head, with a share lock: grnnd_list_head() of a
 * scan.
 */
static Buffer
look_at_head(GrnndStore *store, uint32 bucket)
{
	const GrnndMeta *meta = &store->ix->meta;

	Assert(bucket / GRNND_LISTS_PER_PAGE < meta->list_pages);
	return grnnd_store_read(store, meta->list_block + bucket / GRNND_LISTS_PER_PAGE, GRNND_LISTS);
}

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
static void
add_sizes(GrnndStore *store, uint32 first, uint32 last, GrnndListSize *size)
{
	Buffer		buffer = look_at_head(store, first);

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
	const GrnndIndex *ix = store->ix;
	struct
	{
		uint32		first;
		uint32		last;
	}			pieces[MOST_LOOKED];
	GrnndListSize size = {0, 0};
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
		add_sizes(store, pieces[i].first, pieces[i].last, &size);
	if (looked > 0)
	{
		size.records = size.records * npieces / looked;
		size.groups = size.groups * npieces / looked;
	}
	return size;
}

/*
 * A walk along a chain of records.  The mark is the id where the steps were a power of two, so a
 * circle is found before a walk has gone round it three times.
 */
typedef struct Walk
{
	uint32		steps;
	uint32		mark;
} Walk;

#define WALK_BEGINS ((Walk) {0, GRN_INVALID_ID})

/* False: the walk has been at this record. */
static bool
walk_on(Walk *walk, uint32 id)
{
	if (id == walk->mark)
		return false;
	if ((walk->steps & (walk->steps + 1)) == 0)
		walk->mark = id;
	walk->steps++;
	return true;
}

/* Groups that are known ahead of the one that is read, so that they are asked for. */
#define GROUPS_AHEAD 8

struct GrnndListReader
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
	uint64		records;		/* that were read */
	uint32		groups[GROUPS_AHEAD];	/* [ngroups] the next ones, nearest first, from number */
	uint32		next_group;		/* next_group on */
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
		buffer = look_at_head(r->store, bucket);
		memcpy(r->heads, grnnd_list_head_on(BufferGetPage(buffer), bucket),
			   (r->last_head - bucket + 1) * sizeof(GrnndListHead));
		UnlockReleaseBuffer(buffer);
	}
	return &r->heads[bucket - r->first_head];
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

/*
 * Locks the page of a record, which stays so until another one is read, since chains mostly go on
 * along a page.  NULL: it holds no record of lists, for vacuum has freed it since we knew of it.
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
 * Offers the groups of a bucket.  A vacuum frees a guide when all of its groups are empty, and
 * another record may be in its place then; that it is of other lists, the reader's end finds.
 */
static void
read_guide(Reader *r, uint32 bucket)
{
	uint32		id = head_of(r, bucket)->guide;
	Walk		walk = WALK_BEGINS;

	while (id != GRN_INVALID_ID)
	{
		const GrnRecord *rec = read_record(r, id);
		uint16		unused;
		GrnListArrays a;

		if (rec == NULL || (rec->flags & GRN_GUIDE) == 0 || grn_tids_owner(rec, &unused) != bucket)
			return;
		if (!walk_on(&walk, id))
			grnnd_corrupt(r->index, r->block, "impossible list of rows");
		ask_ahead(r, id);
		a = grn_list_arrays(&r->ix->layout, rec);
		grn_search_groups(r->search, a.ids, a.codes, a.factors, rec->ntids16);
		id = rec->next;
	}
}

/* False: a fit has begun other lists. */
static bool
read_bucket(Reader *r, const Run *run, uint32 bucket)
{
	uint32		id = head_of(r, bucket)->first;
	uint32		left = GRN_INVALID_ID;	/* a record that the chain had lost */
	Walk		walk = WALK_BEGINS;

	while (id != GRN_INVALID_ID)
	{
		const GrnRecord *rec = read_record(r, id);

		/* where it is of this chain no more, what was read before comes twice */
		if (rec == NULL || !grnnd_in_list(r->ix, rec, bucket))
		{
			leave_page(r);
			if (!grnnd_lists_current(r->index, r->ix))
				return false;
			/* a record is freed after its chain has lost it, and no other takes its id meanwhile */
			if (id == left)
				grnnd_corrupt(r->index, grnnd_node_block(r->ix, id), "impossible list of rows");
			left = id;
			id = grnnd_list_head(r->index, r->ix, bucket).first;
			walk = WALK_BEGINS;
			continue;
		}
		if (!walk_on(&walk, id))
			grnnd_corrupt(r->index, r->block, "impossible list of rows");
		ask_ahead(r, id);
		take_rows(r, run, rec);
		id = rec->next;
	}
	if (head_of(r, bucket)->guide != GRN_INVALID_ID)
		read_guide(r, bucket);
	return true;
}

/* The nearest group that was not read, or GRN_INVALID_ID; asks for several if pages are missing. */
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

/* While a record of a group is read, prefetches the record at its place in the next group. */
static void
touch_next(Reader *r, uint32 number)
{
	if (r->next_group < r->ngroups)
		grnnd_store_touch(r->store, r->groups[r->next_group] + number);
}

/* Takes the rows of a group's record; they may have values of another run. */
static void
take_grouped(Reader *r, const GrnRecord *rec)
{
	uint16		unused;
	uint32		bucket = grn_tids_owner(rec, &unused);

	for (uint32 i = 0; i < r->listed->n;)
	{
		Run			run = run_of(r->ix, r->listed, i);

		if (bucket >= run.first && bucket <= run.last)
		{
			take_rows(r, &run, rec);
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

		/* vacuum has freed it, as it had no row any more, and there may be another in its place */
		if (rec == NULL || (rec->flags & GRN_GROUP) == 0)
			return;
		if (steps == grnnd_group_records(&r->ix->layout))
			grnnd_corrupt(r->index, r->block, "impossible list of rows");
		touch_next(r, steps++);
		take_grouped(r, rec);
		id = rec->next;
	}
}

/* Are these the lists that all inserts which the snapshot sees have written to? */
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
	r->last = grnnd_list_bucket(&ix->meta, listed->column, listed->ranks[listed->n - 1].most);
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
	uint32		rows = grnnd_group_room(&r->ix->layout);
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
