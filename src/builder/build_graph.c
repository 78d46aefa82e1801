/*
 * build_graph.c - which device builds, and the one call that builds the graph there.
 */
#include "builder/parts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/build/descent.h"

/* Rows copied together for the GPU where they do not lie together, or elsewhere in the space. */
#define STAGE_BYTES ((size_t) 64 << 20)
#define STAGE_GRAIN 256			/* rows a thread copies at a time */
#define LEAST_PART_ROWS 1024	/* fewer are no parts' worth */

/* Codes are too coarse where of so many rows more than this share have so many neighbours */
#define COARSE_PROBES 512
#define MOST_COARSE 0.1
#define COARSE_PLACE 8
#define COARSE 1e-3f			/* within this part of their distance from the middle */

/* The SQLSTATE for a GPU's refusal. */
static bool
gpu_failed(GrnFailure *failure, const GrnGpuError *err)
{
	static const char other[] = "Set grnnd.build_device to \"auto\" or \"cpu\" to build on the processor.";

	if (err->status == GRN_GPU_MEMORY)
		return grn_fail(failure, "53200", other,
						"the graph does not fit into the GPU's memory: %s", err->text);
	if (err->status == GRN_GPU_CANCELLED)
		return grn_fail(failure, "57014", "", "the build was cancelled");
	return grn_fail(failure, "58000", other, "the GPU cannot build: %s", err->text);
}

/* The devices of this process; the contexts outlive a build. */
static struct
{
	GrnGpu	   *gpus[GRN_MAX_GPUS][GRN_LANES];
	int			numbers[GRN_MAX_GPUS];
	int			n;
} opened;

int
grn_open_gpus(void)
{
	return opened.n;
}

GrnGpu *
grn_lane(int i, int lane)
{
	return opened.gpus[i][lane];
}

GrnGpu *
grn_open_lane(int i, int lane)
{
	GrnGpuError err;

	if (!opened.gpus[i][lane])
		grn_gpu_open(opened.numbers[i], &opened.gpus[i][lane], &err);
	return opened.gpus[i][lane];
}

void
grn_device_close(void)
{
	for (int i = 0; i < opened.n; i++)
		for (int lane = 0; lane < GRN_LANES; lane++)
			if (opened.gpus[i][lane])
				grn_gpu_close(opened.gpus[i][lane]);
	memset(&opened, 0, sizeof(opened));
}

/* The numbers in a list, 0 where it is empty; each may be there once. */
static bool
device_numbers(const char *list, int *numbers, int *n, GrnFailure *failure)
{
	const char *at = list;

	numbers[0] = 0;
	*n = 1;
	if (!list || !list[0])
		return true;
	for (*n = 0;; at++)
	{
		char	   *end;
		long		value = strtol(at, &end, 10);
		bool		again = false;

		for (int i = 0; i < *n; i++)
			again |= numbers[i] == value;
		if (end == at || (*end != ',' && *end != '\0') || value < 0 || value > 1023 || again)
			return grn_fail(failure, "22023", "Give different numbers separated by commas, such as 0,1.",
							"\"%s\" is not a list of GPUs", list);
		if (*n == GRN_MAX_GPUS)
			return grn_fail(failure, "22023", "", "at most %d GPUs can build together", GRN_MAX_GPUS);
		numbers[(*n)++] = (int) value;
		if (*end == '\0')
			return true;
		at = end;
	}
}

/* Opens one device; several threads do so side by side, since a context takes long. */
typedef struct Opening
{
	int			number;
	GrnGpu	   *gpu;
	GrnGpuInfo	info;
	GrnGpuStatus status;
	GrnGpuError err;
	pthread_t	thread;
	bool		started;
} Opening;

static void *
open_main(void *arg)
{
	Opening    *o = arg;

	o->status = grn_gpu_open(o->number, &o->gpu, &o->err);
	if (o->status == GRN_GPU_OK)
		o->status = grn_gpu_info(o->gpu, &o->info, &o->err);
	if (o->status != GRN_GPU_OK && o->gpu)
	{
		grn_gpu_close(o->gpu);
		o->gpu = NULL;
	}
	o->err.status = o->status;
	return NULL;
}

bool
grn_device_open(const GrnDeviceChoice *choice, int threads, const GrnHost *host,
				GrnGpu **gpu, char *name, size_t name_size, GrnFailure *failure)
{
	Opening		opening[GRN_MAX_GPUS];
	const Opening *first = NULL;
	const Opening *failed = NULL;
	int			numbers[GRN_MAX_GPUS];
	int			n;
	char		text[512];

	*gpu = NULL;
	snprintf(name, name_size, "%d CPU threads", threads);
	if (choice->device == GRN_DEVICE_CPU)
		return true;
	if (!device_numbers(choice->gpu_devices, numbers, &n, failure))
		return false;
	memset(opening, 0, sizeof(opening));
	for (int i = n; i-- > 0;)
	{
		opening[i].number = numbers[i];
		opening[i].started = i > 0 &&
			pthread_create(&opening[i].thread, NULL, open_main, &opening[i]) == 0;
		if (!opening[i].started)
			open_main(&opening[i]);
	}
	memset(&opened, 0, sizeof(opened));
	for (int i = 0; i < n; i++)
	{
		if (opening[i].started)
			pthread_join(opening[i].thread, NULL);
		if (opening[i].status != GRN_GPU_OK)
			failed = failed ? failed : &opening[i];
		else
		{
			first = first ? first : &opening[i];
			opened.numbers[opened.n] = numbers[i];
			opened.gpus[opened.n++][0] = opening[i].gpu;
		}
	}
	if (failed && choice->device == GRN_DEVICE_GPU)
	{
		grn_device_close();
		return gpu_failed(failure, &failed->err);
	}
	if (failed)
	{
		if (first)
			snprintf(text, sizeof(text), "GPU %d is not usable: building on %d of %d GPUs",
					 failed->number, opened.n, n);
		else
			snprintf(text, sizeof(text), "no usable GPU: building on %d CPU threads", threads);
		host->notice(host->ctx, text, failed->err.text);
	}
	if (first)
	{
		*gpu = first->gpu;
		if (opened.n > 1)
			snprintf(name, name_size, "%d GPUs, the first %s", opened.n, first->info.name);
		else
			snprintf(name, name_size, "%s", first->info.name);
	}
	return true;
}

/* ---- GPU ---- */

static bool
gpu_progress(void *ctx, uint64_t round, uint64_t rounds)
{
	const GrnHost *host = ctx;

	host->phase(host->ctx, GRN_PHASE_DESCENT, round, rounds);
	return true;
}

void
grn_copy_rows(const GrnRows *rows, size_t first, size_t count, float *out)
{
	for (size_t i = 0; i < count; i++)
	{
		const float *row = grn_row(rows, first + i);
		float		scale = grn_row_scale(rows, row);

		for (uint32_t j = 0; j < rows->dim; j++)
			out[i * rows->dim + j] = scale * row[j];
	}
}

typedef struct Stage
{
	const GrnRows *rows;
	size_t		first;
	float	   *out;
} Stage;

static void
stage_range(void *arg, int worker, size_t begin, size_t end)
{
	const Stage *stage = arg;

	(void) worker;
	grn_copy_rows(stage->rows, stage->first + begin, end - begin,
				  stage->out + begin * stage->rows->dim);
}

GrnGpuStatus
grn_upload(GrnGpu *gpu, const GrnRows *rows, GrnParallel *parallel, GrnGpuError *err)
{
	size_t		piece = STAGE_BYTES / (4 * (size_t) rows->dim);
	GrnGpuStatus status = GRN_GPU_OK;
	Stage		stage = {rows, 0, NULL};

	if (!rows->order && !rows->scaled)
		return grn_gpu_rows(gpu, 0, rows->n, rows->base, rows->stride, err);
	if (piece == 0)
		piece = 1;
	if (piece > rows->n)
		piece = rows->n;
	stage.out = malloc(piece * rows->dim * sizeof(float));
	if (!stage.out)
	{
		snprintf(err->text, sizeof(err->text), "out of host memory");
		return GRN_GPU_FAILED;
	}
	for (; stage.first < rows->n && status == GRN_GPU_OK; stage.first += piece)
	{
		size_t		count = rows->n - stage.first < piece ? rows->n - stage.first : piece;

		parallel->run(parallel, count, STAGE_GRAIN, stage_range, &stage);
		status = grn_gpu_rows(gpu, stage.first, count, stage.out, rows->dim, err);
	}
	free(stage.out);
	return status;
}

/*
 * In inner product's space long rows lie in the middle and are near all others; by more
 * directions still more so, and more rows are in nobody's list (src/README, Tried).
 */
bool
grn_few_directions(const GrnRows *rows)
{
	return rows->scaled;
}

static GrnGpuStatus
build_whole(GrnGraphJob *job, const GrnGraphParams *params, GrnGpuError *err)
{
	GrnGpuOptions options = job->choice->options;
	GrnGpuStatus status;

	options.fill = job->fill;
	options.few = grn_few_directions(job->rows);
	status = grn_gpu_begin(job->gpu, job->rows->n, job->rows->dim, &options, params, err);
	if (status == GRN_GPU_OK)
		status = grn_upload(job->gpu, job->rows, grn_pool_parallel(job->pool), err);
	if (status == GRN_GPU_OK)
		status = grn_gpu_build(job->gpu, params, &options, job->graph->ids,
							   job->graph->counts, gpu_progress, (void *) job->host,
							   &job->times, err);
	grn_gpu_end(job->gpu);
	return status;
}

/*
 * Whether rows lie so close together, beside their distance from the middle, that the GPU's
 * codes, 11 bits of a value at best, cannot have told them apart: of a sample, by the
 * distance of a neighbour in the list.  Equal rows are nobody's fault.
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
		uint32_t	count = graph->counts[v] < COARSE_PLACE ? graph->counts[v] : COARSE_PLACE;
		float		d = count == 0 ? 0 : grn_row_distance(rows, grn_row(rows, v),
														  grn_row(rows, graph->ids[v * graph->degree + count - 1]));

		grn_copy_rows(rows, v, 1, x);
		close += d > 0 && d < COARSE * COARSE * grn_dist->l2_f32(x, mean, rows->dim);
	}
	free(mean);
	return (double) close > MOST_COARSE * (double) probes;
}

/*
 * The whole at once where one GPU has memory for it and it is not so large that
 * several are faster; else in parts.
 */
static GrnGpuStatus
gpu_build(GrnGraphJob *job, GrnGpuError *err, GrnFailure *failure)
{
	GrnGraphParams params = *job->params;
	uint64_t	limit;
	bool		whole;
	GrnGpuStatus status;

	memset(err, 0, sizeof(*err));
	failure->sqlstate[0] = '\0';
	job->part_times.nparts = 0;
	grn_gpu_default_params(&params, job->rows->dim, job->rows->n);
	status = grn_gpu_limit(job->gpu, &job->choice->options, &limit, err);
	whole = status == GRN_GPU_OK && !grn_partition_spreads(job) &&
		grn_gpu_plan(job->gpu, &params, &job->choice->options, job->rows->n, job->rows->dim) <= limit;
	if (whole)
		status = build_whole(job, &params, err);
	if (whole && status == GRN_GPU_OK)
		*job->params = params;
	/* what there was no memory for after all, or what other GPUs may do */
	else if (status == GRN_GPU_OK || status == GRN_GPU_MEMORY ||
			 (status != GRN_GPU_CANCELLED && grn_open_gpus() > 1))
		status = grn_partition_gpus(job, err, failure);
	if (status == GRN_GPU_OK && job->choice->options.mode == GRN_GPU_TILE && too_coarse(job))
	{
		snprintf(err->text, sizeof(err->text), "the rows lie too close together for the GPU's codes");
		status = GRN_GPU_FAILED;
	}
	err->status = status;
	return status;
}

/* ---- either ---- */

static bool
cpu_progress(void *ctx, GrnPhase phase, uint64_t done, uint64_t total)
{
	const GrnHost *host = ctx;

	host->phase(host->ctx, phase, done, total);
	return true;
}

/* The first number in a file, 0 where there is none. */
static uint64_t
number_in(const char *path)
{
	unsigned long long value = 0;
	FILE	   *f = fopen(path, "r");

	if (f && fscanf(f, "%llu", &value) != 1)
		value = 0;
	if (f)
		fclose(f);
	return value;
}

/* Bytes of file cache, which the kernel gives back, among those that a cgroup uses. */
static uint64_t
file_cache(const char *path)
{
	unsigned long long value;
	uint64_t	bytes = 0;
	char		line[128];
	FILE	   *f = fopen(path, "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "inactive_file %llu", &value) == 1 ||
			sscanf(line, "active_file %llu", &value) == 1)
			bytes += value;
	if (f)
		fclose(f);
	return bytes;
}

/* Bytes of memory that the processor's build may take where nobody set a limit. */
static uint64_t
free_memory(void)
{
	unsigned long long kb;
	uint64_t	bytes = UINT64_MAX;
	uint64_t	most = number_in("/sys/fs/cgroup/memory.max");
	uint64_t	used = number_in("/sys/fs/cgroup/memory.current");
	uint64_t	cache = file_cache("/sys/fs/cgroup/memory.stat");
	char		line[128];
	FILE	   *f = fopen("/proc/meminfo", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu kB", &kb) == 1)
			bytes = (uint64_t) kb << 10;
	if (f)
		fclose(f);
	used -= cache < used ? cache : used;
	if (most > 0 && most < UINT64_MAX && most > used && most - used < bytes)
		bytes = most - used;
	return bytes;
}

static bool
cpu_build(GrnGraphJob *job, GrnFailure *failure)
{
	uint64_t	limit = job->choice->work_limit ? job->choice->work_limit : free_memory();
	uint64_t	bytes;
	char	   *work;

	job->part_times.nparts = 0;
	grn_default_params(job->params, job->rows->dim, job->rows->n);
	bytes = grn_rnnd_bytes(job->params, job->rows->n, job->rows->dim);
	if (bytes > limit && job->rows->n > LEAST_PART_ROWS)
		return grn_partition_cores(job, limit, failure);
	work = job->host->need(job->host->ctx, GRN_SEG_WORK, job->work_offset + bytes, failure);
	if (!work)
		return false;
	grn_rnnd_build(job->rows, job->params, job->fill, grn_pool_parallel(job->pool),
				   work + job->work_offset, job->graph, cpu_progress, (void *) job->host);
	return true;
}

bool
grn_device_build(GrnGraphJob *job, GrnFailure *failure)
{
	/* a GPU that fails in the end has put its own defaults in their place */
	const GrnGraphParams given = job->given ? *job->given : *job->params;
	GrnGpuError err;
	char		text[512];

	job->on_gpu = false;
	job->graph->n = (uint32_t) job->rows->n;
	/* A graph of one vertex needs no device. */
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
			return gpu_failed(failure, &err);
		snprintf(text, sizeof(text), "the GPU cannot build: building on %d CPU threads",
				 grn_pool_parallel(job->pool)->nworkers);
		job->host->notice(job->host->ctx, text, err.text);
	}
	*job->params = given;
	return cpu_build(job, failure);
}
