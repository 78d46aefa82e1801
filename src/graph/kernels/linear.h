/*
 * linear.h - the linear algebra of codec fits, its work shared among threads.  Each
 * sum has one fixed order, so no result depends on the number of threads.
 */
#ifndef GRN_LINEAR_H
#define GRN_LINEAR_H

#include "graph/kernels/dist.h"

#define GRN_MAX_DIRECTIONS 320	/* rows of what is made orthonormal */

/* A standard normal number (Box-Muller). */
extern float grn_gaussian(uint64_t seed, uint64_t stream, uint64_t counter);

/*
 * out[i * ldo + j] = <row i of a, row j of b> for i < m, j < n; rows of len floats.
 * With add the products are added to what is there.  An element's value does not
 * depend on its position in a block, so results do not depend on how the caller's
 * threads cut the work.
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
 * Makes the rows of v [m][n], m <= n and GRN_MAX_DIRECTIONS, orthonormal; a second
 * pass makes it exact to rounding.  A row that depends on those before it is replaced
 * by a random direction.
 */
extern void grn_orthonormalise(float *v, size_t m, size_t n, int passes, uint64_t seed,
							   uint64_t stream, GrnParallel *parallel);

/*
 * Eigenvalues and eigenvectors of a positive semidefinite symmetric g [m][m], m <=
 * GRN_MAX_DIRECTIONS: afterwards row i is eigenvalue times eigenvector, in descending
 * order of values[m].
 */
extern void grn_eigen_rows(double *g, double *values, size_t m, GrnParallel *parallel);

#endif							/* GRN_LINEAR_H */
