/*
 * expand.cu - converts rows of shorter numbers to floats.  Rows cross the bus in the form
 * that they have in the host's memory; every later step takes floats.
 */
#include <string.h>

#include <cuda_fp16.h>

#include "handle.h"

/* Reads a float from an address that is a multiple of 2. */
__device__ inline float
float_at(const uint8_t *d_from)
{
	const uint16_t *d_half = (const uint16_t *) d_from;

	return __uint_as_float(d_half[0] | (uint32_t) d_half[1] << 16);
}

/* Number formats: at() returns a number as a float, bytes() the size of a row's numbers. */
struct Halves
{
	static __device__ inline float at(const uint8_t *d_numbers, uint32_t d)
	{
		return __half2float(((const __half *) d_numbers)[d]);
	}
	static size_t bytes(uint32_t dim)
	{
		return (size_t) dim * sizeof(__half);
	}
};

struct Bits
{
	static __device__ inline float at(const uint8_t *d_numbers, uint32_t d)
	{
		return (float) (d_numbers[d / 8] >> (7 - d % 8) & 1);
	}
	static size_t bytes(uint32_t dim)
	{
		return ((size_t) dim + 7) / 8;
	}
};

/* Expands one row in each block.  d_raw: [n][row.bytes], d_rows: [n][dim]. */
template <class Numbers>
__global__ void
expand_kernel(const uint8_t *d_raw, const RawRow row, uint32_t dim, float *d_rows)
{
	const uint8_t *d_from = d_raw + (size_t) blockIdx.x * row.bytes;
	float		  *d_to = d_rows + (size_t) blockIdx.x * dim;
	float		   head = row.head > 0 ? float_at(d_from) : 1.0f;
	float		   scale = row.scale > 0 ? float_at(d_from + row.scale) : 1.0f;

	/* The host multiplies in the same order, so both round alike. */
	for (uint32_t d = threadIdx.x; d < dim; d += blockDim.x)
		d_to[d] = scale * (Numbers::at(d_from + row.head, d) * head);
}

template <class Numbers>
static cudaError_t
expand(const Device &device, const uint8_t *d_raw, const RawRow &row, uint32_t n,
	   uint32_t dim, float *d_rows)
{
	uint32_t threads = dim < 256 ? (dim + WARP - 1) / WARP * WARP : 256;

	GRN_REQUIRE(n > 0 && dim > 0 && row.head % 2 == 0 && row.scale % 2 == 0);
	GRN_REQUIRE(row.bytes % 4 == 0 && row.bytes >= row.head + Numbers::bytes(dim));
	expand_kernel<Numbers><<<n, threads, 0, device.stream>>>(d_raw, row, dim, d_rows);
	return cudaGetLastError();
}

cudaError_t
launch_expand(const Device &device, const uint8_t *d_raw, const RawRow &row, uint32_t n,
			  uint32_t dim, float *d_rows)
{
	switch (row.numbers)
	{
		case GRN_NUMBERS_HALVES:
			return expand<Halves>(device, d_raw, row, n, dim, d_rows);
		case GRN_NUMBERS_BITS:
			return expand<Bits>(device, d_raw, row, n, dim, d_rows);
		case GRN_NUMBERS_FLOATS:
		case GRN_NUMBERS_NONE:
			break;
	}
	return cudaErrorInvalidValue;
}

RawRow
raw_row_of(const GrnGpuSource &source)
{
	RawRow row = {source.numbers, (uint32_t) source.row_bytes, source.head, source.scale};

	return row;
}
