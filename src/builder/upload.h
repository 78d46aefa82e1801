/*
 * upload.h - rows on their way to a GPU.
 */
#ifndef GRN_UPLOAD_H
#define GRN_UPLOAD_H

#include "builder/progress.h"
#include "cuda/gpu.h"
#include "graph/rows.h"

/*
 * Rows to a GPU's build.  Floats go by way of copies where they do not lie together or are
 * scaled, and so do forms that no device takes; it brings shorter ones to their places itself.
 * progress: of whose step this is a part, or NULL.
 */
extern GrnGpuStatus grn_upload(GrnGpu *gpu, const GrnRows *rows, GrnParallel *parallel, GrnProgress *progress,
							   GrnGpuError *err);
/* Does a device take rows of this form as they are? */
extern bool grn_gpu_takes(const GrnRows *rows);
extern GrnGpuSource grn_gpu_source(const GrnRows *rows);
/* Whether rows can be GRN_GPU_BIT_DIGESTS. */
extern bool grn_has_bit_digests(const GrnRows *rows);
/* Whether a GPU's build of these rows asks for GrnGpuFit.few_directions. */
extern bool grn_few_directions(const GrnRows *rows);
/* Copies count rows to out [count][dim], to their places in the space. */
extern void grn_copy_rows(const GrnRows *rows, size_t first, size_t count, float *out);

#endif							/* GRN_UPLOAD_H */
