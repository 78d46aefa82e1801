/*
 * dist_x86.h - for dist_x86.c: instruction sets, the three stored numbers as vectors of
 * floats, and the loops that sum over two vectors.
 */
#ifndef GRN_DIST_X86_H
#define GRN_DIST_X86_H

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2,fma,f16c")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")))
#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")))

/* What both widths do with a pair of loaded vectors. */
#define STEP_L2_256(s, a, b) \
	do { __m256 d_ = _mm256_sub_ps(a, b); (s) = _mm256_fmadd_ps(d_, d_, s); } while (0)
#define STEP_IP_256(s, a, b) ((s) = _mm256_fmadd_ps(a, b, s))
#define STEP_L2_512(s, a, b) \
	do { __m512 d_ = _mm512_sub_ps(a, b); (s) = _mm512_fmadd_ps(d_, d_, s); } while (0)
#define STEP_IP_512(s, a, b) ((s) = _mm512_fmadd_ps(a, b, s))
/* |a - b|: the sign bit goes */
#define STEP_L1_256(s, a, b) \
	((s) = _mm256_add_ps(s, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_sub_ps(a, b))))
#define STEP_L1_512(s, a, b) ((s) = _mm512_add_ps(s, _mm512_abs_ps(_mm512_sub_ps(a, b))))

/* ---- AVX2 ---- */

static inline AVX2 float
sum_256(__m256 v)
{
	__m128		h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

	h = _mm_add_ps(h, _mm_movehl_ps(h, h));
	h = _mm_add_ss(h, _mm_movehdup_ps(h));
	return _mm_cvtss_f32(h);
}

static inline AVX2 __m256
load_f32_256(const void *x)
{
	return _mm256_loadu_ps(x);
}

static inline AVX2 __m256
load_f16_256(const void *x)
{
	return _mm256_cvtph_ps(_mm_loadu_si128(x));
}

static inline AVX2 __m256
load_u8_256(const void *x)
{
	return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(x)));
}

/*
 * Four accumulators hide the latency of the multiply-add.  The tail goes
 * through zeroed buffers, which add nothing to either sum.
 */
#define AVX2_KERNEL(name, type, width, LOAD, STEP) \
static AVX2 float \
name(const float *q, const type *xv, size_t n) \
{ \
	const uint8_t *x = (const uint8_t *) xv; \
	__m256		s0 = _mm256_setzero_ps(), \
				s1 = s0, \
				s2 = s0, \
				s3 = s0; \
	size_t		i = 0; \
 \
	for (; i + 32 <= n; i += 32) \
	{ \
		STEP(s0, _mm256_loadu_ps(q + i), LOAD(x + (width) * i)); \
		STEP(s1, _mm256_loadu_ps(q + i + 8), LOAD(x + (width) * (i + 8))); \
		STEP(s2, _mm256_loadu_ps(q + i + 16), LOAD(x + (width) * (i + 16))); \
		STEP(s3, _mm256_loadu_ps(q + i + 24), LOAD(x + (width) * (i + 24))); \
	} \
	for (; i + 8 <= n; i += 8) \
		STEP(s0, _mm256_loadu_ps(q + i), LOAD(x + (width) * i)); \
	if (i < n) \
	{ \
		float		qt[8] = {0}; \
		uint8_t		xt[32] = {0}; \
 \
		memcpy(qt, q + i, 4 * (n - i)); \
		memcpy(xt, x + (width) * i, (width) * (n - i)); \
		STEP(s1, _mm256_loadu_ps(qt), LOAD(xt)); \
	} \
	return sum_256(_mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3))); \
}

/* ---- AVX-512 ---- */

static inline AVX512 __m512
load_f32_512(const void *x, __mmask16 m)
{
	return _mm512_maskz_loadu_ps(m, x);
}

static inline AVX512 __m512
load_f16_512(const void *x, __mmask16 m)
{
	return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, x));
}

static inline AVX512 __m512
load_u8_512(const void *x, __mmask16 m)
{
	return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(m, x)));
}

#define ALL16 ((__mmask16) 0xFFFF)

#define AVX512_KERNEL(name, type, width, LOAD, STEP) \
static AVX512 float \
name(const float *q, const type *xv, size_t n) \
{ \
	const uint8_t *x = (const uint8_t *) xv; \
	__m512		s0 = _mm512_setzero_ps(), \
				s1 = s0, \
				s2 = s0, \
				s3 = s0; \
	size_t		i = 0; \
 \
	for (; i + 64 <= n; i += 64) \
	{ \
		STEP(s0, _mm512_loadu_ps(q + i), LOAD(x + (width) * i, ALL16)); \
		STEP(s1, _mm512_loadu_ps(q + i + 16), LOAD(x + (width) * (i + 16), ALL16)); \
		STEP(s2, _mm512_loadu_ps(q + i + 32), LOAD(x + (width) * (i + 32), ALL16)); \
		STEP(s3, _mm512_loadu_ps(q + i + 48), LOAD(x + (width) * (i + 48), ALL16)); \
	} \
	for (; i + 16 <= n; i += 16) \
		STEP(s0, _mm512_loadu_ps(q + i), LOAD(x + (width) * i, ALL16)); \
	if (i < n) \
	{ \
		__mmask16	m = (__mmask16) ((1u << (n - i)) - 1); \
 \
		STEP(s1, _mm512_maskz_loadu_ps(m, q + i), LOAD(x + (width) * i, m)); \
	} \
	return _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s0, s1), \
											  _mm512_add_ps(s2, s3))); \
}

#endif							/* GRN_DIST_X86_H */
