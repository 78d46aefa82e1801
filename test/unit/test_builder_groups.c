/*
 * test_builder_groups.c - groups of lists, as grnnd_build's leader (leader.h) sees them.
 *
 * The program is $GRNND_BUILD, or grnnd_build in the current directory or two above.
 */
#define _GNU_SOURCE
#include "leader.h"

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
	if (!find_builder("test_builder_groups"))
		return 1;
	grn_dist_init();
	RUN(test_groups_want_a_gpu);
	RUN(test_lists_make_sense);
	UNIT_END();
}
