/*
 * navigable.c - edges where searches of a graph end far from what they look for.
 *
 * Tight clusters far from each other hang together by the few edges that the RNG rule keeps
 * between them.  A graph that was built as a whole has them between most pairs of clusters: each
 * vertex began with random neighbours, and an edge that was refused went on to a vertex nearer to
 * its end, until one kept it.  A part knows few clusters of other parts, by landmarks and guests,
 * and the merge drops what it refuses.  All vertices may then be reachable, and yet a search
 * stays in the first cluster that it comes to: no neighbour of what it has found there is nearer.
 *
 * So some vertices are searched for, each from another one.  Where a search ends too early, the
 * vertex that it has found gets an edge to the one that it looks for: later searches that come
 * there go on to that cluster.  Where clusters are no such islands, all of the first searches
 * succeed, and nothing else is done.
 */
#include "graph/construct/navigable.h"

#include <string.h>

#include "graph/construct/beam.h"

#define FIRST_TRIALS 128		/* searches of the first round, after which most graphs are left, */
#define MOST_TRIALS 1024		/* and of a later one */
#define TRIALS_SHARE 32			/* one for so many vertices, so that few cost little */
#define MOST_FAILED 512			/* one of so many may fail */
#define MOST_ROUNDS 64			/* 12 bring recall .72 of 200 clusters in 51 parts to .99 */
#define NEAR_SHARE 4			/* of a list is as near as a search has to come: clusters are small */
#define SEARCH_GRAIN 8

/* A search. */
typedef struct Trial
{
	uint32_t	target;
	uint32_t	end;			/* where it ended, or GRN_INVALID_ID if that is near enough */
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

/* The neighbours of v, all that it has.  (A GPU's lists have not been checked yet.) */
static void
gather_list(const Navigation *n, uint32_t v, GrnPanel *panel)
{
	panel->count = 0;
	for (uint32_t i = 0; i < n->graph->counts[v] && i < n->graph->degree; i++)
		if (list_of(n, v)[i] < n->graph->n)
			grn_panel_add(panel, n->tile, list_of(n, v)[i]);
}

/* The neighbours of v that the search has not seen, as far as its table knows. */
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
			grn_rows_ahead(n->tile->rows, u, u + 1);
	}
}

/*
 * Searches for target until it finds a vertex no farther from it than a share of its neighbours.
 * Returns the nearest vertex found where there is none, or GRN_INVALID_ID.
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
 * Where the edge is that gives way in v's list, which is full: the one that most nearer neighbours
 * occlude, so that a search finds another way to its end.  An edge to a cluster far away is
 * occluded by few, since it starts where its cluster is nearest to that.
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
		size_t		these = n.round == 0 && trials > FIRST_TRIALS ? FIRST_TRIALS : trials;
		size_t		failed = 0;

		/* no edge changes before all have searched */
		parallel->run(parallel, these, SEARCH_GRAIN, search_range, &n);
		for (size_t i = 0; i < these; i++)
			if (n.trials[i].end != GRN_INVALID_ID)
			{
				add_edge(&n, n.trials[i].end, n.trials[i].target);
				failed++;
			}
		if (failed <= these / MOST_FAILED)
			break;
	}
}
