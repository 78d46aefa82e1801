/*
 * product.cuh - the matrix product of product.cu, for kernels that project rows.
 */
#ifndef GRN_PRODUCT_CUH
#define GRN_PRODUCT_CUH

#include "common.cuh"

constexpr int BM = 128, BN = 128, BK = 32; /* A block's tile of C, and its step in k. */

/* What becomes of the elements of a product. */
enum Output
{
	OUT_FLOAT, /* C [m][ldc] floats */
	OUT_ADD,   /* floats, added to those of C */
	OUT_S8,	   /* bytes, after *d_scale */
	OUT_F16	   /* binary16, after *d_scale */
};

/* C[m][n] = (A[m][k] - mean[k]) . B[n][k] */
struct GemmArgs
{
	const float *d_a;			/* [m][lda] */
	const float *d_b;			/* [n][ldb], rows aligned to 16 bytes */
	const float *d_mean;		/* [k] or NULL */
	size_t		 lda, ldb, ldc; /* elements from row to row */
	uint32_t	 m, n, k;
	uint32_t	 k_split; /* columns of k that a block takes; launch_gemm() sets it */
	void		*d_c;	  /* [m][ldc] */
	const float *d_scale; /* [1], or NULL: 1 */
};

/*
 * Launches the product.  Of OUT_ADD alone: C is cleared first (ldc = n), and k is cut into
 * `splits` pieces, whose products are added.
 */
cudaError_t launch_gemm(const Device &device, GemmArgs args, Output out, uint32_t splits);

#endif /* GRN_PRODUCT_CUH */
