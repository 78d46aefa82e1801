/*
 * navigable.c - adds edges where searches of a graph end far from their targets.
 *
 * Tight clusters far from each other are connected by the few edges that the RNG rule keeps
 * between clusters.  A graph built as a whole has such edges between most pairs of clusters:
 * each vertex began with random neighbors, and a refused edge moved on to a vertex nearer to
 * its end until a vertex kept the edge.  A part knows few clusters of other parts, by
 * landmarks and guests, and the merge drops refused edges.  Even if all vertices are
 * reachable, a search may then stay in the first cluster, because no neighbor of the found
 * vertices is nearer to the target.
 *
 * The build therefore searches for some vertices, each from a random vertex.  If a search ends
 * too early, the nearest vertex found gets an edge to the target.  Later searches that reach
 * the vertex continue to the target's cluster.  If clusters are connected well, all searches
 * of the first round succeed, and no edge is added.
 */
#include "graph/construct/navigable.h"

#include <string.h>

#include "graph/construct/beam.h"

#define FIRST_TRIALS 128		/* searches of the first round, after which most graphs are
								 * finished */
#define MOST_TRIALS 1024		/* searches of a later round, at most */
#define TRIALS_SHARE 32			/* one search for each TRIALS_SHARE vertices, so that small graphs
								 * cost little */
#define MOST_FAILED 512			/* one in MOST_FAILED searches may fail */
#define MOST_ROUNDS 64			/* most rounds; 12 raise recall from .72 to .99 for 200 clusters in
								 * 51 parts */
#define NEAR_SHARE 4			/* a search succeeds within the nearest quarter of the target's
								 * list, because clusters are small */
#define SEARCH_GRAIN 8

/* A search. */
typedef struct Trial
{
	uint32_t	target;
	uint32_t	end;			/* the nearest vertex found, or GRN_INVALID_ID if the search
								 * succeeded */
} Trial;

typedef struct Navigation
{
	const GrnTile *tile;
	GrnGraph   *graph;
	uint64_t	seed;
	uint64_t	round;
	Trial		trials[MOST_TRIALS];
} Navigation;

static uint32_t *
list_of(const Navigation *n, uint32_t v)
{
	return n->graph->ids + (size_t) v * n->graph->degree;
}

/* Gathers all neighbors of v.  Ids from a GPU have not been checked before. */
static void
gather_list(const Navigation *n, uint32_t v, GrnPanel *panel)
{
	panel->count = 0;
	for (uint32_t i = 0; i < n->graph->counts[v] && i < n->graph->degree; i++)
		if (list_of(n, v)[i] < n->graph->n)
			grn_panel_add(panel, n->tile, list_of(n, v)[i]);
}

/* Gathers the neighbors of v that the search has not seen, as far as the table knows. */
static void
gather_unseen(const Navigation *n, uint32_t v, GrnSeenIds *seen, GrnPanel *panel)
{
	bool		on_disk = n->tile->bytes == NULL && n->tile->rows->on_disk;

	panel->count = 0;
	for (uint32_t i = 0; i < n->graph->counts[v] && i < n->graph->degree; i++)
	{
		uint32_t	u = list_of(n, v)[i];

		if (u >= n->graph->n || !grn_seen_add(seen, u))
			continue;
		grn_panel_add(panel, n->tile, u);
		if (on_disk)
			grn_prefetch_rows(n->tile->rows, u, u + 1);
	}
}

/*
 * Searches for target until the search finds a vertex no farther from target than a share of
 * target's neighbors.  Returns GRN_INVALID_ID if such a vertex is found, otherwise the
 * nearest vertex found.
 */
static uint32_t
search(const Navigation *n, uint32_t from, uint32_t target)
{
	GrnSeenIds	seen;
	uint32_t	distances[GRN_PANEL_ROWS + 3];
	uint32_t	near;
	GrnPanel	panel;
	GrnBeam		beam = {0};

	gather_list(n, target, &panel);
	if (panel.count == 0)
		return GRN_INVALID_ID;
	grn_tile_dists(n->tile, target, &panel, distances);
	near = distances[(panel.count - 1) / NEAR_SHARE];
	grn_seen_begin(&seen);
	panel.count = 0;
	grn_panel_add(&panel, n->tile, from);
	for (;;)
	{
		uint32_t	next;

		if (panel.count > 0)
			grn_tile_dists(n->tile, target, &panel, distances);
		for (uint32_t i = 0; i < panel.count; i++)
		{
			if (distances[i] <= near)
				return GRN_INVALID_ID;
			grn_beam_offer(&beam, GRN_BEAM_KEY(distances[i], panel.ids[i]));
		}
		next = grn_beam_next(&beam);
		if (next == GRN_INVALID_ID)
			return grn_beam_nearest(&beam);
		gather_unseen(n, next, &seen, &panel);
	}
}

static void
search_range(void *arg, int worker, size_t begin, size_t end)
{
	Navigation *n = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		Trial	   *t = &n->trials[i];
		uint32_t	from = (uint32_t) (grn_random(n->seed, UINT64_C(0x6E617669) + n->round, 2 * i + 1) %
									   n->graph->n);

		t->target = (uint32_t) (grn_random(n->seed, UINT64_C(0x6E617669) + n->round, 2 * i) %
								n->graph->n);
		t->end = search(n, from, t->target);
	}
}

/*
 * Returns the index of the edge that gives way in v's full list: the edge occluded by the most
 * nearer neighbors, because a search finds another way to its end.  Few neighbors occlude an
 * edge to a distant cluster, because the edge starts where its own cluster is nearest to the
 * distant cluster.
 */
static uint32_t
most_occluded(const Navigation *n, const GrnPanel *list, const uint32_t *own)
{
	uint32_t	distances[GRN_PANEL_ROWS + 3];
	uint32_t	most = 0;
	uint32_t	at = list->count - 1;

	for (uint32_t i = 0; i < list->count; i++)
	{
		uint32_t	occluding = 0;

		grn_tile_dists(n->tile, list->ids[i], list, distances);
		for (uint32_t j = 0; j < i; j++)
			occluding += distances[j] < own[i];
		if (occluding >= most && occluding > 0)
		{
			most = occluding;
			at = i;
		}
	}
	return at;
}

/* Adds the edge v -> u. */
static void
add_edge(const Navigation *n, uint32_t v, uint32_t u)
{
	uint32_t   *ids = list_of(n, v);
	uint32_t	count = n->graph->counts[v];
	uint32_t	own[GRN_PANEL_ROWS + 3];
	uint32_t	distance[1 + 3];
	GrnPanel	list;
	GrnPanel	end;

	gather_list(n, v, &list);
	if (list.count != count)
		return;
	for (uint32_t i = 0; i < count; i++)
		if (ids[i] == u)
			return;
	if (count > 0)
		grn_tile_dists(n->tile, v, &list, own);
	end.count = 0;
	grn_panel_add(&end, n->tile, u);
	grn_tile_dists(n->tile, v, &end, distance);
	if (count == n->graph->degree)
	{
		uint32_t	at = most_occluded(n, &list, own);

		count--;
		memmove(ids + at, ids + at + 1, (count - at) * sizeof(*ids));
		memmove(own + at, own + at + 1, (count - at) * sizeof(*own));
	}
	n->graph->counts[v] = (uint8_t) (count + 1);
	for (; count > 0 && own[count - 1] > distance[0]; count--)
		ids[count] = ids[count - 1];
	ids[count] = u;
}

void
grn_make_navigable(const GrnTile *tile, GrnGraph *graph, uint64_t seed, GrnParallel *parallel)
{
	Navigation	n = {.tile = tile, .graph = graph, .seed = seed};
	size_t		trials = graph->n / TRIALS_SHARE + 1;

	trials = trials < MOST_TRIALS ? trials : MOST_TRIALS;
	for (; n.round < MOST_ROUNDS; n.round++)
	{
		size_t		ntrials = n.round == 0 && trials > FIRST_TRIALS ? FIRST_TRIALS : trials;
		size_t		failed = 0;

		/* Edges change only after all searches of the round. */
		parallel->run(parallel, ntrials, SEARCH_GRAIN, search_range, &n);
		for (size_t i = 0; i < ntrials; i++)
			if (n.trials[i].end != GRN_INVALID_ID)
			{
				add_edge(&n, n.trials[i].end, n.trials[i].target);
				failed++;
			}
		if (failed <= ntrials / MOST_FAILED)
			break;
	}
}
