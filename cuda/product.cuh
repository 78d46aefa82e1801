/*
 * product.cuh - declares the matrix product of product.cu, for kernels that project rows.
 */
#ifndef GRN_PRODUCT_CUH
#define GRN_PRODUCT_CUH

#include "common.cuh"

constexpr int BM = 128, BN = 128, BK = 32; /* the tile of C that a block computes, and
										    * the step in k */

/* The type and use of the elements of a product. */
enum Output
{
	OUT_FLOAT, /* C [m][ldc] floats */
	OUT_ADD,   /* floats, added to C */
	OUT_S8,	   /* bytes: product * *d_scale */
	OUT_F16	   /* binary16: product * *d_scale */
};

/* The arguments of C[m][n] = (A[m][k] - mean[k]) .  B[n][k]. */
struct GemmArgs
{
	const float *d_a;			/* [m][lda] */
	const float *d_b;			/* [n][ldb], rows aligned to 16 bytes */
	const float *d_mean;		/* [k] or NULL */
	size_t		 lda, ldb, ldc; /* elements between the starts of two rows */
	uint32_t	 m, n, k;
	uint32_t	 k_split; /* columns of k that a block handles; set by launch_gemm() */
	void		*d_c;	  /* [m][ldc] */
	const float *d_scale; /* [1], or NULL for a scale of 1 */
};

/*
 * Launches the product.  With OUT_ADD the function clears C first (ldc must be n), divides k into
 * `splits` pieces, and adds the pieces' products.  Without OUT_ADD `splits` has no effect.
 */
cudaError_t launch_gemm(const Device &device, GemmArgs args, Output out, uint32_t splits);

#endif /* GRN_PRODUCT_CUH */
