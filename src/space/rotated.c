/*
 * rotated.c - stored vectors of few bits for each number.
 *
 * Levels have the layout of a code's dimensions (dist.h), so that the kernels of codes can
 * multiply levels: number j of a byte is in the bits from j * bits on.  A long vector is
 * multiplied in pieces of GRN_MAX_CODE_BYTES.
 */
#include "space/form.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "space/kernels/dist.h"
#include "space/space.h"

_Static_assert(sizeof(GrnRotatedHead) == 8, "on-disk size");

#define ALIGN 16				/* alignment of counts for the kernels that compute levels */

typedef struct RotatedQuery
{
	float		unit;			/* unit of the numbers in planes */
	float		norm2;			/* |q|^2 */
	float		offset;			/* sum of the planes times the middle of the levels */
	float		raised;			/* see grn_rotated_shift_products() */
	float		times_head;
	uint32_t	pieces;
	GrnCodePlanes planes[];
} RotatedQuery;

static float
middle_of(uint32_t bits)
{
	return (float) ((1u << bits) - 1) / 2;
}

static size_t
level_bytes(uint32_t bits, size_t n)
{
	return (bits * n + 7) / 8;
}

static uint32_t
level_of(uint32_t bits, const uint8_t *levels, size_t j)
{
	uint32_t	each = 8 / bits;

	return levels[j / each] >> (j % each * bits) & ((1u << bits) - 1);
}

/*
 * The distance between evenly spaced levels with the least error for a normal variable, in
 * standard deviations, for 16 levels and for 4 levels (Max, Quantizing for minimum distortion,
 * 1960, Table II).
 */
#define NORMAL_STEP_16 0.335f
#define NORMAL_STEP_4 0.996f

/*
 * Returns the distance between two levels that changes the row's angle least.  Numbers of a
 * rotated row are nearly normal, but short rows differ in range, so wider and narrower steps
 * are tried as well.  Measured at 64 dimensions and 4 bits: the five steps have error .098,
 * one step .105, eighty steps .093.  u: [n], padded with zeros to a multiple of ALIGN.
 */
static float
best_step(const float *u, size_t n, double norm2, uint32_t bits)
{
	static const float tried[] = {1, 0.84f, 0.72f, 1.2f, 1.5f};
	float		normal = bits == 4 ? NORMAL_STEP_16 : NORMAL_STEP_4;
	float		length = (float) sqrt(norm2 / (double) n);
	float		best = length;
	double		most = -1;

	for (size_t i = 0; bits > 1 && i < sizeof(tried) / sizeof(tried[0]); i++)
	{
		float		step = tried[i] * normal * length;
		float		uc,
					cc;

		if (!(step > 0) || isinf(1 / step))
			break;
		grn_dist->levels(u, (n + ALIGN - 1) / ALIGN * ALIGN, 1 / step,
						 2 * middle_of(bits), &uc, &cc);
		if ((double) uc * uc / cc > most)
		{
			most = (double) uc * uc / cc;
			best = step;
		}
	}
	return best;
}

/*
 * Computes the levels of numbers u [n], padded with zeros to a multiple of ALIGN.  The bytes
 * of levels must be zero.  inverse: 1 / distance between two levels.  *uc: inner product of u
 * and the levels minus their middle.  *cc: sum of squares of the levels minus their middle.
 */
static void
set_levels(uint32_t bits, const float *u, size_t n, float inverse, uint8_t *levels, double *uc, double *cc)
{
	float		middle = middle_of(bits);
	int32_t		last = (1 << bits) - 1;
	uint32_t	each = 8 / bits;
	uint8_t		c[GRN_MAX_DIM + ALIGN];
	double		products[ALIGN] = {0};
	double		product = 0;
	int32_t		squares = 0;

	for (size_t j = 0; j < n; j++)
	{
		float		level = u[j] * inverse + middle + 0.5f;

		level = level > 0 ? level : 0;
		level = level < 2 * middle ? level : 2 * middle;
		c[j] = (uint8_t) (int32_t) level;
	}
	/* With one bit the level is the sign. */
	for (size_t j = 0; bits == 1 && j < n; j++)
		c[j] = u[j] >= 0;
	for (size_t j = 0; j < n; j++)
		squares += (2 * c[j] - last) * (2 * c[j] - last);
	/* padding behind the last number */
	memset(c + n, 0, ALIGN);
	/* With several sums an addition does not wait for the addition before. */
	for (size_t j = 0; j < n; j += ALIGN)
		for (size_t k = 0; k < ALIGN; k++)
			products[k] += (double) u[j + k] * ((float) c[j + k] - middle);
	for (size_t k = 0; k < ALIGN; k++)
		product += products[k];
	for (size_t i = 0, j = 0; j < n; i++)
		for (uint32_t k = 0; k < each; k++)
			levels[i] |= (uint8_t) (c[j++] << (k * bits));
	*uc = product;
	*cc = squares / 4.0;
}

static bool
store(uint32_t bits, const float *x, size_t n, uint8_t *out)
{
	GrnRotatedHead head = {0, 0};
	uint8_t    *levels = out + sizeof(head);
	float		u[GRN_MAX_DIM + ALIGN];
	double		norm2;
	double		uc = 0;
	double		cc = 0;

	memset(levels, 0, level_bytes(bits, n));
	memcpy(u, x, n * sizeof(float));
	memset(u + n, 0, ALIGN * sizeof(float));
	grn_rotate(u, n);
	norm2 = grn_norm2(u, n);
	if (norm2 > 0)
		set_levels(bits, u, n, 1 / best_step(u, n, norm2, bits), levels, &uc, &cc);
	if (uc > 0)
	{
		head.scale = (float) (norm2 / uc);
		head.norm2 = (float) (cc * head.scale * head.scale);
	}
	memcpy(out, &head, sizeof(head));
	/* rotation makes zeros of the smallest numbers */
	return norm2 == 0 && grn_norm2(x, n) == 0;
}

/* Writes the numbers that n levels stand for. */
static inline void
load_levels(uint32_t bits, const uint8_t *levels, size_t n, float scale, float *out)
{
	uint32_t	each = 8 / bits;
	float		middle = middle_of(bits);
	size_t		whole = n / each * each;

	for (size_t j = 0; j < whole; j += each)
		for (uint32_t k = 0; k < each; k++)
			out[j + k] = scale * ((float) (levels[j / each] >> (k * bits) & ((1 << bits) - 1)) - middle);
	for (size_t j = whole; j < n; j++)
		out[j] = scale * ((float) level_of(bits, levels, j) - middle);
}

void
grn_rotated_load_rotated(uint32_t bits, const uint8_t *stored, size_t n, float *out)
{
	GrnRotatedHead head;
	const uint8_t *levels = stored + sizeof(head);

	memcpy(&head, stored, sizeof(head));
	/* With constant bits the compiler unrolls the inner loops. */
	if (bits == 4)
		load_levels(4, levels, n, head.scale, out);
	else if (bits == 2)
		load_levels(2, levels, n, head.scale, out);
	else
		load_levels(1, levels, n, head.scale, out);
}

static void
load(uint32_t bits, const uint8_t *stored, size_t n, float *out)
{
	grn_rotated_load_rotated(bits, stored, n, out);
	grn_rotate_back(out, n);
}

/* The functions of each rotated form for form.c's table. */
#define ROTATED(bits) \
bool \
grn_rotated##bits##_store(const float *x, size_t n, uint8_t *out) \
{ \
	return store(bits, x, n, out); \
} \
 \
void \
grn_rotated##bits##_load(const uint8_t *stored, size_t n, float *out) \
{ \
	load(bits, stored, n, out); \
} \
 \
float \
grn_rotated##bits##_l2(const float *q, const uint8_t *stored, size_t n) \
{ \
	float		x[GRN_MAX_DIM]; \
 \
	load(bits, stored, n, x); \
	return grn_dist->l2_f32(q, x, n); \
} \
 \
float \
grn_rotated##bits##_ip(const float *q, const uint8_t *stored, size_t n) \
{ \
	float		x[GRN_MAX_DIM]; \
 \
	load(bits, stored, n, x); \
	return grn_dist->ip_f32(q, x, n); \
} \
 \
float \
grn_rotated##bits##_l1(const float *q, const uint8_t *stored, size_t n) \
{ \
	float		x[GRN_MAX_DIM]; \
 \
	load(bits, stored, n, x); \
	return grn_dist->l1_f32(q, x, n); \
}

ROTATED(4)
ROTATED(2)
ROTATED(1)

/* ---- queries ---- */

size_t
grn_rotated_query_bytes(uint32_t bits, size_t n)
{
	size_t		pieces = (level_bytes(bits, n) + GRN_MAX_CODE_BYTES - 1) / GRN_MAX_CODE_BYTES;

	return sizeof(RotatedQuery) + pieces * sizeof(GrnCodePlanes);
}

void
grn_rotated_query(uint32_t bits, const float *q, size_t n, void *out)
{
	RotatedQuery *query = out;
	float		u[GRN_MAX_DIM];
	float		most = 0;
	float		scale;
	int32_t		sum = 0;
	double		norm2 = 0;
	double		rounded = 0;
	size_t		bytes = level_bytes(bits, n);

	memset(out, 0, grn_rotated_query_bytes(bits, n));
	memcpy(u, q, n * sizeof(float));
	query->norm2 = grn_dist->ip_f32(q, q, n);
	query->pieces = (uint32_t) ((bytes + GRN_MAX_CODE_BYTES - 1) / GRN_MAX_CODE_BYTES);
	grn_rotate(u, n);
	for (size_t j = 0; j < n; j++)
		most = fabsf(u[j]) > most ? fabsf(u[j]) : most;
	scale = most > 127 / FLT_MAX ? 127 / most : 0;
	for (uint32_t i = 0; i < query->pieces; i++)
	{
		GrnCodePlanes *p = &query->planes[i];
		size_t		left = bytes - (size_t) i * GRN_MAX_CODE_BYTES;

		left = left < GRN_MAX_CODE_BYTES ? left : GRN_MAX_CODE_BYTES;
		p->bytes = (uint32_t) (left + 3) & ~UINT32_C(3);
		p->end4 = bits == 4 ? p->bytes : 0;
		p->end2 = bits >= 2 ? p->bytes : 0;
		memset(p->mask, (1 << bits) - 1, left);
		for (size_t j = (size_t) i * GRN_MAX_CODE_BYTES * 8 / bits, b = 0; b < left && scale > 0; b++)
			for (uint32_t k = 0; k < 8 && j < n; k += bits, j++)
			{
				float		scaled = u[j] * scale;
				int8_t		level = (int8_t) lrintf(scaled);

				p->plane[k][b] = level;
				sum += level;
				norm2 += scaled * scaled;
				rounded += scaled * (float) level;
			}
	}
	/*
	 * With this unit the rounding error is perpendicular to the query, so inner products with
	 * vectors along the query are exact.
	 */
	if (rounded > 0)
		query->unit = (float) (norm2 / rounded / scale);
	query->offset = (float) sum * middle_of(bits);
}

void
grn_rotated_shift_products(void *query, float by, float times_head)
{
	((RotatedQuery *) query)->raised = by;
	((RotatedQuery *) query)->times_head = times_head;
}

float
grn_rotated_norm2(const uint8_t *stored)
{
	GrnRotatedHead head;

	memcpy(&head, stored, sizeof(head));
	return head.norm2;
}

/* Returns the sum of squares of twice the levels' distances from the middle, odd integers. */
static inline uint32_t
sum_of_squares(uint32_t bits, const uint8_t *levels, size_t n)
{
	uint32_t	each = 8 / bits;
	int32_t		last = (1 << bits) - 1;
	size_t		bytes = (n + each - 1) / each;
	uint32_t	sum = 0;

	for (size_t i = 0; i < bytes; i++)
		for (uint32_t k = 0; k < each; k++)
		{
			int32_t		twice = 2 * (levels[i] >> (k * bits) & last) - last;

			sum += (uint32_t) (twice * twice);
		}
	/* Bits behind the last number are zero, and are not part of the sum. */
	return sum - (uint32_t) ((bytes * each - n) * (size_t) (last * last));
}

/* Returns sum_of_squares() of a stored vector, and its scale. */
static uint32_t
stored_squares(uint32_t bits, const uint8_t *stored, size_t n, float *scale)
{
	GrnRotatedHead head;
	const uint8_t *levels = stored + sizeof(head);

	memcpy(&head, stored, sizeof(head));
	*scale = head.scale;
	return bits == 4 ? sum_of_squares(4, levels, n)
		: bits == 2 ? sum_of_squares(2, levels, n) : sum_of_squares(1, levels, n);
}

float
grn_rotated_levels_norm2(uint32_t bits, const uint8_t *stored, size_t n)
{
	float		scale;
	uint32_t	sum = stored_squares(bits, stored, n, &scale);

	return scale * scale * (float) sum / 4;
}

double
grn_rotated_error2(uint32_t bits, const uint8_t *stored, size_t n, double norm2)
{
	float		scale;
	uint32_t	sum = stored_squares(bits, stored, n, &scale);

	return (double) scale * scale * sum / 4 - norm2;
}

/* Returns the inner product of a query and a stored vector with the given head and levels. */
static float
product(uint32_t bits, const RotatedQuery *q, const GrnRotatedHead *head, const uint8_t *levels, size_t n)
{
	size_t		bytes = level_bytes(bits, n);
	int64_t		sum = 0;

	for (uint32_t i = 0; i < q->pieces; i++, levels += GRN_MAX_CODE_BYTES, bytes -= GRN_MAX_CODE_BYTES)
	{
		const uint8_t *from = levels;
		uint8_t		last[GRN_MAX_CODE_BYTES];
		int32_t		dot;

		/* Kernels read whole words. */
		if (bytes < q->planes[i].bytes)
		{
			memcpy(last, levels, bytes);
			memset(last + bytes, 0, q->planes[i].bytes - bytes);
			from = last;
		}
		grn_dist->dot(&q->planes[i], from, 1, &dot);
		sum += dot;
	}
	return head->scale * q->unit * ((float) sum - q->offset);
}

float
grn_rotated_ip(uint32_t bits, const void *query, const uint8_t *stored, size_t n)
{
	const RotatedQuery *q = query;
	GrnRotatedHead head;

	memcpy(&head, stored, sizeof(head));
	return product(bits, q, &head, stored + sizeof(head), n) + q->raised + q->times_head * head.norm2;
}

float
grn_rotated_l2(uint32_t bits, const void *query, const uint8_t *stored, size_t n)
{
	const RotatedQuery *q = query;
	GrnRotatedHead head;
	float		l2;

	memcpy(&head, stored, sizeof(head));
	l2 = q->norm2 + head.norm2 - 2 * product(bits, q, &head, stored + sizeof(head), n);
	return l2 > 0 ? l2 : 0;
}
