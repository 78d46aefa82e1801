/*
 * test_form.c - forms of stored vectors: which holds a vector, and what rounding moves it by.
 */
#include "space/form.h"
#include "unit.h"

#define TOLERANCE 1e-5

static bool
close_to(double got, double want, double size)
{
	return fabs(got - want) <= TOLERANCE * size + 1e-44;
}

static void
smallest_format_is_lossless(void)
{
	static const struct
	{
		float		value;
		GrnForm		format;
	}			cases[] = {
		{0, GRN_FORM_U8}, {255, GRN_FORM_U8}, {256, GRN_FORM_F16}, {-1, GRN_FORM_F16},
		{0.5f, GRN_FORM_F16}, {2049, GRN_FORM_F32}, {65504, GRN_FORM_F16},
		{65520, GRN_FORM_F32}, {1e30f, GRN_FORM_F32}, {0.1f, GRN_FORM_F32},
		{5.9604645e-8f, GRN_FORM_F16}, {1e-40f, GRN_FORM_F32}, {-3e38f, GRN_FORM_F32}
	};

	for (size_t n = 1; n <= 200; n += 13)
		for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++)
			for (size_t at = 0; at < n; at += 5)
			{
				float	   *x = unit_guarded(4 * n);
				float	   *y = malloc(4 * n);
				uint8_t    *stored = unit_guarded(4 * n);
				GrnForm		f;

				for (size_t i = 0; i < n; i++)
					x[i] = (float) unit_below(256);
				x[at] = cases[c].value;
				f = grn_form_smallest(x, n);
				CHECK(f == cases[c].format, "%g: %d", cases[c].value, (int) f);
				grn_form_store(f, x, n, stored + 4 * n - grn_form_bytes(f, n));
				grn_form_load(f, stored + 4 * n - grn_form_bytes(f, n), n, y);
				CHECK(memcmp(x, y, 4 * n) == 0, "%g", cases[c].value);
				unit_guarded_free(x, 4 * n);
				unit_guarded_free(stored, 4 * n);
				free(y);
			}
}

static void
u8_store_rounds_and_saturates(void)
{
	float		x[] = {-5, 0.4f, 0.6f, 254.4f, 254.6f, 300, 1e30f};
	uint8_t		want[] = {0, 0, 1, 254, 255, 255, 255};
	uint8_t		got[7];

	grn_dist->u8_store(x, 7, got);
	CHECK(memcmp(got, want, 7) == 0, "%d %d %d", got[2], got[3], got[4]);
}

/*
 * Rows that a form cannot hold exactly get a scale of their own: what rounding moves
 * them by is in proportion to their range (bytes) or length (binary16), wherever it lies.
 */
static void
rows_that_do_not_fit_are_rounded_by_their_range(void)
{
	static const float scales[] = {1e-35f, 1e-7f, 0.01f, 1, 250, 1e5f, 1e18f};
	static const float middles[] = {0, -0.5f, 1, 30, -100, 5000};
	enum
	{
		N = 131
	};

	for (int format = GRN_FORM_F16; format <= GRN_FORM_U8; format++)
		for (size_t c = 0; c < sizeof(scales) / sizeof(scales[0]); c++)
			for (size_t p = 0; p < sizeof(middles) / sizeof(middles[0]); p++)
			{
				GrnForm		f = (GrnForm) format;
				size_t		bytes = grn_form_bytes(f, N);
				float		x[N],
							q[N],
							back[N];
				uint8_t    *stored = unit_guarded(bytes);
				double		most = 0,
							step,
							l2 = 0,
							ip = 0,
							l1 = 0,
							size = 0;

				for (size_t i = 0; i < N; i++)
				{
					x[i] = (((float) unit_below(1000003) / 1000003) + middles[p]) * scales[c];
					q[i] = (((float) unit_below(1000003) / 1000003) + middles[p]) * scales[c];
					most = fmax(most, fabs(x[i]));
				}
				CHECK(!grn_form_store(f, x, N, stored), "%g %g", scales[c], middles[p]);
				grn_form_load(f, stored, N, back);
				step = f == GRN_FORM_F16 ? most / 1024 : fmax(scales[c] / 250, most / 31000);
				for (size_t i = 0; i < N; i++)
				{
					CHECK(fabs((double) back[i] - x[i]) <= step * 0.51 + 1e-36,
						  "format %d: %g for %g", format, back[i], x[i]);
					l2 += pow((double) q[i] - back[i], 2);
					ip += (double) q[i] * back[i];
					l1 += fabs((double) q[i] - back[i]);
					size += fabs((double) q[i] * back[i]);
				}
				if (scales[c] > 1e-18f && scales[c] * (1 + fabsf(middles[p])) < 1e18f)
				{
					CHECK(close_to(grn_form_l2(f, q, stored, N), l2, l2), "%d %g %g", format, scales[c], middles[p]);
					CHECK(close_to(grn_form_ip(f, q, stored, N), ip, size), "%d %g %g", format, scales[c], middles[p]);
					CHECK(close_to(grn_form_l1(f, q, stored, N), l1, l1), "%d %g %g", format, scales[c], middles[p]);
				}
				unit_guarded_free(stored, bytes);
			}
}

/* Integers may lie elsewhere than from 0 to 255. */
static void
integers_of_any_size_fit_bytes(void)
{
	static const int middles[] = {-32000, -255, -128, -1, 0, 1, 1000, 31000};

	for (size_t p = 0; p < sizeof(middles) / sizeof(middles[0]); p++)
	{
		float		x[70],
					back[70];
		uint8_t		stored[sizeof(GrnByteHead) + 70];

		for (int i = 0; i < 70; i++)
			x[i] = (float) (middles[p] + (i == 0 ? 0 : i == 69 ? 255 : (int) unit_below(256)));
		CHECK(grn_form_store(GRN_FORM_U8, x, 70, stored), "%d", middles[p]);
		grn_form_load(GRN_FORM_U8, stored, 70, back);
		CHECK(memcmp(x, back, sizeof(x)) == 0, "%d", middles[p]);
	}
}

int
main(void)
{
	grn_dist_init();
	RUN(smallest_format_is_lossless);
	RUN(u8_store_rounds_and_saturates);
	RUN(rows_that_do_not_fit_are_rounded_by_their_range);
	RUN(integers_of_any_size_fit_bytes);
	UNIT_END();
}
