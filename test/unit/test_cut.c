/*
 * test_cut.c - rows cut into overlapping parts, and the parts' lists merged.
 */
#include "parts_data.h"

#include "graph/cut.h"
#include "graph/graph.h"
#include "space/kernels/tile.h"

static GrnParallel one = {1, unit_run};
static GrnParallel backwards = {3, unit_run};

/* ---- cutting ---- */

static GrnParts
make_parts(const Data *d, uint32_t nparts, float overlap, GrnParallel *parallel, char **work)
{
	size_t		bytes = grn_parts_bytes(d->rows.n, d->rows.dim, nparts, overlap);
	GrnParts	parts;

	*work = unit_guarded(bytes);
	grn_parts_make(&d->rows, nparts, overlap, 3, parallel, *work, &parts);
	CHECK((char *) (parts.members + parts.start[nparts]) <= *work + grn_parts_kept(d->rows.n, overlap),
		  "more members than room for them");
	return parts;
}

static void
check_parts(const Data *d, const GrnParts *parts)
{
	size_t		n = d->rows.n;
	uint8_t    *seen = calloc(n, 1);
	uint32_t   *in = malloc(n * sizeof(uint32_t));

	memset(in, 0xff, n * sizeof(uint32_t));
	CHECK(parts->start[0] == 0, "%zu", parts->start[0]);
	for (uint32_t c = 0; c < parts->nparts; c++)
	{
		CHECK(parts->others[c] >= parts->guests[c] && parts->start[c + 1] >= parts->others[c] &&
			  parts->start[c + 1] - parts->others[c] <= grn_parts_landmarks(n, parts->nparts),
			  "part %u has %zu landmarks", c, parts->start[c + 1] - parts->others[c]);
		for (size_t i = parts->start[c]; i < parts->start[c + 1]; i++)
		{
			CHECK(parts->members[i] < n && in[parts->members[i]] != c, "row %u is twice in part %u",
				  parts->members[i], c);
			in[parts->members[i]] = c;
		}
		for (size_t i = parts->start[c]; i < parts->others[c]; i++)
		{
			uint32_t	v = parts->members[i];
			bool		guest = i >= parts->guests[c];

			CHECK(v < n && (guest ? parts->guest[v] : parts->home[v]) == i, "position %zu", i);
			CHECK(guest || !seen[v], "row %u is at home twice", v);
			seen[v] |= !guest;
			/* a guest's home is another part */
			CHECK(!guest || parts->home[v] < parts->start[c] || parts->home[v] >= parts->start[c + 1],
				  "row %u is its own guest", v);
			CHECK(i == parts->start[c] || i == parts->guests[c] || parts->members[i - 1] < v,
				  "members of part %u not by row", c);
		}
	}
	for (size_t v = 0; v < n; v++)
		CHECK(seen[v], "row %zu is in no part", v);
	free(seen);
	free(in);
}

/* Guests in all parts. */
static size_t
count_guests(const GrnParts *parts)
{
	size_t		guests = 0;

	for (uint32_t c = 0; c < parts->nparts; c++)
		guests += parts->others[c] - parts->guests[c];
	return guests;
}

static void
test_parts(void)
{
	static const uint32_t counts[] = {1, 2, 7, 33};
	static const float overlaps[] = {0.2f, 0.5f, 1};
	Data		d = make_data(20000, 8, fill_bytes);

	for (int i = 0; i < 4; i++)
		for (int j = 0; j < 3; j++)
		{
			char	   *work;
			char	   *again_work;
			GrnParts	parts = make_parts(&d, counts[i], overlaps[j], &one, &work);
			GrnParts	again = make_parts(&d, counts[i], overlaps[j], &backwards, &again_work);
			size_t		members = parts.start[counts[i]];
			double		share = (double) count_guests(&parts) / 20000;

			check_parts(&d, &parts);
			CHECK(counts[i] == 1 ? share == 0 : fabs(share - overlaps[j]) < 0.05, "%u parts: %g",
				  counts[i], share);
			CHECK((double) grn_parts_largest(&parts) * counts[i] / (double) members < 1.2,
				  "%u parts: the largest has %zu of %zu", counts[i], grn_parts_largest(&parts), members);
			CHECK(again.start[counts[i]] == members &&
				  memcmp(again.members, parts.members, members * sizeof(uint32_t)) == 0,
				  "another order of work, other parts");
			unit_guarded_free(work, grn_parts_bytes(20000, 8, counts[i], overlaps[j]));
			unit_guarded_free(again_work, grn_parts_bytes(20000, 8, counts[i], overlaps[j]));
		}
	free(d.base);
}

/* Whose members a position is among; their number where it is none. */
static uint32_t
part_of(const GrnParts *parts, uint32_t position)
{
	uint32_t	c = 0;

	while (c < parts->nparts && position >= parts->start[c + 1])
		c++;
	return c;
}

/* Cells that another tells rows by: the same parts, but for rounding at the borders. */
static void
test_parts_in_steps(void)
{
	enum
	{
	N = 5000, DIM = 6, PARTS = 9};
	Data		d = make_data(N, DIM, fill_bytes);
	char	   *work;
	GrnParts	parts = make_parts(&d, PARTS, 0.4f, &one, &work);
	char	   *steps_work = unit_guarded(grn_parts_bytes(N, DIM, PARTS, 0.4f));
	GrnParts	steps;
	GrnCells	cells;
	int			moved = 0;

	grn_parts_cells(&d.rows, PARTS, 0.4f, 3, &one, steps_work, &steps, &cells);
	CHECK(cells.n == PARTS && cells.dim == DIM, "%u cells of %u", cells.n, cells.dim);
	for (size_t i = 0; i < N; i++)
	{
		uint32_t	home = GRN_INVALID_ID;
		uint32_t	guest = GRN_INVALID_ID;
		double		sums[PARTS];

		for (uint32_t c = 0; c < PARTS; c++)
		{
			sums[c] = (double) cells.weights[c];
			for (uint32_t j = 0; j < DIM; j++)
				sums[c] += pow((double) d.base[i * DIM + j] - (double) cells.centers[c * DIM + j], 2);
			if (home == GRN_INVALID_ID || sums[c] < sums[home])
				home = c;
		}
		for (uint32_t c = 0; c < PARTS; c++)
			if (c != home && (guest == GRN_INVALID_ID || sums[c] < sums[guest]))
				guest = c;
		steps.home[i] = home;
		steps.guest[i] = (double) cells.across[home * PARTS + guest] * (sums[guest] - sums[home]) <=
			(double) cells.border ? guest : GRN_INVALID_ID;
	}
	grn_parts_find_landmarks(&d.rows, PARTS, 0.4f, 3, &backwards, steps_work, &steps);
	CHECK(steps.nlandmarks == grn_parts_landmarks(N, PARTS) && steps.nlandmarks == N / 20 / PARTS,
		  "%u landmarks", steps.nlandmarks);
	grn_parts_list_members(&d.rows, PARTS, 0.4f, &one, steps_work, &steps);
	check_parts(&d, &steps);
	for (uint32_t c = 0; c < PARTS; c++)
	{
		/* others' landmarks, but for those that are guests here */
		size_t		here = steps.start[c + 1] - steps.others[c];

		CHECK(here > steps.nlandmarks / 2 && here <= steps.nlandmarks - steps.nlandmarks / PARTS,
			  "%zu landmarks in part %u", here, c);
		CHECK(here == parts.start[c + 1] - parts.others[c] &&
			  memcmp(steps.members + steps.others[c], parts.members + parts.others[c],
					 here * sizeof(uint32_t)) == 0, "other landmarks in part %u", c);
	}
	for (size_t i = 0; i < N; i++)
	{
		/* the same parts', whatever the position in them */
		moved += part_of(&steps, steps.home[i]) != part_of(&parts, parts.home[i]) ||
			part_of(&steps, steps.guest[i]) != part_of(&parts, parts.guest[i]);
	}
	CHECK(moved < N / 500, "%d rows elsewhere", moved);
	unit_guarded_free(work, grn_parts_bytes(N, DIM, PARTS, 0.4f));
	unit_guarded_free(steps_work, grn_parts_bytes(N, DIM, PARTS, 0.4f));
	free(d.base);
}

static void
test_parts_of_equal_rows(void)
{
	Data		d = make_data(3000, 4, fill_one);
	char	   *work;
	GrnParts	parts = make_parts(&d, 5, 0.5f, &one, &work);

	check_parts(&d, &parts);
	unit_guarded_free(work, grn_parts_bytes(3000, 4, 5, 0.5f));
	free(d.base);
}

/* Clusters fall into parts of like size, too. */
static void
test_parts_of_clusters(void)
{
	static const FillFn fills[] = {fill_dense, fill_narrow};
	static const uint32_t counts[] = {12, 61, 113};

	for (int i = 0; i < 2; i++)
	{
		Data		d = make_data(30000, 16, fills[i]);

		for (int j = 0; j < (unit_all() ? 3 : 1); j++)
		{
			char	   *work;
			GrnParts	parts = make_parts(&d, counts[j], 0.5f, &one, &work);
			size_t		largest = grn_parts_largest(&parts);

			check_parts(&d, &parts);
			CHECK((double) largest * counts[j] / (double) parts.start[counts[j]] < 2,
				  "data %d, %u parts: the largest has %zu of %zu", i, counts[j], largest,
				  parts.start[counts[j]]);
			unit_guarded_free(work, grn_parts_bytes(30000, 16, counts[j], 0.5f));
		}
		free(d.base);
	}
}

/* What no border parts is dealt out, as far as there may be parts. */
static void
test_deal(void)
{
	enum
	{
	N = 20000, DIM = 8, MOST = 30, CAPACITY = 1500};
	Data		d = make_data(N, DIM, fill_half);
	size_t		bytes = grn_parts_bytes(N, DIM, MOST, 0.5f);
	char	   *work = unit_guarded(bytes);
	GrnParts	parts;
	int			guests = 0;

	grn_parts_make(&d.rows, 12, 0.5f, 3, &one, work, &parts);
	CHECK(grn_parts_largest(&parts) >= N / 2, "equal rows in several parts");
	CHECK(!grn_parts_deal(&d.rows, 12, 0.5f, 900, &one, work, &parts), "dealt out to too few parts");
	check_parts(&d, &parts);
	for (size_t capacity = 1100; capacity <= CAPACITY; capacity += 200)
	{
		size_t		landmarks = 0;

		grn_parts_make(&d.rows, 12, 0.5f, 3, &one, work, &parts);
		CHECK(grn_parts_deal(&d.rows, MOST, 0.5f, capacity, &backwards, work, &parts), "not dealt out");
		check_parts(&d, &parts);
		CHECK(parts.nparts <= MOST && grn_parts_largest(&parts) <= capacity, "%u parts, the largest of %zu",
			  parts.nparts, grn_parts_largest(&parts));
		for (uint32_t c = 0; c < parts.nparts; c++)
			landmarks += parts.start[c + 1] - parts.others[c];
		CHECK(landmarks > 0, "no landmarks");
	}
	for (size_t v = 1; v < N; v += 2)
		guests += parts.guest[v] != GRN_INVALID_ID;
	CHECK(guests > N / 5, "%d of the equal rows are guests", guests);
	unit_guarded_free(work, bytes);
	free(d.base);
}

/* ---- merging ---- */

static float
distance(const Data *d, uint32_t a, uint32_t b)
{
	return grn_dist->l2_f32(grn_row(&d->rows, a), grn_row(&d->rows, b), d->rows.dim);
}

/* What the merge of v's lists must keep: by the rule, one candidate at a time. */
static uint32_t
expected_list(const Data *d, uint32_t v, uint32_t *candidates, uint32_t n, uint32_t degree,
			  uint32_t *out)
{
	bool		kept[64] = {false};
	uint32_t	count = 0;

	for (uint32_t i = 1; i < n; i++)
		for (uint32_t j = i; j > 0 && distance(d, v, candidates[j - 1]) > distance(d, v, candidates[j]); j--)
		{
			uint32_t	swap = candidates[j];

			candidates[j] = candidates[j - 1];
			candidates[j - 1] = swap;
		}
	for (int pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < n && count < degree; i++)
		{
			bool		refused = kept[i];

			for (uint32_t j = 0; j < i && pass == 0 && !refused; j++)
				refused = kept[j] && distance(d, candidates[i], candidates[j]) <= distance(d, v, candidates[i]);
			if (refused)
				continue;
			kept[i] = true;
			count++;
		}
	count = 0;
	for (uint32_t i = 0; i < n; i++)
		if (kept[i])
			out[count++] = candidates[i];
	return count;
}

static void
test_merge(void)
{
	enum
	{
		N = 600, DEGREE = 12
	};
	Data		d = make_data(N, 5, fill_normal);
	char	   *work;
	GrnParts	parts = make_parts(&d, 4, 0.6f, &one, &work);
	size_t		members = parts.start[4];
	uint32_t   *lists = malloc(members * DEGREE * sizeof(uint32_t));
	GrnGraph	g = {malloc(N * DEGREE * sizeof(uint32_t)), malloc(N), N, DEGREE};
	GrnTile		tile;
	uint32_t	shared = 0;

	/* every member: 0 to DEGREE different members of its part */
	for (uint32_t c = 0; c < 4; c++)
		for (size_t i = parts.start[c]; i < parts.start[c + 1]; i++)
		{
			uint32_t	size = (uint32_t) (parts.start[c + 1] - parts.start[c]);
			uint32_t	first = unit_below(size);
			uint32_t	n = unit_below(DEGREE + 1);
			uint32_t	k = 0;

			for (uint32_t j = 0; k < n; j++)
				if (parts.members[parts.start[c] + (first + 3 * j) % size] != parts.members[i])
					lists[i * DEGREE + k++] = parts.members[parts.start[c] + (first + 3 * j) % size];
			for (; k < DEGREE; k++)
				lists[i * DEGREE + k] = GRN_INVALID_ID;
		}
	grn_tile_floats(&tile, &d.rows);
	d.rows.on_disk = true;
	grn_parts_merge(&tile, &parts, lists, &backwards, &g);
	for (uint32_t v = 0; v < N; v++)
	{
		uint32_t	candidates[2 * DEGREE];
		uint32_t	expected[DEGREE];
		uint32_t	n = 0;
		uint32_t	count;

		for (int guest = 0; guest < 2; guest++)
		{
			uint32_t	position = guest ? parts.guest[v] : parts.home[v];

			for (uint32_t i = 0; position != GRN_INVALID_ID && i < DEGREE; i++)
			{
				uint32_t	id = lists[position * DEGREE + i];
				bool		known = id == GRN_INVALID_ID;

				for (uint32_t j = 0; j < n && !known; j++)
				{
					known = candidates[j] == id;
					shared += known;
				}
				if (!known)
					candidates[n++] = id;
			}
		}
		count = expected_list(&d, v, candidates, n, DEGREE, expected);
		CHECK(g.counts[v] == count && memcmp(g.ids + v * DEGREE, expected, count * sizeof(uint32_t)) == 0,
			  "row %u: %u of %u candidates, expected %u", v, g.counts[v], n, count);
	}
	CHECK(shared > 0, "no candidate was in both lists of a row");
	unit_guarded_free(work, grn_parts_bytes(N, 5, 4, 0.6f));
	free(lists);
	free(g.ids);
	free(g.counts);
	free(d.base);
}

int
main(void)
{
	grn_dist_init();
	RUN(test_parts);
	RUN(test_parts_in_steps);
	RUN(test_parts_of_equal_rows);
	RUN(test_parts_of_clusters);
	RUN(test_deal);
	RUN(test_merge);
	UNIT_END();
}
