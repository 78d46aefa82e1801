/*
 * connect.c - gives edges to nodes that are not reached from the root.
 *
 * A node x gets an edge p -> x from a near node p that is reached: from its first reached neighbor,
 * or from a node that the caller knows or a search finds, or from the root.  If the list of p is
 * full, p gives up an edge that another neighbor replaces (edges.c).  Without such an edge, p -> x
 * takes the place of an edge p -> y, and x -> y is added first: a path through p -> y becomes a
 * path through p -> x -> y.  The set of reached nodes therefore only grows, also if the work ends
 * between two edits.
 *
 * In a build all threads search before the first edge is added: a graph of 100,000,000 vertices may
 * have thousands of unreached vertices, and each step of their searches reads memory at random.
 */
#include "store/search.h"

#include "store/prune.h"

/*
 * 200,000 normal rows of 128 dimensions, no edges to every fortieth: of these, searches with 20, 80
 * and 320 candidates then find .55, .67 and .84.  With half of EF the same, with twice .43, .67 and
 * .84 in 1.6 times the time; with half and twice of MOST_FROM .55 and .55 at 20, .83 and .84 at
 * 320; of ROUND .55 and .53, .84 and .83, in the same time.
 */
#define EF 16					/* the nearest nodes that a search keeps */
#define MOST_FROM 4				/* reached nodes that may take an edge to x */
#define ROUND 1024				/* nodes of a build for which threads search before edges are added */
/*
 * Attempts for each near node, which count while others change the lists.  30,000 normal rows of 64
 * dimensions in full lists, no edges to every fortieth: a build makes the same graph with 2 to 16;
 * with 1 it leaves 10 of 750 unreached.
 */
#define TRIES 8

typedef struct Connecting
{
	const GrnUpkeep *u;
	GrnStore   *store;
	GrnRecord  *x;				/* [hot_bytes] copies */
	GrnRecord  *p;
	float	   *row;			/* [dim] of x */
} Connecting;

static Connecting
begin(const GrnUpkeep *u, GrnStore *store)
{
	const GrnLayout *l = u->graph.layout;
	char	   *work = store->alloc(store, 2 * (size_t) l->hot_bytes + l->dim * sizeof(float));

	return (Connecting) {u, store, (GrnRecord *) work, (GrnRecord *) (work + l->hot_bytes),
						 (float *) (work + 2 * (size_t) l->hot_bytes)};
}

/*
 * Reads x, and writes reached nodes near x to from [MOST_FROM + 1]: neighbors, then `near` if it is
 * a node, or without these the nodes that a search finds, or none.  Returns their number.
 */
static uint32_t
find_near(Connecting *c, uint32_t x, uint32_t near, uint32_t *from)
{
	const GrnUpkeep *u = c->u;
	GrnSearchParams params = {.ef = EF, .by_row = true, .dead_limit = GRN_DEAD_LIMIT(EF)};
	GrnSearch  *s;
	uint32_t	nfound;
	uint32_t	n = 0;

	if (!grn_read_node(c->store, u->graph.layout, x, c->x, c->row))
		return 0;
	for (uint32_t i = 0; i < c->x->count && n < MOST_FROM; i++)
		if (grn_is_reached(u, grn_rec_ids(u->graph.layout, c->x)[i]))
			from[n++] = grn_rec_ids(u->graph.layout, c->x)[i];
	if (near != GRN_INVALID_ID)
		from[n++] = near;
	if (n > 0)
		return n;
	s = grn_search_graph(&u->graph, c->store, &params, c->row);
	nfound = grn_search_run(s);
	for (uint32_t i = 0; i < nfound && n < MOST_FROM; i++)
		if (grn_is_reached(u, grn_search_found(s)[i].id))
			from[n++] = grn_search_found(s)[i].id;
	grn_search_end(s);
	return n;
}

/* Has p room?  If not, *spare becomes what p gives up if it can.  Returns false if it cannot. */
static bool
takes_edge(Connecting *c, uint32_t p, GrnSpare *spare)
{
	*spare = GRN_NO_SPARE;
	if (!grn_read_node(c->store, c->u->graph.layout, p, c->p, NULL))
	{
		c->p->count = 0;
		return false;
	}
	if (c->p->count == c->u->graph.layout->degree)
		*spare = grn_spare_edge(c->u, c->store, c->p);
	return c->p->count < c->u->graph.layout->degree || spare->id != GRN_INVALID_ID;
}

/* Gives x an edge to the last neighbor of p, if p is full, so that p can give up this neighbor. */
static bool
lead_on(Connecting *c, uint32_t x, GrnSpare *spare)
{
	const GrnLayout *l = c->u->graph.layout;
	GrnUpkeep	any = *c->u;
	GrnEdge		edge = grn_get_edge(l, c->p, l->degree - 1);
	GrnSpare	lost = GRN_NO_SPARE;

	if (c->p->count < l->degree)
		return false;
	*spare = (GrnSpare) {edge.id, x};
	any.reached = NULL;
	if (c->x->count == l->degree)
		lost = grn_spare_edge(&any, c->store, c->x);
	if (c->x->count == l->degree && lost.id == GRN_INVALID_ID)
		lost.id = grn_rec_ids(l, c->x)[l->degree - 1];	/* no node is reached through x */
	return grn_give_edge(c->u, x, &edge, lost);
}

/* Links x from `near`, which gives up `spare`, or from another near node. */
static bool
connect(Connecting *c, uint32_t root, uint32_t x, uint32_t near, GrnSpare spare)
{
	uint32_t	from[MOST_FROM + 1] = {root};
	uint32_t	n = find_near(c, x, near, from);
	bool		linked = false;

	n = n > 0 ? n : 1;
	for (uint32_t i = 0; i < TRIES * n && !linked; i++)
	{
		uint32_t	p = from[i % n];
		GrnEdge		edge;

		if (!grn_read_node(c->store, c->u->graph.layout, x, c->x, NULL))
			return false;
		edge = grn_own_edge(c->u->graph.layout, c->x, x);
		linked = i < n && p == near && spare.id != GRN_INVALID_ID && grn_give_edge(c->u, p, &edge, spare);
		if (!linked && (takes_edge(c, p, &spare) || (i >= n && lead_on(c, x, &spare))))
			linked = grn_give_edge(c->u, p, &edge, spare);
	}
	return linked;
}

bool
grn_connect_node(const GrnUpkeep *u, uint32_t root, uint32_t x, uint32_t near)
{
	Connecting	c = begin(u, u->graph.stores[0]);
	bool		linked = connect(&c, root, x, near, GRN_NO_SPARE);

	c.store->free(c.store, c.x);
	return linked;
}

/* ---- all nodes of a build ---- */

typedef struct Trial
{
	uint32_t	id;				/* a node that is not reached */
	uint32_t	near;			/* a near node that takes an edge, or GRN_INVALID_ID, */
	GrnSpare	spare;			/* and what it gives up */
} Trial;

typedef struct Round
{
	const GrnUpkeep *u;
	Trial		trials[ROUND];
} Round;

/* A GrnRangeFn over the trials of a round. */
static void
search_range(void *arg, int worker, size_t first, size_t end)
{
	Round	   *r = arg;
	Connecting	c = begin(r->u, r->u->graph.stores[worker]);

	for (Trial *t = r->trials + first; t < r->trials + end; t++)
	{
		uint32_t	from[MOST_FROM + 1];
		uint32_t	n = find_near(&c, t->id, GRN_INVALID_ID, from);

		t->near = GRN_INVALID_ID;
		for (uint32_t i = 0; i < n && t->near == GRN_INVALID_ID; i++)
			if (takes_edge(&c, from[i], &t->spare))
				t->near = from[i];
	}
	c.store->free(c.store, c.x);
}

void
grn_connect_nodes(const GrnUpkeep *u, uint32_t root, void (*reach) (void *arg, uint32_t id))
{
	Connecting	c = begin(u, u->graph.stores[0]);
	Round	   *r = c.store->alloc(c.store, sizeof(Round));
	uint32_t	id = 0;

	r->u = u;
	while (id < u->limit)
	{
		uint32_t	n = 0;

		for (; id < u->limit && n < ROUND; id++)
			if (u->reached[id / 64] == UINT64_MAX)	/* all 64 are reached */
				id |= 63;
			else if (!grn_is_reached(u, id))
				r->trials[n++].id = id;
		u->parallel->run(u->parallel, n, 1, search_range, r);
		for (const Trial *t = r->trials; t < r->trials + n; t++)
			if (!grn_is_reached(u, t->id) && connect(&c, root, t->id, t->near, t->spare))
				reach(u->arg, t->id);
	}
	c.store->free(c.store, r);
	c.store->free(c.store, c.x);
}
