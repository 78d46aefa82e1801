/*
 * pipeline.c - all steps of a build, from the leader's BUILD to the builder's DONE: check the rows,
 * find duplicates, build the graph of distinct rows, encode, choose entries, connect, order, and
 * write the results for the leader.
 *
 * A GPU starts and builds in a thread of its own.  Meanwhile cores make codes and choose entries,
 * because both need only the rows.  The GPU then orders the graph while cores connect it
 * (finish.c).
 */
#include "builder/pipeline_impl.h"

#include <pthread.h>
#include <string.h>

#include "builder/build_graph.h"
#include "builder/prepare.h"
#include "graph/descent.h"
#include "graph/graph.h"
#include "memory/memory.h"
#include "store/record.h"

/*
 * Rounds on a GPU if t1 and t2 are not set.  A graph without an index gets half as many rounds.
 * The additional 0.04 s for a million rows are small beside the rest of CREATE INDEX.  Measured
 * recall on a million rows each of SIFT, GIST and sentence embeddings, lists filled, L = 64: .9655,
 * .9504, .9602 with 4 x 3 rounds, .9689, .9631, .9664 with 8 x 4.
 */
#define GPU_OUTER 8
#define GPU_INNER 4

/*
 * Estimated members of all parts for each row, in a build in parts on GPUs.  Members and their
 * lists take host memory.  Only the device knows whether a build needs parts, and the device may
 * not be open yet.  (A million SIFT rows in parts of 400 MB have 1.51.)
 */
#define GPU_PARTS_MEMBERS 1.4

/* Least number of bytes that the graph and the results take for a row. */
#define LEAST_BYTES 64

/*
 * Chooses the degree, the form of own vectors, and the record's geometry before codes are fitted.
 * On entry the result's form is the smallest exact form.  Errors: SQLSTATE 22023, 54000.
 */
static bool
choose_layout(GrnPipeline *p, GrnFailure *failure)
{
	const GrnBuildSpec *spec = p->build->spec;
	GrnBuildResult *r = p->result;
	GrnLayoutSpec of = {.dim = spec->dim, .degree = r->params.degree, .form = (GrnForm) r->form,
		.attr_bytes = spec->attr_bytes, .sig_bytes = spec->sig_bytes, .payload = spec->payload};

	p->plan.exact = (GrnForm) r->form;
	r->form = p->plan.regime == GRN_ROUNDED ? GRN_FORM_ROUNDED
		: grn_layout_form_beside_columns(p->plan.keep, spec->use_codes, &of);
	if (r->params.degree == 0)
		r->params.degree = grn_default_degree(spec->dim, (GrnForm) r->form, spec->use_codes,
											  spec->payload);
	if (r->params.degree < GRN_MIN_DEGREE || r->params.degree > GRN_MAX_DEGREE)
		return grn_fail(failure, "22023", "", "degree must be from %d to %d",
						GRN_MIN_DEGREE, GRN_MAX_DEGREE);
	r->degree = r->params.degree;
	of = grn_result_layout_spec(spec, r);
	grn_layout_code_costs(&of, &p->plan.costs);
	p->plan.max_code_dims = spec->use_codes && grn_most_code_bytes(&p->plan.costs) > 0 ?
		grn_max_code_dims(spec->dim) : 0;
	p->plan.fit_later = false;
	if (p->plan.max_code_dims > 0 && p->rows.n < spec->fit_rows && grn_layout_own_shape(p->metric, &of).own == 0)
	{
		p->plan.fit_later = grn_code_dims(grn_codec_usual_shape(spec->dim, &p->plan.costs)) > 0;
		p->plan.max_code_dims = 0;
	}
	r->shape = GRN_NO_CODES;
	r->centered = spec->near.k == 0 && grn_has_center((GrnForm) r->form, p->rows.n);
	if (!grn_result_layout(&p->layout, spec, r))
		return grn_fail(failure, "54000", "Lower the storage parameter \"degree\".",
						"a record of degree %u does not fit a page", r->degree);
	return true;
}

/* Counts the seconds since the end of the last step for `step`. */
static void
end_step(GrnPipeline *p, GrnStep step)
{
	p->result->seconds[step] += (float) grn_lap(&p->since);
}

static GrnGraphJob
graph_job(GrnPipeline *p)
{
	GrnGraphJob job = {0};

	job.rows = &p->rows;
	job.params = &p->result->params;
	job.graph = &p->graph;
	job.choice = &p->plan.choice;
	job.progress = &p->progress;
	job.host = p->build->host;
	job.gpu_alone = true;
	job.fill = true;
	job.hold = true;
	job.work_offset = p->work.bytes;
	return job;
}

/*
 * Chooses the layout of rows that are not checked yet, by the form in which the rows came.  Returns
 * false if no layout fits.
 */
static bool
forecast_layout(const GrnPipeline *p, GrnPipeline *forecast, GrnBuildResult *result)
{
	GrnFailure	ignored;

	*forecast = *p;
	*result = *p->result;
	forecast->result = result;
	result->form = p->rows.form;
	result->nodes = (uint32_t) p->build->n;
	return choose_layout(forecast, &ignored);
}

/* What WORK must hold.  The layout must be chosen. */
static GrnWorkNeeds
work_needs(const GrnPipeline *p)
{
	return (GrnWorkNeeds) {.rows = p->build->n, .nodes = p->rows.n, .dim = p->rows.dim, .degree = p->result->degree,
						   .code_bytes = grn_most_code_bytes(&p->plan.costs), .code_dims = p->plan.max_code_dims,
						   .centered = p->result->centered, .placed_bytes = p->work.bytes};
}

/*
 * Whether the rows that memory does not hold yet, the graph, its workspace and the results exceed
 * memory, by the number of all rows.  The graph's workspace is the one of cores if no GPU will
 * build.
 */
static bool
exceeds_memory(const GrnPipeline *p)
{
	const GrnBuild *b = p->build;
	uint64_t	rows = b->n * p->rows.row_bytes;
	GrnPipeline forecast;
	GrnBuildResult result;
	GrnWorkNeeds needs;
	GrnGpu	   *gpu = NULL;

	if (!b->spec->may_move || b->spec->near.k > 0 || grn_pipeline_cells(b->n) < 2)
		return false;
	/* Rows that are in memory already take no more free memory. */
	rows = rows < b->on_disk ? rows : b->on_disk;
	rows += LEAST_BYTES * b->n;
	if (rows <= grn_memory_limit(p->plan.choice.work_limit) && forecast_layout(p, &forecast, &result))
	{
		needs = work_needs(&forecast);
		rows += grn_place_work_arrays(&needs, NULL).kept_bytes + grn_pipeline_place_result(&forecast, NULL).bytes -
			LEAST_BYTES * b->n;
		if (b->host->device(b->host->ctx, false, &gpu) && gpu == NULL)
			rows += grn_rnnd_bytes(&result.params, b->n, grn_copied_dims(&p->rows));
		else
			rows += (uint64_t) (GPU_PARTS_MEMBERS * (double) b->n) * (4 * result.degree + 5);
	}
	return rows > grn_memory_limit(p->plan.choice.work_limit);
}

/*
 * Chooses where the rows lie, before any row is checked.  Rows that memory cannot hold are rounded
 * as they move if records keep the rounded form, and this form is much shorter than the rows.
 * Halves are not rounded: rounding them saves bytes written and read, but took longer on a GPU
 * host.
 */
static void
choose_regime(GrnPipeline *p)
{
	GrnPipeline forecast;
	GrnBuildResult result;

	if (!exceeds_memory(p))
		return;
	p->plan.regime = GRN_PLACED;
	if (!forecast_layout(p, &forecast, &result) || result.form != GRN_FORM_ROUNDED)
		return;
	if (grn_pipeline_rounding_loses(p))
		p->plan.keep = GRN_KEEP_EXACT;
	/* Scales follow rows in the rows' own form. */
	else if (grn_form(p->rows.form)->bits > 2 * grn_form(GRN_FORM_ROUNDED)->bits &&
			 !grn_is_scaled(p->rows.embedding) && grn_pipeline_has_many_rows(&p->rows))
		p->plan.regime = GRN_ROUNDED;
}

/*
 * Checks all rows, and finds the distinct rows: vertex_of_rank[] becomes the first rank of an equal
 * row.  Rows that memory cannot hold are moved in the same pass.
 */
static bool
check_rows(GrnPipeline *p, GrnFailure *failure)
{
	GrnBuild   *b = p->build;
	GrnRows		all;
	GrnPrepared prepared;
	uint64_t   *hashes;
	uint32_t   *by_cell = NULL;
	uint32_t   *slots;

	p->order = b->order;
	choose_regime(p);
	if (p->plan.regime != GRN_IN_MEMORY)
	{
		if (!grn_pipeline_place_rows(p, &prepared, &hashes, &by_cell, &slots, failure))
			return false;
	}
	else
	{
		uint64_t	ranks = grn_aligned(b->n * 4);
		char	   *w = grn_pipeline_need(p, GRN_SEG_WORK, grn_compare_work_bytes(b->n), failure);

		if (!w)
			return false;
		p->vertex_of_rank = (uint32_t *) w;
		hashes = (uint64_t *) (w + ranks);
		slots = (uint32_t *) (hashes + b->n);
		if (!grn_prepare(&p->rows, p->order, p->metric, p->parallel, hashes, &prepared, failure))
			return false;
	}
	p->result->form = prepared.form;
	p->result->norm_unit = p->codec.norm_unit = prepared.norm_unit;
	p->result->power = p->codec.power = prepared.power;
	all = p->rows;
	all.order = p->order;
	/* Only rows with equal hashes are read again, at random places. */
	if (p->plan.regime != GRN_IN_MEMORY)
		grn_pages_scattered(all.base, b->n * all.row_bytes, true);
	p->rows.n = grn_find_duplicates(&all, hashes, by_cell, p->parallel, p->vertex_of_rank, slots);
	if (p->plan.regime != GRN_IN_MEMORY)
		grn_pages_scattered(all.base, b->n * all.row_bytes, false);
	p->result->nodes = (uint32_t) p->rows.n;
	return true;
}

/* Requests the memory of WORK and sets the arrays in it. */
static bool
plan_memory(GrnPipeline *p, GrnFailure *failure)
{
	GrnBuildResult *r = p->result;
	GrnWorkNeeds needs = work_needs(p);
	GrnWork		w;
	char	   *work;

	if (p->plan.regime != GRN_IN_MEMORY)
	{
		p->own_bytes = grn_pipeline_own_bytes(p);
		needs.own_bytes = p->plan.regime == GRN_ROUNDED ? 0 : p->own_bytes;
	}
	work = grn_pipeline_need(p, GRN_SEG_WORK, grn_place_work_arrays(&needs, NULL).bytes, failure);
	if (!work)
		return false;
	w = grn_place_work_arrays(&needs, work);
	p->work.base = work;
	p->vertex_of_rank = w.vertex_of_rank;
	if (p->plan.regime != GRN_IN_MEMORY)
	{
		p->order = w.order;
		p->own = p->plan.regime == GRN_ROUNDED ? (uint8_t *) p->rows.base : w.own;
	}
	p->distinct = w.distinct;
	p->position = w.position;
	p->factors = w.factors;
	p->graph = (GrnGraph) {.n = (uint32_t) p->rows.n, .degree = r->degree, .ids = w.ids, .counts = w.counts};
	p->codes = w.codes;
	p->work.codec_floats = w.codec;
	p->center = w.center;
	p->work.scratch = w.scratch;
	p->work.kept_bytes = w.kept_bytes;
	p->work.bytes = w.bytes;
	return true;
}

/*
 * Numbers the vertices by the lowest rank of their equal rows.  The processor's graph then does not
 * depend on the order of collection, unless the first pass has moved rows.  On entry equal entries
 * of vertex_of_rank[], any numbers below n, mark ranks of the same vertex.
 */
static void
number_by_rank(GrnPipeline *p)
{
	const uint32_t *order = p->order;
	uint32_t   *number = (uint32_t *) p->work.scratch;
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

/* Numbers the vertices by row, so that rows are copied to a GPU in large pieces. */
static void
number_by_row(GrnPipeline *p)
{
	GrnBuild   *b = p->build;
	uint32_t   *number = (uint32_t *) p->work.scratch;
	uint32_t	m = 0;

	if (p->rows.n == b->n)
	{
		memcpy(p->vertex_of_rank, p->order, b->n * sizeof(*p->order));
		p->rows.order = NULL;
		return;
	}
	for (uint64_t r = 0; r < b->n; r++)
		number[p->order[r]] = p->vertex_of_rank[r] == r;
	for (uint64_t row = 0; row < b->n; row++)
	{
		if (number[row])
		{
			p->distinct[m] = (uint32_t) row;
			number[row] = m++;
		}
	}
	for (uint64_t r = 0; r < b->n; r++)
		p->vertex_of_rank[r] = number[p->order[p->vertex_of_rank[r]]];
	p->rows.order = p->distinct;
}

/*
 * Numbers the vertices: by row for a GPU, otherwise by rank.  Vertices of rows that the first pass
 * has moved follow the order of these rows, and keep their numbers if cores build after a GPU.
 */
static void
order_rows(GrnPipeline *p, bool for_gpu)
{
	if (p->result->moved)
		return;
	if (p->plan.regime != GRN_IN_MEMORY)
	{
		number_by_row(p);
		grn_pipeline_enter_move(p, grn_pipeline_place_together(p) ? p->rows.n : p->build->n);
	}
	else if (for_gpu)
		number_by_row(p);
	else
		number_by_rank(p);
}

/* A thread that waits for the device and builds the graph on the device, if a GPU opens. */
typedef struct GraphThread
{
	GrnGraphJob job;
	GrnProgress *beside;		/* starts to report once the graph is built */
	GrnFailure	failure;
	bool		built;
	double		opened;			/* time when the device was open */
	double		done;			/* time when the graph was built */
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
	if (t->built)
		grn_progress_set_quiet(t->beside, false);
	return NULL;
}

/*
 * Begins or ends a series of reads of random rows and lists.  For each unreachable vertex a search
 * goes from the entry to the vertex's place, and reads rows and lists at random.
 */
static void
sample_vertices(const GrnPipeline *p, bool begin)
{
	grn_pipeline_sample_rows(p, begin);
	if (p->plan.regime != GRN_IN_MEMORY)
		grn_pages_scattered(p->graph.ids, p->graph.n * p->graph.degree * sizeof(uint32_t), begin);
}

/* Checks and connects the graph.  A GPU that keeps the graph begins to order the pages. */
static bool
finish_graph(GrnPipeline *p, GrnFailure *failure)
{
	GrnBuildResult *r = p->result;
	GrnFinish  *f = &p->finish;
	const char *bad;
	uint32_t	vertex;

	*f = (GrnFinish) {.metric = p->metric, .norm_unit = p->codec.norm_unit, .power = p->codec.power, .rows = &p->rows, .graph = &p->graph, .parallel = p->parallel,
					  .gpu = f->gpu, .entry = r->entries[0], .per_page = p->layout.per_page,
					  .position = p->position, .scratch = p->work.scratch};
	if (p->progress.phase != GRN_STEP_CONNECT)
		grn_progress_phase(&p->progress, GRN_STEP_CONNECT, p->graph.n);
	grn_finish_begin(f);
	bad = grn_graph_check(&p->graph, p->parallel, &vertex);
	if (bad)
	{
		grn_finish_abandon(f);
		return grn_fail(failure, "XX000", "Please report this as a bug of grnnd.",
						"the %s built a faulty graph: vertex %u has %s",
						r->on_gpu ? "GPU" : "processor", vertex, bad);
	}
	sample_vertices(p, true);
	if (!grn_finish_connect(f))
	{
		grn_finish_abandon(f);
		return grn_fail(failure, "53200", "", "the builder process is out of memory");
	}
	r->connected = f->connected;
	if (r->parts > 1)
		grn_pipeline_make_navigable(p);
	sample_vertices(p, false);
	return true;
}

/*
 * Builds the graph on a GPU while this thread makes codes and entries.  Returns false on failure.
 * *built becomes false if no GPU is usable.
 */
static bool
build_on_gpu(GrnPipeline *p, bool *built, GrnFailure *failure)
{
	GrnBuildResult *r = p->result;
	GraphThread t = {.job = graph_job(p), .beside = &p->beside};
	GrnGraphParams given = r->params;
	pthread_t	thread;
	double		meanwhile;
	bool		coded;

	end_step(p, GRN_STEP_PREPARE);
	if (r->params.t1 == 0)
		r->params.t1 = GPU_OUTER;
	if (r->params.t2 == 0)
		r->params.t2 = GPU_INNER;
	if (pthread_create(&thread, NULL, graph_main, &t) != 0)
		return grn_fail(failure, "53000", "", "the builder process could not start a thread");
	grn_progress_set_quiet(&p->beside, true);
	grn_progress_phase(&p->beside, GRN_STEP_CODES, p->graph.n);
	p->parallel = &p->beside.parallel;
	grn_pipeline_choose_entries(p);
	grn_pipeline_choose_center(p);
	coded = grn_pipeline_make_codes(p, failure);
	meanwhile = grn_seconds();
	pthread_join(thread, NULL);
	p->parallel = &p->progress.parallel;
	*built = t.built;
	p->finish.gpu = t.job.holder;
	if (!t.built)
		r->params = given;		/* the processor has defaults of its own */
	if (!coded)
		return false;
	if (t.job.gpu && !t.built)
	{
		/* The GPU failed without an error of the build: cores build instead. */
		*failure = t.failure;
		return !failure->sqlstate[0];
	}
	r->on_gpu = t.job.on_gpu;
	r->gpus = (uint32_t) grn_open_gpus();
	r->parts = t.job.part_times.nparts;
	r->seconds[GRN_STEP_DEVICE] = (float) (t.opened - p->since);
	r->seconds[GRN_STEP_DESCENT] = (float) (t.done - t.opened);
	r->seconds[GRN_STEP_CODES] = meanwhile > t.done ? (float) (meanwhile - t.done) : 0;
	p->since = meanwhile > t.done ? meanwhile : t.done;
	end_step(p, GRN_STEP_CONNECT);
	return true;
}

static bool
build_on_cores(GrnPipeline *p, GrnFailure *failure)
{
	GrnHost const *host = p->build->host;
	GrnBuildResult *r = p->result;
	GrnDeviceChoice here = p->plan.choice;
	GrnGraphJob job = graph_job(p);

	end_step(p, GRN_STEP_DEVICE);
	/* A failed GPU may have begun a later phase. */
	if (p->progress.phase != GRN_STEP_PREPARE)
		grn_progress_phase(&p->progress, GRN_STEP_PREPARE, p->build->n);
	order_rows(p, false);
	/* The graph's workspace overlaps scratch. */
	job.work_offset = p->work.kept_bytes;
	/* The kernel keeps file pages in the second half of memory. */
	job.choice = &here;
	if (p->plan.regime != GRN_IN_MEMORY)
		here.work_limit = grn_memory_limit(here.work_limit) / 2;
	if (!grn_build_graph(&job, failure))
		return false;
	r->parts = job.part_times.nparts;
	end_step(p, GRN_STEP_DESCENT);
	host->expect(host->ctx, GRN_SEG_RESULT, grn_pipeline_place_result(p, NULL).bytes);
	grn_progress_phase(&p->progress, GRN_STEP_CODES, p->graph.n);
	grn_pipeline_choose_entries(p);
	grn_pipeline_choose_center(p);
	end_step(p, GRN_STEP_CONNECT);
	return grn_pipeline_make_codes(p, failure);
}

/* Builds the graph on a GPU if one is usable, otherwise on cores, and makes codes and entries. */
static bool
build_graph(GrnPipeline *p, GrnFailure *failure)
{
	const GrnHost *host = p->build->host;
	GrnGpu	   *gpu;
	bool		built = false;

	/* A graph with a single vertex needs no device. */
	if (p->rows.n > 1 && !(host->device(host->ctx, false, &gpu) && gpu == NULL))
	{
		order_rows(p, true);
		/* The leader now allocates RESULT.  Later requests wait until this allocation ends. */
		host->expect(host->ctx, GRN_SEG_RESULT, grn_pipeline_place_result(p, NULL).bytes);
		if (!build_on_gpu(p, &built, failure))
			return false;
	}
	return built || build_on_cores(p, failure);
}

static bool
judge(GrnPipeline *p, GrnFailure *failure)
{
	if (!grn_pipeline_judge_codes(p, failure))
		return false;
	grn_pipeline_judge_form(p);
	return true;
}

/* Writes the lists of nearest rows, or an index's records, for which the leader may wait. */
static bool
write_result(GrnPipeline *p, GrnFailure *failure)
{
	const GrnBuildSpec *spec = p->build->spec;

	if (spec->near.k > 0)
	{
		if (spec->near.exact)
			number_by_rank(p);
		return grn_pipeline_write_nearest(p, failure);
	}
	grn_progress_phase(&p->progress, GRN_STEP_CODES, p->graph.n);
	if (!grn_pipeline_write_result(p, failure))
		return false;
	end_step(p, GRN_STEP_CODES);
	p->build->host->written(p->build->host->ctx);
	if (!spec->skip_recall && !p->plan.fit_later)
		grn_pipeline_measure_recall(p);
	end_step(p, GRN_STEP_RECALL);
	return true;
}

/* The steps of a build.  Seconds that a step has not counted itself count for `step`. */
static const struct
{
	GrnStep		step;
	bool		of_graph;		/* left out if all rows are compared with all rows */
	bool		(*run) (GrnPipeline *p, GrnFailure *failure);
}			steps[] = {
	{GRN_STEP_PREPARE, false, check_rows},
	{GRN_STEP_PREPARE, false, choose_layout},
	{GRN_STEP_PREPARE, false, plan_memory},
	{GRN_STEP_CODES, true, build_graph},
	{GRN_STEP_CONNECT, true, judge},
	{GRN_STEP_CONNECT, true, finish_graph},
	{GRN_STEP_CODES, false, write_result}
};

bool
grn_build(GrnBuild *build, GrnBuildResult *result, GrnFailure *failure)
{
	const GrnBuildSpec *spec = build->spec;
	const GrnHost *host = build->host;
	bool		exact = spec->near.k > 0 && spec->near.exact;
	GrnPipeline p = {.since = grn_seconds(), .processor_before = grn_processor_seconds()};

	p.build = build;
	p.metric = grn_metric(spec->metric);
	p.plan.choice = (GrnDeviceChoice) {.device = spec->device, .gpu_devices = spec->gpu_devices,
									   .options.memory_limit = spec->gpu_memory_limit,
									   .work_limit = spec->work_limit};
	p.plan.keep = (GrnKeep) spec->keep;
	grn_progress_init(&p.progress, build->threads, host);
	grn_progress_init(&p.beside, build->threads, host);
	p.parallel = &p.progress.parallel;
	p.result = result;
	result->params = spec->params;
	if (build->n == 0 || build->n >= GRN_MAX_NODES)
		return grn_fail(failure, build->n ? "54000" : "08P01", "",
						"%llu rows cannot be built", (unsigned long long) build->n);

	grn_progress_phase(&p.progress, GRN_STEP_PREPARE, build->n);
	p.rows = (GrnRows) {.base = build->vectors, .n = build->n, .row_bytes = spec->row_bytes, .dim = spec->dim,
						.embedding = p.metric->embedding, .form = (GrnForm) spec->form,
						.comparison = p.metric->comparison};
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
	{
		if (steps[i].of_graph && exact)
			continue;
		if (!steps[i].run(&p, failure))
		{
			if (p.finish.started)
				grn_finish_abandon(&p.finish);
			else if (p.finish.gpu)
				grn_drop_graph(p.finish.gpu);
			return false;
		}
		end_step(&p, steps[i].step);
	}
	return true;
}
