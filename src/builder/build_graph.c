/*
 * build_graph.c - builds the graph: on a GPU as a whole, on several GPUs in parts, or on the
 * processor's cores.
 */
#include "builder/build_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builder/gpus.h"
#include "graph/descent.h"
#include "memory/memory.h"

#define LEAST_PART_ROWS 1024	/* a build with fewer rows is never cut into parts */

/*
 * When digests are too coarse (too_coarse()).  Half and twice of each constant change nothing for
 * 19,000 sentences and for 300,000 rows in clusters of widths from .001 to .3; but with twice of
 * COARSE the GPU refuses these clusters, of which its graph has recall .998.
 */
#define COARSE_PROBES 512		/* sampled rows that judge the digests */
#define COARSE_NEIGHBOR 8		/* a row is crowded if its neighbor of this number is nearer than
								 * COARSE allows */
#define COARSE 1e-3f			/* limit of a crowded row's neighbor distance, as a share of the
								 * row's distance from the mean */
#define MOST_COARSE 0.1			/* digests are too coarse if a larger share of the sample is
								 * crowded */

static bool
gpu_progress(void *ctx, uint64_t round, uint64_t rounds)
{
	GrnProgress *progress = ctx;

	if (progress->phase != GRN_STEP_DESCENT)
	{
		grn_progress_phase(progress, GRN_STEP_DESCENT, progress->total);
		grn_progress_done(progress, 0, rounds);
	}
	grn_progress_done(progress, round, rounds);
	return true;
}

/* GPU options for a build of all rows at once. */
static GrnGpuOptions
whole_options(const GrnGraphJob *job)
{
	GrnGpuOptions options = job->choice->options;

	options.fill = job->fill;
	options.few_directions = grn_few_directions(job->rows);
	if (grn_has_bit_digests(job->rows))
		options.rows = GRN_GPU_BIT_DIGESTS;
	return options;
}

static GrnGpuStatus
build_whole(GrnGraphJob *job, const GrnGpuOptions *options, const GrnGraphParams *params, GrnGpuError *err)
{
	GrnGpuStatus status;

	status = grn_gpu_begin(job->gpu, job->rows->n, job->rows->dim, options, params, err);

	if (status == GRN_GPU_OK)
		status = grn_upload(job->gpu, job->rows, &job->progress->parallel, job->progress, err);
	if (status == GRN_GPU_OK)
		status = grn_gpu_build(job->gpu, job->graph->ids, job->graph->counts, gpu_progress,
							   job->progress, &job->times, err);
	/* A build in parts may follow and needs the memory of the digests. */
	if (status != GRN_GPU_OK)
		grn_gpu_drop_digests(job->gpu);
	job->holder = status == GRN_GPU_OK && job->hold ? job->gpu : NULL;
	if (!job->holder)
		grn_gpu_end(job->gpu);
	return status;
}

/*
 * Whether the GPU's digests, of at most 11 bits a value, are too coarse to have told the rows
 * apart.  Digests are too coarse if neighbors are very near each other compared with the rows'
 * distance from the mean.  The test takes the distances in the lists of a sample of rows, and
 * ignores equal rows.
 */
static bool
too_coarse(const GrnGraphJob *job)
{
	const GrnRows *rows = job->rows;
	const GrnGraph *graph = job->graph;
	size_t		probes = rows->n < COARSE_PROBES ? rows->n : COARSE_PROBES;
	size_t		close = 0;
	float	   *mean = calloc(2 * (size_t) rows->dim, sizeof(float));
	float	   *x = mean + rows->dim;

	if (!mean)
		return false;
	for (size_t i = 0; i < probes; i++)
	{
		grn_copy_rows(rows, rows->n * i / probes, 1, x);
		grn_dist->add_scaled(mean, 1 / (float) probes, x, rows->dim);
	}
	for (size_t i = 0; i < probes; i++)
	{
		size_t		v = rows->n * i / probes;
		uint32_t	count = graph->counts[v] < COARSE_NEIGHBOR ? graph->counts[v] : COARSE_NEIGHBOR;
		float		d = count == 0 ? 0 : grn_row_distance(rows, grn_row(rows, v),
														  grn_row(rows, graph->ids[v * graph->degree + count - 1]));

		grn_copy_rows(rows, v, 1, x);
		close += d > 0 && d < COARSE * COARSE * grn_dist->l2_f32(x, mean, rows->dim);
	}
	free(mean);
	return (double) close > MOST_COARSE * (double) probes;
}

/* Reduces a parameter to the largest value that the build can use, with a notice. */
static void
limit_param(const GrnGraphJob *job, const char *name, uint32_t *param, uint32_t most, const char *where)
{
	char		text[128];

	if (*param <= most)
		return;
	snprintf(text, sizeof(text), "%s = %u is more than a build on %s can use: it is %u there",
			 name, *param, where, most);
	job->host->notice(job->host->ctx, text, "");
	*param = most;
}

GrnGpu *
grn_load_graph(GrnGpu *gpu, const GrnGraph *graph, const GrnDeviceChoice *choice)
{
	GrnGpuError ignored;
	bool		kept;

	do
	{
		if (grn_gpu_take_graph(gpu, graph->n, graph->degree, graph->ids, graph->counts,
							   choice->options.memory_limit, &ignored) == GRN_GPU_OK)
			return gpu;
		/* Without the digests the graph may fit. */
		kept = grn_gpu_has_digests(gpu);
		grn_drop_graph(gpu);
	} while (kept);
	return NULL;
}

void
grn_drop_graph(GrnGpu *gpu)
{
	grn_gpu_end(gpu);
	grn_gpu_drop_digests(gpu);
}

/*
 * A single GPU builds the whole graph if the GPU has enough memory, and a build in parts on all
 * GPUs is not faster.
 */
static GrnGpuStatus
gpu_build(GrnGraphJob *job, GrnGpuError *err, GrnFailure *failure)
{
	const GrnRows *rows = job->rows;
	GrnGpuOptions options = whole_options(job);
	GrnGraphParams params;
	uint64_t	limit = 0;
	bool		whole;
	GrnGpuStatus status;

	memset(err, 0, sizeof(*err));
	failure->sqlstate[0] = '\0';
	job->part_times.nparts = 0;
	limit_param(job, "r", &job->params->r, GRN_GPU_MOST_R, "a GPU");
	limit_param(job, "s", &job->params->s, GRN_GPU_MOST_S, "a GPU");
	params = *job->params;
	grn_gpu_default_params(&params, rows->dim);
	status = grn_gpu_limit(job->gpu, options.memory_limit, &limit, err);
	whole = status == GRN_GPU_OK && !grn_parts_are_faster(grn_open_gpus(), rows->n) &&
		grn_gpu_plan(job->gpu, &params, &options, rows->n, rows->dim) <= limit;
	if (whole)
		status = build_whole(job, &options, &params, err);
	if (whole && status == GRN_GPU_OK)
		*job->params = params;
	/* Parts are needed: memory was too short for the whole, or further GPUs may succeed. */
	else if (status == GRN_GPU_OK || status == GRN_GPU_MEMORY ||
			 (status != GRN_GPU_CANCELLED && grn_open_gpus() > 1))
		status = grn_build_parts_on_gpus(job, err, failure);
	if (status == GRN_GPU_OK && too_coarse(job))
	{
		snprintf(err->text, sizeof(err->text), "the rows lie too close together for the GPU's digests");
		status = GRN_GPU_FAILED;
		grn_gpu_drop_digests(job->gpu);
	}
	if (status == GRN_GPU_OK && job->hold && !job->holder)
		job->holder = grn_load_graph(job->gpu, job->graph, job->choice);
	if (status != GRN_GPU_OK && job->holder)
	{
		grn_drop_graph(job->holder);
		job->holder = NULL;
	}
	err->status = status;
	return status;
}

/* ---- cores ---- */

static void
cpu_progress(void *ctx, uint64_t done, uint64_t total)
{
	grn_progress_done(ctx, done, total);
}

static bool
cpu_build(GrnGraphJob *job, GrnFailure *failure)
{
	uint64_t	limit = grn_memory_limit(job->choice->work_limit);
	uint64_t	bytes;
	char	   *work;

	job->part_times.nparts = 0;
	grn_default_params(job->params, job->rows->dim, job->rows->n);
	limit_param(job, "s", &job->params->s, job->params->r, "cores");
	bytes = grn_rnnd_bytes(job->params, job->rows->n, grn_copied_dims(job->rows));
	if (bytes > limit && job->rows->n > LEAST_PART_ROWS)
		return grn_build_parts_on_cores(job, limit, failure);
	work = job->host->need(job->host->ctx, GRN_SEG_WORK, job->work_offset + bytes, failure);
	if (!work)
		return false;
	grn_progress_phase(job->progress, GRN_STEP_DESCENT, job->rows->n);
	grn_progress_done(job->progress, 0, GRN_MOST_REPORTS);
	grn_rnnd_build(job->rows, job->params, job->fill, &job->progress->parallel,
				   work + job->work_offset, job->graph, cpu_progress, job->progress);
	return true;
}

bool
grn_build_graph(GrnGraphJob *job, GrnFailure *failure)
{
	/* A GPU that fails later has replaced the parameters by its own defaults. */
	const GrnGraphParams given = *job->params;
	GrnGpuError err;
	char		text[512];

	job->on_gpu = false;
	job->holder = NULL;
	job->graph->n = (uint32_t) job->rows->n;
	/* A graph with a single vertex needs no device. */
	if (job->gpu && job->rows->n > 1)
	{
		if (gpu_build(job, &err, failure) == GRN_GPU_OK)
		{
			job->on_gpu = true;
			return true;
		}
		if (failure->sqlstate[0])
			return false;
		if (job->choice->device == GRN_DEVICE_GPU || err.status == GRN_GPU_CANCELLED)
			return grn_gpu_refused(failure, &err);
		snprintf(text, sizeof(text), "the GPU cannot build: building on %d CPU threads",
				 job->progress->parallel.nworkers);
		job->host->notice(job->host->ctx, text, err.text);
		if (job->gpu_alone)
			return false;
	}
	*job->params = given;
	return cpu_build(job, failure);
}
