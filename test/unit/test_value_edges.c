/*
 * test_value_edges.c - edges of frequent values: which neighbours come, and which give way.
 */
#include "graph/build/value_edges.h"
#include "graph/stored/prune.h"
#include "unit.h"

#define ROWS 400
#define DIM 64
#define DEGREE 36

typedef struct World
{
	float		x[ROWS][DIM];
	uint8_t		numbers[ROWS][2];
	uint32_t	order[ROWS];	/* vertex i is row order[i] */
	uint32_t	ids[ROWS][DEGREE];
	uint8_t		counts[ROWS];
	GrnGraph	graph;
	GrnRows		rows;
	GrnValues	values;
} World;

static float
distance(const World *w, uint32_t a, uint32_t b)
{
	return grn_row_distance(&w->rows, grn_row(&w->rows, a), grn_row(&w->rows, b));
}

/* Edges for the first column. */
static void
add(World *w, uint32_t v, const uint32_t *near, uint32_t n, uint32_t most)
{
	grn_add_value_edges(&w->rows, &w->values, 0, &w->graph, v, near, n, most);
}

/* The nearest vertices of v, which pass where value is not 0: [most]. */
static uint32_t
nearest(const World *w, uint32_t v, uint8_t value, uint32_t *ids, uint32_t most)
{
	uint32_t	n = 0;

	for (uint32_t i = 0; i < ROWS; i++)
	{
		uint32_t	at;

		if (i == v || (value != 0 && grn_value(&w->values, &w->rows, 0, i) != value))
			continue;
		if (n == most && distance(w, v, i) >= distance(w, v, ids[n - 1]))
			continue;
		at = n < most ? n++ : n - 1;
		for (; at > 0 && distance(w, v, ids[at - 1]) > distance(w, v, i); at--)
			ids[at] = ids[at - 1];
		ids[at] = i;
	}
	return n;
}

static void
make_world(World *w)
{
	w->rows = (GrnRows) {.base = w->x, .order = w->order, .n = ROWS,
						 .row_bytes = sizeof(w->x[0]), .dim = DIM, .embedding = GRN_EMBED_ROW, .form = GRN_FORM_F32};
	w->values = (GrnValues) {&w->numbers[0][0], 2};
	w->graph = (GrnGraph) {&w->ids[0][0], w->counts, ROWS, DEGREE};
	for (uint32_t i = 0; i < ROWS; i++)
	{
		w->order[i] = (i * 7) % ROWS;
		w->numbers[i][0] = (uint8_t) (unit_below(10) < 2 ? 1 + unit_below(2) : 0);
		w->numbers[i][1] = (uint8_t) (unit_below(4) == 0 ? 9 : 0);
		for (uint32_t j = 0; j < DIM; j++)
			w->x[i][j] = (float) unit_normal();
	}
	for (uint32_t v = 0; v < ROWS; v++)
		w->counts[v] = (uint8_t) nearest(w, v, 0, w->ids[v], 3 + unit_below(DEGREE - 2));
}

static bool
share(const World *w, uint32_t a, uint32_t b)
{
	bool		shared = false;

	for (uint32_t c = 0; c < 2; c++)
		shared |= grn_value(&w->values, &w->rows, c, a) != 0 &&
			grn_value(&w->values, &w->rows, c, a) == grn_value(&w->values, &w->rows, c, b);
	return shared;
}

static void
edges_take_the_place_of_the_farthest(void)
{
	World	   *w = malloc(sizeof(World));
	uint32_t	all = 0;

	make_world(w);
	for (uint32_t v = 0; v < ROWS; v++)
	{
		uint8_t		value = grn_value(&w->values, &w->rows, 0, v);
		uint32_t	most = unit_below(5);
		uint32_t	near[8];
		uint32_t	n;
		uint32_t	before[DEGREE];
		uint32_t	count = w->counts[v];
		uint32_t	sharing;
		uint32_t	added = 0;
		uint32_t	vertex;
		int			last_rank = -1;

		if (value == 0)
			continue;
		n = nearest(w, v, value, near, 8);
		memcpy(before, w->ids[v], sizeof(before));
		sharing = grn_sharing(&w->rows, &w->values, 0, &w->graph, v);
		add(w, v, near, n, most);

		CHECK(grn_graph_check_range(&w->graph, v, v + 1, &vertex) == NULL, "%u is not sound", v);
		CHECK(w->counts[v] >= count, "%u of %u", w->counts[v], count);
		for (uint32_t i = 0; i < w->counts[v]; i++)
		{
			uint32_t	id = w->ids[v][i];

			/* those that stay keep their places */
			if (i < count && grn_find_id(before, count, id) >= 0)
				CHECK(before[i] == id, "%u: number %u was %u", v, i, before[i]);
			if (grn_find_id(before, count, id) < 0)
			{
				int			rank = grn_find_id(near, n, id);

				CHECK(rank >= 0, "%u has got %u", v, id);
				/* the nearest foremost, of those that stand where others did */
				CHECK(i >= count || rank > last_rank, "%u: number %u comes after a farther one", v, i);
				last_rank = i < count ? rank : last_rank;
				added++;
			}
		}
		/* the nearest stay, and those that share a value of any column */
		for (uint32_t i = 0; i < count; i++)
			CHECK((i >= 6 && !share(w, v, before[i])) || grn_find_id(w->ids[v], w->counts[v], before[i]) >= 0,
				  "%u has lost number %u", v, i);
		CHECK(added <= most && (added == 0 || sharing + added <= grn_enough_sharing(DEGREE)),
			  "%u added to %u", added, sharing);
		CHECK(grn_sharing(&w->rows, &w->values, 0, &w->graph, v) == sharing + added, "%u", v);
		all += added;
	}
	CHECK(all > 50, "%u edges", all);
	free(w);
}

/* As many as are wanted, where there is room; none where enough share the value. */
static void
edges_are_as_many_as_wanted(void)
{
	World	   *w = malloc(sizeof(World));
	uint32_t	near[4] = {10, 20, 30, 40};

	make_world(w);
	memset(w->numbers, 0, sizeof(w->numbers));
	w->numbers[w->order[0]][0] = 3;
	for (int i = 0; i < 4; i++)
		w->numbers[w->order[near[i]]][0] = 3;
	w->counts[0] = 1;
	w->ids[0][0] = 10;
	add(w, 0, near, 4, 2);
	CHECK(w->counts[0] == 3 && grn_find_id(w->ids[0], 3, 20) >= 0 && grn_find_id(w->ids[0], 3, 30) >= 0, "%u", w->counts[0]);

	add(w, 0, near, 4, 2);
	CHECK(w->counts[0] == 4 && w->ids[0][3] == 40, "%u", w->counts[0]);

	for (uint32_t i = 0; i < DEGREE; i++)
	{
		w->ids[0][i] = 100 + i;
		w->numbers[w->order[100 + i]][0] = 3;
	}
	w->counts[0] = DEGREE;
	add(w, 0, near, 4, 4);
	CHECK(w->ids[0][DEGREE - 1] == 100 + DEGREE - 1, "%u", w->ids[0][DEGREE - 1]);
	free(w);
}

/* Edges of a second column leave the nearest alone as well, and those of the first. */
static void
columns_do_not_take_from_each_other(void)
{
	World	   *w = malloc(sizeof(World));
	uint32_t	both = 0;

	make_world(w);
	for (uint32_t v = 0; v < ROWS; v++)
	{
		uint32_t	before[DEGREE];
		uint32_t	count = w->counts[v];
		uint32_t	first[8];
		uint32_t	second[8];
		uint32_t	n[2];
		bool		had[8];
		uint32_t	after_first[DEGREE];

		if (grn_value(&w->values, &w->rows, 0, v) == 0 || grn_value(&w->values, &w->rows, 1, v) == 0)
			continue;
		memcpy(before, w->ids[v], sizeof(before));
		n[0] = nearest(w, v, grn_value(&w->values, &w->rows, 0, v), first, 8);
		grn_add_value_edges(&w->rows, &w->values, 0, &w->graph, v, first, n[0], 2);
		for (uint32_t i = 0; i < n[0]; i++)
			had[i] = grn_find_id(w->ids[v], w->counts[v], first[i]) >= 0;
		n[1] = 0;
		for (uint32_t i = 0; i < ROWS && n[1] < 8; i++)
			if (i != v && grn_value(&w->values, &w->rows, 1, i) == 9)
				second[n[1]++] = i;
		memcpy(after_first, w->ids[v], sizeof(after_first));
		grn_add_value_edges(&w->rows, &w->values, 1, &w->graph, v, second, n[1], 2);
		both += memcmp(after_first, w->ids[v], sizeof(after_first)) != 0;
		for (uint32_t i = 0; i < count && i < 6; i++)
			CHECK(grn_find_id(w->ids[v], w->counts[v], before[i]) >= 0, "%u has lost number %u", v, i);
		for (uint32_t i = 0; i < n[0]; i++)
			CHECK(!had[i] || grn_find_id(w->ids[v], w->counts[v], first[i]) >= 0, "%u has lost an edge of the first column", v);
	}
	CHECK(both > 5, "%u lists", both);
	free(w);
}

static void
values_get_edges_by_their_share(void)
{
	for (int on_gpu = 0; on_gpu <= 1; on_gpu++)
	{
		double		most = on_gpu ? 550000 : 450000;

		CHECK(!grn_has_value_edges(999, 20000, on_gpu) && grn_has_value_edges(1000, 20000, on_gpu), "1,000 rows");
		CHECK(!grn_has_value_edges(24999, 1e6, on_gpu) && grn_has_value_edges(25000, 1e6, on_gpu), "a fortieth");
		CHECK(grn_has_value_edges(most - 1, 1e6, on_gpu) && !grn_has_value_edges(most + 1, 1e6, on_gpu),
			  "%g", most);
	}
	for (uint32_t degree = GRN_MIN_DEGREE; degree <= GRN_MAX_DEGREE; degree++)
		for (uint32_t columns = 1; columns <= 32; columns++)
		{
			uint32_t	edges = grn_most_value_edges(degree, columns, 48);

			CHECK(grn_most_value_edges(degree, columns, GRN_SHORT_CODE) <= edges, "of short codes as many or fewer");

			CHECK(edges == 0 || (edges >= GRN_FEWEST_VALUE_EDGES && edges * columns <= 2 * degree / 5),
				  "%u of %u for %u columns", edges, degree, columns);
		}
	CHECK(grn_most_value_edges(26, 1, 48) == 7 && grn_most_value_edges(32, 1, 48) == 8 &&
		  grn_most_value_edges(26, 2, 48) == 4 && grn_most_value_edges(26, 5, 48) == 0 &&
		  grn_most_value_edges(28, 1, 24) == 5, "of 26 to 32");
}

int
main(void)
{
	grn_dist_init();
	RUN(edges_take_the_place_of_the_farthest);
	RUN(edges_are_as_many_as_wanted);
	RUN(columns_do_not_take_from_each_other);
	RUN(values_get_edges_by_their_share);
	UNIT_END();
}
