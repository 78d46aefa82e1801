/*
 * new_lists.c - signatures of a new index's nodes, and its lists of values (am/filter/filter.h).
 *
 * Threads count the rows of each bucket, the lists are planned by these counts, and threads copy
 * the rows to their lists.  Rows of long lists then go into groups (store/group.h), each list by a
 * single thread, because hundreds of lists keep all threads at work.  The longest lists come first,
 * so that threads end at about the same time.
 */
#include "builder/forming.h"

#include <stdlib.h>
#include <string.h>

#include "memory/memory.h"
#include "store/filter.h"
#include "store/value_list.h"

/*
 * Shares in which nodes are counted and sorted.  Rows of a list are always in the order of nodes.
 * With half and twice of this and of ROWS_AHEAD, 20,000 sentences, image patches and SIFT rows with
 * four columns are indexed in the same time.
 */
#define SHARES 32
/*
 * Rows that are prefetched ahead: nodes and rows have different orders, so the values of successive
 * nodes are scattered in memory.
 */
#define ROWS_AHEAD 16

/* ---- sizes ---- */

GrnNewLists
grn_place_new_lists(const GrnLayout *l, uint32_t nodes, uint32_t nbuckets, const GrnListSizes *sizes, void *segment)
{
	GrnNewLists at = {0};
	GrnArena	a = {segment, 0};

	at.sigs = grn_take(&a, nodes, l->sig_bytes);
	at.buckets = grn_take(&a, (size_t) nbuckets + 1, sizeof(GrnBucket));
	at.counts = grn_take(&a, (size_t) SHARES * nbuckets, sizeof(uint32_t));
	if (sizes != NULL)
	{
		at.longest = grn_take(&a, sizes->lists, sizeof(GrnLongList));
		at.nodes = grn_take(&a, sizes->rows, sizeof(uint32_t));
		at.ranks = grn_take(&a, sizes->rows, sizeof(uint32_t));
		at.groups.order = grn_take(&a, sizes->groups > 0 ? sizes->rows : 0, sizeof(uint32_t));
		at.groups.ends = grn_take(&a, sizes->groups, sizeof(uint32_t));
		at.groups.middles = grn_take(&a, sizes->groups, l->code_bytes);
		at.groups.factors = grn_take(&a, sizes->groups, sizeof(GrnFactor));
	}
	at.bytes = a.used;
	return at;
}

void
grn_add_list(GrnListSizes *all, const GrnLayout *l, uint32_t least, uint64_t n, uint64_t nodes)
{
	uint64_t	room = grn_list_rows(l);

	all->rows += n;
	if (grn_has_groups(l, least, n, nodes))
	{
		uint32_t	groups = grn_groups((uint32_t) n, grn_group_room(l));

		all->lists++;
		all->groups += groups;
		all->guides += (groups + room - 1) / room;
	}
	else
		all->records += (n + room - 1) / room;
}

GrnListPlaces
grn_place_lists(const GrnLayout *l, uint64_t first, const GrnListSizes *all)
{
	GrnListPlaces places = {.chains = first, .groups = first + all->records};

	/* The first group begins a page.  Slots left before the first group stay free. */
	if (all->groups > 0)
		places.groups = (places.groups + l->per_page - 1) / l->per_page * l->per_page;
	places.guides = places.groups + all->groups * grn_group_records(l);
	places.end = places.guides + all->guides;
	return places;
}

/* ---- sorting ---- */

static uint32_t
share_begin(const GrnForming *f, size_t share)
{
	return (uint32_t) ((uint64_t) f->result->nodes * share / SHARES);
}

static const uint8_t *
value_of(const GrnForming *f, uint32_t row, uint32_t column)
{
	return grn_value(f->base[GRN_SEG_VALUES], f->layout.sig_bytes, row, column);
}

/* Requests the values of the first row of a later node. */
static void
look_ahead(const GrnForming *f, uint32_t node)
{
	if (node + ROWS_AHEAD < f->result->nodes)
		__builtin_prefetch(value_of(f, f->at.rows[f->at.row_start[node + ROWS_AHEAD]], 0));
}

/* The signature of a node: of its rows, or of any if the rows' signatures differ. */
static uint8_t
sign(const GrnForming *f, uint32_t node, uint32_t column)
{
	const uint32_t *start = f->at.row_start;
	uint8_t		sig = value_of(f, f->at.rows[start[node]], column)[sizeof(uint32_t)];

	for (uint32_t i = start[node] + 1; i < start[node + 1]; i++)
		if (value_of(f, f->at.rows[i], column)[sizeof(uint32_t)] != sig)
			return GRN_SIG_ANY;
	return sig;
}

/*
 * Calls fn for the rows of a share's nodes in the lists of all columns.  Most rows of a node have
 * the same value.  A node that is in a list twice does no harm.
 */
static void
each_row(GrnForming *f, size_t share,
		 void (*fn) (GrnForming *f, uint32_t *at, uint32_t bucket, uint32_t node, uint32_t rank))
{
	uint32_t   *at = f->lists.counts + share * f->nbuckets;

	for (uint32_t node = share_begin(f, share); node < share_begin(f, share + 1); node++)
	{
		look_ahead(f, node);
		for (uint32_t c = 0; c < f->layout.sig_bytes; c++)
		{
			uint32_t	before = 0;

			if ((f->form.listed >> c & 1) == 0)
				continue;
			for (uint32_t i = f->at.row_start[node]; i < f->at.row_start[node + 1]; i++)
			{
				uint32_t	rank;

				memcpy(&rank, value_of(f, f->at.rows[i], c), sizeof(rank));
				if (i == f->at.row_start[node] || rank != before)
					fn(f, at, grn_list_bucket(f->form.buckets, c, rank), node, rank);
				before = rank;
			}
		}
	}
}

static void
count_row(GrnForming *f, uint32_t *at, uint32_t bucket, uint32_t node, uint32_t rank)
{
	(void) f;
	(void) node;
	(void) rank;
	at[bucket]++;
}

static void
place_row(GrnForming *f, uint32_t *at, uint32_t bucket, uint32_t node, uint32_t rank)
{
	uint64_t	row = f->lists.buckets[bucket].row + at[bucket]++;

	f->lists.nodes[row] = node;
	f->lists.ranks[row] = rank;
}

/* A GrnRangeFn over shares: signs nodes, and counts the rows of each bucket. */
static void
count_shares(void *arg, int worker, size_t begin, size_t end)
{
	GrnForming *f = arg;

	(void) worker;
	for (size_t share = begin; share < end; share++)
	{
		for (uint32_t node = share_begin(f, share); node < share_begin(f, share + 1); node++)
		{
			look_ahead(f, node);
			for (uint32_t c = 0; c < f->layout.sig_bytes; c++)
				f->lists.sigs[(uint64_t) node * f->layout.sig_bytes + c] = sign(f, node, c);
		}
		if (f->nbuckets > 0)
			each_row(f, share, count_row);
	}
}

/* A GrnRangeFn over shares: copies the rows behind the rows of earlier shares. */
static void
place_shares(void *arg, int worker, size_t begin, size_t end)
{
	(void) worker;
	for (size_t share = begin; share < end; share++)
		each_row(arg, share, place_row);
}

/* Replaces a bucket's counts by the position of each share's first row.  Returns the rows. */
static uint64_t
begin_shares(GrnForming *f, uint32_t bucket)
{
	uint64_t	n = 0;

	for (size_t share = 0; share < SHARES; share++)
	{
		uint32_t   *at = f->lists.counts + share * f->nbuckets + bucket;
		uint32_t	of_share = *at;

		*at = (uint32_t) n;
		n += of_share;
	}
	return n;
}

static int
longer_first(const void *a, const void *b)
{
	const GrnLongList *x = a;
	const GrnLongList *y = b;

	if (x->n != y->n)
		return x->n < y->n ? 1 : -1;
	return (x->bucket > y->bucket) - (x->bucket < y->bucket);
}

static void
plan_lists(GrnForming *f)
{
	for (uint32_t b = 0; b <= f->nbuckets; b++)
	{
		f->lists.buckets[b] = (GrnBucket) {f->sizes.rows, (uint32_t) f->sizes.records, (uint32_t) f->sizes.groups,
										   (uint32_t) f->sizes.guides};
		if (b < f->nbuckets)
			grn_add_list(&f->sizes, &f->layout, f->form.least_records, begin_shares(f, b), f->result->nodes);
	}
	f->places = grn_place_lists(&f->layout, f->form.first_list, &f->sizes);
}

static bool
need(GrnForming *f, const GrnListSizes *sizes, GrnFailure *failure)
{
	uint64_t	bytes = grn_place_new_lists(&f->layout, f->result->nodes, f->nbuckets, sizes, NULL).bytes;
	void	   *segment = f->host->need(f->host->ctx, GRN_SEG_LISTS, bytes, failure);

	if (segment != NULL)
		f->lists = grn_place_new_lists(&f->layout, f->result->nodes, f->nbuckets, sizes, segment);
	return segment != NULL;
}

bool
grn_make_lists(GrnForming *f, GrnFailure *failure)
{
	uint32_t	n = 0;

	if (!need(f, NULL, failure))
		return false;
	memset(f->lists.counts, 0, (size_t) SHARES * f->nbuckets * sizeof(uint32_t));
	f->parallel->run(f->parallel, SHARES, 1, count_shares, f);
	plan_lists(f);
	if (f->nbuckets == 0)
		return true;
	if (!need(f, &f->sizes, failure))
		return false;
	f->parallel->run(f->parallel, SHARES, 1, place_shares, f);
	for (uint32_t b = 0; b < f->nbuckets; b++)
		if (grn_is_grouped(&f->lists.buckets[b]))
			f->lists.longest[n++] = (GrnLongList) {(uint32_t) (f->lists.buckets[b + 1].row - f->lists.buckets[b].row), b};
	qsort(f->lists.longest, n, sizeof(GrnLongList), longer_first);
	return true;
}

/* ---- groups ---- */

/* The list of a bucket.  Its ids are the numbers of nodes. */
static GrnValueList
list_of(const GrnForming *f, uint32_t bucket)
{
	const GrnBucket *of = &f->lists.buckets[bucket];
	const GrnGroups *all = &f->lists.groups;

	return (GrnValueList) {.layout = &f->layout, .codec = &f->codec, .bucket = bucket,
						   .n = (uint32_t) (of[1].row - of->row), .nodes = f->lists.nodes + of->row, .ranks = f->lists.ranks + of->row,
						   .factors = f->at.factors, .codes = f->at.codes, .sigs = f->lists.sigs,
						   .groups = {all->order + of->row, all->ends + of->group,
									  all->middles + (size_t) of->group * f->layout.code_bytes, all->factors + of->group}};
}

bool
grn_forming_group(GrnForming *f, GrnFailure *failure)
{
	uint64_t	i = __atomic_fetch_add(&f->next_long, 1, __ATOMIC_RELAXED);
	GrnValueList list;
	void	   *workspace;

	if (i >= f->sizes.lists)
		return false;
	list = list_of(f, f->lists.longest[i].bucket);
	workspace = grn_alloc(grn_group_bytes(&f->codec, list.n, grn_group_room(&f->layout)));
	if (workspace == NULL)
	{
		/* The list does not count as grouped: no thread may form pages of it. */
		grn_fail(failure, "53200", "", "the builder process is out of memory for groups of lists");
		return true;
	}
	grn_group_value_list(&list, NULL, NULL, workspace);
	grn_free(workspace);
	__atomic_add_fetch(&f->grouped, 1, __ATOMIC_RELEASE);
	return true;
}

/* ---- records ---- */

/*
 * The last bucket whose items start at or before `number`.  field: offset of the item's number in a
 * GrnBucket.  A bucket without items starts at the start of the next bucket.
 */
static uint32_t
bucket_of(const GrnForming *f, size_t field, uint64_t number)
{
	uint32_t	low = 0;
	uint32_t	high = f->nbuckets;

	while (high - low > 1)
	{
		uint32_t	middle = low + (high - low) / 2;

		if (*(const uint32_t *) ((const char *) &f->lists.buckets[middle] + field) <= number)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Forms a record of a list's chain.  number: among the records of all chains. */
static void
form_chained(const GrnForming *f, uint64_t number, GrnRecord *rec)
{
	uint32_t	bucket = bucket_of(f, offsetof(GrnBucket, record), number);
	const GrnBucket *of = &f->lists.buckets[bucket];
	GrnValueList list = list_of(f, bucket);

	grn_fill_chained(&list, (uint32_t) (number - of->record), rec);
	if (number + 1 < of[1].record)
		rec->next = (uint32_t) (f->places.chains + number + 1);
}

/* Forms a record of a group.  number: among all groups' records.  Without rows it stays free. */
static void
form_group(const GrnForming *f, uint64_t number, GrnRecord *rec)
{
	uint32_t	records = grn_group_records(&f->layout);
	uint64_t	group = number / records;
	uint32_t	at = (uint32_t) (number % records);
	uint32_t	bucket = bucket_of(f, offsetof(GrnBucket, group), group);
	GrnValueList list = list_of(f, bucket);

	group -= f->lists.buckets[bucket].group;
	grn_fill_group(&list, (uint32_t) group, at, rec);
	if ((at + 1) * grn_list_rows(&f->layout) < grn_rows_of_group(&list, (uint32_t) group))
		rec->next = (uint32_t) (f->places.groups + number + 1);
}

/* Forms a record of a guide.  number: among the records of all guides. */
static void
form_guide(const GrnForming *f, uint64_t number, GrnRecord *rec)
{
	uint32_t	bucket = bucket_of(f, offsetof(GrnBucket, guide), number);
	const GrnBucket *of = &f->lists.buckets[bucket];
	GrnValueList list = list_of(f, bucket);
	uint32_t	room = grn_list_rows(&f->layout);
	uint64_t	group = of->group + (number - of->guide) * room;

	for (; group < of[1].group && rec->ntids16 < room; group++)
		grn_guide_to(&list, (uint32_t) (group - of->group),
					 (uint32_t) (f->places.groups + group * grn_group_records(&f->layout)), rec);
	if (number + 1 < of[1].guide)
		rec->next = (uint32_t) (f->places.guides + number + 1);
}

void
grn_form_list(const GrnForming *f, uint64_t id, GrnRecord *rec)
{
	if (id >= f->places.guides)
		form_guide(f, id - f->places.guides, rec);
	else if (id >= f->places.groups)
		form_group(f, id - f->places.groups, rec);
	else if (id - f->places.chains < f->lists.buckets[f->nbuckets].record)
		form_chained(f, id - f->places.chains, rec);
	/* A node that a later insert writes here must not count as a node of the build (vacuum.c). */
	if (rec->state == GRN_FREE)
		rec->version = 1;
}
