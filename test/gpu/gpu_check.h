/*
 * gpu_check.h - what the tests of the kernels and of whole builds share.
 */
#ifndef GPU_CHECK_H
#define GPU_CHECK_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../../cuda/common.cuh"

/* gpu_check.cu: the device and the stream on which kernels are tested. */
extern Device device;
/* Prints one result. */
extern void report(const std::string & name, bool good, const std::string & why = "");
/* Ends the tests where a call fails. */
extern void must(cudaError_t rc, const char *what);

/* The tests, file by file; each reports its results. */
extern void test_rows();		/* gpu_rows.cu */
extern void test_descent();		/* gpu_descent.cu */
extern void test_lists();		/* gpu_lists.cu */
extern void test_paper();		/* gpu_paper.cu */
extern void test_digested_builds(GrnGpu *gpu);	/* gpu_builds.cu */
extern void test_builds(GrnGpu *gpu);
extern void test_paper_builds();
extern void test_orders(GrnGpu *gpu);	/* gpu_order.cu */
extern void test_short_rows(GrnGpu *gpu);	/* gpu_short_rows.cu */

static const uint32_t TEST_POOL = 56;	/* capacity of the pools in tests of single kernels */

static inline uint32_t
rnd(uint64_t stream, uint64_t i, uint32_t bound)
{
	return random_below(random64(12345, stream, i), bound);
}

static inline float
gaussian(uint64_t stream, uint64_t i)
{
	float		sum = 0;

	for (int k = 0; k < 12; k++)
		sum += rnd(stream, 12 * i + k, 1u << 24) / (float) (1u << 24);
	return sum - 6;
}

static inline float
l2(const float *a, const float *b, uint32_t dim)
{
	double		sum = 0;

	for (uint32_t d = 0; d < dim; d++)
		sum += ((double) a[d] - b[d]) * ((double) a[d] - b[d]);
	return (float) sum;
}

/* Device memory with a host copy. */
template < class X > struct Both
{
	std::vector < X > h;
	X		   *d = NULL;

	explicit	Both(size_t n, X fill = X())
	:h(std::max < size_t >(n, 1), fill)
	{
		must(cudaMalloc((void **) &d, sizeof(X) * h.size()), "cudaMalloc");
		push();
	}
			   ~Both()
	{
		cudaFree(d);
	}
	void
				push()
	{
		must(cudaMemcpy(d, h.data(), sizeof(X) * h.size(), cudaMemcpyHostToDevice), "copy");
	}
	void
				pull()
	{
		must(cudaStreamSynchronize(device.stream), "synchronize");
		must(cudaMemcpy(h.data(), d, sizeof(X) * h.size(), cudaMemcpyDeviceToHost), "copy");
	}
};

/* The squared distance of two digests of bytes or bits. */
static inline uint32_t
digest_distance(RowFormat format, const uint8_t *a, const uint8_t *b, uint32_t stride)
{
	uint32_t	sum = 0;

	for (uint32_t d = 0; d < stride; d++)
	{
		int			x = (int8_t) a[d] - (int8_t) b[d];

		sum += format == ROWS_B1 ? __builtin_popcount(a[d] ^ b[d]) : x * x;
	}
	return sum;
}

/* Random rows of bytes or bits as the descent holds them, with norms. */
struct Bytes
{
	uint32_t	n,
				stride;
				Both < uint8_t >rows;
				Both < uint32_t >norms;
	Digests		digests;

	Bytes		(uint32_t n, uint32_t stride, uint64_t stream, RowFormat format = ROWS_S8)
	:n(n),
				stride(stride),
				rows((size_t) n * stride),
				norms(n)
	{
		for (size_t i = 0; i < rows.h.size(); i++)
			rows.h[i] = (uint8_t) rnd(stream, i, 256);
		rows.push();
		digests = Digests {rows.d, norms.d, n, stride, std::min(stride, 128u),
		stride / std::min(stride, 128u), format};
		must(launch_norms(device, digests, norms.d), "launch_norms");
	}
	uint32_t
				distance(uint32_t a, uint32_t b) const
	{
		return digest_distance(digests.format, &rows.h[(size_t) a * stride], &rows.h[(size_t) b * stride], stride);
	}
};

struct Pools
{
	Both < Key >pool;
				Both < uint8_t >pool_count;
				Both < Key >inbox0,
				inbox1;
				Both < uint32_t >count0,
				count1;
				Both < uint64_t >list;
				Both < uint32_t >list_count;
	TileGraph	graph;

				Pools(uint32_t n, uint32_t inbox)
	:			pool((size_t) n * TEST_POOL, EMPTY_KEY), pool_count(n), inbox0((size_t) n * inbox, EMPTY_KEY),
				inbox1((size_t) n * inbox, EMPTY_KEY), count0(n), count1(n), list(NCLASSES * (size_t) n),
				list_count(NCLASSES)
	{
		graph = TileGraph {pool.d, pool_count.d, {inbox0.d, inbox1.d}, {count0.d, count1.d}, list.d,
		list_count.d, n, TEST_POOL, inbox, 0};
	}
};

#endif
