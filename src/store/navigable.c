/*
 * navigable.c - adds edges where searches of a graph end far from their targets.
 *
 * Few edges connect tight clusters.  A graph built as a whole has an edge between most pairs of
 * clusters.  A part of a build knows few clusters of other parts, and the merge drops edges by
 * the rule.  In an index, a row that takes the place of another row takes edges out of
 * the cluster from the neighbors there.  Searches may then miss a cluster though every row is
 * reachable.
 *
 * The cure is to search for random nodes as a query does.  Where a search ends too early, the
 * nearest node found gets an edge to the target, and later searches continue to the target's
 * cluster.  If clusters are connected well, all searches of the first round succeed.
 */
#include "store/search.h"

#include <string.h>

#include "store/prune.h"

/*
 * Half and twice of each constant change neither recall nor visits of 20,000 sentences, image
 * patches and rows in tight clusters of 100, of which three quarters were deleted.  A search that
 * fails is not tried again with a larger ef: by a second try with 32, recall at ef 20 of 5,000 rows
 * in clusters of 20, each replaced twice, falls from .996 to .975.
 */
#define EF 8
#define NEAR_SHARE 4			/* a search must find a node of this part of the target's list */
#define MOST_ADDED 512			/* another round follows if more than one of MOST_ADDED searches
								 * adds an edge */
#define GRAIN 8

/* A search for a target. */
typedef struct Trial
{
	uint32_t	target;
	uint16_t	version;		/* of target */
	uint32_t	end;			/* the nearest node found if the search ended too early, otherwise
								 * GRN_INVALID_ID */
} Trial;

typedef struct Round
{
	const GrnNavigation *n;
	Trial	   *trials;
	uint64_t	drawn;			/* targets of earlier rounds */
	GrnRecord  *target;			/* [hot_bytes] copies */
	GrnRecord  *end;
	GrnRecord  *by;
} Round;

/* Copies a record's hot part, and the row unless x is NULL.  Returns false if no node lives. */
static bool
read_node(const GrnNavigation *n, GrnStore *store, uint32_t id, GrnRecord *rec, float *x)
{
	return grn_read_record(store, n->graph.layout, id, rec, n->graph.layout->hot_bytes, x) && rec->state == GRN_NODE;
}

/* ---- edges ---- */

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

int
grn_spare_edge(GrnStore *store, const GrnLayout *l, const GrnRecord *rec, uint32_t *by)
{
	Leading		n = {.layout = l, .rec = rec};
	int			spare = -1;

	for (uint32_t i = 0; i < rec->count; i++)
	{
		n.id = grn_rec_ids(l, rec)[i];
		(void) store->visit(store, n.id, count_leading, &n);
	}
	for (uint32_t j = 0; j < rec->count; j++)
		if (n.count[j] > 0 && (spare < 0 || n.count[j] >= n.count[spare]))
			spare = (int) j;
	if (spare >= 0)
		*by = n.last[spare];
	return spare;
}

typedef struct NewEdge
{
	const GrnLayout *layout;
	GrnEdge		edge;
	uint32_t	at;				/* position that becomes free, or the list's length */
} NewEdge;

/* A GrnEditFn, arg a NewEdge.  The edge becomes the last: the target is usually the farthest. */
static void
put_edge(void *arg, GrnRecord *rec)
{
	const NewEdge *e = arg;

	if (e->at == rec->count)
		rec->count++;
	grn_shift_edges(e->layout, rec, e->at, rec->count - 1u);
	grn_set_edge(e->layout, rec, rec->count - 1u, &e->edge);
}

/* Reads the ends of a missing edge.  Returns false if no edge is missing. */
static bool
read_ends(Round *r, const Trial *t)
{
	GrnStore   *store = r->n->graph.stores[0];

	return read_node(r->n, store, t->target, r->target, NULL) && r->target->version == t->version &&
		read_node(r->n, store, t->end, r->end, NULL) &&
		grn_find_id(grn_rec_ids(r->n->graph.layout, r->end), r->end->count, t->target) < 0;
}

/*
 * The position in the list of r->end for the edge, or -1.  A full list gives up `spare`, if its
 * neighbor `by` leads there.  Nobody else changes edges.
 */
static int
position_for(Round *r, uint32_t spare, uint32_t by)
{
	const GrnLayout *l = r->n->graph.layout;
	const GrnRecord *end = r->end;
	const uint32_t *ids = grn_rec_ids(l, end);

	if (end->count < l->degree)
		return end->count;
	if (spare == GRN_INVALID_ID || grn_find_id(ids, end->count, by) < 0 ||
		!read_node(r->n, r->n->graph.stores[0], by, r->by, NULL) ||
		grn_find_id(grn_rec_ids(l, r->by), r->by->count, spare) < 0)
		return -1;
	return grn_find_id(ids, end->count, spare);
}

/*
 * Gives t->end an edge to t->target, if both live and t->end has room or an edge to give up.
 * Records are read before others must wait, so that nobody waits for a disk.
 */
static bool
add_edge(Round *r, const Trial *t)
{
	const GrnNavigation *n = r->n;
	const GrnLayout *l = n->graph.layout;
	GrnStore   *store = n->graph.stores[0];
	uint32_t	spare = GRN_INVALID_ID;
	uint32_t	by = GRN_INVALID_ID;
	int			at;
	NewEdge		new = {.layout = l};

	if (n->poll != NULL)
		n->poll(n->arg);
	if (read_ends(r, t) && r->end->count == l->degree &&
		(at = grn_spare_edge(store, l, r->end, &by)) >= 0)
		spare = grn_rec_ids(l, r->end)[at];
	if (n->alone != NULL)
		n->alone(n->arg, true);
	at = read_ends(r, t) ? position_for(r, spare, by) : -1;
	if (at >= 0)
	{
		new.at = (uint32_t) at;
		new.edge = grn_own_edge(l, r->target, t->target);
		store->edit(store, t->end, put_edge, &new);
	}
	if (n->alone != NULL)
		n->alone(n->arg, false);
	return at >= 0;
}

/* ---- searches ---- */

/* Does a search come near the target, of row x?  t->end: the nearest node, if any. */
static bool
arrives(const GrnNavigation *n, GrnStore *store, const GrnRecord *target, const float *x, Trial *t)
{
	const uint32_t *ids = grn_rec_ids(n->graph.layout, target);
	uint32_t	nnear = (target->count + NEAR_SHARE - 1u) / NEAR_SHARE;
	GrnSearchParams params = {.ef = EF, .by_row = true, .dead_limit = GRN_DEAD_LIMIT(EF)};
	GrnSearch  *s = grn_search_graph(&n->graph, store, &params, x);
	uint32_t	nfound;
	bool		result = false;

	nfound = grn_search_run(s);
	t->end = nfound > 0 ? grn_search_found(s)[0].id : GRN_INVALID_ID;
	for (uint32_t i = 0; i < nfound && !result; i++)
	{
		uint32_t	id = grn_search_found(s)[i].id;

		result = id == t->target || grn_find_id(ids, nnear, id) >= 0;
	}
	grn_search_end(s);
	return result;
}

/* A GrnRangeFn over the searches of a round. */
static void
search_range(void *arg, int worker, size_t begin, size_t end)
{
	const Round *r = arg;
	const GrnNavigation *n = r->n;
	GrnStore   *store = n->graph.stores[worker];
	GrnRecord  *target = store->alloc(store, n->graph.layout->hot_bytes);
	float	   *x = store->alloc(store, n->graph.layout->dim * sizeof(float));

	for (size_t i = begin; i < end; i++)
	{
		Trial	   *t = &r->trials[i];

		if (n->poll != NULL)
			n->poll(n->arg);
		*t = (Trial) {.target = (uint32_t) (grn_random(n->seed, n->stream, r->drawn + i) % n->ids),
					  .end = GRN_INVALID_ID};
		if (!read_node(n, store, t->target, target, x))
			continue;
		t->version = target->version;
		if (arrives(n, store, target, x, t))
			t->end = GRN_INVALID_ID;
	}
	store->free(store, target);
	store->free(store, x);
}

void
grn_make_navigable(const GrnNavigation *n)
{
	GrnStore   *store = n->graph.stores[0];
	size_t		bytes = n->graph.layout->hot_bytes;
	Round		r = {.n = n, .trials = store->alloc(store, n->round * sizeof(Trial)),
		.target = store->alloc(store, bytes), .end = store->alloc(store, bytes), .by = store->alloc(store, bytes)};
	uint32_t	round = n->first;
	bool		done = false;

	for (; !done && (double) r.drawn < n->most; round = n->round)
	{
		uint32_t	added = 0;

		if (n->parallel != NULL)
			n->parallel->run(n->parallel, round, GRAIN, search_range, &r);
		else
			search_range(&r, 0, 0, round);
		r.drawn += round;
		for (uint32_t i = 0; i < round; i++)
			added += r.trials[i].end != GRN_INVALID_ID && add_edge(&r, &r.trials[i]);
		done = added <= round / MOST_ADDED;
	}
	store->free(store, r.trials);
	store->free(store, r.target);
	store->free(store, r.end);
	store->free(store, r.by);
}
