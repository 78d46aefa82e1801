/*
 * product.cuh - the matrix product of product.cu, for kernels that project rows.
 */
#ifndef GRN_PRODUCT_CUH
#define GRN_PRODUCT_CUH

#include "common.cuh"

constexpr int BM = 128, BN = 128, BK = 32; /* tile of a product */

/* What becomes of the elements of a product. */
enum Output
{
	OUT_FLOAT, /* C = A B' */
	OUT_ADD,   /* C += A B' */
	OUT_S8,
	OUT_F16
};

/* C[m][n] = (A[m][k] - mean[k]) . B[n][k] */
struct GemmArgs
{
	const float *d_a;			/* [m][lda] */
	const float *d_b;			/* [n][ldb], 16-byte aligned rows */
	const float *d_mean;		/* [k] or NULL */
	size_t		 lda, ldb, ldc; /* ldc in elements of C */
	uint32_t	 m, n, k;
	uint32_t	 k_split; /* columns of k a block of grid.z takes */
	void		*d_c;
	const float *d_scale; /* OUT_S8, OUT_F16: C times this */
};

/*
 * Launches the product.  Of OUT_ADD alone: C is cleared first (ldc = n), and k is cut into
 * `splits` pieces, whose products are added.
 */
cudaError_t launch_gemm(const Device &device, GemmArgs args, Output out, uint32_t splits);

#endif /* GRN_PRODUCT_CUH */
