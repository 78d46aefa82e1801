/*
 * dist.c - distance kernels in plain C, stored vector forms, half precision,
 * and the choice of a version for the processor at hand.
 */
#include "graph/kernels/dist_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Sums run in this many lanes, as the wide versions' do, so that the versions
 * agree closely and long vectors lose little to rounding.
 */
#define LANES 16
#define MAX_VERSIONS 4

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
		return sign | F16_MAX;	/* 65536 and more */
	if (mag >= 0x38800000)
	{
		/* Normal: rebias the exponent, round the 13 bits that go. */
		uint32_t	h = mag - 0x38000000;

		h = (h + 0xFFF + ((h >> 13) & 1)) >> 13;
		return sign | (h > F16_MAX ? F16_MAX : h);
	}
	else
	{
		/* Subnormal: multiples of 2^-24; adding 0.5 lets the adder round to them. */
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
#define LOAD_U8(x, i) ((float) ((const uint8_t *) (x))[i])
#define STEP_L2(s, a, b) do { float d_ = (a) - (b); (s) += d_ * d_; } while (0)
#define STEP_IP(s, a, b) ((s) += (a) * (b))

#define PLAIN_KERNEL(name, type, LOAD, STEP) \
static float \
name(const float *q, const type *x, size_t n) \
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

PLAIN_KERNEL(plain_l2_f32, float, LOAD_F32, STEP_L2)
PLAIN_KERNEL(plain_ip_f32, float, LOAD_F32, STEP_IP)
PLAIN_KERNEL(plain_l2_f16, void, LOAD_F16, STEP_L2)
PLAIN_KERNEL(plain_ip_f16, void, LOAD_F16, STEP_IP)
PLAIN_KERNEL(plain_l2_u8, void, LOAD_U8, STEP_L2)
PLAIN_KERNEL(plain_ip_u8, void, LOAD_U8, STEP_IP)

static void
plain_dot_q8c4(const int8_t *q8, const uint8_t *codes, size_t code_bytes,
			   size_t code_dims, uint32_t count, int32_t *out)
{
	size_t		half = code_dims / 2;

	for (uint32_t c = 0; c < count; c++)
	{
		const uint8_t *code = codes + c * code_bytes;
		int32_t		sum = 0;

		for (size_t j = 0; j < half; j++)
			sum += q8[j] * (code[j] & 15) + q8[half + j] * (code[j] >> 4);
		out[c] = sum;
	}
}

static void
plain_estimate(const GrnEstimate *e, const int32_t *dot, const void *factors,
			   uint32_t count, float *out)
{
	for (uint32_t i = 0; i < count; i++)
	{
		float		norm2 = grn_f16_to_f32(read_u16(factors, 2 * i));
		float		alpha = grn_f16_to_f32(read_u16(factors, 2 * i + 1));

		out[i] = (e->base + e->norm_unit * norm2) -
			e->slope * alpha * ((float) dot[i] - e->offset);
	}
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
plain_ip_rows(const float *a, const float *b, size_t ldb, size_t n, uint32_t rows, float *out)
{
	for (uint32_t j = 0; j < rows; j++)
		out[j] += plain_ip_f32(a, b + j * ldb, n);
}

static void
plain_add_scaled(float *y, float a, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] += a * x[i];
}

static void
plain_levels(const float *u, size_t n, float inverse, float *uc, float *cc)
{
	*uc = *cc = 0;
	for (size_t j = 0; j < n; j++)
	{
		float		level = u[j] * inverse + 8;
		float		c;

		/* in this order NaN becomes 0 */
		level = level >= 15 ? 15 : level > 0 ? (float) (int) level : 0;
		c = level - 7.5f;
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
	.dot_q8c4 = plain_dot_q8c4,
	.estimate = plain_estimate,
	.ip_4x4 = plain_ip_4x4,
	.ip_rows = plain_ip_rows,
	.add_scaled = plain_add_scaled,
	.levels = plain_levels,
	.f16_store = plain_f16_store,
	.f16_load = plain_f16_load,
	.u8_store = plain_u8_store,
};

/* ---- stored vectors ---- */

#define PIECE 64				/* numbers converted at a time */

/* Rows whose longest number is below this get a scale: binary16 is coarse near 0. */
#define F16_SMALL (1.0f / 256)

/* Distances of levels to the ends of what a byte and its head can say. */
#define U8_LEVELS 254
#define U8_MAX_ZERO 32000
#define U8_LEAST_SCALE 1e-36f
#define U8_SCALE_ONE 0x3F80		/* 1 */

static void
f16_store_scaled(const float *x, size_t n, float scale, uint8_t *out)
{
	float		inverse = 1 / scale;

	memcpy(out, &scale, sizeof(scale));
	for (size_t i = 0; i < n; i += PIECE)
	{
		float		scaled[PIECE];
		size_t		len = n - i < PIECE ? n - i : PIECE;

		for (size_t j = 0; j < len; j++)
			scaled[j] = x[i + j] * inverse;
		grn_dist->f16_store(scaled, len, out + GRN_VEC_HEAD + 2 * i);
	}
}

static void
f16_store(const float *x, size_t n, uint8_t *out)
{
	float		most = 0;
	int			exponent;

	for (size_t i = 0; i < n; i++)
		most = fmaxf(most, fabsf(x[i]));
	if (most == 0 || (most >= F16_SMALL && most <= 65504))
	{
		f16_store_scaled(x, n, 1, out);
		return;
	}
	/* the longest goes to 2^14 .. 2^15; powers of two lose nothing */
	frexpf(most, &exponent);
	exponent -= 15;
	f16_store_scaled(x, n, ldexpf(1, exponent > -126 ? exponent : -126), out);
}

static void
u8_store_scaled(const float *x, size_t n, float scale, int zero, uint8_t *out)
{
	GrnByteHead head = {.zero = (int16_t) zero};
	double		inverse = 1 / (double) scale;
	uint32_t	bits;

	memcpy(&bits, &scale, sizeof(bits));
	head.scale = (uint16_t) (bits >> 16);
	memcpy(out, &head, sizeof(head));
	out += GRN_VEC_HEAD;
	for (size_t i = 0; i < n; i++)
	{
		double		level = x[i] * inverse - zero;

		out[i] = level >= 255 ? 255 : level > 0 ? (uint8_t) (level + 0.5) : 0;
	}
}

/* Bytes for a row that does not fit 0..255: its least number gets 0, its largest 255 at most. */
static void
u8_store_fitted(const float *x, size_t n, uint8_t *out)
{
	float		least = x[0];
	float		most = x[0];
	double		scale;
	float		rounded;
	uint32_t	bits;

	for (size_t i = 1; i < n; i++)
	{
		least = fminf(least, x[i]);
		most = fmaxf(most, x[i]);
	}
	scale = fmax(((double) most - least) / U8_LEVELS,
				 fmax(fabs(least), fabs(most)) / U8_MAX_ZERO);
	/* upwards to a float with 16 bits */
	rounded = fmaxf((float) scale, U8_LEAST_SCALE);
	memcpy(&bits, &rounded, sizeof(bits));
	bits = (bits + 0x1FFFF) & 0xFFFF0000;
	memcpy(&rounded, &bits, sizeof(bits));
	u8_store_scaled(x, n, rounded, (int) floor(least / (double) rounded), out);
}

/* Numbers [from, from + n) of a vector in one of the short forms. */
static void
vec_piece(GrnVecFormat format, const void *x, size_t from, size_t n, float *out)
{
	const uint8_t *numbers = (const uint8_t *) x + GRN_VEC_HEAD;
	GrnByteHead head;
	float		scale;

	if (format == GRN_VEC_F16)
	{
		memcpy(&scale, x, sizeof(scale));
		grn_dist->f16_load(numbers + 2 * from, n, out);
		for (size_t i = 0; i < n && scale != 1; i++)
			out[i] *= scale;
	}
	else
	{
		uint32_t	bits;

		memcpy(&head, x, sizeof(head));
		bits = (uint32_t) head.scale << 16;
		memcpy(&scale, &bits, sizeof(scale));
		for (size_t i = 0; i < n; i++)
			out[i] = (float) (numbers[from + i] + head.zero) * scale;
	}
}

static bool
is_exact(GrnVecFormat format, const float *x, size_t n, const void *stored)
{
	float		back[PIECE];

	if (format == GRN_VEC_F32)
		return true;
	for (size_t i = 0; i < n; i += PIECE)
	{
		size_t		len = n - i < PIECE ? n - i : PIECE;
		uint32_t	differ = 0;

		vec_piece(format, stored, i, len, back);
		for (size_t j = 0; j < len; j++)
			differ |= back[j] != x[i + j];
		if (differ)
			return false;
	}
	return true;
}

bool
grn_vec_store(GrnVecFormat format, const float *x, size_t n, void *out)
{
	static const GrnByteHead plain = {.scale = U8_SCALE_ONE};
	float		least;
	bool		exact;

	switch (format)
	{
		case GRN_VEC_F32:
			memcpy(out, x, 4 * n);
			break;
		case GRN_VEC_F16:
			f16_store(x, n, out);
			break;
		case GRN_VEC_U8:
			memcpy(out, &plain, sizeof(plain));
			grn_dist->u8_store(x, n, (uint8_t *) out + GRN_VEC_HEAD);
			break;
	}
	exact = is_exact(format, x, n, out);
	if (exact || format != GRN_VEC_U8 || n == 0)
		return exact;

	/* integers from elsewhere are exact, too, where they span no more than 255 */
	least = x[0];
	for (size_t i = 1; i < n; i++)
		least = fminf(least, x[i]);
	if (fabsf(least) <= U8_MAX_ZERO)
	{
		u8_store_scaled(x, n, 1, (int) floorf(least), out);
		if (is_exact(format, x, n, out))
			return true;
	}
	u8_store_fitted(x, n, out);
	return is_exact(format, x, n, out);
}

void
grn_vec_load(GrnVecFormat format, const void *x, size_t n, float *out)
{
	if (format == GRN_VEC_F32)
		memcpy(out, x, 4 * n);
	else
		vec_piece(format, x, 0, n, out);
}

/* Do a stored vector's numbers stand for themselves? */
static bool
is_plain(GrnVecFormat format, const void *x)
{
	GrnByteHead head;
	float		scale;

	if (format == GRN_VEC_F16)
	{
		memcpy(&scale, x, sizeof(scale));
		return scale == 1;
	}
	memcpy(&head, x, sizeof(head));
	return head.scale == U8_SCALE_ONE && head.zero == 0;
}

/* Sums fn over pieces of a stored vector that has to be converted first. */
static float
sum_pieces(GrnVecFormat format, float (*fn) (const float *, const float *, size_t),
		   const float *q, const void *x, size_t n)
{
	float		piece[PIECE];
	double		sum = 0;

	for (size_t i = 0; i < n; i += PIECE)
	{
		size_t		len = n - i < PIECE ? n - i : PIECE;

		vec_piece(format, x, i, len, piece);
		sum += fn(q + i, piece, len);
	}
	return (float) sum;
}

float
grn_vec_l2(GrnVecFormat format, const float *q, const void *x, size_t n)
{
	const GrnDistTable *d = grn_dist;
	const void *numbers = (const uint8_t *) x + GRN_VEC_HEAD;

	if (format == GRN_VEC_F32)
		return d->l2_f32(q, x, n);
	if (!is_plain(format, x))
		return sum_pieces(format, d->l2_f32, q, x, n);
	return (format == GRN_VEC_F16 ? d->l2_f16 : d->l2_u8) (q, numbers, n);
}

float
grn_vec_ip(GrnVecFormat format, const float *q, const void *x, size_t n)
{
	const GrnDistTable *d = grn_dist;
	const void *numbers = (const uint8_t *) x + GRN_VEC_HEAD;

	if (format == GRN_VEC_F32)
		return d->ip_f32(q, x, n);
	if (!is_plain(format, x))
		return sum_pieces(format, d->ip_f32, q, x, n);
	return (format == GRN_VEC_F16 ? d->ip_f16 : d->ip_u8) (q, numbers, n);
}

/* -0 counts as held by 0: no distance tells them apart. */
GrnVecFormat
grn_vec_smallest(const float *x, size_t n)
{
	size_t		i = 0;

	while (i < n && x[i] >= 0 && x[i] <= 255 && x[i] == (float) (int) x[i])
		i++;
	if (i == n)
		return GRN_VEC_U8;

	for (i = 0; i < n; i += PIECE)
	{
		uint16_t	half[PIECE];
		float		back[PIECE];
		size_t		len = n - i < PIECE ? n - i : PIECE;

		grn_dist->f16_store(x + i, len, half);
		grn_dist->f16_load(half, len, back);
		for (size_t j = 0; j < len; j++)
			if (back[j] != x[i + j])
				return GRN_VEC_F32;
	}
	return GRN_VEC_F16;
}

/* ---- choice ---- */

int
grn_dist_versions(const GrnDistTable **out, int max)
{
	int			n = 0;

	if (max > 0)
		out[n++] = &grn_dist_plain;
#if defined(__x86_64__)
	n += grn_dist_x86(out + n, max - n);
#elif defined(__aarch64__)
	n += grn_dist_neon(out + n, max - n);
#endif
	return n;
}

void
grn_dist_init(void)
{
	static bool done = false;
	const GrnDistTable *versions[MAX_VERSIONS];
	const char *wish;
	int			n;

	if (done)
		return;
	n = grn_dist_versions(versions, MAX_VERSIONS);
	grn_dist = versions[n - 1];
	wish = getenv("GRN_SIMD");
	if (wish != NULL)
		for (int i = 0; i < n; i++)
			if (strcmp(versions[i]->name, wish) == 0)
				grn_dist = versions[i];
	done = true;
}
