/*
 * search_set.c - the memory of a search, and its set of ids of visited or expanded nodes.
 */
#include "graph/stored/search_impl.h"

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

size_t
grn_search_bytes(const GrnSearch *s)
{
	const Failing *f = &s->failing;

	return (s->rejected_room + s->near_groups_room + s->deferred_room + f->room + f->far_room) * sizeof(Key) +
		(s->rows.room + s->groups.room) * (sizeof(float) + sizeof(uint32_t)) +
		f->size * sizeof(uint64_t) + s->nkept_ids * 4 +
		((size_t) s->set.size + s->noted.size + f->tested.size) * (s->codes ? 4 : 8) +
		(size_t) s->nodes_room * sizeof(Node) + s->links_room * 4 +
		(s->codes ? 0 : s->tids_room * GRN_TID_BYTES + kept_bytes(s) * s->kept_room);
}

void
grn_set_resize(GrnSearch *s, IdSet *set, uint32_t size)
{
	IdSet		old = *set;

	*set = (IdSet) {NULL, NULL, size, old.used};
	set->ids = s->store->alloc(s->store, (size_t) size * sizeof(uint32_t));
	memset(set->ids, 0xFF, (size_t) size * sizeof(uint32_t));
	if (!s->codes)
		set->nodes = s->store->alloc(s->store, (size_t) size * sizeof(uint32_t));
	for (uint32_t i = 0; i < old.size; i++)
		if (old.ids[i] != GRN_INVALID_ID)
		{
			uint32_t	to = set_slot(set, old.ids[i]);

			set->ids[to] = old.ids[i];
			if (!s->codes)
				set->nodes[to] = old.nodes[i];
		}
	if (old.ids != NULL)
		s->store->free(s->store, old.ids);
	if (old.nodes != NULL)
		s->store->free(s->store, old.nodes);
}

bool
grn_set_add(GrnSearch *s, IdSet *set, uint32_t id, uint32_t node)
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
	if (!s->codes)
		set->nodes[i] = node;
	set->used++;
	return true;
}
