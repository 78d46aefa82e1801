/*
 * form.c - the table of stored forms.
 */
#include "space/form.h"

#include <math.h>
#include <string.h>

#include "space/kernels/dist.h"

/* Whether the stored vector, converted back by an entry's piece(), equals the n floats x. */
static bool
is_exact(void (*piece) (const uint8_t *, size_t, size_t, float *), const float *x, size_t n,
		 const uint8_t *stored)
{
	float		back[GRN_PIECE];

	for (size_t i = 0; i < n; i += GRN_PIECE)
	{
		size_t		len = n - i < GRN_PIECE ? n - i : GRN_PIECE;
		uint32_t	differ = 0;

		piece(stored, i, len, back);
		for (size_t j = 0; j < len; j++)
			differ |= back[j] != x[i + j];
		if (differ)
			return false;
	}
	return true;
}

/* ---- 32-bit floats ---- */

static bool
f32_holds(const float *x, size_t n)
{
	(void) x;
	(void) n;
	return true;
}

static bool
f32_store(const float *x, size_t n, uint8_t *out)
{
	memcpy(out, x, 4 * n);
	return true;
}

static void
f32_piece(const uint8_t *stored, size_t from, size_t n, float *out)
{
	memcpy(out, stored + 4 * from, 4 * n);
}

static bool
f32_plain(const uint8_t *stored)
{
	(void) stored;
	return true;
}

static float
f32_l2(const float *q, const uint8_t *stored, size_t n)
{
	return grn_dist->l2_f32(q, (const float *) stored, n);
}

static float
f32_ip(const float *q, const uint8_t *stored, size_t n)
{
	return grn_dist->ip_f32(q, (const float *) stored, n);
}

static float
f32_l1(const float *q, const uint8_t *stored, size_t n)
{
	return grn_dist->l1_f32(q, (const float *) stored, n);
}

static void
f32_normalize(uint8_t *stored, size_t n, double norm)
{
	for (size_t i = 0; i < n; i++)
	{
		float		x;

		memcpy(&x, stored + 4 * i, sizeof(x));
		x = (float) (x / norm);
		memcpy(stored + 4 * i, &x, sizeof(x));
	}
}

/* ---- binary16 ---- */

/* Rows whose largest number is outside these limits get a scale; binary16 is coarse near 0. */
#define F16_SMALL (1.0f / 256)
#define F16_MOST 65504.0f

static const float f16_itself = 1;

static bool
f16_holds(const float *x, size_t n)
{
	for (size_t i = 0; i < n; i += GRN_PIECE)
	{
		uint16_t	half[GRN_PIECE];
		float		back[GRN_PIECE];
		size_t		len = n - i < GRN_PIECE ? n - i : GRN_PIECE;

		grn_dist->f16_store(x + i, len, half);
		grn_dist->f16_load(half, len, back);
		for (size_t j = 0; j < len; j++)
			if (back[j] != x[i + j])
				return false;
	}
	return true;
}

static void
f16_piece(const uint8_t *stored, size_t from, size_t n, float *out)
{
	float		scale;

	memcpy(&scale, stored, sizeof(scale));
	grn_dist->f16_load(stored + sizeof(scale) + 2 * from, n, out);
	for (size_t i = 0; i < n && scale != 1; i++)
		out[i] *= scale;
}

static void
f16_store_scaled(const float *x, size_t n, float scale, uint8_t *out)
{
	float		inverse = 1 / scale;

	memcpy(out, &scale, sizeof(scale));
	for (size_t i = 0; i < n; i += GRN_PIECE)
	{
		float		scaled[GRN_PIECE];
		size_t		len = n - i < GRN_PIECE ? n - i : GRN_PIECE;

		for (size_t j = 0; j < len; j++)
			scaled[j] = x[i + j] * inverse;
		grn_dist->f16_store(scaled, len, out + sizeof(scale) + 2 * i);
	}
}

static void
f16_store_fitted(const float *x, size_t n, uint8_t *out)
{
	float		most = 0;
	int			exponent;

	for (size_t i = 0; i < n; i++)
		most = fmaxf(most, fabsf(x[i]));
	if (most == 0 || (most >= F16_SMALL && most <= F16_MOST))
	{
		f16_store_scaled(x, n, 1, out);
		return;
	}
	/* The largest number becomes 2^14 ..  2^15.  Scaling by a power of two does not round. */
	frexpf(most, &exponent);
	exponent -= 15;
	f16_store_scaled(x, n, ldexpf(1, exponent > -126 ? exponent : -126), out);
}

static bool
f16_store(const float *x, size_t n, uint8_t *out)
{
	f16_store_fitted(x, n, out);
	return is_exact(f16_piece, x, n, out);
}

static bool
f16_plain(const uint8_t *stored)
{
	float		scale;

	memcpy(&scale, stored, sizeof(scale));
	return scale == 1;
}

static float
f16_l2(const float *q, const uint8_t *stored, size_t n)
{
	return grn_dist->l2_f16(q, stored + sizeof(float), n);
}

static float
f16_ip(const float *q, const uint8_t *stored, size_t n)
{
	return grn_dist->ip_f16(q, stored + sizeof(float), n);
}

static float
f16_l1(const float *q, const uint8_t *stored, size_t n)
{
	return grn_dist->l1_f16(q, stored + sizeof(float), n);
}

/* The numbers remain unchanged, so only products with the head are rounded. */
static void
f16_normalize(uint8_t *stored, size_t n, double norm)
{
	float		head = (float) (1 / norm);

	(void) n;
	memcpy(stored, &head, sizeof(head));
}

/* Factors out the larger scale, so that the result does not depend on the order of a and b. */
static float
f16_apart(const uint8_t *a, float sa, const uint8_t *b, float sb, size_t n)
{
	float		heads[2];

	memcpy(&heads[0], a, sizeof(float));
	memcpy(&heads[1], b, sizeof(float));
	sa *= heads[0];
	sb *= heads[1];
	a += sizeof(float);
	b += sizeof(float);
	if (sa < sb)
		return sb * (grn_pairs->l2_f16(b, a, sa / sb, n) * sb);
	return sa > 0 ? sa * (grn_pairs->l2_f16(a, b, sb / sa, n) * sa) : 0;
}

/* ---- bytes ---- */

/* Limits of a GrnByteHead: levels of a row's range, the largest zero, the least scale. */
#define U8_LEVELS 254
#define U8_MAX_ZERO 32000
#define U8_LEAST_SCALE 1e-36f
#define U8_SCALE_ONE 0x3F80		/* the upper half of the bits of 1.0f */

_Static_assert(sizeof(GrnByteHead) == 4, "GrnByteHead is on disk");

static const GrnByteHead u8_itself = {.scale = U8_SCALE_ONE};

/* -0 counts as 0, because no distance distinguishes the two. */
static bool
u8_holds(const float *x, size_t n)
{
	size_t		i = 0;

	while (i < n && x[i] >= 0 && x[i] <= 255 && x[i] == (float) (int) x[i])
		i++;
	return i == n;
}

/* A stored byte b stands for b * scale + offset.  Both terms and their sum are exact. */
static float
u8_scale(const uint8_t *stored, float *offset)
{
	GrnByteHead head;
	uint32_t	bits;
	float		scale;

	memcpy(&head, stored, sizeof(head));
	bits = (uint32_t) head.scale << 16;
	memcpy(&scale, &bits, sizeof(scale));
	*offset = (float) head.zero * scale;
	return scale;
}

static void
u8_piece(const uint8_t *stored, size_t from, size_t n, float *out)
{
	const uint8_t *numbers = stored + sizeof(GrnByteHead) + from;
	float		offset;
	float		scale = u8_scale(stored, &offset);

	for (size_t i = 0; i < n; i++)
		out[i] = (float) numbers[i] * scale + offset;
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
	out += sizeof(head);
	for (size_t i = 0; i < n; i++)
	{
		double		level = x[i] * inverse - zero;

		level = level > 0 ? level : 0;
		level = level < 255 ? level : 255;
		out[i] = (uint8_t) (int) (level + 0.5);
	}
}

#define LANES 8

/* Returns the least and the largest of n > 0 numbers, none of them NaN. */
static void
range_of(const float *x, size_t n, float *least, float *most)
{
	float		low[LANES];
	float		high[LANES];
	size_t		i = 0;

	for (int j = 0; j < LANES; j++)
		low[j] = high[j] = x[0];
	/* Separate lanes do not wait for each other. */
	for (; i + LANES <= n; i += LANES)
		for (int j = 0; j < LANES; j++)
		{
			low[j] = x[i + j] < low[j] ? x[i + j] : low[j];
			high[j] = x[i + j] > high[j] ? x[i + j] : high[j];
		}
	for (; i < n; i++)
	{
		low[0] = x[i] < low[0] ? x[i] : low[0];
		high[0] = x[i] > high[0] ? x[i] : high[0];
	}
	*least = low[0];
	*most = high[0];
	for (int j = 1; j < LANES; j++)
	{
		*least = low[j] < *least ? low[j] : *least;
		*most = high[j] > *most ? high[j] : *most;
	}
}

/* Stores a row of any numbers: the least number becomes 0, the largest at most 255. */
static void
u8_store_fitted(const float *x, size_t n, float least, float most, uint8_t *out)
{
	double		scale;
	float		rounded;
	uint32_t	bits;

	scale = fmax(((double) most - least) / U8_LEVELS,
				 fmax(fabs(least), fabs(most)) / U8_MAX_ZERO);
	/* Round up to a float whose lower 16 bits are 0. */
	rounded = fmaxf((float) scale, U8_LEAST_SCALE);
	memcpy(&bits, &rounded, sizeof(bits));
	bits = (bits + 0x1FFFF) & 0xFFFF0000;
	memcpy(&rounded, &bits, sizeof(bits));
	u8_store_scaled(x, n, rounded, (int) floor(least / (double) rounded), out);
}

static bool
u8_store(const float *x, size_t n, uint8_t *out)
{
	float		least;
	float		most;

	range_of(x, n, &least, &most);
	/* Integers are exact: 0 to 255 by the kernel, other integers if they span at most 255. */
	if (x[0] == floorf(x[0]))
	{
		memcpy(out, &u8_itself, sizeof(u8_itself));
		grn_dist->u8_store(x, n, out + sizeof(u8_itself));
		if (is_exact(u8_piece, x, n, out))
			return true;
		if (fabsf(least) <= U8_MAX_ZERO)
		{
			u8_store_scaled(x, n, 1, (int) floorf(least), out);
			if (is_exact(u8_piece, x, n, out))
				return true;
		}
	}
	u8_store_fitted(x, n, least, most, out);
	return is_exact(u8_piece, x, n, out);
}

/* The kernels take scale and offset, so any head serves. */
static bool
u8_plain(const uint8_t *stored)
{
	(void) stored;
	return true;
}

static float
u8_l2(const float *q, const uint8_t *stored, size_t n)
{
	float		offset;
	float		scale = u8_scale(stored, &offset);

	return grn_dist->l2_u8(q, stored + sizeof(GrnByteHead), n, scale, offset);
}

static float
u8_ip(const float *q, const uint8_t *stored, size_t n)
{
	float		offset;
	float		scale = u8_scale(stored, &offset);

	return grn_dist->ip_u8(q, stored + sizeof(GrnByteHead), n, scale, offset);
}

static float
u8_l1(const float *q, const uint8_t *stored, size_t n)
{
	float		offset;
	float		scale = u8_scale(stored, &offset);

	return grn_dist->l1_u8(q, stored + sizeof(GrnByteHead), n, scale, offset);
}

/* Factors out the larger step between bytes, so that the order of a and b does not matter. */
static float
u8_apart(const uint8_t *a, float sa, const uint8_t *b, float sb, size_t n)
{
	GrnByteHead heads[2];
	float		offset;
	float		step_a = sa * u8_scale(a, &offset);
	float		step_b = sb * u8_scale(b, &offset);
	float		ratio = step_b / step_a;

	if (step_a < step_b)
		return u8_apart(b, sb, a, sa, n);
	if (step_a == 0)
		return 0;
	memcpy(&heads[0], a, sizeof(heads[0]));
	memcpy(&heads[1], b, sizeof(heads[1]));
	offset = (float) heads[0].zero - ratio * (float) heads[1].zero;
	return step_a * (grn_pairs->l2_u8(a + sizeof(GrnByteHead), b + sizeof(GrnByteHead), ratio, offset, n) * step_a);
}

/* ---- bits ---- */

static void
bits_piece(const uint8_t *stored, size_t from, size_t n, float *out)
{
	for (size_t i = 0; i < n; i++, from++)
		out[i] = (float) (stored[from / 8] >> (7 - from % 8) & 1);
}

bool
grn_pack_bits(const float *x, size_t n, uint8_t *out)
{
	memset(out, 0, (n + 7) / 8);
	for (size_t i = 0; i < n; i++)
		out[i / 8] |= (uint8_t) ((x[i] > 0.5f) << (7 - i % 8));
	return is_exact(bits_piece, x, n, out);
}

/*
 * Computes the distance from the numbers of ones that only a has, that only b has, and that
 * both have.  With equal factors the number of different bits is enough.  The larger factor
 * comes first, because a compiler that fuses a product and a sum, as for 64-bit Arm, would
 * round differently for each order.
 */
static float
bits_apart(const uint8_t *a, float sa, const uint8_t *b, float sb, size_t n)
{
	size_t		bytes = (n + 7) / 8;
	float		both;

	if (sa == sb)
		return sa * (sa * (float) grn_pairs->differ(a, b, bytes));
	if (sa < sb)
		return bits_apart(b, sb, a, sa, n);
	both = (float) grn_pairs->common(a, b, bytes);
	return (sa * sa * ((float) grn_pairs->common(a, a, bytes) - both) +
			sb * sb * ((float) grn_pairs->common(b, b, bytes) - both)) +
		(sa - sb) * (sa - sb) * both;
}

float
grn_jaccard(double both, double either)
{
	return either > 0 ? (float) (1 - both / either) : 1;
}

static float
bits_jaccard(const uint8_t *a, const uint8_t *b, size_t n)
{
	uint32_t	both = grn_pairs->common(a, b, (n + 7) / 8);

	return grn_jaccard(both, both + grn_pairs->differ(a, b, (n + 7) / 8));
}

/* ---- the table ---- */

/*
 * Measured on 40,000 sentences, 2 bits, recall .98, LIMIT 10: with three deviations a scan
 * reads 38 rows; with two deviations 25 rows and .0014 less recall; with 1.5 deviations 20
 * rows and .0044 less recall.  4 bits, three and two: .9995 by 12 rows and .999 by 11 (768
 * dimensions, ef 200).
 */
#define ROTATED(n, likely, rows_read) \
	[GRN_FORM_ROTATED##n] = { \
		.id = GRN_FORM_ROTATED##n, \
		.name = "rotated" #n, \
		.head = sizeof(GrnRotatedHead), \
		.bits = n, \
		.max_dim = GRN_MAX_DIM, \
		.rotated = true, \
		.deviations = likely, \
		.reads = rows_read, \
		.store = grn_rotated##n##_store, \
		.load = grn_rotated##n##_load, \
		.plain = f32_plain, \
		.l2 = grn_rotated##n##_l2, \
		.ip = grn_rotated##n##_ip, \
		.l1 = grn_rotated##n##_l1 \
	}

/*
 * By GrnForm.  Each form of numbers holds all rows that later forms hold: binary16 has integers to
 * 2048.
 */
static const GrnFormInfo forms[] = {
	[GRN_FORM_F32] = {
		.id = GRN_FORM_F32,
		.name = "f32",
		.bits = 32,
		.max_dim = GRN_MAX_DIM,
		.lossless = true,
		.numbers = GRN_NUMBERS_FLOATS,
		.holds = f32_holds,
		.store = f32_store,
		.piece = f32_piece,
		.plain = f32_plain,
		.l2 = f32_l2,
		.ip = f32_ip,
		.l1 = f32_l1,
		.normalize = f32_normalize
	},
	[GRN_FORM_F16] = {
		.id = GRN_FORM_F16,
		.name = "f16",
		.head = sizeof(float),
		.bits = 16,
		.max_dim = GRN_MAX_DIM,
		.numbers = GRN_NUMBERS_HALVES,
		.reads = 1.01,
		.holds = f16_holds,
		.store = f16_store,
		.piece = f16_piece,
		.plain = f16_plain,
		.l2 = f16_l2,
		.ip = f16_ip,
		.l1 = f16_l1,
		.own_head = &f16_itself,
		.normalize = f16_normalize,
		.apart = f16_apart
	},
	[GRN_FORM_U8] = {
		.id = GRN_FORM_U8,
		.name = "u8",
		.head = sizeof(GrnByteHead),
		.bits = 8,
		.max_dim = GRN_MAX_DIM,
		.reads = 1.2,
		.holds = u8_holds,
		.store = u8_store,
		.piece = u8_piece,
		.plain = u8_plain,
		.l2 = u8_l2,
		.ip = u8_ip,
		.l1 = u8_l1,
		.own_head = &u8_itself,
		.apart = u8_apart
	},
	[GRN_FORM_BITS] = {
		.id = GRN_FORM_BITS,
		.name = "bits",
		.bits = 1,
		.max_dim = GRN_MOST_DIMS,
		.lossless = true,
		.numbers = GRN_NUMBERS_BITS,
		.direct = true,
		.store = grn_pack_bits,
		.piece = bits_piece,
		.apart = bits_apart,
		.jaccard = bits_jaccard
	},
	ROTATED(4, 3, 1.4),
	ROTATED(2, 2, 2.5),
	ROTATED(1, 2, 5),
	[GRN_FORM_SPARSE] = {
		.id = GRN_FORM_SPARSE,
		.name = "sparse",
		.bits = 32,
		.max_dim = GRN_MAX_DIM,
		.reads = 1.01,
		.direct = true,
		.sparse = true,
		.piece = grn_sparse_piece,
		.norm2 = grn_sparse_whole_norm2,
		.normalize = grn_sparse_normalize
	}
};

#define NFORMS (sizeof(forms) / sizeof(forms[0]))

const GrnFormInfo *
grn_form(uint32_t id)
{
	return id < NFORMS && forms[id].name != NULL ? &forms[id] : NULL;
}

const GrnFormInfo *
grn_form_for(uint32_t id, GrnForm rows)
{
	const GrnFormInfo *form = grn_form(id);

	return form != NULL && (form->id == rows || !forms[rows].sparse) &&
		(form->id == rows || form->holds != NULL || (form->rotated && forms[rows].holds != NULL))
		? form : NULL;
}

GrnForm
grn_form_smallest(const float *x, size_t n)
{
	for (size_t i = NFORMS - 1; i > GRN_FORM_WIDEST; i--)
		if (forms[i].name != NULL && forms[i].holds != NULL && forms[i].holds(x, n))
			return forms[i].id;
	return GRN_FORM_WIDEST;
}

GrnForm
grn_rotated_form(size_t n, size_t bytes)
{
	GrnForm		form = GRN_FORM_ROTATED4;

	while (form < GRN_FORM_ROTATED1 && grn_form_bytes(form, n) > bytes)
		form++;
	return form;
}

GrnForm
grn_form_wider(GrnForm a, GrnForm b)
{
	return a < b ? a : b;
}

bool
grn_form_store(GrnForm form, const float *x, size_t n, void *out)
{
	return forms[form].store(x, n, out);
}

void
grn_form_load(GrnForm form, const void *stored, size_t n, float *out)
{
	if (forms[form].piece != NULL)
		forms[form].piece(stored, 0, n, out);
	else
		forms[form].load(stored, n, out);
}

void
grn_form_piece(GrnForm form, const void *stored, size_t from, size_t n, float *out)
{
	forms[form].piece(stored, from, n, out);
}

void *
grn_form_begin(GrnForm form, void *stored)
{
	const GrnFormInfo *f = &forms[form];

	if (f->head > 0)
		memcpy(stored, f->own_head, f->head);
	return (uint8_t *) stored + f->head;
}

bool
grn_form_normalize(GrnForm form, void *stored, size_t n)
{
	float		piece[GRN_PIECE];
	double		norm2 = 0;

	if (forms[form].norm2 != NULL)
		norm2 = forms[form].norm2(stored);
	for (size_t i = 0; i < n && forms[form].norm2 == NULL; i += GRN_PIECE)
	{
		size_t		len = n - i < GRN_PIECE ? n - i : GRN_PIECE;

		forms[form].piece(stored, i, len, piece);
		for (size_t j = 0; j < len; j++)
			norm2 += (double) piece[j] * piece[j];
	}
	if (norm2 == 0 || forms[form].normalize == NULL)
		return false;
	forms[form].normalize(stored, n, sqrt(norm2));
	return true;
}

/* Whether the form's own kernels can compare a stored vector. */
static bool
is_plain(const GrnFormInfo *form, const uint8_t *stored)
{
	return form->plain != NULL && form->plain(stored);
}

/* Sums fn over pieces of a stored vector that must be converted to floats first. */
static float
sum_pieces(const GrnFormInfo *form, float (*fn) (const float *, const float *, size_t),
		   const float *q, const uint8_t *stored, size_t n)
{
	float		piece[GRN_PIECE];
	double		sum = 0;

	for (size_t i = 0; i < n; i += GRN_PIECE)
	{
		size_t		len = n - i < GRN_PIECE ? n - i : GRN_PIECE;

		form->piece(stored, i, len, piece);
		sum += fn(q + i, piece, len);
	}
	return (float) sum;
}

float
grn_form_l2(GrnForm form, const float *q, const void *stored, size_t n)
{
	const GrnFormInfo *f = &forms[form];

	return is_plain(f, stored) ? f->l2(q, stored, n)
		: sum_pieces(f, grn_dist->l2_f32, q, stored, n);
}

float
grn_form_ip(GrnForm form, const float *q, const void *stored, size_t n)
{
	const GrnFormInfo *f = &forms[form];

	return is_plain(f, stored) ? f->ip(q, stored, n)
		: sum_pieces(f, grn_dist->ip_f32, q, stored, n);
}

float
grn_form_l1(GrnForm form, const float *q, const void *stored, size_t n)
{
	const GrnFormInfo *f = &forms[form];

	return is_plain(f, stored) ? f->l1(q, stored, n)
		: sum_pieces(f, grn_dist->l1_f32, q, stored, n);
}

float
grn_form_norm2(GrnForm form, const void *stored, size_t n)
{
	float		piece[GRN_PIECE];
	double		sum = 0;

	if (forms[form].rotated)
		return grn_rotated_norm2(stored);
	if (forms[form].sparse)
		return grn_sparse_norm2(stored);
	if (grn_form_is_floats(form))
		return grn_dist->ip_f32(stored, stored, n);
	for (size_t i = 0; i < n; i += GRN_PIECE)
	{
		size_t		len = n - i < GRN_PIECE ? n - i : GRN_PIECE;

		forms[form].piece(stored, i, len, piece);
		sum += grn_dist->ip_f32(piece, piece, len);
	}
	return (float) sum;
}

float
grn_form_apart(GrnForm form, const void *a, float sa, const void *b, float sb, size_t n)
{
	return forms[form].apart(a, sa, b, sb, n);
}

float
grn_form_jaccard(GrnForm form, const float *q, const void *stored, size_t n)
{
	double		both = grn_form_ip(form, q, stored, n);

	return grn_jaccard(both, (double) grn_dist->ip_f32(q, q, n) + grn_form_norm2(form, stored, n) - both);
}
