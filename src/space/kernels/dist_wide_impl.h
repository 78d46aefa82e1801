/*
 * dist_wide_impl.h - the kernels that AVX2, AVX-512 and NEON have in common.
 *
 * dist_avx2.c, dist_avx512.c and dist_neon.c include this file, each with its own definition of
 *   WIDE            the attribute of a function for the instruction set
 *   KERNEL(name)    the name of a kernel
 *   SHORT_KERNEL(name)  the name of a kernel of dist_short_impl.h
 *   V(op)           an intrinsic, _mm256_op or _mm512_op, or what does the same on NEON
 *   FLOATS, INTS    a vector of W floats, or of W 32-bit integers
 *   AND, AS_FLOATS  of integers: bitwise and; the same bits as floats
 *   ABS, TRUNCATE   of floats: without the sign; rounded toward zero
 *   SUM, SUM_INTS   the sum of a vector
 *   add_sums(s, out)  adds the sums of four vectors to out [4]
 *   MULTIPLY_ADD(s, a, b)  s + products of 2 W 16-bit integers, two products for each int32
 *   AT_MOST(a, b)   of floats: bits of the lanes where a <= b
 *   MASK, LESS(a, b)  of floats: the lanes where a < b
 *   ANY(mask), PICK(mask, a, b)  whether any lane is set; a in set lanes, b elsewhere
 *   ALL             the mask of a load of all W numbers
 *   LOAD_F32(x, which), LOAD_F16, LOAD_U8  numbers of a stored vector as floats
 *   LOAD_INTS(x)    W integers, or 2 W of 16 bits
 *   first_floats(x, n), first_ints(x, n)  loads of the first n <= W numbers; other lanes are 0
 *   store_first(out, n, x)  stores the first n <= W floats
 * and, if masks do better,
 *   STEP_REST(s, STEP, LOAD, q, x, width, pad, n)  STEP on the last n < W numbers; the query
 *                   is padded with pad, the stored vector with 0
 *   FIRST_SHORTS(x, n)  a load of the first n < 2 W integers of 16 bits; others are 0
 */
#include <string.h>

#define STEP_L2(s, a, b) \
	do { FLOATS d_ = V(sub_ps)(a, b); (s) = V(fmadd_ps)(d_, d_, s); } while (0)
#define STEP_IP(s, a, b) ((s) = V(fmadd_ps)(a, b, s))
#define STEP_L1(s, a, b) ((s) = V(add_ps)(s, ABS(V(sub_ps)(a, b))))

/* Further parameters of kernels for bytes, and the load of bytes. */
#define NOTHING
#define SCALED , float scale, float offset
#define LOAD_SCALED(x, which) \
	V(fmadd_ps)(LOAD_U8(x, which), V(set1_ps)(scale), V(set1_ps)(offset))

#ifndef STEP_REST
#define STEP_REST(s, STEP, LOAD, q, x, width, pad, n) \
	do { \
		float		qt[W]; \
		uint8_t		xt[4 * W] = {0}; \
 \
		for (size_t j = 0; j < W; j++) \
			qt[j] = j < (n) ? (q)[j] : (pad); \
		memcpy(xt, x, (width) * (n)); \
		STEP(s, V(loadu_ps)(qt), LOAD(xt, ALL)); \
	} while (0)
#endif

/*
 * Four accumulators hide the latency of the multiply-add.  At the end the query is padded with
 * PAD, the value of a stored zero, so padding adds nothing to the sum.
 */
#define DISTANCE(name, type, width, MORE, PAD, LOAD, STEP) \
static WIDE float \
KERNEL(name) (const float *q, const type *xv, size_t n MORE) \
{ \
	const uint8_t *x = (const uint8_t *) xv; \
	FLOATS		s0 = V(setzero_ps)(), \
				s1 = s0, \
				s2 = s0, \
				s3 = s0; \
	size_t		i = 0; \
 \
	for (; i + 4 * W <= n; i += 4 * W) \
	{ \
		STEP(s0, V(loadu_ps)(q + i), LOAD(x + (width) * i, ALL)); \
		STEP(s1, V(loadu_ps)(q + i + W), LOAD(x + (width) * (i + W), ALL)); \
		STEP(s2, V(loadu_ps)(q + i + 2 * W), LOAD(x + (width) * (i + 2 * W), ALL)); \
		STEP(s3, V(loadu_ps)(q + i + 3 * W), LOAD(x + (width) * (i + 3 * W), ALL)); \
	} \
	for (; i + W <= n; i += W) \
		STEP(s0, V(loadu_ps)(q + i), LOAD(x + (width) * i, ALL)); \
	if (i < n) \
		STEP_REST(s1, STEP, LOAD, q + i, x + (width) * i, width, PAD, n - i); \
	return SUM(V(add_ps)(V(add_ps)(s0, s1), V(add_ps)(s2, s3))); \
}

DISTANCE(l2_f32, float, 4, NOTHING, 0, LOAD_F32, STEP_L2)
DISTANCE(ip_f32, float, 4, NOTHING, 0, LOAD_F32, STEP_IP)
DISTANCE(l1_f32, float, 4, NOTHING, 0, LOAD_F32, STEP_L1)
DISTANCE(l2_f16, void, 2, NOTHING, 0, LOAD_F16, STEP_L2)
DISTANCE(ip_f16, void, 2, NOTHING, 0, LOAD_F16, STEP_IP)
DISTANCE(l1_f16, void, 2, NOTHING, 0, LOAD_F16, STEP_L1)
DISTANCE(l2_u8, void, 1, SCALED, offset, LOAD_SCALED, STEP_L2)
DISTANCE(ip_u8, void, 1, SCALED, 0, LOAD_SCALED, STEP_IP)
DISTANCE(l1_u8, void, 1, SCALED, offset, LOAD_SCALED, STEP_L1)

/* Returns W estimates from W dots and the bits of W factors. */
static inline WIDE FLOATS
estimates(const GrnEstimate *e, INTS dot, INTS bits)
{
	INTS		length = V(slli_epi32) (V(srli_epi32) (bits, GRN_ALPHA_BITS), GRN_LENGTH_SHIFT);
	FLOATS		l = V(mul_ps) (V(set1_ps) (e->unit), AS_FLOATS(length));
	FLOATS		a = V(cvtepi32_ps) (AND(bits, V(set1_epi32) (GRN_MAX_ALPHA)));
	FLOATS		d = V(sub_ps) (V(cvtepi32_ps) (dot), V(set1_ps) (e->offset));
	FLOATS		sum = V(fmadd_ps) (V(set1_ps) (e->square), l, V(set1_ps) (e->lead));

	sum = V(fnmadd_ps) (V(mul_ps) (V(set1_ps) (e->slope), a), d, sum);
	return V(fmadd_ps) (l, sum, V(set1_ps) (e->base));
}

static WIDE void
KERNEL(estimate) (const GrnEstimate *e, const int32_t *dot, const GrnFactor *factors,
				  uint32_t count, float *out)
{
	uint32_t	i = 0;

	for (; i + W <= count; i += W)
		V(storeu_ps) (out + i, estimates(e, LOAD_INTS(dot + i), LOAD_INTS(factors + i)));
	if (i < count)
		store_first(out + i, count - i, estimates(e, first_ints(dot + i, count - i),
												  first_ints(factors + i, count - i)));
}

/* Few numbers are small enough, so most vectors are skipped whole. */
static WIDE uint32_t
KERNEL(at_most) (const float *x, uint32_t n, float most, uint32_t *out)
{
	FLOATS		bound = V(set1_ps) (most);
	uint32_t	found = 0;
	uint32_t	i = 0;

	for (; i + W <= n; i += W)
		for (uint32_t bits = AT_MOST(V(loadu_ps) (x + i), bound); bits != 0; bits &= bits - 1)
			out[found++] = i + (uint32_t) __builtin_ctz(bits);
	for (; i < n; i++)
		if (x[i] <= most)
			out[found++] = i;
	return found;
}

static WIDE void
KERNEL(levels) (const float *u, size_t n, float inverse, float top, float *uc, float *cc)
{
	FLOATS		middle = V(set1_ps) (top / 2);
	FLOATS		sum_uc = V(setzero_ps) ();
	FLOATS		sum_cc = sum_uc;

	for (size_t j = 0; j < n; j += W)
	{
		FLOATS		x = V(loadu_ps) (u + j);
		FLOATS		level = V(fmadd_ps) (x, V(set1_ps) (inverse), V(set1_ps) (top / 2 + 0.5f));

		/* max returns its second operand if the first is a NaN */
		level = V(max_ps) (level, V(setzero_ps) ());
		level = V(min_ps) (TRUNCATE(level), V(set1_ps) (top));
		level = V(sub_ps) (level, middle);
		sum_uc = V(fmadd_ps) (x, level, sum_uc);
		sum_cc = V(fmadd_ps) (level, level, sum_cc);
	}
	*uc = SUM(sum_uc);
	*cc = SUM(sum_cc);
}

static WIDE void
KERNEL(add_scaled) (float *y, float a, const float *x, size_t n)
{
	size_t		i = 0;

	for (; i + W <= n; i += W)
		V(storeu_ps) (y + i, V(fmadd_ps) (V(set1_ps) (a), V(loadu_ps) (x + i), V(loadu_ps) (y + i)));
	for (; i < n; i++)
		y[i] += a * x[i];
}

/* ---- products of rows ---- */

/* Adds products of n <= W numbers of `rows` rows of a and `cols` rows of b to s [rows][cols]. */
static inline __attribute__((always_inline)) WIDE void
KERNEL(add_products) (const float *a, size_t lda, int rows, const float *b, size_t ldb, int cols, size_t n,
					  FLOATS s[])
{
	FLOATS		v[8];

#pragma GCC unroll 8
	for (int j = 0; j < cols; j++)
		v[j] = first_floats(b + j * ldb, n);
#pragma GCC unroll 4
	for (int i = 0; i < rows; i++)
	{
		FLOATS		u = first_floats(a + i * lda, n);

#pragma GCC unroll 8
		for (int j = 0; j < cols; j++)
			s[i * cols + j] = V(fmadd_ps) (u, v[j], s[i * cols + j]);
	}
}

static inline __attribute__((always_inline)) WIDE void
KERNEL(products) (const float *a, size_t lda, int rows, const float *b, size_t ldb, int cols, size_t n,
				  FLOATS s[])
{
	size_t		k = 0;

#pragma GCC unroll 16
	for (int i = 0; i < rows * cols; i++)
		s[i] = V(setzero_ps) ();
	for (; k + W <= n; k += W)
		KERNEL(add_products) (a + k, lda, rows, b + k, ldb, cols, W, s);
	if (k < n)
		KERNEL(add_products) (a + k, lda, rows, b + k, ldb, cols, n - k, s);
}

/* AVX2 has 16 registers, enough for 8 sums and 6 operands; the others have 32. */
#define COLS (W == 8 ? 2 : 4)
#define ROWS (W == 8 ? 4 : 8)

static WIDE void
KERNEL(ip_4x4) (const float *a, size_t lda, const float *b, size_t ldb, size_t n, float *out)
{
	for (int j = 0; j < 4; j += COLS)
	{
		FLOATS		s[4 * COLS];

		KERNEL(products) (a, lda, 4, b + j * ldb, ldb, COLS, n, s);
#pragma GCC unroll 16
		for (int i = 0; i < 4 * COLS; i++)
			out[4 * (i / COLS) + j + i % COLS] = SUM(s[i]);
	}
}

static WIDE void
KERNEL(ip_rows) (const float *a, const float *b, size_t ldb, size_t n, uint32_t rows, float *out)
{
	uint32_t	j = 0;

	for (; j + ROWS <= rows; j += ROWS, b += ROWS * ldb)
	{
		FLOATS		s[ROWS];

		KERNEL(products) (a, 0, 1, b, ldb, ROWS, n, s);
#pragma GCC unroll 2
		for (int i = 0; i < ROWS; i += 4)
			add_sums(s + i, out + j + i);
	}
	for (; j < rows; j++, b += ldb)
		out[j] += KERNEL(ip_f32) (a, b, n);
}

static WIDE void
KERNEL(ip_rows_i16) (const int16_t *a, const int16_t *b, size_t ldb, size_t n, uint32_t rows, int32_t *out)
{
	uint32_t	j = 0;

	for (; j + ROWS <= rows; j += ROWS, b += ROWS * ldb)
	{
		INTS		s[ROWS];
		size_t		k = 0;

#pragma GCC unroll 8
		for (int i = 0; i < ROWS; i++)
			s[i] = V(set1_epi32) (0);
		for (; k + 2 * W <= n; k += 2 * W)
		{
			INTS		v = LOAD_INTS(a + k);

#pragma GCC unroll 8
			for (int i = 0; i < ROWS; i++)
				s[i] = MULTIPLY_ADD(s[i], v, LOAD_INTS(b + i * ldb + k));
		}
#ifdef FIRST_SHORTS
#pragma GCC unroll 8
		for (int i = 0; i < ROWS && k < n; i++)
			s[i] = MULTIPLY_ADD(s[i], FIRST_SHORTS(a + k, n - k), FIRST_SHORTS(b + i * ldb + k, n - k));
#else
		for (; k < n; k++)
			for (int i = 0; i < ROWS; i++)
				out[j + i] += a[k] * b[i * ldb + k];
#endif
#pragma GCC unroll 8
		for (int i = 0; i < ROWS; i++)
			out[j + i] += SUM_INTS(s[i]);
	}
	grn_dist_plain.ip_rows_i16(a, b, ldb, n, rows - j, out + j);
}

/* ---- columns ---- */

/* Eight sums hide the multiply-add's latency.  For W = 16 even and odd k have their own. */
#define SUMS (GRN_COLUMNS / W)	/* sums of a row */
#define SETS (W == 16 ? 2 : 1)

static inline __attribute__((always_inline)) WIDE void
KERNEL(add_columns) (const float *a, size_t lda, const float *b, size_t k, FLOATS s[4][SUMS])
{
#pragma GCC unroll 4
	for (int v = 0; v < SUMS; v++)
	{
		FLOATS		x = V(loadu_ps) (b + GRN_COLUMNS * k + v * W);

#pragma GCC unroll 4
		for (int i = 0; i < 4; i++)
			s[i][v] = V(fmadd_ps) (V(set1_ps) (a[i * lda + k]), x, s[i][v]);
	}
}

/* Inserts a row into the nearest rows of W columns.  distances, rows: the first column. */
static inline WIDE void
KERNEL(show_row) (FLOATS d, uint32_t number, float *distances, uint32_t *rows)
{
	FLOATS		row = AS_FLOATS(V(set1_epi32) ((int) number));
	FLOATS		kept = V(loadu_ps) (distances + (GRN_NEAREST_ROWS - 1) * GRN_COLUMNS);
	MASK		less = LESS(d, kept);

	/* Most rows are farther than all kept rows, in all columns. */
	if (!ANY(less))
		return;
	/* From the last place on: keep the row, take the new row, or take the place before's. */
#pragma GCC unroll 8
	for (int c = (GRN_NEAREST_ROWS - 1) * GRN_COLUMNS; c > 0; c -= GRN_COLUMNS)
	{
		FLOATS		before = V(loadu_ps) (distances + c - GRN_COLUMNS);
		FLOATS		row_before = V(loadu_ps) ((const float *) (rows + c - GRN_COLUMNS));
		FLOATS		row_kept = V(loadu_ps) ((const float *) (rows + c));
		MASK		less_before = LESS(d, before);

		V(storeu_ps) (distances + c, PICK(less_before, before, PICK(less, d, kept)));
		V(storeu_ps) ((float *) (rows + c), PICK(less_before, row_before, PICK(less, row, row_kept)));
		kept = before;
		less = less_before;
	}
	V(storeu_ps) (distances, PICK(less, d, kept));
	V(storeu_ps) ((float *) rows, PICK(less, row, V(loadu_ps) ((const float *) rows)));
}

static WIDE void
KERNEL(keep_nearest) (const float *a, size_t lda, const float *a_norms, const float *b,
					  const float *b_norms, size_t n, uint32_t number, GrnNearestRows *seen)
{
	FLOATS		s[SETS][4][SUMS];
	size_t		k = 0;

#pragma GCC unroll 16
	for (int i = 0; i < 4 * SUMS; i++)
#pragma GCC unroll 2
		for (int t = 0; t < SETS; t++)
			s[t][i / SUMS][i % SUMS] = V(setzero_ps) ();
	for (; k + SETS <= n; k += SETS)
#pragma GCC unroll 2
		for (int t = 0; t < SETS; t++)
			KERNEL(add_columns) (a, lda, b, k + (size_t) t, s[t]);
	for (; k < n; k++)
		KERNEL(add_columns) (a, lda, b, k, s[0]);
#pragma GCC unroll 16
	for (int i = 0; i < 4 * SUMS; i++)
	{
		FLOATS		sum = s[0][i / SUMS][i % SUMS];
		FLOATS		norms = V(add_ps) (V(set1_ps) (a_norms[i / SUMS]), V(loadu_ps) (b_norms + i % SUMS * W));

#pragma GCC unroll 2
		for (int t = 1; t < SETS; t++)
			sum = V(add_ps) (sum, s[t][i / SUMS][i % SUMS]);
		/* max returns its second operand if one is a NaN */
		sum = V(max_ps) (V(setzero_ps) (), V(fnmadd_ps) (V(set1_ps) (2), sum, norms));
		KERNEL(show_row) (sum, number + (uint32_t) (i / SUMS), seen->distances[0] + i % SUMS * W,
						  seen->rows[0] + i % SUMS * W);
	}
}

/* All entries of a GrnDistTable except the name and the products of codes. */
#define WIDE_ENTRIES \
	.l2_f32 = KERNEL(l2_f32), \
	.ip_f32 = KERNEL(ip_f32), \
	.l2_f16 = KERNEL(l2_f16), \
	.ip_f16 = KERNEL(ip_f16), \
	.l2_u8 = KERNEL(l2_u8), \
	.ip_u8 = KERNEL(ip_u8), \
	.l1_f32 = KERNEL(l1_f32), \
	.l1_f16 = KERNEL(l1_f16), \
	.l1_u8 = KERNEL(l1_u8), \
	.estimate = KERNEL(estimate), \
	.at_most = KERNEL(at_most), \
	.ip_4x4 = KERNEL(ip_4x4), \
	.keep_nearest = KERNEL(keep_nearest), \
	.unpack = SHORT_KERNEL(unpack), \
	.ip_rows = KERNEL(ip_rows), \
	.ip_rows_i16 = KERNEL(ip_rows_i16), \
	.add_scaled = KERNEL(add_scaled), \
	.levels = KERNEL(levels), \
	.f16_store = SHORT_KERNEL(f16_store), \
	.f16_load = SHORT_KERNEL(f16_load), \
	.u8_store = SHORT_KERNEL(u8_store)
