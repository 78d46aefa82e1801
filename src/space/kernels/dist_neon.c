/*
 * dist_neon.c - the kernels of dist.h for aarch64, which always has NEON.
 */
#include "space/kernels/dist_impl.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <string.h>

#define STEP_L2(s, a, b) \
	do { float32x4_t d_ = vsubq_f32(a, b); (s) = vfmaq_f32(s, d_, d_); } while (0)
#define STEP_IP(s, a, b) ((s) = vfmaq_f32(s, a, b))
#define STEP_L1(s, a, b) ((s) = vaddq_f32(s, vabdq_f32(a, b)))

static inline float32x4_t
load_f32(const uint8_t *x)
{
	return vreinterpretq_f32_u8(vld1q_u8(x));
}

static inline float32x4_t
load_f16(const uint8_t *x)
{
	return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(x)));
}

static inline float32x4_t
load_u8(const uint8_t *x)
{
	uint32_t	word;

	memcpy(&word, x, sizeof(word));
	return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(word)))));
}

/* Further parameters of kernels for bytes, and the load of bytes. */
#define NOTHING
#define SCALED , float scale, float offset
#define LOAD_SCALED(x) vfmaq_n_f32(vdupq_n_f32(offset), load_u8(x), scale)

#define NEON_KERNEL(name, type, width, MORE, PAD, LOAD, STEP) \
static float \
name(const float *q, const type *xv, size_t n MORE) \
{ \
	const uint8_t *x = (const uint8_t *) xv; \
	float32x4_t s0 = vdupq_n_f32(0), \
				s1 = s0, \
				s2 = s0, \
				s3 = s0; \
	size_t		i = 0; \
 \
	for (; i + 16 <= n; i += 16) \
	{ \
		STEP(s0, vld1q_f32(q + i), LOAD(x + (width) * i)); \
		STEP(s1, vld1q_f32(q + i + 4), LOAD(x + (width) * (i + 4))); \
		STEP(s2, vld1q_f32(q + i + 8), LOAD(x + (width) * (i + 8))); \
		STEP(s3, vld1q_f32(q + i + 12), LOAD(x + (width) * (i + 12))); \
	} \
	for (; i + 4 <= n; i += 4) \
		STEP(s0, vld1q_f32(q + i), LOAD(x + (width) * i)); \
	if (i < n) \
	{ \
		float		qt[4] = {0}; \
		uint8_t		xt[16] = {0}; \
 \
		memcpy(qt, q + i, 4 * (n - i)); \
		for (size_t j = n - i; j < 4; j++) \
			qt[j] = PAD; \
		memcpy(xt, x + (width) * i, (width) * (n - i)); \
		STEP(s1, vld1q_f32(qt), LOAD(xt)); \
	} \
	return vaddvq_f32(vaddq_f32(vaddq_f32(s0, s1), vaddq_f32(s2, s3))); \
}

NEON_KERNEL(neon_l2_f32, float, 4, NOTHING, 0, load_f32, STEP_L2)
NEON_KERNEL(neon_ip_f32, float, 4, NOTHING, 0, load_f32, STEP_IP)
NEON_KERNEL(neon_l2_f16, void, 2, NOTHING, 0, load_f16, STEP_L2)
NEON_KERNEL(neon_ip_f16, void, 2, NOTHING, 0, load_f16, STEP_IP)
NEON_KERNEL(neon_l2_u8, void, 1, SCALED, offset, LOAD_SCALED, STEP_L2)
NEON_KERNEL(neon_ip_u8, void, 1, SCALED, 0, LOAD_SCALED, STEP_IP)
NEON_KERNEL(neon_l1_f32, float, 4, NOTHING, 0, load_f32, STEP_L1)
NEON_KERNEL(neon_l1_f16, void, 2, NOTHING, 0, load_f16, STEP_L1)
NEON_KERNEL(neon_l1_u8, void, 1, SCALED, offset, LOAD_SCALED, STEP_L1)

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

static void
neon_estimate(const GrnEstimate *e, const int32_t *dot, const GrnFactor *factors,
			  uint32_t count, float *out)
{
	for (uint32_t i = 0; i < count; i += 4)
	{
		uint32_t	n = count - i < 4 ? count - i : 4;
		uint32_t	four[4] = {0};
		int32_t		dots[4] = {0};
		float		results[4];
		uint32x4_t	bits;
		float32x4_t l,
					a,
					d,
					sum;

		memcpy(four, factors + i, sizeof(GrnFactor) * n);
		memcpy(dots, dot + i, sizeof(int32_t) * n);
		bits = vld1q_u32(four);
		l = vmulq_n_f32(vreinterpretq_f32_u32(vshlq_n_u32(vshrq_n_u32(bits, GRN_ALPHA_BITS),
														  GRN_LENGTH_SHIFT)), e->unit);
		a = vcvtq_f32_u32(vandq_u32(bits, vdupq_n_u32(GRN_MAX_ALPHA)));
		d = vsubq_f32(vcvtq_f32_s32(vld1q_s32(dots)), vdupq_n_f32(e->offset));
		sum = vfmaq_n_f32(vdupq_n_f32(e->lead), l, e->square);
		sum = vfmsq_f32(sum, vmulq_n_f32(a, e->slope), d);
		vst1q_f32(results, vfmaq_f32(vdupq_n_f32(e->base), l, sum));
		memcpy(out + i, results, sizeof(float) * n);
	}
}

static void
neon_ip_4x4(const float *a, size_t lda, const float *b, size_t ldb, size_t n,
			float *out)
{
	float32x4_t s[16];
	size_t		k = 0;

	for (int i = 0; i < 16; i++)
		s[i] = vdupq_n_f32(0);
	for (; k + 4 <= n; k += 4)
	{
		float32x4_t v0 = vld1q_f32(b + k);
		float32x4_t v1 = vld1q_f32(b + ldb + k);
		float32x4_t v2 = vld1q_f32(b + 2 * ldb + k);
		float32x4_t v3 = vld1q_f32(b + 3 * ldb + k);

#pragma GCC unroll 4
		for (int i = 0; i < 4; i++)
		{
			float32x4_t u = vld1q_f32(a + i * lda + k);

			s[4 * i] = vfmaq_f32(s[4 * i], u, v0);
			s[4 * i + 1] = vfmaq_f32(s[4 * i + 1], u, v1);
			s[4 * i + 2] = vfmaq_f32(s[4 * i + 2], u, v2);
			s[4 * i + 3] = vfmaq_f32(s[4 * i + 3], u, v3);
		}
	}
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < 4; j++)
		{
			float		sum = vaddvq_f32(s[4 * i + j]);

			for (size_t t = k; t < n; t++)
				sum += a[i * lda + t] * b[j * ldb + t];
			out[4 * i + j] = sum;
		}
}

/* Inserts a row into the nearest of four columns, at whose first distances and rows point. */
static inline void
show_row(float32x4_t d, uint32_t number, float *distances, uint32_t *rows)
{
	uint32x4_t	row = vdupq_n_u32(number);
	float32x4_t kept = vld1q_f32(distances + (GRN_NEAREST_ROWS - 1) * GRN_COLUMNS);
	uint32x4_t	less = vcltq_f32(d, kept);

	/* Most rows are farther than all kept rows, in all columns. */
	if (vmaxvq_u32(less) == 0)
		return;
	/* From the last place on: keep the row, take the new row, or take the place before's. */
	for (int c = (GRN_NEAREST_ROWS - 1) * GRN_COLUMNS; c > 0; c -= GRN_COLUMNS)
	{
		float32x4_t before = vld1q_f32(distances + c - GRN_COLUMNS);
		uint32x4_t	less_before = vcltq_f32(d, before);

		vst1q_f32(distances + c, vbslq_f32(less_before, before, vbslq_f32(less, d, kept)));
		vst1q_u32(rows + c, vbslq_u32(less_before, vld1q_u32(rows + c - GRN_COLUMNS),
									  vbslq_u32(less, row, vld1q_u32(rows + c))));
		kept = before;
		less = less_before;
	}
	vst1q_f32(distances, vbslq_f32(less, d, kept));
	vst1q_u32(rows, vbslq_u32(less, row, vld1q_u32(rows)));
}

static void
neon_keep_nearest(const float *a, size_t lda, const float *a_norms, const float *b,
				  const float *b_norms, size_t n, uint32_t number, GrnNearestRows *seen)
{
	float32x4_t s[4][GRN_COLUMNS / 4];

	for (int i = 0; i < 4; i++)
		for (int v = 0; v < GRN_COLUMNS / 4; v++)
			s[i][v] = vdupq_n_f32(0);
	for (size_t k = 0; k < n; k++)
	{
#pragma GCC unroll 4
		for (int v = 0; v < GRN_COLUMNS / 4; v++)
		{
			float32x4_t x = vld1q_f32(b + GRN_COLUMNS * k + 4 * v);

#pragma GCC unroll 4
			for (int i = 0; i < 4; i++)
				s[i][v] = vfmaq_n_f32(s[i][v], x, a[i * lda + k]);
		}
	}
	for (int i = 0; i < 4; i++)
		for (int v = 0; v < GRN_COLUMNS / 4; v++)
		{
			float32x4_t d = vaddq_f32(vdupq_n_f32(a_norms[i]), vld1q_f32(b_norms + 4 * v));

			/* A NaN is not less than 0 and remains. */
			d = vfmsq_n_f32(d, s[i][v], 2);
			d = vbslq_f32(vcltzq_f32(d), vdupq_n_f32(0), d);
			show_row(d, number + (uint32_t) i, seen->distances[0] + 4 * v, seen->rows[0] + 4 * v);
		}
}

static void
neon_f16_store(const float *x, size_t n, void *out)
{
	uint8_t    *o = out;
	size_t		i = 0;

	for (; i + 4 <= n; i += 4)
	{
		float32x4_t v = vld1q_f32(x + i);

		v = vmaxq_f32(vdupq_n_f32(-65504.0f), vminq_f32(vdupq_n_f32(65504.0f), v));
		vst1_u8(o + 2 * i, vreinterpret_u8_f16(vcvt_f16_f32(v)));
	}
	grn_dist_plain.f16_store(x + i, n - i, o + 2 * i);
}

static void
neon_f16_load(const void *x, size_t n, float *out)
{
	const uint8_t *h = x;
	size_t		i = 0;

	for (; i + 4 <= n; i += 4)
		vst1q_f32(out + i, load_f16(h + 2 * i));
	grn_dist_plain.f16_load(h + 2 * i, n - i, out + i);
}

static void
neon_u8_store(const float *x, size_t n, void *out)
{
	uint8_t    *o = out;
	size_t		i = 0;

	for (; i + 8 <= n; i += 8)
	{
		uint16x4_t	k[2];

		for (int half = 0; half < 2; half++)
		{
			float32x4_t v = vmaxq_f32(vld1q_f32(x + i + 4 * half), vdupq_n_f32(0));

			v = vaddq_f32(vminq_f32(v, vdupq_n_f32(255)), vdupq_n_f32(0.5f));
			k[half] = vmovn_u32(vcvtq_u32_f32(v));
		}
		vst1_u8(o + i, vmovn_u16(vcombine_u16(k[0], k[1])));
	}
	grn_dist_plain.u8_store(x + i, n - i, o + i);
}

static void
neon_ip_rows(const float *a, const float *b, size_t ldb, size_t n, uint32_t rows, float *out)
{
	for (uint32_t j = 0; j < rows; j++)
		out[j] += neon_ip_f32(a, b + j * ldb, n);
}

static void
neon_ip_rows_i16(const int16_t *a, const int16_t *b, size_t ldb, size_t n, uint32_t rows,
				 int32_t *out)
{
	for (uint32_t j = 0; j < rows; j++, b += ldb)
	{
		int32x4_t	s[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
		size_t		i = 0;

		for (; i + 8 <= n; i += 8)
		{
			int16x8_t	x = vld1q_s16(a + i);
			int16x8_t	y = vld1q_s16(b + i);

			s[0] = vmlal_s16(s[0], vget_low_s16(x), vget_low_s16(y));
			s[1] = vmlal_high_s16(s[1], x, y);
		}
		out[j] += vaddvq_s32(vaddq_s32(s[0], s[1]));
		for (; i < n; i++)
			out[j] += a[i] * b[i];
	}
}

static uint32_t
neon_at_most(const float *x, uint32_t n, float most, uint32_t *out)
{
	uint32_t	found = 0;
	uint32_t	i = 0;

	for (; i + 4 <= n; i += 4)
	{
		/* Few numbers are small enough, so most groups of four are skipped. */
		if (vmaxvq_u32(vcleq_f32(vld1q_f32(x + i), vdupq_n_f32(most))) == 0)
			continue;
		for (uint32_t j = i; j < i + 4; j++)
			if (x[j] <= most)
				out[found++] = j;
	}
	for (; i < n; i++)
		if (x[i] <= most)
			out[found++] = i;
	return found;
}

static void
neon_add_scaled(float *y, float a, const float *x, size_t n)
{
	size_t		i = 0;

	for (; i + 4 <= n; i += 4)
		vst1q_f32(y + i, vfmaq_n_f32(vld1q_f32(y + i), vld1q_f32(x + i), a));
	for (; i < n; i++)
		y[i] += a * x[i];
}

static void
neon_unpack(const uint8_t *code, size_t n, uint32_t bits, float middle, float step, float *out)
{
	grn_dist_plain.unpack(code, n, bits, middle, step, out);
}

static void
neon_levels(const float *u, size_t n, float inverse, float top, float *uc, float *cc)
{
	grn_dist_plain.levels(u, n, inverse, top, uc, cc);
}

const GrnDistTable grn_dist_neon = {
	.name = "neon",
	.l2_f32 = neon_l2_f32,
	.ip_f32 = neon_ip_f32,
	.l2_f16 = neon_l2_f16,
	.ip_f16 = neon_ip_f16,
	.l2_u8 = neon_l2_u8,
	.ip_u8 = neon_ip_u8,
	.l1_f32 = neon_l1_f32,
	.l1_f16 = neon_l1_f16,
	.l1_u8 = neon_l1_u8,
	.dot = neon_dot,
	.estimate = neon_estimate,
	.at_most = neon_at_most,
	.ip_4x4 = neon_ip_4x4,
	.keep_nearest = neon_keep_nearest,
	.unpack = neon_unpack,
	.ip_rows = neon_ip_rows,
	.ip_rows_i16 = neon_ip_rows_i16,
	.add_scaled = neon_add_scaled,
	.levels = neon_levels,
	.f16_store = neon_f16_store,
	.f16_load = neon_f16_load,
	.u8_store = neon_u8_store,
};

#endif
