/*
 * test_builder_groups.c - groups of lists, as grnnd_build's leader (leader.h) sees them.
 *
 * The program is $GRNND_BUILD, or grnnd_build in the current directory or two above.
 */
#define _GNU_SOURCE
#include "leader.h"
#include "store/group.h"

#define NODES 3000
#define LISTS 3
#define ROOM 50

static const uint32_t lengths[LISTS] = {1200, 600, 30};

/* A build, and lists behind it of every second of its nodes. */
static GrnLists *
begin_lists(Leader *l)
{
	GrnLists	head = {.lists = LISTS, .room = ROOM};
	GrnListToGroup lists[LISTS];
	GrnListArraysToGroup at;
	uint32_t	code_bytes;

	start_builder(l);
	l->spec.attr_bytes = 8;
	l->spec.sig_bytes = 1;
	build(l, NODES, 24, fill_normal);
	CHECK(l->last.type == GRN_MSG_DONE, "type %u", l->last.type);
	/* the leader trusts the result once it has checked it */
	CHECK(bytes_mapped(l->pid, true) == 0 && bytes_mapped(l->pid, false) > 0, "%llu bytes may be written",
		  (unsigned long long) bytes_mapped(l->pid, true));
	for (uint32_t i = 0; i < LISTS; i++)
	{
		lists[i] = (GrnListToGroup) {head.rows, (uint32_t) head.groups, lengths[i],
									 grn_groups(lengths[i], ROOM), i};
		head.rows += lengths[i];
		head.groups += lists[i].groups;
	}
	code_bytes = grn_code_bytes(l->last.u.result.shape);
	grow(l, GRN_SEG_LISTS, grn_place_lists(&head, code_bytes, NULL).bytes);
	memcpy(l->base[GRN_SEG_LISTS], &head, sizeof(head));
	at = grn_place_lists(&head, code_bytes, l->base[GRN_SEG_LISTS]);
	memcpy(at.lists, lists, sizeof(lists));
	for (uint32_t i = 0, row = 0; i < LISTS; i++)
		for (uint32_t k = 0; k < lengths[i]; k++)
			at.nodes[row++] = 2 * k + (i & 1);
	return (GrnLists *) l->base[GRN_SEG_LISTS];
}

static bool
say_group(Leader *l)
{
	memset(&l->last, 0, sizeof(l->last));
	say(l, GRN_MSG_GROUP, 0, 0);
	return converse(l, LIMIT_MS);
}

/* All rows of each list are in its groups, none of which is empty or has too many. */
static void
test_lists_get_groups(void)
{
	Leader		l;
	GrnLists   *head = begin_lists(&l);
	GrnListArraysToGroup at = grn_place_lists(head, grn_code_bytes(l.last.u.result.shape), head);
	const GrnListToGroup *lists = at.lists;

	for (int again = 0; again < 2; again++)
		CHECK(say_group(&l) && l.last.type == GRN_MSG_GROUPED, "type %u", l.last.type);
	for (uint32_t i = 0; i < LISTS; i++)
	{
		const uint32_t *order = at.groups.order + lists[i].row;
		const uint32_t *ends = at.groups.ends + lists[i].group;
		uint8_t		seen[NODES] = {0};
		uint32_t	rows = 0;

		for (uint32_t group = 0, row = 0; group < lists[i].groups; group++)
		{
			CHECK(ends[group] > row && ends[group] - row <= ROOM, "list %u, group %u: %u to %u", i, group, row, ends[group]);
			for (; row < ends[group]; row++)
			{
				CHECK(order[row] < lengths[i], "list %u: row %u", i, order[row]);
				rows += order[row] < lengths[i] && seen[order[row]]++ == 0;
			}
		}
		CHECK(rows == lengths[i], "list %u: %u rows", i, rows);
	}
	say(&l, GRN_MSG_RELEASE, 0, 0);
	CHECK(converse(&l, LIMIT_MS), "no RELEASED");
	end_builder(&l);
	CHECK(WIFEXITED(l.status) && WEXITSTATUS(l.status) == 0, "status %x", l.status);
}

/* Lists that cannot be, and GROUP before there is a result. */
static void
test_lists_make_sense(void)
{
	for (int wrong = 0; wrong < 14; wrong++)
	{
		Leader		l;
		GrnLists   *head = begin_lists(&l);
		GrnListArraysToGroup at = grn_place_lists(head, grn_code_bytes(l.last.u.result.shape), head);
		GrnListToGroup *lists = at.lists;

		switch (wrong)
		{
			case 0:
				head->lists = UINT64_MAX;
				break;
			case 1:
				head->rows = l.mapped[GRN_SEG_LISTS];
				break;
			case 2:
				head->groups--;
				break;
			case 3:
				head->room = 1;
				break;
			case 4:
				head->room = UINT64_C(1) << 32;
				break;
			case 5:
				lists[1].row = head->rows;
				break;
			case 6:
				lists[1].row = UINT64_MAX;
				break;
			case 7:
				lists[LISTS - 1].row++;
				break;
			case 8:
				lists[2].group++;
				break;
			case 9:
				lists[0].n = 0;
				break;
			case 10:
				lists[0].n++;
				lists[0].groups++;
				break;
			case 11:
				lists[0].groups--;
				break;
			case 12:
				at.nodes[5] = NODES;
				break;
			case 13:
				say(&l, GRN_MSG_RELEASE, 0, 0);
				CHECK(converse(&l, LIMIT_MS), "no RELEASED");
				break;
		}
		CHECK(say_group(&l) && l.last.type == GRN_MSG_FAILED && strcmp(l.last.sqlstate, "08P01") == 0,
			  "wrong %d: type %u", wrong, l.last.type);
		end_builder(&l);
	}
}

int
main(void)
{
	if (!find_builder("test_builder_groups"))
		return 1;
	grn_dist_init();
	RUN(test_lists_get_groups);
	RUN(test_lists_make_sense);
	UNIT_END();
}
