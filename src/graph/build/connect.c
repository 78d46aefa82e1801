/*
 * connect.c - every vertex reachable from the entry.
 *
 * A breadth-first search marks what the entry reaches.  Each vertex x left over
 * then gets an edge p -> x from a vertex p near it that is reached: its nearest
 * reached neighbour, or, where it has none, the nearest that a search finds.
 * If p is full, an edge p -> y makes room, and x -> y replaces it: a path that used
 * p -> y now uses p -> x -> y.  If x is full, its farthest edge makes room for that;
 * x was not reached, so nothing was reached through it.  So the set of reached
 * vertices only grows.
 */
#include "graph/build/connect.h"

#include <string.h>

#include "graph/build/reach.h"

#define BEAM 32					/* of the search for a vertex near x */

typedef struct Connect
{
	const GrnRows *rows;
	GrnGraph   *graph;
	uint64_t   *reached;		/* [GRN_REACH_WORDS(n)] a bit a vertex */
	uint32_t   *stamps;			/* [n] number of the search that saw a vertex */
	uint32_t   *queue;			/* [n] */
	uint32_t	search;
} Connect;

size_t
grn_connect_bytes(size_t n)
{
	return GRN_REACH_WORDS(n) * sizeof(uint64_t) + 2 * n * sizeof(uint32_t);
}

/* Marks all that v, not reached so far, reaches. */
static void
spread(Connect *c, uint32_t v)
{
	const GrnGraph *g = c->graph;
	size_t		head = 0;
	size_t		tail = 0;

	grn_reach_add(c->reached, v);
	c->queue[tail++] = v;
	while (head < tail)
	{
		uint32_t	u = c->queue[head++];
		const uint32_t *ids = g->ids + (size_t) u * g->degree;

		for (uint32_t i = 0; i < g->counts[u]; i++)
			if (grn_reach_add(c->reached, ids[i]))
				c->queue[tail++] = ids[i];
	}
}

static float
distance(const Connect *c, uint32_t a, uint32_t b)
{
	return grn_row_distance(c->rows, grn_row(c->rows, a), grn_row(c->rows, b));
}

/* The reached vertex nearest to x that a best-first search from entry finds. */
static uint32_t
find_near(Connect *c, uint32_t entry, uint32_t x)
{
	const GrnGraph *g = c->graph;
	uint32_t	ids[BEAM];
	float		distances[BEAM];
	bool		expanded[BEAM];
	uint32_t	count = 1;

	c->search++;
	ids[0] = entry;
	distances[0] = distance(c, entry, x);
	expanded[0] = false;
	c->stamps[entry] = c->search;
	for (;;)
	{
		uint32_t	next = 0;
		const uint32_t *neighbours;
		uint32_t	n;

		while (next < count && expanded[next])
			next++;
		if (next == count)
			return ids[0];
		expanded[next] = true;
		neighbours = g->ids + (size_t) ids[next] * g->degree;
		n = g->counts[ids[next]];
		for (uint32_t i = 0; i < n; i++)
		{
			uint32_t	u = neighbours[i];
			float		d;
			uint32_t	at;

			if (c->stamps[u] == c->search)
				continue;
			c->stamps[u] = c->search;
			d = distance(c, u, x);
			if (count == BEAM && !(d < distances[BEAM - 1]))
				continue;
			at = count < BEAM ? count++ : BEAM - 1;
			for (; at > 0 && distances[at - 1] > d; at--)
			{
				ids[at] = ids[at - 1];
				distances[at] = distances[at - 1];
				expanded[at] = expanded[at - 1];
			}
			ids[at] = u;
			distances[at] = d;
			expanded[at] = false;
		}
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

/* Adds from -> to where its distance belongs; from has room. */
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
 * Which edge of the full vertex p gives way to p -> x: one to a y that lies
 * closer to x than to p, the farthest of them; if there is none, the farthest
 * of all.
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

size_t
grn_reachable(const GrnGraph *graph, uint32_t entry, GrnParallel *parallel, void *workspace)
{
	uint64_t   *reached = workspace;

	if (graph->n == 0)
		return 0;
	return grn_reach(graph, parallel, entry, reached,
					 (uint32_t *) (reached + GRN_REACH_WORDS(graph->n)));
}

size_t
grn_connect(const GrnRows *rows, GrnGraph *graph, uint32_t entry, GrnParallel *parallel,
			void *workspace)
{
	return grn_connect_rest(rows, graph, entry, grn_reachable(graph, entry, parallel, workspace),
							workspace);
}

size_t
grn_connect_rest(const GrnRows *rows, GrnGraph *graph, uint32_t entry, size_t nreached,
				 void *workspace)
{
	Connect		c = {rows, graph, NULL, NULL, NULL, 0};
	size_t		connected = 0;

	if (nreached == graph->n)
		return 0;
	c.reached = workspace;
	c.queue = (uint32_t *) (c.reached + GRN_REACH_WORDS(graph->n));
	c.stamps = c.queue + graph->n;
	memset(c.stamps, 0, graph->n * sizeof(uint32_t));
	for (uint32_t x = 0; x < graph->n; x++)
	{
		const uint32_t *ids = graph->ids + (size_t) x * graph->degree;
		uint32_t	p = GRN_INVALID_ID;

		if (c.reached[x / 64] == UINT64_MAX)	/* so are those beside it */
			x |= 63;
		if (grn_is_reached(c.reached, x))
			continue;
		for (uint32_t i = 0; i < graph->counts[x] && p == GRN_INVALID_ID; i++)
			if (grn_is_reached(c.reached, ids[i]))
				p = ids[i];
		if (p == GRN_INVALID_ID)
			p = find_near(&c, entry, x);
		link_from(&c, p, x);
		spread(&c, x);
		connected++;
	}
	return connected;
}
