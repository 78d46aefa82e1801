/*
 * search_exact.c - searches without codes.
 *
 * The search must visit every neighbor for its distance.  The search remembers all visited ids with
 * the result of the visit (struct Node), so the expansion of a node does not visit the node again.
 */
#include "store/search_impl.h"

bool
grn_discover(GrnSearch *s, uint32_t id)
{
	const Visit *v = &s->visit;
	Known	   *k = &s->known;
	Node	   *node;

	if (set_has(&s->set, id))
		return false;
	if (!grn_visit(s, id))
	{
		grn_set_add(s, &s->set, id, GRN_INVALID_ID);
		return false;
	}
	/* no run will expand a candidate that the list rejects now */
	if (s->started && !grn_keeps_rejected(s) && make_key(v->now.distance, id) > list_bound(s))
	{
		grn_forget_visit(s);
		grn_set_add(s, &s->set, id, GRN_INVALID_ID);
		return true;
	}
	reserve(s, &k->nodes, sizeof(Node), k->n, k->n + 1, &k->room);
	reserve(s, &k->links, sizeof(uint32_t), k->nlinks, k->nlinks + v->count, &k->links_room);
	if (v->now.state != GRN_NODE)
		grn_forget_visit(s);
	node = &k->nodes[k->n];
	node->found = v->now;
	node->first = (uint32_t) k->nlinks;
	node->count = v->count;
	node->deferred = false;
	if (v->count > 0)			/* links is NULL before the first link */
		memcpy(k->links + k->nlinks, v->neighbors, v->count * sizeof(uint32_t));
	k->nlinks += v->count;
	grn_set_add(s, &s->set, id, (uint32_t) k->n++);
	grn_offer(s, make_key(v->now.distance, id));
	return true;
}

void
grn_discover_neighbors(GrnSearch *s, uint32_t id)
{
	uint32_t   *slot = &s->set.nodes[set_slot(&s->set, id)];
	Node		node = s->known.nodes[*slot];
	uint32_t	ids[GRN_MAX_DEGREE];
	uint32_t	n = 0;
	uint32_t	prefetched = 0;

	*slot = GRN_INVALID_ID;
	for (uint32_t i = 0; i < node.count; i++)
		if (!set_has(&s->set, s->known.links[node.first + i]))
			ids[n++] = s->known.links[node.first + i];
	for (uint32_t i = 0; i < n; i++)
	{
		/* prefetch half a window at a time, so each visit waits for an older prefetch */
		uint32_t	ahead = s->store->ahead > 0 ? s->store->ahead : n;

		if (s->store->prefetch != NULL && prefetched < n && prefetched <= i + ahead / 2)
		{
			uint32_t	until = i + ahead < n ? i + ahead : n;

			s->store->prefetch(s->store, ids + prefetched, until - prefetched);
			prefetched = until;
		}
		grn_discover(s, ids[i]);
	}
}

void
grn_expand_exact(GrnSearch *s, Key key)
{
	uint32_t	at = s->set.nodes[set_slot(&s->set, KEY_ID(key))];
	Node	   *node;

	if (at == GRN_INVALID_ID || s->known.nodes[at].deferred)
		return;
	node = &s->known.nodes[at];
	if (node->found.state == GRN_NODE)
		grn_add_found(s, &node->found);
	else if (!grn_count_dead(s, key))
	{
		node->deferred = true;
		return;
	}
	grn_discover_neighbors(s, KEY_ID(key));
}
