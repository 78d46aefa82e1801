/*
 * page_order.c - an order of a graph's vertices that puts neighbours onto one page.
 *
 * The graph is cut into regions, each the vertices nearest (by steps) to one of many
 * sources, and each region is packed into pages by itself: by all threads at
 * once, and the same however many they are.  cuda/page_order.cu makes the same order on a GPU.
 */
#include "graph/build/page_order.h"

#include <string.h>

#include "graph/build/breadth_first.h"

/*
 * Vertices of a region, on average; the largest has four to seven times as many, and whoever packs
 * it finishes last.  Of 200,000 rows 34 edges lead to 32.41 pages, and to 32.39 with twice as many.
 */
#define REGION 4096
/* Candidates for the page being filled: its vertices' neighbours that are not packed yet. */
#define MAX_CANDIDATES 2048
/* Vertices are sorted by region in pieces of so many at least, so many pieces at most. */
#define PIECE 65536
#define MAX_PIECES 64

/*
 * What a slot says of a vertex: 0 no packed vertex of its region has an edge to it, SEEN one has,
 * SEEN + i it is candidate i - 1 of the page being filled, PACKED it has its position.
 */
#define SEEN 0x8000
#define PACKED UINT16_MAX
_Static_assert(SEEN + MAX_CANDIDATES < PACKED, "a slot holds every candidate's index");

/*
 * Once vertices are sorted by region, each goes by its rank, its index in members: a region's
 * ranks lie side by side, so that what its packing asks for stays in the processor's caches,
 * and one look at a neighbour's rank tells whether it belongs to the region.
 */
typedef struct Order
{
	const GrnGraph *graph;
	uint32_t	per_page;
	uint32_t   *position;		/* [n] holds labels until vertices are sorted */
	uint32_t   *members;		/* [n] vertices by region, ascending in each */
	uint32_t   *rank;			/* [n] of each vertex */
	uint32_t   *seen;			/* [n] ranks by region, in the order in which they were seen */
	uint16_t   *slot;			/* [n] by rank */
	uint32_t	regions;		/* that of what no source reaches among them */
	size_t		pieces;			/* of the vertices, while they are sorted by region */
	uint32_t   *count;			/* [pieces][regions], in the memory of seen */
	uint32_t	start[GRN_MAX_SOURCES + 2]; /* of each region in members */
} Order;

/* The packing of one region. */
typedef struct Packing
{
	Order	   *o;
	uint32_t	start;			/* of the region's ranks */
	uint32_t	n;				/* of them */
	uint32_t	npacked;
	uint32_t	nseen;
	uint32_t	ncandidates;
	uint32_t	candidates[MAX_CANDIDATES]; /* ranks */
	uint16_t	links[MAX_CANDIDATES];	/* edges from the page to each; 0: it has a position */
} Packing;

/* One more edge from the page to the vertex of that rank, which has no position yet. */
static void
count_link(Packing *p, uint32_t rank)
{
	Order	   *o = p->o;
	uint16_t   *slot = &o->slot[rank];

	if (*slot == 0)
	{
		o->seen[p->start + p->nseen++] = rank;
		*slot = SEEN;
		__builtin_prefetch(o->graph->ids + (size_t) o->members[rank] * o->graph->degree);
	}
	if (*slot == SEEN)
	{
		if (p->ncandidates == MAX_CANDIDATES)
			return;
		p->candidates[p->ncandidates] = rank;
		p->links[p->ncandidates] = 0;
		*slot = (uint16_t) (SEEN + ++p->ncandidates);
	}
	p->links[*slot - SEEN - 1]++;
}

static void
pack(Packing *p, uint32_t rank)
{
	Order	   *o = p->o;
	const GrnGraph *g = o->graph;
	uint32_t	v = o->members[rank];
	const uint32_t *ids = g->ids + (size_t) v * g->degree;
	uint32_t	inside[UINT8_MAX];	/* ranks of neighbours in the region, less its start */
	uint32_t	n = 0;

	o->position[v] = p->start + p->npacked++;
	if (o->slot[rank] > SEEN)
		p->links[o->slot[rank] - SEEN - 1] = 0;
	o->slot[rank] = PACKED;
	/* all ranks are asked for before any of them is needed */
	for (uint32_t i = 0; i < g->counts[v]; i++)
	{
		inside[n] = o->rank[ids[i]] - p->start;
		n += inside[n] < p->n;
	}
	for (uint32_t i = 0; i < n; i++)
		if (o->slot[p->start + inside[i]] != PACKED)
			count_link(p, p->start + inside[i]);
}

/* The rank of the candidate with most links (the earliest of equals), or none. */
static uint32_t
best_candidate(const Packing *p)
{
	uint32_t	best = GRN_INVALID_ID;
	uint16_t	most = 0;

	for (uint32_t i = 0; i < p->ncandidates; i++)
		if (p->links[i] > most)
		{
			most = p->links[i];
			best = i;
		}
	return most > 0 ? p->candidates[best] : GRN_INVALID_ID;
}

/*
 * Fills page after page: a page starts with the best candidate that the page
 * before left over, or with the next vertex seen near an earlier page, and
 * goes on with whatever has most edges from the vertices already on it.
 */
static void
pack_region(Order *o, uint32_t region)
{
	Packing		p;
	uint32_t	next_seen = 0;	/* seen before it are packed */
	uint32_t	next = o->start[region];	/* ranks before it are packed */

	p.o = o;
	p.start = o->start[region];
	p.n = o->start[region + 1] - o->start[region];
	p.npacked = p.nseen = p.ncandidates = 0;
	memset(o->slot + p.start, 0, p.n * sizeof(*o->slot));
	while (p.npacked < p.n)
	{
		uint32_t	rank = best_candidate(&p);

		for (uint32_t i = 0; i < p.ncandidates; i++)
			if (o->slot[p.candidates[i]] != PACKED)
				o->slot[p.candidates[i]] = SEEN;
		p.ncandidates = 0;
		for (; rank == GRN_INVALID_ID && next_seen < p.nseen; next_seen++)
			if (o->slot[o->seen[p.start + next_seen]] != PACKED)
				rank = o->seen[p.start + next_seen];
		for (; rank == GRN_INVALID_ID; next++)
			if (o->slot[next] != PACKED)
				rank = next;
		pack(&p, rank);
		for (uint32_t i = 1; i < o->per_page && p.npacked < p.n; i++)
		{
			rank = best_candidate(&p);
			if (rank == GRN_INVALID_ID)
				break;
			pack(&p, rank);
		}
		/* A short page ends a connected piece; the next piece continues on it. */
	}
}

static void
pack_range(void *arg, int worker, size_t begin, size_t end)
{
	(void) worker;
	for (size_t region = begin; region < end; region++)
		pack_region(arg, (uint32_t) region);
}

/* One vertex drawn from each of equal stretches. */
uint32_t
grn_page_sources(uint32_t n, uint32_t *sources)
{
	uint32_t	count = n / REGION + 1;

	if (count > GRN_MAX_SOURCES)
		count = GRN_MAX_SOURCES;
	for (uint32_t i = 0; i < count; i++)
	{
		uint32_t	low = (uint32_t) ((uint64_t) n * i / count);
		uint32_t	high = (uint32_t) ((uint64_t) n * (i + 1) / count);

		sources[i] = low + (uint32_t) (grn_random(0, UINT64_C(0x6F72646572), i) % (high - low));
	}
	return count;
}

/* Runs fn over n items, by all threads if there are any. */
static void
run(Order *o, GrnParallel *parallel, size_t n, GrnRangeFn fn)
{
	if (parallel == NULL)
		fn(o, 0, 0, n);
	else
		parallel->run(parallel, n, 1, fn, o);
}

/* The first vertex of a piece, or the end of the last. */
static size_t
piece_start(const Order *o, size_t piece)
{
	return (size_t) o->graph->n * piece / o->pieces;
}

/* By its label; what no source reaches is a region of its own, the last. */
static uint32_t
region_of(const Order *o, size_t v)
{
	return o->position[v] == GRN_INVALID_ID ? o->regions - 1 : o->position[v];
}

static void
count_range(void *arg, int worker, size_t begin, size_t end)
{
	Order	   *o = arg;

	(void) worker;
	for (size_t piece = begin; piece < end; piece++)
	{
		uint32_t   *count = o->count + piece * o->regions;
		size_t		stop = piece_start(o, piece + 1);

		memset(count, 0, o->regions * sizeof(*count));
		for (size_t v = piece_start(o, piece); v < stop; v++)
			count[region_of(o, v)]++;
	}
}

/* count[] says where the next vertex of the piece and region goes. */
static void
member_range(void *arg, int worker, size_t begin, size_t end)
{
	Order	   *o = arg;

	(void) worker;
	for (size_t piece = begin; piece < end; piece++)
	{
		uint32_t   *next = o->count + piece * o->regions;
		size_t		stop = piece_start(o, piece + 1);

		for (size_t v = piece_start(o, piece); v < stop; v++)
		{
			o->rank[v] = next[region_of(o, v)]++;
			o->members[o->rank[v]] = (uint32_t) v;
		}
	}
}

/* A counting sort: position[] has the vertices' labels. */
static void
sort_by_region(Order *o, GrnParallel *parallel)
{
	uint32_t	few[2];			/* of one piece of fewer vertices than a region has */
	uint32_t	sum = 0;

	o->pieces = o->graph->n / PIECE;
	if (o->pieces > MAX_PIECES)
		o->pieces = MAX_PIECES;
	if (o->pieces == 0)
		o->pieces = 1;
	/* regions are REGION vertices on average, or GRN_MAX_SOURCES: few beside a piece */
	o->count = o->regions > 2 ? o->seen : few;
	run(o, parallel, o->pieces, count_range);
	for (uint32_t i = 0; i < o->regions; i++)
	{
		o->start[i] = sum;
		for (size_t piece = 0; piece < o->pieces; piece++)
		{
			uint32_t   *count = o->count + piece * o->regions + i;
			uint32_t	here = *count;

			*count = sum;
			sum += here;
		}
	}
	o->start[o->regions] = sum;
	run(o, parallel, o->pieces, member_range);
}

void
grn_page_order(const GrnGraph *graph, uint32_t per_page, uint32_t *position,
			   GrnParallel *parallel, void *workspace)
{
	Order		o;
	uint32_t	n = graph->n;
	uint32_t	sources[GRN_MAX_SOURCES];
	uint32_t	nsources;

	if (n == 0)
		return;
	o.graph = graph;
	o.per_page = per_page;
	o.position = position;
	o.members = workspace;
	o.rank = o.members + n;
	o.seen = o.rank + n;
	o.slot = (uint16_t *) (o.seen + n);
	nsources = grn_page_sources(n, sources);
	grn_breadth_first(graph, parallel, sources, nsources, position, o.seen);
	o.regions = nsources + 1;
	sort_by_region(&o, parallel);

	run(&o, parallel, o.regions, pack_range);
}
