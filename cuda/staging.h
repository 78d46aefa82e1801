/*
 * staging.h - copies between the host's pageable memory and devices, through pinned
 * buffers (staging.cu).
 */
#ifndef GRN_STAGING_H
#define GRN_STAGING_H

#include "common.cuh"

/*
 * Threads that fill pinned memory, one at about 10 GB/s, all as fast as the bus.  Measured
 * on 4,000,000 rows and four GPUs: 4 threads take .01 s more, 10 threads save nothing.
 */
constexpr int COPY_THREADS = 6;
/*
 * Bytes of a buffer.  Pinning takes 0.6 ms for each megabyte.  Measured as above with one
 * GPU: buffers of 256 and 128 kB take .05 and .1 s more.
 */
constexpr size_t COPY_BYTES = (size_t) 1 << 20;
/* Bytes of a buffer of a device's later handles, which are opened while other handles wait. */
constexpr size_t FURTHER_COPY_BYTES = (size_t) 512 << 10;

struct Copiers; /* staging.cu: threads that help with copies */

struct Staging
{
	Copiers		*copiers;
	size_t		 bytes;						/* bytes of a buffer */
	uint8_t		*h_buffer[COPY_THREADS][2]; /* [bytes] each, pinned */
	cudaStream_t stream[COPY_THREADS];
	cudaEvent_t	 done[COPY_THREADS][2]; /* the last copy from or to each buffer */
};

cudaError_t staging_open(Staging *staging, size_t bytes);
void		staging_close(Staging *staging);
/*
 * Copies `rows` rows of `width` bytes between d_rows [rows][width] and h_rows, where rows
 * are `pitch` bytes apart.  With index, row i is at h_rows + index[i] * pitch; for
 * GRN_INVALID_ID the device receives bytes 0xFF.  When a copy to the device returns, the
 * caller may change h_rows.  When a copy from the device returns, the copy is complete.
 */
cudaError_t staging_copy(Staging *staging, int device, bool to_device, void *d_rows,
						 void *h_rows, size_t width, size_t pitch, size_t rows,
						 const uint32_t *index = NULL);
/* One destination of a copy to several devices, with the streams of the destination's handle. */
struct CopyTarget
{
	Staging *staging;
	uint8_t *d_rows; /* [rows][width] */
};
/*
 * Copies the same rows to all targets.  The host's memory is read once, into the buffers
 * of the first target, which is on `device`.  All copies are complete when the function
 * returns.  On failure *failed is the index of the target.
 */
cudaError_t staging_spread(const CopyTarget *targets, int ntargets, int device,
						   void *h_rows, size_t width, size_t rows, int *failed);
/* Waits for all copies to the device. */
cudaError_t staging_wait(Staging *staging);

#endif /* GRN_STAGING_H */
