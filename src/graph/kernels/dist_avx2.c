/*
 * dist_avx2.c - the kernels of dist.h for AVX2 with FMA and F16C.
 */
#if defined(__x86_64__)

#include "graph/kernels/dist_x86.h"

#include <string.h>

#define STEP_L2_256(s, a, b) \
	do { __m256 d_ = _mm256_sub_ps(a, b); (s) = _mm256_fmadd_ps(d_, d_, s); } while (0)
#define STEP_IP_256(s, a, b) ((s) = _mm256_fmadd_ps(a, b, s))
/* |a - b|: the sign bit goes */
#define STEP_L1_256(s, a, b) \
	((s) = _mm256_add_ps(s, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_sub_ps(a, b))))

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

/* What kernels for bytes take beside the rest, and how they load bytes. */
#define NOTHING
#define SCALED , float scale, float offset
#define LOAD_SCALED(x) \
	_mm256_fmadd_ps(load_u8_256(x), _mm256_set1_ps(scale), _mm256_set1_ps(offset))

/*
 * Four accumulators hide the latency of the multiply-add.  The tail goes through buffers
 * that are filled with zeroes, and the query with PAD, which a stored zero stands for; so
 * they add nothing to the sum.
 */
#define AVX2_KERNEL(name, type, width, MORE, PAD, LOAD, STEP) \
static AVX2 float \
name(const float *q, const type *xv, size_t n MORE) \
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
		for (size_t j = n - i; j < 8; j++) \
			qt[j] = PAD; \
		memcpy(xt, x + (width) * i, (width) * (n - i)); \
		STEP(s1, _mm256_loadu_ps(qt), LOAD(xt)); \
	} \
	return sum_256(_mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3))); \
}

AVX2_KERNEL(avx2_l2_f32, float, 4, NOTHING, 0, load_f32_256, STEP_L2_256)
AVX2_KERNEL(avx2_ip_f32, float, 4, NOTHING, 0, load_f32_256, STEP_IP_256)
AVX2_KERNEL(avx2_l2_f16, void, 2, NOTHING, 0, load_f16_256, STEP_L2_256)
AVX2_KERNEL(avx2_ip_f16, void, 2, NOTHING, 0, load_f16_256, STEP_IP_256)
AVX2_KERNEL(avx2_l2_u8, void, 1, SCALED, offset, LOAD_SCALED, STEP_L2_256)
AVX2_KERNEL(avx2_ip_u8, void, 1, SCALED, 0, LOAD_SCALED, STEP_IP_256)
AVX2_KERNEL(avx2_l1_f32, float, 4, NOTHING, 0, load_f32_256, STEP_L1_256)
AVX2_KERNEL(avx2_l1_f16, void, 2, NOTHING, 0, load_f16_256, STEP_L1_256)
AVX2_KERNEL(avx2_l1_u8, void, 1, SCALED, offset, LOAD_SCALED, STEP_L1_256)

/* The mask of a load of the first `bytes` of 32, a multiple of 4. */
static inline AVX2 __m256i
first_bytes(uint32_t bytes)
{
	return _mm256_cmpgt_epi32(_mm256_set1_epi32((int) bytes),
							  _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
}

/*
 * Products of 32 bytes of a code with planes q [8 / step] of the query, 8 sums.  Pairs of
 * bytes have two dimensions of 4 bits, four of 2 or eight of one each: at most
 * 4 * 15 * 128 in 16 bits.
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

/* Adds the products of bytes [at, at + 32) of n <= 4 codes. */
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

/* Eight estimates. */
static inline AVX2 __m256
estimate_256(const GrnEstimate *e, const int32_t *dot, const GrnFactor *factors)
{
	__m256i		bits = _mm256_loadu_si256((const void *) factors);
	__m256		l = _mm256_mul_ps(_mm256_set1_ps(e->unit), _mm256_castsi256_ps(
																			   _mm256_slli_epi32(_mm256_srli_epi32(bits, GRN_ALPHA_BITS),
																								 GRN_LENGTH_SHIFT)));
	__m256		a = _mm256_cvtepi32_ps(_mm256_and_si256(bits, _mm256_set1_epi32(GRN_MAX_ALPHA)));
	__m256		d = _mm256_sub_ps(_mm256_cvtepi32_ps(_mm256_loadu_si256((const void *) dot)),
								  _mm256_set1_ps(e->offset));
	__m256		sum = _mm256_fmadd_ps(_mm256_set1_ps(e->square), l, _mm256_set1_ps(e->lead));

	sum = _mm256_fnmadd_ps(_mm256_mul_ps(_mm256_set1_ps(e->slope), a), d, sum);
	return _mm256_fmadd_ps(l, sum, _mm256_set1_ps(e->base));
}

static AVX2 void
avx2_estimate(const GrnEstimate *e, const int32_t *dot, const GrnFactor *factors,
			  uint32_t count, float *out)
{
	uint32_t	i = 0;

	for (; i + 8 <= count; i += 8)
		_mm256_storeu_ps(out + i, estimate_256(e, dot + i, factors + i));
	if (i < count)
	{
		int32_t		dt[8] = {0};
		GrnFactor	ft[8] = {{0}};
		float		ot[8];

		memcpy(dt, dot + i, 4 * (count - i));
		memcpy(ft, factors + i, sizeof(GrnFactor) * (count - i));
		_mm256_storeu_ps(ot, estimate_256(e, dt, ft));
		memcpy(out + i, ot, 4 * (count - i));
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
avx2_levels(const float *u, size_t n, float inverse, float top, float *uc, float *cc)
{
	__m256		middle = _mm256_set1_ps(top / 2);
	__m256		uc8 = _mm256_setzero_ps(),
				cc8 = uc8;

	for (size_t j = 0; j < n; j += 8)
	{
		__m256		x = _mm256_loadu_ps(u + j);
		__m256		level = _mm256_fmadd_ps(x, _mm256_set1_ps(inverse),
											_mm256_set1_ps(top / 2 + 0.5f));

		/* of a NaN, max is its second operand */
		level = _mm256_max_ps(level, _mm256_setzero_ps());
		level = _mm256_min_ps(_mm256_round_ps(level, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC),
							  _mm256_set1_ps(top));
		level = _mm256_sub_ps(level, middle);
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

AVX2 void
grn_avx2_f16_store(const float *x, size_t n, void *out)
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

AVX2 void
grn_avx2_f16_load(const void *x, size_t n, float *out)
{
	const uint8_t *h = x;
	size_t		i = 0;

	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(out + i, load_f16_256(h + 2 * i));
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
	.l2_f32 = avx2_l2_f32,
	.ip_f32 = avx2_ip_f32,
	.l2_f16 = avx2_l2_f16,
	.ip_f16 = avx2_ip_f16,
	.l2_u8 = avx2_l2_u8,
	.ip_u8 = avx2_ip_u8,
	.l1_f32 = avx2_l1_f32,
	.l1_f16 = avx2_l1_f16,
	.l1_u8 = avx2_l1_u8,
	.dot = avx2_dot,
	.estimate = avx2_estimate,
	.ip_4x4 = avx2_ip_4x4,
	.ip_rows = avx2_ip_rows,
	.add_scaled = avx2_add_scaled,
	.levels = avx2_levels,
	.f16_store = grn_avx2_f16_store,
	.f16_load = grn_avx2_f16_load,
	.u8_store = grn_avx2_u8_store,
};

#endif
