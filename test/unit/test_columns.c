/*
 * test_columns.c - every version of the kernels by which rows move between groups (group_means.c):
 * columns that remember the nearest of the rows they are shown, and bytes of codes that come apart.
 */
#include "space/kernels/dist.h"
#include "unit.h"

#define MAX_VERSIONS 8
#define TOLERANCE 1e-5
#define SHOWN 20				/* rows: some are remembered, and others not any more */

static const GrnDistTable *versions[MAX_VERSIONS];
static int	nversions;

/*
 * Columns remember the nearest of the rows that they were shown, of every length: nearest first,
 * and of equal ones the first.
 */
static void
columns_remember(void)
{
	for (size_t n = 1; n <= 300; n += n < 40 ? 1 : 37)
	{
		size_t		ld = n + n % 3;
		float	   *a = unit_guarded(4 * ((SHOWN - 1) * ld + n));
		float	   *b = unit_guarded(4 * GRN_COLUMNS * n);
		float		a_norms[SHOWN] = {0};
		float		b_norms[GRN_COLUMNS] = {0};

		for (size_t i = 0; i < (SHOWN - 1) * ld + n; i++)
			a[i] = unit_normal();
		for (size_t i = 0; i < GRN_COLUMNS * n; i++)
			b_norms[i % GRN_COLUMNS] += powf(b[i] = unit_normal(), 2);
		memcpy(a + 2 * ld, a + 9 * ld, 4 * n);
		for (size_t i = 0; i < SHOWN; i++)
			a_norms[i] = grn_dist->ip_f32(a + i * ld, a + i * ld, n);
		/* one that is no row, and a column that is none */
		a_norms[5] = INFINITY;
		b_norms[3] = NAN;
		for (int v = 0; v < nversions; v++)
		{
			GrnNearestRows seen;

			for (int c = 0; c < GRN_NEAREST_ROWS; c++)
				for (size_t j = 0; j < GRN_COLUMNS; j++)
				{
					seen.distances[c][j] = INFINITY;
					seen.rows[c][j] = GRN_INVALID_ID;
				}
			for (uint32_t i = 0; i < SHOWN; i += 4)
				versions[v]->keep_nearest(a + i * ld, ld, a_norms + i, b, b_norms, n, 100 + i, &seen);
			for (size_t j = 0; j < GRN_COLUMNS; j++)
			{
				double		distances[SHOWN];
				bool		taken[SHOWN] = {0};

				CHECK(j != 3 || seen.rows[0][j] == GRN_INVALID_ID, "%s n %zu", versions[v]->name, n);
				for (size_t i = 0; i < SHOWN; i++)
				{
					distances[i] = 0;
					for (size_t k = 0; k < n; k++)
						distances[i] += pow((double) a[i * ld + k] - b[k * GRN_COLUMNS + j], 2);
				}
				for (int c = 0; c < GRN_NEAREST_ROWS && j != 3; c++)
				{
					uint32_t	row = seen.rows[c][j] - 100;
					bool		sound = row < SHOWN && row != 5 && !taken[row];

					CHECK(sound, "%s n %zu column %zu: row %u", versions[v]->name, n, j, row);
					if (!sound)
						continue;
					taken[row] = true;
					CHECK(fabs(seen.distances[c][j] - distances[row]) <= TOLERANCE * (a_norms[row] + b_norms[j]),
						  "%s n %zu", versions[v]->name, n);
					CHECK(c == 0 || seen.distances[c][j] >= seen.distances[c - 1][j], "%s n %zu", versions[v]->name, n);
				}
				CHECK(taken[2] || !taken[9], "%s n %zu: the first of equal rows is forgotten", versions[v]->name, n);
				for (size_t i = 0; i < SHOWN && j != 3; i++)
					CHECK(i == 5 || taken[i] || distances[i] > seen.distances[GRN_NEAREST_ROWS - 1][j] * (1 - 1e-4),
						  "%s n %zu column %zu: row %zu is missing", versions[v]->name, n, j, i);
			}
		}
		unit_guarded_free(a, 4 * ((SHOWN - 1) * ld + n));
		unit_guarded_free(b, 4 * GRN_COLUMNS * n);
	}
}

/* Bytes of every number come apart alike. */
static void
unpacked_are_equal(void)
{
	for (size_t n = 0; n <= 70; n++)
		for (uint32_t bits = 1; bits <= 4; bits *= 2)
		{
			size_t		all = n * 8 / bits;
			uint8_t    *code = unit_guarded(n);
			float	   *out = unit_guarded(4 * all);

			for (size_t i = 0; i < n; i++)
				code[i] = (uint8_t) unit_random();
			for (int v = 0; v < nversions; v++)
			{
				versions[v]->unpack(code, n, bits, 1.5f, 0.3f, out);
				for (size_t i = 0; i < all; i++)
				{
					int			level = code[i % n] >> i / n * bits & ((1 << bits) - 1);

					CHECK(out[i] == 0.3f * ((float) level - 1.5f), "%s n %zu bits %u", versions[v]->name, n, bits);
				}
			}
			unit_guarded_free(code, n);
			unit_guarded_free(out, 4 * all);
		}
}

int
main(void)
{
	grn_dist_init();
	nversions = grn_dist_versions(versions, MAX_VERSIONS);
	RUN(columns_remember);
	RUN(unpacked_are_equal);
	UNIT_END();
}
