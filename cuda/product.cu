/*
 * product.cu - products of two matrices of floats on the tensor cores, in tf32.  The 10
 * bits of mantissa of tf32 have smaller errors than the 8-bit digests made of the
 * products.
 */
#include <cuda_fp16.h>

#include "product.cuh"

/* Floats from row to row of a tile in shared memory.  The padding avoids bank conflicts. */
constexpr int PITCH = BK + 4;
constexpr int GEMM_THREADS = 256;
/* Stages of tiles in shared memory.  Two stages take 74 kB, which every device since Ampere has. */
constexpr int GEMM_STAGES = 2;

struct GemmShared
{
	float a[GEMM_STAGES][BM][PITCH];
	float b[GEMM_STAGES][BN][PITCH];
	float mean[GEMM_STAGES][BK];
};

__device__ inline void
copy_async(float *s_to, const float *d_from, int bytes, bool valid)
{
	uint32_t to = (uint32_t) __cvta_generic_to_shared(s_to);

	if (bytes == 16)
		asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
					 :
					 : "r"(to), "l"(d_from), "r"(valid ? 16 : 0));
	else
		asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
					 :
					 : "r"(to), "l"(d_from), "r"(valid ? 4 : 0));
}

/* Starts the copy of rows [row, row + 128) and columns [col, col + BK) of d_x to shared memory. */
template <bool VEC>
__device__ inline void
stage_tile(float (*s_tile)[PITCH], const float *d_x, size_t ld, uint32_t row,
		   uint32_t rows, uint32_t col, uint32_t cols)
{
	constexpr int EACH = VEC ? 4 : 1;

	for (int i = threadIdx.x; i < BM * BK / EACH; i += GEMM_THREADS)
	{
		uint32_t r = i / (BK / EACH), c = EACH * (i % (BK / EACH));
		bool	 valid = row + r < rows && col + c < cols;

		copy_async(&s_tile[r][c], valid ? d_x + (size_t) (row + r) * ld + col + c : d_x,
				   4 * EACH, valid);
	}
}

__device__ inline void
product_tf32(float (&c)[4], const float (&a)[4], float b0, float b1)
{
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
				 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
				 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
				 : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])),
				   "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
				   "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
}

template <Output OUT>
__device__ inline void
store(const GemmArgs &a, uint32_t row, uint32_t col, float x, float scale)
{
	if (row >= a.m || col >= a.n)
		return;
	size_t at = row * a.ldc + col;

	if (OUT == OUT_FLOAT)
		((float *) a.d_c)[at] = x;
	else if (OUT == OUT_ADD)
		atomicAdd((float *) a.d_c + at, x);
	else if (OUT == OUT_S8)
		((int8_t *) a.d_c)[at] = (int8_t) fminf(fmaxf(rintf(x * scale), -127.0f), 127.0f);
	else
		((__half *) a.d_c)[at] =
			__float2half_rn(fminf(fmaxf(x * scale, -65504.0f), 65504.0f));
}

/*
 * Computes one tile of 128 x 128 in each block; each of the block's eight warps computes
 * 32 x 64.  The order of k within a product does not matter.  Lane t of a quad therefore
 * loads eight consecutive k and uses them for four products, two k for each.
 */
template <bool VEC, Output OUT>
__global__ void
__launch_bounds__(GEMM_THREADS, 2) gemm_kernel(const GemmArgs a)
{
	extern __shared__ __align__(16) uint8_t s_bytes[];
	GemmShared							   &s = *(GemmShared *) s_bytes;
	int		 warp = threadIdx.x / WARP, lane = lane_id(), g = lane >> 2, t = lane & 3;
	uint32_t row0 = blockIdx.x * BM, col0 = blockIdx.y * BN, k0 = blockIdx.z * a.k_split,
			 k1 = min(k0 + a.k_split, a.k);
	int		 wrow = 32 * (warp & 3), wcol = 64 * (warp >> 2);
	float	 acc[2][8][4] = {};
	uint32_t steps = k1 > k0 ? (k1 - k0 + BK - 1) / BK : 0;

	auto stage = [&](uint32_t step)
	{
		if (step < steps)
		{
			int		 i = step % GEMM_STAGES;
			uint32_t k = k0 + step * BK;

			stage_tile<VEC>(s.a[i], a.d_a, a.lda, row0, a.m, k, k1);
			stage_tile<true>(s.b[i], a.d_b, a.ldb, col0, a.n, k, k1);
			if (threadIdx.x < BK)
				s.mean[i][threadIdx.x] =
					a.d_mean && k + threadIdx.x < k1 ? a.d_mean[k + threadIdx.x] : 0.0f;
		}
		asm volatile("cp.async.commit_group;");
	};

	for (int i = 0; i < GEMM_STAGES - 1; i++)
		stage(i);
	for (uint32_t step = 0; step < steps; step++)
	{
		int i = step % GEMM_STAGES;

		asm volatile("cp.async.wait_group %0;" : : "n"(GEMM_STAGES - 2));
		__syncthreads();
		stage(step + GEMM_STAGES - 1);

		float  x[4][8];
		float4 m0 = *(const float4 *) &s.mean[i][8 * t],
			   m1 = *(const float4 *) &s.mean[i][8 * t + 4];
		float mean[8] = {m0.x, m0.y, m0.z, m0.w, m1.x, m1.y, m1.z, m1.w};

#pragma unroll
		for (int b = 0; b < 4; b++)
		{
			const float *s_from = &s.a[i][wrow + 8 * b + g][8 * t];
			float4 lo = *(const float4 *) s_from, hi = *(const float4 *) (s_from + 4);

			x[b][0] = lo.x - mean[0], x[b][1] = lo.y - mean[1];
			x[b][2] = lo.z - mean[2], x[b][3] = lo.w - mean[3];
			x[b][4] = hi.x - mean[4], x[b][5] = hi.y - mean[5];
			x[b][6] = hi.z - mean[6], x[b][7] = hi.w - mean[7];
		}
#pragma unroll
		for (int j = 0; j < 8; j++)
		{
			const float *s_from = &s.b[i][wcol + 8 * j + g][8 * t];
			float4 lo = *(const float4 *) s_from, hi = *(const float4 *) (s_from + 4);
			float  y[8] = {lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w};

#pragma unroll
			for (int m = 0; m < 2; m++)
#pragma unroll
				for (int q = 0; q < 8; q += 2)
				{
					float rows[4] = {x[2 * m][q], x[2 * m + 1][q], x[2 * m][q + 1],
									 x[2 * m + 1][q + 1]};

					product_tf32(acc[m][j], rows, y[q], y[q + 1]);
				}
		}
	}
	asm volatile("cp.async.wait_group 0;");

	float scale = a.d_scale ? *a.d_scale : 1.0f;

#pragma unroll
	for (int m = 0; m < 2; m++)
#pragma unroll
		for (int j = 0; j < 8; j++)
		{
			uint32_t row = row0 + wrow + 16 * m + g, col = col0 + wcol + 8 * j + 2 * t;

			store<OUT>(a, row, col, acc[m][j][0], scale);
			store<OUT>(a, row, col + 1, acc[m][j][1], scale);
			store<OUT>(a, row + 8, col, acc[m][j][2], scale);
			store<OUT>(a, row + 8, col + 1, acc[m][j][3], scale);
		}
}

template <bool VEC, Output OUT>
static cudaError_t
launch_gemm_of(const Device &device, const GemmArgs &args, uint32_t splits)
{
	dim3 grid((args.m + BM - 1) / BM, (args.n + BN - 1) / BN, splits);

	GRN_TRY(cudaFuncSetAttribute(gemm_kernel<VEC, OUT>,
								 cudaFuncAttributeMaxDynamicSharedMemorySize,
								 (int) sizeof(GemmShared)));
	gemm_kernel<VEC, OUT>
		<<<grid, GEMM_THREADS, sizeof(GemmShared), device.stream>>>(args);
	return cudaGetLastError();
}

cudaError_t
launch_gemm(const Device &device, GemmArgs args, Output out, uint32_t splits)
{
	bool	 aligned = args.lda % 4 == 0 && ((uintptr_t) args.d_a & 15) == 0;
	uint32_t each = (args.k + splits - 1) / splits;

	GRN_REQUIRE(args.m > 0 && args.n > 0 && args.k > 0 && splits > 0);
	GRN_REQUIRE((args.n + BN - 1) / BN <= 65535 && args.ldb % 4 == 0 &&
				((uintptr_t) args.d_b & 15) == 0);
	GRN_REQUIRE(out != OUT_ADD || (aligned && args.ldc == args.n));
	args.k_split = (each + BK - 1) / BK * BK;
	if (out == OUT_ADD)
		GRN_TRY(cudaMemsetAsync(args.d_c, 0, sizeof(float) * args.m * args.ldc,
								device.stream));
	switch (out)
	{
		case OUT_FLOAT:
			return aligned ? launch_gemm_of<true, OUT_FLOAT>(device, args, 1)
						   : launch_gemm_of<false, OUT_FLOAT>(device, args, 1);
		case OUT_ADD:
			return launch_gemm_of<true, OUT_ADD>(device, args, splits);
		case OUT_S8:
			return aligned ? launch_gemm_of<true, OUT_S8>(device, args, 1)
						   : launch_gemm_of<false, OUT_S8>(device, args, 1);
		case OUT_F16:
			return aligned ? launch_gemm_of<true, OUT_F16>(device, args, 1)
						   : launch_gemm_of<false, OUT_F16>(device, args, 1);
	}
	return cudaErrorInvalidValue;
}

cudaError_t
launch_products(const Device &device, const float *d_rows, uint32_t n, uint32_t dim,
				const float *d_mean, const float *d_others, uint32_t others,
				float *d_products)
{
	GemmArgs args = {};

	args.d_a = d_rows, args.lda = dim, args.m = n;
	args.d_b = d_others, args.ldb = padded_dims(dim), args.n = others;
	args.d_mean = d_mean;
	args.k = dim;
	args.d_c = d_products, args.ldc = others;
	return launch_gemm(device, args, OUT_FLOAT, 1);
}
