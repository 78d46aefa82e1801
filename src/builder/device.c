/*
 * device.c - which device builds, and the one call that builds the graph there.
 */
#include "build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows copied together for the GPU where they do not lie together. */
#define STAGE_BYTES ((size_t) 16 << 20)

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

/* The first device named in the list, or device 0. */
static bool
first_device(const char *list, int *device, GrnFailure *failure)
{
	char	   *end;
	long		value = 0;

	if (list && list[0])
	{
		value = strtol(list, &end, 10);
		if (end == list || (*end != ',' && *end != '\0') || value < 0 || value > 1023)
			return grn_fail(failure, "22023", "Give numbers separated by commas, such as 0,1.",
							"\"%s\" is not a list of GPUs", list);
	}
	*device = (int) value;
	return true;
}

bool
grn_device_open(const GrnDeviceChoice *choice, int threads, const GrnHost *host,
				GrnGpu **gpu, char *name, size_t name_size, GrnFailure *failure)
{
	GrnGpuError err;
	GrnGpuInfo	info;
	GrnGpuStatus status;
	int			device = 0;
	char		text[512];

	*gpu = NULL;
	memset(&err, 0, sizeof(err));
	snprintf(name, name_size, "%d CPU threads", threads);
	if (choice->device == GRN_DEVICE_CPU)
		return true;
	if (!first_device(choice->gpu_devices, &device, failure))
		return false;
	status = grn_gpu_open(device, gpu, &err);
	if (status == GRN_GPU_OK)
		status = grn_gpu_info(*gpu, &info, &err);
	if (status == GRN_GPU_OK)
	{
		snprintf(name, name_size, "%s", info.name);
		return true;
	}
	if (*gpu)
		grn_gpu_close(*gpu);
	*gpu = NULL;
	err.status = status;
	if (choice->device == GRN_DEVICE_GPU)
		return gpu_failed(failure, &err);
	snprintf(text, sizeof(text), "no usable GPU: building on %d CPU threads", threads);
	host->notice(host->ctx, text, err.text);
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

static GrnGpuStatus
upload(GrnGraphJob *job, GrnGpuError *err)
{
	const GrnRows *rows = job->rows;
	size_t		piece = STAGE_BYTES / (4 * (size_t) rows->dim);
	GrnGpuStatus status = GRN_GPU_OK;
	float	   *stage;

	if (!rows->order)
		return grn_gpu_rows(job->gpu, 0, rows->n, rows->base, rows->stride, err);
	if (piece == 0)
		piece = 1;
	stage = malloc(piece * rows->dim * sizeof(float));
	if (!stage)
	{
		snprintf(err->text, sizeof(err->text), "out of host memory");
		return GRN_GPU_FAILED;
	}
	for (size_t first = 0; first < rows->n && status == GRN_GPU_OK; first += piece)
	{
		size_t		count = rows->n - first < piece ? rows->n - first : piece;

		for (size_t i = 0; i < count; i++)
			memcpy(stage + i * rows->dim, grn_row(rows, first + i),
				   rows->dim * sizeof(float));
		status = grn_gpu_rows(job->gpu, first, count, stage, rows->dim, err);
	}
	free(stage);
	return status;
}

static GrnGpuStatus
gpu_build(GrnGraphJob *job, GrnGpuError *err)
{
	GrnGraphParams params = *job->params;
	GrnGpuOptions options = job->choice->options;
	GrnGpuStatus status;

	memset(err, 0, sizeof(*err));
	options.fill = job->fill;
	grn_gpu_default_params(&params, job->rows->dim, job->rows->n);
	status = grn_gpu_begin(job->gpu, job->rows->n, job->rows->dim, &options, &params, err);
	if (status == GRN_GPU_OK)
		status = upload(job, err);
	if (status == GRN_GPU_OK)
		status = grn_gpu_build(job->gpu, &params, &options, job->graph->ids,
							   job->graph->counts, gpu_progress, (void *) job->host,
							   &job->times, err);
	grn_gpu_end(job->gpu);
	if (status == GRN_GPU_OK)
		*job->params = params;
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

bool
grn_device_build(GrnGraphJob *job, GrnFailure *failure)
{
	GrnGpuError err;
	GrnParallel *parallel = grn_pool_parallel(job->pool);
	char		text[512];
	char	   *work;

	job->on_gpu = false;
	job->graph->n = (uint32_t) job->rows->n;
	/* A graph of one vertex needs no device. */
	if (job->gpu && job->rows->n > 1)
	{
		if (gpu_build(job, &err) == GRN_GPU_OK)
		{
			job->on_gpu = true;
			return true;
		}
		if (job->choice->device == GRN_DEVICE_GPU || err.status == GRN_GPU_CANCELLED)
			return gpu_failed(failure, &err);
		snprintf(text, sizeof(text), "the GPU cannot build: building on %d CPU threads",
				 parallel->nworkers);
		job->host->notice(job->host->ctx, text, err.text);
	}
	grn_default_params(job->params, job->rows->dim, job->rows->n);
	work = job->host->need(job->host->ctx, GRN_SEG_WORK, job->work_offset +
						   grn_rnnd_bytes(job->params, job->rows->n, job->rows->dim),
						   failure);
	if (!work)
		return false;
	grn_rnnd_build(job->rows, job->params, job->fill, parallel, work + job->work_offset, job->graph, cpu_progress,
				   (void *) job->host);
	return true;
}
