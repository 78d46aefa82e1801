/*
 * test_rotated.c - stored vectors of few bits a number: rotation, error, estimates and bounds,
 * by each version of the kernels, against sums in double.
 */
#include "space/form.h"
#include "space/kernels/dist.h"
#include "store/record.h"
#include "unit.h"

#define MAX_VERSIONS 8

static const GrnForm rotated_forms[] = {GRN_FORM_ROTATED4, GRN_FORM_ROTATED2, GRN_FORM_ROTATED1};

#define NFORMS 3
static const char *const names[] = {"4 bits", "2 bits", "1 bit"};

/* The most that an error may be, as a share of the row's length, of many normal numbers; of few. */
static const double most_error[] = {0.16, 0.45, 0.90};
static const double most_of_few[] = {0.5, 1, 1.5};

static double
dot(const float *a, const float *b, size_t n)
{
	double		sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (double) a[i] * b[i];
	return sum;
}

static double
apart(const float *a, const float *b, size_t n)
{
	double		sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += ((double) a[i] - b[i]) * ((double) a[i] - b[i]);
	return sqrt(sum);
}

/* All to 300, then what lies about powers of two, pieces of codes and the ends. */
static size_t
next_dim(size_t n)
{
	static const size_t more[] = {384, 511, 512, 513, 767, 768, 960, 1023, 1024, 1025, 1535, 1536,
		2000, 2047, 2048, 2049, 4097, GRN_MAX_DIM};

	if (n < 300)
		return n + 1;
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		if (more[i] > n)
			return more[i];
	return 0;
}

static void
rotations_keep_lengths_and_turn_back(void)
{
	static float x[GRN_MAX_DIM];
	static float y[GRN_MAX_DIM];
	static float back[GRN_MAX_DIM];

	for (size_t n = 1; n > 0; n = next_dim(n))
	{
		double		norm2;
		double		angle;

		for (size_t i = 0; i < n; i++)
		{
			x[i] = unit_normal();
			y[i] = back[i] = unit_normal();
		}
		norm2 = dot(x, x, n);
		angle = dot(x, y, n);
		grn_rotate(x, n);
		grn_rotate(y, n);
		CHECK(fabs(dot(x, x, n) - norm2) <= 1e-5 * norm2, "n %zu", n);
		CHECK(fabs(dot(x, y, n) - angle) <= 1e-5 * norm2 + 1e-3, "n %zu: %g for %g", n, dot(x, y, n), angle);
		grn_rotate_back(y, n);
		CHECK(apart(y, back, n) <= 1e-5 * sqrt(norm2) + 1e-5, "n %zu: %g", n, apart(y, back, n));
	}
}

/* A row of which one number is all: no number of it is large when it is rotated. */
static void
rotations_spread(void)
{
	static float x[GRN_MAX_DIM];

	for (size_t n = 16; n > 0; n = next_dim(n))
		for (size_t at = 0; at < n; at += n / 5 + 1)
		{
			double		most = 0;

			memset(x, 0, sizeof(x));
			x[at] = 1;
			grn_rotate(x, n);
			for (size_t i = 0; i < n; i++)
				most = fmax(most, fabs(x[i]));
			CHECK(most <= 5 / sqrt((double) n), "n %zu at %zu: %g", n, at, most * sqrt((double) n));
		}
}

static void
errors_are_strict_and_perpendicular(void)
{
	static float x[GRN_MAX_DIM];
	static float y[GRN_MAX_DIM];
	static float q[GRN_MAX_DIM];

	for (int f = 0; f < NFORMS; f++)
		for (size_t n = 1; n > 0; n = next_dim(n))
		{
			size_t		bytes = grn_form_bytes(rotated_forms[f], n);
			uint8_t    *stored = unit_guarded(bytes);
			double		norm;
			double		error;

			for (size_t i = 0; i < n; i++)
			{
				/* far from 0, with a few that are much larger than the others */
				x[i] = (unit_normal() + 0.5f) * (i % 50 == 7 ? 10 : 1) * 1e-3f;
				q[i] = unit_normal() * 1e-3f;
			}
			norm = sqrt(dot(x, x, n));
			CHECK(!grn_form_store(rotated_forms[f], x, n, stored), "%s n %zu", names[f], n);
			grn_form_load(rotated_forms[f], stored, n, y);
			error = apart(x, y, n);
			CHECK(fabs(dot(x, y, n) - norm * norm) <= 1e-4 * norm * norm, "%s n %zu: %g of %g",
				  names[f], n, dot(x, y, n), norm * norm);
			CHECK(n < 200 || error <= most_error[f] * norm, "%s n %zu: %g", names[f], n, error / norm);
			CHECK(n < 2 || error <= most_of_few[f] * norm, "%s n %zu: %g", names[f], n, error / norm);
			CHECK(n > 1 || error <= 1e-5 * norm, "%s n %zu: %g", names[f], n, error / norm);
			/* what records keep is no less */
			CHECK(sqrtf(grn_form_l2(rotated_forms[f], x, stored, n)) * 1.0001f + 1e-20f >= error,
				  "%s n %zu", names[f], n);
			CHECK(fabs(grn_form_l2(rotated_forms[f], q, stored, n) - apart(q, y, n) * apart(q, y, n)) <=
				  1e-5 * apart(q, y, n) * apart(q, y, n), "%s n %zu", names[f], n);
			CHECK(fabs(grn_form_ip(rotated_forms[f], q, stored, n) - dot(q, y, n)) <=
				  1e-5 * norm * sqrt(dot(q, q, n)), "%s n %zu", names[f], n);
			unit_guarded_free(stored, bytes);
		}
}

/* Rows turned, with a center or without, are as far apart as others. */
static void
turned_rows_are_as_far_apart(void)
{
	static const GrnForm forms[] = {GRN_FORM_ROTATED4, GRN_FORM_ROTATED2, GRN_FORM_ROTATED1, GRN_FORM_F32};
	static float x[2][GRN_MAX_DIM];
	static float y[2][GRN_MAX_DIM];
	static float turned[2][GRN_MAX_DIM];
	static float at[GRN_MAX_DIM];

	for (int f = 0; f < 4; f++)
		for (size_t n = 1; n > 0; n = next_dim(n))
			for (int with = 0; with <= (f < 3); with++)
			{
				GrnCenter	center = {0};
				GrnLayout	l = {.dim = (uint32_t) n, .form = forms[f],
					.vec_bytes = (uint32_t) grn_form_bytes(forms[f], n)};
				uint8_t    *stored = unit_guarded(l.vec_bytes);
				double		all;

				for (size_t i = 0; i < n; i++)
					at[i] = unit_normal() * 3;
				grn_layout_set_center(&l, &center, GRN_COMPARE_L2, with ? at : NULL);
				for (int r = 0; r < 2; r++)
				{
					for (size_t i = 0; i < n; i++)
						x[r][i] = at[i] + unit_normal();
					(void) grn_own_store(&l, x[r], NULL, stored);
					grn_own_load(&l, stored, y[r]);
					grn_own_load_turned(&l, stored, turned[r]);
				}
				all = dot(x[0], x[0], n);
				CHECK(fabs(apart(turned[0], turned[1], n) - apart(y[0], y[1], n)) <= 1e-4 * sqrt(all),
					  "form %d n %zu: %g, %g", f, n, apart(turned[0], turned[1], n), apart(y[0], y[1], n));
				grn_own_turn(&l, x[0], turned[0]);
				CHECK(fabs(apart(turned[0], turned[1], n) - apart(x[0], y[1], n)) <= 1e-4 * sqrt(all),
					  "form %d n %zu: %g, %g", f, n, apart(turned[0], turned[1], n), apart(x[0], y[1], n));
				unit_guarded_free(stored, l.vec_bytes);
			}
}

/* Zero rows are exact, and rows of any length are stored. */
static void
lengths_do_not_matter(void)
{
	static const float scales[] = {0, 1e-15f, 1e-6f, 1e15f};
	float		least[18] = {1e-45f};
	float		x[100];
	float		y[100];
	uint8_t		stored[200];

	for (int f = 0; f < NFORMS; f++)
	{
		CHECK(!grn_form_store(rotated_forms[f], least, 18, stored), "%s", names[f]);
		for (size_t s = 0; s < sizeof(scales) / sizeof(scales[0]); s++)
		{
			for (size_t i = 0; i < 100; i++)
				x[i] = unit_normal() * scales[s];
			CHECK(grn_form_store(rotated_forms[f], x, 100, stored) == (scales[s] == 0), "%s %g",
				  names[f], scales[s]);
			grn_form_load(rotated_forms[f], stored, 100, y);
			CHECK(apart(x, y, 100) <= (most_error[f] + 0.05) * sqrt(dot(x, x, 100)), "%s %g", names[f],
				  scales[s]);
		}
	}
}

/* Inner products follow a query's length, also if its squares are no floats. */
static void
lengths_of_queries_do_not_matter(void)
{
	static const float scales[] = {1e-36f, 1e-30f, 1e-24f, 1e15f};
	float		x[100];
	float		q[100];
	float		scaled[100];
	uint8_t		stored[200];
	void	   *query = malloc(grn_query_bytes(GRN_COMPARE_IP, GRN_FORM_ROTATED4, 100));

	for (size_t i = 0; i < 100; i++)
	{
		x[i] = unit_normal();
		q[i] = x[i] + unit_normal();
	}
	for (int f = 0; f < NFORMS; f++)
		for (size_t s = 0; s < sizeof(scales) / sizeof(scales[0]); s++)
		{
			float		usual;
			float		d;

			(void) grn_form_store(rotated_forms[f], x, 100, stored);
			for (size_t i = 0; i < 100; i++)
				scaled[i] = q[i] * scales[s];
			CHECK(grn_query_make(rotated_forms[f], q, 100, query), "%s", names[f]);
			usual = grn_query_compare(GRN_COMPARE_IP, rotated_forms[f], query, stored, 100);
			CHECK(grn_query_make(rotated_forms[f], scaled, 100, query), "%s", names[f]);
			d = grn_query_compare(GRN_COMPARE_IP, rotated_forms[f], query, stored, 100);
			CHECK(fabsf(d / scales[s] - usual) <= 0.01f * fabsf(usual), "%s %g: %g, %g", names[f], scales[s],
				  d / scales[s], usual);
		}
	free(query);
}

/*
 * Estimates by a query made ready are those by floats, but for its bytes; they are right on
 * average, and the likely bound holds for nearly all.
 */
static void
estimates_hold(void)
{
	static float x[GRN_MAX_DIM];
	static float q[GRN_MAX_DIM];
	const GrnDistTable *versions[MAX_VERSIONS];
	int			nversions = grn_dist_versions(versions, MAX_VERSIONS);
	const GrnDistTable *before = grn_dist;

	for (int v = 0; v < nversions; v++)
		for (int f = 0; f < NFORMS; f++)
		{
			uint32_t	below = 0;
			uint32_t	tried = 0;
			double		bias = 0;

			grn_dist = versions[v];
			for (size_t n = 1; n > 0 && n <= 4097; n = next_dim(n))
			{
				size_t		bytes = grn_form_bytes(rotated_forms[f], n);
				uint8_t    *stored = unit_guarded(bytes);
				size_t		qbytes = (grn_query_bytes(GRN_COMPARE_L2, rotated_forms[f], n) + 7) & ~(size_t) 7;
				void	   *query = unit_guarded(qbytes);
				double		norm;
				double		error;
				double		l2;
				double		want;
				double		got;

				for (size_t i = 0; i < n; i++)
				{
					x[i] = unit_normal();
					q[i] = x[i] * 0.7f + unit_normal() * 0.7f;
				}
				norm = sqrt(dot(x, x, n) + dot(q, q, n));
				(void) grn_form_store(rotated_forms[f], x, n, stored);
				CHECK(grn_query_make(rotated_forms[f], q, n, query), "%s n %zu", names[f], n);
				l2 = grn_form_l2(rotated_forms[f], q, stored, n);
				got = grn_query_compare(GRN_COMPARE_L2, rotated_forms[f], query, stored, n);
				/* a byte of the query is off by 1/254 of its largest number at most */
				CHECK(fabs(got - l2) <= 0.02 * norm * norm, "%s %s n %zu: %g for %g", versions[v]->name,
					  names[f], n, got, l2);
				CHECK(n < 200 || fabs(got - l2) <= 0.003 * norm * norm, "%s %s n %zu: %g for %g",
					  versions[v]->name, names[f], n, got, l2);
				got = -grn_query_compare(GRN_COMPARE_IP, rotated_forms[f], query, stored, n);
				CHECK(fabs(got - grn_form_ip(rotated_forms[f], q, stored, n)) <= 0.01 * norm * norm,
					  "%s %s n %zu: %g", versions[v]->name, names[f], n, got);
				error = sqrt(grn_form_l2(rotated_forms[f], x, stored, n));
				want = apart(q, x, n);
				if (n >= 16)
				{
					tried++;
					below += want < sqrt(fmax(l2 - error * error, 0)) - 3 * error / sqrt((double) n);
					bias += (l2 - error * error) / (want * want) - 1;
				}
				unit_guarded_free(stored, bytes);
				unit_guarded_free(query, qbytes);
			}
			CHECK(below <= tried / 50, "%s %s: %u of %u below the bound", versions[v]->name, names[f],
				  below, tried);
			CHECK(fabs(bias / tried) < 0.03, "%s %s: %g too much on average", versions[v]->name, names[f],
				  bias / tried);
		}
	grn_dist = before;
}

/*
 * A query that is the row itself meets the stored vector at the row's error, whatever the rounding
 * of the query: what that lacks is across the query, and so across the row.
 */
static void
rounding_of_queries_is_across(void)
{
	static const size_t dims[] = {32, 128, 768, 1537};

	for (size_t d = 0; d < sizeof(dims) / sizeof(dims[0]); d++)
	{
		size_t		n = dims[d];
		GrnForm		form = GRN_FORM_ROTATED4;
		float	   *x = malloc(n * sizeof(float));
		float	   *y = malloc(n * sizeof(float));
		uint8_t    *stored = malloc(grn_form_bytes(form, n));
		void	   *query = malloc(grn_query_bytes(GRN_COMPARE_L2, form, n));
		double		off = 0;

		for (int row = 0; row < 100; row++)
		{
			double		e;

			for (size_t j = 0; j < n; j++)
				x[j] = unit_normal();
			grn_form_store(form, x, n, stored);
			grn_form_load(form, stored, n, y);
			e = apart(x, y, n);
			CHECK(grn_query_make(form, x, n, query), "n %zu", n);
			off += fabs(grn_query_compare(GRN_COMPARE_L2, form, query, stored, n) - e * e) /
				(e * sqrt(dot(x, x, n) / (double) n)) / 100;
		}
		CHECK(off < 0.03, "n %zu: %g", n, off);
		free(x);
		free(y);
		free(stored);
		free(query);
	}
}

/* Rows of many kinds for the next test; kind 0 to 7. */
static void
fill_kind(float *x, size_t n, int kind)
{
	for (size_t j = 0; j < n; j++)
		x[j] = kind == 0 ? unit_normal() : kind == 1 ? (float) (j == n / 3) : kind == 2 ? (float) (j % 7 == 0)
			: kind == 3 ? 1 : kind == 4 ? unit_normal() * 1e15f : kind == 5 ? unit_normal() * 1e-15f
			: kind == 6 ? unit_normal() * 1e-33f : expf(3 * unit_normal());
}

/*
 * The error that is stored with a vector is no less than how far it is, and hardly more: as near
 * to what is told by turning it back as grnnd_check() allows (am/report/check_own.c).
 */
static void
stored_errors_are_strict(void)
{
	static const size_t dims[] = {1, 2, 16, 17, 100, 128, 384, 768, 1537};

	for (int f = 0; f < NFORMS; f++)
		for (size_t d = 0; d < sizeof(dims) / sizeof(dims[0]); d++)
			for (int kind = 0; kind < 16; kind++)
			{
				size_t		n = dims[d];
				float		x[1537];
				float		y[1537];
				float		c[1537];
				uint8_t		stored[1537 + 8];
				GrnLayout	l = {.dim = (uint32_t) n, .form = rotated_forms[f]};
				GrnCenter	center;

				l.vec_bytes = (uint32_t) grn_form_bytes(l.form, n);
				for (size_t j = 0; j < n; j++)
					c[j] = unit_normal();
				grn_layout_set_center(&l, &center, GRN_COMPARE_L2, kind >= 8 ? c : NULL);
				for (int row = 0; row < 20; row++)
				{
					double		length;
					double		far;
					double		e;
					double		turned;

					fill_kind(x, n, kind % 8);
					e = grn_own_store(&l, x, NULL, stored);
					grn_own_load(&l, stored, y);
					length = sqrt(dot(x, x, n)) + (l.center ? sqrt(dot(c, c, n)) : 0);
					far = apart(x, y, n);
					turned = grn_own_error(&l, x, stored);
					CHECK(e >= far * (1 - 1e-6) - 1e-6 * length, "%s n %zu kind %d: %g for %g", names[f], n, kind, e, far);
					CHECK(fabs(turned - e) <= GRN_MAX_DIM * 6e-8 * fmin(turned, e) + 1e-6 * length + 1e-19,
						  "%s n %zu kind %d: %g for %g", names[f], n, kind, e, turned);
				}
			}
}

/* With a center far away, rows and queries are compared as well as around the origin. */
static void
centers_do_not_matter(void)
{
	static const size_t dims[] = {17, 128, 384, 768, 1537};

	for (int f = 0; f < NFORMS; f++)
		for (size_t d = 0; d < sizeof(dims) / sizeof(dims[0]); d++)
			for (int ip = 0; ip < 4; ip++)
			{
				size_t		n = dims[d];
				/* queries of any length have the same order by inner products */
				static const float lengths[] = {1, 1, 0.01f, 100};
				GrnComparison comparison = ip ? GRN_COMPARE_IP : GRN_COMPARE_L2;
				GrnLayout	l = {.dim = (uint32_t) n, .form = rotated_forms[f]};
				GrnCenter	center;
				float	   *c = malloc(n * sizeof(float));
				float	   *x = malloc(n * sizeof(float));
				float	   *q = malloc(n * sizeof(float));
				float	   *y = malloc(n * sizeof(float));
				uint8_t    *stored;
				void	   *query;
				double		error = 0;
				double		off = 0;

				l.vec_bytes = (uint32_t) grn_form_bytes(l.form, n);
				stored = malloc(l.vec_bytes);
				query = malloc(grn_query_bytes(comparison, l.form, n));
				for (size_t j = 0; j < n; j++)
					c[j] = 20 + 5 * unit_normal();
				grn_layout_set_center(&l, &center, comparison, c);
				for (int row = 0; row < 40; row++)
				{
					double		got;
					double		want;
					double		e;

					for (size_t j = 0; j < n; j++)
					{
						float		u = unit_normal();

						x[j] = c[j] + u;
						q[j] = lengths[ip] * (c[j] + 0.7f * u + 0.7f * unit_normal());
					}
					e = grn_own_store(&l, x, NULL, stored);
					grn_own_load(&l, stored, y);
					CHECK(e > 0 && e >= apart(x, y, n) * 0.999, "%s n %zu: %g for %g", names[f], n, e, apart(x, y, n));
					/* perpendicular to what is left of x, so no longer than that */
					CHECK(e < 1.5 * apart(x, c, n), "%s n %zu: %g", names[f], n, e);
					CHECK(!ip || fabs(grn_own_norm2(&l, stored) / (dot(x, x, n) + e * e) - 1) < 1e-3,
						  "%s n %zu: %g for %g", names[f], n, grn_own_norm2(&l, stored), dot(x, x, n));
					CHECK(grn_own_query(&l, q, query), "%s n %zu", names[f], n);
					got = grn_query_compare(comparison, l.form, query, stored, n);
					want = ip ? -dot(q, x, n) : apart(q, x, n) * apart(q, x, n) + e * e;
					error += fabs(got - want) / 40 / lengths[ip];
					off += (got - want) / 40 / lengths[ip];
					CHECK(grn_own_query_share(&l, q) < (ip ? 0.1 : 1.01), "%s n %zu: %g", names[f], n,
						  grn_own_query_share(&l, q));
				}
				/* the error's part along a query of length sqrt(n): e of one bit is .75 sqrt(n) */
				CHECK(error < 3 * sqrt((double) n), "%s n %zu %s: %g", names[f], n, ip ? "ip" : "l2", error);
				CHECK(fabs(off) < 2 * sqrt((double) n), "%s n %zu %s: %g", names[f], n, ip ? "ip" : "l2", off);
				/* the center itself has nothing left */
				CHECK(grn_own_store(&l, c, NULL, stored) == 0, "%s n %zu", names[f], n);
				grn_own_load(&l, stored, y);
				CHECK(memcmp(y, c, n * sizeof(float)) == 0, "%s n %zu", names[f], n);
				free(c);
				free(x);
				free(q);
				free(y);
				free(stored);
				free(query);
			}
}

/* They serve rows of floats and halves alone, and no row is taken to need them. */
static void
layouts_alone_choose_them(void)
{
	float		x[4] = {1, -1, 1, -1};

	for (int f = 0; f < NFORMS; f++)
	{
		CHECK(grn_form_for(rotated_forms[f], GRN_FORM_F32) != NULL &&
			  grn_form_for(rotated_forms[f], GRN_FORM_F16) != NULL &&
			  grn_form_for(rotated_forms[f], GRN_FORM_BITS) == NULL, "%s", names[f]);
		CHECK(grn_form_smallest(x, 4) != rotated_forms[f], "%s", names[f]);
	}
	CHECK(grn_form_bytes(GRN_FORM_ROTATED1, 768) == 104 && grn_form_bytes(GRN_FORM_ROTATED2, 384) == 104 &&
		  grn_form_bytes(GRN_FORM_ROTATED4, 768) == 392, "bytes");
}

int
main(void)
{
	grn_dist_init();
	RUN(rotations_keep_lengths_and_turn_back);
	RUN(rotations_spread);
	RUN(errors_are_strict_and_perpendicular);
	RUN(turned_rows_are_as_far_apart);
	RUN(lengths_do_not_matter);
	RUN(lengths_of_queries_do_not_matter);
	RUN(estimates_hold);
	RUN(rounding_of_queries_is_across);
	RUN(stored_errors_are_strict);
	RUN(centers_do_not_matter);
	RUN(layouts_alone_choose_them);
	UNIT_END();
}
