/*
 * parts.h - builds in parts: graphs of more rows than a device, or a limit, has memory for, and
 * builds on several GPUs.
 */
#ifndef GRN_BUILDER_PARTS_H
#define GRN_BUILDER_PARTS_H

#include "builder/job.h"

/*
 * Builds the job's graph in overlapping parts on all open GPUs; *err says why not
 * where the status is not GRN_GPU_OK.  GRN_GPU_FAILED with *failure filled
 * (sqlstate set): host memory could not be had, no other device helps.
 */
extern GrnGpuStatus grn_build_parts_on_gpus(GrnGraphJob *job, GrnGpuError *err,
											GrnFailure *failure);

/* Builds it on the processor's cores; the workspace stays under limit bytes where it can. */
extern bool grn_build_parts_on_cores(GrnGraphJob *job, uint64_t limit, GrnFailure *failure);

#endif							/* GRN_BUILDER_PARTS_H */
