/*
 * evaluate.c - measures the quality of a graph by a beam search.
 *
 * The search keeps a sorted array of the L nearest vertices found, starts from 32 random
 * entries (the same entries for every query), always expands the nearest unexpanded vertex,
 * and computes a vertex's distance when an edge first leads to the vertex.
 */
#include "paper/evaluate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builder/host.h"
#include "builder/threads.h"
#include "paper/options.h"
#include "space/form.h"

#define ENTRIES 32
#define K 10					/* recall@10 */

typedef struct Evaluate
{
	GrnVectors	base;
	GrnVectors	query;
	GrnComparison comparison;
	int32_t    *graph;
	size_t		degree;
	int32_t    *truth;
	size_t		truth_columns;
	uint32_t	entries[ENTRIES];
	uint32_t	nentries;
	uint32_t	beam;
	uint32_t  **seen;			/* per worker: [n] 1 + number of the last query that saw a vertex */
	char	  **lists;			/* per worker: [beam] FoundVertex */
	uint64_t	distances;
	uint64_t	hits;
} Evaluate;

typedef struct FoundVertex
{
	float		distance;
	uint32_t	id;				/* top bit: expanded */
} FoundVertex;

#define EXPANDED UINT32_C(0x80000000)

static float
distance(const Evaluate *e, const float *q, uint32_t id)
{
	const float *x = e->base.base + id * e->base.stride;

	return grn_compare(e->comparison, GRN_FORM_FLOATS, q, x, e->base.dim);
}

/*
 * Inserts a vertex into a list sorted by distance.  Returns the vertex's position, or `most`
 * if the list is full of nearer vertices.
 */
static uint32_t
offer(FoundVertex *list, uint32_t *count, uint32_t most, float d, uint32_t id)
{
	uint32_t	at;

	if (*count == most && !(d < list[most - 1].distance))
		return most;
	at = *count < most ? (*count)++ : most - 1;
	for (; at > 0 && list[at - 1].distance > d; at--)
		list[at] = list[at - 1];
	list[at].distance = d;
	list[at].id = id;
	return at;
}

static uint64_t
search(const Evaluate *e, const float *q, uint32_t stamp, uint32_t *seen,
	   FoundVertex *list, uint32_t *found)
{
	uint32_t	count = 0;
	uint32_t	next = 0;		/* all candidates before this position are expanded */
	uint64_t	distances = 0;

	for (uint32_t i = 0; i < e->nentries; i++)
	{
		uint32_t	id = e->entries[i];

		if (seen[id] == stamp)
			continue;
		seen[id] = stamp;
		distances++;
		offer(list, &count, e->beam, distance(e, q, id), id);
	}
	while (next < count)
	{
		const int32_t *ids;

		if (list[next].id & EXPANDED)
		{
			next++;
			continue;
		}
		ids = e->graph + (size_t) list[next].id * e->degree;
		list[next].id |= EXPANDED;
		for (size_t i = 0; i < e->degree; i++)
			if (ids[i] >= 0)
				__builtin_prefetch(e->base.base + (size_t) ids[i] * e->base.stride);
		for (size_t i = 0; i < e->degree; i++)
		{
			uint32_t	id = (uint32_t) ids[i];
			uint32_t	at;

			if (ids[i] < 0 || seen[id] == stamp)
				continue;
			seen[id] = stamp;
			distances++;
			at = offer(list, &count, e->beam, distance(e, q, id), id);
			if (at < next)
				next = at;
		}
	}
	*found = count;
	return distances;
}

static void
query_range(void *arg, int worker, size_t begin, size_t end)
{
	Evaluate   *e = arg;
	FoundVertex *list = (FoundVertex *) e->lists[worker];
	uint64_t	distances = 0;
	uint64_t	hits = 0;

	for (size_t i = begin; i < end; i++)
	{
		const int32_t *truth = e->truth + i * e->truth_columns;
		uint32_t	count;

		distances += search(e, e->query.base + i * e->query.stride, (uint32_t) i + 1,
							e->seen[worker], list, &count);
		for (uint32_t j = 0; j < K && j < count; j++)
			for (uint32_t k = 0; k < K; k++)
				if ((int32_t) (list[j].id & ~EXPANDED) == truth[k])
				{
					hits++;
					break;
				}
	}
	__atomic_fetch_add(&e->distances, distances, __ATOMIC_RELAXED);
	__atomic_fetch_add(&e->hits, hits, __ATOMIC_RELAXED);
}

/*
 * Prints the degrees and the share of vertices that the entries reach.  Returns false if a
 * list names a vertex that does not exist.
 */
static bool
print_graph(const Evaluate *e, const char *path)
{
	size_t		n = e->base.n;
	uint8_t    *seen = calloc(n, 1);
	uint32_t   *queue = malloc(n * sizeof(uint32_t));
	size_t		edges = 0;
	size_t		largest = 0;
	size_t		head = 0;
	size_t		tail = 0;
	bool		fine = seen && queue;

	if (!fine)
		grn_cli_error("out of memory");
	for (size_t v = 0; v < n && fine; v++)
	{
		size_t		degree = 0;

		for (size_t i = 0; i < e->degree; i++)
		{
			int32_t		id = e->graph[v * e->degree + i];

			if (id >= 0)
				degree++;
			if (id < -1 || id >= (int64_t) n)
			{
				grn_cli_error("%s: row %zu names vertex %d of %zu", path, v + 1, id, n);
				fine = false;
				break;
			}
		}
		edges += degree;
		if (degree > largest)
			largest = degree;
	}
	for (uint32_t i = 0; i < e->nentries && fine; i++)
		if (!seen[e->entries[i]])
		{
			seen[e->entries[i]] = 1;
			queue[tail++] = e->entries[i];
		}
	while (head < tail && fine)
	{
		const int32_t *ids = e->graph + (size_t) queue[head++] * e->degree;

		for (size_t i = 0; i < e->degree; i++)
			if (ids[i] >= 0 && !seen[ids[i]])
			{
				seen[ids[i]] = 1;
				queue[tail++] = (uint32_t) ids[i];
			}
	}
	if (fine)
		printf("%zu vertices, average degree %.2f, largest %zu, reachable from the entries %.6f\n",
			   n, (double) edges / (double) n, largest, (double) tail / (double) n);
	free(seen);
	free(queue);
	return fine;
}

static bool
run_beams(Evaluate *e, const GrnEvaluation *asked, GrnPool *pool)
{
	GrnParallel *parallel = grn_pool_parallel(pool);
	size_t		nqueries = asked->queries < e->query.n ? asked->queries : e->query.n;

	for (uint32_t b = 0; b < asked->nbeams; b++)
	{
		double		start;
		double		seconds;

		e->beam = asked->beams[b];
		e->hits = e->distances = 0;
		for (int i = 0; i < parallel->nworkers; i++)
		{
			memset(e->seen[i], 0, e->base.n * sizeof(uint32_t));
			free(e->lists[i]);
			e->lists[i] = malloc(e->beam * sizeof(FoundVertex));
			if (!e->lists[i])
				return false;
		}
		start = grn_seconds();
		parallel->run(parallel, nqueries, 16, query_range, e);
		seconds = grn_seconds() - start;
		printf("L %u recall@%d %.4f distances %.1f queries/s %.0f\n", e->beam, K,
			   (double) e->hits / (double) (nqueries * K),
			   (double) e->distances / (double) nqueries, (double) nqueries / seconds);
	}
	return true;
}

/* Reads vectors, queries and truth, and checks that dimensions and numbers of rows agree. */
static bool
read_all(Evaluate *e, const GrnEvaluation *asked)
{
	size_t		truth_rows;

	if (!grn_read_vectors(asked->vectors, asked->metric, asked->rows, &e->base) ||
		!grn_read_vectors(asked->query, asked->metric, 0, &e->query) ||
		!grn_read_ibin(asked->truth, &e->truth, &truth_rows, &e->truth_columns))
		return false;
	if (e->query.dim != e->base.dim)
	{
		grn_cli_error("%s: has %u dimensions where %s has %u", asked->query, e->query.dim,
					  asked->vectors, e->base.dim);
		return false;
	}
	if (e->truth_columns < K || truth_rows < e->query.n)
	{
		grn_cli_error("%s: has %zu rows of %zu neighbors where %zu of at least %d are needed",
					  asked->truth, truth_rows, e->truth_columns, e->query.n, K);
		return false;
	}
	return true;
}

static bool
evaluate_graph(Evaluate *e, const GrnEvaluation *asked, const char *path, GrnPool *pool)
{
	size_t		rows;

	free(e->graph);
	e->graph = NULL;
	if (!grn_read_ibin(path, &e->graph, &rows, &e->degree))
		return false;
	if (rows != e->base.n)
	{
		grn_cli_error("%s: has %zu rows where %s has %zu", path, rows, asked->vectors, e->base.n);
		return false;
	}
	if (asked->ngraphs > 1)
		printf("%s\n", path);
	if (!print_graph(e, path))
		return false;
	if (run_beams(e, asked, pool))
		return true;
	grn_cli_error("out of memory");
	return false;
}

static bool
evaluate(Evaluate *e, const GrnEvaluation *asked, GrnPool *pool)
{
	int			workers = grn_pool_parallel(pool)->nworkers;

	if (!read_all(e, asked))
		return false;
	e->nentries = e->base.n < ENTRIES ? (uint32_t) e->base.n : ENTRIES;
	for (uint32_t i = 0; i < e->nentries; i++)
		e->entries[i] = (uint32_t) (grn_random(0x65766C, 0, i) % e->base.n);
	for (int i = 0; i < workers; i++)
	{
		e->seen[i] = malloc(e->base.n * sizeof(uint32_t));
		if (!e->seen[i])
		{
			grn_cli_error("out of memory");
			return false;
		}
	}
	for (uint32_t i = 0; i < asked->ngraphs; i++)
		if (!evaluate_graph(e, asked, asked->graphs[i], pool))
			return false;
	return true;
}

bool
grn_evaluate(const GrnEvaluation *asked)
{
	Evaluate	e;
	GrnPool    *pool = grn_pool_start((int) asked->threads);
	bool		fine = false;

	memset(&e, 0, sizeof(e));
	e.comparison = asked->metric->comparison;
	e.seen = calloc(asked->threads, sizeof(*e.seen));
	e.lists = calloc(asked->threads, sizeof(*e.lists));
	if (pool && e.seen && e.lists)
		fine = evaluate(&e, asked, pool);
	else
		grn_cli_error("out of memory");
	for (uint32_t i = 0; i < asked->threads && e.seen && e.lists; i++)
	{
		free(e.seen[i]);
		free(e.lists[i]);
	}
	free(e.seen);
	free(e.lists);
	free(e.graph);
	free(e.truth);
	grn_free_vectors(&e.base);
	grn_free_vectors(&e.query);
	if (pool)
		grn_pool_stop(pool);
	return fine;
}
