/*
 * pairs.c - the kernels for pairs of rows, one set for each version of dist.h.
 */
#include "space/kernels/dist.h"

#include <string.h>

#include "space/kernels/dist_impl.h"
#if defined(__x86_64__)
#include "space/kernels/dist_x86.h"
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

static const GrnPairTable avx2_pairs = {.l2_f16 = grn_avx2_pair_l2_f16, .l2_u8 = grn_avx2_pair_l2_u8, .differ = popcnt_differ,
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

static const GrnPairTable vpopcnt_pairs = {.l2_f16 = grn_avx2_pair_l2_f16, .l2_u8 = grn_avx2_pair_l2_u8, .differ = vpopcnt_differ,
	.common = vpopcnt_common};

#elif defined(__aarch64__)

static const GrnPairTable neon_pairs = {.l2_f16 = grn_neon_pair_l2_f16, .l2_u8 = grn_neon_pair_l2_u8, .differ = plain_differ,
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
