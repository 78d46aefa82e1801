/*
 * test_builder_values.c - edges between rows that share a frequent value of a filter column, as
 * grnnd_build's leader (leader.h) sees them.
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

int
main(void)
{
	if (!find_builder("test_builder_values"))
		return 1;
	grn_dist_init();
	RUN(test_frequent_values);
	RUN(test_values_are_there);
	UNIT_END();
}
