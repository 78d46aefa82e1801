/*
 * pairs.c - the kernels for pairs of rows, one set for each version of dist.h.
 */
#include "space/kernels/dist.h"

#include <string.h>

#if defined(__x86_64__)
#include "space/kernels/dist_x86.h"
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define LANES 16				/* sums side by side, as in the wide versions */

static float
plain_l2_f16(const void *a, const void *b, float ratio, size_t n)
{
	float		x[GRN_PIECE];
	float		y[GRN_PIECE];
	float		sums[LANES] = {0};

	for (size_t i = 0; i < n; i += GRN_PIECE)
	{
		size_t		len = n - i < GRN_PIECE ? n - i : GRN_PIECE;

		grn_dist->f16_load((const uint8_t *) a + 2 * i, len, x);
		grn_dist->f16_load((const uint8_t *) b + 2 * i, len, y);
		for (size_t j = 0; j < len; j++)
		{
			float		d = x[j] - ratio * y[j];

			sums[j % LANES] += d * d;
		}
	}
	for (int width = LANES / 2; width > 0; width /= 2)
		for (int j = 0; j < width; j++)
			sums[j] += sums[j + width];
	return sums[0];
}

static float
plain_l2_u8(const uint8_t *a, const uint8_t *b, float ratio, float offset, size_t n)
{
	float		sums[LANES] = {0};
	float		sum = 0;
	size_t		i = 0;

	for (; i + LANES <= n; i += LANES)
		for (int j = 0; j < LANES; j++)
		{
			float		d = ((float) a[i + j] + offset) - ratio * (float) b[i + j];

			sums[j] += d * d;
		}
	for (; i < n; i++)
	{
		float		d = ((float) a[i] + offset) - ratio * (float) b[i];

		sum += d * d;
	}
	for (int j = 0; j < LANES; j++)
		sum += sums[j];
	return sum;
}

/*
 * The compiler translates the loop for the target: one instruction for eight bytes with
 * POPCNT, one for sixteen on Arm, a few shifts on other targets.
 */
static inline __attribute__((always_inline))
uint32_t
count_words(const uint8_t *a, const uint8_t *b, size_t bytes, bool both)
{
	uint64_t	sums[2] = {0};
	size_t		i = 0;

	for (; i + 16 <= bytes; i += 16)
	{
		uint64_t	x[2];
		uint64_t	y[2];

		memcpy(x, a + i, sizeof(x));
		memcpy(y, b + i, sizeof(y));
		sums[0] += (uint64_t) __builtin_popcountll(both ? x[0] & y[0] : x[0] ^ y[0]);
		sums[1] += (uint64_t) __builtin_popcountll(both ? x[1] & y[1] : x[1] ^ y[1]);
	}
	for (; i < bytes; i += 8)
	{
		uint64_t	x = 0;
		uint64_t	y = 0;
		size_t		len = bytes - i < 8 ? bytes - i : 8;

		memcpy(&x, a + i, len);
		memcpy(&y, b + i, len);
		sums[0] += (uint64_t) __builtin_popcountll(both ? x & y : x ^ y);
	}
	return (uint32_t) (sums[0] + sums[1]);
}

static uint32_t
plain_differ(const void *a, const void *b, size_t bytes)
{
	return count_words(a, b, bytes, false);
}

static uint32_t
plain_common(const void *a, const void *b, size_t bytes)
{
	return count_words(a, b, bytes, true);
}

static const GrnPairTable plain_pairs = {.l2_f16 = plain_l2_f16, .l2_u8 = plain_l2_u8, .differ = plain_differ,
	.common = plain_common};

#if defined(__x86_64__)

static inline AVX2 __m256
load_256(const uint8_t *x)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) x));
}

static inline AVX2 __m256
square_256(__m256 sum, const uint8_t *a, const uint8_t *b, __m256 ratio)
{
	__m256		d = _mm256_fnmadd_ps(ratio, load_256(b), load_256(a));

	return _mm256_fmadd_ps(d, d, sum);
}

/* Two accumulators are enough, because the conversions take more time than the additions. */
static AVX2 float
avx2_l2_f16(const void *av, const void *bv, float ratio, size_t n)
{
	const uint8_t *a = av;
	const uint8_t *b = bv;
	const __m256 r = _mm256_set1_ps(ratio);
	__m256		s0 = _mm256_setzero_ps();
	__m256		s1 = s0;
	size_t		i = 0;

	for (; i + 16 <= n; i += 16)
	{
		s0 = square_256(s0, a + 2 * i, b + 2 * i, r);
		s1 = square_256(s1, a + 2 * i + 16, b + 2 * i + 16, r);
	}
	for (; i < n; i += 8)
	{
		uint8_t		at[16] = {0};
		uint8_t		bt[16] = {0};
		size_t		len = n - i < 8 ? n - i : 8;

		memcpy(at, a + 2 * i, 2 * len);
		memcpy(bt, b + 2 * i, 2 * len);
		s0 = square_256(s0, at, bt, r);
	}
	return sum_256(_mm256_add_ps(s0, s1));
}

static inline AVX2 __m256
bytes_256(const uint8_t *x)
{
	return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *) x)));
}

static AVX2 float
avx2_l2_u8(const uint8_t *a, const uint8_t *b, float ratio, float offset, size_t n)
{
	const __m256 r = _mm256_set1_ps(ratio);
	const __m256 o = _mm256_set1_ps(offset);
	__m256		sum = _mm256_setzero_ps();
	float		rest = 0;
	size_t		i = 0;

	for (; i + 8 <= n; i += 8)
	{
		__m256		d = _mm256_fnmadd_ps(r, bytes_256(b + i), _mm256_add_ps(bytes_256(a + i), o));

		sum = _mm256_fmadd_ps(d, d, sum);
	}
	for (; i < n; i++)
	{
		float		d = ((float) a[i] + offset) - ratio * (float) b[i];

		rest += d * d;
	}
	return sum_256(sum) + rest;
}

/* Every processor with AVX2 has POPCNT. */
static __attribute__((target("popcnt")))
uint32_t
popcnt_differ(const void *a, const void *b, size_t bytes)
{
	return count_words(a, b, bytes, false);
}

static __attribute__((target("popcnt")))
uint32_t
popcnt_common(const void *a, const void *b, size_t bytes)
{
	return count_words(a, b, bytes, true);
}

static const GrnPairTable avx2_pairs = {.l2_f16 = avx2_l2_f16, .l2_u8 = avx2_l2_u8, .differ = popcnt_differ,
	.common = popcnt_common};

#define VPOPCNT __attribute__((target("avx512f,avx512bw,avx512vl,avx512vpopcntdq,avx2")))

static inline __attribute__((always_inline)) VPOPCNT uint32_t
count_512(const uint8_t *a, const uint8_t *b, size_t bytes, bool both)
{
	__m512i		sum = _mm512_setzero_si512();

	for (size_t i = 0; i < bytes; i += 64)
	{
		__mmask64	m = bytes - i < 64 ? ((__mmask64) 1 << (bytes - i)) - 1 : ~(__mmask64) 0;
		__m512i		x = _mm512_maskz_loadu_epi8(m, a + i);
		__m512i		y = _mm512_maskz_loadu_epi8(m, b + i);

		x = both ? _mm512_and_si512(x, y) : _mm512_xor_si512(x, y);
		sum = _mm512_add_epi64(sum, _mm512_popcnt_epi64(x));
	}
	return (uint32_t) _mm512_reduce_add_epi64(sum);
}

static VPOPCNT uint32_t
vpopcnt_differ(const void *a, const void *b, size_t bytes)
{
	return count_512(a, b, bytes, false);
}

static VPOPCNT uint32_t
vpopcnt_common(const void *a, const void *b, size_t bytes)
{
	return count_512(a, b, bytes, true);
}

/* Other kernels for AVX-512 take as long as for AVX2: conversions take most of the time. */
static const GrnPairTable vpopcnt_pairs = {.l2_f16 = avx2_l2_f16, .l2_u8 = avx2_l2_u8, .differ = vpopcnt_differ,
	.common = vpopcnt_common};

#elif defined(__aarch64__)

static inline float32x4_t
load_neon(const uint8_t *x)
{
	return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(x)));
}

static inline float32x4_t
square_neon(float32x4_t sum, const uint8_t *a, const uint8_t *b, float32x4_t ratio)
{
	float32x4_t d = vfmsq_f32(load_neon(a), ratio, load_neon(b));

	return vfmaq_f32(sum, d, d);
}

static float
neon_l2_f16(const void *av, const void *bv, float ratio, size_t n)
{
	const uint8_t *a = av;
	const uint8_t *b = bv;
	const float32x4_t r = vdupq_n_f32(ratio);
	float32x4_t s0 = vdupq_n_f32(0);
	float32x4_t s1 = s0;
	size_t		i = 0;

	for (; i + 8 <= n; i += 8)
	{
		s0 = square_neon(s0, a + 2 * i, b + 2 * i, r);
		s1 = square_neon(s1, a + 2 * i + 8, b + 2 * i + 8, r);
	}
	for (; i < n; i += 4)
	{
		uint8_t		at[8] = {0};
		uint8_t		bt[8] = {0};
		size_t		len = n - i < 4 ? n - i : 4;

		memcpy(at, a + 2 * i, 2 * len);
		memcpy(bt, b + 2 * i, 2 * len);
		s0 = square_neon(s0, at, bt, r);
	}
	return vaddvq_f32(vaddq_f32(s0, s1));
}

static float
neon_l2_u8(const uint8_t *a, const uint8_t *b, float ratio, float offset, size_t n)
{
	const float32x4_t r = vdupq_n_f32(ratio);
	const float32x4_t o = vdupq_n_f32(offset);
	float32x4_t sums[2] = {vdupq_n_f32(0), vdupq_n_f32(0)};
	float		rest = 0;
	size_t		i = 0;

	for (; i + 8 <= n; i += 8)
	{
		uint16x8_t	x = vmovl_u8(vld1_u8(a + i));
		uint16x8_t	y = vmovl_u8(vld1_u8(b + i));
		float32x4_t d0 = vfmsq_f32(vaddq_f32(vcvtq_f32_u32(vmovl_u16(vget_low_u16(x))), o), r,
								   vcvtq_f32_u32(vmovl_u16(vget_low_u16(y))));
		float32x4_t d1 = vfmsq_f32(vaddq_f32(vcvtq_f32_u32(vmovl_u16(vget_high_u16(x))), o), r,
								   vcvtq_f32_u32(vmovl_u16(vget_high_u16(y))));

		sums[0] = vfmaq_f32(sums[0], d0, d0);
		sums[1] = vfmaq_f32(sums[1], d1, d1);
	}
	for (; i < n; i++)
	{
		float		d = ((float) a[i] + offset) - ratio * (float) b[i];

		rest += d * d;
	}
	return vaddvq_f32(vaddq_f32(sums[0], sums[1])) + rest;
}

static const GrnPairTable neon_pairs = {.l2_f16 = neon_l2_f16, .l2_u8 = neon_l2_u8, .differ = plain_differ,
	.common = plain_common};

#endif

const GrnPairTable *grn_pairs = &plain_pairs;

const GrnPairTable *
grn_pairs_of(const GrnDistTable *dist)
{
#if defined(__x86_64__)
	if (strncmp(dist->name, "avx512", 6) == 0 && __builtin_cpu_supports("avx512vpopcntdq"))
		return &vpopcnt_pairs;
	if (strcmp(dist->name, "plain") != 0)
		return &avx2_pairs;
#elif defined(__aarch64__)
	if (strcmp(dist->name, "neon") == 0)
		return &neon_pairs;
#endif
	return &plain_pairs;
}
