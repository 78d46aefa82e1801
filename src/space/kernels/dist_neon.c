/*
 * dist_neon.c - the kernels of dist.h for aarch64, which always has NEON.
 */
#include "space/kernels/dist_impl.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <string.h>

#define WIDE
#define KERNEL(name) neon_##name
#define SHORT_KERNEL(name) grn_neon_##name
#define V(op) neon_##op
#define W 4
#define FLOATS float32x4_t
#define INTS int32x4_t
#define AND(a, b) vandq_s32(a, b)
#define AS_FLOATS(x) vreinterpretq_f32_s32(x)
#define ABS(x) vabsq_f32(x)
#define TRUNCATE(x) vrndq_f32(x)
#define SUM(x) vaddvq_f32(x)
#define AT_MOST(a, b) lane_bits(vcleq_f32(a, b))
#define MASK uint32x4_t
#define LESS(a, b) vcltq_f32(a, b)
#define ANY(mask) (vmaxvq_u32(mask) != 0)
#define PICK(mask, a, b) vbslq_f32(mask, a, b)
#define ALL
#define LOAD_F32(x, which) vld1q_f32((const float *) (x))
#define LOAD_F16(x, which) vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(x)))
#define LOAD_U8(x, which) vcvtq_f32_s32(four_bytes(x))
#define LOAD_INTS(x) load_ints(x)
#define MULTIPLY_ADD(s, a, b) multiply_add(s, vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b))
#define SUM_INTS(x) vaddvq_s32(x)
#define STORE_F16(out, x) vst1_u8(out, vreinterpret_u8_f16(vcvt_f16_f32(x)))
#define STORE_U8(out, x) store_u8(out, vmovn_u32(vcvtq_u32_f32(x)))
#define W_BYTES(x) four_bytes(x)
#define SHIFT_RIGHT(x, s) vshlq_s32(x, vdupq_n_s32(-(int32_t) (s)))

/* What intrinsics of x86 do. */
#define neon_setzero_ps() vdupq_n_f32(0)
#define neon_set1_ps(x) vdupq_n_f32(x)
#define neon_set1_epi32(x) vdupq_n_s32(x)
#define neon_loadu_ps(x) vld1q_f32(x)
#define neon_storeu_ps(out, x) vst1q_f32(out, x)
#define neon_add_ps(a, b) vaddq_f32(a, b)
#define neon_sub_ps(a, b) vsubq_f32(a, b)
#define neon_mul_ps(a, b) vmulq_f32(a, b)
#define neon_fmadd_ps(a, b, c) vfmaq_f32(c, a, b)
#define neon_fnmadd_ps(a, b, c) vfmsq_f32(c, a, b)
#define neon_max_ps(a, b) vbslq_f32(vcgtq_f32(a, b), a, b)	/* b if one is a NaN */
#define neon_min_ps(a, b) vbslq_f32(vcltq_f32(a, b), a, b)
#define neon_cvtepi32_ps(x) vcvtq_f32_s32(x)
#define neon_slli_epi32(x, n) vshlq_n_s32(x, n)
#define neon_srli_epi32(x, n) vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(x), n))

static inline uint32_t
lane_bits(uint32x4_t lanes)
{
	return vaddvq_u32(vandq_u32(lanes, (uint32x4_t) {1, 2, 4, 8}));
}

static inline int32x4_t
load_ints(const void *x)
{
	return vreinterpretq_s32_u8(vld1q_u8(x));
}

static inline int32x4_t
four_bytes(const uint8_t *x)
{
	uint32_t	word;

	memcpy(&word, x, sizeof(word));
	return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(word)))));
}

static inline void
store_u8(uint8_t *out, uint16x4_t x)
{
	uint32_t	word = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(x, x))), 0);

	memcpy(out, &word, sizeof(word));
}

static inline int32x4_t
multiply_add(int32x4_t s, int16x8_t a, int16x8_t b)
{
	return vmlal_high_s16(vmlal_s16(s, vget_low_s16(a), vget_low_s16(b)), a, b);
}

static inline int32x4_t
first_ints(const void *x, size_t n)
{
	int32_t		all[4] = {0};

	if (n == 4)
		return load_ints(x);
	memcpy(all, x, 4 * n);
	return vld1q_s32(all);
}

static inline float32x4_t
first_floats(const float *x, size_t n)
{
	return AS_FLOATS(first_ints(x, n));
}

static inline void
store_first(float *out, size_t n, float32x4_t x)
{
	float		all[4];

	vst1q_f32(n == 4 ? out : all, x);
	if (n < 4)
		memcpy(out, all, 4 * n);
}

static inline void
add_sums(const float32x4_t *s, float *out)
{
	float32x4_t sums = vpaddq_f32(vpaddq_f32(s[0], s[1]), vpaddq_f32(s[2], s[3]));

	vst1q_f32(out, vaddq_f32(vld1q_f32(out), sums));
}

#include "space/kernels/dist_wide_impl.h"
#include "space/kernels/dist_short_impl.h"

/* Returns sum + products of 16 small signed bytes. */
static inline int32x4_t
bytes(int32x4_t sum, int8x16_t a, int8x16_t b)
{
	int16x8_t	p = vmull_s8(vget_low_s8(a), vget_low_s8(b));

	/* at most 2 * 15 * 128, which fits 16 bits */
	p = vmlal_s8(p, vget_high_s8(a), vget_high_s8(b));
	return vpadalq_s16(sum, p);
}

static void
neon_dot(const GrnCodePlanes *q, const uint8_t *codes, uint32_t count, int32_t *out)
{
	for (uint32_t c = 0; c < count; c++, codes += q->bytes)
	{
		int32x4_t	sums[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};

		for (uint32_t at = 0; at < q->bytes; at += 16)
		{
			int			step = (int) grn_plane_step(q, at + 16);
			uint8x16_t	mask = vld1q_u8(q->mask + at);
			uint8x16_t	v;

			if (at + 16 <= q->bytes)
				v = vld1q_u8(codes + at);
			else
			{
				uint8_t		rest[16] = {0};

				memcpy(rest, codes + at, q->bytes - at);
				v = vld1q_u8(rest);
			}
			for (int s = 0; s < 8; s += step)
			{
				uint8x16_t	level = vandq_u8(vshlq_u8(v, vdupq_n_s8((int8_t) -s)), mask);

				sums[s / step & 1] = bytes(sums[s / step & 1], vreinterpretq_s8_u8(level),
										   vld1q_s8(q->plane[s] + at));
			}
		}
		out[c] = vaddvq_s32(vaddq_s32(sums[0], sums[1]));
	}
}

const GrnDistTable grn_dist_neon = {
	.name = "neon",
	.dot = neon_dot,
	WIDE_ENTRIES
};

#endif
