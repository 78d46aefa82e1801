/*
 * dist.h - exact distance kernels, chosen once for the processor at hand.
 *
 * The public entries go through a table of function pointers which
 * grn_dist_init() fills with AVX-512, AVX2+FMA+F16C, NEON or plain C versions
 * (GRN_SIMD=plain|avx2|avx512|avx512vnni|neon in the environment of a test or the
 * command-line builder narrows the choice).  Every version agrees with the
 * plain one within 1e-5 relative; tests hold them to that.
 */
#ifndef GRN_DIST_H
#define GRN_DIST_H

#include "graph/grn.h"

/*
 * What an estimate needs of the query: base + norm_unit * norm2 -
 * slope * alpha * (dot - offset), see codec.h.
 */
typedef struct GrnEstimate
{
	float		base;
	float		norm_unit;
	float		slope;
	float		offset;
} GrnEstimate;

typedef struct GrnDistTable
{
	const char *name;			/* "avx512vnni", "avx512", "avx2", "neon", "plain" */
	/* squared Euclidean distance of n floats */
	float		(*l2_f32) (const float *a, const float *b, size_t n);
	/* inner product of n floats */
	float		(*ip_f32) (const float *a, const float *b, size_t n);
	/* sum of |a_i - b_i| of n floats */
	float		(*l1_f32) (const float *a, const float *b, size_t n);
	/* the same between a float query and n binary16 or bytes (unaligned) */
	float		(*l2_f16) (const float *q, const void *x, size_t n);
	float		(*ip_f16) (const float *q, const void *x, size_t n);
	float		(*l2_u8) (const float *q, const void *x, size_t n);
	float		(*ip_u8) (const float *q, const void *x, size_t n);
	float		(*l1_f16) (const float *q, const void *x, size_t n);
	float		(*l1_u8) (const float *q, const void *x, size_t n);
	/*
	 * sum over code_dims of q8[j] * code_j for count codes of 4 bits each
	 * that lie code_bytes apart; low nibbles of a code's bytes are dimensions
	 * [0, code_dims/2), high nibbles the others.  code_dims is a multiple of 32.
	 */
	void		(*dot_q8c4) (const int8_t *q8, const uint8_t *codes,
							 size_t code_bytes, size_t code_dims,
							 uint32_t count, int32_t *out);
	/*
	 * Estimates from count dots and as many pairs (norm2, alpha) of binary16.
	 * An estimate does not depend on its place among the count.
	 */
	void		(*estimate) (const GrnEstimate *e, const int32_t *dot,
							 const void *factors, uint32_t count, float *out);
	/*
	 * out[4 * i + j] = inner product of row i of a and row j of b, i, j < 4;
	 * rows of n floats lie lda and ldb floats apart.
	 */
	void		(*ip_4x4) (const float *a, size_t lda, const float *b, size_t ldb,
						   size_t n, float *out);
	/* out[j] += inner product of a and row j of b, n floats; rows lie ldb floats apart */
	void		(*ip_rows) (const float *a, const float *b, size_t ldb, size_t n,
							uint32_t rows, float *out);
	/* y[i] += a x[i], n floats that do not overlap */
	void		(*add_scaled) (float *y, float a, const float *x, size_t n);
	/*
	 * Levels c_j = u_j * inverse + 8, cut to an integer from 0 to 15 (0 for NaN), of n
	 * numbers, a multiple of 16: *uc = sum of u_j (c_j - 7.5), *cc = sum of (c_j - 7.5)^2.
	 */
	void		(*levels) (const float *u, size_t n, float inverse, float *uc, float *cc);
	/* arrays of binary16: round to nearest even, saturating */
	void		(*f16_store) (const float *x, size_t n, void *out);
	void		(*f16_load) (const void *x, size_t n, float *out);
	/* to the nearest of 0..255, halves upwards */
	void		(*u8_store) (const float *x, size_t n, void *out);
} GrnDistTable;

extern const GrnDistTable *grn_dist;	/* set by grn_dist_init() */

/* Idempotent; not thread-safe, so call it before starting threads. */
extern void grn_dist_init(void);

/* All versions this processor can run, plain first; returns their number. */
extern int	grn_dist_versions(const GrnDistTable **out, int max);

/* Half precision, for factors: round to nearest even, saturating. */
extern uint16_t grn_f32_to_f16(float x);
extern float grn_f16_to_f32(uint16_t h);

#endif							/* GRN_DIST_H */
