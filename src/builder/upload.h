/*
 * upload.h - copies rows to a GPU.
 */
#ifndef GRN_UPLOAD_H
#define GRN_UPLOAD_H

#include "builder/progress.h"
#include "cuda/gpu.h"
#include "space/rows.h"

/*
 * Copies rows to the GPU for a build.  A buffer on the host collects rows that are scattered or
 * scaled, or whose form no device takes.  The device itself expands rows of shorter forms.
 * progress: the progress of the enclosing step, or NULL.
 */
extern GrnGpuStatus grn_upload(GrnGpu *gpu, const GrnRows *rows, GrnParallel *parallel, GrnProgress *progress,
							   GrnGpuError *err);
/* Whether a device takes rows of this form without conversion. */
extern bool grn_gpu_takes(const GrnRows *rows);
/* Describes the rows to the GPU: address, order, stride, and kind of numbers. */
extern GrnGpuSource grn_gpu_source(const GrnRows *rows);
/* Whether the digests of the rows can be GRN_GPU_BIT_DIGESTS. */
extern bool grn_has_bit_digests(const GrnRows *rows);
/* Whether a GPU build of the rows needs GrnGpuFit.few_directions. */
extern bool grn_few_directions(const GrnRows *rows);
/* Computes the places of rows [first, first + count), and writes them to out [count][dim]. */
extern void grn_copy_rows(const GrnRows *rows, size_t first, size_t count, float *out);

#endif							/* GRN_UPLOAD_H */
