/*
 * dist_avx2.c - the kernels of dist.h for AVX2 with FMA and F16C.
 */
#if defined(__x86_64__)

#include "space/kernels/dist_x86.h"

#include <string.h>

#define WIDE AVX2
#define KERNEL(name) avx2_##name
#define V(op) _mm256_##op
#define W 8
#define FLOATS __m256
#define INTS __m256i
#define AND(a, b) _mm256_and_si256(a, b)
#define AS_FLOATS(x) _mm256_castsi256_ps(x)
#define ABS(x) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x)
#define TRUNCATE(x) _mm256_round_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)
#define SUM(x) sum_256(x)
#define AT_MOST(a, b) ((uint32_t) _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LE_OQ)))
#define MASK __m256
#define LESS(a, b) _mm256_cmp_ps(a, b, _CMP_LT_OQ)
#define ANY(mask) (_mm256_movemask_ps(mask) != 0)
#define PICK(mask, a, b) _mm256_blendv_ps(b, a, mask)
#define ALL
#define LOAD_F32(x, which) _mm256_loadu_ps((const float *) (x))
#define LOAD_F16(x, which) _mm256_cvtph_ps(_mm_loadu_si128((const void *) (x)))
#define LOAD_U8(x, which) \
	_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *) (x))))
/* The last numbers are copied to padded buffers. */
#define STEP_REST(s, STEP, LOAD, q, x, width, pad, n) \
	do { \
		float		qt[8] = {0}; \
		uint8_t		xt[32] = {0}; \
 \
		memcpy(qt, q, 4 * (n)); \
		for (size_t j = n; j < 8; j++) \
			qt[j] = pad; \
		memcpy(xt, x, (width) * (n)); \
		STEP(s, _mm256_loadu_ps(qt), LOAD(xt, ALL)); \
	} while (0)
#include "space/kernels/dist_wide_impl.h"

/* Returns the mask for a load of the first `bytes` of 32 bytes.  bytes: a multiple of 4. */
static inline AVX2 __m256i
first_bytes(uint32_t bytes)
{
	return _mm256_cmpgt_epi32(_mm256_set1_epi32((int) bytes),
							  _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
}

/*
 * Multiplies 32 bytes of a code with planes q [8 / step] of the query; the result has 8 sums.
 * A pair of bytes has two dimensions of 4 bits, four of 2 bits or eight of 1 bit for each
 * byte, so sums are at most 4 * 15 * 128 and fit 16 bits.
 */
static inline __attribute__((always_inline)) AVX2 __m256i
code_256(__m256i code, __m256i mask, const GrnCodePlanes *q, uint32_t at, int step)
{
	__m256i		sum = _mm256_setzero_si256();

#pragma GCC unroll 8
	for (int s = 0; s < 8; s += step)
		sum = _mm256_add_epi16(sum,
							   _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(code, s), mask),
													_mm256_loadu_si256((const void *) (q->plane[s] + at))));
	return _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
}

/* Adds the products of bytes [at, at + 32) of n <= 4 codes to sums [n]. */
static inline __attribute__((always_inline)) AVX2 void
codes_256(const GrnCodePlanes *q, const uint8_t *codes, uint32_t at, uint32_t n, int step,
		  __m256i *sums)
{
	__m256i		mask = _mm256_loadu_si256((const void *) (q->mask + at));

	if (at + 32 <= q->bytes)
		for (uint32_t i = 0; i < n; i++, codes += q->bytes)
			sums[i] = _mm256_add_epi32(sums[i], code_256(_mm256_loadu_si256((const void *) codes),
														 mask, q, at, step));
	else
	{
		__m256i		first = first_bytes(q->bytes - at);

		for (uint32_t i = 0; i < n; i++, codes += q->bytes)
			sums[i] = _mm256_add_epi32(sums[i], code_256(_mm256_maskload_epi32((const void *) codes, first),
														 mask, q, at, step));
	}
}

static AVX2 void
avx2_dot(const GrnCodePlanes *q, const uint8_t *codes, uint32_t count, int32_t *out)
{
	for (uint32_t c = 0; c < count; c += 4, codes += 4 * (size_t) q->bytes)
	{
		uint32_t	n = count - c < 4 ? count - c : 4;
		__m256i		sums[4];
		__m256i		s;
		int32_t		four[4];

		for (int i = 0; i < 4; i++)
			sums[i] = _mm256_setzero_si256();
		for (uint32_t at = 0; at < q->bytes; at += 32)
			switch (grn_plane_step(q, at + 32))
			{
				case 1:
					codes_256(q, codes + at, at, n, 1, sums);
					break;
				case 2:
					codes_256(q, codes + at, at, n, 2, sums);
					break;
				default:
					codes_256(q, codes + at, at, n, 4, sums);
			}
		s = _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]),
							  _mm256_hadd_epi32(sums[2], sums[3]));
		_mm_storeu_si128((void *) four, _mm_add_epi32(_mm256_castsi256_si128(s),
													  _mm256_extracti128_si256(s, 1)));
		memcpy(out + c, four, 4 * n);
	}
}

static AVX2 void
avx2_estimate(const GrnEstimate *e, const int32_t *dot, const GrnFactor *factors,
			  uint32_t count, float *out)
{
	uint32_t	i = 0;

	for (; i + 8 <= count; i += 8)
		_mm256_storeu_ps(out + i, estimates(e, _mm256_loadu_si256((const void *) (dot + i)),
											_mm256_loadu_si256((const void *) (factors + i))));
	if (i < count)
	{
		int32_t		dt[8] = {0};
		GrnFactor	ft[8] = {{0}};
		float		ot[8];

		memcpy(dt, dot + i, 4 * (count - i));
		memcpy(ft, factors + i, sizeof(GrnFactor) * (count - i));
		_mm256_storeu_ps(ot, estimates(e, _mm256_loadu_si256((const void *) dt),
									   _mm256_loadu_si256((const void *) ft)));
		memcpy(out + i, ot, 4 * (count - i));
	}
}

static AVX2 void
avx2_unpack(const uint8_t *code, size_t n, uint32_t bits, float middle, float step, float *out)
{
	const int	top = (1 << bits) - 1;

	for (uint32_t s = 0; s < 8; s += bits, out += n)
	{
		size_t		i = 0;

		for (; i + 8 <= n; i += 8)
		{
			__m256i		level = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *) (code + i)));
			__m256		x;

			level = _mm256_and_si256(_mm256_srl_epi32(level, _mm_cvtsi32_si128((int) s)), _mm256_set1_epi32(top));
			x = _mm256_sub_ps(_mm256_cvtepi32_ps(level), _mm256_set1_ps(middle));
			_mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_set1_ps(step), x));
		}
		for (; i < n; i++)
			out[i] = step * ((float) (code[i] >> s & top) - middle);
	}
}

static AVX2 void
avx2_ip_rows(const float *a, const float *b, size_t ldb, size_t n, uint32_t rows, float *out)
{
	uint32_t	j = 0;

	for (; j + 4 <= rows; j += 4, b += 4 * ldb)
	{
		__m256		s[4];
		size_t		k = 0;
		__m128		sums;

		for (int i = 0; i < 4; i++)
			s[i] = _mm256_setzero_ps();
		for (; k + 8 <= n; k += 8)
		{
			__m256		v = _mm256_loadu_ps(a + k);

#pragma GCC unroll 4
			for (int i = 0; i < 4; i++)
				s[i] = _mm256_fmadd_ps(v, _mm256_loadu_ps(b + i * ldb + k), s[i]);
		}
		sums = sums_256(s[0], s[1], s[2], s[3]);
		_mm_storeu_ps(out + j, _mm_add_ps(_mm_loadu_ps(out + j), sums));
		for (; k < n; k++)
			for (int i = 0; i < 4; i++)
				out[j + i] += a[k] * b[i * ldb + k];
	}
	for (; j < rows; j++, b += ldb)
		out[j] += avx2_ip_f32(a, b, n);
}

/* Returns the sum of the lanes of each of four registers. */
static inline AVX2 __m128i
int_sums_256(__m256i a, __m256i b, __m256i c, __m256i d)
{
	__m256i		s = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));

	return _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
}

static AVX2 void
avx2_ip_rows_i16(const int16_t *a, const int16_t *b, size_t ldb, size_t n, uint32_t rows,
				 int32_t *out)
{
	uint32_t	j = 0;

	for (; j + 4 <= rows; j += 4, b += 4 * ldb)
	{
		__m256i		s[4];
		size_t		k = 0;
		__m128i		sums;

		for (int i = 0; i < 4; i++)
			s[i] = _mm256_setzero_si256();
		for (; k + 16 <= n; k += 16)
		{
			__m256i		v = _mm256_loadu_si256((const void *) (a + k));

#pragma GCC unroll 4
			for (int i = 0; i < 4; i++)
				s[i] = _mm256_add_epi32(s[i], _mm256_madd_epi16(v, _mm256_loadu_si256((const void *)
																					  (b + i * ldb + k))));
		}
		sums = int_sums_256(s[0], s[1], s[2], s[3]);
		_mm_storeu_si128((void *) (out + j),
						 _mm_add_epi32(_mm_loadu_si128((const void *) (out + j)), sums));
		for (; k < n; k++)
			for (int i = 0; i < 4; i++)
				out[j + i] += a[k] * b[i * ldb + k];
	}
	grn_dist_plain.ip_rows_i16(a, b, ldb, n, rows - j, out + j);
}

static AVX2 void
avx2_add_scaled(float *y, float a, const float *x, size_t n)
{
	__m256		a8 = _mm256_set1_ps(a);
	size_t		i = 0;

	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(y + i, _mm256_fmadd_ps(a8, _mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
	for (; i < n; i++)
		y[i] += a * x[i];
}

static AVX2 void
avx2_ip_4x4(const float *a, size_t lda, const float *b, size_t ldb, size_t n,
			float *out)
{
	/* Two columns at a time: 8 sums and 6 operands fit the 16 registers. */
	for (int j = 0; j < 4; j += 2)
	{
		const float *b0 = b + j * ldb;
		const float *b1 = b0 + ldb;
		__m256		s[4][2];
		size_t		k = 0;

		for (int i = 0; i < 4; i++)
			s[i][0] = s[i][1] = _mm256_setzero_ps();
		for (; k + 8 <= n; k += 8)
		{
			__m256		v0 = _mm256_loadu_ps(b0 + k);
			__m256		v1 = _mm256_loadu_ps(b1 + k);

#pragma GCC unroll 4
			for (int i = 0; i < 4; i++)
			{
				__m256		u = _mm256_loadu_ps(a + i * lda + k);

				s[i][0] = _mm256_fmadd_ps(u, v0, s[i][0]);
				s[i][1] = _mm256_fmadd_ps(u, v1, s[i][1]);
			}
		}
		for (int i = 0; i < 4; i++)
		{
			float		r0 = sum_256(s[i][0]);
			float		r1 = sum_256(s[i][1]);

			for (size_t t = k; t < n; t++)
			{
				r0 += a[i * lda + t] * b0[t];
				r1 += a[i * lda + t] * b1[t];
			}
			out[4 * i + j] = r0;
			out[4 * i + j + 1] = r1;
		}
	}
}

AVX2 void
grn_avx2_f16_store(const float *x, size_t n, void *out)
{
	uint8_t    *o = out;
	const __m256 limit = _mm256_set1_ps(65504.0f);
	size_t		i = 0;

	/* With the vector as the second operand min and max return a NaN unchanged. */
	for (; i + 8 <= n; i += 8)
	{
		__m256		v = _mm256_loadu_ps(x + i);

		v = _mm256_max_ps(_mm256_sub_ps(_mm256_setzero_ps(), limit), _mm256_min_ps(limit, v));
		_mm_storeu_si128((void *) (o + 2 * i),
						 _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
	}
	grn_dist_plain.f16_store(x + i, n - i, o + 2 * i);
}

AVX2 void
grn_avx2_f16_load(const void *x, size_t n, float *out)
{
	const uint8_t *h = x;
	size_t		i = 0;

	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(out + i, LOAD_F16(h + 2 * i, ALL));
	grn_dist_plain.f16_load(h + 2 * i, n - i, out + i);
}

AVX2 void
grn_avx2_u8_store(const float *x, size_t n, void *out)
{
	uint8_t    *o = out;
	const __m256 half = _mm256_set1_ps(0.5f);
	const __m256 limit = _mm256_set1_ps(255);
	size_t		i = 0;

	for (; i + 8 <= n; i += 8)
	{
		__m256		v = _mm256_max_ps(_mm256_loadu_ps(x + i), _mm256_setzero_ps());
		__m256i		k = _mm256_cvttps_epi32(_mm256_add_ps(_mm256_min_ps(v, limit), half));
		__m128i		k16 = _mm_packus_epi32(_mm256_castsi256_si128(k),
										   _mm256_extracti128_si256(k, 1));

		_mm_storel_epi64((void *) (o + i), _mm_packus_epi16(k16, k16));
	}
	grn_dist_plain.u8_store(x + i, n - i, o + i);
}

const GrnDistTable grn_dist_avx2 = {
	.name = "avx2",
	.dot = avx2_dot,
	WIDE_ENTRIES
};

#endif
