/*
 * dist_x86.c - the kernels of dist.h for AVX2 (with FMA and F16C), AVX-512 and
 * AVX-512 VNNI, each compiled for its instruction set by function attribute.
 */
#include "graph/kernels/dist_impl.h"

#if defined(__x86_64__)

#include <cpuid.h>

#include "graph/kernels/dist_x86.h"

/* ---- AVX2 ---- */

AVX2_KERNEL(avx2_l2_f32, float, 4, load_f32_256, STEP_L2_256)
AVX2_KERNEL(avx2_ip_f32, float, 4, load_f32_256, STEP_IP_256)
AVX2_KERNEL(avx2_l2_f16, void, 2, load_f16_256, STEP_L2_256)
AVX2_KERNEL(avx2_ip_f16, void, 2, load_f16_256, STEP_IP_256)
AVX2_KERNEL(avx2_l2_u8, void, 1, load_u8_256, STEP_L2_256)
AVX2_KERNEL(avx2_ip_u8, void, 1, load_u8_256, STEP_IP_256)
AVX2_KERNEL(avx2_l1_f32, float, 4, load_f32_256, STEP_L1_256)
AVX2_KERNEL(avx2_l1_f16, void, 2, load_f16_256, STEP_L1_256)
AVX2_KERNEL(avx2_l1_u8, void, 1, load_u8_256, STEP_L1_256)

/* Products of 32 code bytes' nibbles with their parts of the query: 8 sums. */
static inline AVX2 __m256i
nibbles_256(__m256i code, __m256i qlow, __m256i qhigh)
{
	const __m256i mask = _mm256_set1_epi8(15);
	__m256i		low = _mm256_and_si256(code, mask);
	__m256i		high = _mm256_and_si256(_mm256_srli_epi16(code, 4), mask);

	/* At most 4 * 15 * 128 in 16 bits. */
	return _mm256_madd_epi16(_mm256_add_epi16(_mm256_maddubs_epi16(low, qlow),
											  _mm256_maddubs_epi16(high, qhigh)),
							 _mm256_set1_epi16(1));
}

/* One code of half bytes, 16 at least and a multiple of it. */
static inline AVX2 __m256i
code_256(const int8_t *q8, const uint8_t *code, size_t half)
{
	__m256i		sum = _mm256_setzero_si256();
	size_t		j = 0;

	for (; j + 32 <= half; j += 32)
		sum = _mm256_add_epi32(sum,
							   nibbles_256(_mm256_loadu_si256((const void *) (code + j)),
										   _mm256_loadu_si256((const void *) (q8 + j)),
										   _mm256_loadu_si256((const void *) (q8 + half + j))));
	if (j < half)
		sum = _mm256_add_epi32(sum,
							   nibbles_256(_mm256_zextsi128_si256(_mm_loadu_si128((const void *) (code + j))),
										   _mm256_zextsi128_si256(_mm_loadu_si128((const void *) (q8 + j))),
										   _mm256_zextsi128_si256(_mm_loadu_si128((const void *) (q8 + half + j)))));
	return sum;
}

static AVX2 void
avx2_dot_q8c4(const int8_t *q8, const uint8_t *codes, size_t code_bytes,
			  size_t code_dims, uint32_t count, int32_t *out)
{
	size_t		half = code_dims / 2;
	uint32_t	c = 0;

	for (; c + 4 <= count; c += 4)
	{
		const uint8_t *p = codes + c * code_bytes;
		__m256i		s01 = _mm256_hadd_epi32(code_256(q8, p, half),
											code_256(q8, p + code_bytes, half));
		__m256i		s23 = _mm256_hadd_epi32(code_256(q8, p + 2 * code_bytes, half),
											code_256(q8, p + 3 * code_bytes, half));
		__m256i		s = _mm256_hadd_epi32(s01, s23);

		_mm_storeu_si128((void *) (out + c),
						 _mm_add_epi32(_mm256_castsi256_si128(s),
									   _mm256_extracti128_si256(s, 1)));
	}
	for (; c < count; c++)
	{
		__m256i		s = code_256(q8, codes + c * code_bytes, half);
		__m128i		h = _mm_add_epi32(_mm256_castsi256_si128(s),
									  _mm256_extracti128_si256(s, 1));

		h = _mm_hadd_epi32(h, h);
		h = _mm_hadd_epi32(h, h);
		out[c] = _mm_cvtsi128_si32(h);
	}
}

/* Eight estimates from eight dots and 32 bytes of factors. */
static inline AVX2 __m256
estimate_256(const GrnEstimate *e, const int32_t *dot, const void *factors)
{
	__m256i		pairs = _mm256_loadu_si256(factors);
	/* even and odd 16-bit words apart, packed to 8 each */
	__m256i		words = _mm256_permute4x64_epi64(
												 _mm256_shuffle_epi8(pairs,
																	 _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,
																					  0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)),
												 0xD8);
	__m256		norm2 = _mm256_cvtph_ps(_mm256_castsi256_si128(words));
	__m256		alpha = _mm256_cvtph_ps(_mm256_extracti128_si256(words, 1));
	__m256		d = _mm256_sub_ps(_mm256_cvtepi32_ps(_mm256_loadu_si256((const void *) dot)),
								  _mm256_set1_ps(e->offset));
	__m256		base = _mm256_fmadd_ps(_mm256_set1_ps(e->norm_unit), norm2,
									   _mm256_set1_ps(e->base));

	return _mm256_fnmadd_ps(_mm256_mul_ps(_mm256_set1_ps(e->slope), alpha), d, base);
}

static AVX2 void
avx2_estimate(const GrnEstimate *e, const int32_t *dot, const void *factors,
			  uint32_t count, float *out)
{
	const uint8_t *f = factors;
	uint32_t	i = 0;

	for (; i + 8 <= count; i += 8)
		_mm256_storeu_ps(out + i, estimate_256(e, dot + i, f + 4 * (size_t) i));
	if (i < count)
	{
		int32_t		dt[8] = {0};
		uint8_t		ft[32] = {0};
		float		ot[8];

		memcpy(dt, dot + i, 4 * (count - i));
		memcpy(ft, f + 4 * (size_t) i, 4 * (count - i));
		_mm256_storeu_ps(ot, estimate_256(e, dt, ft));
		memcpy(out + i, ot, 4 * (count - i));
	}
}

/* The sums of four accumulators, side by side. */
static inline AVX2 __m128
sums_256(__m256 s0, __m256 s1, __m256 s2, __m256 s3)
{
	__m256		h = _mm256_hadd_ps(_mm256_hadd_ps(s0, s1), _mm256_hadd_ps(s2, s3));

	return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
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
avx2_levels(const float *u, size_t n, float inverse, float *uc, float *cc)
{
	__m256		uc8 = _mm256_setzero_ps(),
				cc8 = uc8;

	for (size_t j = 0; j < n; j += 8)
	{
		__m256		x = _mm256_loadu_ps(u + j);
		__m256		level = _mm256_fmadd_ps(x, _mm256_set1_ps(inverse), _mm256_set1_ps(8));

		/* of a NaN, max is its second operand */
		level = _mm256_max_ps(level, _mm256_setzero_ps());
		level = _mm256_min_ps(_mm256_round_ps(level, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC),
							  _mm256_set1_ps(15));
		level = _mm256_sub_ps(level, _mm256_set1_ps(7.5f));
		uc8 = _mm256_fmadd_ps(x, level, uc8);
		cc8 = _mm256_fmadd_ps(level, level, cc8);
	}
	*uc = sum_256(uc8);
	*cc = sum_256(cc8);
}

static AVX2 void
avx2_ip_4x4(const float *a, size_t lda, const float *b, size_t ldb, size_t n,
			float *out)
{
	/* Two columns at a time: 8 sums and 6 operands stay in 16 registers. */
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

static AVX2 void
avx2_f16_store(const float *x, size_t n, void *out)
{
	uint8_t    *o = out;
	const __m256 limit = _mm256_set1_ps(65504.0f);
	size_t		i = 0;

	/* min and max with the vector second: a NaN stays one */
	for (; i + 8 <= n; i += 8)
	{
		__m256		v = _mm256_loadu_ps(x + i);

		v = _mm256_max_ps(_mm256_sub_ps(_mm256_setzero_ps(), limit), _mm256_min_ps(limit, v));
		_mm_storeu_si128((void *) (o + 2 * i),
						 _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
	}
	grn_dist_plain.f16_store(x + i, n - i, o + 2 * i);
}

static AVX2 void
avx2_f16_load(const void *x, size_t n, float *out)
{
	const uint8_t *h = x;
	size_t		i = 0;

	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(out + i, load_f16_256(h + 2 * i));
	grn_dist_plain.f16_load(h + 2 * i, n - i, out + i);
}

static AVX2 void
avx2_u8_store(const float *x, size_t n, void *out)
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

static const GrnDistTable avx2_table = {
	.name = "avx2",
	.l2_f32 = avx2_l2_f32,
	.ip_f32 = avx2_ip_f32,
	.l2_f16 = avx2_l2_f16,
	.ip_f16 = avx2_ip_f16,
	.l2_u8 = avx2_l2_u8,
	.ip_u8 = avx2_ip_u8,
	.l1_f32 = avx2_l1_f32,
	.l1_f16 = avx2_l1_f16,
	.l1_u8 = avx2_l1_u8,
	.dot_q8c4 = avx2_dot_q8c4,
	.estimate = avx2_estimate,
	.ip_4x4 = avx2_ip_4x4,
	.ip_rows = avx2_ip_rows,
	.add_scaled = avx2_add_scaled,
	.levels = avx2_levels,
	.f16_store = avx2_f16_store,
	.f16_load = avx2_f16_load,
	.u8_store = avx2_u8_store,
};

/* ---- AVX-512 ---- */

AVX512_KERNEL(avx512_l2_f32, float, 4, load_f32_512, STEP_L2_512)
AVX512_KERNEL(avx512_ip_f32, float, 4, load_f32_512, STEP_IP_512)
AVX512_KERNEL(avx512_l2_f16, void, 2, load_f16_512, STEP_L2_512)
AVX512_KERNEL(avx512_ip_f16, void, 2, load_f16_512, STEP_IP_512)
AVX512_KERNEL(avx512_l2_u8, void, 1, load_u8_512, STEP_L2_512)
AVX512_KERNEL(avx512_ip_u8, void, 1, load_u8_512, STEP_IP_512)
AVX512_KERNEL(avx512_l1_f32, float, 4, load_f32_512, STEP_L1_512)
AVX512_KERNEL(avx512_l1_f16, void, 2, load_f16_512, STEP_L1_512)
AVX512_KERNEL(avx512_l1_u8, void, 1, load_u8_512, STEP_L1_512)

/*
 * Sums of 16 vectors of 16 int32 each: lane c of the result is the sum of v[c].
 * Four rounds of adding interleaved halves.
 */
static inline AVX512 __m512i
transpose_sum_512(const __m512i *v)
{
	__m512i		w[4];

#pragma GCC unroll 4
	for (int g = 0; g < 4; g++)
	{
		__m512i		a = _mm512_add_epi32(_mm512_unpacklo_epi32(v[4 * g], v[4 * g + 1]),
										 _mm512_unpackhi_epi32(v[4 * g], v[4 * g + 1]));
		__m512i		b = _mm512_add_epi32(_mm512_unpacklo_epi32(v[4 * g + 2], v[4 * g + 3]),
										 _mm512_unpackhi_epi32(v[4 * g + 2], v[4 * g + 3]));

		/* in each 128-bit lane: partial sums of 4g, 4g+1, 4g+2, 4g+3 */
		w[g] = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
	}
	{
		__m512i		x = _mm512_add_epi32(_mm512_shuffle_i32x4(w[0], w[1], 0x88),
										 _mm512_shuffle_i32x4(w[0], w[1], 0xDD));
		__m512i		y = _mm512_add_epi32(_mm512_shuffle_i32x4(w[2], w[3], 0x88),
										 _mm512_shuffle_i32x4(w[2], w[3], 0xDD));

		return _mm512_add_epi32(_mm512_shuffle_i32x4(x, y, 0x88),
								_mm512_shuffle_i32x4(x, y, 0xDD));
	}
}

/* sum + products of bytes 0..15 with signed bytes, by four to an int32 */
static inline AVX512 __m512i
bytes_512(__m512i sum, __m512i u, __m512i s)
{
	return _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(u, s),
												   _mm512_set1_epi16(1)));
}

static inline VNNI __m512i
bytes_vnni(__m512i sum, __m512i u, __m512i s)
{
	return _mm512_dpbusd_epi32(sum, u, s);
}

/*
 * DOT_KERNEL: 16 codes at a time, each summed into one vector, then the 16 sums
 * at once.  Codes of 32 bytes (64 dimensions) go two to a vector, which
 * halves the work in the layout that matters most.
 */
#define DOT_KERNEL(name, ATTR, BYTES) \
static ATTR void \
name##_pairs(const int8_t *q8, const uint8_t *codes, int32_t *out) \
{ \
	const __m512i mask = _mm512_set1_epi8(15); \
	const __m512i qlow = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *) q8)); \
	const __m512i qhigh = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *) (q8 + 32))); \
	const __m512i order = _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, \
											8, 12, 9, 13, 10, 14, 11, 15); \
	__m512i		w[2]; \
 \
	for (int g = 0; g < 2; g++) \
	{ \
		__m512i		v[4]; \
		__m512i		a, \
					b; \
 \
		_Pragma("GCC unroll 4") \
		for (int i = 0; i < 4; i++) \
		{ \
			__m512i		code = _mm512_loadu_si512(codes + 64 * (4 * g + i)); \
			__m512i		low = _mm512_and_si512(code, mask); \
			__m512i		high = _mm512_and_si512(_mm512_srli_epi16(code, 4), mask); \
 \
			v[i] = BYTES(BYTES(_mm512_setzero_si512(), low, qlow), high, qhigh); \
		} \
		a = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), \
							 _mm512_unpackhi_epi32(v[0], v[1])); \
		b = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), \
							 _mm512_unpackhi_epi32(v[2], v[3])); \
		w[g] = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b)); \
	} \
	/* lanes: even codes of w0, odd of w0, even of w1, odd of w1 */ \
	_mm512_storeu_si512(out, _mm512_permutexvar_epi32(order, \
		_mm512_add_epi32(_mm512_shuffle_i32x4(w[0], w[1], 0x88), \
						 _mm512_shuffle_i32x4(w[0], w[1], 0xDD)))); \
} \
 \
static ATTR void \
name(const int8_t *q8, const uint8_t *codes, size_t code_bytes, \
	 size_t code_dims, uint32_t count, int32_t *out) \
{ \
	const __m512i mask = _mm512_set1_epi8(15); \
	size_t		half = code_dims / 2; \
	uint32_t	c = 0; \
 \
	if (half == 32 && code_bytes == 32) \
		for (; c + 16 <= count; c += 16) \
			name##_pairs(q8, codes + 32 * (size_t) c, out + c); \
	for (; c < count; c += 16) \
	{ \
		uint32_t	n = count - c < 16 ? count - c : 16; \
		__m512i		v[16]; \
 \
		for (uint32_t i = 0; i < 16; i++) \
			v[i] = _mm512_setzero_si512(); \
		for (size_t j = 0; j < half; j += 64) \
		{ \
			__mmask64	m = half - j < 64 ? ((__mmask64) 1 << (half - j)) - 1 : ~(__mmask64) 0; \
			__m512i		qlow = _mm512_maskz_loadu_epi8(m, q8 + j); \
			__m512i		qhigh = _mm512_maskz_loadu_epi8(m, q8 + half + j); \
			const uint8_t *p = codes + c * code_bytes + j; \
 \
			for (uint32_t i = 0; i < n; i++, p += code_bytes) \
			{ \
				__m512i		code = _mm512_maskz_loadu_epi8(m, p); \
				__m512i		low = _mm512_and_si512(code, mask); \
				__m512i		high = _mm512_and_si512(_mm512_srli_epi16(code, 4), mask); \
 \
				v[i] = BYTES(BYTES(v[i], low, qlow), high, qhigh); \
			} \
		} \
		_mm512_mask_storeu_epi32(out + c, (__mmask16) ((1u << n) - 1), \
								 transpose_sum_512(v)); \
	} \
}

DOT_KERNEL(avx512_dot_q8c4, AVX512, bytes_512)
DOT_KERNEL(vnni_dot_q8c4, VNNI, bytes_vnni)

static AVX512 void
avx512_estimate(const GrnEstimate *e, const int32_t *dot, const void *factors,
				uint32_t count, float *out)
{
	const uint8_t *f = factors;
	const __m512 unit = _mm512_set1_ps(e->norm_unit);
	const __m512 base = _mm512_set1_ps(e->base);
	const __m512 slope = _mm512_set1_ps(e->slope);
	const __m512 offset = _mm512_set1_ps(e->offset);

	for (uint32_t i = 0; i < count; i += 16)
	{
		__mmask16	m = count - i < 16 ? (__mmask16) ((1u << (count - i)) - 1) : ALL16;
		__m512i		pairs = _mm512_maskz_loadu_epi32(m, f + 4 * (size_t) i);
		__m512		norm2 = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(pairs));
		__m512		alpha = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(pairs, 16)));
		__m512		d = _mm512_sub_ps(_mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(m, dot + i)),
									  offset);

		_mm512_mask_storeu_ps(out + i, m,
							  _mm512_fnmadd_ps(_mm512_mul_ps(slope, alpha), d,
											   _mm512_fmadd_ps(unit, norm2, base)));
	}
}

static AVX512 void
avx512_ip_4x4(const float *a, size_t lda, const float *b, size_t ldb, size_t n,
			  float *out)
{
	__m512		s[16];

#pragma GCC unroll 16
	for (int i = 0; i < 16; i++)
		s[i] = _mm512_setzero_ps();
	for (size_t k = 0; k < n; k += 16)
	{
		__mmask16	m = n - k < 16 ? (__mmask16) ((1u << (n - k)) - 1) : ALL16;
		__m512		v0 = _mm512_maskz_loadu_ps(m, b + k);
		__m512		v1 = _mm512_maskz_loadu_ps(m, b + ldb + k);
		__m512		v2 = _mm512_maskz_loadu_ps(m, b + 2 * ldb + k);
		__m512		v3 = _mm512_maskz_loadu_ps(m, b + 3 * ldb + k);

#pragma GCC unroll 4
		for (int i = 0; i < 4; i++)
		{
			__m512		u = _mm512_maskz_loadu_ps(m, a + i * lda + k);

			s[4 * i] = _mm512_fmadd_ps(u, v0, s[4 * i]);
			s[4 * i + 1] = _mm512_fmadd_ps(u, v1, s[4 * i + 1]);
			s[4 * i + 2] = _mm512_fmadd_ps(u, v2, s[4 * i + 2]);
			s[4 * i + 3] = _mm512_fmadd_ps(u, v3, s[4 * i + 3]);
		}
	}
#pragma GCC unroll 16
	for (int i = 0; i < 16; i++)
		out[i] = _mm512_reduce_add_ps(s[i]);
}

/* The upper half of s added to the lower. */
static inline AVX512 __m256
fold_512(__m512 s)
{
	return _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
}

static AVX512 void
avx512_ip_rows(const float *a, const float *b, size_t ldb, size_t n, uint32_t rows, float *out)
{
	uint32_t	j = 0;

	for (; j + 8 <= rows; j += 8, b += 8 * ldb)
	{
		__m512		s[8];

		for (int i = 0; i < 8; i++)
			s[i] = _mm512_setzero_ps();
		for (size_t k = 0; k < n; k += 16)
		{
			__mmask16	m = n - k >= 16 ? ALL16 : (__mmask16) ((1u << (n - k)) - 1);
			__m512		v = _mm512_maskz_loadu_ps(m, a + k);

#pragma GCC unroll 8
			for (int i = 0; i < 8; i++)
				s[i] = _mm512_fmadd_ps(v, _mm512_maskz_loadu_ps(m, b + i * ldb + k), s[i]);
		}
		for (int i = 0; i < 8; i += 4)
		{
			__m128		sums = sums_256(fold_512(s[i]), fold_512(s[i + 1]),
										fold_512(s[i + 2]), fold_512(s[i + 3]));

			_mm_storeu_ps(out + j + i, _mm_add_ps(_mm_loadu_ps(out + j + i), sums));
		}
	}
	for (; j < rows; j++, b += ldb)
		out[j] += avx512_ip_f32(a, b, n);
}

static AVX512 void
avx512_add_scaled(float *y, float a, const float *x, size_t n)
{
	__m512		a16 = _mm512_set1_ps(a);

	for (size_t i = 0; i < n; i += 16)
	{
		__mmask16	m = n - i >= 16 ? ALL16 : (__mmask16) ((1u << (n - i)) - 1);

		_mm512_mask_storeu_ps(y + i, m, _mm512_fmadd_ps(a16, _mm512_maskz_loadu_ps(m, x + i),
														_mm512_maskz_loadu_ps(m, y + i)));
	}
}

static AVX512 void
avx512_levels(const float *u, size_t n, float inverse, float *uc, float *cc)
{
	__m512		uc16 = _mm512_setzero_ps(),
				cc16 = uc16;

	for (size_t j = 0; j < n; j += 16)
	{
		__m512		x = _mm512_loadu_ps(u + j);
		__m512		level = _mm512_fmadd_ps(x, _mm512_set1_ps(inverse), _mm512_set1_ps(8));

		/* of a NaN, max is its second operand */
		level = _mm512_max_ps(level, _mm512_setzero_ps());
		level = _mm512_min_ps(_mm512_roundscale_ps(level, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC),
							  _mm512_set1_ps(15));
		level = _mm512_sub_ps(level, _mm512_set1_ps(7.5f));
		uc16 = _mm512_fmadd_ps(x, level, uc16);
		cc16 = _mm512_fmadd_ps(level, level, cc16);
	}
	*uc = _mm512_reduce_add_ps(uc16);
	*cc = _mm512_reduce_add_ps(cc16);
}

static const GrnDistTable avx512_table = {
	.name = "avx512",
	.l2_f32 = avx512_l2_f32,
	.ip_f32 = avx512_ip_f32,
	.l2_f16 = avx512_l2_f16,
	.ip_f16 = avx512_ip_f16,
	.l2_u8 = avx512_l2_u8,
	.ip_u8 = avx512_ip_u8,
	.l1_f32 = avx512_l1_f32,
	.l1_f16 = avx512_l1_f16,
	.l1_u8 = avx512_l1_u8,
	.dot_q8c4 = avx512_dot_q8c4,
	.estimate = avx512_estimate,
	.ip_4x4 = avx512_ip_4x4,
	.ip_rows = avx512_ip_rows,
	.add_scaled = avx512_add_scaled,
	.levels = avx512_levels,
	.f16_store = avx2_f16_store,
	.f16_load = avx2_f16_load,
	.u8_store = avx2_u8_store,
};

static const GrnDistTable vnni_table = {
	.name = "avx512vnni",
	.l2_f32 = avx512_l2_f32,
	.ip_f32 = avx512_ip_f32,
	.l2_f16 = avx512_l2_f16,
	.ip_f16 = avx512_ip_f16,
	.l2_u8 = avx512_l2_u8,
	.ip_u8 = avx512_ip_u8,
	.l1_f32 = avx512_l1_f32,
	.l1_f16 = avx512_l1_f16,
	.l1_u8 = avx512_l1_u8,
	.dot_q8c4 = vnni_dot_q8c4,
	.estimate = avx512_estimate,
	.ip_4x4 = avx512_ip_4x4,
	.ip_rows = avx512_ip_rows,
	.add_scaled = avx512_add_scaled,
	.levels = avx512_levels,
	.f16_store = avx2_f16_store,
	.f16_load = avx2_f16_load,
	.u8_store = avx2_u8_store,
};

/* clang's __builtin_cpu_supports() does not know the name. */
static bool
has_f16c(void)
{
	unsigned	a,
				b,
				c,
				d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

int
grn_dist_x86(const GrnDistTable **out, int max)
{
	int			n = 0;

	__builtin_cpu_init();
	if (n < max && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
		has_f16c())
	{
		out[n++] = &avx2_table;
		if (n < max && __builtin_cpu_supports("avx512f") &&
			__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
			__builtin_cpu_supports("avx512dq"))
		{
			out[n++] = &avx512_table;
			if (n < max && __builtin_cpu_supports("avx512vnni"))
				out[n++] = &vnni_table;
		}
	}
	return n;
}

#else

int
grn_dist_x86(const GrnDistTable **out, int max)
{
	(void) out;
	(void) max;
	return 0;
}

#endif
