/*
 * gpu_standin.h - GPUs that are not there: cuda/gpu.h on the processor, with faults
 * on demand.
 */
#ifndef GPU_STANDIN_H
#define GPU_STANDIN_H

#include "cuda/gpu.h"

/* What the next builds find; zero: one device, memory for everything, no fault. */
typedef struct StandIn
{
	int			devices;		/* 0: one */
	uint64_t	memory;			/* bytes of a device; 0: plenty */
	int			fault_device;	/* all calls from number fault_call (from 1) on fail there */
	int			fault_call;		/* 0: none */
	GrnGpuStatus fault;
	bool		once;			/* only that call fails */
	bool		coarse;			/* byte digests are too coarse */
	int			calls[16];		/* of each device, counted from standin_reset() */
	int			builds[16];
	int			merges;
	int			kept_builds;	/* builds of digests that the device kept */
	int			wide_builds;
	bool		halves;			/* builds leave out edges between the rows' two halves */
	int			bit_builds;		/* of bit digests */
	int			short_rows;		/* that came in another form than floats */
	int			held;			/* arenas not ended, and digests not dropped */
	bool		peers_fail;		/* what others write to fault_device is an error of theirs */
	uint64_t	taken[16];		/* bytes of a device's arenas and digests now */
	bool		over;			/* was more than memory */
} StandIn;

extern StandIn standin;
extern void standin_reset(void);

#endif							/* GPU_STANDIN_H */
