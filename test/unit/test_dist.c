/*
 * test_dist.c - every version of the distance kernels against the plain one, and
 * the plain one against sums in double.
 */
#include "space/form.h"
#include "unit.h"

#define MAX_N 300
#define MAX_VERSIONS 8
#define TOLERANCE 1e-5

typedef enum Kind
{
	NORMAL,						/* around 0 */
	NEGATIVE,
	DENORMAL,
	HUGE_VALUES,				/* sums of squares just below overflow */
	MIXED,						/* 12 orders of magnitude */
	EQUAL,						/* both vectors the same */
	KINDS
} Kind;

static const GrnDistTable *versions[MAX_VERSIONS];
static int	nversions;

static float
draw(Kind kind)
{
	switch (kind)
	{
		case NEGATIVE:
			return -fabsf(unit_normal());
		case DENORMAL:
			return unit_normal() * 1e-40f;
		case HUGE_VALUES:
			return unit_normal() * 1e17f;
		case MIXED:
			return unit_normal() * powf(10, 12 * unit_uniform() - 6);
		case NORMAL:
		case EQUAL:
		case KINDS:
			break;
	}
	return unit_normal();
}

/* Within TOLERANCE of the terms' size, which for L2 is the distance itself. */
static bool
close_to(double got, double want, double size)
{
	return fabs(got - want) <= TOLERANCE * size + 1e-44;
}

static void
f32_versions_agree(void)
{
	for (int kind = 0; kind < KINDS; kind++)
		for (size_t n = 0; n <= MAX_N; n++)
		{
			float	   *a = unit_guarded(4 * n);
			float	   *b = unit_guarded(4 * n);
			double		l2 = 0,
						ip = 0,
						l1 = 0,
						size = 0;

			for (size_t i = 0; i < n; i++)
			{
				a[i] = draw((Kind) kind);
				b[i] = kind == EQUAL ? a[i] : draw((Kind) kind);
				l2 += pow((double) a[i] - b[i], 2);
				l1 += fabs((double) a[i] - b[i]);
				ip += (double) a[i] * b[i];
				size += fabs((double) a[i] * b[i]);
			}
			for (int v = 0; v < nversions; v++)
			{
				CHECK(close_to(versions[v]->l2_f32(a, b, n), l2, l2),
					  "%s kind %d n %zu", versions[v]->name, kind, n);
				CHECK(close_to(versions[v]->ip_f32(a, b, n), ip, size),
					  "%s kind %d n %zu", versions[v]->name, kind, n);
				CHECK(close_to(versions[v]->l1_f32(a, b, n), l1, l1),
					  "%s kind %d n %zu", versions[v]->name, kind, n);
			}
			unit_guarded_free(a, 4 * n);
			unit_guarded_free(b, 4 * n);
		}
}

static void
stored_versions_agree(void)
{
	for (int format = GRN_FORM_F16; format <= GRN_FORM_U8; format++)
		for (size_t n = 0; n <= MAX_N; n++)
			for (size_t shift = 0; shift < 4; shift++)
			{
				/* The numbers end at the guard, less shift: any alignment. */
				size_t		bytes = grn_form_bytes((GrnForm) format, n) - sizeof(GrnByteHead);
				uint8_t    *room = unit_guarded(bytes + shift);
				float	   *q = unit_guarded(4 * n);
				float		x[MAX_N];
				/* what bytes stand for: themselves, or by a head */
				float		scale = shift % 2 ? 0.40625f : 1;
				float		offset = shift % 2 ? scale * -300 : 0;
				double		l2 = 0,
							ip = 0,
							l1 = 0,
							size = 0;

				for (size_t i = 0; i < n; i++)
				{
					q[i] = draw(NORMAL) * 100;
					x[i] = format == GRN_FORM_U8 ? (float) unit_below(256)
						: i % 7 == 3 ? draw(NORMAL) * 1e-6f : draw(NORMAL) * 300;
				}
				if (format == GRN_FORM_F16)
				{
					grn_dist->f16_store(x, n, room);
					grn_dist->f16_load(room, n, x);
				}
				else
				{
					grn_dist->u8_store(x, n, room);
					for (size_t i = 0; i < n; i++)
						x[i] = x[i] * scale + offset;
				}
				for (size_t i = 0; i < n; i++)
				{
					l2 += pow((double) q[i] - x[i], 2);
					ip += (double) q[i] * x[i];
					l1 += fabs((double) q[i] - x[i]);
					size += fabs((double) q[i] * x[i]);
				}
				for (int v = 0; v < nversions; v++)
				{
					const GrnDistTable *d = versions[v];
					bool		f16 = format == GRN_FORM_F16;

					CHECK(close_to(f16 ? d->l2_f16(q, room, n) : d->l2_u8(q, room, n, scale, offset),
								   l2, l2),
						  "%s format %d n %zu", d->name, format, n);
					CHECK(close_to(f16 ? d->ip_f16(q, room, n) : d->ip_u8(q, room, n, scale, offset),
								   ip, size),
						  "%s format %d n %zu", d->name, format, n);
					CHECK(close_to(f16 ? d->l1_f16(q, room, n) : d->l1_u8(q, room, n, scale, offset),
								   l1, l1),
						  "%s format %d n %zu", d->name, format, n);
				}
				unit_guarded_free(room, bytes + shift);
				unit_guarded_free(q, 4 * n);
			}
}

static void
long_vectors_agree(void)
{
	size_t		n = GRN_MAX_DIM;
	float	   *a = malloc(4 * n);
	float	   *b = malloc(4 * n);
	double		l2 = 0,
				ip = 0,
				l1 = 0;

	/* All positive: rounding has nothing to cancel against. */
	for (size_t i = 0; i < n; i++)
	{
		a[i] = 1 + unit_uniform();
		b[i] = 3 + unit_uniform();
		l2 += pow((double) a[i] - b[i], 2);
		ip += (double) a[i] * b[i];
		l1 += fabs((double) a[i] - b[i]);
	}
	for (int v = 0; v < nversions; v++)
	{
		CHECK(close_to(versions[v]->l2_f32(a, b, n), l2, l2), "%s", versions[v]->name);
		CHECK(close_to(versions[v]->ip_f32(a, b, n), ip, ip), "%s", versions[v]->name);
		CHECK(close_to(versions[v]->l1_f32(a, b, n), l1, l1), "%s", versions[v]->name);
	}
	free(a);
	free(b);
}

static void
overflow_is_infinite(void)
{
	float		a[64],
				b[64];

	for (int i = 0; i < 64; i++)
	{
		a[i] = 3e38f;
		b[i] = -3e38f;
	}
	for (int v = 0; v < nversions; v++)
		for (size_t n = 1; n <= 64; n++)
		{
			CHECK(versions[v]->l2_f32(a, b, n) == INFINITY, "%s", versions[v]->name);
			CHECK(versions[v]->ip_f32(a, b, n) == -INFINITY, "%s", versions[v]->name);
			CHECK(versions[v]->l1_f32(a, b, n) == INFINITY, "%s", versions[v]->name);
		}
}

/* Planes of random numbers, or all one number, for codes of blocks of 4, 2 and 1 bits. */
static void
fill_planes(GrnCodePlanes *q, uint32_t end4, uint32_t end2, uint32_t bytes, int number)
{
	memset(q, 0, sizeof(*q));
	q->bytes = bytes;
	q->end4 = end4;
	q->end2 = end2;
	for (uint32_t i = 0; i < bytes; i++)
	{
		int			bits = i < end4 ? 4 : i < end2 ? 2 : 1;

		q->mask[i] = (uint8_t) ((1 << bits) - 1);
		for (int s = 0; s < 8; s += bits)
			q->plane[s][i] = number ? (int8_t) number : (int8_t) unit_random();
	}
}

static void
code_dots_are_equal(void)
{
	for (int round = 0; round < 500; round++)
	{
		GrnCodePlanes q;
		uint32_t	bytes = 4 * (1 + unit_below(GRN_MAX_CODE_BYTES / 4));
		uint32_t	end2 = 2 * unit_below(bytes / 2 + 1);
		uint32_t	end4 = unit_below(3) == 0 ? end2 : unit_below(end2 + 1);
		uint32_t	count = unit_below(round % 10 ? 40 : 100);
		int			extreme = round % 3;
		uint8_t    *codes = unit_guarded(count * bytes);
		int32_t    *out = unit_guarded(4 * count);

		if (round % 5 == 0)
			end4 = end2 = bytes;
		fill_planes(&q, end4, end2, bytes, extreme == 1 ? -128 : extreme == 2 ? 127 : 0);
		for (size_t i = 0; i < count * bytes; i++)
			codes[i] = extreme ? 0xFF : (uint8_t) unit_random();
		for (int v = 0; v < nversions; v++)
		{
			memset(out, 0x55, 4 * count);
			versions[v]->dot(&q, codes, count, out);
			for (uint32_t c = 0; c < count; c++)
			{
				int32_t		want = 0;

				for (uint32_t i = 0; i < bytes; i++)
				{
					int			bits = i < end4 ? 4 : i < end2 ? 2 : 1;

					for (int s = 0; s < 8; s += bits)
						want += q.plane[s][i] * (codes[c * bytes + i] >> s & ((1 << bits) - 1));
				}
				CHECK(out[c] == want, "%s %u, %u, %u bytes, code %u of %u: %d for %d",
					  versions[v]->name, end4, end2, bytes, c, count, out[c], want);
			}
		}
		unit_guarded_free(codes, count * bytes);
		unit_guarded_free(out, 4 * count);
	}
}

/* Lengths of all sizes with the same precision, alphas to the nearest integer, and what is none. */
static void
factors_round_trip(void)
{
	for (int exponent = -60; exponent <= 63; exponent++)
		for (int i = 0; i < 50; i++)
		{
			float		length = ldexpf(1 + unit_uniform(), exponent);
			float		alpha = unit_uniform() * GRN_MAX_ALPHA;
			GrnFactor	f = grn_factor(length, alpha);

			CHECK(fabs(grn_factor_length(f) / length - 1) < 1.0 / 4095, "%g: %g", length,
				  grn_factor_length(f));
			CHECK(fabs(grn_factor_alpha(f) - alpha) <= 0.5, "%g: %u", alpha, grn_factor_alpha(f));
			CHECK(grn_factor(grn_factor_length(f), (float) grn_factor_alpha(f)).bits == f.bits,
				  "%g", length);
		}
	CHECK(grn_factor_length(grn_factor(1, 0)) == 1, "one");
	CHECK(grn_factor(0, 0).bits == 0 && grn_factor(0, -1).bits == 0, "nothing");
	CHECK(grn_factor_length((GrnFactor) {0}) == 0, "nothing");
	CHECK(grn_factor_alpha(grn_factor(1, NAN)) == 0, "no alpha");
	CHECK(grn_factor_alpha(grn_factor(1, INFINITY)) == GRN_MAX_ALPHA, "most");
	for (int i = 0; i < 3; i++)
	{
		float		length = grn_factor_length(grn_factor(i == 0 ? NAN : i == 1 ? INFINITY : 3e38f, 0));

		CHECK(isfinite(length) && length > 1.8e19f, "%g", length);
	}
}

/* Also: an estimate is the same bits wherever it stands among the count. */
static void
estimates_agree(void)
{
	enum
	{
		N = 100
	};
	static const GrnEstimate forms[] = {
		{50, 3.5f * GRN_LENGTH_ONE, 1, 0, 0.01f, 7.5f * 91},
		{0, 0.5f * GRN_LENGTH_ONE, 0, -4, 0.01f, 7.5f * 91}
	};

	for (uint32_t count = 0; count <= N; count++)
	{
		int32_t    *dot = unit_guarded(4 * count);
		GrnFactor  *factors = unit_guarded(sizeof(GrnFactor) * count);
		float	   *out = unit_guarded(4 * count);

		for (uint32_t i = 0; i < count; i++)
		{
			dot[i] = (int32_t) unit_below(400000) - 200000;
			factors[i] = grn_factor(i % 3 ? 5 * unit_uniform() : 0,
									(float) unit_below(i % 5 ? GRN_MAX_ALPHA + 1 : 3));
		}
		for (int v = 0; v < 2 * nversions; v++)
		{
			const GrnDistTable *version = versions[v / 2];
			const GrnEstimate *e = &forms[v % 2];

			version->estimate(e, dot, factors, count, out);
			for (uint32_t i = 0; i < count; i++)
			{
				double		l = e->unit / GRN_LENGTH_ONE * grn_factor_length(factors[i]);
				double		part = 0.01 * grn_factor_alpha(factors[i]) * (dot[i] - 7.5 * 91);
				float		alone;

				CHECK(close_to(out[i], e->base + l * (e->square * l + e->lead - part),
							   50 + l * l + l * (fabs(part) + 4)), "%s", version->name);
				version->estimate(e, dot + i, factors + i, 1, &alone);
				CHECK(memcmp(&alone, &out[i], 4) == 0, "%s %u of %u: %a alone %a",
					  version->name, i, count, out[i], alone);
			}
		}
		unit_guarded_free(dot, 4 * count);
		unit_guarded_free(factors, sizeof(GrnFactor) * count);
		unit_guarded_free(out, 4 * count);
	}
}

static void
bounds_agree(void)
{
	enum
	{
		N = 70
	};

	for (uint32_t n = 0; n <= N; n++)
	{
		float	   *x = unit_guarded(4 * n);
		uint32_t   *want = unit_guarded(4 * n);
		uint32_t   *got = unit_guarded(4 * n);

		for (uint32_t round = 0; round < 4; round++)
		{
			float		most = round == 3 ? NAN : (float) unit_below(4) / 4;
			uint32_t	expected = 0;

			for (uint32_t i = 0; i < n; i++)
			{
				/* whole quarters, so some are equal to the bound */
				x[i] = unit_below(16) == 0 ? NAN : (float) unit_below(round == 0 ? 5 : 80) / 4;
				if (x[i] <= most)
					want[expected++] = i;
			}
			for (int v = 0; v < nversions; v++)
			{
				uint32_t	found = versions[v]->at_most(x, n, most, got);

				CHECK(found == expected && memcmp(got, want, 4 * (size_t) found) == 0,
					  "%s: %u of %u, not %u", versions[v]->name, found, n, expected);
			}
		}
		unit_guarded_free(x, 4 * n);
		unit_guarded_free(want, 4 * n);
		unit_guarded_free(got, 4 * n);
	}
}

/* Also: element (i, j) has the same bits whatever the other rows are. */
static void
blocks_agree(void)
{
	for (size_t n = 0; n <= MAX_N; n++)
	{
		size_t		ld = n + n % 3;
		float	   *a = unit_guarded(4 * (3 * ld + n));
		float	   *b = unit_guarded(4 * (3 * ld + n));

		for (size_t i = 0; i < 3 * ld + n; i++)
		{
			a[i] = unit_normal();
			b[i] = unit_normal();
		}
		for (int v = 0; v < nversions; v++)
		{
			float		out[16],
						alone[16];

			versions[v]->ip_4x4(a, ld, b, ld, n, out);
			for (size_t i = 0; i < 4; i++)
				for (size_t j = 0; j < 4; j++)
				{
					double		want = 0,
								size = 0;

					for (size_t k = 0; k < n; k++)
					{
						want += (double) a[i * ld + k] * b[j * ld + k];
						size += fabs((double) a[i * ld + k] * b[j * ld + k]);
					}
					CHECK(close_to(out[4 * i + j], want, size), "%s n %zu",
						  versions[v]->name, n);
					versions[v]->ip_4x4(a + i * ld, 0, b + j * ld, 0, n, alone);
					CHECK(memcmp(&alone[0], &out[4 * i + j], 4) == 0, "%s n %zu",
						  versions[v]->name, n);
				}
		}
		unit_guarded_free(a, 4 * (3 * ld + n));
		unit_guarded_free(b, 4 * (3 * ld + n));
	}
}

/* Rows of every number, some in blocks and some left over. */
static void
rows_are_right(void)
{
	const size_t lengths[] = {1, 7, 8, 16, 31, 96, 129, 256};

	for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++)
	{
		size_t		n = lengths[l];
		size_t		ld = n + 3;
		float	   *a = unit_guarded(4 * n);
		float	   *b = unit_guarded(4 * (16 * ld + n));

		for (size_t i = 0; i < n; i++)
			a[i] = unit_normal();
		for (size_t i = 0; i < 16 * ld + n; i++)
			b[i] = unit_normal();
		for (int v = 0; v < nversions; v++)
			for (uint32_t rows = 1; rows <= 17; rows++)
			{
				float		out[18];

				for (uint32_t j = 0; j < 18; j++)
					out[j] = (float) j;
				/* the last rows: nothing may be read past them */
				versions[v]->ip_rows(a, b + (17 - rows) * ld, ld, n, rows, out);
				for (uint32_t j = 0; j < rows; j++)
				{
					double		want = j,
								size = j;

					for (size_t k = 0; k < n; k++)
					{
						double		product = (double) a[k] * b[(17 - rows + j) * ld + k];

						want += product;
						size += fabs(product);
					}
					CHECK(close_to(out[j], want, size), "%s n %zu rows %u",
						  versions[v]->name, n, rows);
				}
				CHECK(out[rows] == (float) rows, "%s wrote past %u rows", versions[v]->name, rows);
			}
		unit_guarded_free(a, 4 * n);
		unit_guarded_free(b, 4 * (16 * ld + n));
	}
}

static void
scaled_sums_are_right(void)
{
	for (size_t n = 1; n <= 70; n++)
	{
		float	   *x = unit_guarded(4 * n);
		float	   *y = unit_guarded(4 * n);

		for (int v = 0; v < nversions; v++)
		{
			float		a = unit_normal();
			float		before[70];

			for (size_t i = 0; i < n; i++)
			{
				x[i] = unit_normal();
				y[i] = before[i] = unit_normal();
			}
			versions[v]->add_scaled(y, a, x, n);
			for (size_t i = 0; i < n; i++)
				CHECK(close_to(y[i], (double) a * x[i] + before[i], fabs(a * x[i]) + fabs(before[i])),
					  "%s n %zu", versions[v]->name, n);
		}
		unit_guarded_free(x, 4 * n);
		unit_guarded_free(y, 4 * n);
	}
}

static void
levels_are_right(void)
{
	for (size_t n = 16; n <= 256; n += 16)
	{
		float	   *u = unit_guarded(4 * n);

		for (size_t i = 0; i < n; i++)
			u[i] = floorf(8 * unit_normal()) / 4 + 0.0625f; /* far from where levels change */
		u[3] = 1e30f;
		u[4] = -1e30f;
		for (int v = 0; v < 3 * nversions; v++)
			for (float inverse = 0.5f; inverse <= 4; inverse *= 2)
			{
				float		top = v % 3 == 0 ? 15 : v % 3 == 1 ? 3 : 1;
				double		uc = 0,
							cc = 0,
							size = 0;
				float		got_uc,
							got_cc;

				for (size_t i = 0; i < n; i++)
				{
					double		level = floor((double) u[i] * inverse + (top + 1) / 2);
					double		c = (level < 0 ? 0 : level > top ? top : level) - top / 2;

					uc += u[i] * c;
					cc += c * c;
					size += fabs(u[i] * c);
				}
				versions[v / 3]->levels(u, n, inverse, top, &got_uc, &got_cc);
				CHECK(close_to(got_uc, uc, size) && close_to(got_cc, cc, cc), "%s n %zu: %g %g for %g %g",
					  versions[v / 3]->name, n, got_uc, got_cc, uc, cc);
			}
		/* NaN is level 0 */
		for (size_t i = 0; i < n; i++)
			u[i] = NAN;
		for (int v = 0; v < nversions; v++)
		{
			float		uc,
						cc;

			versions[v]->levels(u, n, 1, 15, &uc, &cc);
			CHECK(cc == 56.25f * (float) n, "%s %g", versions[v]->name, cc);
		}
		unit_guarded_free(u, 4 * n);
	}
}

/* The value of a binary16 by its definition. */
static double
half_value(uint16_t h)
{
	int			exponent = (h >> 10) & 31;
	double		fraction = h & 1023;
	double		m = exponent == 0 ? ldexp(fraction, -24)
		: ldexp(1024 + fraction, exponent - 25);

	return h & 0x8000 ? -m : m;
}

static void
half_precision_is_exact(void)
{
	for (uint32_t h = 0; h < 65536; h++)
	{
		uint16_t	half[9];
		float		f[9];

		for (int i = 0; i < 9; i++)
			half[i] = (uint16_t) h;
		for (int v = 0; v < nversions; v++)
		{
			uint16_t	back[9];

			versions[v]->f16_load(half, 9, f);
			if ((h & 0x7C00) == 0x7C00)
			{
				CHECK(h & 0x3FF ? isnan(f[0]) && isnan(f[8]) : isinf(f[0]) && isinf(f[8]),
					  "%s %04x", versions[v]->name, h);
				continue;
			}
			CHECK((double) f[0] == half_value((uint16_t) h) && f[0] == f[8],
				  "%s %04x", versions[v]->name, h);
			versions[v]->f16_store(f, 9, back);
			CHECK(back[0] == h && back[8] == h, "%s %04x", versions[v]->name, h);
		}
	}
}

/* Nearest of 0..255, in every version, at each position of a vector and its rest. */
static void
bytes_round(void)
{
	for (int round = 0; round < 20000; round++)
	{
		float		x[9];

		for (int i = 0; i < 9; i++)
		{
			x[i] = (float) (int) unit_below(262) - 3 + 0.5f * (float) unit_below(2);
			if (unit_below(3) == 0)
				x[i] = nextafterf(x[i], unit_below(2) ? -INFINITY : INFINITY);
		}
		for (int v = 0; v < nversions; v++)
		{
			uint8_t		bytes[9];

			versions[v]->u8_store(x, 9, bytes);
			for (int i = 0; i < 9; i++)
			{
				double		off = fabs((double) bytes[i] - x[i]);

				CHECK(off <= 0.50001 || (bytes[i] == 0 && x[i] < 0) || (bytes[i] == 255 && x[i] > 255),
					  "%s %a: %d", versions[v]->name, x[i], bytes[i]);
			}
		}
	}
}

/* Nearest value, to even when two are as near; 65504 where all are too small. */
static void
half_precision_rounds(void)
{
	for (int round = 0; round < 200000; round++)
	{
		float		x[9];
		uint16_t	first = 0;

		/* random floats, and those halfway between two halves and next to it */
		if (round % 2 == 0)
			x[0] = unit_normal() * powf(10, 14 * unit_uniform() - 9);
		else
		{
			uint16_t	h = (uint16_t) unit_below(0x7BFF);

			x[0] = (float) ((half_value(h) + half_value(h + 1)) / 2);
			if (round % 3 > 0)
				x[0] = nextafterf(x[0], round % 3 == 1 ? -INFINITY : INFINITY);
		}
		for (int i = 1; i < 9; i++)
			x[i] = x[0];
		for (int v = 0; v < nversions; v++)
		{
			uint16_t	h[9];
			double		off;

			versions[v]->f16_store(x, 9, h);
			CHECK(h[0] == h[8], "%s %a", versions[v]->name, x[0]);
			if (v == 0)
				first = h[0];
			CHECK(h[0] == first, "%s %a: %04x for %04x", versions[v]->name, x[0], h[0], first);
			off = fabs(half_value(h[0]) - x[0]);
			if (fabsf(x[0]) >= 65504)
				CHECK((h[0] & 0x7FFF) == 0x7BFF, "%a", x[0]);
			else
				for (int step = -1; step <= 1; step += 2)
				{
					uint16_t	next = (uint16_t) (h[0] + step);
					double		o;

					if ((h[0] & 0x7FFF) == 0 && step < 0)
						continue;
					o = fabs(half_value(next) - x[0]);
					CHECK((next & 0x7C00) == 0x7C00 || off < o ||
						  (off == o && (h[0] & 1) == 0), "%a", x[0]);
				}
		}
	}
}

int
main(void)
{
	grn_dist_init();
	nversions = grn_dist_versions(versions, MAX_VERSIONS);
	printf("# versions:");
	for (int v = 0; v < nversions; v++)
		printf(" %s", versions[v]->name);
	printf("; chosen: %s\n", grn_dist->name);
	RUN(f32_versions_agree);
	RUN(stored_versions_agree);
	RUN(long_vectors_agree);
	RUN(overflow_is_infinite);
	RUN(code_dots_are_equal);
	RUN(factors_round_trip);
	RUN(estimates_agree);
	RUN(bounds_agree);
	RUN(blocks_agree);
	RUN(rows_are_right);
	RUN(scaled_sums_are_right);
	RUN(levels_are_right);
	RUN(half_precision_is_exact);
	RUN(half_precision_rounds);
	RUN(bytes_round);
	UNIT_END();
}
