/*
 * test_metric.c - the tables of metrics and forms, and bounds of distances against sums in
 * single precision, in whatever order.
 */
#include "space/form.h"
#include "space/metric.h"
#include "space/space.h"
#include "unit.h"

#define MAX 3000
#define METRICS 4
#define OTHERS 3				/* two for bits, and inner product by angles */

/* Each entry is found by its id and by its name, and nothing else is. */
static void
tables_are_consistent(void)
{
	int			metrics = 0;
	int			forms = 0;

	for (uint32_t id = 0; id < 100; id++)
	{
		const GrnMetricInfo *m = grn_metric(id);
		const GrnFormInfo *f = grn_form(id);

		CHECK(m == NULL || (m->id == id && grn_metric_named(grn_metric_name(m)) == m && grn_is_metric(m)),
			  "metric %u", id);
		CHECK(m == NULL || m->long_entries < GRN_MAX_ENTRIES, "%u", id);
		CHECK(m == NULL || m->own_codes == GRN_ESTIMATE_NONE || m->own_codes >= GRN_EXACT_L2, "%u", id);
		CHECK(f == NULL || f->id == id, "form %u", id);
		/*
		 * code that has a float * takes it for a stored vector of this form, and the other way
		 * round
		 */
		CHECK(f == NULL || grn_form_is_floats(f->id) == (f->numbers == GRN_NUMBERS_FLOATS), "form %u", id);
		CHECK(f == NULL || !grn_form_is_floats(f->id) || (f->head == 0 && f->bits == 32 && f->lossless),
			  "form %u", id);
		/* of forms that are chosen by the values */
		CHECK(f == NULL || f->holds == NULL ||
			  f->lossless == (grn_form_wider(f->id, GRN_FORM_WIDEST) == f->id), "form %u", id);
		CHECK(f == NULL || f->holds != NULL || f->rotated || f->sparse || (f->numbers != GRN_NUMBERS_NONE && f->lossless), "form %u", id);
		CHECK(f == NULL || f->rotated || (f->head > 0) == (f->own_head != NULL), "form %u", id);
		/* few bits say too little of their own, and are chosen by the layout alone */
		CHECK(f == NULL || !f->rotated || (f->deviations > 0 && f->numbers == GRN_NUMBERS_NONE && f->holds == NULL), "form %u", id);
		for (uint32_t rows = GRN_FORM_F32; rows <= GRN_FORM_BITS; rows++)
		{
			bool		serves = f != NULL && (rows == id || f->holds != NULL ||
											   (f->rotated && grn_form(rows)->holds != NULL));

			CHECK((grn_form_for(id, (GrnForm) rows) != NULL) == serves, "form %u for %u", id, rows);
		}
		CHECK(f == NULL || !f->direct || f->sparse || f->apart != NULL, "form %u", id);
		metrics += m != NULL;
		forms += f != NULL;
	}
	CHECK(metrics == METRICS + OTHERS && forms == 8, "%d, %d", metrics, forms);
	CHECK(grn_metric_named("none") == NULL && grn_metric_named("") == NULL, "no such metric");
	CHECK(!grn_is_metric(&metrics) && !grn_is_metric(NULL), "no entry");
}

/* The names are those by which entries are found; too long a list is cut. */
static void
names_are_listed(void)
{
	char		names[256];
	char		cut[10];
	size_t		listed = 0;

	grn_metric_names("|", names, sizeof(names));
	CHECK(strncmp(grn_metric_names("|", cut, sizeof(cut)), names, 9) == 0 && cut[9] == 0, "%s", cut);
	for (char *name = strtok(names, "|"); name != NULL; name = strtok(NULL, "|"), listed++)
		CHECK(grn_metric_named(name) != NULL, "%s", name);
	CHECK(listed == METRICS + OTHERS, "%zu names", listed);
}

/* The metric's own unit, or the rows'. */
static void
units_are_chosen(void)
{
	uint32_t	octaves[GRN_OCTAVES] = {0};

	octaves[grn_octave(100)] = 5;
	CHECK(grn_metric_norm_unit(grn_metric(GRN_IP), octaves) == 16, "10 is below 16");
	CHECK(grn_metric_norm_unit(grn_metric(GRN_IP), NULL) == 1, "no rows");
	CHECK(grn_metric_norm_unit(grn_metric(GRN_JACCARD), octaves) == grn_metric(GRN_JACCARD)->norm_unit &&
		  grn_metric_norm_unit(grn_metric(GRN_JACCARD), NULL) == grn_metric(GRN_JACCARD)->norm_unit, "its own");
	/* rows of one lie on one sphere, but zero */
	{
		const GrnMetricInfo *jaccard = grn_metric(GRN_JACCARD);
		float		sphere = grn_scale(1, jaccard->norm_unit, jaccard->power).norm2;

		CHECK(grn_scale(GRN_MOST_DIMS, jaccard->norm_unit, jaccard->power).norm2 == sphere &&
			  grn_scale(0, jaccard->norm_unit, jaccard->power).norm2 == 0, "%g", sphere);
	}
	/*
	 * with power 0 squared distances are 2 less twice the inner product, in units of the longest
	 * row
	 */
	{
		uint32_t	lengths[GRN_OCTAVES] = {0};
		double		unit;

		lengths[grn_octave(9)]++;
		lengths[grn_octave(1600)]++;
		unit = grn_metric_norm_unit(grn_metric(GRN_IP_ANGLES), lengths);
		CHECK(unit == 64, "%g", unit);
		CHECK(grn_scale(9, unit, 0).norm2 == 1 && grn_scale(9, unit, 0).scale == 1 / 64.f &&
			  grn_scale(0, unit, 0).scale == 1 / 64.f, "%g", grn_scale(9, unit, 0).scale);
	}
}

/* Square roots give every power. */
static void
places_have_every_power(void)
{
	for (int i = 1; i <= GRN_POWER_STEPS; i++)
	{
		float		power = (float) i / GRN_POWER_STEPS;

		CHECK(grn_is_power(power) && !grn_is_power(power + 1e-4f), "%g", power);
		for (float length = GRN_SHORTEST; length < 1e4f; length *= 3)
		{
			float		want = powf(length, -power);

			CHECK(fabsf(grn_place_norm(length, power) - want) < 1e-5f * want, "%g to -%g", length, power);
		}
	}
	CHECK(!grn_is_power(0) && !grn_is_power(-1) && !grn_is_power(1.5f) && !grn_is_power(NAN), "no powers");
}

static void
run_alone(GrnParallel *self, size_t n, size_t grain, GrnRangeFn fn, void *arg)
{
	for (size_t i = 0; i < n; i += grain)
		fn(arg, 0, i, i + grain < n ? i + grain : n);
}

/* Rows with a direction at random and a length of exp(sigma times a normal number). */
static float
chosen_power(uint32_t dim, float sigma, bool gaussian, uint32_t n)
{
	GrnParallel alone = {1, run_alone};
	float	   *x = malloc((size_t) n * dim * sizeof(float));
	float	   *work = malloc((size_t) n * n * sizeof(float));
	float		power;

	for (uint32_t i = 0; i < n; i++)
	{
		float	   *row = x + (size_t) i * dim;
		float		length;

		for (uint32_t j = 0; j < dim; j++)
			row[j] = unit_normal();
		length = gaussian ? 1 : expf(sigma * unit_normal()) / sqrtf((float) grn_norm2(row, dim));
		for (uint32_t j = 0; j < dim; j++)
			row[j] *= 3 * length;
	}
	power = grn_choose_power(x, dim, n, dim, 4, GRN_USUAL_POWER, work, &alone);
	free(work);
	free(x);
	return power;
}

/* The more the lengths differ, and the more dimensions, the smaller the power. */
static void
powers_follow_the_rows(void)
{
	float		few = chosen_power(8, 0, true, GRN_POWER_ROWS);
	float		some = chosen_power(100, 0.2f, false, GRN_POWER_ROWS);
	float		spread = chosen_power(100, 0.5f, false, GRN_POWER_ROWS);
	float		wide = chosen_power(100, 1, false, GRN_POWER_ROWS);

	CHECK(few >= 0.75f && some < few && spread < some && wide < spread && wide >= 1.0f / 32, "%g %g %g %g", few,
		  some, spread, wide);
	CHECK(chosen_power(100, 0, false, 500) == GRN_USUAL_POWER, "rows of one length");
	CHECK(chosen_power(100, 1, false, 20) == GRN_USUAL_POWER, "few rows");
}

/*
 * An error across the row is in squared distances as a whole, and in inner products not at all.
 */
static void
errors_are_the_metrics_own(void)
{
	for (uint32_t id = 0; id < 100; id++)
	{
		const GrnMetricInfo *m = grn_metric(id);
		GrnBound	b = {.compared = 10, .error = 0.5, .query_norm = 2, .norm = 3, .dim = 128};
		GrnBound	lessened = b;
		bool		square;

		if (m == NULL)
			continue;
		square = m->comparison == GRN_COMPARE_L2;
		lessened.compared -= 4;
		b.across = 2;
		CHECK(m->bound(&b) == m->bound(&lessened) || !square, "%s", grn_metric_name(m));
		b.across = 4;
		lessened.compared = 0;
		CHECK(m->bound(&b) == m->bound(&lessened) || !square, "%s", grn_metric_name(m));
		lessened = b;
		lessened.across = 0;
		CHECK(m->bound(&b) == m->bound(&lessened) || square, "%s", grn_metric_name(m));
	}
}

/* A wider form holds what a smaller one holds. */
static void
wider_forms_hold_more(void)
{
	for (int round = 0; round < 200; round++)
	{
		float		x[8];
		GrnForm		smallest;

		for (int j = 0; j < 8; j++)
			x[j] = round % 3 == 0 ? roundf(fabsf(40 * unit_normal())) :
				round % 3 == 1 ? grn_f16_to_f32(grn_f32_to_f16(unit_normal())) : unit_normal();
		smallest = grn_form_smallest(x, 8);
		for (uint32_t id = 0; id < 10; id++)
			if (grn_form(id) != NULL && grn_form_wider((GrnForm) id, smallest) == id)
				CHECK(grn_form((uint32_t) id)->holds(x, 8), "%s", grn_form((uint32_t) id)->name);
	}
}

/* The sum of n products in single precision, from the end or from the start, by strides. */
static float
sum_products(const float *a, const float *b, size_t n, size_t stride, bool backwards)
{
	float		sum = 0;

	for (size_t s = 0; s < stride; s++)
		for (size_t i = s; i < n; i += stride)
		{
			size_t		at = backwards ? n - 1 - i : i;
			volatile float product = a[at] * b[at];

			sum += product;
		}
	return sum;
}

/* The operator's value as pgvector computes it, by sums in some order. */
static double
computed(const GrnMetricInfo *m, const float *q, const float *x, size_t n, size_t stride,
		 bool backwards)
{
	float		diff[MAX];

	if (m->id == GRN_IP)
		return -(double) sum_products(q, x, n, stride, backwards);
	if (m->id == GRN_COSINE)
	{
		double		c = sum_products(q, x, n, stride, backwards) /
			sqrt((double) sum_products(q, q, n, stride, backwards) *
				 (double) sum_products(x, x, n, stride, backwards));

		return 1 - fmax(-1, fmin(1, c));
	}
	for (size_t i = 0; i < n; i++)
		diff[i] = m->id == GRN_L1 ? fabsf(q[i] - x[i]) : q[i] - x[i];
	if (m->id == GRN_L1)
	{
		float		ones[MAX];

		for (size_t i = 0; i < n; i++)
			ones[i] = 1;
		return sum_products(diff, ones, n, stride, backwards);
	}
	return sqrt((double) sum_products(diff, diff, n, stride, backwards));
}

#define ROUNDS (METRICS * 120)	/* each metric with all dimensions, forms and spreads, four times */

/* No order of summation, and no rounding of the stored vector, gets below the bound. */
static void
bounds_hold(void)
{
	static const size_t dims[] = {1, 3, 64, 384, MAX};
	static const size_t strides[] = {1, 4, 16, 31};
	static float q[MAX],
				x[MAX],
				stored[MAX],
				nq[MAX];
	static uint8_t bytes[4 * MAX + 8];
	int			tight[METRICS] = {0};

	for (int round = 0; round < ROUNDS; round++)
	{
		const GrnMetricInfo *m = grn_metric((uint32_t) (1 + round % METRICS));
		size_t		n = dims[round / METRICS % 5];
		GrnForm		form = (GrnForm) (1 + round / METRICS / 5 % 3);
		float		near = round / METRICS / 15 % 2 ? 1e-4f : 1;	/* nearly constant rows are the
																	 * hard ones */
		GrnBound	b = {.dim = (uint32_t) n};

		for (size_t i = 0; i < n; i++)
		{
			q[i] = 1 + near * unit_normal();
			x[i] = 1 + near * unit_normal();
		}
		memcpy(nq, q, sizeof(q));
		memcpy(stored, x, sizeof(x));
		if (m->normalized)
		{
			grn_form_normalize(GRN_FORM_FLOATS, nq, n);
			grn_form_normalize(GRN_FORM_FLOATS, stored, n);
		}
		grn_form_store(form, stored, n, bytes);
		b.error = sqrt((double) grn_form_l2(form, stored, bytes, n)) * 1.0001 + 1e-20;
		if (grn_form(form)->lossless)
			b.error = 0;
		b.compared = grn_compare(m->comparison, form, nq, bytes, n);
		grn_form_load(form, bytes, n, stored);
		b.norm = sqrt(grn_norm2(stored, n));
		b.query_norm = sqrt(grn_norm2(nq, n));
		for (size_t s = 0; s < 4; s++)
			for (int backwards = 0; backwards < 2; backwards++)
			{
				double		value = computed(m, q, x, n, strides[s], backwards);

				CHECK(m->bound(&b) <= value, "%s, %zu dimensions, %s: %.9g, computed %.9g",
					  grn_metric_name(m), n, grn_form(form)->name, m->bound(&b), value);
				tight[round % METRICS] += fabs(m->bound(&b) - value) < 0.01 * (fabs(value) + 1);
			}
		CHECK(b.error > 0 || fabs(m->value(b.compared) - computed(m, q, x, n, 1, false)) <
			  1e-4 * (1 + fabs(m->value(b.compared))), "%s, %zu", grn_metric_name(m), n);
	}
	for (int m = 0; m < METRICS; m++)
		CHECK(tight[m] > ROUNDS / METRICS * 8 / 3, "metric %d: only %d bounds are within a hundredth",
			  m + 1, tight[m]);
}

/* Normalizing makes length 1 of anything but zero. */
static void
normalizing(void)
{
	float		x[3] = {3, 0, 4};
	float		zero[3] = {0, 0, 0};

	CHECK(grn_form_normalize(GRN_FORM_FLOATS, x, 3) && fabsf(x[0] - 0.6f) < 1e-6f && fabsf(x[2] - 0.8f) < 1e-6f,
		  "%g %g", x[0], x[2]);
	CHECK(!grn_form_normalize(GRN_FORM_FLOATS, zero, 3), "zero");
	for (uint32_t id = 1; id <= METRICS; id++)
		CHECK(grn_row_floats(grn_metric(id), 3) == (grn_is_scaled(grn_metric(id)->embedding) ? 5 : 3), "%s",
			  grn_metric_name(grn_metric(id)));
}

int
main(void)
{
	grn_dist_init();
	RUN(tables_are_consistent);
	RUN(names_are_listed);
	RUN(units_are_chosen);
	RUN(places_have_every_power);
	RUN(powers_follow_the_rows);
	RUN(errors_are_the_metrics_own);
	RUN(wider_forms_hold_more);
	RUN(bounds_hold);
	RUN(normalizing);
	UNIT_END();
}
