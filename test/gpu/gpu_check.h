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

/* Prints one result. */
extern void report(const std::string &name, bool good, const std::string &why = "");

/* gpu_builds.cu */
extern void test_coded_builds(GrnGpu *gpu);
extern void test_builds(GrnGpu *gpu);

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

#endif
