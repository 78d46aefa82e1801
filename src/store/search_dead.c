/*
 * search_dead.c - dead nodes in a search: when to expand and when to defer them.
 */
#include "store/search_impl.h"

/*
 * With a dead_limit, a run expands dead nodes at once while it has visited at most DEAD_AT_FIRST +
 * DEAD_PER_LIVE * (live nodes found).  So with up to two thirds of the nodes dead, searches work
 * as if all nodes were live.  With 50 live nodes of 20,000, a search reads 7 times the usual
 * pages, and 350 times if all dead nodes are expanded (test/bench/decisions.md).  With half and
 * twice vacuum of 6,000 rows, three quarters of which are dead, takes the same time and leaves the
 * same recall (sentences, rows in tight clusters).
 */
#define DEAD_AT_FIRST 4
#define DEAD_PER_LIVE 2

/* Has this run visited more dead nodes than it may expand at once? */
static bool
are_many(const GrnSearch *s)
{
	return s->dead.n > DEAD_AT_FIRST + DEAD_PER_LIVE * s->results.n;
}

bool
grn_count_dead(GrnSearch *s, Key key)
{
	grn_unlist(s, key);
	s->dead.n++;
	if (s->p.dead_limit == 0 || !are_many(s))
		return true;
	heap_add(s, &s->dead.deferred, key);
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
grn_has_spent(const GrnSearch *s)
{
	uint64_t	tests = s->p.tests_per_visit > 0 ? s->failing.tests / s->p.tests_per_visit : 0;

	return (s->p.max_visits > 0 && s->visits + tests >= s->p.max_visits) || grn_exceeds_memory(s, 0);
}

bool
grn_is_enough(GrnSearch *s)
{
	if (grn_at_limit(s))
		return true;
	if (!are_many(s))
		return false;
	if (grn_has_spent(s))
		s->truncated = true;
	return s->truncated || (s->p.dead_limit > 0 && s->dead.n >= s->p.dead_limit);
}

bool
grn_offer_entries(GrnSearch *s)
{
	uint32_t	listed = s->list.n;

	for (uint32_t i = 0; i < s->entries.n && s->list.n < s->list.room; i++)
		if (!is_expanded(s, KEY_ID(s->entries.keys[i])))
			grn_offer(s, s->entries.keys[i]);
	return s->list.n > listed;
}

void
grn_expand_deferred(GrnSearch *s)
{
	uint32_t	id = KEY_ID(heap_pop(&s->dead.deferred));

	s->dead.n++;
	if (grn_visit(s, id))
	{
		grn_forget_visit(s);
		grn_offer_neighbors(s);
	}
}
