/*
 * parts.h - builds in parts: graphs whose build needs more memory than a device or a limit allows,
 * and builds on several GPUs.
 */
#ifndef GRN_BUILDER_PARTS_H
#define GRN_BUILDER_PARTS_H

#include "builder/job.h"

/*
 * Builds the job's graph in overlapping parts on all open GPUs.  If the status is not GRN_GPU_OK,
 * *err has the reason.  If *failure is filled too (sqlstate set), the host lacks memory, and no
 * other device can help.
 */
extern GrnGpuStatus grn_build_parts_on_gpus(GrnGraphJob *job, GrnGpuError *err,
											GrnFailure *failure);

/*
 * Builds the job's graph in overlapping parts on the processor's cores.  The workspace stays under
 * `limit` bytes unless the largest number of parts needs more.
 */
extern bool grn_build_parts_on_cores(GrnGraphJob *job, uint64_t limit, GrnFailure *failure);

#endif							/* GRN_BUILDER_PARTS_H */
