/*
 * fill.c - fills the lists of a finished graph up to the degree with near
 * neighbours of neighbours.
 *
 * A record has room for `degree` neighbours whether they are there or not, and a
 * search step estimates them all from the one page it has read.  So edges that the
 * RNG rule left out cost a query almost nothing and save it steps: 100,000
 * SIFT descriptors of average degree 23 needed 35 steps for recall@10 0.95, filled
 * to 32 they needed 28.
 */
#include "fill.h"

#include <string.h>

/* Neighbours whose lists give the candidates; more find hardly nearer ones. */
#define SOURCES 6
#define GRAIN 256
#define BATCH GRN_MAX_DEGREE	/* codes gathered at a time */

typedef struct Fill
{
	const GrnFillSource *source;
	GrnGraph   *graph;
	uint8_t    *filled;			/* [n] counts to be, while graph->counts are read */
} Fill;

#define AHEAD 8					/* candidates whose bytes are asked for */

/* Shell's sort, with Ciura's gaps: there are at most a few hundred ids. */
static void
sort_ids(uint32_t *ids, uint32_t n)
{
	static const uint32_t gaps[] = {132, 57, 23, 10, 4, 1};

	for (size_t g = 0; g < sizeof(gaps) / sizeof(gaps[0]); g++)
		for (uint32_t i = gaps[g]; i < n; i++)
		{
			uint32_t	id = ids[i];
			uint32_t	j = i;

			for (; j >= gaps[g] && id < ids[j - gaps[g]]; j -= gaps[g])
				ids[j] = ids[j - gaps[g]];
			ids[j] = id;
		}
}

/* Distinct candidates of v, neither v nor its neighbours; returns their number. */
static uint32_t
candidates(const GrnGraph *graph, uint32_t v, uint32_t *out)
{
	const uint32_t *own = graph->ids + (size_t) v * graph->degree;
	uint32_t	count = graph->counts[v];
	uint32_t	listed[GRN_MAX_DEGREE];
	uint32_t	n = 0;
	uint32_t	distinct = 0;
	uint32_t	j = 0;

	for (uint32_t i = 0; i < count && i < SOURCES; i++)
	{
		const uint32_t *theirs = graph->ids + (size_t) own[i] * graph->degree;
		uint32_t	m = graph->counts[own[i]];

		memcpy(out + n, theirs, m * sizeof(uint32_t));
		n += m;
	}
	memcpy(listed, own, count * sizeof(uint32_t));
	sort_ids(listed, count);
	sort_ids(out, n);
	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t	id = out[i];

		while (j < count && listed[j] < id)
			j++;
		if (id == v || (j < count && listed[j] == id) ||
			(distinct > 0 && out[distinct - 1] == id))
			continue;
		out[distinct++] = id;
	}
	return distinct;
}

static const uint8_t *
code_of(const GrnFillSource *s, uint32_t v)
{
	return s->codes + s->position[v] * grn_code_bytes(s->codec->code_dims);
}

/* Distances between v and each of ids[n], estimated where there are codes. */
static void
distances_to(const GrnFillSource *s, uint32_t v, const uint32_t *ids, uint32_t n, float *out)
{
	uint8_t		codes[BATCH * GRN_MAX_CODE_DIMS / 2];
	GrnFactor	factors[BATCH];
	GrnCodeQuery query;
	size_t		bytes;

	if (s->codec == NULL)
	{
		for (uint32_t i = 0; i < n; i++)
		{
			if (i + AHEAD / 2 < n)
			{
				const char *row = (const char *) grn_row(s->rows, ids[i + AHEAD / 2]);

				for (uint32_t b = 0; b < s->rows->dim * 4 && b < 512; b += 64)
					__builtin_prefetch(row + b);
			}
			out[i] = grn_dist->l2_f32(grn_row(s->rows, v), grn_row(s->rows, ids[i]),
									  s->rows->dim);
		}
		return;
	}
	bytes = grn_code_bytes(s->codec->code_dims);
	grn_code_query_from_code(s->codec, code_of(s, v), s->factors[s->position[v]], &query);
	for (uint32_t first = 0; first < n; first += BATCH)
	{
		uint32_t	count = n - first < BATCH ? n - first : BATCH;

		for (uint32_t i = 0; i < count; i++)
		{
			uint32_t	id = ids[first + i];

			if (i + AHEAD < count)
			{
				__builtin_prefetch(code_of(s, ids[first + i + AHEAD]));
				__builtin_prefetch(&s->factors[s->position[ids[first + i + AHEAD]]]);
			}
			memcpy(codes + i * bytes, code_of(s, id), bytes);
			factors[i] = s->factors[s->position[id]];
		}
		grn_estimate(&query, codes, factors, count, out + first);
	}
}

/* Appends the nearest candidates of each short list, unsorted among the old. */
static void
append_range(void *arg, int worker, size_t begin, size_t end)
{
	Fill	   *f = arg;
	GrnGraph   *graph = f->graph;
	uint32_t	ids[SOURCES * GRN_MAX_DEGREE];
	float		distances[SOURCES * GRN_MAX_DEGREE];

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		uint32_t	count = graph->counts[v];
		uint32_t   *added = graph->ids + v * graph->degree + count;
		uint32_t	room = graph->degree - count;
		float		nearest[GRN_MAX_DEGREE];
		uint32_t	n;
		uint32_t	k = 0;

		f->filled[v] = (uint8_t) count;
		if (room == 0)
			continue;
		n = candidates(graph, (uint32_t) v, ids);
		distances_to(f->source, (uint32_t) v, ids, n, distances);
		for (uint32_t i = 0; i < n; i++)
		{
			float		d = distances[i];
			uint32_t	j;

			if (k == room && !(d < nearest[k - 1]))
				continue;
			if (k < room)
				k++;
			for (j = k - 1; j > 0 && nearest[j - 1] > d; j--)
			{
				nearest[j] = nearest[j - 1];
				added[j] = added[j - 1];
			}
			nearest[j] = d;
			added[j] = ids[i];
		}
		f->filled[v] = (uint8_t) (count + k);
	}
}

/* Takes over the new counts and sorts the lists by distance. */
static void
sort_range(void *arg, int worker, size_t begin, size_t end)
{
	Fill	   *f = arg;
	GrnGraph   *graph = f->graph;

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		uint32_t   *ids = graph->ids + v * graph->degree;
		float		distances[GRN_MAX_DEGREE];

		if (f->filled[v] == graph->counts[v])
			continue;
		graph->counts[v] = f->filled[v];
		distances_to(f->source, (uint32_t) v, ids, graph->counts[v], distances);
		for (uint32_t i = 1; i < graph->counts[v]; i++)
		{
			uint32_t	id = ids[i];
			float		d = distances[i];
			uint32_t	j = i;

			for (; j > 0 && distances[j - 1] > d; j--)
			{
				distances[j] = distances[j - 1];
				ids[j] = ids[j - 1];
			}
			distances[j] = d;
			ids[j] = id;
		}
	}
}

void
grn_fill(const GrnFillSource *source, GrnParallel *parallel, GrnGraph *graph, void *workspace)
{
	Fill		f = {source, graph, workspace};

	parallel->run(parallel, graph->n, GRAIN, append_range, &f);
	parallel->run(parallel, graph->n, GRAIN, sort_range, &f);
}
