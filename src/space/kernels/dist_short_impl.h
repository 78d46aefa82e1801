/*
 * dist_short_impl.h - the kernels that convert short forms, and for pairs of rows in short forms.
 *
 * dist_avx2.c and dist_neon.c include this file behind dist_wide_impl.h, with
 *   STORE_F16(out, x), STORE_U8(out, x)  store W floats in a short form, rounded or truncated
 *   W_BYTES(x), SHIFT_RIGHT(x, s)  W bytes as 32-bit integers; integers shifted right by s
 * AVX-512 gains nothing here, because the conversions take most of the time.
 */
WIDE void
SHORT_KERNEL(f16_store) (const float *x, size_t n, void *out)
{
	uint8_t    *o = out;
	size_t		i = 0;

	/* With the vector as the second operand min and max return a NaN unchanged. */
	for (; i + W <= n; i += W)
		STORE_F16(o + 2 * i, V(max_ps) (V(set1_ps) (-65504.0f),
										V(min_ps) (V(set1_ps) (65504.0f), V(loadu_ps) (x + i))));
	grn_dist_plain.f16_store(x + i, n - i, o + 2 * i);
}

WIDE void
SHORT_KERNEL(f16_load) (const void *x, size_t n, float *out)
{
	const uint8_t *h = x;
	size_t		i = 0;

	for (; i + W <= n; i += W)
		V(storeu_ps) (out + i, LOAD_F16(h + 2 * i, ALL));
	grn_dist_plain.f16_load(h + 2 * i, n - i, out + i);
}

WIDE void
SHORT_KERNEL(u8_store) (const float *x, size_t n, void *out)
{
	uint8_t    *o = out;
	size_t		i = 0;

	for (; i + W <= n; i += W)
	{
		FLOATS		v = V(max_ps) (V(loadu_ps) (x + i), V(setzero_ps) ());

		STORE_U8(o + i, V(add_ps) (V(min_ps) (v, V(set1_ps) (255)), V(set1_ps) (0.5f)));
	}
	grn_dist_plain.u8_store(x + i, n - i, o + i);
}

WIDE void
SHORT_KERNEL(unpack) (const uint8_t *code, size_t n, uint32_t bits, float middle, float step, float *out)
{
	const		INTS top = V(set1_epi32) ((1 << bits) - 1);

	if (n < W)
		grn_dist_plain.unpack(code, n, bits, middle, step, out);
	for (size_t i = 0; i < n && n >= W; i += W)
	{
		/* The last vector overlaps the one before. */
		size_t		at = i + W <= n ? i : n - W;
		INTS		bytes = W_BYTES(code + at);
		float	   *to = out + at;

		for (uint32_t s = 0; s < 8; s += bits, to += n)
		{
			FLOATS		level = V(cvtepi32_ps) (AND(SHIFT_RIGHT(bytes, s), top));

			V(storeu_ps) (to, V(mul_ps) (V(set1_ps) (step), V(sub_ps) (level, V(set1_ps) (middle))));
		}
	}
}

/* ---- pairs of rows ---- */

static inline float
one_f16(const uint8_t *x)
{
	uint16_t	h;

	memcpy(&h, x, sizeof(h));
	return grn_f16_to_f32(h);
}

#define ONE_U8(x) ((float) *(x))
#define LOAD_MOVED(x, which) V(add_ps) (LOAD_U8(x, which), V(set1_ps) (offset))
#define MOVED , float offset

/* Returns sum + (a - r b)^2. */
static inline WIDE FLOATS
SHORT_KERNEL(add_square) (FLOATS sum, FLOATS a, FLOATS r, FLOATS b)
{
	FLOATS		d = V(fnmadd_ps) (r, b, a);

	return V(fmadd_ps) (d, d, sum);
}

/* Two accumulators are enough, because the conversions take more time than the additions. */
#define PAIR(name, type, width, MORE, LOAD_A, LOAD, ONE, OFFSET) \
WIDE float \
SHORT_KERNEL(name) (const type *av, const type *bv, float ratio MORE, size_t n) \
{ \
	const uint8_t *a = (const uint8_t *) av; \
	const uint8_t *b = (const uint8_t *) bv; \
	const FLOATS r = V(set1_ps)(ratio); \
	FLOATS		s0 = V(setzero_ps)(), \
				s1 = s0; \
	float		rest = 0; \
	size_t		i = 0; \
 \
	for (; i + 2 * W <= n; i += 2 * W) \
	{ \
		s0 = SHORT_KERNEL(add_square)(s0, LOAD_A(a + (width) * i, ALL), r, LOAD(b + (width) * i, ALL)); \
		s1 = SHORT_KERNEL(add_square)(s1, LOAD_A(a + (width) * (i + W), ALL), r, LOAD(b + (width) * (i + W), ALL)); \
	} \
	for (; i + W <= n; i += W) \
		s0 = SHORT_KERNEL(add_square)(s0, LOAD_A(a + (width) * i, ALL), r, LOAD(b + (width) * i, ALL)); \
	for (; i < n; i++) \
	{ \
		float		d = (ONE(a + (width) * i) + (OFFSET)) - ratio * ONE(b + (width) * i); \
 \
		rest += d * d; \
	} \
	return SUM(V(add_ps)(s0, s1)) + rest; \
}

PAIR(pair_l2_f16, void, 2, NOTHING, LOAD_F16, LOAD_F16, one_f16, 0)
PAIR(pair_l2_u8, uint8_t, 1, MOVED, LOAD_MOVED, LOAD_U8, ONE_U8, offset)
