/*
 * dist_avx512.c - the kernels of dist.h for AVX-512, with and without VNNI.
 */
#if defined(__x86_64__)

#include "space/kernels/dist_x86.h"

#define WIDE AVX512
#define KERNEL(name) avx512_##name
#define SHORT_KERNEL(name) grn_avx2_##name
#define V(op) _mm512_##op
#define W 16
#define FLOATS __m512
#define INTS __m512i
#define AND(a, b) _mm512_and_si512(a, b)
#define AS_FLOATS(x) _mm512_castsi512_ps(x)
#define ABS(x) _mm512_abs_ps(x)
#define TRUNCATE(x) _mm512_roundscale_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)
#define SUM(x) _mm512_reduce_add_ps(x)
#define AT_MOST(a, b) _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ)
#define MASK __mmask16
#define LESS(a, b) _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)
#define ANY(mask) ((mask) != 0)
#define PICK(mask, a, b) _mm512_mask_blend_ps(mask, b, a)
#define ALL ((__mmask16) 0xFFFF)
#define LOAD_F32(x, which) _mm512_maskz_loadu_ps(which, x)
#define LOAD_F16(x, which) _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(which, x))
#define LOAD_U8(x, which) \
	_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(which, x)))
/* A mask selects the last numbers. */
#define STEP_REST(s, STEP, LOAD, q, x, width, pad, n) \
	do { \
		__mmask16	m = (__mmask16) ((1u << (n)) - 1); \
 \
		STEP(s, _mm512_mask_loadu_ps(_mm512_set1_ps(pad), m, q), LOAD(x, m)); \
	} while (0)
#define SUM_INTS(x) _mm512_reduce_add_epi32(x)
#define LOAD_INTS(x) _mm512_loadu_si512(x)
#define MULTIPLY_ADD(s, a, b) _mm512_add_epi32(s, _mm512_madd_epi16(a, b))
#define FIRST_SHORTS(x, n) _mm512_maskz_loadu_epi16((1u << (n)) - 1, x)

static inline AVX512 __mmask16
first(size_t n)
{
	return n == 16 ? ALL : (__mmask16) ((1u << n) - 1);
}

static inline AVX512 __m512
first_floats(const float *x, size_t n)
{
	return _mm512_maskz_loadu_ps(first(n), x);
}

static inline AVX512 __m512i
first_ints(const void *x, size_t n)
{
	return _mm512_maskz_loadu_epi32(first(n), x);
}

static inline AVX512 void
store_first(float *out, size_t n, __m512 x)
{
	_mm512_mask_storeu_ps(out, first(n), x);
}

/* Adds the upper half of s to the lower. */
static inline AVX512 __m256
fold_512(__m512 s)
{
	return _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
}

static inline AVX512 void
add_sums(const __m512 *s, float *out)
{
	__m128		sums = sums_256(fold_512(s[0]), fold_512(s[1]), fold_512(s[2]), fold_512(s[3]));

	_mm_storeu_ps(out, _mm_add_ps(_mm_loadu_ps(out), sums));
}

#include "space/kernels/dist_wide_impl.h"

/* Returns the sums of four vectors within each 128-bit lane, in the order of the vectors. */
static inline AVX512 __m512i
lane_sums_512(const __m512i *v)
{
	__m512i		a = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]),
									 _mm512_unpackhi_epi32(v[0], v[1]));
	__m512i		b = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]),
									 _mm512_unpackhi_epi32(v[2], v[3]));

	return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/*
 * Returns the sums of 16 vectors of 16 int32 each: lane c of the result is the sum of v[c].
 * Four rounds add interleaved halves.
 */
static inline AVX512 __m512i
transpose_sum_512(const __m512i *v)
{
	__m512i		w[4];

#pragma GCC unroll 4
	for (int g = 0; g < 4; g++)
		w[g] = lane_sums_512(v + 4 * g);
	{
		__m512i		x = _mm512_add_epi32(_mm512_shuffle_i32x4(w[0], w[1], 0x88),
										 _mm512_shuffle_i32x4(w[0], w[1], 0xDD));
		__m512i		y = _mm512_add_epi32(_mm512_shuffle_i32x4(w[2], w[3], 0x88),
										 _mm512_shuffle_i32x4(w[2], w[3], 0xDD));

		return _mm512_add_epi32(_mm512_shuffle_i32x4(x, y, 0x88),
								_mm512_shuffle_i32x4(x, y, 0xDD));
	}
}

/* sum + products of unsigned bytes u with signed bytes s, four products for each int32 */
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
 * Loads four int32 of each of up to 16 codes: lane c of to[i] is number i of code c.  left: bytes
 * from `codes` to the end of a code; missing bytes are 0.  Lanes from n on repeat the last code.
 */
static inline __attribute__((always_inline)) AVX512 void
transpose_codes_512(const uint8_t *codes, uint32_t bytes, int n, uint32_t left, __m512i *to)
{
	__mmask16	m = (__mmask16) ((1u << (left % 16)) - 1);
	__m512i		v[4];
	__m512i		w[4];

#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
	{
		__m128i		x[4];

#pragma GCC unroll 4
		for (int g = 0; g < 4; g++)
		{
			const uint8_t *code = codes + (uint32_t) (4 * g + i < n ? 4 * g + i : n - 1) * bytes;

			/* The compiler knows left wherever it is 16. */
			x[g] = left < 16 ? _mm_maskz_loadu_epi8(m, code) : _mm_loadu_si128((const void *) code);
		}
		v[i] = _mm512_inserti32x4(_mm512_castsi128_si512(x[0]), x[1], 1);
		v[i] = _mm512_inserti32x4(v[i], x[2], 2);
		v[i] = _mm512_inserti32x4(v[i], x[3], 3);
	}
	w[0] = _mm512_unpacklo_epi32(v[0], v[1]);
	w[1] = _mm512_unpacklo_epi32(v[2], v[3]);
	w[2] = _mm512_unpackhi_epi32(v[0], v[1]);
	w[3] = _mm512_unpackhi_epi32(v[2], v[3]);
	to[0] = _mm512_unpacklo_epi64(w[0], w[1]);
	to[1] = _mm512_unpackhi_epi64(w[0], w[1]);
	to[2] = _mm512_unpacklo_epi64(w[2], w[3]);
	to[3] = _mm512_unpackhi_epi64(w[2], w[3]);
}

/* Copies four bytes to each lane. */
static inline AVX512 __m512i
four_bytes_512(const void *bytes)
{
	int32_t		x;

	memcpy(&x, bytes, sizeof(x));
	return _mm512_set1_epi32(x);
}

/*
 * Whether a lane holds the same four bytes of each code.  The kernel then multiplies only the
 * planes that these four bytes have, which pays for codes of up to 32 bytes, and of up to 64
 * if some bytes have eight planes.
 */
static inline bool
by_fours(const GrnCodePlanes *q)
{
	return q->bytes <= 32 || (q->bytes <= 64 && q->bytes > q->end2);
}

/*
 * DOT_KERNEL multiplies 16 codes at a time.  Short codes are multiplied four bytes at a time, one
 * code in each lane.  Long codes are summed 64 bytes at a time into one vector for each code, and
 * the 16 vectors are reduced together.  step is a constant wherever these functions are inlined.
 */
#define DOT_KERNEL(name, ATTR, BYTES) \
static inline __attribute__((always_inline)) ATTR void \
name##_four(const GrnCodePlanes *q, uint32_t at, __m512i code, const int step, __m512i *sums) \
{ \
	const __m512i mask = four_bytes_512(q->mask + at); \
 \
	_Pragma("GCC unroll 8") \
	for (int s = 0; s < 8; s += step) \
		sums[s / step % 4] = BYTES(sums[s / step % 4], \
								   _mm512_and_si512(_mm512_srli_epi16(code, s), mask), \
								   four_bytes_512(q->plane[s] + at)); \
} \
 \
static inline __attribute__((always_inline)) ATTR void \
name##_short(const GrnCodePlanes *q, const uint8_t *codes, int n, int32_t *out) \
{ \
	__m512i		sums[4]; \
 \
	_Pragma("GCC unroll 4") \
	for (int i = 0; i < 4; i++) \
		sums[i] = _mm512_setzero_si512(); \
	for (uint32_t at = 0; at < q->bytes; at += 16) \
	{ \
		uint32_t	left = q->bytes - at; \
		__m512i		code[4]; \
 \
		if (left < 16) \
			transpose_codes_512(codes + at, q->bytes, n, left % 16, code); \
		else \
			transpose_codes_512(codes + at, q->bytes, n, 16, code); \
		_Pragma("GCC unroll 4") \
		for (uint32_t i = 0; i < 4; i++) \
		{ \
			if (4 * i >= left) \
				break; \
			switch (grn_plane_step(q, at + 4 * i + 4)) \
			{ \
				case 1: \
					name##_four(q, at + 4 * i, code[i], 1, sums); \
					break; \
				case 2: \
					name##_four(q, at + 4 * i, code[i], 2, sums); \
					break; \
				default: \
					name##_four(q, at + 4 * i, code[i], 4, sums + 2 * (i % 2)); \
			} \
		} \
	} \
	_mm512_mask_storeu_epi32(out, (__mmask16) ((1u << n) - 1), \
							 _mm512_add_epi32(_mm512_add_epi32(sums[0], sums[1]), \
											  _mm512_add_epi32(sums[2], sums[3]))); \
} \
 \
static inline __attribute__((always_inline)) ATTR void \
name##_wide(const GrnCodePlanes *q, const uint8_t *codes, uint32_t at, uint32_t n, \
			const int step, __m512i *v) \
{ \
	uint32_t	bytes = q->bytes - at; \
	__mmask64	m = bytes < 64 ? ((__mmask64) 1 << bytes) - 1 : ~(__mmask64) 0; \
	const __m512i mask = _mm512_loadu_si512(q->mask + at); \
	__m512i		planes[8]; \
 \
	_Pragma("GCC unroll 8") \
	for (int s = 0; s < 8; s += step) \
		planes[s] = _mm512_loadu_si512(q->plane[s] + at); \
	for (uint32_t i = 0; i < n; i++, codes += q->bytes) \
	{ \
		__m512i		code = _mm512_maskz_loadu_epi8(m, codes + at); \
		__m512i		sum = at == 0 ? _mm512_setzero_si512() : v[i]; \
 \
		_Pragma("GCC unroll 8") \
		for (int s = 0; s < 8; s += step) \
			sum = BYTES(sum, _mm512_and_si512(_mm512_srli_epi16(code, s), mask), planes[s]); \
		v[i] = sum; \
	} \
} \
 \
static ATTR void \
name(const GrnCodePlanes *q, const uint8_t *codes, uint32_t count, int32_t *out) \
{ \
	uint32_t	c = 0; \
 \
	for (; by_fours(q) && c < count; c += 16, codes += 16 * q->bytes) \
		if (count - c >= 16) \
			name##_short(q, codes, 16, out + c); \
		else \
			name##_short(q, codes, (int) (count - c), out + c); \
	for (; c < count; c += 16, codes += 16 * q->bytes) \
	{ \
		uint32_t	n = count - c < 16 ? count - c : 16; \
		__m512i		v[16]; \
 \
		for (uint32_t at = 0; at < q->bytes; at += 64) \
			switch (grn_plane_step(q, at + 64)) \
			{ \
				case 1: \
					name##_wide(q, codes, at, n, 1, v); \
					break; \
				case 2: \
					name##_wide(q, codes, at, n, 2, v); \
					break; \
				default: \
					name##_wide(q, codes, at, n, 4, v); \
			} \
		if (n <= 2) \
		{ \
			for (uint32_t i = 0; i < n; i++) \
				out[c + i] = _mm512_reduce_add_epi32(v[i]); \
			break; \
		} \
		for (uint32_t i = n; i < 16; i++) \
			v[i] = v[0]; \
		_mm512_mask_storeu_epi32(out + c, (__mmask16) ((1u << n) - 1), \
								 transpose_sum_512(v)); \
	} \
}

DOT_KERNEL(avx512_dot, AVX512, bytes_512)
DOT_KERNEL(vnni_dot, VNNI, bytes_vnni)

const GrnDistTable grn_dist_avx512 = {
	.name = "avx512",
	.dot = avx512_dot,
	WIDE_ENTRIES
};

const GrnDistTable grn_dist_vnni = {
	.name = "avx512vnni",
	.dot = vnni_dot,
	WIDE_ENTRIES
};

#endif
