/*
 * linear.c - matrix products, orthonormal rows and eigenvectors for the fits of codecs.
 */
#include "space/kernels/linear.h"

#include <math.h>
#include <string.h>

/*
 * 10,000 sentences: the same index in the same time with half and twice of COLUMNS, DEPENDENT and
 * JACOBI_SWEEPS; recall within .002 at ef 10 to 200 with half and twice of JACOBI_TOLERANCE.
 */
#define BLOCK 16				/* rows that are made orthonormal, or rotated, together */
#define COLUMNS 32				/* columns of a work item */
#define DEPENDENT 1e-4f			/* least length of a unit row's part outside the span of earlier
								 * rows */
#define JACOBI_SWEEPS 30
#define JACOBI_TOLERANCE 1e-7

float
grn_gaussian(uint64_t seed, uint64_t stream, uint64_t counter)
{
	uint64_t	r = grn_random(seed, stream, counter);
	double		u = ((double) (r >> 32) + 0.5) / 4294967296.0;
	double		v = (double) (r & 0xFFFFFFFF) / 4294967296.0;

	return (float) (sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

void
grn_multiply(const GrnProduct *p, size_t m, size_t n)
{
	for (size_t i = 0; i < m; i += m - i < 4 ? 1 : 4)
		for (size_t j = 0; j < n; j += n - j < 4 ? 1 : 4)
		{
			/* At the edges one row replaces the three missing rows. */
			size_t		rows = m - i < 4 ? 1 : 4;
			size_t		cols = n - j < 4 ? 1 : 4;
			float		block[16];

			grn_dist->ip_4x4(p->a + i * p->lda, rows < 4 ? 0 : p->lda,
							 p->b + j * p->ldb, cols < 4 ? 0 : p->ldb, p->len, block);
			for (size_t r = 0; r < rows; r++)
				for (size_t c = 0; c < cols; c++)
				{
					float	   *o = &p->out[(i + r) * p->ldo + j + c];

					*o = p->add ? *o + block[4 * r + c] : block[4 * r + c];
				}
		}
}

/* ---- orthonormal rows ---- */

/* A block of rows [first, end), and the block's inner products with earlier rows. */
typedef struct Block
{
	float	   *v;				/* [.][n] */
	size_t		n;
	size_t		first;
	size_t		end;
	float		shares[BLOCK][GRN_MAX_DIRECTIONS];
} Block;

/* Computes the products of the block's rows and rows [begin, end). */
static void
multiply_range(void *arg, int worker, size_t begin, size_t end)
{
	Block	   *b = arg;
	GrnProduct	p = {b->v + b->first * b->n, b->n, b->v + begin * b->n, b->n, b->n,
		&b->shares[0][begin], GRN_MAX_DIRECTIONS, false};

	(void) worker;
	grn_multiply(&p, b->end - b->first, end - begin);
}

/* Subtracts the projections on earlier rows from columns [begin, end) of the block's rows. */
static void
subtract_range(void *arg, int worker, size_t begin, size_t end)
{
	Block	   *b = arg;

	(void) worker;
	for (size_t i = b->first; i < b->end; i++)
		for (size_t k = 0; k < b->first; k++)
			grn_dist->add_scaled(b->v + i * b->n + begin, -b->shares[i - b->first][k],
								 b->v + k * b->n + begin, end - begin);
}

/* Scales a row to length 1.  Returns false if the length is at most `least` or not finite. */
static bool
unit_row(float *row, size_t n, float least)
{
	float		length = sqrtf(grn_dist->ip_f32(row, row, n));

	if (!(length > least && length < INFINITY))
		return false;
	for (size_t j = 0; j < n; j++)
		row[j] /= length;
	return true;
}

/* Subtracts from row i its projections on rows [first, i). */
static void
subtract_rows(float *v, size_t first, size_t i, size_t n)
{
	for (size_t k = first; k < i; k++)
		grn_dist->add_scaled(v + i * n, -grn_dist->ip_f32(v + i * n, v + k * n, n), v + k * n, n);
}

/* Replaces row i by a random row, orthogonal to all earlier rows. */
static void
replace_row(float *v, size_t i, size_t n, uint64_t seed, uint64_t stream)
{
	uint64_t	counter = 0;

	do
	{
		for (size_t j = 0; j < n; j++)
			v[i * n + j] = grn_gaussian(seed, stream + (i << 8), counter++);
		(void) unit_row(v + i * n, n, 0);
		subtract_rows(v, 0, i, n);
		subtract_rows(v, 0, i, n);
	} while (!unit_row(v + i * n, n, DEPENDENT));
}

/* Gram-Schmidt: products make a block orthogonal to earlier rows; in a block rows take turns. */
void
grn_orthonormalize(float *v, size_t m, size_t n, int passes, uint64_t seed,
				   uint64_t stream, GrnParallel *parallel)
{
	Block		b;

	b.v = v;
	b.n = n;
	for (b.first = 0; b.first < m; b.first = b.end)
	{
		b.end = m - b.first < BLOCK ? m : b.first + BLOCK;
		/* Rows get unit length first, because squares of tiny rows would be 0. */
		for (size_t i = b.first; i < b.end; i++)
			if (!unit_row(v + i * n, n, 0))
				memset(v + i * n, 0, n * sizeof(float));
		for (int pass = 0; pass < passes; pass++)
		{
			if (b.first > 0)
			{
				parallel->run(parallel, b.first, BLOCK, multiply_range, &b);
				parallel->run(parallel, n, COLUMNS, subtract_range, &b);
			}
			for (size_t i = b.first; i < b.end; i++)
			{
				subtract_rows(v, b.first, i, n);
				if (!unit_row(v + i * n, n, DEPENDENT))
					replace_row(v, i, n, seed, stream);
			}
		}
	}
}

/* ---- eigenvectors ---- */

/*
 * One-sided Jacobi iteration: rotates pairs of rows until all rows are orthogonal.  The length
 * of a row is then the eigenvalue.  Pairs of blocks are scheduled as in a tournament: the
 * pairs of one round have no row in common, so threads can rotate the pairs at the same time.
 */
typedef struct Eigen
{
	double	   *g;				/* [m][m] */
	size_t		m;
	size_t		blocks;
	size_t		round;
	double		least;			/* rows with a smaller squared length count as zero */
	int			rotated;
	double		squares[GRN_MAX_DIRECTIONS];	/* squared lengths of rows */
} Eigen;

/* The compiler can compute four independent sums side by side. */
static double
product(const double *a, const double *b, size_t n)
{
	double		sum[4] = {0};
	size_t		j = 0;

	for (; j + 4 <= n; j += 4)
		for (size_t k = 0; k < 4; k++)
			sum[k] += a[j + k] * b[j + k];
	for (; j < n; j++)
		sum[0] += a[j] * b[j];
	return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static void
square_range(void *arg, int worker, size_t begin, size_t end)
{
	Eigen	   *e = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
		e->squares[i] = product(e->g + i * e->m, e->g + i * e->m, e->m);
}

static void
rotate(Eigen *e, size_t p, size_t q)
{
	double	   *a = e->g + p * e->m;
	double	   *b = e->g + q * e->m;
	double		aa = e->squares[p];
	double		bb = e->squares[q];
	double		ab = product(a, b, e->m);
	double		tau,
				t,
				c,
				s;

	if (ab * ab <= JACOBI_TOLERANCE * JACOBI_TOLERANCE * aa * bb || aa + bb <= e->least)
		return;
	__atomic_store_n(&e->rotated, 1, __ATOMIC_RELAXED);
	tau = (bb - aa) / (2 * ab);
	t = (tau >= 0 ? 1 : -1) / (fabs(tau) + sqrt(1 + tau * tau));
	c = 1 / sqrt(1 + t * t);
	s = c * t;
	for (size_t j = 0; j < e->m; j++)
	{
		double		x = a[j];

		a[j] = c * x - s * b[j];
		b[j] = s * x + c * b[j];
	}
	e->squares[p] = fmax(aa - t * ab, 0);
	e->squares[q] = fmax(bb + t * ab, 0);
}

static size_t
block_end(const Eigen *e, size_t block)
{
	return (block + 1) * BLOCK < e->m ? (block + 1) * BLOCK : e->m;
}

/* Rotates all pairs of rows within each of blocks [begin, end). */
static void
within_range(void *arg, int worker, size_t begin, size_t end)
{
	Eigen	   *e = arg;

	(void) worker;
	for (size_t block = begin; block < end; block++)
		for (size_t p = block * BLOCK; p < block_end(e, block); p++)
			for (size_t q = p + 1; q < block_end(e, block); q++)
				rotate(e, p, q);
}

/*
 * Rotates pairs of blocks [begin, end) of a round.  The block at the last position remains,
 * and all other blocks move on in a circle.
 */
static void
rotate_pairs(void *arg, int worker, size_t begin, size_t end)
{
	Eigen	   *e = arg;
	size_t		circle = (e->blocks + 1) / 2 * 2 - 1;

	(void) worker;
	for (size_t k = begin; k < end; k++)
	{
		size_t		x = k == 0 ? circle : (e->round + k) % circle;
		size_t		y = (e->round + circle - k) % circle;

		/* With an odd number of blocks one block has no partner in each round. */
		if (x >= e->blocks || y >= e->blocks)
			continue;
		for (size_t p = x * BLOCK; p < block_end(e, x); p++)
			for (size_t q = y * BLOCK; q < block_end(e, y); q++)
				rotate(e, p, q);
	}
}

void
grn_eigen_rows(double *g, double *values, size_t m, GrnParallel *parallel)
{
	Eigen		e;
	size_t		pairs;

	memset(&e, 0, sizeof(e));
	e.g = g;
	e.m = m;
	e.blocks = (m + BLOCK - 1) / BLOCK;
	e.least = 1e-20 * product(g, g, m * m);
	pairs = (e.blocks + 1) / 2;
	e.rotated = 1;
	for (int sweep = 0; sweep < JACOBI_SWEEPS && e.rotated; sweep++)
	{
		e.rotated = 0;
		parallel->run(parallel, m, BLOCK, square_range, &e);
		parallel->run(parallel, e.blocks, 1, within_range, &e);
		for (e.round = 0; e.blocks > 1 && e.round < 2 * pairs - 1; e.round++)
			parallel->run(parallel, pairs, 1, rotate_pairs, &e);
	}
	for (size_t i = 0; i < m; i++)
		values[i] = sqrt(product(g + i * m, g + i * m, m));
	for (size_t i = 0; i + 1 < m; i++)
	{
		size_t		best = i;

		for (size_t k = i + 1; k < m; k++)
			if (values[k] > values[best])
				best = k;
		if (best != i)
		{
			double		v = values[i];

			values[i] = values[best];
			values[best] = v;
			for (size_t j = 0; j < m; j++)
			{
				v = g[i * m + j];
				g[i * m + j] = g[best * m + j];
				g[best * m + j] = v;
			}
		}
	}
}
