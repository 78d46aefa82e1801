/*
 * dist_x86.h - shared by the kernels for AVX2 (with FMA and F16C), AVX-512 and AVX-512 VNNI.
 * A function attribute selects the instruction set of each kernel.
 */
#ifndef GRN_DIST_X86_H
#define GRN_DIST_X86_H

#include "space/kernels/dist_impl.h"

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma,f16c")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")))
#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")))

extern const GrnDistTable grn_dist_avx2;
extern const GrnDistTable grn_dist_avx512;
extern const GrnDistTable grn_dist_vnni;

/* Kernels for AVX2 that the wider tables use, too (dist_short_impl.h). */
extern void grn_avx2_f16_store(const float *x, size_t n, void *out);
extern void grn_avx2_f16_load(const void *x, size_t n, float *out);
extern void grn_avx2_u8_store(const float *x, size_t n, void *out);
extern void grn_avx2_unpack(const uint8_t *code, size_t n, uint32_t bits, float middle, float step, float *out);
extern float grn_avx2_pair_l2_f16(const void *a, const void *b, float ratio, size_t n);
extern float grn_avx2_pair_l2_u8(const uint8_t *a, const uint8_t *b, float ratio, float offset, size_t n);

static inline AVX2 float
sum_256(__m256 v)
{
	__m128		h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

	h = _mm_add_ps(h, _mm_movehl_ps(h, h));
	h = _mm_add_ss(h, _mm_movehdup_ps(h));
	return _mm_cvtss_f32(h);
}

/* Returns the sums of four accumulators, side by side. */
static inline AVX2 __m128
sums_256(__m256 s0, __m256 s1, __m256 s2, __m256 s3)
{
	__m256		h = _mm256_hadd_ps(_mm256_hadd_ps(s0, s1), _mm256_hadd_ps(s2, s3));

	return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}

#endif							/* GRN_DIST_X86_H */
