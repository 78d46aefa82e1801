/*
 * search_set.c - the memory of a search, and its set of ids of visited or expanded nodes.
 */
#include "store/search_impl.h"

void
grn_grow(GrnSearch *s, void *p, size_t size, size_t used, size_t need, size_t *room)
{
	void	  **array = p;
	size_t		grown = *room * 2 > need ? *room * 2 : need;
	void	   *bigger;

	bigger = s->store->alloc(s->store, grown * size);
	if (used > 0)
		memcpy(bigger, *array, used * size);
	if (*array != NULL)
		s->store->free(s->store, *array);
	*array = bigger;
	*room = grown;
}

/* Bytes of the state that grows from run to run.  Results of one run are not counted. */
static size_t
search_bytes(const GrnSearch *s)
{
	const Failing *f = &s->failing;

	return (s->rejected.heap.room + s->groups.near.room + s->dead.deferred.room + f->heap.room +
			f->far.room + f->size) * sizeof(Key) +
		(s->closed.rows.room + s->groups.middles.room) * (sizeof(float) + sizeof(uint32_t)) +
		((size_t) s->set.size + s->groups.noted.size + f->tested.size + s->seen.size + s->rejected.nids) * 4;
}

bool
grn_exceeds_memory(const GrnSearch *s, size_t more)
{
	return s->p.memory_limit > 0 && search_bytes(s) + more > s->p.memory_limit;
}

void
grn_set_resize(GrnSearch *s, IdSet *set, uint32_t size)
{
	IdSet		old = *set;

	*set = (IdSet) {NULL, size, old.used};
	set->ids = s->store->alloc(s->store, (size_t) size * sizeof(uint32_t));
	memset(set->ids, 0xFF, (size_t) size * sizeof(uint32_t));
	for (uint32_t i = 0; i < old.size; i++)
		if (old.ids[i] != GRN_INVALID_ID)
			set->ids[set_slot(set, old.ids[i])] = old.ids[i];
	if (old.ids != NULL)
		s->store->free(s->store, old.ids);
}

bool
grn_set_add(GrnSearch *s, IdSet *set, uint32_t id)
{
	uint32_t	i = set_slot(set, id);

	if (set->ids[i] == id)
		return false;
	if ((set->used + 1) * 2 > set->size)
	{
		grn_set_resize(s, set, set->size * 2);
		i = set_slot(set, id);
	}
	set->ids[i] = id;
	set->used++;
	return true;
}
