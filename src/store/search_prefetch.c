/*
 * search_prefetch.c - prefetches records of coming candidates.
 */
#include "store/search_impl.h"

/*
 * Number of candidates at the front of the list to prefetch, while records are in memory.  On SIFT
 * a window of 8 prefetches 2.2 times the records that get visited, 4 prefetches 1.4 times and 2
 * prefetches 1.1 times.
 */
#define PREFETCH_WINDOW 4

/*
 * The prefetch window while visits wait for a disk.  On its way to the query a search finds nearer
 * candidates at each visit, so most prefetched records are not visited.  Near the query most
 * candidates on the list are visited.  The window therefore starts narrow, grows by WIDEN for each
 * prefetched candidate that reaches the front of the list, and halves for each front candidate
 * that was not prefetched.  A search then takes 55 reads in 3.4 ms.  Without prefetching it takes
 * 51 reads in 8.0 ms, and with a fixed window of 16 it takes 100 reads in 2.8 ms
 * (test/bench/decisions.md).  Half and twice of both take the same processor time (10,000
 * sentences, 40% of the index in shared buffers).
 */
#define LEAST_WINDOW 2
#define WIDEN 2
/*
 * The largest window behind the first ef candidates: test_search prefetches 2.0 records a visit,
 * 1.9 with 4 and 2.2 without this limit.
 */
#define LAST_WINDOW 8

void
grn_add_prefetch(GrnSearch *s, Key key, uint32_t *ids, uint32_t *n)
{
	uint32_t	id = KEY_ID(key);
	uint32_t   *prefetched = &s->prefetch.ids[id & (PREFETCH_MEMORY - 1)];

	s->prefetch.on_disk = s->store->ahead > 0;
	if (*prefetched == id)
		return;
	*prefetched = id;
	ids[(*n)++] = id;
}

/* Adapts the window. prefetched: the candidate at the front of the list was prefetched. */
static uint32_t
set_window(GrnSearch *s, bool prefetched)
{
	uint32_t	window = prefetched ? s->prefetch.window + WIDEN : s->prefetch.window / 2;

	if (window < LEAST_WINDOW)
		window = LEAST_WINDOW;
	return s->prefetch.window = window < s->store->ahead ? window : s->store->ahead;
}

void
grn_prefetch_ahead(GrnSearch *s)
{
	uint32_t	ids[GRN_MAX_AHEAD];
	uint32_t	window = PREFETCH_WINDOW;
	bool		disk = s->store->ahead > 0;
	uint32_t	n = 0;
	uint32_t	seen = 0;

	if (disk != s->prefetch.on_disk)
	{
		memset(s->prefetch.ids, 0xFF, sizeof(s->prefetch.ids));
		s->prefetch.on_disk = disk;
		s->prefetch.window = 0;
	}
	for (uint32_t i = s->list.cursor; i < s->list.n && seen < window; i++)
	{
		Key			key = s->list.keys[i];

		if (key & KEY_EXPANDED)
			continue;
		/* candidates behind the first ef get a visit only if results turn out to be farther */
		if (s->results.farthest != NULL && i >= s->p.ef &&
			(s->results.n < s->p.ef_exact || seen >= LAST_WINDOW || is_beyond(s, key)))
			break;
		if (disk && seen == 0)
			window = set_window(s, s->prefetch.ids[KEY_ID(key) & (PREFETCH_MEMORY - 1)] == KEY_ID(key));
		seen++;
		grn_add_prefetch(s, key, ids, &n);
	}
	if (n > 0)
		s->store->prefetch(s->store, ids, n);
}
