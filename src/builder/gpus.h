/*
 * gpus.h - the GPUs that this process has opened.
 */
#ifndef GRN_GPUS_H
#define GRN_GPUS_H

#include "builder/host.h"

/* The devices that may build a graph, with their limits. */
typedef struct GrnDeviceChoice
{
	uint32_t	device;			/* GrnDevice */
	const char *gpu_devices;	/* such as "0,1"; empty or NULL: the first GPU */
	GrnGpuOptions options;
	uint64_t	work_limit;		/* limit of the workspace in bytes if cores build; 0: free memory */
	float		overlap;		/* share of rows that are in two parts; 0: the default */
} GrnDeviceChoice;

/*
 * Opens all GPUs of the choice.  Sets *gpu to the first, or to NULL if the processor builds, and
 * `name` to a description of the devices.  Errors: SQLSTATE 22023, and the errors of
 * grn_gpu_refused() if the choice demands a GPU.
 */
extern bool grn_device_open(const GrnDeviceChoice *choice, int threads,
							const GrnHost *host, GrnGpu **gpu, char *name,
							size_t name_size, GrnFailure *failure);
/* Returns the number of open GPUs. */
extern int	grn_open_gpus(void);
#define GRN_HANDLES 2			/* handles of a device */
/*
 * Returns handle number `handle` of device i.  The first handle is always open.  The second has
 * streams and buffers of its own and is opened at the first call.  Returns NULL if the handle
 * cannot be opened.
 */
extern GrnGpu *grn_open_handle(int i, int handle);
/* Returns a handle only if the handle is open already, otherwise NULL. */
extern GrnGpu *grn_handle(int i, int handle);
/* Closes all open handles. */
extern void grn_device_close(void);
/* Fills *failure for an error of a GPU, with the SQLSTATE of the error's kind.  Returns false. */
extern bool grn_gpu_refused(GrnFailure *failure, const GrnGpuError *err);

#endif							/* GRN_GPUS_H */
