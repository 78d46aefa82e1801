/*
 * pipeline.c - everything between the leader's BUILD and the builder's DONE:
 * check rows, find duplicates, build over the distinct ones, encode, choose
 * entries, connect, order, and write the results where the leader reads them.
 *
 * What a GPU does, its start included, goes on beside what needs rows alone: codes
 * and entries.
 */
#include "builder/pipeline.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "builder/build_graph.h"
#include "builder/prepare.h"
#include "graph/arena.h"
#include "graph/build/connect.h"
#include "graph/build/duplicates.h"
#include "graph/build/medoid.h"
#include "graph/build/page_order.h"
#include "graph/metric.h"
#include "graph/stored/codec_fit.h"
#include "graph/stored/estimate.h"
#include "graph/stored/record.h"

#define GRAIN 512
#define CODE_SAMPLE 8192		/* rows to fit the codec to, at least, */
#define CODE_SAMPLE_PER_DIM 8	/* and at least this many a dimension */
#define ENTRY_TRIES 8			/* random vertices from which an entry is chosen */

/*
 * Rounds on a GPU where t1 and t2 are left open.  A graph alone gets half as many; here
 * 0.04 s for a million rows are little beside what else a statement does.  A million rows each
 * of SIFT, GIST and sentence embeddings, lists filled, L=64: .9655, .9504, .9602 with
 * 4 x 3 and .9689, .9631, .9664 with 8 x 4.
 */
#define GPU_OUTER 8
#define GPU_INNER 4

typedef struct Pipeline
{
	GrnBuild   *build;
	const GrnMetricInfo *metric;
	GrnParallel *parallel;
	GrnBuildResult *result;
	GrnLayout	layout;
	GrnCodeCosts costs;			/* of what codes could be */
	uint32_t	max_code_dims;	/* 0: no codes */
	GrnRows		rows;			/* the distinct ones: the vertices */
	/* in WORK, by vertex but for the first; see lay_out_work() */
	uint32_t   *vertex_of_rank; /* [n] */
	uint32_t   *distinct;		/* [m] row of vertex */
	uint32_t   *position;		/* [m] node id of vertex */
	GrnGraph	graph;
	uint8_t    *codes;			/* [m][code_bytes] */
	GrnFactor  *factors;		/* [m] */
	float	   *codec_floats;
	char	   *scratch;
	uint64_t	scratch_bytes;
	uint64_t	kept_bytes;		/* of all but scratch */
	uint64_t	work_bytes;		/* of all these */
	GrnCodec	codec;
	GrnOrder	order;			/* how well codes order neighbours */
	char	   *out;			/* RESULT */
	char	   *out_codes;		/* CODES */
	uint32_t	bad_vertex;
	const char *bad;
} Pipeline;

static uint64_t
larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void
phase(Pipeline *p, GrnPhase which, uint64_t done, uint64_t total)
{
	p->build->host->phase(p->build->host->ctx, which, done, total);
}

static void *
need(Pipeline *p, GrnSegment segment, uint64_t bytes, GrnFailure *failure)
{
	return p->build->host->need(p->build->host->ctx, segment, bytes, failure);
}

/* Finds the distinct rows: vertex_of_rank[] holds the first rank of the same row. */
static bool
find_distinct(Pipeline *p, GrnFailure *failure)
{
	GrnBuild   *b = p->build;
	GrnRows		all = p->rows;
	uint64_t	ranks = grn_aligned(b->n * 4);
	char	   *w = need(p, GRN_SEG_WORK, ranks + 16 * b->n, failure);

	if (!w)
		return false;
	p->vertex_of_rank = (uint32_t *) w;
	all.order = b->order;
	p->rows.n = grn_find_duplicates(&all, p->parallel, p->vertex_of_rank, w + ranks);
	p->result->nodes = (uint32_t) p->rows.n;
	return true;
}

/* The codec's fit, but for where its sample lies. */
static GrnCodecFit
plan_fit(const Pipeline *p)
{
	uint64_t	nsample = CODE_SAMPLE_PER_DIM * (uint64_t) p->rows.dim;
	GrnCodecFit fit = {0};

	fit.of = &p->rows;
	fit.kind = p->metric->codes;
	fit.nsample = larger(nsample, CODE_SAMPLE);
	if (fit.nsample > p->rows.n)
		fit.nsample = p->rows.n;
	fit.dim = p->rows.dim;
	fit.max_code_dims = p->max_code_dims;
	fit.costs = &p->costs;
	fit.seed = p->result->params.seed;
	return fit;
}

/* Of RESULT, once it is laid out. */
static uint64_t
result_bytes(const Pipeline *p)
{
	return p->result->off_rows + grn_aligned(p->build->n * 4);
}

/* Lays out WORK; returns its bytes. */
static uint64_t
lay_out_work(Pipeline *p, char *work)
{
	uint64_t	m = p->rows.n;
	GrnArena	a = {work, 0};	/* at the start of a page */

	p->vertex_of_rank = grn_take(&a, p->build->n * sizeof(uint32_t));
	p->distinct = grn_take(&a, m * sizeof(uint32_t));
	p->position = grn_take(&a, m * sizeof(uint32_t));
	p->factors = grn_take(&a, m * sizeof(GrnFactor));
	p->graph.ids = grn_take(&a, m * p->graph.degree * sizeof(uint32_t));
	p->graph.counts = grn_take(&a, m);
	p->codes = grn_take(&a, p->max_code_dims > 0 ? m * grn_most_code_bytes(&p->costs) : 0);
	p->codec_floats = grn_take(&a, grn_codec_floats(p->rows.dim, p->max_code_dims) * sizeof(float));
	p->kept_bytes = a.used;
	p->scratch = grn_take(&a, p->scratch_bytes);
	p->work_bytes = a.used;
	return a.used;
}

/* Lays out WORK and RESULT, and takes the memory of WORK. */
static bool
plan_memory(Pipeline *p, GrnFailure *failure)
{
	GrnBuild   *b = p->build;
	GrnBuildResult *r = p->result;
	uint64_t	m = p->rows.n;
	GrnCodecFit fit = plan_fit(p);
	char	   *w;

	p->graph.n = (uint32_t) m;
	p->graph.degree = r->degree;
	p->scratch_bytes = larger(12 * m, grn_connect_bytes(m));
	p->scratch_bytes = larger(p->scratch_bytes, b->n * 4);
	if (p->max_code_dims > 0)
		p->scratch_bytes = larger(p->scratch_bytes,
								  grn_aligned(fit.nsample * 4) + grn_codec_fit_bytes(&fit));
	w = need(p, GRN_SEG_WORK, lay_out_work(p, NULL), failure);
	if (!w)
		return false;
	lay_out_work(p, w);

	r->off_ids = 0;
	r->off_counts = grn_aligned(m * r->degree * 4);
	r->off_row_start = r->off_counts + grn_aligned(m);
	r->off_rows = r->off_row_start + grn_aligned((m + 1) * 4);
	return true;
}

/*
 * Numbers the vertices by the rank of the first of identical rows, so that the
 * processor's graph does not depend on the order of collection.  vertex_of_rank[]
 * says which ranks are the same vertex, by any numbers below n.
 */
static void
number_by_rank(Pipeline *p)
{
	const uint32_t *order = p->build->order;
	uint32_t   *number = (uint32_t *) p->scratch;
	uint32_t	m = 0;

	memset(number, 0xFF, p->build->n * sizeof(*number));
	for (uint64_t r = 0; r < p->build->n; r++)
	{
		uint32_t   *vertex = &p->vertex_of_rank[r];

		if (number[*vertex] == GRN_INVALID_ID)
		{
			p->distinct[m] = order[r];
			number[*vertex] = m++;
		}
		*vertex = number[*vertex];
	}
	p->rows.order = p->distinct;
}

/* Numbers them by row, so that rows go up to a GPU in large pieces. */
static void
number_by_row(Pipeline *p)
{
	GrnBuild   *b = p->build;
	uint32_t   *first = p->vertex_of_rank;
	uint32_t   *number = (uint32_t *) p->scratch;
	uint32_t	m = 0;

	if (p->rows.n == b->n)
	{
		memcpy(first, b->order, b->n * sizeof(*first));
		p->rows.order = NULL;
		return;
	}
	memset(number, 0, b->n * sizeof(*number));
	for (uint64_t r = 0; r < b->n; r++)
		if (first[r] == r)
			number[b->order[r]] = 1;
	for (uint64_t row = 0; row < b->n; row++)
		if (number[row])
		{
			p->distinct[m] = (uint32_t) row;
			number[row] = m++;
		}
	for (uint64_t r = 0; r < b->n; r++)
		first[r] = first[r] == r ? number[b->order[r]] : first[first[r]];
	p->rows.order = p->distinct;
}

static GrnGraphJob
graph_job(Pipeline *p, const GrnDeviceChoice *choice)
{
	GrnGraphJob job = {0};

	job.rows = &p->rows;
	job.params = &p->result->params;
	job.graph = &p->graph;
	job.choice = choice;
	job.pool = p->build->pool;
	job.host = p->build->host;
	job.fill = true;
	job.work_offset = p->work_bytes;
	return job;
}

/* A thread that waits for the device and builds the graph there, if there is one. */
typedef struct GraphThread
{
	GrnGraphJob job;
	GrnFailure	failure;
	bool		built;
	double		opened;			/* when the device was, */
	double		done;			/* and the graph */
} GraphThread;

static void *
graph_main(void *arg)
{
	GraphThread *t = arg;

	t->job.host->device(t->job.host->ctx, true, &t->job.gpu);
	t->opened = grn_seconds();
	if (t->job.gpu)
		t->built = grn_build_graph(&t->job, &t->failure);
	t->done = grn_seconds();
	return NULL;
}

static void
check_range(void *arg, int worker, size_t begin, size_t end)
{
	Pipeline   *p = arg;
	uint32_t	vertex;
	const char *bad = grn_graph_check_range(&p->graph, begin, end, &vertex);

	(void) worker;
	if (bad && !__atomic_exchange_n(&p->bad, bad, __ATOMIC_RELAXED))
		p->bad_vertex = vertex;
}

/* |y|^2 of a vertex's place: the longer the row, the less.  Zero counts as short. */
static float
place_norm2(const Pipeline *p, uint32_t v)
{
	float		norm2 = grn_row_scale(&p->rows, grn_row(&p->rows, v)).norm2;

	return norm2 > 0 ? norm2 : INFINITY;
}

/* Puts v at or before entries[i], where it comes by place_norm2(). */
static void
sort_entry(const Pipeline *p, uint32_t i, uint32_t v)
{
	uint32_t   *entries = p->result->entries;

	for (; i > 1 && place_norm2(p, entries[i - 1]) > place_norm2(p, v); i--)
		entries[i] = entries[i - 1];
	entries[i] = v;
}

/*
 * Some entry points after the first are the longest rows (GrnMetricInfo.long_entries), as
 * src/am/write/entry_points.c keeps it and says why.  There lengths are known from factors, here
 * places from rows.
 */
static void
enter_longest(Pipeline *p)
{
	GrnBuildResult *r = p->result;
	uint32_t	most = p->metric->long_entries;
	uint32_t	last = r->nentries - 1 < most ? r->nentries - 1 : most;

	if (last == 0)
		return;
	for (uint32_t i = 2; i < r->nentries; i++)
		sort_entry(p, i, r->entries[i]);
	for (uint32_t v = 0; v < p->rows.n; v++)
	{
		bool		is_entry = false;

		if (place_norm2(p, v) * GRN_PLACE_LONGER >= place_norm2(p, r->entries[last]))
			continue;
		for (uint32_t i = 0; i < last; i++)
			is_entry = is_entry || r->entries[i] == v;
		if (!is_entry)
			sort_entry(p, last, v);
	}
}

/*
 * entries[0] is the medoid.  Of the others each is, of a few random vertices, the
 * one farthest from the entries so far: spread, but where the data is dense.
 */
static void
choose_entries(Pipeline *p)
{
	GrnBuildResult *r = p->result;
	uint32_t	m = (uint32_t) p->rows.n;

	r->entries[0] = grn_medoid(&p->rows, p->parallel, r->params.seed);
	r->nentries = 1;
	while (r->nentries < GRN_MAX_ENTRIES && r->nentries < m)
	{
		uint32_t	best = GRN_INVALID_ID;
		float		best_distance = 0;

		for (uint32_t try = 0; try < ENTRY_TRIES; try++)
		{
			uint32_t	v = (uint32_t) (grn_random(r->params.seed, UINT64_C(0x656E7472),
												   r->nentries * ENTRY_TRIES + try) % m);
			float		nearest = -1;

			for (uint32_t i = 0; i < r->nentries; i++)
			{
				float		d = grn_row_distance(&p->rows, grn_row(&p->rows, v),
												 grn_row(&p->rows, r->entries[i]));

				if (nearest < 0 || d < nearest)
					nearest = d;
			}
			/* rows are distinct, so only an entry itself has distance 0 */
			if (nearest > best_distance)
			{
				best_distance = nearest;
				best = v;
			}
		}
		if (best == GRN_INVALID_ID)
			break;
		r->entries[r->nentries++] = best;
	}
	if (p->metric->long_entries > 0)
		enter_longest(p);
}

/* Checks the graph and connects it. */
static bool
finish_graph(Pipeline *p, GrnFailure *failure)
{
	GrnBuildResult *r = p->result;

	p->parallel->run(p->parallel, p->graph.n, GRAIN, check_range, p);
	if (p->bad)
		return grn_fail(failure, "XX000", "Please report this as a bug of grnnd.",
						"the %s built a faulty graph: vertex %u has %s",
						r->on_gpu ? "GPU" : "processor", p->bad_vertex, p->bad);
	phase(p, GRN_PHASE_CONNECT, 0, 1);
	r->connected = (uint32_t) grn_connect(&p->rows, &p->graph, r->entries[0],
										  p->parallel, p->scratch);
	phase(p, GRN_PHASE_CONNECT, 1, 1);
	return true;
}

/* Copies lists, in node ids, and codes to their nodes' places. */
static void
write_range(void *arg, int worker, size_t begin, size_t end)
{
	Pipeline   *p = arg;
	const GrnBuildResult *r = p->result;
	uint32_t	degree = p->graph.degree;
	uint32_t   *ids = (uint32_t *) (p->out + r->off_ids);
	uint8_t    *counts = (uint8_t *) p->out + r->off_counts;
	size_t		code_bytes = grn_code_bytes(r->shape);

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		size_t		node = p->position[v];
		const uint32_t *from = p->graph.ids + v * degree;
		uint32_t   *to = ids + node * degree;
		uint32_t	count = p->graph.counts[v];

		counts[node] = (uint8_t) count;
		for (uint32_t i = 0; i < count; i++)
			to[i] = p->position[from[i]];
		for (uint32_t i = count; i < degree; i++)
			to[i] = GRN_INVALID_ID;
		if (code_bytes > 0)
		{
			memcpy(p->out_codes + r->off_codes + node * code_bytes, p->codes + v * code_bytes,
				   code_bytes);
			((GrnFactor *) (p->out_codes + r->off_factors))[node] = p->factors[v];
		}
	}
}

static void
write_rows_range(void *arg, int worker, size_t begin, size_t end)
{
	Pipeline   *p = arg;
	uint32_t   *start = (uint32_t *) (p->out + p->result->off_row_start);
	uint32_t   *rows = (uint32_t *) (p->out + p->result->off_rows);

	(void) worker;
	for (size_t r = begin; r < end; r++)
	{
		rows[p->position[p->vertex_of_rank[r]]] = p->build->order[r];
		start[r] = (uint32_t) r;
	}
}

/*
 * row_start and rows of the result: a counting sort of the ranks by node, which
 * without duplicates has nothing to count.
 */
static void
write_rows(Pipeline *p)
{
	GrnBuild   *b = p->build;
	uint32_t   *start = (uint32_t *) (p->out + p->result->off_row_start);
	uint32_t   *rows = (uint32_t *) (p->out + p->result->off_rows);
	size_t		m = p->graph.n;

	if (m == b->n)
	{
		p->parallel->run(p->parallel, m, GRAIN, write_rows_range, p);
		start[m] = (uint32_t) m;
		return;
	}
	/* start[i + 1] counts, then ends node i, while rows are placed */
	memset(start, 0, (m + 1) * sizeof(*start));
	for (uint64_t r = 0; r < b->n; r++)
		start[p->position[p->vertex_of_rank[r]]]++;
	for (uint64_t i = 0, sum = 0; i <= m; i++)
	{
		uint32_t	count = start[i];

		start[i] = (uint32_t) sum;
		sum += count;
	}
	for (uint64_t r = 0; r < b->n; r++)
		rows[start[p->position[p->vertex_of_rank[r]]]++] = b->order[r];
	memmove(start + 1, start, m * sizeof(*start));
	start[0] = 0;
}

static void
encode_range(void *arg, int worker, size_t begin, size_t end)
{
	Pipeline   *p = arg;
	size_t		code_bytes = grn_code_bytes(p->codec.shape);
	float		scratch[GRN_MAX_CODE_DIMS];
	float		x[GRN_MOST_DIMS];

	(void) worker;
	for (size_t v = begin; v < end; v++)
		grn_encode(&p->codec, grn_row_values(&p->rows, grn_row(&p->rows, v), x), p->codes + v * code_bytes,
				   &p->factors[v], scratch);
}

/*
 * Fits the codec, which decides the record's geometry, and encodes the vertices.
 * Asks for the memory that CODES will take.
 */
static bool
make_codes(Pipeline *p, GrnFailure *failure)
{
	GrnBuild   *b = p->build;
	const GrnBuildSpec *spec = b->spec;
	GrnBuildResult *r = p->result;
	uint64_t	m = p->graph.n;
	GrnCodecFit fit = plan_fit(p);
	uint32_t   *sample = (uint32_t *) p->scratch;

	if (p->max_code_dims == 0)
		return true;
	for (uint64_t i = 0; i < fit.nsample; i++)
	{
		uint64_t	v = m * i / fit.nsample;

		sample[i] = p->rows.order ? p->rows.order[v] : (uint32_t) v;
	}
	fit.sample = sample;
	p->codec = grn_codec_fit(&fit, p->parallel, p->codec_floats,
							 p->scratch + grn_aligned(fit.nsample * 4), &r->held);
	r->shape = p->codec.shape;
	grn_codec_set_kind(&p->codec, p->metric->codes, r->norm_unit);
	r->norm_unit = p->codec.norm_unit;
	memcpy(r->steps, p->codec.steps, sizeof(r->steps));
	if (!grn_layout(&p->layout, spec->dim, r->degree, r->shape,
					(GrnForm) r->form, spec->payload))
		return grn_fail(failure, "XX000", "", "codes of %u bytes do not fit a page",
						grn_code_bytes(r->shape));
	if (!grn_has_codes(&p->codec))
		return true;
	r->off_codes = 0;
	r->off_factors = grn_aligned(m * grn_code_bytes(r->shape));
	r->off_codec = r->off_factors + grn_aligned(m * sizeof(GrnFactor));
	b->host->expect(b->host->ctx, GRN_SEG_CODES,
					r->off_codec + 4 * grn_codec_floats(p->rows.dim, grn_code_dims(r->shape)));
	p->parallel->run(p->parallel, m, GRAIN, encode_range, p);
	return true;
}

static void
order_range(void *arg, int worker, size_t begin, size_t end)
{
	Pipeline   *p = arg;
	uint64_t	m = p->graph.n;
	uint64_t	probes = m < GRN_ORDER_PROBES ? m : GRN_ORDER_PROBES;
	size_t		bytes = grn_code_bytes(p->codec.shape);
	GrnOrder	order = {0};
	float		values[GRN_MOST_DIMS];

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		uint64_t	v = m * i / probes;
		const uint32_t *ids = p->graph.ids + v * p->graph.degree;
		uint32_t	n = p->graph.counts[v];
		const void *x = grn_row(&p->rows, v);
		GrnCodeQuery query;
		float		scratch[GRN_MAX_CODE_DIMS];
		float		distances[GRN_MAX_DEGREE];
		float		estimates[GRN_MAX_DEGREE];

		grn_code_query_row(&p->codec, grn_row_values(&p->rows, x, values), &query, scratch);
		for (uint32_t j = 0; j < n; j++)
		{
			distances[j] = grn_row_distance(&p->rows, x, grn_row(&p->rows, ids[j]));
			grn_estimate(&query, p->codes + ids[j] * bytes, &p->factors[ids[j]], 1, &estimates[j]);
		}
		grn_count_order(distances, estimates, n, &order);
	}
	__atomic_fetch_add(&p->order.vertices, order.vertices, __ATOMIC_RELAXED);
	__atomic_fetch_add(&p->order.poor, order.poor, __ATOMIC_RELAXED);
}

/* Leaves codes out where, by the graph that is there now, they do not tell neighbours apart. */
static bool
judge_codes(Pipeline *p, GrnFailure *failure)
{
	GrnBuildResult *r = p->result;
	uint64_t	m = p->graph.n;

	if (!grn_has_codes(&p->codec))
		return true;
	for (int attempt = 0; attempt < 2; attempt++)
	{
		/* the second time by the longest codes */
		if (attempt > 0)
			grn_forget_costs(&p->costs);
		if (attempt > 0 && !make_codes(p, failure))
			return false;
		memset(&p->order, 0, sizeof(p->order));
		p->parallel->run(p->parallel, m < GRN_ORDER_PROBES ? m : GRN_ORDER_PROBES, 16,
						 order_range, p);
		if (grn_codes_tell(&p->order))
			return true;
	}
	r->shape = p->codec.shape = GRN_NO_CODES;
	r->held = 0;
	if (!grn_layout(&p->layout, p->rows.dim, r->degree, r->shape, (GrnForm) r->form,
					p->build->spec->payload))
		return grn_fail(failure, "XX000", "", "records without codes do not fit a page");
	return true;
}

/* Gives every vertex its node id and writes all that the leader reads, by node. */
static bool
write_result(Pipeline *p, GrnFailure *failure)
{
	GrnBuildResult *r = p->result;
	uint32_t	dims = grn_code_dims(r->shape);
	uint64_t	basis = 4 * (uint64_t) p->rows.dim * dims;

	grn_page_order(&p->graph, p->layout.per_page, p->position, p->parallel, p->scratch);
	phase(p, GRN_PHASE_CODES, 2, 3);
	p->out = need(p, GRN_SEG_RESULT, result_bytes(p), failure);
	if (!p->out)
		return false;
	if (dims > 0)
	{
		p->out_codes = need(p, GRN_SEG_CODES,
							r->off_codec + 4 * grn_codec_floats(p->rows.dim, dims),
							failure);
		if (!p->out_codes)
			return false;
		memcpy(p->out_codes + r->off_codec, p->codec.mean, 4 * (uint64_t) p->rows.dim);
		memcpy(p->out_codes + r->off_codec + 4 * (uint64_t) p->rows.dim, p->codec.basis, basis);
	}
	p->parallel->run(p->parallel, p->graph.n, GRAIN, write_range, p);
	write_rows(p);
	for (uint32_t i = 0; i < r->nentries; i++)
		r->entries[i] = p->position[r->entries[i]];
	return true;
}

/*
 * The degree, the form of own vectors (so far the exact one), and the record's geometry before
 * codes are fitted.
 */
static bool
choose_layout(Pipeline *p, GrnFailure *failure)
{
	const GrnBuildSpec *spec = p->build->spec;
	GrnBuildResult *r = p->result;

	if (r->params.degree == 0)
		r->params.degree = grn_default_degree(spec->dim, spec->exact ? (GrnForm) r->form
											  : grn_layout_form(spec->dim, 0, (GrnForm) r->form,
																spec->payload), spec->payload);
	if (r->params.degree < GRN_MIN_DEGREE || r->params.degree > GRN_MAX_DEGREE)
		return grn_fail(failure, "22023", "", "degree must be from %d to %d",
						GRN_MIN_DEGREE, GRN_MAX_DEGREE);
	r->degree = r->params.degree;
	if (!spec->exact)
		r->form = grn_layout_form(spec->dim, r->degree, (GrnForm) r->form, spec->payload);
	grn_layout_code_costs(spec->dim, r->degree, (GrnForm) r->form, spec->payload,
						  &p->costs);
	p->max_code_dims = spec->use_codes && grn_most_code_bytes(&p->costs) > 0 ?
		grn_max_code_dims(spec->dim) : 0;
	if (!grn_layout(&p->layout, spec->dim, r->degree, GRN_NO_CODES,
					(GrnForm) r->form, spec->payload))
		return grn_fail(failure, "54000", "Build with a smaller degree.",
						"a record of degree %u does not fit a page", r->degree);
	return true;
}

/*
 * The graph from a GPU, with codes and entries made meanwhile.  False where it fails;
 * *built is false where it turns out that there is no GPU.
 */
static bool
build_on_gpu(Pipeline *p, const GrnDeviceChoice *choice, bool *built, GrnFailure *failure)
{
	GrnBuildResult *r = p->result;
	GraphThread t = {.job = graph_job(p, choice)};
	GrnGraphParams given = r->params;
	pthread_t	thread;
	double		start = grn_seconds();
	double		meanwhile;
	bool		coded;

	t.job.given = &given;
	if (r->params.t1 == 0)
		r->params.t1 = GPU_OUTER;
	if (r->params.t2 == 0)
		r->params.t2 = GPU_INNER;
	if (pthread_create(&thread, NULL, graph_main, &t) != 0)
		return grn_fail(failure, "53000", "", "the builder process could not start a thread");
	coded = make_codes(p, failure);
	if (coded)
		choose_entries(p);
	meanwhile = grn_seconds();
	pthread_join(thread, NULL);
	*built = t.built;
	if (!t.built)
		r->params = given;		/* the processor has its own */
	if (!coded)
		return false;
	if (t.job.gpu && !t.built)
	{
		*failure = t.failure;
		return false;
	}
	r->on_gpu = t.job.on_gpu;
	r->gpu_bytes = t.job.times.peak_bytes;
	r->sec_device = (float) (t.opened - start);
	r->sec_descent = (float) (t.done - t.opened);
	r->sec_codes = meanwhile > t.done ? (float) (meanwhile - t.done) : 0;
	return true;
}

static bool
build_on_cores(Pipeline *p, const GrnDeviceChoice *choice, GrnFailure *failure)
{
	GrnHost const *host = p->build->host;
	GrnBuildResult *r = p->result;
	GrnGraphJob job = graph_job(p, choice);
	double		since = grn_seconds();

	number_by_rank(p);
	/* the scratch space is free meanwhile */
	job.work_offset = p->kept_bytes;
	if (!grn_build_graph(&job, failure))
		return false;
	r->sec_descent = grn_lap(&since);
	host->expect(host->ctx, GRN_SEG_RESULT, result_bytes(p));
	phase(p, GRN_PHASE_CODES, 0, 3);
	if (!make_codes(p, failure))
		return false;
	r->sec_codes = grn_lap(&since);
	choose_entries(p);
	r->sec_connect = grn_lap(&since);
	return true;
}

bool
grn_build(GrnBuild *build, GrnBuildResult *result, GrnFailure *failure)
{
	const GrnBuildSpec *spec = build->spec;
	const GrnHost *host = build->host;
	GrnDeviceChoice choice = {.device = spec->device, .gpu_devices = spec->gpu_devices,
		.options.memory_limit = spec->gpu_memory_limit};
	Pipeline	p = {0};
	GrnPrepared prepared;
	GrnGpu	   *gpu;
	bool		built = false;
	double		since = grn_seconds();

	p.build = build;
	p.metric = grn_metric(spec->metric);
	p.parallel = grn_pool_parallel(build->pool);
	p.result = result;
	result->params = spec->params;
	if (build->n == 0 || build->n >= GRN_MAX_NODES)
		return grn_fail(failure, build->n ? "54000" : "08P01", "",
						"%llu rows cannot be built", (unsigned long long) build->n);

	phase(&p, GRN_PHASE_PREPARE, 0, 2);
	p.rows = (GrnRows) {build->vectors, NULL, build->n, spec->row_bytes, spec->dim,
						p.metric->embedding, (GrnForm) spec->form};
	if (!grn_prepare(&p.rows, p.metric->norm_unit, build->pool, &prepared, failure))
		return false;
	result->form = prepared.form;
	result->norm_unit = prepared.norm_unit;
	if (!choose_layout(&p, failure))
		return false;
	phase(&p, GRN_PHASE_PREPARE, 1, 2);
	if (!find_distinct(&p, failure) || !plan_memory(&p, failure))
		return false;
	phase(&p, GRN_PHASE_PREPARE, 2, 2);
	result->sec_prepare = grn_lap(&since);

	/* A graph of one vertex needs no device. */
	if (p.rows.n > 1 && !(host->device(host->ctx, false, &gpu) && gpu == NULL))
	{
		number_by_row(&p);
		host->expect(host->ctx, GRN_SEG_RESULT, result_bytes(&p));
		result->sec_prepare += grn_lap(&since);
		if (!build_on_gpu(&p, &choice, &built, failure))
			return false;
	}
	if (!built && !build_on_cores(&p, &choice, failure))
		return false;

	grn_lap(&since);
	if (!judge_codes(&p, failure) || !finish_graph(&p, failure))
		return false;
	result->sec_connect += grn_lap(&since);
	phase(&p, GRN_PHASE_CODES, 1, 3);
	if (!write_result(&p, failure))
		return false;
	phase(&p, GRN_PHASE_CODES, 3, 3);
	result->sec_codes += grn_lap(&since);
	return true;
}
