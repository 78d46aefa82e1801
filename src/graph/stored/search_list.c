/*
 * search_list.c - the candidate list of a search: the ef nearest candidates, sorted, and the
 * candidates that the list rejects.
 */
#include "graph/stored/search_impl.h"

#include "graph/kernels/dist.h"

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

#define MIN_KEPT_IDS 256		/* power of two */
/*
 * Size from which on an array of rejected candidates is compacted when it is full.  Smaller arrays
 * grow, because a sort at each size costs more than repeated candidates do.
 */
#define LEAST_COMPACTED 16384

static inline uint32_t *
kept_slot(const GrnSearch *s, uint32_t id)
{
	return &s->kept_ids[hash_slot(id, s->nkept_ids)];
}

/*
 * Caches the ids of rejected candidates.  Each id has one slot, chosen by its hash.  A later id
 * overwrites an earlier id in its slot, so the cache is incomplete.
 */
static void
keep_ids(GrnSearch *s)
{
	size_t		n = s->nkept_ids > 0 ? s->nkept_ids : MIN_KEPT_IDS;

	while (n < s->rejected_room)
		n *= 2;
	if (n > s->nkept_ids)
	{
		if (s->kept_ids != NULL)
			s->store->free(s->store, s->kept_ids);
		s->kept_ids = s->store->alloc(s->store, n * sizeof(uint32_t));
		s->nkept_ids = n;
		memset(s->kept_ids, 0xFF, n * sizeof(uint32_t));
	}
	for (size_t i = 0; i < s->rejected; i++)
		*kept_slot(s, KEY_ID(s->rejected_keys[i])) = KEY_ID(s->rejected_keys[i]);
}

/*
 * Removes repeated and expanded ids from the full array of rejected candidates.  An id arrives
 * once for each visited record that links to it, so the removal often frees most of the array.
 */
static void
compact_rejected(GrnSearch *s)
{
	Key		   *scratch = s->store->alloc(s->store, s->rejected * sizeof(Key) + 1);
	size_t		n = 0;

	grn_sort_keys(s->rejected_keys, scratch, s->rejected);
	s->store->free(s->store, scratch);
	for (size_t i = 0; i < s->rejected; i++)
		if ((n == 0 || s->rejected_keys[i] != s->rejected_keys[n - 1]) &&
			!is_expanded(s, KEY_ID(s->rejected_keys[i])))
			s->rejected_keys[n++] = s->rejected_keys[i];
	s->rejected = n;			/* a sorted array is also a heap */
}

void
grn_reject(GrnSearch *s, Key key)
{
	if (!s->p.resumable || s->truncated)
		return;
	if (s->rejected == s->rejected_room)
	{
		bool		exceeds = s->p.memory_limit > 0 &&
			grn_search_bytes(s) + s->rejected_room * sizeof(Key) > s->p.memory_limit;

		if (exceeds || s->rejected_room >= LEAST_COMPACTED)
			compact_rejected(s);
		if (s->rejected * 2 > s->rejected_room)
		{
			if (exceeds)
			{
				s->truncated = true;
				return;
			}
			reserve(s, &s->rejected_keys, sizeof(Key), s->rejected,
					s->rejected_room * 2, &s->rejected_room);
			if (s->resumed && !s->p.closed)
				keep_ids(s);
		}
	}
	if (s->resumed)
	{
		heap_push(s->rejected_keys, &s->rejected, key);
		if (s->nkept_ids > 0)
			*kept_slot(s, KEY_ID(key)) = KEY_ID(key);
	}
	else
		s->rejected_keys[s->rejected++] = key;
}

/* ---- candidates ---- */

/*
 * Index of the first key on the list that is not less than `key`.  The loop has no branches: their
 * direction would be random, and a misprediction costs more than the search.
 */
static inline uint32_t
find_on_list(const GrnSearch *s, Key key)
{
	const Key  *base = s->list;
	uint32_t	n = s->listed;

	if (n == 0)
		return 0;
	while (n > 1)
	{
		uint32_t	half = n / 2;

		base += half & (0 - (uint32_t) (base[half - 1] < key));
		n -= half;
	}
	return (uint32_t) (base - s->list) + (*base < key);
}

/* Inserts a key into the list at index `at`. */
static void
put_on_list(GrnSearch *s, uint32_t at, Key key)
{
	if (s->listed == s->p.ef)
	{
		Key			last = s->list[--s->listed];

		if (!(last & KEY_EXPANDED))
			grn_reject(s, last);
	}
	memmove(s->list + at + 1, s->list + at, (s->listed - at) * sizeof(Key));
	s->list[at] = key;
	s->listed++;
	if (at < s->cursor)
		s->cursor = at;
}

/* Is `key` on the list? at: index by find_on_list(). */
static inline bool
is_listed(const GrnSearch *s, uint32_t at, Key key)
{
	return at < s->listed && (s->list[at] | KEY_EXPANDED) == (key | KEY_EXPANDED);
}

void
grn_offer(GrnSearch *s, Key key)
{
	uint32_t	at = find_on_list(s, key);

	if (is_listed(s, at, key))
		return;
	if (s->recheck && is_expanded(s, KEY_ID(key)))
		return;
	if (at == s->p.ef)
		grn_reject(s, key);
	else
		put_on_list(s, at, key);
}

/* Keeps a candidate that is farther than the whole of a full list. */
static inline void
reject_far(GrnSearch *s, Key key)
{
	/* a cached id is rejected, on the list, or expanded already */
	if (!(s->resumed && *kept_slot(s, KEY_ID(key)) == KEY_ID(key)))
		grn_reject(s, key);
}

void
grn_reject_far(GrnSearch *s, const uint64_t *raw, uint32_t n)
{
	for (uint32_t i = 0; i < n && s->p.resumable; i++)
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
	Key		   *offered = &s->offered_keys[KEY_ID(key) & (OFFERED_MEMORY - 1)];

	if (*offered != key)
	{
		*offered = key;
		grn_offer(s, key);
	}
}

/*
 * Offers at most GRN_MAX_DEGREE candidates.  Most are farther than the whole of a full list; a
 * loop without branches separates far candidates first.
 */
static void
offer_some(GrnSearch *s, const uint32_t *ids, const float *estimates, uint32_t count)
{
	Key			near[GRN_MAX_DEGREE];
	uint32_t	n = 0;
	Key			bound = list_bound(s);

	if (s->p.resumable && !s->resumed && s->rejected_room - s->rejected >= count)
	{
		Key		   *far = s->rejected_keys + s->rejected;
		uint32_t	nfar = 0;

		for (uint32_t i = 0; i < count; i++)
		{
			Key			key = make_key(estimates[i], ids[i]);

			near[n] = far[nfar] = key;
			n += key <= bound;
			nfar += key > bound;
		}
		s->rejected += nfar;
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
	if (s->recheck)
		for (uint32_t i = 0; i < n; i++)
			grn_offer(s, near[i]);
	else
		for (uint32_t i = 0; i < n; i++)
			offer_once(s, near[i]);
}

void
grn_offer_keys(GrnSearch *s, const uint32_t *ids, const float *estimates, uint32_t n)
{
	for (uint32_t i = 0; i < n; i += GRN_MAX_DEGREE)
		offer_some(s, ids + i, estimates + i, n - i < GRN_MAX_DEGREE ? n - i : GRN_MAX_DEGREE);
}

void
grn_unlist(GrnSearch *s, Key key)
{
	for (uint32_t i = 0; i < s->listed; i++)
		if (s->list[i] == (key | KEY_EXPANDED))
		{
			memmove(s->list + i, s->list + i + 1, (s->listed - i - 1) * sizeof(Key));
			s->listed--;
			if (s->cursor > i)
				s->cursor--;
			s->recheck = true;
			return;
		}
}

bool
grn_take_rejected(GrnSearch *s)
{
	uint32_t	listed = s->listed;

	if (!s->resumed)
	{
		heap_make(s->rejected_keys, s->rejected);
		if (!s->p.closed)
			keep_ids(s);
	}
	s->resumed = true;
	s->recheck = true;
	while (has_rejected(s) && s->listed < s->p.ef)
	{
		if (s->rejected == 0)
			grn_choose_waiting(s);
		grn_offer(s, heap_pop(s->rejected_keys, &s->rejected));
	}
	return s->listed > listed;
}
