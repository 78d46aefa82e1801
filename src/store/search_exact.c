/*
 * search_exact.c - searches without codes.
 *
 * In place of estimates the search computes the distance of each neighbor from its stored vector.
 * It remembers the ids, because a vector costs far more to read than a code.  A list is read only
 * if its node is expanded, in a second visit.  Few nodes are.
 */
#include "store/search_impl.h"

static void
on_measure(void *arg, const GrnRecord *rec, const void *vec)
{
	GrnSearch  *s = arg;

	s->visit.now.state = rec->state;
	s->visit.now.distance = grn_stored_distance(s, vec, rec->error);
}

void
grn_measure_neighbors(GrnSearch *s)
{
	GrnStore   *store = s->store;
	uint32_t   *ids = s->visit.neighbors;
	uint32_t	unseen = 0;
	uint32_t	n = 0;
	uint32_t	prefetched = 0;

	for (uint32_t i = 0; i < s->visit.count; i++)
		if (grn_set_add(s, &s->seen, ids[i]))
			ids[unseen++] = ids[i];
	store->skips_neighbors = true;
	for (uint32_t i = 0; i < unseen; i++)
	{
		/* prefetch half a window at a time, so each visit waits for an older prefetch */
		uint32_t	ahead = store->ahead > 0 ? store->ahead : unseen;

		if (store->prefetch != NULL && prefetched < unseen && prefetched <= i + ahead / 2)
		{
			uint32_t	until = i + ahead < unseen ? i + ahead : unseen;

			store->prefetch(store, ids + prefetched, until - prefetched);
			prefetched = until;
		}
		s->visits++;
		if (!store->visit(store, ids[i], on_measure, s))
		{
			s->wasted++;
			continue;
		}
		s->wasted += s->visit.now.state != GRN_NODE;
		s->visit.estimates[n] = s->visit.now.distance;
		ids[n++] = ids[i];
	}
	store->skips_neighbors = false;
	s->visit.count = n;
}
