/*
 * order.c - where vertices go: the entry of the graph, and an order that puts
 * neighbours onto one page.
 */
#include "rnnd.h"

#include <math.h>
#include <string.h>

#define MEDOID_SAMPLE 16384
#define MEDOID_PIECE 1024		/* rows whose sum is formed by one worker */

/* ---- medoid ---- */

typedef struct Medoid
{
	const GrnRows *rows;
	size_t		nsample;
	uint64_t	seed;
	float		best[MEDOID_SAMPLE / MEDOID_PIECE];
	uint32_t	best_row[MEDOID_SAMPLE / MEDOID_PIECE];
	double		mean[GRN_MAX_DIM + 1];
} Medoid;

/* Row i of the sample: one drawn from each of nsample equal stretches. */
static uint32_t
sample_row(const Medoid *m, size_t i)
{
	size_t		low = m->rows->n * i / m->nsample;
	size_t		high = m->rows->n * (i + 1) / m->nsample;

	return (uint32_t) (low + grn_random(m->seed, UINT64_C(0x6D65646F), i) % (high - low));
}

/* Coordinates [begin, end) of the mean; each is summed in one fixed order. */
static void
mean_range(void *arg, int worker, size_t begin, size_t end)
{
	Medoid	   *m = arg;

	(void) worker;
	for (size_t j = begin; j < end; j++)
		m->mean[j] = 0;
	for (size_t i = 0; i < m->nsample; i++)
	{
		const float *x = grn_row(m->rows, sample_row(m, i));

		for (size_t j = begin; j < end; j++)
			m->mean[j] += x[j];
	}
	for (size_t j = begin; j < end; j++)
		m->mean[j] /= (double) m->nsample;
}

static void
nearest_range(void *arg, int worker, size_t begin, size_t end)
{
	Medoid	   *m = arg;

	(void) worker;
	for (size_t piece = begin; piece < end; piece++)
	{
		size_t		stop = (piece + 1) * MEDOID_PIECE;

		m->best[piece] = INFINITY;
		m->best_row[piece] = GRN_INVALID_ID;
		if (stop > m->nsample)
			stop = m->nsample;
		for (size_t i = piece * MEDOID_PIECE; i < stop; i++)
		{
			uint32_t	row = sample_row(m, i);
			const float *x = grn_row(m->rows, row);
			float		d = 0;

			for (uint32_t j = 0; j < m->rows->dim; j++)
			{
				float		e = x[j] - (float) m->mean[j];

				d += e * e;
			}
			if (d < m->best[piece] || m->best_row[piece] == GRN_INVALID_ID)
			{
				m->best[piece] = d;
				m->best_row[piece] = row;
			}
		}
	}
}

uint32_t
grn_medoid(const GrnRows *rows, GrnParallel *parallel, uint64_t seed)
{
	Medoid		m;
	size_t		pieces;
	size_t		best = 0;

	if (rows->n == 0)
		return GRN_INVALID_ID;
	m.rows = rows;
	m.seed = seed;
	m.nsample = rows->n < MEDOID_SAMPLE ? rows->n : MEDOID_SAMPLE;
	pieces = (m.nsample + MEDOID_PIECE - 1) / MEDOID_PIECE;
	parallel->run(parallel, rows->dim, 64, mean_range, &m);
	parallel->run(parallel, pieces, 1, nearest_range, &m);
	for (size_t i = 1; i < pieces; i++)
		if (m.best[i] < m.best[best])
			best = i;
	return m.best_row[best];
}

/* ---- order ---- */

/* Candidates for the page being filled: the unplaced neighbours of its vertices. */
#define MAX_CANDIDATES 1024

typedef struct Order
{
	const GrnGraph *graph;
	uint32_t   *position;
	uint32_t   *queue;			/* [n] placed vertices, in order */
	uint16_t   *links;			/* [n] edges from the page to a candidate */
	uint32_t	candidates[MAX_CANDIDATES];
	uint32_t	ncandidates;
	uint32_t	placed;
} Order;

static void
place(Order *o, uint32_t v)
{
	const GrnGraph *g = o->graph;
	const uint32_t *ids = g->ids + (size_t) v * g->degree;

	o->queue[o->placed] = v;
	o->position[v] = o->placed++;
	for (uint32_t i = 0; i < g->counts[v]; i++)
	{
		uint32_t	u = ids[i];

		if (o->position[u] != GRN_INVALID_ID)
			continue;
		if (o->links[u] == 0)
		{
			if (o->ncandidates == MAX_CANDIDATES)
				continue;
			o->candidates[o->ncandidates++] = u;
		}
		o->links[u]++;
	}
}

/* The unplaced candidate with most links (the earliest of equals), or none. */
static uint32_t
best_candidate(const Order *o)
{
	uint32_t	best = GRN_INVALID_ID;
	uint16_t	most = 0;

	for (uint32_t i = 0; i < o->ncandidates; i++)
	{
		uint32_t	u = o->candidates[i];

		if (o->position[u] == GRN_INVALID_ID && o->links[u] > most)
		{
			most = o->links[u];
			best = u;
		}
	}
	return best;
}

/*
 * Fills page after page: a page starts with the best candidate that the page
 * before left over, or with the next vertex seen near an earlier page, and
 * goes on with whatever has most edges from the vertices already on it.
 */
void
grn_order(const GrnGraph *graph, uint32_t per_page, uint32_t *position, void *workspace)
{
	Order		o;
	uint32_t	n = graph->n;
	uint32_t	scan = 0;		/* queue[0, scan) have no unplaced neighbour */
	uint32_t	fresh = 0;		/* all vertices below are placed */

	o.graph = graph;
	o.position = position;
	o.queue = workspace;
	o.links = (uint16_t *) (o.queue + n);
	o.ncandidates = 0;
	o.placed = 0;
	memset(position, 0xFF, (size_t) n * sizeof(*position));
	memset(o.links, 0, (size_t) n * sizeof(*o.links));
	while (o.placed < n)
	{
		uint32_t	start = best_candidate(&o);

		for (uint32_t i = 0; i < o.ncandidates; i++)
			o.links[o.candidates[i]] = 0;
		o.ncandidates = 0;
		while (start == GRN_INVALID_ID && scan < o.placed)
		{
			const uint32_t *ids = graph->ids + (size_t) o.queue[scan] * graph->degree;

			for (uint32_t i = 0; i < graph->counts[o.queue[scan]]; i++)
				if (position[ids[i]] == GRN_INVALID_ID)
				{
					start = ids[i];
					break;
				}
			if (start == GRN_INVALID_ID)
				scan++;
		}
		while (start == GRN_INVALID_ID)
		{
			if (position[fresh] == GRN_INVALID_ID)
				start = fresh;
			fresh++;
		}
		place(&o, start);
		for (uint32_t i = 1; i < per_page && o.placed < n; i++)
		{
			uint32_t	u = best_candidate(&o);

			if (u == GRN_INVALID_ID)
				break;
			place(&o, u);
		}
		/* A short page ends a connected piece; the next piece continues on it. */
	}
}
