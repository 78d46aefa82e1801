/*
 * gpus.h - the GPUs that this process has opened.
 */
#ifndef GRN_GPUS_H
#define GRN_GPUS_H

#include "builder/host.h"

/* Where a graph is to be built. */
typedef struct GrnDeviceChoice
{
	uint32_t	device;			/* GrnDevice */
	const char *gpu_devices;	/* "0,1"; empty or NULL: the first */
	GrnGpuOptions options;
	uint64_t	work_limit;		/* bytes of workspace to stay under where cores build; 0: free
								 * memory */
	float		overlap;		/* share of rows in two parts; 0: the default */
} GrnDeviceChoice;

/*
 * Opens all GPUs of the choice; *gpu is the first, NULL where the
 * processor builds.
 */
extern bool grn_device_open(const GrnDeviceChoice *choice, int threads,
							const GrnHost *host, GrnGpu **gpu, char *name,
							size_t name_size, GrnFailure *failure);
/* How many are open. */
extern int	grn_open_gpus(void);
#define GRN_HANDLES 2			/* of a device */
/*
 * A handle of device i, by its number.  The first is open.  The others, with streams and
 * buffers of their own, are opened when they are first asked for: NULL where that fails.
 */
extern GrnGpu *grn_open_handle(int i, int handle);
/* The same, NULL where it has not been asked for yet. */
extern GrnGpu *grn_handle(int i, int handle);
extern void grn_device_close(void);
/* Fails with the SQLSTATE for a GPU's refusal. */
extern bool grn_gpu_refused(GrnFailure *failure, const GrnGpuError *err);

#endif							/* GRN_GPUS_H */
