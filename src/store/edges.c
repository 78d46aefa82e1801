/*
 * edges.c - adds an edge to a record of a finished graph, for navigable.c and connect.c.
 *
 * A full list gives up an edge.  Its end stays reachable, because a neighbor leads there: nobody
 * else removes an edge to the end (GrnUpkeep.hold()) from looking for this edge to the change, and
 * the change itself finds the neighbor in the list.
 */
#include "store/search.h"

#include "store/prune.h"

bool
grn_read_node(GrnStore *store, const GrnLayout *l, uint32_t id, GrnRecord *rec, float *x)
{
	return grn_read_record(store, l, id, rec, l->hot_bytes, x) && rec->state == GRN_NODE;
}

typedef struct Leading
{
	const GrnLayout *layout;
	const GrnRecord *rec;
	uint32_t	id;				/* the neighbor that is read */
	uint32_t	count[GRN_MAX_DEGREE];	/* other neighbors that lead to each neighbor, */
	uint32_t	last[GRN_MAX_DEGREE];	/* and the last of them */
} Leading;

/* A GrnVisitFn, arg a Leading: counts the neighbors of the record to which neighbor id leads. */
static void
count_leading(void *arg, const GrnRecord *other, const void *vec)
{
	Leading    *n = arg;
	const uint32_t *ids = grn_rec_ids(n->layout, n->rec);

	(void) vec;
	for (uint32_t j = 0; other->state == GRN_NODE && j < n->rec->count; j++)
		if (ids[j] != n->id && grn_find_id(grn_rec_ids(n->layout, other), other->count, ids[j]) >= 0)
		{
			n->count[j]++;
			n->last[j] = n->id;
		}
}

GrnSpare
grn_spare_edge(const GrnUpkeep *u, GrnStore *store, const GrnRecord *rec)
{
	const GrnLayout *l = u->graph.layout;
	const uint32_t *ids = grn_rec_ids(l, rec);
	Leading		n = {.layout = l, .rec = rec};
	int			spare = -1;

	for (uint32_t i = 0; i < rec->count; i++)
	{
		n.id = ids[i];
		if (grn_is_reached(u, n.id))
			(void) store->visit(store, n.id, count_leading, &n);
	}
	for (uint32_t j = 0; j < rec->count; j++)
		if (n.count[j] > 0 && (spare < 0 || n.count[j] >= n.count[spare]))
			spare = (int) j;
	return spare < 0 ? GRN_NO_SPARE : (GrnSpare) {ids[spare], n.last[spare]};
}

typedef struct NewEdge
{
	const GrnLayout *layout;
	const GrnEdge *edge;
	GrnSpare	spare;
	bool		leads;			/* spare.by leads to spare.id */
	bool		done;
} NewEdge;

/* A GrnVisitFn, arg a NewEdge. */
static void
look_for_spare(void *arg, const GrnRecord *by, const void *vec)
{
	NewEdge    *e = arg;

	(void) vec;
	e->leads = by->state == GRN_NODE && grn_find_id(grn_rec_ids(e->layout, by), by->count, e->spare.id) >= 0;
}

/* A GrnEditFn, arg a NewEdge.  The edge becomes the last: its end is usually the farthest. */
static void
put_edge(void *arg, GrnRecord *rec)
{
	NewEdge    *e = arg;
	const uint32_t *ids = grn_rec_ids(e->layout, rec);
	int			at = rec->count;

	e->done = rec->state == GRN_NODE && grn_find_id(ids, rec->count, e->edge->id) >= 0;
	if (e->done || rec->state != GRN_NODE)
		return;
	if (rec->count == e->layout->degree)
		at = e->spare.by == GRN_INVALID_ID || e->spare.by == e->edge->id ||
			grn_find_id(ids, rec->count, e->spare.by) >= 0 ? grn_find_id(ids, rec->count, e->spare.id) : -1;
	if (at < 0)
		return;
	if (at == rec->count)
		rec->count++;
	grn_shift_edges(e->layout, rec, (uint32_t) at, rec->count - 1u);
	grn_set_edge(e->layout, rec, rec->count - 1u, e->edge);
	e->done = true;
}

bool
grn_give_edge(const GrnUpkeep *u, uint32_t from, const GrnEdge *edge, GrnSpare spare)
{
	GrnStore   *store = u->graph.stores[0];
	NewEdge		new = {.layout = u->graph.layout, .edge = edge, .spare = spare, .leads = spare.by == GRN_INVALID_ID};
	bool		holds = u->hold != NULL && spare.id != GRN_INVALID_ID;

	if (holds)
		u->hold(u->arg, spare.id, true);
	if (!new.leads)
		(void) store->visit(store, spare.by, look_for_spare, &new);
	if (new.leads)
		store->edit(store, from, put_edge, &new);
	if (holds)
		u->hold(u->arg, spare.id, false);
	return new.done;
}
