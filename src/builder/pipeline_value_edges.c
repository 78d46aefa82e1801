/*
 * pipeline_value_edges.c - edges for frequent values of filter columns (graph/build/value_edges.h):
 * the rows of each get a graph of their own, whose edges then go into the lists of all.
 *
 * A GPU that has kept the rows' digests builds these graphs as soon as it has the graph of all,
 * while cores are at work on codes.  Of a million rows that takes .065 s, as a rule less than codes
 * still take.
 */
#include "builder/pipeline_impl.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "builder/build_graph.h"
#include "graph/arena.h"
#include "graph/build/value_graph.h"
#include "graph/free_memory.h"

#define VALUES 256

/* Vertices are counted and listed in so many blocks, each by one thread, so in their order. */
#define BLOCKS 64

/*
 * A value needs no edges if, by a sample of its rows, so many neighbours share it: MOST_USUAL times
 * as many as chance gives, and FEW of those that are enough.
 */
#define SAMPLE 256
#define MOST_USUAL 1.25
#define FEW 0.4

/* Share of the phase CONNECT that they take, and loops that make a value's graph on cores. */
#define SHARE 0.5
#define GRAPH_LOOPS 3

/* A value that gets edges, and those who have it. */
typedef struct Value
{
	uint32_t	column;
	uint64_t	first;			/* of the members of all values */
	uint64_t	n;
	bool		built;			/* its graph is there */
	atomic_uint_fast64_t may;	/* edges that its members may take of that, all together */
	bool		by_vertex;		/* whose ids are vertices, not positions of members */
} Value;

/* How many vertices have a value. */
typedef uint64_t Counts[VALUES];

struct GrnValueEdges
{
	GrnPipeline *p;
	const GrnDeviceChoice *choice;
	GrnGpu	   *gpu;			/* or NULL: cores build */
	GrnValues	values;
	Counts	   *counts;			/* [columns] */
	Counts	   *blocks;			/* [BLOCKS][columns] of a block's vertices; then the places where
								 * its next members go */
	bool		(*needs)[VALUES];	/* [columns] edges */
	Value	   *value;			/* [n] those that get edges, by column */
	uint32_t	n;
	bool		found;			/* they, and their members */
	bool		ahead;			/* graphs of all values are there before edges are added */
	bool		hold;			/* a GPU held the graph of all, and is to hold it again with the
								 * new edges */
	bool		failed;			/* the GPU has: values that are left get no edges */
	uint8_t    *most;			/* [columns + 1] edges that a vertex takes of a value's graph, by
								 * how many values with such graphs it has */
	Value	   *adding;
	/* behind the other arrays in WORK: */
	uint64_t	bytes;			/* of WORK, these included */
	uint32_t   *members;		/* vertices of all values */
	uint32_t   *rows;			/* and their rows */
	uint32_t   *ids;			/* [.][GRN_MEMBER_DEGREE] and their graphs */
	uint8_t    *lengths;
};
typedef struct GrnValueEdges ValueEdges;

/*
 * Whether a value that so many vertices have gets edges.  Not one that goes with the vectors, whose
 * rows are neighbours anyway: by a sample of them.
 */
static bool
needs_edges(const ValueEdges *e, uint32_t column, int value)
{
	const GrnPipeline *p = e->p;
	const GrnValues *values = &e->values;
	uint64_t	sharing = 0;
	uint32_t	sampled = 0;
	uint64_t	count = e->counts[column][value];
	double		usual = (double) count / p->graph.n * p->graph.degree;

	if (!grn_has_value_edges((double) count, p->graph.n, e->gpu != NULL))
		return false;
	for (uint64_t i = 0; sampled < SAMPLE && i < p->graph.n; i++)
	{
		uint32_t	v = (uint32_t) (grn_random(p->build->spec->params.seed, column, (uint32_t) i) % p->graph.n);

		if (grn_value(values, &p->rows, column, v) != value)
			continue;
		sharing += grn_sharing(&p->rows, values, column, &p->graph, v);
		sampled++;
	}
	return (double) sharing < MOST_USUAL * usual * sampled ||
		(double) sharing < FEW * grn_enough_sharing(p->graph.degree) * sampled;
}

/*
 * Lays the arrays out, for so many members and graphs of so many of them at a time; returns the
 * bytes of WORK.
 */
static uint64_t
lay_out(ValueEdges *e, uint64_t members, uint64_t at_once)
{
	GrnArena	a = {(char *) e->p->work, e->p->work_bytes};

	e->members = grn_take(&a, members, sizeof(uint32_t));
	e->rows = grn_take(&a, members, sizeof(uint32_t));
	e->ids = grn_take(&a, at_once, GRN_MEMBER_DEGREE * sizeof(uint32_t));
	e->lengths = grn_take(&a, at_once, 1);
	return a.used;
}

/* The graph of a value's members, which is built there. */
static GrnGraph
graph_of(const ValueEdges *e, const Value *value)
{
	uint64_t	first = e->ahead ? value->first : 0;

	return (GrnGraph) {e->ids + first * GRN_MEMBER_DEGREE, e->lengths + first, (uint32_t) value->n, GRN_MEMBER_DEGREE};
}

/* The edges that a vertex takes of the graph of each of its values that have one. */
static uint32_t
most_of(const ValueEdges *e, uint32_t vertex)
{
	uint32_t	values = 0;

	for (uint32_t c = 0; c <= e->value[e->n - 1].column; c++)
		values += grn_value(&e->values, &e->p->rows, c, vertex) != 0;
	return e->most[values];
}

/* A GrnRangeFn over the members of a value. */
static void
add_range(void *arg, int worker, size_t begin, size_t end)
{
	const ValueEdges *e = arg;
	Value	   *value = e->adding;
	const uint32_t *members = e->members + value->first;
	const GrnGraph graph = graph_of(e, value);
	GrnPipeline *p = e->p;
	uint64_t	may = 0;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		const uint32_t *ids = graph.ids + i * GRN_MEMBER_DEGREE;
		uint32_t	near[GRN_MEMBER_DEGREE];
		uint32_t	n = graph.counts[i];
		uint32_t	most = most_of(e, members[i]);

		for (uint32_t j = 0; j < n; j++)
			near[j] = value->by_vertex ? ids[j] : members[ids[j]];
		grn_add_value_edges(&p->rows, &e->values, value->column, &p->graph, members[i], near, n, most);
		may += most;
	}
	atomic_fetch_add(&value->may, may);
}

/* A GrnHost's notice() for builds of which nobody need know that they failed. */
static void
say_nothing(void *ctx, const char *text, const char *hint)
{
	(void) ctx;
	(void) text;
	(void) hint;
}

/* Of rows whose digests the GPU has kept.  False: it has failed. */
static bool
build_of_kept(ValueEdges *e, Value *value, GrnGpuRows kept, uint32_t kept_dims)
{
	const GrnGraph graph = graph_of(e, value);
	GrnGraphParams params = {.degree = GRN_MEMBER_DEGREE, .seed = e->p->build->spec->params.seed};
	GrnGpuOptions options = e->choice->options;
	GrnGpuError ignored;

	options.rows = kept;
	options.digest_dims = kept_dims;
	value->by_vertex = true;
	value->built =
		grn_gpu_begin(e->gpu, value->n, e->p->rows.dim, &options, &params, &ignored) == GRN_GPU_OK &&
		grn_gpu_digested_rows(e->gpu, NULL, e->gpu, e->members + value->first, &ignored) == GRN_GPU_OK &&
		grn_gpu_build(e->gpu, graph.ids, graph.counts, NULL, NULL, NULL, &ignored) == GRN_GPU_OK;
	return value->built;
}

/* On cores, by the graph of all. */
static bool
build_on_cores(const ValueEdges *e, Value *value)
{
	GrnPipeline *p = e->p;
	GrnValueGraph g = {.all = &p->graph, .rows = &p->rows, .values = &e->values, .column = value->column,
		.members = e->members + value->first, .codec = &p->codec, .codes = p->codes,
		.factors = p->factors, .graph = graph_of(e, value)};

	grn_value_graph(&g, p->parallel);
	return value->built = true;
}

/* Of rows by themselves, on the GPU.  False: it failed, or failure says what. */
static bool
build_of_rows(ValueEdges *e, Value *value, GrnFailure *failure)
{
	GrnPipeline *p = e->p;
	GrnRows		rows = p->rows;
	GrnGraph	graph = graph_of(e, value);
	GrnGraphParams params = {.degree = GRN_MEMBER_DEGREE, .seed = p->build->spec->params.seed};
	GrnProgress quiet;
	GrnHost		host = *p->build->host;
	GrnDeviceChoice choice = *e->choice;
	GrnGraphJob job = {.rows = &rows, .params = &params, .graph = &graph, .choice = &choice,
		.gpu = e->gpu, .gpu_alone = true, .progress = &quiet, .host = &host, .work_offset = e->bytes};

	host.notice = say_nothing;
	choice.device = GRN_DEVICE_AUTO;
	rows.order = e->rows + value->first;
	rows.n = value->n;
	grn_progress_init(&quiet, grn_pool_parallel(p->build->pool), &host);
	grn_progress_hush(&quiet, true);
	failure->sqlstate[0] = '\0';
	value->built = grn_build_graph(&job, failure);
	return value->built;
}

/*
 * Edges that a vertex may take of each of so many columns, at most: codes have their length only
 * once they are fitted.
 */
static uint32_t
most_edges(const GrnPipeline *p, uint32_t columns)
{
	return columns == 0 ? 0 : grn_most_value_edges(p->graph.degree, columns, grn_most_code_bytes(&p->costs));
}

/* Vertices of a block, which end where the next one's begin. */
static uint32_t
block_begin(const ValueEdges *e, size_t block)
{
	return (uint32_t) ((uint64_t) e->p->graph.n * block / BLOCKS);
}

/* A GrnRangeFn over blocks: counts values. */
static void
count_range(void *arg, int worker, size_t begin, size_t end)
{
	const ValueEdges *e = arg;
	uint32_t	columns = e->values.columns;

	(void) worker;
	for (size_t block = begin; block < end; block++)
		for (uint32_t v = block_begin(e, block); v < block_begin(e, block + 1); v++)
			for (uint32_t c = 0; c < columns; c++)
				e->blocks[block * columns + c][grn_value(&e->values, &e->p->rows, c, v)]++;
}

/* A GrnRangeFn over rows: forgets values without edges: neighbours that share one may give way. */
static void
forget_range(void *arg, int worker, size_t begin, size_t end)
{
	const ValueEdges *e = arg;
	uint32_t	columns = e->values.columns;

	(void) worker;
	for (uint64_t i = begin; i < end; i++)
		for (uint32_t c = 0; c < columns; c++)
		{
			uint8_t    *number = e->p->build->values + i * columns + c;

			if (!e->needs[c][*number])
				*number = 0;
		}
}

/* A GrnRangeFn over blocks: puts vertices where members of their values are. */
static void
list_range(void *arg, int worker, size_t begin, size_t end)
{
	const ValueEdges *e = arg;
	const GrnRows *rows = &e->p->rows;
	uint32_t	columns = e->values.columns;

	(void) worker;
	for (size_t block = begin; block < end; block++)
		for (uint32_t v = block_begin(e, block); v < block_begin(e, block + 1); v++)
			for (uint32_t c = 0; c < columns; c++)
			{
				uint8_t		value = grn_value(&e->values, rows, c, v);
				uint64_t	place;

				if (value == 0)
					continue;
				place = e->blocks[block * columns + c][value]++;
				e->members[place] = v;
				e->rows[place] = rows->order ? rows->order[v] : v;
			}
}

/* Has a value's members begin at a place, those of each block behind those of the ones before. */
static void
begin_members(ValueEdges *e, uint32_t column, int value, uint64_t place)
{
	for (uint32_t block = 0; block < BLOCKS; block++)
	{
		uint64_t   *at = &e->blocks[block * e->values.columns + column][value];
		uint64_t	n = *at;

		*at = place;
		place += n;
	}
}

/*
 * Finds the values that get edges, by the graph of all, and their members.  If more columns have
 * such values than lists can take edges of, the first ones get them.
 */
static bool
find_values(ValueEdges *e)
{
	const GrnPipeline *p = e->p;
	GrnParallel *parallel = grn_pool_parallel(p->build->pool);
	uint32_t	columns = e->values.columns;
	uint32_t	needing = 0;
	uint64_t	members = 0;

	/* those of a try for which memory was short */
	free(e->needs);
	free(e->value);
	e->needs = calloc(columns, sizeof(*e->needs));
	e->value = calloc(columns, VALUES * sizeof(Value));
	e->found = e->needs && e->value;
	for (uint32_t c = 0; e->found && c < columns && most_edges(p, needing + 1) > 0; c++)
	{
		uint64_t	before = members;

		for (int value = 1; value < VALUES; value++)
		{
			e->needs[c][value] = needs_edges(e, c, value);
			if (!e->needs[c][value])
				continue;
			begin_members(e, c, value, members);
			e->value[e->n++] = (Value) {.column = c, .first = members, .n = e->counts[c][value]};
			members += e->counts[c][value];
		}
		needing += members > before;
	}
	if (e->n > 0)
	{
		parallel->run(parallel, p->build->n, GRN_PIPELINE_GRAIN, forget_range, e);
		parallel->run(parallel, BLOCKS, 1, list_range, e);
	}
	return e->found;
}

void
grn_pipeline_forget_values(GrnPipeline *p)
{
	if (p->value_edges)
	{
		/* digests that were to order the graph, which no GPU has taken back */
		if (p->value_edges->gpu && !p->holder)
			grn_gpu_drop_digests(p->value_edges->gpu);
		free(p->value_edges->counts);
		free(p->value_edges->blocks);
		free(p->value_edges->needs);
		free(p->value_edges->value);
		free(p->value_edges->most);
	}
	free(p->value_edges);
	p->value_edges = NULL;
}

bool
grn_pipeline_reserve_values(GrnPipeline *p, bool on_gpu, bool ahead, uint64_t work_limit, GrnFailure *failure)
{
	GrnParallel *parallel = grn_pool_parallel(p->build->pool);
	ValueEdges *e;
	uint64_t	members = 0;
	uint64_t	most = 0;		/* of a column */
	uint64_t	largest = 0;	/* value */
	uint32_t	columns = 1;

	/*
	 * Rows that memory does not hold are not read once more for each value, and of short lists no
	 * edge can be spared.
	 */
	if (p->build->values == NULL || p->result->moved || most_edges(p, 1) == 0)
		return true;
	e = p->value_edges = calloc(1, sizeof(ValueEdges));
	if (e)
	{
		e->counts = calloc(p->build->spec->sig_bytes, sizeof(Counts));
		e->blocks = calloc(BLOCKS * p->build->spec->sig_bytes, sizeof(Counts));
		e->most = calloc(p->build->spec->sig_bytes + 1, 1);
	}
	if (!e || !e->counts || !e->blocks || !e->most)
	{
		grn_pipeline_forget_values(p);
		return grn_fail(failure, "53200", "", "the builder process is out of memory");
	}
	e->p = p;
	e->values = (GrnValues) {p->build->values, p->build->spec->sig_bytes};
	parallel->run(parallel, BLOCKS, 1, count_range, e);
	for (uint32_t c = 0; c < e->values.columns; c++)
	{
		uint64_t	of_column = 0;

		for (int value = 1; value < VALUES; value++)
		{
			uint64_t	count = 0;

			for (uint32_t block = 0; block < BLOCKS; block++)
				count += e->blocks[block * e->values.columns + c][value];
			e->counts[c][value] = count;
			if (!grn_has_value_edges((double) count, p->graph.n, on_gpu))
				continue;
			of_column += count;
			largest = count > largest ? count : largest;
		}
		members += of_column;
		most = of_column > most ? of_column : most;
	}
	/* no more columns than these get edges */
	while (columns < e->values.columns && most_edges(p, columns + 1) > 0)
		columns++;
	members = columns * most < members ? columns * most : members;
	e->ahead = ahead;
	e->bytes = lay_out(e, members, ahead ? members : largest);
	if (members == 0 || (ahead && e->bytes > grn_memory_limit(work_limit)))
		grn_pipeline_forget_values(p);
	else if (!grn_pipeline_need(p, GRN_SEG_WORK, e->bytes, failure))
	{
		grn_pipeline_forget_values(p);
		return false;
	}
	return true;
}

/* A GPU makes room for the values' graphs, and the graph that it holds is going to change. */
static void
let_go(ValueEdges *e, GrnGpu **holder)
{
	if (*holder == NULL)
		return;
	grn_gpu_end(*holder);
	*holder = NULL;
	e->hold = true;
}

void
grn_pipeline_build_value_graphs(GrnPipeline *p, const GrnDeviceChoice *choice, GrnGpu *gpu, GrnGpu **holder)
{
	ValueEdges *e = p->value_edges;
	uint32_t	dims;
	GrnGpuRows	kept = grn_gpu_kept(gpu, &dims);

	if (e)
	{
		e->gpu = gpu;
		e->choice = choice;
	}
	if (e && kept != GRN_GPU_FLOATS && find_values(e) && e->n > 0)
	{
		let_go(e, holder);
		for (uint32_t i = 0; i < e->n && !e->failed; i++)
			e->failed = !build_of_kept(e, &e->value[i], kept, dims);
		grn_gpu_end(gpu);
	}
	/* the graph's order is made of them as well */
	if (!e || !(e->hold || *holder))
		grn_gpu_drop_digests(gpu);
}

/*
 * Notes in the result how many edges a vertex with a frequent value of each column may take of that
 * one's graph, as a mean.  A column is said to have such edges if all its frequent values do.
 */
static void
note_edges(const ValueEdges *e)
{
	uint8_t    *edges = e->p->result->value_edges;

	for (uint32_t i = 0; i < e->n;)
	{
		uint32_t	column = e->value[i].column;
		uint64_t	members = 0;
		uint64_t	may = 0;
		bool		built = true;

		for (; i < e->n && e->value[i].column == column; i++)
		{
			built = built && e->value[i].built;
			members += e->value[i].n;
			may += e->value[i].may;
		}
		edges[column] = built ? (uint8_t) ((may + members / 2) / members) : 0;
	}
}

/*
 * Sets how many edges vertices take, by the length of the codes that the index has now.  Those may
 * be shorter than find_values() had to assume.  Lists then spare edges for fewer columns, and the
 * values of the last ones are left out.
 */
static void
share_edges(ValueEdges *e)
{
	size_t		code_bytes = grn_code_bytes(e->p->codec.shape);
	uint32_t	columns = 0;

	for (uint32_t i = 1; i <= e->values.columns; i++)
		e->most[i] = (uint8_t) grn_most_value_edges(e->p->graph.degree, i, code_bytes);
	for (uint32_t i = 0; i < e->n; i++)
	{
		columns += i == 0 || e->value[i].column != e->value[i - 1].column;
		if (e->most[columns] == 0)
			e->n = i;
	}
}

/* Builds the graphs that are not there yet, and adds the edges of all. */
static bool
add_edges(ValueEdges *e, GrnFailure *failure)
{
	GrnPipeline *p = e->p;
	uint64_t	members = 0;
	uint64_t	done = 0;

	share_edges(e);
	for (uint32_t i = 0; i < e->n; i++)
		members += e->value[i].n;
	if (members == 0)
		return true;
	grn_progress_phase(&p->progress, GRN_PHASE_CONNECT, p->graph.n);
	for (uint32_t i = 0; i < e->n; i++)
	{
		Value	   *value = &e->value[i];

		done += value->n;
		grn_progress_step(&p->progress, SHARE * (double) done / (double) members,
						  e->gpu ? 1 : GRAPH_LOOPS + 1);
		if (!value->built && !e->failed &&
			!(e->gpu ? build_of_rows(e, value, failure) : build_on_cores(e, value)))
		{
			/* the graph of all is there already: it does without these edges */
			e->failed = !failure->sqlstate[0];
			if (!e->failed)
				return false;
		}
		if (!value->built)
			continue;
		e->adding = value;
		p->parallel->run(p->parallel, value->n, GRN_PIPELINE_GRAIN, add_range, e);
	}
	note_edges(e);
	return true;
}

bool
grn_pipeline_add_value_edges(GrnPipeline *p, const GrnDeviceChoice *choice, GrnFailure *failure)
{
	const GrnHost *host = p->build->host;
	ValueEdges *e;
	GrnGpu	   *gpu = NULL;
	bool		fine = true;

	if (p->build->values == NULL)
		return true;
	if (p->result->on_gpu)
		host->device(host->ctx, true, &gpu);
	if (!p->value_edges && !grn_has_few_edges(&p->layout) &&
		!grn_pipeline_reserve_values(p, gpu != NULL, false, choice->work_limit, failure))
		return false;
	e = p->value_edges;
	if (e && grn_has_codes(&p->codec) && !grn_has_few_edges(&p->layout))
	{
		e->gpu = gpu;
		e->choice = choice;
		if (!e->found && !find_values(e))
			return grn_fail(failure, "53200", "", "the builder process is out of memory");
		if (e->n > 0)
			let_go(e, &p->holder);
		fine = add_edges(e, failure);
	}
	if (e && e->hold && fine)
		p->holder = grn_hold_graph(gpu, &p->graph, choice);
	grn_pipeline_forget_values(p);
	return fine;
}
