/*
 * pipeline.c - everything between the leader's BUILD and the builder's DONE:
 * check rows, find duplicates, build over the distinct ones, connect, choose
 * entries, order, encode, and write the results where the leader reads them.
 */
#include "build.h"

#include <stdio.h>
#include <string.h>

#include "../graph/codec.h"
#include "../graph/fill.h"
#include "../graph/record.h"

#define GRAIN 512
#define CODE_SAMPLE 8192		/* rows to fit the codec to, at least, */
#define CODE_SAMPLE_PER_DIM 8	/* and at least this many a dimension */
#define ENTRY_TRIES 8			/* random vertices from which an entry is chosen */

typedef struct Pipeline
{
	GrnBuild   *build;
	GrnParallel *parallel;
	GrnBuildResult *result;
	GrnRows		rows;			/* the distinct ones: the vertices */
	GrnGraph	graph;
	uint32_t   *vertex_of_rank; /* [n] */
	uint32_t   *distinct;		/* [m] row of vertex */
	uint32_t   *position;		/* [m] node id of vertex */
	uint64_t	scratch;		/* where in WORK no array lives that must stay */
	char	   *out;			/* RESULT */
	char	   *codes;			/* CODES */
	GrnCodec	codec;
	uint32_t	bad_vertex;
	const char *bad;
} Pipeline;

static uint64_t
aligned(uint64_t bytes)
{
	return (bytes + 63) & ~UINT64_C(63);
}

static char *
need_work(Pipeline *p, uint64_t bytes, GrnFailure *failure)
{
	const GrnHost *host = p->build->host;
	char	   *base = host->need(host->ctx, GRN_SEG_WORK, p->scratch + bytes, failure);

	return base ? base + p->scratch : NULL;
}

static void
phase(Pipeline *p, GrnPhase which, uint64_t done, uint64_t total)
{
	p->build->host->phase(p->build->host->ctx, which, done, total);
}

/*
 * Numbers the vertices.  Where the processor builds, by the rank of the first of
 * identical rows, so that the graph does not depend on the order of collection;
 * for a GPU by row, so that rows go up in large pieces.
 */
static bool
find_vertices(Pipeline *p, GrnFailure *failure)
{
	GrnBuild   *b = p->build;
	GrnRows		all = {b->vectors, b->order, b->n, b->spec->stride,
	grn_space_dim((GrnMetric) b->spec->metric, b->spec->dim)};
	uint32_t   *first;
	uint32_t   *of_row;
	uint32_t	m = 0;
	char	   *w;

	p->scratch = aligned(b->n * 4) * 2;
	w = need_work(p, 16 * b->n, failure);
	if (!w)
		return false;
	first = p->vertex_of_rank = (uint32_t *) (w - p->scratch);
	p->distinct = (uint32_t *) (w - aligned(b->n * 4));
	p->rows = all;
	p->rows.n = grn_find_duplicates(&all, p->parallel, first, w);
	p->rows.order = p->distinct;
	if (!b->gpu)
	{
		for (uint64_t r = 0; r < b->n; r++)
			if (first[r] == r)
			{
				p->distinct[m] = b->order[r];
				p->vertex_of_rank[r] = m++;
			}
			else
				p->vertex_of_rank[r] = p->vertex_of_rank[first[r]];
		return true;
	}
	of_row = (uint32_t *) w;
	memset(of_row, 0, b->n * sizeof(*of_row));
	for (uint64_t r = 0; r < b->n; r++)
		if (first[r] == r)
			of_row[b->order[r]] = 1;
	for (uint64_t row = 0; row < b->n; row++)
		if (of_row[row])
		{
			p->distinct[m] = (uint32_t) row;
			of_row[row] = m++;
		}
	for (uint64_t r = 0; r < b->n; r++)
		first[r] = first[r] == r ? of_row[b->order[r]] : first[first[r]];
	if (m == b->n)
		p->rows.order = NULL;
	return true;
}

/* WORK: the arrays of find_vertices(), position, the graph; then scratch. */
static bool
make_graph(Pipeline *p, const GrnDeviceChoice *choice, GrnFailure *failure)
{
	GrnBuild   *b = p->build;
	uint64_t	m = p->rows.n;
	uint32_t	degree = p->result->params.degree;
	uint64_t	base = aligned(b->n * 4) + aligned(m * 4);
	uint64_t	size = aligned(m * 4) + aligned(m * degree * 4) + aligned(m);
	char	   *w;
	GrnGraphJob job = {0};

	p->scratch = base;
	w = need_work(p, size, failure);
	if (!w)
		return false;
	p->position = (uint32_t *) w;
	p->graph.ids = (uint32_t *) (w + aligned(m * 4));
	p->graph.counts = (uint8_t *) p->graph.ids + aligned(m * degree * 4);
	p->graph.n = (uint32_t) m;
	p->graph.degree = degree;
	p->scratch = base + size;

	job.rows = &p->rows;
	job.params = &p->result->params;
	job.graph = &p->graph;
	job.choice = choice;
	job.gpu = b->gpu;
	job.pool = b->pool;
	job.host = b->host;
	job.fill = true;
	job.work_offset = p->scratch;
	if (!grn_device_build(&job, failure))
		return false;
	p->result->on_gpu = job.on_gpu;
	return true;
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
				float		d = grn_dist->l2_f32(grn_row(&p->rows, v),
												 grn_row(&p->rows, r->entries[i]),
												 p->rows.dim);

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
}

static bool
finish_graph(Pipeline *p, GrnFailure *failure)
{
	GrnBuildResult *r = p->result;
	char	   *w;

	p->parallel->run(p->parallel, p->graph.n, GRAIN, check_range, p);
	if (p->bad)
		return grn_fail(failure, "XX000", "Please report this as a bug of grnnd.",
						"the %s built a faulty graph: vertex %u has %s",
						r->on_gpu ? "GPU" : "processor", p->bad_vertex, p->bad);
	phase(p, GRN_PHASE_CONNECT, 0, 1);
	w = need_work(p, grn_connect_bytes(p->graph.n), failure);
	if (!w)
		return false;
	choose_entries(p);
	r->connected = (uint32_t) grn_connect(&p->rows, &p->graph, r->entries[0],
										  p->parallel, w);
	phase(p, GRN_PHASE_CONNECT, 1, 1);
	return true;
}

/* Copies the lists to their nodes' places, in node ids. */
static void
remap_range(void *arg, int worker, size_t begin, size_t end)
{
	Pipeline   *p = arg;
	uint32_t	degree = p->graph.degree;
	uint32_t   *ids = (uint32_t *) (p->out + p->result->off_ids);
	uint8_t    *counts = (uint8_t *) p->out + p->result->off_counts;

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
	}
}

/* row_start and rows of the result: a counting sort of the ranks by node. */
static void
write_rows(Pipeline *p)
{
	GrnBuild   *b = p->build;
	uint32_t   *start = (uint32_t *) (p->out + p->result->off_row_start);
	uint32_t   *rows = (uint32_t *) (p->out + p->result->off_rows);
	size_t		m = p->graph.n;

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

/*
 * Fits the codec, which decides the record's geometry: before nodes are put in
 * order by it.  The codec's arrays stay in WORK; the fit's own space does not.
 */
static bool
fit_codes(Pipeline *p, uint32_t max_code_dims, GrnLayout *layout, GrnFailure *failure)
{
	GrnBuild   *b = p->build;
	const GrnBuildSpec *spec = b->spec;
	GrnBuildResult *r = p->result;
	uint64_t	m = p->graph.n;
	uint32_t	dim = p->rows.dim;
	uint64_t	nsample = CODE_SAMPLE_PER_DIM * (uint64_t) dim;
	uint64_t	floats = aligned(4 * grn_codec_floats(dim, max_code_dims));
	float		costs[GRN_MAX_CODE_DIMS / GRN_CODE_ALIGN + 1];
	GrnCodecFit fit = {0};
	uint32_t   *sample;
	char	   *w;

	if (nsample < CODE_SAMPLE)
		nsample = CODE_SAMPLE;
	if (nsample > m)
		nsample = m;
	grn_layout_code_costs(spec->dim, r->degree, (GrnVecFormat) r->vec_format, spec->payload,
						  max_code_dims, costs);
	fit.rows = b->vectors;
	fit.nrows = b->n;
	fit.stride = spec->stride;
	fit.nsample = nsample;
	fit.dim = dim;
	fit.max_code_dims = max_code_dims;
	fit.costs = costs;
	fit.seed = r->params.seed;
	w = need_work(p, floats + aligned(nsample * 4) + grn_codec_fit_bytes(&fit), failure);
	if (!w)
		return false;
	sample = (uint32_t *) (w + floats);
	for (uint64_t i = 0; i < nsample; i++)
	{
		uint64_t	v = m * i / nsample;

		sample[i] = p->rows.order ? p->rows.order[v] : (uint32_t) v;
	}
	fit.sample = sample;
	p->codec = grn_codec_fit(&fit, p->parallel, (float *) w,
							 w + floats + aligned(nsample * 4), &r->held);
	p->scratch += floats;
	r->code_dims = p->codec.code_dims;
	r->norm_unit = p->codec.norm_unit;
	if (!grn_layout(layout, spec->dim, r->degree, r->code_dims,
					(GrnVecFormat) r->vec_format, spec->payload))
		return grn_fail(failure, "XX000", "", "codes of %u dimensions do not fit a page",
						r->code_dims);
	return true;
}

/* Gives every vertex its node id, in p->position; takes the memory for the result. */
static bool
place_nodes(Pipeline *p, const GrnLayout *layout, GrnFailure *failure)
{
	GrnBuild   *b = p->build;
	GrnBuildResult *r = p->result;
	uint64_t	m = p->graph.n;
	char	   *w = need_work(p, 16 * m, failure);

	if (!w)
		return false;
	r->off_ids = 0;
	r->off_counts = aligned(m * r->degree * 4);
	r->off_row_start = r->off_counts + aligned(m);
	r->off_rows = r->off_row_start + aligned((m + 1) * 4);
	p->out = b->host->need(b->host->ctx, GRN_SEG_RESULT, r->off_rows + aligned(b->n * 4),
						   failure);
	if (!p->out)
		return false;
	grn_order(&p->graph, layout->per_page, p->position, p->parallel, w);
	return true;
}

/* The lists, filled up by what is nearest by the codes, and the rows of each node. */
static bool
write_result(Pipeline *p, GrnFailure *failure)
{
	GrnBuildResult *r = p->result;
	GrnFillSource source = {.rows = &p->rows, .position = p->position};
	char	   *w = need_work(p, p->graph.n, failure);

	if (!w)
		return false;
	if (r->code_dims > 0)
	{
		source.codec = &p->codec;
		source.codes = (const uint8_t *) p->codes + r->off_codes;
		source.factors = (const GrnFactor *) (p->codes + r->off_factors);
	}
	grn_fill(&source, p->parallel, &p->graph, w);
	p->parallel->run(p->parallel, p->graph.n, GRAIN, remap_range, p);
	write_rows(p);
	for (uint32_t i = 0; i < r->nentries; i++)
		r->entries[i] = p->position[r->entries[i]];
	return true;
}

static void
encode_range(void *arg, int worker, size_t begin, size_t end)
{
	Pipeline   *p = arg;
	size_t		code_bytes = grn_code_bytes(p->result->code_dims);
	GrnFactor  *factors = (GrnFactor *) (p->codes + p->result->off_factors);
	uint8_t    *codes = (uint8_t *) p->codes + p->result->off_codes;
	float		scratch[GRN_MAX_CODE_DIMS];

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		size_t		node = p->position[v];

		grn_encode(&p->codec, grn_row(&p->rows, v), codes + node * code_bytes,
				   &factors[node], scratch);
	}
}

static bool
write_codes(Pipeline *p, GrnFailure *failure)
{
	GrnBuild   *b = p->build;
	GrnBuildResult *r = p->result;
	uint64_t	m = p->graph.n;
	uint32_t	dim = p->rows.dim;

	r->off_codes = 0;
	r->off_factors = aligned(m * grn_code_bytes(r->code_dims));
	r->off_codec = r->off_factors + aligned(m * sizeof(GrnFactor));
	p->codes = b->host->need(b->host->ctx, GRN_SEG_CODES,
							 r->off_codec + 4 * grn_codec_floats(dim, r->code_dims), failure);
	if (!p->codes)
		return false;
	memcpy(p->codes + r->off_codec, p->codec.mean, 4 * (uint64_t) dim);
	memcpy(p->codes + r->off_codec + 4 * (uint64_t) dim, p->codec.basis,
		   4 * (uint64_t) dim * r->code_dims);
	p->parallel->run(p->parallel, m, GRAIN, encode_range, p);
	return true;
}

/* The degree, and the record's geometry before codes are fitted. */
static bool
choose_layout(Pipeline *p, GrnLayout *layout, uint32_t *max_code_dims,
			  GrnFailure *failure)
{
	const GrnBuildSpec *spec = p->build->spec;
	GrnBuildResult *r = p->result;

	if (r->params.degree == 0)
		r->params.degree = grn_default_degree(spec->dim, spec->payload);
	if (r->params.degree < GRN_MIN_DEGREE || r->params.degree > GRN_MAX_DEGREE)
		return grn_fail(failure, "22023", "", "degree must be from %d to %d",
						GRN_MIN_DEGREE, GRN_MAX_DEGREE);
	r->degree = r->params.degree;
	*max_code_dims = spec->use_codes ?
		grn_layout_max_code_dims(spec->dim, r->degree, (GrnVecFormat) r->vec_format,
								 spec->payload) : 0;
	if (!grn_layout(layout, spec->dim, r->degree, *max_code_dims,
					(GrnVecFormat) r->vec_format, spec->payload))
		return grn_fail(failure, "54000", "Build with a smaller degree.",
						"a record of degree %u does not fit a page", r->degree);
	return true;
}

bool
grn_build(GrnBuild *build, GrnBuildResult *result, GrnFailure *failure)
{
	const GrnBuildSpec *spec = build->spec;
	GrnDeviceChoice choice = {spec->device, spec->gpu_devices, {GRN_GPU_TILE, GRN_ORDER_DISORDERED, 0, spec->gpu_memory_limit}};
	Pipeline	p = {0};
	GrnPrepared prepared;
	GrnLayout	layout;
	uint32_t	max_code_dims = 0;
	double		start = grn_seconds();
	double		now;

	p.build = build;
	p.parallel = grn_pool_parallel(build->pool);
	p.result = result;
	result->params = spec->params;
	if (build->n == 0 || build->n >= GRN_MAX_NODES)
		return grn_fail(failure, build->n ? "54000" : "08P01", "",
						"%llu rows cannot be built", (unsigned long long) build->n);

	phase(&p, GRN_PHASE_PREPARE, 0, 2);
	if (!grn_prepare(build->vectors, build->n, spec->stride, (GrnMetric) spec->metric,
					 spec->dim, build->pool, &prepared, failure))
		return false;
	result->vec_format = prepared.vec_format;
	result->max_norm = spec->metric == GRN_IP ? prepared.max_norm : 0;
	if (!choose_layout(&p, &layout, &max_code_dims, failure))
		return false;
	phase(&p, GRN_PHASE_PREPARE, 1, 2);
	if (!find_vertices(&p, failure))
		return false;
	result->nodes = (uint32_t) p.rows.n;
	phase(&p, GRN_PHASE_PREPARE, 2, 2);
	now = grn_seconds();
	result->sec_prepare = (float) (now - start);
	start = now;

	if (!make_graph(&p, &choice, failure))
		return false;
	now = grn_seconds();
	result->sec_descent = (float) (now - start);
	start = now;

	if (!finish_graph(&p, failure))
		return false;
	now = grn_seconds();
	result->sec_connect = (float) (now - start);
	start = now;

	phase(&p, GRN_PHASE_CODES, 0, 3);
	if ((max_code_dims > 0 && !fit_codes(&p, max_code_dims, &layout, failure)) ||
		!place_nodes(&p, &layout, failure))
		return false;
	phase(&p, GRN_PHASE_CODES, 1, 3);
	if (result->code_dims > 0 && !write_codes(&p, failure))
		return false;
	phase(&p, GRN_PHASE_CODES, 2, 3);
	if (!write_result(&p, failure))
		return false;
	phase(&p, GRN_PHASE_CODES, 3, 3);
	result->sec_codes = (float) (grn_seconds() - start);
	return true;
}
