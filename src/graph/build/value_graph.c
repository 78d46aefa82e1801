/*
 * value_graph.c - the graph of the vertices that have a frequent value, from the graph of all.
 *
 * Of 161,000 sentences, 30 and 16% of which have a value, that takes two cores .7 s where
 * RNN-Descent takes 1.2; numbers below are of the same trial (test/bench/tried.md).
 */
#include "graph/build/value_graph.h"

#include <string.h>

#include "graph/stored/prune.h"

/* So many members are found for each.  More bring nothing. */
#define ENOUGH 96
#define MOST_FOUND (ENOUGH + GRN_MAX_DEGREE)	/* one more list may take it beyond */
#define SLOTS 1024				/* a power of 2, with room for those */
/* The rule chooses up to CHOSEN of the NEAREST found.  Without it recall is .01 less. */
#define NEAREST 32
#define CHOSEN 10
/*
 * A member offers itself to the first so many that it has chosen.  Some would be in nobody's list
 * otherwise: recall is .005 less.
 */
#define OFFERED 6

#define GRAIN 256				/* members that a thread takes at a time */

typedef struct Found
{
	uint32_t	n;
	uint32_t	ids[MOST_FOUND];
	float		distances[MOST_FOUND];
	uint32_t	slots[SLOTS];	/* a hash table of ids */
} Found;

/* ---- candidates ---- */

static void
find_begin(Found *found)
{
	found->n = 0;
	memset(found->slots, 0xFF, sizeof(found->slots));	/* GRN_INVALID_ID */
}

static void
note(Found *found, uint32_t id)
{
	uint32_t	slot = id * UINT32_C(2654435761) >> 16 & (SLOTS - 1);

	while (found->slots[slot] != GRN_INVALID_ID)
	{
		if (found->slots[slot] == id)
			return;
		slot = (slot + 1) & (SLOTS - 1);
	}
	found->slots[slot] = id;
	found->ids[found->n++] = id;
}

/* Notes those in a vertex's list that have a value, but for `self`. */
static void
note_list(Found *found, const GrnValueGraph *g, uint32_t vertex, uint8_t value, uint32_t self)
{
	const uint32_t *ids = g->all->ids + (size_t) vertex * g->all->degree;

	for (uint32_t i = 0; i < g->all->counts[vertex]; i++)
		if (ids[i] != self && grn_value(g->values, g->rows, g->column, ids[i]) == value)
			note(found, ids[i]);
}

/* Leaves of what was found the `most` nearest to a vertex, in no order. */
static void
keep_nearest(Found *found, const GrnValueGraph *g, uint32_t vertex, uint32_t most)
{
	size_t		bytes = grn_code_bytes(g->codec->shape);
	GrnCodeQuery query;
	uint32_t	n = 0;
	uint32_t	farthest = 0;

	grn_code_query_from_code(g->codec, g->codes + vertex * bytes, g->factors[vertex], &query);
	grn_estimate_ids(&query, g->codes, bytes, g->factors, found->ids, found->n, found->distances);
	for (uint32_t i = 0; i < found->n; i++)
	{
		uint32_t	at = farthest;

		if (n < most)
			at = n++;
		else if (!(found->distances[i] < found->distances[farthest]))
			continue;
		found->ids[at] = found->ids[i];
		found->distances[at] = found->distances[i];
		if (n < most)
			continue;
		farthest = 0;
		for (uint32_t j = 1; j < n; j++)
			if (found->distances[j] > found->distances[farthest])
				farthest = j;
	}
	found->n = n;
}

/* ---- lists ---- */

static uint32_t
position_of(const GrnValueGraph *g, uint32_t vertex)
{
	uint32_t	low = 0;
	uint32_t	high = g->graph.n - 1;

	while (low < high)
	{
		uint32_t	middle = low + (high - low) / 2;

		if (g->members[middle] < vertex)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Writes a member's list: of the found, at most NEAREST, the rule's choice, and then the nearest
 * that it refuses, up to `fill` in all.
 */
static void
write_list(const GrnValueGraph *g, size_t member, const Found *found, uint32_t most, uint32_t fill)
{
	size_t		bytes = grn_code_bytes(g->codec->shape);
	uint8_t		codes[NEAREST * GRN_MAX_CODE_BYTES];
	GrnFactor	factors[NEAREST];
	char		workspace[NEAREST * (2 * sizeof(uint32_t) + 1)] __attribute__((aligned(8)));
	uint32_t	keep[GRN_MEMBER_DEGREE];
	uint32_t   *ids = g->graph.ids + member * GRN_MEMBER_DEGREE;
	GrnPrune	prune = {.codec = g->codec, .codes = codes, .factors = factors, .dist = found->distances,
		.n = found->n, .most = most, .fill = fill};
	uint32_t	n;

	for (uint32_t i = 0; i < found->n; i++)
	{
		memcpy(codes + i * bytes, g->codes + found->ids[i] * bytes, bytes);
		factors[i] = g->factors[found->ids[i]];
	}
	n = grn_prune(&prune, keep, workspace);
	for (uint32_t i = 0; i < n; i++)
		ids[i] = position_of(g, found->ids[keep[i]]);
	for (uint32_t i = n; i < GRN_MEMBER_DEGREE; i++)
		ids[i] = GRN_INVALID_ID;
	g->graph.counts[member] = (uint8_t) n;
}

/* A GrnRangeFn over members: chooses neighbours by the graph of all. */
static void
choose_range(void *arg, int worker, size_t begin, size_t end)
{
	const GrnValueGraph *g = arg;
	Found		found;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		uint32_t	vertex = g->members[i];
		uint8_t		value = grn_value(g->values, g->rows, g->column, vertex);
		const uint32_t *ids = g->all->ids + (size_t) vertex * g->all->degree;
		uint32_t	n = g->all->counts[vertex];

		find_begin(&found);
		note_list(&found, g, vertex, value, vertex);
		for (uint32_t j = 0; j < n && found.n < ENOUGH; j++)
			note_list(&found, g, ids[j], value, vertex);
		/* a value that few have is rare among those, too */
		for (uint32_t j = 0; j < found.n && found.n < ENOUGH; j++)
			note_list(&found, g, found.ids[j], value, vertex);
		keep_nearest(&found, g, vertex, NEAREST);
		write_list(g, i, &found, CHOSEN, 0);
	}
}

typedef struct Offer
{
	const GrnValueGraph *g;
	uint32_t	shares;			/* of the members, for a worker each */
} Offer;

/*
 * A GrnRangeFn over shares of the members: puts those who have chosen one behind what that has
 * chosen, the nearest of them first, as far as there is room.
 */
static void
offer_range(void *arg, int worker, size_t begin, size_t end)
{
	const Offer *offer = arg;
	const GrnGraph *graph = &offer->g->graph;
	uint32_t	first = (uint32_t) ((uint64_t) graph->n * begin / offer->shares);
	uint32_t	behind = (uint32_t) ((uint64_t) graph->n * end / offer->shares);

	(void) worker;
	for (uint32_t place = 0; place < OFFERED; place++)
		for (uint32_t i = 0; i < graph->n; i++)
		{
			uint32_t	to = graph->ids[(size_t) i * GRN_MEMBER_DEGREE + place];
			uint32_t   *ids;
			uint32_t	at = CHOSEN;

			if (to < first || to >= behind)
				continue;
			ids = graph->ids + (size_t) to * GRN_MEMBER_DEGREE;
			if (grn_find_id(ids, CHOSEN, i) >= 0)
				continue;
			while (at < GRN_MEMBER_DEGREE && ids[at] != GRN_INVALID_ID)
				at++;
			if (at < GRN_MEMBER_DEGREE)
				ids[at] = i;
		}
}

/* A GrnRangeFn over members: makes lists of what is there. */
static void
finish_range(void *arg, int worker, size_t begin, size_t end)
{
	const GrnValueGraph *g = arg;
	Found		found;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		const uint32_t *ids = g->graph.ids + i * GRN_MEMBER_DEGREE;

		found.n = 0;
		for (uint32_t at = 0; at < GRN_MEMBER_DEGREE; at++)
			if (ids[at] != GRN_INVALID_ID)
				found.ids[found.n++] = g->members[ids[at]];
		keep_nearest(&found, g, g->members[i], GRN_MEMBER_DEGREE);
		write_list(g, i, &found, GRN_MEMBER_DEGREE, GRN_MEMBER_DEGREE);
	}
}

void
grn_value_graph(GrnValueGraph *g, GrnParallel *parallel)
{
	Offer		offer = {g, (uint32_t) parallel->nworkers};

	parallel->run(parallel, g->graph.n, GRAIN, choose_range, g);
	parallel->run(parallel, offer.shares, 1, offer_range, &offer);
	parallel->run(parallel, g->graph.n, GRAIN, finish_range, g);
}
