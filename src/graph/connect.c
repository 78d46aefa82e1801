/*
 * connect.c - makes every vertex reachable from the entry.
 *
 * A breadth-first search marks the vertices that the entry reaches.  Each other vertex x gets
 * an edge p -> x from a near vertex p that is reached: x's nearest reached neighbor, or, if
 * no neighbor is reached, the nearest vertex that a search finds.  All threads search before
 * the first edge is added: a graph of 100,000,000 vertices may have thousands of unreached
 * vertices, and each step of their searches reads memory at random.
 *
 * If p is full, p -> x replaces an edge p -> y, and x -> y is added: a path through p -> y
 * becomes a path through p -> x -> y.  If x is full, x's farthest edge makes room for x -> y.
 * Nothing was reached through x, because x was not reached.  The set of reached vertices
 * therefore only grows.
 */
#include "graph/graph.h"

#include <string.h>

#include "store/codec.h"

typedef struct Connect
{
	const GrnRows *rows;
	GrnGraph   *graph;
	uint32_t	entry;
	uint64_t   *reached;		/* [GRN_REACH_WORDS(n)] one bit for each vertex */
	uint32_t   *near;			/* [n] for unreached vertices: result of find_near() */
	uint32_t   *queue;			/* [n] */
} Connect;

size_t
grn_connect_bytes(size_t n)
{
	return GRN_REACH_WORDS(n) * sizeof(uint64_t) + 2 * n * sizeof(uint32_t);
}

static inline bool
is_reached(const uint64_t *reached, uint32_t v)
{
	return reached[v / 64] >> v % 64 & 1;
}

static float
distance(const Connect *c, uint32_t a, uint32_t b)
{
	return grn_row_distance(c->rows, grn_row(c->rows, a), grn_row(c->rows, b));
}

/* Returns the nearest reached neighbor of x, or GRN_INVALID_ID. */
static uint32_t
reached_neighbor(const Connect *c, uint32_t x)
{
	const uint32_t *ids = c->graph->ids + (size_t) x * c->graph->degree;

	for (uint32_t i = 0; i < c->graph->counts[x]; i++)
		if (is_reached(c->reached, ids[i]))
			return ids[i];
	return GRN_INVALID_ID;
}

/*
 * The nearest vertices that a search keeps.  Half and twice: the same recall and visits of 10,000
 * near duplicates and rows in tight clusters.
 */
#define WIDTH 32

/* A key orders as (distance, id) does.  The lowest bit is 1 if the vertex is expanded. */
#define EXPANDED UINT64_C(1)

/* Inserts vertex v into the nearest vertices of x, sorted keys. */
static void
offer(const Connect *c, uint32_t x, uint32_t v, uint64_t *keys, uint32_t *count)
{
	uint64_t	key = (uint64_t) grn_ordinal(distance(c, v, x)) << 32 | (uint64_t) v << 1;
	uint32_t	at;

	for (uint32_t i = 0; i < *count; i++)
		if ((keys[i] | EXPANDED) == (key | EXPANDED))
			return;
	if (*count == WIDTH && key > keys[WIDTH - 1])
		return;
	at = *count < WIDTH ? (*count)++ : WIDTH - 1;
	for (; at > 0 && keys[at - 1] > key; at--)
		keys[at] = keys[at - 1];
	keys[at] = key;
}

/* Returns the reached vertex nearest to x that a best-first search from the entry finds. */
static uint32_t
find_near(const Connect *c, uint32_t x)
{
	const GrnGraph *g = c->graph;
	uint64_t	keys[WIDTH];
	uint32_t	count = 0;

	offer(c, x, c->entry, keys, &count);
	for (uint32_t i = 0; i < count;)
	{
		uint32_t	v = (uint32_t) keys[i] >> 1;

		if (keys[i] & EXPANDED)
		{
			i++;
			continue;
		}
		keys[i] |= EXPANDED;
		for (uint32_t j = 0; j < g->counts[v]; j++)
			offer(c, x, g->ids[(size_t) v * g->degree + j], keys, &count);
		i = 0;					/* a neighbor may be nearer than all before */
	}
	return (uint32_t) keys[0] >> 1;
}

/* Searches for the unreached vertices without reached neighbors, in words [begin, end). */
static void
search_range(void *arg, int worker, size_t begin, size_t end)
{
	const Connect *c = arg;

	(void) worker;
	for (size_t x = 64 * begin; x < 64 * end && x < c->graph->n; x++)
	{
		if (c->reached[x / 64] == UINT64_MAX)	/* all 64 are reached */
			x |= 63;
		else if (!is_reached(c->reached, x) && reached_neighbor(c, x) == GRN_INVALID_ID)
			c->near[x] = find_near(c, x);
	}
}

static bool
has_edge(const GrnGraph *g, uint32_t from, uint32_t to)
{
	const uint32_t *ids = g->ids + (size_t) from * g->degree;

	for (uint32_t i = 0; i < g->counts[from]; i++)
		if (ids[i] == to)
			return true;
	return false;
}

static void
remove_edge(GrnGraph *g, uint32_t from, uint32_t index)
{
	uint32_t   *ids = g->ids + (size_t) from * g->degree;

	g->counts[from]--;
	memmove(ids + index, ids + index + 1, (g->counts[from] - index) * sizeof(*ids));
}

/* Adds the edge from -> to at the position of its distance.  from must have room. */
static void
add_edge(Connect *c, uint32_t from, uint32_t to)
{
	GrnGraph   *g = c->graph;
	uint32_t   *ids = g->ids + (size_t) from * g->degree;
	float		d = distance(c, from, to);
	uint32_t	at = g->counts[from]++;

	for (; at > 0 && distance(c, from, ids[at - 1]) > d; at--)
		ids[at] = ids[at - 1];
	ids[at] = to;
}

/*
 * Returns the edge of the full vertex p that gives way to p -> x: the farthest edge to a y
 * that is nearer to x than to p, or the farthest edge of all if no such y exists.
 */
static uint32_t
edge_to_redirect(const Connect *c, uint32_t p, uint32_t x)
{
	const GrnGraph *g = c->graph;
	const uint32_t *ids = g->ids + (size_t) p * g->degree;

	for (uint32_t i = g->counts[p]; i-- > 0;)
		if (distance(c, x, ids[i]) < distance(c, p, ids[i]))
			return i;
	return g->counts[p] - 1u;
}

static void
link_from(Connect *c, uint32_t p, uint32_t x)
{
	GrnGraph   *g = c->graph;

	if (g->counts[p] == g->degree)
	{
		uint32_t	index = edge_to_redirect(c, p, x);
		uint32_t	y = g->ids[(size_t) p * g->degree + index];

		if (!has_edge(g, x, y))
		{
			if (g->counts[x] == g->degree)
				remove_edge(g, x, g->counts[x] - 1u);
			add_edge(c, x, y);
		}
		remove_edge(g, p, index);
	}
	add_edge(c, p, x);
}

/*
 * A breadth-first search.  The set has one bit for each vertex, and so fits the processor's caches,
 * which matters because every edge tests a vertex at a random place of the set.
 */
size_t
grn_reach(const GrnGraph *graph, uint32_t entry, uint64_t *reached, uint32_t *queue)
{
	size_t		tail = 1;		/* end of the vertices in the order of discovery */

	reached[entry / 64] |= UINT64_C(1) << entry % 64;
	queue[0] = entry;
	for (size_t i = 0; i < tail; i++)
	{
		uint32_t	v = queue[i];
		const uint32_t *ids = graph->ids + (size_t) v * graph->degree;

		if (i + 4 < tail)
		{
			const uint32_t *ahead = graph->ids + (size_t) queue[i + 4] * graph->degree;

			__builtin_prefetch(ahead);
			__builtin_prefetch(ahead + 16);
		}
		for (uint32_t j = 0; j < graph->counts[v]; j++)
			if (!is_reached(reached, ids[j]))
			{
				reached[ids[j] / 64] |= UINT64_C(1) << ids[j] % 64;
				queue[tail++] = ids[j];
			}
	}
	return tail;
}

size_t
grn_reachable(const GrnGraph *graph, uint32_t entry, void *workspace)
{
	uint64_t   *reached = workspace;

	if (graph->n == 0)
		return 0;
	memset(reached, 0, GRN_REACH_WORDS(graph->n) * sizeof(*reached));
	return grn_reach(graph, entry, reached, (uint32_t *) (reached + GRN_REACH_WORDS(graph->n)));
}

size_t
grn_connect(const GrnRows *rows, GrnGraph *graph, uint32_t entry, GrnParallel *parallel,
			void *workspace)
{
	size_t		nreached = grn_reachable(graph, entry, workspace);

	return grn_connect_rest(rows, graph, entry, nreached, parallel, workspace);
}

size_t
grn_connect_rest(const GrnRows *rows, GrnGraph *graph, uint32_t entry, size_t nreached,
				 GrnParallel *parallel, void *workspace)
{
	Connect		c = {rows, graph, entry, workspace, NULL, NULL};
	size_t		connected = 0;

	if (nreached == graph->n)
		return 0;
	c.queue = (uint32_t *) (c.reached + GRN_REACH_WORDS(graph->n));
	c.near = c.queue + graph->n;
	parallel->run(parallel, GRN_REACH_WORDS(graph->n), GRN_GRAIN / 64, search_range, &c);
	for (uint32_t x = 0; x < graph->n; x++)
	{
		uint32_t	p;

		if (c.reached[x / 64] == UINT64_MAX)
			x |= 63;
		if (is_reached(c.reached, x))
			continue;
		/* A neighbor may have become reached since the search. */
		p = reached_neighbor(&c, x);
		link_from(&c, p == GRN_INVALID_ID ? c.near[x] : p, x);
		grn_reach(graph, x, c.reached, c.queue);
		connected++;
	}
	return connected;
}
