/*
 * host.h - the host side of a device: pinned staging buffers, copies by several
 * threads, and what gpu.cu keeps of an open device.
 */
#ifndef GRN_HOST_H
#define GRN_HOST_H

#include "common.cuh"

constexpr int COPY_THREADS = 6;	/* one thread fills pinned memory at about 10 GB/s */
constexpr size_t COPY_BYTES = (size_t) 4 << 20;	/* of a staging buffer */

struct Staging
{
	uint8_t    *h_buffer[COPY_THREADS][2];	/* pinned, COPY_BYTES each */
	cudaStream_t stream[COPY_THREADS];
	cudaEvent_t done[COPY_THREADS][2];
};

/* Where everything of one build lies in the arena: offsets in bytes. */
struct Plan
{
	Tuning		tuning;
	GrnGpuMode	mode;
	uint32_t	degree;
	uint32_t	code_dims;
	uint32_t	stride;			/* bytes of a row of codes, the most it can become */
	size_t		codes,
				order,
				norms,
				pool,
				pool_count,
				inbox[2],
				inbox_count[2],
				list,
				list_count,
				ids,			/* paper mode only: else an inbox is reused */
				counts,
				flag,
				scratch,		/* project and start: over pool and inbox[0] */
				bare_codes,		/* codes in the caller's order: over inbox[1] */
				paper,
				total;			/* without the caller's rows */
};

cudaError_t staging_open(Staging *staging);
void		staging_close(Staging *staging);
/*
 * Copies `rows` pieces of `width` bytes between d (pieces contiguous) and h
 * (pieces `pitch` apart).  To the device: h is free again when it returns.
 * From the device: complete when it returns.
 */
cudaError_t staging_copy(Staging *staging, int device, bool to_device, void *d, void *h,
						 size_t width, size_t pitch, size_t rows);
/* Waits for copies to the device. */
cudaError_t staging_wait(Staging *staging);

#endif							/* GRN_HOST_H */
