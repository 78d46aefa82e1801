/*
 * dist.c - distance kernels in plain C, and conversions of half precision and of factors.
 */
#include "space/kernels/dist_impl.h"

#include <math.h>
#include <string.h>

/*
 * Sums run in this many lanes, as in the wide versions.  The results of all versions are
 * therefore close, and sums of long vectors have small rounding errors.
 */
#define LANES 16

#define F16_MAX 0x7BFF			/* 65504 */

const GrnDistTable *grn_dist = &grn_dist_plain;

/* ---- half precision ---- */

uint16_t
grn_f32_to_f16(float x)
{
	uint32_t	bits;
	uint32_t	sign;
	uint32_t	mag;

	memcpy(&bits, &x, sizeof(bits));
	sign = (bits >> 16) & 0x8000;
	mag = bits & 0x7FFFFFFF;
	if (mag > 0x7F800000)
		return sign | 0x7E00;	/* NaN */
	if (mag >= 0x47800000)
		return sign | F16_MAX;	/* 65536 and more become the largest finite number */
	if (mag >= 0x38800000)
	{
		/* Normal: rebias the exponent, and round the 13 bits that are cut off. */
		uint32_t	h = mag - 0x38000000;

		h = (h + 0xFFF + ((h >> 13) & 1)) >> 13;
		return sign | (h > F16_MAX ? F16_MAX : h);
	}
	else
	{
		/* Subnormal: multiples of 2^-24.  Adding 0.5 makes the adder round to a multiple. */
		float		f;
		uint32_t	h;

		memcpy(&f, &mag, sizeof(f));
		f += 0.5f;
		memcpy(&h, &f, sizeof(h));
		return sign | (h - 0x3F000000);
	}
}

float
grn_f16_to_f32(uint16_t h)
{
	uint32_t	sign = (uint32_t) (h & 0x8000) << 16;
	uint32_t	mag = h & 0x7FFF;
	uint32_t	bits;
	float		f;

	if (mag >= 0x7C00)
		bits = 0x7F800000 | (mag & 0x3FF) << 13;
	else if (mag >= 0x400)
		bits = (mag << 13) + 0x38000000;
	else
	{
		f = (float) mag * (1.0f / 16777216.0f);
		memcpy(&bits, &f, sizeof(bits));
	}
	bits |= sign;
	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* ---- factors ---- */

GrnFactor
grn_factor(float length, float alpha)
{
	const uint32_t most = UINT32_MAX >> GRN_ALPHA_BITS;
	float		scaled = length * (1 / GRN_LENGTH_ONE);
	uint32_t	bits;
	uint32_t	a;

	/* The order of the tests makes a NaN (of a row that overflows) the largest length. */
	if (!(scaled < 2))
		bits = most;
	else
	{
		memcpy(&bits, &scaled, sizeof(bits));
		bits = (bits + (1u << (GRN_LENGTH_SHIFT - 1))) >> GRN_LENGTH_SHIFT;
		bits = bits < most ? bits : most;
	}
	a = alpha >= GRN_MAX_ALPHA ? GRN_MAX_ALPHA : alpha > 0 ? (uint32_t) (alpha + 0.5f) : 0;
	return (GrnFactor) {bits << GRN_ALPHA_BITS | a};
}

static inline uint16_t
read_u16(const void *x, size_t i)
{
	uint16_t	h;

	memcpy(&h, (const uint8_t *) x + 2 * i, sizeof(h));
	return h;
}

/* ---- plain kernels ---- */

static inline float
sum_lanes(float *s)
{
	for (int width = LANES / 2; width > 0; width /= 2)
		for (int j = 0; j < width; j++)
			s[j] += s[j + width];
	return s[0];
}

#define LOAD_F32(x, i) ((const float *) (x))[i]
#define LOAD_F16(x, i) grn_f16_to_f32(read_u16(x, i))
#define LOAD_U8(x, i) ((float) ((const uint8_t *) (x))[i] * scale + offset)
#define STEP_L2(s, a, b) do { float d_ = (a) - (b); (s) += d_ * d_; } while (0)
#define STEP_IP(s, a, b) ((s) += (a) * (b))
#define STEP_L1(s, a, b) ((s) += fabsf((a) - (b)))

/* Further parameters of kernels for bytes. */
#define NOTHING
#define SCALED , float scale, float offset

#define PLAIN_KERNEL(name, type, MORE, LOAD, STEP) \
static float \
name(const float *q, const type *x, size_t n MORE) \
{ \
	float		s[LANES] = {0}; \
	size_t		i = 0; \
 \
	for (; i + LANES <= n; i += LANES) \
		for (int j = 0; j < LANES; j++) \
			STEP(s[j], q[i + j], LOAD(x, i + j)); \
	for (int j = 0; i < n; i++, j++) \
		STEP(s[j], q[i], LOAD(x, i)); \
	return sum_lanes(s); \
}

PLAIN_KERNEL(plain_l2_f32, float, NOTHING, LOAD_F32, STEP_L2)
PLAIN_KERNEL(plain_ip_f32, float, NOTHING, LOAD_F32, STEP_IP)
PLAIN_KERNEL(plain_l2_f16, void, NOTHING, LOAD_F16, STEP_L2)
PLAIN_KERNEL(plain_ip_f16, void, NOTHING, LOAD_F16, STEP_IP)
PLAIN_KERNEL(plain_l2_u8, void, SCALED, LOAD_U8, STEP_L2)
PLAIN_KERNEL(plain_ip_u8, void, SCALED, LOAD_U8, STEP_IP)
PLAIN_KERNEL(plain_l1_f32, float, NOTHING, LOAD_F32, STEP_L1)
PLAIN_KERNEL(plain_l1_f16, void, NOTHING, LOAD_F16, STEP_L1)
PLAIN_KERNEL(plain_l1_u8, void, SCALED, LOAD_U8, STEP_L1)

static void
plain_dot(const GrnCodePlanes *q, const uint8_t *codes, uint32_t count, int32_t *out)
{
	for (uint32_t c = 0; c < count; c++, codes += q->bytes)
	{
		int32_t		sum = 0;

		for (uint32_t i = 0; i < q->bytes; i++)
			for (uint32_t s = 0; s < 8; s++)
				sum += q->plane[s][i] * (codes[i] >> s & q->mask[i]);
		out[c] = sum;
	}
}

static void
plain_estimate(const GrnEstimate *e, const int32_t *dot, const GrnFactor *factors,
			   uint32_t count, float *out)
{
	for (uint32_t i = 0; i < count; i++)
	{
		float		l = grn_factor_length(factors[i]) * (e->unit / GRN_LENGTH_ONE);
		float		a = e->slope * (float) grn_factor_alpha(factors[i]);

		out[i] = e->base + l * (e->square * l + e->lead - a * ((float) dot[i] - e->offset));
	}
}

static uint32_t
plain_at_most(const float *x, uint32_t n, float most, uint32_t *out)
{
	uint32_t	found = 0;

	for (uint32_t i = 0; i < n; i++)
		if (x[i] <= most)
			out[found++] = i;
	return found;
}

static void
plain_ip_4x4(const float *a, size_t lda, const float *b, size_t ldb, size_t n,
			 float *out)
{
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < 4; j++)
			out[4 * i + j] = plain_ip_f32(a + i * lda, b + j * ldb, n);
}

static void
plain_keep_nearest(const float *a, size_t lda, const float *a_norms, const float *b,
				   const float *b_norms, size_t n, uint32_t number, GrnNearestRows *seen)
{
	for (int i = 0; i < 4; i++)
	{
		float		products[GRN_COLUMNS] = {0};

		for (size_t k = 0; k < n; k++)
			for (int j = 0; j < GRN_COLUMNS; j++)
				products[j] += a[i * lda + k] * b[GRN_COLUMNS * k + j];
		for (int j = 0; j < GRN_COLUMNS; j++)
		{
			float		d = a_norms[i] + b_norms[j] - 2 * products[j];
			int			c = GRN_NEAREST_ROWS;

			d = d < 0 ? 0 : d;
			for (; c > 0 && d < seen->distances[c - 1][j]; c--)
				if (c < GRN_NEAREST_ROWS)
				{
					seen->distances[c][j] = seen->distances[c - 1][j];
					seen->rows[c][j] = seen->rows[c - 1][j];
				}
			if (c == GRN_NEAREST_ROWS)
				continue;
			seen->distances[c][j] = d;
			seen->rows[c][j] = number + (uint32_t) i;
		}
	}
}

static void
plain_unpack(const uint8_t *code, size_t n, uint32_t bits, float middle, float step, float *out)
{
	for (uint32_t s = 0; s < 8; s += bits)
		for (size_t i = 0; i < n; i++)
			*out++ = step * ((float) (code[i] >> s & ((1 << bits) - 1)) - middle);
}

static void
plain_ip_rows(const float *a, const float *b, size_t ldb, size_t n, uint32_t rows, float *out)
{
	for (uint32_t j = 0; j < rows; j++)
		out[j] += plain_ip_f32(a, b + j * ldb, n);
}

static void
plain_ip_rows_i16(const int16_t *a, const int16_t *b, size_t ldb, size_t n, uint32_t rows,
				  int32_t *out)
{
	for (uint32_t j = 0; j < rows; j++, b += ldb)
		for (size_t i = 0; i < n; i++)
			out[j] += a[i] * b[i];
}

static void
plain_add_scaled(float *y, float a, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] += a * x[i];
}

static void
plain_levels(const float *u, size_t n, float inverse, float top, float *uc, float *cc)
{
	float		middle = top / 2;

	*uc = *cc = 0;
	for (size_t j = 0; j < n; j++)
	{
		float		level = u[j] * inverse + (middle + 0.5f);
		float		c;

		/* The order of the tests makes a NaN 0. */
		level = level >= top ? top : level > 0 ? (float) (int) level : 0;
		c = level - middle;
		*uc += u[j] * c;
		*cc += c * c;
	}
}

static void
plain_f16_store(const float *x, size_t n, void *out)
{
	for (size_t i = 0; i < n; i++)
	{
		uint16_t	h = grn_f32_to_f16(x[i]);

		memcpy((uint8_t *) out + 2 * i, &h, sizeof(h));
	}
}

static void
plain_f16_load(const void *x, size_t n, float *out)
{
	for (size_t i = 0; i < n; i++)
		out[i] = grn_f16_to_f32(read_u16(x, i));
}

static void
plain_u8_store(const float *x, size_t n, void *out)
{
	uint8_t    *bytes = out;

	for (size_t i = 0; i < n; i++)
		bytes[i] = x[i] >= 255 ? 255 : x[i] > 0 ? (uint8_t) (x[i] + 0.5f) : 0;
}

const GrnDistTable grn_dist_plain = {
	.name = "plain",
	.l2_f32 = plain_l2_f32,
	.ip_f32 = plain_ip_f32,
	.l2_f16 = plain_l2_f16,
	.ip_f16 = plain_ip_f16,
	.l2_u8 = plain_l2_u8,
	.ip_u8 = plain_ip_u8,
	.l1_f32 = plain_l1_f32,
	.l1_f16 = plain_l1_f16,
	.l1_u8 = plain_l1_u8,
	.dot = plain_dot,
	.estimate = plain_estimate,
	.at_most = plain_at_most,
	.ip_4x4 = plain_ip_4x4,
	.keep_nearest = plain_keep_nearest,
	.unpack = plain_unpack,
	.ip_rows = plain_ip_rows,
	.ip_rows_i16 = plain_ip_rows_i16,
	.add_scaled = plain_add_scaled,
	.levels = plain_levels,
	.f16_store = plain_f16_store,
	.f16_load = plain_f16_load,
	.u8_store = plain_u8_store,
};
