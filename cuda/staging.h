/*
 * staging.h - copies between the host's pageable memory and devices, through pinned
 * buffers (staging.cu).
 */
#ifndef GRN_STAGING_H
#define GRN_STAGING_H

#include "common.cuh"

/* So many threads fill pinned memory, one at about 10 GB/s: together as fast as the bus. */
constexpr int COPY_THREADS = 6;
/* A buffer has so many bytes: pinning takes 0.6 ms a megabyte. */
constexpr size_t COPY_BYTES = (size_t) 1 << 20;
/* Those of a device's further handles have fewer: they are opened while others wait. */
constexpr size_t FURTHER_COPY_BYTES = (size_t) 512 << 10;

struct Copiers; /* staging.cu: threads that help */

struct Staging
{
	Copiers		*copiers;
	size_t		 bytes;						/* of a buffer */
	uint8_t		*h_buffer[COPY_THREADS][2]; /* [bytes] each, pinned */
	cudaStream_t stream[COPY_THREADS];
	cudaEvent_t	 done[COPY_THREADS][2]; /* the last copy from or to the buffer */
};

cudaError_t staging_open(Staging *staging, size_t bytes);
void		staging_close(Staging *staging);
/*
 * Copies `rows` rows of `width` bytes between d_rows, where they stand one after the other,
 * and h_rows, where they are `pitch` bytes apart.  With index, row i is h_rows[index[i]]; one
 * of GRN_INVALID_ID goes to the device as bytes 0xFF.  When a copy to the device returns,
 * h_rows is free again; a copy from the device is complete.
 */
cudaError_t staging_copy(Staging *staging, int device, bool to_device, void *d_rows,
						 void *h_rows, size_t width, size_t pitch, size_t rows,
						 const uint32_t *index = NULL);
/* A copy to several devices uses the streams of each. */
struct Target
{
	Staging *staging;
	uint8_t *d_rows; /* [rows][width] */
};
/*
 * Copies the same rows to all targets, through the buffers of the first, which is on
 * `device`, so that the host's memory is read once.  The copies are complete when it returns.
 * *failed is the target whose copy failed.
 */
cudaError_t staging_spread(const Target *targets, int ntargets, int device, void *h_rows,
						   size_t width, size_t rows, int *failed);
/* Waits for all copies to the device. */
cudaError_t staging_wait(Staging *staging);

#endif /* GRN_STAGING_H */
