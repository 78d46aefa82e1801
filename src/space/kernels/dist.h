/*
 * dist.h - exact distance kernels, in the version that suits the processor.
 *
 * grn_dist_init() fills a table of function pointers with versions for AVX-512, AVX2+FMA+F16C,
 * NEON or plain C.  The environment variable GRN_SIMD=plain|avx2|avx512|avx512vnni|neon
 * selects a version, for tests and for the command-line builder.  Every version agrees with
 * the plain version within a relative error of 1e-5, as tests check.
 */
#ifndef GRN_DIST_H
#define GRN_DIST_H

#include <stddef.h>
#include <string.h>

#include "space/grn.h"

/*
 * Numbers that are converted, or codes that are estimated, at a time.  10,000 sentences are built
 * and searched in the same time with half and twice.
 */
#define GRN_PIECE 64

/*
 * The two factors of a code, on disk: the upper 18 bits are a length, the lower 14 an alpha.
 * A length is a float without a sign, with 7 bits of exponent and 11 of mantissa.  The
 * precision is .025% for every length from 2^-63 to 2^64 units.  An alpha is an integer, in
 * units of GrnCodec.alpha_unit.
 */
typedef struct GrnFactor
{
	uint32_t	bits;
} GrnFactor;

#define GRN_ALPHA_BITS 14
#define GRN_MAX_ALPHA ((1u << GRN_ALPHA_BITS) - 1)
#define GRN_LENGTH_SHIFT (23 - 11)	/* shift of the length's bits in a float's bits */
/* Scales a float made of a length's bits: 2 to the power of the exponent's bias. */
#define GRN_LENGTH_ONE 0x1p63f

static inline uint32_t
grn_factor_alpha(GrnFactor f)
{
	return f.bits & GRN_MAX_ALPHA;
}

/* Returns the length in its unit. */
static inline float
grn_factor_length(GrnFactor f)
{
	uint32_t	bits = f.bits >> GRN_ALPHA_BITS << GRN_LENGTH_SHIFT;
	float		x;

	memcpy(&x, &bits, sizeof(x));
	return x * GRN_LENGTH_ONE;
}

/* Rounds length >= 0 and alpha >= 0, in their units.  Numbers out of range become the largest. */
extern GrnFactor grn_factor(float length, float alpha);

/*
 * The numbers that an estimate needs of the query.  With the length l = unit * (the float of
 * the length's bits) and the alpha a of a factor, the estimate is base + l (square * l + lead
 * - slope * a (dot - offset)); see codec.h.
 */
typedef struct GrnEstimate
{
	float		base;
	float		unit;
	float		square;
	float		lead;
	float		slope;
	float		offset;
} GrnEstimate;

/*
 * A query in the form in which codes are multiplied with the query.  The first end4 bytes of a
 * code have two dimensions each, of 4 bits; the bytes up to end2 have four dimensions of 2 bits;
 * the remaining bytes have eight of 1 bit.  plane[s][i] is the factor of the dimension that begins
 * at bit s of byte i, or 0 if no dimension begins at bit s or byte i is past the code.
 */
#define GRN_MAX_CODE_BYTES 128

typedef struct GrnCodePlanes
{
	uint32_t	bytes;			/* bytes of a code, a multiple of 4 */
	uint32_t	end4;
	uint32_t	end2;
	uint8_t		mask[GRN_MAX_CODE_BYTES];	/* 15, 3 or 1; 0 past the code */
	int8_t		plane[8][GRN_MAX_CODE_BYTES];
} GrnCodePlanes;

/* The least number of bits between the dimensions in the bytes of a code before end. */
static inline uint32_t
grn_plane_step(const GrnCodePlanes *q, uint32_t end)
{
	end = end < q->bytes ? end : q->bytes;
	return end > q->end2 ? 1 : end > q->end4 ? 2 : 4;
}

/*
 * The nearest rows of each column of keep_nearest(): squared distances, nearest first, and the
 * rows' numbers.  INFINITY marks an empty place.
 */
#define GRN_COLUMNS 16
#define GRN_NEAREST_ROWS 6
typedef struct GrnNearestRows
{
	float		distances[GRN_NEAREST_ROWS][GRN_COLUMNS];
	uint32_t	rows[GRN_NEAREST_ROWS][GRN_COLUMNS];
} GrnNearestRows;

typedef struct GrnDistTable
{
	const char *name;			/* "avx512vnni", "avx512", "avx2", "neon", "plain" */
	/* squared Euclidean distance of n floats */
	float		(*l2_f32) (const float *a, const float *b, size_t n);
	/* inner product of n floats */
	float		(*ip_f32) (const float *a, const float *b, size_t n);
	/* sum of |a_i - b_i| of n floats */
	float		(*l1_f32) (const float *a, const float *b, size_t n);
	/* between a float query and n binary16 (unaligned) */
	float		(*l2_f16) (const float *q, const void *x, size_t n);
	float		(*ip_f16) (const float *q, const void *x, size_t n);
	float		(*l1_f16) (const float *q, const void *x, size_t n);
	/* between a float query and n bytes; a byte b stands for b * scale + offset */
	float		(*l2_u8) (const float *q, const void *x, size_t n, float scale, float offset);
	float		(*ip_u8) (const float *q, const void *x, size_t n, float scale, float offset);
	float		(*l1_u8) (const float *q, const void *x, size_t n, float scale, float offset);
	/* sums of products of q with count adjacent codes; all versions return equal sums */
	void		(*dot) (const GrnCodePlanes *q, const uint8_t *codes, uint32_t count,
						int32_t *out);
	/*
	 * Estimates from count dots and as many factors (unaligned).  The position among the count
	 * does not change an estimate.
	 */
	void		(*estimate) (const GrnEstimate *e, const int32_t *dot,
							 const GrnFactor *factors, uint32_t count, float *out);
	/* out: indices of the floats that are at most `most`, in order; returns their number */
	uint32_t	(*at_most) (const float *x, uint32_t n, float most, uint32_t *out);
	/*
	 * out[4 * i + j] = inner product of row i of a and row j of b, i, j < 4.  Rows have n
	 * floats; lda and ldb are the floats between the starts of two rows.
	 */
	void		(*ip_4x4) (const float *a, size_t lda, const float *b, size_t ldb,
						   size_t n, float *out);
	/*
	 * Offers four rows of a, numbered from `number` on, to the columns of b [n][GRN_COLUMNS],
	 * and keeps the nearest rows of each column in *seen.  lda: floats between the starts of
	 * two rows of a.  Distances are computed from squared norms and inner products.  Of rows
	 * at equal distances the first offered counts as nearer.
	 */
	void		(*keep_nearest) (const float *a, size_t lda, const float *a_norms, const float *b,
								 const float *b_norms, size_t n, uint32_t number, GrnNearestRows *seen);
	/* out[s / bits * n + i] = step * (bits s to s + bits of code[i] - middle), s = 0, bits... < 8 */
	void		(*unpack) (const uint8_t *code, size_t n, uint32_t bits, float middle, float step,
						   float *out);
	/* out[j] += inner product of a and row j of b, n floats; ldb: floats from row to row */
	void		(*ip_rows) (const float *a, const float *b, size_t ldb, size_t n,
							uint32_t rows, float *out);
	/* ip_rows for 16-bit integers with sums below 2^31; all versions return equal sums */
	void		(*ip_rows_i16) (const int16_t *a, const int16_t *b, size_t ldb, size_t n,
								uint32_t rows, int32_t *out);
	/* y[i] += a x[i], n floats that do not overlap */
	void		(*add_scaled) (float *y, float a, const float *x, size_t n);
	/*
	 * For n numbers, a multiple of 16: levels c_j = u_j * inverse + (top + 1) / 2, truncated
	 * to an integer from 0 to top (0 for NaN).  *uc = sum of u_j (c_j - top / 2), *cc = sum of
	 * (c_j - top / 2)^2.
	 */
	void		(*levels) (const float *u, size_t n, float inverse, float top, float *uc,
						   float *cc);
	/* arrays of binary16; store rounds to nearest even and saturates */
	void		(*f16_store) (const float *x, size_t n, void *out);
	void		(*f16_load) (const void *x, size_t n, float *out);
	/* rounds to the nearest of 0..255, halves upwards */
	void		(*u8_store) (const float *x, size_t n, void *out);
} GrnDistTable;

extern const GrnDistTable *grn_dist;	/* set by grn_dist_init() */

/* Chooses the version, once.  Not thread-safe: call before the start of threads. */
extern void grn_dist_init(void);

/* Returns the number of versions that the processor can run, and the versions, plain first. */
extern int	grn_dist_versions(const GrnDistTable **out, int max);

/* Half precision: conversion to binary16 rounds to nearest even and saturates. */
extern uint16_t grn_f32_to_f16(float x);
extern float grn_f16_to_f32(uint16_t h);

/* pairs.c: kernels for two rows of one short form.  grn_dist_init() chooses the version. */

typedef struct GrnPairTable
{
	/* squared Euclidean distance of a and ratio * b, n binary16 each (unaligned) */
	float		(*l2_f16) (const void *a, const void *b, float ratio, size_t n);
	/* squared Euclidean distance of a + offset and ratio * b, n bytes each */
	float		(*l2_u8) (const uint8_t *a, const uint8_t *b, float ratio, float offset, size_t n);
	/* bits that differ between a and b, `bytes` bytes each (unaligned) */
	uint32_t	(*differ) (const void *a, const void *b, size_t bytes);
	/* bits that are set in both a and b */
	uint32_t	(*common) (const void *a, const void *b, size_t bytes);
} GrnPairTable;

extern const GrnPairTable *grn_pairs;	/* set by grn_dist_init() */

/* Returns the pair kernels that belong to a version of dist.h. */
extern const GrnPairTable *grn_pairs_of(const GrnDistTable *dist);

/* rotate.c: a random rotation in O(n log n) that is the same on every machine. */

/*
 * grn_rotate() rotates x [n], and grn_rotate_back() is the inverse.  Each number becomes a sum of
 * all numbers with random signs, so no number is much larger than the average.  n is arbitrary.
 * Lengths and angles do not change.  Results on different machines differ only by rounding.
 */
extern void grn_rotate(float *x, size_t n);
extern void grn_rotate_back(float *x, size_t n);

#endif							/* GRN_DIST_H */
