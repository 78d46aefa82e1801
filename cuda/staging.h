/*
 * staging.h - copies between the host's pageable memory and devices, through pinned
 * buffers (staging.cu).
 */
#ifndef GRN_STAGING_H
#define GRN_STAGING_H

#include "common.cuh"

constexpr int COPY_THREADS = 6; /* one thread fills pinned memory at about 10 GB/s */
/* Of a staging buffer: pinning takes 0.6 ms a megabyte, and further handles come late. */
constexpr size_t COPY_BYTES = (size_t) 1 << 20, FURTHER_COPY_BYTES = (size_t) 512 << 10;
/* One thread copies less, and fewer rows from or to here and there. */
constexpr size_t COPY_ALONE = (size_t) 512 << 10, ROWS_ALONE = 4096;

struct Copiers; /* staging.cu: threads */

struct Staging
{
	Copiers		*copiers;
	size_t		 bytes;
	uint8_t		*h_buffer[COPY_THREADS][2]; /* pinned, bytes each */
	cudaStream_t stream[COPY_THREADS];
	cudaEvent_t	 done[COPY_THREADS][2];
};

cudaError_t staging_open(Staging *staging, size_t bytes);
void		staging_close(Staging *staging);
/*
 * Copies `rows` pieces of `width` bytes between d (pieces contiguous) and h
 * (pieces `pitch` apart; with index, piece i at index[i]; one of GRN_INVALID_ID goes to
 * the device as bytes 0xFF).  To the device: h is free again when it returns.
 * From the device: complete when it returns.
 */
cudaError_t staging_copy(Staging *staging, int device, bool to_device, void *d, void *h,
						 size_t width, size_t pitch, size_t rows,
						 const uint32_t *index = NULL);
/* Where a copy to several devices goes: each by its own streams. */
struct Target
{
	Staging *staging;
	uint8_t *d;
};
/*
 * The same rows to all targets, through the buffers of the first, which is on `device`: the
 * host's memory is read once.  Complete when it returns; *failed: the target that could not.
 */
cudaError_t staging_spread(const Target *targets, int ntargets, int device, void *h,
						   size_t width, size_t rows, int *failed);
/* Waits for copies to the device. */
cudaError_t staging_wait(Staging *staging);

#endif /* GRN_STAGING_H */
