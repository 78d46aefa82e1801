/*
 * pipeline_value_edges.c - edges for frequent values of filter columns (graph/build/value_edges.h):
 * the rows of each get a graph of their own, whose edges then go into the lists of all.
 */
#include "builder/pipeline_impl.h"

#include <stdlib.h>

#include "builder/build_graph.h"
#include "graph/arena.h"
#include "graph/build/value_edges.h"

#define MEMBER_DEGREE 16		/* of a value's own graph: as many as a vertex may take, about */
#define VALUES 256

/*
 * A value needs no edges if, by a sample of its rows, so many neighbours share it: MOST_USUAL times
 * as many as chance gives, and FEW of those that are enough.
 */
#define SAMPLE 256
#define MOST_USUAL 1.25
#define FEW 0.4

/*
 * Rounds of such a graph on cores, half of the usual ones: of 324,000 sentences with two columns
 * they take 3.9 s of two cores instead of 7.1, beside 16 s for the graph of all.
 */
#define CORES_OUTER 2
#define CORES_INNER 3

/* Share of the phase CONNECT that they take. */
#define SHARE 0.5

typedef struct ValueEdges
{
	GrnPipeline *p;
	const GrnDeviceChoice *choice;
	GrnGpu	   *gpu;			/* or NULL: cores build */
	GrnGpuRows	kept;			/* digests that it has of all rows; GRN_GPU_FLOATS: none */
	uint32_t	kept_dims;
	GrnValues	values;
	GrnGrouping codes;			/* to order lists by, without a codec if rows do better */
	uint32_t	column;
	uint32_t	most;			/* edges that a vertex takes of a value's graph */
	bool		(*needs)[VALUES];	/* edges: by column and value */
	bool	   *changed;		/* [vertices] whose list has new edges */
	bool		failed;			/* the GPU has */
	uint64_t	done;			/* of the members of all values */
	uint64_t	of;
	/* behind the other arrays in WORK: */
	uint32_t   *members;		/* vertices of a column's values that need edges, by value, */
	uint32_t   *rows;			/* and their rows */
	const uint32_t *of_value;	/* of these members, [n] of a value, */
	GrnGraph	graph;			/* and their graph */
} ValueEdges;

/* How many vertices have a value. */
typedef uint64_t Counts[VALUES];

/*
 * Whether a value that so many vertices have gets edges.  Not one that goes with the vectors, whose
 * rows are neighbours anyway: by a sample of them.
 */
static bool
needs_edges(const ValueEdges *e, uint32_t column, int value, uint64_t count)
{
	const GrnPipeline *p = e->p;
	const GrnValues *values = &e->values;
	uint64_t	sharing = 0;
	uint32_t	sampled = 0;
	double		usual = (double) count / p->graph.n * p->graph.degree;

	if (!grn_has_value_edges((double) count, p->graph.n, e->gpu != NULL))
		return false;
	for (uint64_t i = 0; sampled < SAMPLE && i < p->graph.n; i++)
	{
		uint32_t	v = (uint32_t) (grn_random(p->result->params.seed, column, (uint32_t) i) % p->graph.n);

		if (grn_value(values, &p->rows, column, v) != value)
			continue;
		sharing += grn_sharing(&p->rows, values, column, &p->graph, v);
		sampled++;
	}
	return (double) sharing < MOST_USUAL * usual * sampled ||
		(double) sharing < FEW * grn_enough_sharing(p->graph.degree) * sampled;
}

/* For so many members of a column, of which a value has so many at most. */
static uint64_t
lay_out(ValueEdges *e, char *work, uint64_t members, uint64_t most)
{
	GrnArena	a = {work, 0};

	e->members = grn_take(&a, members, sizeof(uint32_t));
	e->rows = grn_take(&a, members, sizeof(uint32_t));
	e->graph.ids = grn_take(&a, most, MEMBER_DEGREE * sizeof(uint32_t));
	e->graph.counts = grn_take(&a, most, 1);
	e->graph.degree = MEMBER_DEGREE;
	return a.used;
}

/* A GrnRangeFn over the members of a value. */
static void
add_range(void *arg, int worker, size_t begin, size_t end)
{
	const ValueEdges *e = arg;
	GrnPipeline *p = e->p;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		const uint32_t *ids = e->graph.ids + i * MEMBER_DEGREE;
		uint32_t	near[MEMBER_DEGREE];
		uint32_t	n = e->graph.counts[i];

		for (uint32_t j = 0; j < n; j++)
			near[j] = e->kept ? ids[j] : e->of_value[ids[j]];
		if (grn_add_value_edges(&p->rows, &e->values, e->column, &p->graph, e->of_value[i], near, n, e->most))
			e->changed[e->of_value[i]] = true;
	}
}

/* A GrnRangeFn over all vertices. */
static void
sort_range(void *arg, int worker, size_t begin, size_t end)
{
	const ValueEdges *e = arg;
	GrnPipeline *p = e->p;

	(void) worker;
	for (size_t v = begin; v < end; v++)
		if (e->changed[v])
			grn_sort_list(&p->rows, &e->codes, &p->graph, (uint32_t) v);
}

/* A GrnHost's notice() for builds of which nobody need know that they failed. */
static void
say_nothing(void *ctx, const char *text, const char *hint)
{
	(void) ctx;
	(void) text;
	(void) hint;
}

/* The graph of members [n], of whose rows the GPU has digests; its ids are those of members. */
static bool
build_of_kept(const ValueEdges *e, const uint32_t *members, uint64_t n)
{
	GrnGraphParams params = {.degree = MEMBER_DEGREE, .seed = e->p->result->params.seed};
	GrnGpuOptions options = e->choice->options;
	GrnGpuError ignored;

	options.rows = e->kept;
	options.digest_dims = e->kept_dims;
	return grn_gpu_begin(e->gpu, n, e->p->rows.dim, &options, &params, &ignored) == GRN_GPU_OK &&
		grn_gpu_digested_rows(e->gpu, NULL, e->gpu, members, &ignored) == GRN_GPU_OK &&
		grn_gpu_build(e->gpu, e->graph.ids, e->graph.counts, NULL, NULL, NULL, &ignored) == GRN_GPU_OK;
}

/* The graph of rows [n] by themselves, on the GPU or on cores; its ids are positions of these. */
static bool
build_of_rows(ValueEdges *e, const uint32_t *order, uint64_t n, uint64_t work_offset, GrnFailure *failure)
{
	GrnPipeline *p = e->p;
	GrnRows		rows = p->rows;
	GrnGraphParams params = {.degree = MEMBER_DEGREE, .seed = p->result->params.seed};
	GrnProgress quiet;
	GrnHost		host = *p->build->host;
	GrnDeviceChoice choice = *e->choice;
	GrnGraphJob job = {.rows = &rows, .params = &params, .graph = &e->graph, .choice = &choice,
		.gpu = e->gpu, .gpu_alone = true, .progress = &quiet, .host = &host, .work_offset = work_offset};

	if (!e->gpu)
	{
		params.t1 = CORES_OUTER;
		params.t2 = CORES_INNER;
	}
	else
	{
		host.notice = say_nothing;
		choice.device = GRN_DEVICE_AUTO;
	}
	rows.order = order;
	rows.n = n;
	grn_progress_init(&quiet, grn_pool_parallel(p->build->pool), &host);
	grn_progress_hush(&quiet, true);
	return grn_build_graph(&job, failure);
}

/*
 * Builds the graph of the members [first, first + n), which have one value, and adds its edges.
 * The graph of all is there already: where a GPU fails now, the values that are left get none.
 */
static bool
add_of_value(ValueEdges *e, uint64_t first, uint64_t n, uint64_t work_offset, GrnFailure *failure)
{
	GrnPipeline *p = e->p;

	failure->sqlstate[0] = '\0';
	if (!(e->kept ? build_of_kept(e, e->members + first, n)
		  : build_of_rows(e, e->rows + first, n, work_offset, failure)))
	{
		e->failed = e->gpu && !failure->sqlstate[0];
		return e->failed;
	}
	e->of_value = e->members + first;
	p->parallel->run(p->parallel, n, GRN_PIPELINE_GRAIN, add_range, e);
	return true;
}

/* Adds the edges of a column's values; counts: of its vertices. */
static bool
add_of_column(ValueEdges *e, const Counts counts, GrnFailure *failure)
{
	GrnPipeline *p = e->p;
	uint64_t	starts[VALUES];
	uint64_t	at[VALUES];
	uint64_t	members = 0;
	uint64_t	most = 0;
	uint64_t	bytes;
	char	   *work;

	for (int value = 1; value < VALUES; value++)
	{
		starts[value] = at[value] = members;
		if (!e->needs[e->column][value])
			continue;
		members += counts[value];
		most = counts[value] > most ? counts[value] : most;
	}
	if (members == 0)
		return true;
	bytes = p->work_bytes + lay_out(e, NULL, members, most);
	work = grn_pipeline_need(p, GRN_SEG_WORK, bytes, failure);
	if (!work)
		return false;
	lay_out(e, work + p->work_bytes, members, most);
	for (uint32_t v = 0; v < p->graph.n; v++)
	{
		uint8_t		value = grn_value(&e->values, &p->rows, e->column, v);

		if (value == 0)
			continue;
		e->members[at[value]] = v;
		e->rows[at[value]++] = p->rows.order ? p->rows.order[v] : v;
	}
	for (int value = 1; value < VALUES && !e->failed; value++)
	{
		uint64_t	n = at[value] - starts[value];

		if (n > 0 && !add_of_value(e, starts[value], n, bytes, failure))
			return false;
		e->done += n;
		grn_progress_done(&p->progress, e->done, e->of);
	}
	if (!e->failed)
		p->result->value_edges[e->column] = (uint8_t) e->most;
	return true;
}

/* Of all columns. */
static bool
add_edges(ValueEdges *e, GrnFailure *failure)
{
	GrnPipeline *p = e->p;
	Counts	   *counts = calloc(e->values.columns, sizeof(Counts));
	uint32_t	columns = 0;
	bool		fine = true;

	e->needs = calloc(e->values.columns, sizeof(*e->needs));
	e->changed = calloc(p->graph.n, sizeof(bool));
	if (!counts || !e->needs || !e->changed)
	{
		free(counts);
		free(e->needs);
		free(e->changed);
		return grn_fail(failure, "53200", "", "the builder process is out of memory");
	}
	for (uint32_t v = 0; v < p->graph.n; v++)
		for (uint32_t c = 0; c < e->values.columns; c++)
			counts[c][grn_value(&e->values, &p->rows, c, v)]++;
	for (uint32_t c = 0; c < e->values.columns; c++)
	{
		uint64_t	before = e->of;

		for (int value = 1; value < VALUES; value++)
			if (needs_edges(e, c, value, counts[c][value]))
			{
				e->needs[c][value] = true;
				e->of += counts[c][value];
			}
		columns += e->of > before;
	}
	if (columns > 0)
		e->most = grn_most_value_edges(p->graph.degree, columns, grn_code_bytes(p->codec.shape));
	/* neighbours that share another value may give way */
	for (uint64_t i = 0; e->most > 0 && i < p->build->n; i++)
		for (uint32_t c = 0; c < e->values.columns; c++)
		{
			uint8_t    *number = p->build->values + i * e->values.columns + c;

			if (!e->needs[c][*number])
				*number = 0;
		}
	if (e->most > 0)
	{
		grn_progress_phase(&p->progress, GRN_PHASE_CONNECT, p->graph.n);
		grn_progress_step(&p->progress, SHARE, 0);
		/* it makes room for those of values, and the graph changes */
		if (p->holder)
			grn_gpu_end(p->holder);
		for (e->column = 0; e->column < e->values.columns && fine && !e->failed; e->column++)
			fine = add_of_column(e, counts[e->column], failure);
		if (e->gpu)
			grn_gpu_end(e->gpu);
		p->parallel->run(p->parallel, p->graph.n, GRN_PIPELINE_GRAIN, sort_range, e);
		p->holder = p->holder && fine ? grn_hold_graph(p->holder, &p->graph, e->choice) : NULL;
	}
	free(e->changed);
	free(e->needs);
	free(counts);
	return fine;
}

bool
grn_pipeline_add_value_edges(GrnPipeline *p, const GrnDeviceChoice *choice, GrnFailure *failure)
{
	const GrnHost *host = p->build->host;
	ValueEdges	e = {.p = p, .choice = choice};
	bool		fine = true;

	if (p->build->values == NULL)
		return true;
	if (p->result->on_gpu)
		host->device(host->ctx, true, &e.gpu);
	if (e.gpu)
		e.kept = grn_gpu_kept(e.gpu, &e.kept_dims);
	/*
	 * Rows that memory does not hold are not read once more for each value, and of lists with few
	 * edges none can be spared.
	 */
	if (grn_has_codes(&p->codec) && !p->result->moved && !grn_has_few_edges(&p->layout))
	{
		e.values = (GrnValues) {p->build->values, p->build->spec->sig_bytes};
		e.codes = grn_pipeline_codes_to_order_by(p);
		fine = add_edges(&e, failure);
	}
	if (e.gpu)
		grn_gpu_drop_digests(e.gpu);
	return fine;
}
