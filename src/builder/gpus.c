/*
 * gpus.c - the GPUs that this process has opened.  GPUs stay open from build to build.
 */
#include "builder/gpus.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool
grn_gpu_refused(GrnFailure *failure, const GrnGpuError *err)
{
	static const char other[] = "Set grnnd.build_device to \"auto\" or \"cpu\" to build on the processor.";

	if (err->status == GRN_GPU_MEMORY)
		return grn_fail(failure, "53200", other,
						"the graph does not fit into the GPU's memory: %s", err->text);
	if (err->status == GRN_GPU_CANCELLED)
		return grn_fail(failure, "57014", "", "the build was canceled");
	return grn_fail(failure, "58000", other, "the GPU cannot build: %s", err->text);
}

static struct
{
	GrnGpu	   *gpus[GRN_MAX_GPUS][GRN_HANDLES];
	int			numbers[GRN_MAX_GPUS];
	int			n;
}			opened;

int
grn_open_gpus(void)
{
	return opened.n;
}

GrnGpu *
grn_handle(int i, int handle)
{
	return opened.gpus[i][handle];
}

GrnGpu *
grn_open_handle(int i, int handle)
{
	GrnGpuError err;

	if (!opened.gpus[i][handle])
		grn_gpu_open(opened.numbers[i], &opened.gpus[i][handle], &err);
	return opened.gpus[i][handle];
}

void
grn_device_close(void)
{
	for (int i = 0; i < opened.n; i++)
		for (int handle = 0; handle < GRN_HANDLES; handle++)
			if (opened.gpus[i][handle])
				grn_gpu_close(opened.gpus[i][handle]);
	memset(&opened, 0, sizeof(opened));
}

/* Parses a list of different device numbers; empty: device 0.  Errors: SQLSTATE 22023. */
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

/* The opening of one device by a thread of its own, because a CUDA context opens slowly. */
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
		return grn_gpu_refused(failure, &failed->err);
	}
	if (failed && first)
		snprintf(text, sizeof(text), "GPU %d is not usable: building on %d of %d GPUs",
				 failed->number, opened.n, n);
	else if (failed)
	{
		snprintf(text, sizeof(text), "no usable GPU: building on %d CPU threads", threads);
		snprintf(name, name_size, "%d CPU threads, without a GPU: %s", threads, failed->err.text);
	}
	/* Without a GPU the user gets a notice only if the settings name a GPU. */
	if (failed && (first || (choice->gpu_devices && choice->gpu_devices[0] != '\0')))
		host->notice(host->ctx, text, failed->err.text);
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
