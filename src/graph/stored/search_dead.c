/*
 * search_dead.c - dead nodes in a search: when to expand and when to defer them.
 */
#include "graph/stored/search_impl.h"

/*
 * With a dead_limit, a run expands dead nodes at once while it has visited at most DEAD_AT_FIRST +
 * DEAD_PER_LIVE * (live nodes found).  So with up to two thirds of the nodes dead, searches work
 * as if all nodes were live.  With 50 live nodes of 20,000, a search reads 7 times the usual
 * pages, and 350 times if all dead nodes are expanded (test/bench/decisions.md).
 */
#define DEAD_AT_FIRST 4
#define DEAD_PER_LIVE 2

/* Has this run visited more dead nodes than it may expand at once? */
static bool
are_many(const GrnSearch *s)
{
	return s->ndead > DEAD_AT_FIRST + DEAD_PER_LIVE * s->nfound;
}

bool
grn_count_dead(GrnSearch *s, Key key)
{
	grn_unlist(s, key);
	s->ndead++;
	if (s->p.dead_limit == 0 || !are_many(s))
		return true;
	reserve(s, &s->deferred, sizeof(Key), s->ndeferred, s->ndeferred + 1, &s->deferred_room);
	heap_push(s->deferred, &s->ndeferred, key);
	return false;
}

bool
grn_at_limit(GrnSearch *s)
{
	if (s->p.wasted_limit > 0 && s->wasted >= s->p.wasted_limit)
		s->truncated = true;
	return s->truncated;
}

bool
grn_is_enough(GrnSearch *s)
{
	if (grn_at_limit(s))
		return true;
	if (!are_many(s))
		return false;
	if ((s->p.max_visits > 0 && s->visits >= s->p.max_visits) ||
		(s->p.memory_limit > 0 && grn_search_bytes(s) > s->p.memory_limit))
		s->truncated = true;
	return s->truncated || (s->p.dead_limit > 0 && s->ndead >= s->p.dead_limit);
}

bool
grn_offer_entries(GrnSearch *s)
{
	uint32_t	listed = s->listed;

	for (uint32_t i = 0; i < s->nentries && s->listed < s->p.ef; i++)
		if (!is_expanded(s, KEY_ID(s->entries[i])))
			grn_offer(s, s->entries[i]);
	return s->listed > listed;
}

void
grn_expand_deferred(GrnSearch *s)
{
	uint32_t	id = KEY_ID(heap_pop(s->deferred, &s->ndeferred));

	s->ndead++;
	if (!s->codes)
		grn_discover_neighbors(s, id);
	else if (grn_visit(s, id))
	{
		grn_forget_visit(s);
		grn_offer_keys(s, s->neighbors, s->estimates, s->count);
	}
}
