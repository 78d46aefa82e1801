/*
 * test_rows.c - rows of builds in every form that they come in: their places and distances,
 * by each version of the kernels, against sums in double.
 */
#include "space/kernels/dist.h"
#include "space/rows.h"
#include "unit.h"

#define MAX_N 200
#define NROWS 6
#define MAX_VERSIONS 8
#define TOLERANCE 1e-5

static const GrnForm row_forms[] = {GRN_FORM_F32, GRN_FORM_F16, GRN_FORM_U8};

/*
 * Rows of numbers that binary16 holds, or of such numbers rounded to bytes; row 1 is row 0, row 2
 * is zero, row 3 is twice row 0.
 */
static GrnRows
make_rows(GrnForm form, GrnEmbedding embedding, bool normalized, uint32_t n)
{
	GrnRows		rows = {.n = NROWS, .row_bytes = grn_row_bytes(form, embedding, n), .dim = n,
		.embedding = embedding, .form = form};
	uint8_t    *base = unit_guarded(NROWS * rows.row_bytes);
	float		x[MAX_N];

	rows.base = base;
	for (uint32_t i = 0; i < NROWS; i++)
	{
		uint8_t    *row = base + i * rows.row_bytes;
		GrnScale	s;

		for (uint32_t j = 0; j < n && i != 1; j++)
			x[j] = i == 2 ? 0 : i == 3 ? 2 * x[j] : grn_f16_to_f32(grn_f32_to_f16(unit_normal() * (i > 4 ? 100 : 1)));
		if (i == 2)
			CHECK(grn_form_store(form, x, n, row), "zero");
		else if (form == GRN_FORM_U8)
		{
			grn_form_store(form, x, n, row);
			grn_form_load(form, row, n, x);
		}
		else
		{
			void	   *numbers = grn_form_begin(form, row);

			if (form == GRN_FORM_F32)
				memcpy(numbers, x, 4 * n);
			else
				grn_dist->f16_store(x, n, numbers);
			CHECK(!normalized || n == 0 || grn_form_normalize(form, row, n), "row %u", i);
		}
		/* the next row is made of this one */
		if (i == 2)
			grn_form_load(form, base, n, x);
		s = grn_scale(grn_norm2(x, n), 1, GRN_USUAL_POWER);
		if (i == 2)
			s = grn_scale(0, 1, GRN_USUAL_POWER);
		if (embedding == GRN_EMBED_SCALED)
			memcpy(row + grn_row_scale_offset(&rows), &s, sizeof(s));
	}
	return rows;
}

static void
free_rows(GrnRows *rows)
{
	unit_guarded_free((void *) rows->base, NROWS * rows->row_bytes);
}

static double
distance(const double *x, const double *y, uint32_t n)
{
	double		sum = 0;

	for (uint32_t j = 0; j < n; j++)
		sum += (x[j] - y[j]) * (x[j] - y[j]);
	return sum;
}

/* Distances of all pairs, and to a point. */
static void
check_distances(const GrnRows *rows, const char *version)
{
	static double places[NROWS][MAX_N];
	double		sizes[NROWS];
	float		point[MAX_N];
	double		point_place[MAX_N];
	float		place[MAX_N];
	float		values[MAX_N];
	double		point2 = 0;
	uint32_t	n = rows->dim;

	for (uint32_t i = 0; i < NROWS; i++)
	{
		const void *row = grn_row(rows, i);
		const float *x = grn_row_values(rows, row, values);
		float		scale = rows->embedding == GRN_EMBED_SCALED ? grn_row_scale(rows, row).scale : 1;

		/* in two pieces, one of which may be empty */
		grn_row_place(rows, row, 0, n / 3, place);
		grn_row_place(rows, row, n / 3, n - n / 3, place + n / 3);
		sizes[i] = 0;
		for (uint32_t j = 0; j < n; j++)
		{
			CHECK(place[j] == scale * x[j], "%s n %u row %u", version, n, i);
			places[i][j] = (double) scale * x[j];
			sizes[i] += places[i][j] * places[i][j];
		}
	}
	for (uint32_t j = 0; j < n; j++)
	{
		point[j] = unit_normal();
		point_place[j] = point[j];
		point2 += point_place[j] * point_place[j];
	}
	for (uint32_t i = 0; i < NROWS; i++)
	{
		double		to = distance(places[i], point_place, n);

		CHECK(fabs(grn_row_to_point(rows, grn_row(rows, i), point, (float) point2) - to) <=
			  TOLERANCE * (sizes[i] + point2), "%s n %u row %u: %g", version, n, i, to);
		for (uint32_t k = 0; k < NROWS; k++)
		{
			double		want = distance(places[i], places[k], n);
			float		got = grn_row_distance(rows, grn_row(rows, i), grn_row(rows, k));

			CHECK(fabs(got - want) <= TOLERANCE * (want + 1e-1 * (sizes[i] + sizes[k])),
				  "%s n %u rows %u %u: %g for %g", version, n, i, k, got, want);
			CHECK(got == grn_row_distance(rows, grn_row(rows, k), grn_row(rows, i)), "%s n %u: one way", version, n);
			CHECK(i != k || got == 0, "%s n %u: %g from itself", version, n, got);
			CHECK(got >= 0, "%g", got);
		}
	}
}

static void
distances_agree(void)
{
	const GrnDistTable *versions[MAX_VERSIONS];
	int			nversions = grn_dist_versions(versions, MAX_VERSIONS);

	for (int v = 0; v < nversions; v++)
		for (uint32_t n = 1; n <= MAX_N; n += n < 70 ? 1 : 13)
			for (size_t f = 0; f < sizeof(row_forms) / sizeof(*row_forms); f++)
				for (int kind = 0; kind < (row_forms[f] == GRN_FORM_U8 ? 2 : 3); kind++)
				{
					GrnRows		rows = make_rows(row_forms[f], kind == 1 ? GRN_EMBED_SCALED : GRN_EMBED_ROW,
												 kind == 2, n);

					grn_dist = versions[v];
					grn_pairs = grn_pairs_of(grn_dist);
					check_distances(&rows, versions[v]->name);
					free_rows(&rows);
				}
	grn_dist = versions[nversions - 1];
	grn_pairs = grn_pairs_of(grn_dist);
}

/* Halves keep their bytes when they are normalized, and come out with length 1. */
static void
halves_are_kept(void)
{
	for (uint32_t n = 1; n <= MAX_N; n++)
	{
		GrnRows		plain = make_rows(GRN_FORM_F16, GRN_EMBED_ROW, false, n);
		uint8_t    *row = (uint8_t *) plain.base;
		size_t		bytes = grn_form_bytes(GRN_FORM_F16, n);
		uint8_t    *before = malloc(bytes);
		float		x[MAX_N];
		double		norm2;

		memcpy(before, row, bytes);
		CHECK(grn_form_normalize(GRN_FORM_F16, row, n), "n %u", n);
		CHECK(memcmp(before + 4, row + 4, bytes - 4) == 0, "n %u", n);
		grn_form_load(GRN_FORM_F16, row, n, x);
		norm2 = grn_norm2(x, n);
		CHECK(fabs(norm2 - 1) < 1e-6, "n %u: %g", n, norm2);
		CHECK(fabs(grn_form_norm2(GRN_FORM_F16, row, n) - 1) < 1e-5, "n %u", n);
		CHECK(!grn_form_normalize(GRN_FORM_F16, row + 2 * plain.row_bytes, n), "zero, n %u", n);
		free(before);
		free_rows(&plain);
	}
}

/* Bits stand in a byte from its highest on; their distance is how many differ. */
static void
bits_are_counted(void)
{
	const GrnDistTable *versions[MAX_VERSIONS];
	int			nversions = grn_dist_versions(versions, MAX_VERSIONS);
	uint8_t		first;
	float		one[8] = {1, 0, 0, 0, 0, 0, 1, 0};

	CHECK(grn_form_store(GRN_FORM_BITS, one, 8, &first) && first == 0x82, "%x", first);
	for (uint32_t n = 1; n <= 1100; n += n < 300 ? 1 : 29)
	{
		size_t		bytes = grn_form_bytes(GRN_FORM_BITS, n);
		uint8_t    *a = unit_guarded(bytes);
		uint8_t    *b = unit_guarded(bytes);
		GrnRows		rows = {.base = a, .n = 1, .row_bytes = bytes, .dim = n,
			.embedding = GRN_EMBED_ROW, .form = GRN_FORM_BITS};
		float		x[1100];
		float		y[1100];
		float		back[1100];
		uint32_t	want = 0;
		uint32_t	scaled = 0;
		uint32_t	both = 0;
		double		jaccard;

		CHECK(bytes == (n + 7) / 8, "%zu", bytes);
		for (uint32_t j = 0; j < n; j++)
		{
			x[j] = (float) unit_below(2);
			y[j] = (float) unit_below(2);
			want += x[j] != y[j];
			both += x[j] == 1 && y[j] == 1;
			scaled += (uint32_t) ((2 * x[j] - y[j]) * (2 * x[j] - y[j]));
		}
		jaccard = both + want > 0 ? 1 - both / (double) (both + want) : 1;
		CHECK(grn_form_store(GRN_FORM_BITS, x, n, a) && grn_form_store(GRN_FORM_BITS, y, n, b), "n %u", n);
		grn_form_load(GRN_FORM_BITS, a, n, back);
		CHECK(memcmp(x, back, n * sizeof(float)) == 0, "n %u", n);
		for (int v = 0; v < nversions; v++)
		{
			grn_dist = versions[v];
			grn_pairs = grn_pairs_of(grn_dist);
			CHECK(grn_pairs->differ(a, b, bytes) == want, "%s n %u", versions[v]->name, n);
			CHECK(grn_pairs->common(a, b, bytes) == both, "%s n %u", versions[v]->name, n);
			CHECK(grn_query_compare(GRN_COMPARE_JACCARD, GRN_FORM_BITS, a, b, n) == (float) jaccard &&
				  grn_compare(GRN_COMPARE_JACCARD, GRN_FORM_BITS, x, b, n) == (float) jaccard &&
				  grn_compare(GRN_COMPARE_JACCARD, GRN_FORM_F32, x, y, n) == (float) jaccard,
				  "%s n %u", versions[v]->name, n);
			CHECK(grn_metric(GRN_JACCARD)->bound(&(GrnBound) {.compared = (float) jaccard}) <= jaccard,
				  "n %u: %g", n, jaccard);
			CHECK(grn_row_distance(&rows, a, b) == (float) want && grn_row_distance(&rows, a, a) == 0,
				  "%s n %u", versions[v]->name, n);
			CHECK(grn_form_apart(GRN_FORM_BITS, a, 2, b, 1, n) == (float) scaled, "%s n %u", versions[v]->name, n);
			/* a row and nothing: the row's squared norm */
			CHECK(grn_form_apart(GRN_FORM_BITS, b, 1, b, 0, n) == grn_form_norm2(GRN_FORM_BITS, b, n),
				  "%s n %u", versions[v]->name, n);
			/*
			 * a descent that is told of one edge by two distances takes a vertex for its own
			 * neighbor
			 */
			for (int i = 0; i < 10; i++)
			{
				float		sa = (float) unit_below(1000) / 999;
				float		sb = (float) unit_below(1000) / 999;

				CHECK(grn_form_apart(GRN_FORM_BITS, a, sa, b, sb, n) == grn_form_apart(GRN_FORM_BITS, b, sb, a, sa, n),
					  "%s n %u: %g and %g, one way", versions[v]->name, n, sa, sb);
			}
			CHECK(grn_form_l2(GRN_FORM_BITS, x, b, n) == (float) want, "%s n %u", versions[v]->name, n);
			CHECK(grn_row_to_point(&rows, a, y, 0) == (float) want, "%s n %u", versions[v]->name, n);
		}
		/* nothing in common, not even with itself */
		memset(a, 0, bytes);
		memset(b, 0, bytes);
		CHECK(grn_query_compare(GRN_COMPARE_JACCARD, GRN_FORM_BITS, a, b, n) == 1, "n %u", n);
		x[n / 2] = 0.75f;
		CHECK(!grn_form_store(GRN_FORM_BITS, x, n, a), "n %u", n);
		CHECK(!grn_form_normalize(GRN_FORM_BITS, a, n), "n %u", n);
		unit_guarded_free(a, bytes);
		unit_guarded_free(b, bytes);
	}
	/* a vector of floats may always be followed by others */
	CHECK(grn_form_smallest(one, 8) == GRN_FORM_U8, "bits for floats");
}

/* Integers from 0 to 255, each row times a factor of its own. */
static void
bytes_are_compared(void)
{
	float		x[MAX_N];
	float		y[MAX_N];
	uint8_t		a[MAX_N + sizeof(GrnByteHead)];
	uint8_t		b[MAX_N + sizeof(GrnByteHead)];
	double		want = 0;

	for (int j = 0; j < MAX_N; j++)
	{
		x[j] = (float) unit_below(256);
		y[j] = (float) unit_below(256);
		want += pow(0.5 * x[j] - 2 * y[j], 2);
	}
	CHECK(grn_form_store(GRN_FORM_U8, x, MAX_N, a) && grn_form_store(GRN_FORM_U8, y, MAX_N, b), "stored");
	CHECK(fabs(grn_form_apart(GRN_FORM_U8, a, 0.5f, b, 2, MAX_N) - want) < TOLERANCE * want, "%g", want);
}

int
main(void)
{
	grn_dist_init();
	RUN(distances_agree);
	RUN(halves_are_kept);
	RUN(bytes_are_compared);
	RUN(bits_are_counted);
	UNIT_END();
}
