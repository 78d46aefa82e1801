/*
 * test_builder_values.c - edges between rows that share a frequent value of a filter column, and
 * groups of lists, as grnnd_build's leader (leader.h) sees them.
 *
 * The program is $GRNND_BUILD, or grnnd_build in the current directory or two above.
 */
#define _GNU_SOURCE
#include "leader.h"

#include "graph/build/value_edges.h"

/*
 * Of column 0 a tenth of the rows each has 1 to 4, half of them 5, and a few 6; the rest have no
 * frequent value.  Column 1 goes with the vectors.
 */
static uint8_t
test_value(uint32_t rank, uint32_t column)
{
	uint32_t	draw = (uint32_t) (grn_random(7, rank, column) % 1000);

	if (column == 1)
		return (uint8_t) (1 + rank % 10);
	return draw < 400 ? (uint8_t) (1 + draw / 100) : draw < 900 ? 5 : draw < 910 ? 6 : 0;
}

/* Ten wide clusters, by which column 1 goes. */
static void
fill_wide_clusters(float *x, uint32_t rank, uint32_t dim)
{
	fill_normal(x, rank, dim);
	for (uint32_t j = 0; j < dim; j++)
		x[j] += (float) (grn_random(2, rank % 10, j) >> 63);
}

/* Rows of a frequent value get neighbours with it; build() has all be reachable still. */
static void
test_frequent_values(void)
{
	for (uint32_t columns = 1; columns <= 2; columns++)
	{
		Leader		l;
		double		sharing[256];
		const GrnBuildResult *r = &l.last.u.result;

		start_builder(&l);
		l.spec.params.degree = 20;
		l.spec.attr_bytes = 8 * columns;
		l.spec.sig_bytes = columns;
		l.value = test_value;
		build(&l, 12000, 24, columns == 1 ? fill_normal : fill_wide_clusters);
		check_codes(&l);
		CHECK(r->value_edges[0] == grn_most_value_edges(20, 1, grn_code_bytes(r->shape)) && r->value_edges[1] == 0, "%u, %u",
			  r->value_edges[0], r->value_edges[1]);
		count_sharing(&l, 0, sharing);
		/* 2 at random, and at most 4 more */
		for (int value = 1; value <= 4; value++)
			CHECK(sharing[value] > 5 && sharing[value] < 6.5, "value %d: %g", value, sharing[value]);
		/* half the rows have more by themselves, and few rows have lists that are short */
		CHECK(sharing[5] > 8 && sharing[5] < 11, "%g", sharing[5]);
		CHECK(sharing[6] < 2, "%g", sharing[6]);
		if (columns == 2)
			count_sharing(&l, 1, sharing);
		/* rows of a cluster are neighbours anyway: their value gets no edges */
		CHECK(columns == 1 || sharing[1] > 10, "%g", sharing[1]);
		end_builder(&l);
	}
}

/* Three tenths of the rows have a value of column 0, and a tenth of all rows one of column 1. */
static uint8_t
value_of_few(uint32_t rank, uint32_t column)
{
	return grn_random(8, rank, column) % 10 < (column == 0 ? 3 : 1);
}

/* Two columns of these, and codes that are short. */
static void
build_of_few(Leader *l, uint32_t degree)
{
	start_builder(l);
	l->spec.params.degree = degree;
	l->spec.attr_bytes = 16;
	l->spec.sig_bytes = 2;
	l->value = value_of_few;
	build(l, 12000, 24, fill_normal);
}

/*
 * Rows that have frequent values of several columns take fewer edges of each.  Those that have one
 * do not, though others of the build do.
 */
static void
test_edges_by_row(void)
{
	Leader		l;
	double		sharing[256];
	const GrnBuildResult *r = &l.last.u.result;

	build_of_few(&l, 20);
	CHECK(grn_most_value_edges(20, 1, grn_code_bytes(r->shape)) == 4 &&
		  grn_most_value_edges(20, 2, grn_code_bytes(r->shape)) == 3, "degree 20");
	CHECK(r->value_edges[0] == 4 && r->value_edges[1] == 4, "%u, %u", r->value_edges[0], r->value_edges[1]);
	count_sharing(&l, 0, sharing);
	/* 9.3 and 5.7 where most rows take four, .7 less where all take three */
	CHECK(sharing[1] > 9, "%g", sharing[1]);
	count_sharing(&l, 1, sharing);
	CHECK(sharing[1] > 5.4, "%g", sharing[1]);
	end_builder(&l);
}

/* Beside short codes a list of 16 edges has three for one column, none for two. */
static void
test_edges_of_one_column(void)
{
	Leader		l;
	double		sharing[256];
	const GrnBuildResult *r = &l.last.u.result;

	build_of_few(&l, 16);
	CHECK(grn_most_value_edges(16, 1, grn_code_bytes(r->shape)) == 3 &&
		  grn_most_value_edges(16, 2, grn_code_bytes(r->shape)) == 0, "degree 16");
	CHECK(r->value_edges[0] == 3 && r->value_edges[1] == 0, "%u, %u", r->value_edges[0], r->value_edges[1]);
	count_sharing(&l, 0, sharing);
	/* 4.8 at random */
	CHECK(sharing[1] > 6.5, "%g", sharing[1]);
	count_sharing(&l, 1, sharing);
	CHECK(sharing[1] < 2.5, "%g", sharing[1]);
	end_builder(&l);
}

static uint32_t any_seed;

/* Of any kind: a value of two fifths, many, two of few rows, one of all, and two halves. */
static uint8_t
any_value(uint32_t rank, uint32_t column)
{
	uint32_t	draw = (uint32_t) (grn_random(any_seed, rank, column) % 1000);

	switch (grn_random(any_seed, column, 99) % 5)
	{
		case 0:
			return draw < 400;
		case 1:
			return (uint8_t) (1 + draw % (2 + any_seed % 30));
		case 2:
			return draw < 130 ? 9 : draw < 290 ? 200 : 0;
		case 3:
			return 5;
		default:
			return rank % 251 < 120 ? 255 : 1;
	}
}

/* Any columns, with lists of few edges and of many: build() looks at what comes of it. */
static void
test_any_columns(void)
{
	static const uint32_t degrees[] = {8, 12, 20, 28, 48, 96};
	uint32_t	with_edges = 0;

	for (any_seed = 0; any_seed < 12; any_seed += unit_all() ? 1 : 5)
	{
		Leader		l;
		uint32_t	columns = 1 + any_seed % 8;

		start_builder(&l);
		l.spec.params.degree = degrees[any_seed % 6];
		l.spec.attr_bytes = 8 * columns;
		l.spec.sig_bytes = columns;
		l.value = any_value;
		build(&l, 7001 + 70 * any_seed, 5 + 4 * any_seed, fill_normal);
		check_codes(&l);
		for (uint32_t c = 0; c < columns; c++)
			with_edges += l.last.u.result.value_edges[c] > 0;
		end_builder(&l);
	}
	CHECK(with_edges > 4, "%u columns have edges of their values", with_edges);
}

/* Values that BUILD promises must be there; a list of eight edges has none to spare. */
static void
test_values_are_there(void)
{
	Leader		l;

	start_builder(&l);
	l.spec.params.degree = 8;
	l.spec.attr_bytes = 8;
	l.spec.sig_bytes = 1;
	l.value = test_value;
	build(&l, 12000, 24, fill_normal);
	CHECK(l.last.u.result.value_edges[0] == 0, "%u", l.last.u.result.value_edges[0]);
	end_builder(&l);

	start_builder(&l);
	l.spec.dim = 4;
	l.spec.row_bytes = 16;
	l.spec.sig_bytes = 2;
	say(&l, GRN_MSG_START, 0, 0);
	grow(&l, GRN_SEG_VECTORS, 100 * 16);
	grow(&l, GRN_SEG_ORDER, 100 * 4);
	say_with(&l, &(GrnMsg) {.type = GRN_MSG_BUILD, .arg = {100, 0, 1}}, -1);
	CHECK(converse(&l, 10000) && l.last.type == GRN_MSG_FAILED && strcmp(l.last.sqlstate, "08P01") == 0,
		  "type %u", l.last.type);
	end_builder(&l);
}

#define GROUPED_ROWS 900

/* A build, and two lists behind it, of 600 and 300 of its nodes, for groups of 50 rows. */
static GrnListToGroup *
begin_lists(Leader *l)
{
	GrnGroupPlaces places = grn_group_places(2, GROUPED_ROWS);
	GrnListToGroup *lists;

	start_builder(l);
	l->spec.attr_bytes = 8;
	l->spec.sig_bytes = 1;
	build(l, 3000, 24, fill_normal);
	CHECK(l->last.type == GRN_MSG_DONE && places.bytes <= l->mapped[GRN_SEG_WORK], "type %u", l->last.type);
	/* of the result, which the leader trusts once it has checked it */
	CHECK(bytes_mapped(l->pid, true) == l->mapped[GRN_SEG_WORK] && bytes_mapped(l->pid, false) > l->mapped[GRN_SEG_WORK],
		  "%llu bytes may be written", (unsigned long long) bytes_mapped(l->pid, true));
	lists = (GrnListToGroup *) l->base[GRN_SEG_WORK];
	lists[0] = (GrnListToGroup) {0, 600, 13};
	lists[1] = (GrnListToGroup) {600, 300, 7};
	for (uint32_t i = 0; i < GROUPED_ROWS; i++)
		((uint32_t *) (l->base[GRN_SEG_WORK] + places.members))[i] = 3 * i;
	return lists;
}

static bool
say_group(Leader *l, uint64_t lists, uint64_t rows, uint64_t room)
{
	memset(&l->last, 0, sizeof(l->last));
	say_with(l, &(GrnMsg) {.type = GRN_MSG_GROUP, .arg = {lists, rows, room}}, -1);
	return converse(l, 10000);
}

/* Lists for groups: where no GPU has built, the builder says so, and can be released. */
static void
test_groups_want_a_gpu(void)
{
	Leader		l;

	begin_lists(&l);
	for (int again = 0; again < 2; again++)
		CHECK(say_group(&l, 2, GROUPED_ROWS, 50) && l.last.type == GRN_MSG_GROUPED && l.last.arg[0] == 0 &&
			  l.last.u.say.text[0], "type %u", l.last.type);
	say(&l, GRN_MSG_RELEASE, 0, 0);
	CHECK(converse(&l, 10000), "no RELEASED");
	end_builder(&l);
	CHECK(WIFEXITED(l.status) && WEXITSTATUS(l.status) == 0, "status %x", l.status);
}

/* Lists that cannot be, and GROUP before there is a result. */
static void
test_lists_make_sense(void)
{
	static const struct
	{
		uint64_t	lists,
					rows,
					room;
	}			said[] = {{2, GROUPED_ROWS, 50}, {2, GROUPED_ROWS - 1, 50}, {1, GROUPED_ROWS, 50}, {3, GROUPED_ROWS, 50},
	{2, GROUPED_ROWS, 0}, {2, GROUPED_ROWS, 40}, {2, UINT64_MAX, 50}, {UINT64_MAX / 16, GROUPED_ROWS, 50}};

	for (int wrong = 0; wrong < 13; wrong++)
	{
		Leader		l;
		GrnListToGroup *lists = begin_lists(&l);
		int			which = wrong < 8 ? wrong : 0;

		if (wrong == 8)
			lists[1].first = 599;
		else if (wrong == 9)
			lists[0].groups = 601;
		else if (wrong == 10)
			lists[1].groups = 0;
		else if (wrong == 11)
			lists[0].n = 0;
		else if (wrong == 0)
			((uint32_t *) (l.base[GRN_SEG_WORK] + grn_group_places(2, GROUPED_ROWS).members))[5] = 3000;
		else if (wrong == 12)
			say(&l, GRN_MSG_RELEASE, 0, 0);
		if (wrong == 12)
			CHECK(converse(&l, 10000), "no RELEASED");
		CHECK(say_group(&l, said[which].lists, said[which].rows, said[which].room) && l.last.type == GRN_MSG_FAILED &&
			  strcmp(l.last.sqlstate, "08P01") == 0, "wrong %d: type %u", wrong, l.last.type);
		end_builder(&l);
	}
}

int
main(void)
{
	if (!find_builder("test_builder_values"))
		return 1;
	grn_dist_init();
	RUN(test_frequent_values);
	RUN(test_edges_by_row);
	RUN(test_edges_of_one_column);
	RUN(test_any_columns);
	RUN(test_values_are_there);
	RUN(test_groups_want_a_gpu);
	RUN(test_lists_make_sense);
	UNIT_END();
}
