/*
 * dist_avx2.c - the kernels of dist.h for AVX2 with FMA and F16C.
 */
#if defined(__x86_64__)

#include "space/kernels/dist_x86.h"

#include <string.h>

#define WIDE AVX2
#define KERNEL(name) avx2_##name
#define SHORT_KERNEL(name) grn_avx2_##name
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
#define LOAD_U8(x, which) _mm256_cvtepi32_ps(W_BYTES(x))
#define LOAD_INTS(x) _mm256_loadu_si256((const void *) (x))
#define MULTIPLY_ADD(s, a, b) _mm256_add_epi32(s, _mm256_madd_epi16(a, b))
#define SUM_INTS(x) sum_ints_256(x)
#define STORE_F16(out, x) \
	_mm_storeu_si128((void *) (out), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
#define STORE_U8(out, x) store_u8_256(out, _mm256_cvttps_epi32(x))
#define W_BYTES(x) _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *) (x)))
#define SHIFT_RIGHT(x, s) _mm256_srl_epi32(x, _mm_cvtsi32_si128((int) (s)))

/* Returns the mask for a load of the first `bytes` of 32 bytes.  bytes: a multiple of 4. */
static inline AVX2 __m256i
first_bytes(uint32_t bytes)
{
	return _mm256_cmpgt_epi32(_mm256_set1_epi32((int) bytes),
							  _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
}

static inline AVX2 __m256
first_floats(const float *x, size_t n)
{
	return n == 8 ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, first_bytes(4 * (uint32_t) n));
}

static inline AVX2 __m256i
first_ints(const void *x, size_t n)
{
	return n == 8 ? LOAD_INTS(x) : _mm256_maskload_epi32(x, first_bytes(4 * (uint32_t) n));
}

/* A store by a mask takes long on some processors. */
static inline AVX2 void
store_first(float *out, size_t n, __m256 x)
{
	float		all[8];

	_mm256_storeu_ps(n == 8 ? out : all, x);
	if (n < 8)
		memcpy(out, all, 4 * n);
}

static inline AVX2 void
add_sums(const __m256 *s, float *out)
{
	_mm_storeu_ps(out, _mm_add_ps(_mm_loadu_ps(out), sums_256(s[0], s[1], s[2], s[3])));
}

static inline AVX2 int32_t
sum_ints_256(__m256i x)
{
	__m128i		h = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));

	h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0x4E));
	return _mm_cvtsi128_si32(_mm_add_epi32(h, _mm_shuffle_epi32(h, 0xB1)));
}

static inline AVX2 void
store_u8_256(uint8_t *out, __m256i x)
{
	__m128i		half = _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));

	_mm_storel_epi64((void *) out, _mm_packus_epi16(half, half));
}

#include "space/kernels/dist_wide_impl.h"
#include "space/kernels/dist_short_impl.h"

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

const GrnDistTable grn_dist_avx2 = {
	.name = "avx2",
	.dot = avx2_dot,
	WIDE_ENTRIES
};

#endif
