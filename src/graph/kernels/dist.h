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

#include <string.h>

/*
 * The two factors of a code, on disk: the upper 18 bits are a length, the lower 14 an alpha.
 * A length is a float without a sign, of 7 bits of exponent and 11 of mantissa, so it
 * has the same precision, .025%, from 2^-63 to 2^64 of its unit.  An alpha is an integer,
 * in units of GrnCodec.alpha_unit.
 */
typedef struct GrnFactor
{
	uint32_t	bits;
} GrnFactor;

#define GRN_ALPHA_BITS 14
#define GRN_MAX_ALPHA ((1u << GRN_ALPHA_BITS) - 1)
#define GRN_LENGTH_SHIFT (23 - 11)	/* of the length's bits in a float's */
/* What the float of a length's bits is multiplied with; it is its exponent's bias. */
#define GRN_LENGTH_ONE 0x1p63f

static inline uint32_t
grn_factor_alpha(GrnFactor f)
{
	return f.bits & GRN_MAX_ALPHA;
}

/* In its unit. */
static inline float
grn_factor_length(GrnFactor f)
{
	uint32_t	bits = f.bits >> GRN_ALPHA_BITS << GRN_LENGTH_SHIFT;
	float		x;

	memcpy(&x, &bits, sizeof(x));
	return x * GRN_LENGTH_ONE;
}

/* length >= 0 and alpha >= 0 in their units, rounded; the largest of those out of range. */
extern GrnFactor grn_factor(float length, float alpha);

/*
 * What an estimate needs of the query: with the length l = unit * (the float of its bits) and
 * alpha a of a factor, base + l (square * l + lead - slope * a (dot - offset)); see codec.h.
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
 * A query as codes are multiplied with it.  The first end4 bytes of a code hold two
 * dimensions each, of 4 bits, those up to end2 four of 2 bits, the others eight of a
 * bit.  plane[s][i] is what the dimension beginning at bit s of byte i is multiplied
 * with; 0 where none begins and past the code.
 */
#define GRN_MAX_CODE_BYTES 128

typedef struct GrnCodePlanes
{
	uint32_t	bytes;			/* of a code, a multiple of 4 */
	uint32_t	end4;
	uint32_t	end2;
	uint8_t		mask[GRN_MAX_CODE_BYTES];	/* 15, 3 or 1; 0 past the code */
	int8_t		plane[8][GRN_MAX_CODE_BYTES];
} GrnCodePlanes;

/* Bits between the dimensions in the bytes of a code before end, at the least. */
static inline uint32_t
grn_plane_step(const GrnCodePlanes *q, uint32_t end)
{
	end = end < q->bytes ? end : q->bytes;
	return end > q->end2 ? 1 : end > q->end4 ? 2 : 4;
}

/*
 * What columns of show_rows() remember of the rows that they have seen: squared distances of the
 * nearest ones, nearest first, and their numbers.  INFINITY: none yet.
 */
#define GRN_COLUMNS 16
#define GRN_SEEN 6
typedef struct GrnSeen
{
	float		distances[GRN_SEEN][GRN_COLUMNS];
	uint32_t	rows[GRN_SEEN][GRN_COLUMNS];
} GrnSeen;

typedef struct GrnDistTable
{
	const char *name;			/* "avx512vnni", "avx512", "avx2", "neon", "plain" */
	/* squared Euclidean distance of n floats */
	float		(*l2_f32) (const float *a, const float *b, size_t n);
	/* inner product of n floats */
	float		(*ip_f32) (const float *a, const float *b, size_t n);
	/* sum of |a_i - b_i| of n floats */
	float		(*l1_f32) (const float *a, const float *b, size_t n);
	/* the same between a float query and n binary16 (unaligned) */
	float		(*l2_f16) (const float *q, const void *x, size_t n);
	float		(*ip_f16) (const float *q, const void *x, size_t n);
	float		(*l1_f16) (const float *q, const void *x, size_t n);
	/* and between it and n bytes, of which b stands for b * scale + offset */
	float		(*l2_u8) (const float *q, const void *x, size_t n, float scale, float offset);
	float		(*ip_u8) (const float *q, const void *x, size_t n, float scale, float offset);
	float		(*l1_u8) (const float *q, const void *x, size_t n, float scale, float offset);
	/* sums of products of q with count codes that lie one behind the other: all versions' equal */
	void		(*dot) (const GrnCodePlanes *q, const uint8_t *codes, uint32_t count,
						int32_t *out);
	/*
	 * Estimates from count dots and as many factors (unaligned).
	 * An estimate does not depend on its position among the count.
	 */
	void		(*estimate) (const GrnEstimate *e, const int32_t *dot,
							 const GrnFactor *factors, uint32_t count, float *out);
	/* out: the indices of those of n floats that are at most `most`, in order; how many they are */
	uint32_t	(*at_most) (const float *x, uint32_t n, float most, uint32_t *out);
	/*
	 * out[4 * i + j] = inner product of row i of a and row j of b, i, j < 4;
	 * rows of n floats lie lda and ldb floats apart.
	 */
	void		(*ip_4x4) (const float *a, size_t lda, const float *b, size_t ldb,
						   size_t n, float *out);
	/*
	 * Shows four rows of a, with numbers from `number` on, to the columns of b, which is
	 * [n][GRN_COLUMNS]; rows of a lie lda floats apart.  Distances are computed from squared lengths
	 * and inner products.  Of equal ones the first that was shown is the nearer.
	 */
	void		(*show_rows) (const float *a, size_t lda, const float *a_norms, const float *b,
							  const float *b_norms, size_t n, uint32_t number, GrnSeen *seen);
	/* out[s / bits * n + i] = step * (bits s to s + bits of code[i] - middle), s = 0, bits... < 8 */
	void		(*unpack) (const uint8_t *code, size_t n, uint32_t bits, float middle, float step,
						   float *out);
	/* out[j] += inner product of a and row j of b, n floats; rows lie ldb floats apart */
	void		(*ip_rows) (const float *a, const float *b, size_t ldb, size_t n,
							uint32_t rows, float *out);
	/* the same of 16-bit integers, whose sums stay below 2^31: all versions' equal */
	void		(*ip_rows_i16) (const int16_t *a, const int16_t *b, size_t ldb, size_t n,
								uint32_t rows, int32_t *out);
	/* y[i] += a x[i], n floats that do not overlap */
	void		(*add_scaled) (float *y, float a, const float *x, size_t n);
	/*
	 * Levels c_j = u_j * inverse + (top + 1) / 2, cut to an integer from 0 to top (0 for
	 * NaN), of n numbers, a multiple of 16: *uc = sum of u_j (c_j - top / 2), *cc = sum of
	 * (c_j - top / 2)^2.
	 */
	void		(*levels) (const float *u, size_t n, float inverse, float top, float *uc,
						   float *cc);
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

/* Half precision: round to nearest even, saturating. */
extern uint16_t grn_f32_to_f16(float x);
extern float grn_f16_to_f32(uint16_t h);

#endif							/* GRN_DIST_H */
