/*
 * search_list.c - the candidate list of a search: the ef nearest candidates, sorted, and the
 * candidates that the list rejects.
 */
#include "store/search_impl.h"

#include "space/kernels/dist.h"

/* Merge sort, with insertion sort for short runs. */
void
grn_sort_keys(Key *keys, Key *scratch, size_t n)
{
	enum
	{
		RUN = 16
	};
	Key		   *from = keys;
	Key		   *to = scratch;

	for (size_t a = 0; a < n; a += RUN)
		for (size_t i = a + 1; i < n && i < a + RUN; i++)
		{
			Key			k = keys[i];
			size_t		j = i;

			for (; j > a && keys[j - 1] > k; j--)
				keys[j] = keys[j - 1];
			keys[j] = k;
		}
	for (size_t width = RUN; width < n; width *= 2)
	{
		Key		   *t = from;

		for (size_t a = 0; a < n; a += 2 * width)
		{
			size_t		m = a + width < n ? a + width : n;
			size_t		e = a + 2 * width < n ? a + 2 * width : n;
			size_t		i = a;
			size_t		j = m;

			for (size_t o = a; o < e; o++)
				to[o] = i < m && (j == e || from[i] <= from[j]) ? from[i++] : from[j++];
		}
		from = to;
		to = t;
	}
	if (from != keys)
		memcpy(keys, from, n * sizeof(Key));
}

/* ---- rejected candidates ---- */

/*
 * Size from which on an array of rejected candidates is compacted when it is full.  Smaller arrays
 * grow, because a sort at each size costs more than repeated candidates do.  At ef 200, sets of
 * 1,024 bits and histograms by L1, whose runs are longest: 1.7 and 1.8 ms a query, with 16,384 keys
 * 3.1 and 2.6 ms, a third of it in sorts (10,000 rows).
 */
#define LEAST_COMPACTED 65536

static inline uint32_t *
kept_slot(const GrnSearch *s, uint32_t id)
{
	return &s->rejected.ids[hash_slot(id, s->rejected.nids)];
}

/*
 * Caches the ids of rejected candidates.  Each id has one slot, chosen by its hash.  A later id
 * overwrites an earlier id in its slot, so the cache is incomplete.
 */
static void
keep_ids(GrnSearch *s)
{
	Rejected   *r = &s->rejected;
	size_t		n = r->nids > 0 ? r->nids : GRN_LEAST_SLOTS;

	while (n < r->heap.room)
		n *= 2;
	if (n > r->nids)
	{
		if (r->ids != NULL)
			s->store->free(s->store, r->ids);
		r->ids = s->store->alloc(s->store, n * sizeof(uint32_t));
		r->nids = n;
		memset(r->ids, 0xFF, n * sizeof(uint32_t));
	}
	for (size_t i = 0; i < r->heap.n; i++)
		*kept_slot(s, KEY_ID(r->heap.keys[i])) = KEY_ID(r->heap.keys[i]);
}

/*
 * Removes repeated and expanded ids from the full array of rejected candidates.  An id arrives
 * once for each visited record that links to it, so the removal often frees most of the array.
 */
static void
compact_rejected(GrnSearch *s)
{
	Key		   *keys = s->rejected.heap.keys;
	size_t		before = s->rejected.heap.n;
	Key		   *scratch = s->store->alloc(s->store, before * sizeof(Key) + 1);
	size_t		n = 0;

	grn_sort_keys(keys, scratch, before);
	s->store->free(s->store, scratch);
	for (size_t i = 0; i < before; i++)
		if ((n == 0 || keys[i] != keys[n - 1]) && !is_expanded(s, KEY_ID(keys[i])))
			keys[n++] = keys[i];
	s->rejected.heap.n = n;		/* a sorted array is also a heap */
}

void
grn_reject(GrnSearch *s, Key key)
{
	Rejected   *r = &s->rejected;
	Keys	   *heap = &r->heap;

	if (!grn_keeps_rejected(s) || s->truncated)
		return;
	if (heap->n == heap->room)
	{
		bool		exceeds = grn_exceeds_memory(s, heap->room * sizeof(Key));

		if (exceeds || heap->room >= LEAST_COMPACTED)
			compact_rejected(s);
		if (heap->n * 2 > heap->room)
		{
			s->truncated = exceeds;
			if (exceeds)
				return;
			reserve_keys(s, heap, heap->room * 2 - heap->n);
			if (r->resumed && !s->p.closed)
				keep_ids(s);
		}
	}
	if (r->resumed)
	{
		heap_push(heap, key);
		if (r->nids > 0)
			*kept_slot(s, KEY_ID(key)) = KEY_ID(key);
	}
	else
		heap->keys[heap->n++] = key;
}

/* ---- candidates ---- */

/*
 * Index of the first key on the list that is not less than `key`.  The loop has no branches: their
 * direction would be random, and a misprediction costs more than the search.
 */
static inline uint32_t
find_on_list(const GrnSearch *s, Key key)
{
	const Key  *base = s->list.keys;
	uint32_t	n = s->list.n;

	if (n == 0)
		return 0;
	while (n > 1)
	{
		uint32_t	half = n / 2;

		base += half & (0 - (uint32_t) (base[half - 1] < key));
		n -= half;
	}
	return (uint32_t) (base - s->list.keys) + (*base < key);
}

/* Inserts a key into the list at index `at`. */
static void
put_on_list(GrnSearch *s, uint32_t at, Key key)
{
	if (s->list.n == s->list.room)
	{
		Key			last = s->list.keys[--s->list.n];

		if (!(last & KEY_EXPANDED))
			grn_reject(s, last);
	}
	memmove(s->list.keys + at + 1, s->list.keys + at, (s->list.n - at) * sizeof(Key));
	s->list.keys[at] = key;
	s->list.n++;
	if (at < s->list.cursor)
		s->list.cursor = at;
}

/* Is `key` on the list? at: index by find_on_list(). */
static inline bool
is_listed(const GrnSearch *s, uint32_t at, Key key)
{
	return at < s->list.n && (s->list.keys[at] | KEY_EXPANDED) == (key | KEY_EXPANDED);
}

static void
offer(GrnSearch *s, Key key, bool recheck)
{
	uint32_t	at = find_on_list(s, key);

	if (is_listed(s, at, key))
		return;
	if (recheck && is_expanded(s, KEY_ID(key)))
		return;
	if (at == s->list.room)
		grn_reject(s, key);
	else
		put_on_list(s, at, key);
}

void
grn_offer(GrnSearch *s, Key key)
{
	offer(s, key, s->list.recheck);
}

void
grn_list_found(GrnSearch *s, Key key)
{
	offer(s, key, false);
}

/* Keeps a candidate that is farther than the whole of a full list. */
static inline void
reject_far(GrnSearch *s, Key key)
{
	/* a cached id is rejected, on the list, or expanded already */
	if (!(s->rejected.resumed && *kept_slot(s, KEY_ID(key)) == KEY_ID(key)))
		grn_reject(s, key);
}

void
grn_reject_far(GrnSearch *s, const uint64_t *raw, uint32_t n)
{
	for (uint32_t i = 0; i < n && grn_keeps_rejected(s); i++)
		reject_far(s, raw_key(raw[i]));
}

/*
 * Offers a candidate unless it was offered lately, which is true of a third of all candidates.
 * Such a candidate is on the list or was pushed off the list, whose bound has only fallen since.
 * The list must not have lost a node.
 */
static inline void
offer_once(GrnSearch *s, Key key)
{
	Key		   *offered = &s->list.offered[KEY_ID(key) & (OFFERED_MEMORY - 1)];

	if (*offered != key)
	{
		*offered = key;
		grn_offer(s, key);
	}
}

/* Most neighbors are farther than a full list; a loop without branches drops these first. */
void
grn_offer_neighbors(GrnSearch *s)
{
	const uint32_t *ids = s->visit.neighbors;
	const float *estimates = s->visit.estimates;
	uint32_t	count;
	Key			near[GRN_MAX_DEGREE];
	uint32_t	n = 0;
	Key			bound = list_bound(s);

	if (!s->codes)
		grn_measure_neighbors(s);
	count = s->visit.count;
	if (grn_keeps_rejected(s) && !s->rejected.resumed && s->rejected.heap.room - s->rejected.heap.n >= count)
	{
		Key		   *far = s->rejected.heap.keys + s->rejected.heap.n;
		uint32_t	nfar = 0;

		for (uint32_t i = 0; i < count; i++)
		{
			Key			key = make_key(estimates[i], ids[i]);

			near[n] = far[nfar] = key;
			n += key <= bound;
			nfar += key > bound;
		}
		s->rejected.heap.n += nfar;
	}
	else
		for (uint32_t i = 0; i < count; i++)
		{
			Key			key = make_key(estimates[i], ids[i]);

			near[n] = key;
			n += key <= bound;
			if (key > bound)
				reject_far(s, key);
		}
	if (s->list.recheck)
		for (uint32_t i = 0; i < n; i++)
			grn_offer(s, near[i]);
	else
		for (uint32_t i = 0; i < n; i++)
			offer_once(s, near[i]);
}

void
grn_unlist(GrnSearch *s, Key key)
{
	uint32_t	i = find_on_list(s, key | KEY_EXPANDED);

	if (i == s->list.n || s->list.keys[i] != (key | KEY_EXPANDED))
		return;
	s->list.n--;
	memmove(s->list.keys + i, s->list.keys + i + 1, (s->list.n - i) * sizeof(Key));
	if (s->list.cursor > i)
		s->list.cursor--;
	s->list.recheck = true;
}

bool
grn_take_rejected(GrnSearch *s)
{
	uint32_t	listed = s->list.n;

	if (!s->rejected.resumed)
	{
		heap_make(&s->rejected.heap);
		if (!s->p.closed)
			keep_ids(s);
	}
	s->rejected.resumed = true;
	s->list.recheck = true;
	while (has_rejected(s) && s->list.n < s->list.room)
	{
		if (s->rejected.heap.n == 0)
			grn_choose_waiting(s, &s->rejected.heap);
		grn_offer(s, heap_pop(&s->rejected.heap));
	}
	return s->list.n > listed;
}
