/*
 * linear.h - the linear algebra of codec fits, divided among threads.  Each sum has one fixed
 * order, so no result depends on the number of threads.
 */
#ifndef GRN_LINEAR_H
#define GRN_LINEAR_H

#include "space/kernels/dist.h"

#define GRN_MAX_DIRECTIONS 320	/* the most rows of grn_orthonormalize() and grn_eigen_rows() */

/* Returns a standard normal number (Box-Muller). */
extern float grn_gaussian(uint64_t seed, uint64_t stream, uint64_t counter);

/*
 * out[i * ldo + j] = <row i of a, row j of b> for i < m, j < n; rows have len floats.  With
 * add the products are added to out.  The value of an element does not depend on its position
 * in a block, so results do not depend on how the caller divides the work among threads.
 */
typedef struct GrnProduct
{
	const float *a;
	size_t		lda;
	const float *b;
	size_t		ldb;
	size_t		len;
	float	   *out;
	size_t		ldo;
	bool		add;
} GrnProduct;
extern void grn_multiply(const GrnProduct *p, size_t m, size_t n);

/*
 * Makes the rows of v [m][n] orthonormal, m <= n and m <= GRN_MAX_DIRECTIONS.  With two passes
 * the result is exact to rounding.  A row that depends on earlier rows is replaced by a random
 * direction.
 */
extern void grn_orthonormalize(float *v, size_t m, size_t n, int passes, uint64_t seed,
							   uint64_t stream, GrnParallel *parallel);

/*
 * Computes eigenvalues and eigenvectors of a positive semidefinite symmetric g [m][m], m <=
 * GRN_MAX_DIRECTIONS.  On return row i of g is eigenvalue times eigenvector, in descending
 * order of values[m].
 */
extern void grn_eigen_rows(double *g, double *values, size_t m, GrnParallel *parallel);

#endif							/* GRN_LINEAR_H */
