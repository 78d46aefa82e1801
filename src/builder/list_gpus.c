/*
 * list_gpus.c - `grnnd_build --devices`: lists the GPUs for grnnd_devices().
 *
 * The list has a line for each GPU.  The fields are separated by tabs: number, name, compute
 * capability, bytes of memory, bytes free.  The line of an unusable GPU has the number, a tab, an
 * exclamation mark and the reason.  If no GPU can be used at all, "-" replaces the number.
 */
#include "builder/gpus.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "cuda/gpu.h"

/* A driver that hangs must not hang the caller: SIGALRM ends this process. */
#define LIMIT_SECONDS 20

static void
list_one(int device)
{
	GrnGpu	   *gpu = NULL;
	GrnGpuInfo	info;
	GrnGpuError err = {.status = GRN_GPU_OK};
	GrnGpuStatus status = grn_gpu_open(device, &gpu, &err);

	if (status == GRN_GPU_OK)
		status = grn_gpu_info(gpu, &info, &err);
	if (status == GRN_GPU_OK)
		printf("%d\t%s\t%d.%d\t%" PRIu64 "\t%" PRIu64 "\n", device, info.name,
			   info.major, info.minor, info.memory_total, info.memory_free);
	else
		printf("%d\t!%s\n", device, err.text);
	if (gpu)
		grn_gpu_close(gpu);
}

int
grn_list_gpus(void)
{
	GrnGpuError err = {.status = GRN_GPU_OK};
	int			count = 0;

	alarm(LIMIT_SECONDS);
	if (grn_gpu_count(&count, &err) != GRN_GPU_OK)
		printf("-\t!%s\n", err.text);
	for (int i = 0; i < count; i++)
		list_one(i);
	return 0;
}
