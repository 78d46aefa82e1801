/*
 * page_order.c - an order of a graph's vertices that puts neighbours onto one page.
 *
 * The graph is cut into regions, each the vertices nearest (by steps) to one of many
 * sources, and each region is packed into pages by itself: by all threads at
 * once, and the same however many they are.
 */
#include "graph/build/page_order.h"

#include <string.h>

#include "graph/build/breadth_first.h"

#define REGION 8192				/* vertices of a region, on average */
/* Candidates for the page being filled: the unplaced neighbours of its vertices. */
#define MAX_CANDIDATES 2048
/* Vertices are sorted by region in pieces of so many at least, so many pieces at most. */
#define PIECE 65536
#define MAX_PIECES 64

#define PACKED UINT16_MAX
_Static_assert(GRN_MAX_SOURCES < PACKED, "a region's number fits 16 bits");

typedef struct Order
{
	const GrnGraph *graph;
	uint32_t	per_page;
	uint32_t   *position;
	uint16_t   *region;			/* [n] of each vertex; PACKED once it has a position */
	uint32_t   *members;		/* [n] by region, ascending */
	uint32_t   *packed;			/* [n] by region, in the order of their positions */
	uint16_t   *slot;			/* [n] index of a candidate, plus 1; 0: not a candidate */
	uint32_t	regions;		/* that of what no source reaches among them */
	size_t		pieces;			/* of the vertices, while they are sorted by region */
	uint32_t   *count;			/* [pieces][regions], in the memory of packed */
	uint32_t	start[GRN_MAX_SOURCES + 2]; /* of each region in members */
} Order;

/* The packing of one region. */
typedef struct Packing
{
	Order	   *o;
	uint32_t	region;
	uint32_t	npacked;
	uint32_t	ncandidates;
	uint32_t	candidates[MAX_CANDIDATES];
	uint16_t	links[MAX_CANDIDATES];	/* edges from the page to each; 0: it has a position */
} Packing;

/*
 * Whether v is one of the region's vertices and has no position yet.  Others change
 * those of their regions meanwhile.
 */
static bool
is_open(const Packing *p, uint32_t v)
{
	return __atomic_load_n(&p->o->region[v], __ATOMIC_RELAXED) == p->region;
}

static void
pack_vertex(Packing *p, uint32_t v)
{
	Order	   *o = p->o;
	const GrnGraph *g = o->graph;
	const uint32_t *ids = g->ids + (size_t) v * g->degree;
	uint32_t	at = o->start[p->region] + p->npacked++;

	o->packed[at] = v;
	o->position[v] = at;
	__atomic_store_n(&o->region[v], PACKED, __ATOMIC_RELAXED);
	if (o->slot[v] > 0)
		p->links[o->slot[v] - 1] = 0;
	for (uint32_t i = 0; i < g->counts[v]; i++)
	{
		uint32_t	u = ids[i];

		if (!is_open(p, u))
			continue;
		if (o->slot[u] == 0)
		{
			if (p->ncandidates == MAX_CANDIDATES)
				continue;
			p->candidates[p->ncandidates] = u;
			p->links[p->ncandidates] = 0;
			o->slot[u] = (uint16_t) ++p->ncandidates;
		}
		p->links[o->slot[u] - 1]++;
	}
}

/* The open candidate with most links (the earliest of equals), or none. */
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
	const GrnGraph *g = o->graph;
	const uint32_t *members = o->members + o->start[region];
	const uint32_t *packed = o->packed + o->start[region];
	uint32_t	n = o->start[region + 1] - o->start[region];
	uint32_t	scan = 0;		/* packed[0, scan) have no open neighbour */
	uint32_t	fresh = 0;		/* members[0, fresh) are packed */

	p.o = o;
	p.region = region;
	p.npacked = 0;
	p.ncandidates = 0;
	while (p.npacked < n)
	{
		uint32_t	start = best_candidate(&p);

		for (uint32_t i = 0; i < p.ncandidates; i++)
			o->slot[p.candidates[i]] = 0;
		p.ncandidates = 0;
		while (start == GRN_INVALID_ID && scan < p.npacked)
		{
			const uint32_t *ids = g->ids + (size_t) packed[scan] * g->degree;

			for (uint32_t i = 0; i < g->counts[packed[scan]]; i++)
				if (is_open(&p, ids[i]))
				{
					start = ids[i];
					break;
				}
			if (start == GRN_INVALID_ID)
				scan++;
		}
		while (start == GRN_INVALID_ID)
		{
			if (is_open(&p, members[fresh]))
				start = members[fresh];
			fresh++;
		}
		pack_vertex(&p, start);
		for (uint32_t i = 1; i < o->per_page && p.npacked < n; i++)
		{
			uint32_t	u = best_candidate(&p);

			if (u == GRN_INVALID_ID)
				break;
			pack_vertex(&p, u);
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

/* Sources of the regions: one vertex drawn from each of equal stretches. */
static uint32_t
choose_sources(uint32_t n, uint32_t *sources)
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

/* What no source reaches is a region of its own, the last. */
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
		{
			uint32_t	label = o->position[v];

			o->region[v] = (uint16_t) (label == GRN_INVALID_ID ? o->regions - 1 : label);
			o->slot[v] = 0;
			count[o->region[v]]++;
		}
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
			o->members[next[o->region[v]]++] = (uint32_t) v;
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
	o->count = o->regions > 2 ? o->packed : few;
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
	o.packed = o.members + n;
	o.region = (uint16_t *) (o.packed + n);
	o.slot = o.region + n;
	nsources = choose_sources(n, sources);
	grn_breadth_first(graph, parallel, sources, nsources, position, o.packed);
	o.regions = nsources + 1;
	sort_by_region(&o, parallel);

	run(&o, parallel, o.regions, pack_range);
}
