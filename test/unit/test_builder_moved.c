/*
 * test_builder_moved.c - builds that memory does not hold, as grnnd_build's leader (leader.h) sees
 * them.
 *
 * The program is $GRNND_BUILD, or grnnd_build in the current directory or two above.
 */
#define _GNU_SOURCE
#include "moved.h"

/*
 * Rows move by cells if memory for all is short and the leader allows it: then the result says
 * which row is whose, and TIDs stay where they were.  What records keep of a row lies there instead
 * of it where it is shorter.
 */
static void
test_moved(void)
{
	const GrnKeep exact = GRN_KEEP_EXACT;
	const struct
	{
		uint32_t	dim;
		GrnKeep		keep;
		uint64_t	limit;
		bool		may_move,
					own_items;
		FillFn		fill;
		bool		copies;		/* among rows that have moved */
	}			cases[] = {{9, exact, 1 << 19, false, false, fill_repeated, false},
	{9, exact, 1 << 19, true, false, fill_repeated, false}, {9, exact, 1 << 19, true, false, fill_seldom_repeated, true},
	{32, GRN_KEEP_COMPACT, 1 << 19, true, true, fill_repeated, false},
	/* rows that are rounded as they move, unless few are distinct */
	{200, GRN_KEEP_DEFAULT, 1 << 19, true, true, fill_normal, false},
	{200, GRN_KEEP_DEFAULT, 1 << 19, true, true, fill_seldom_repeated, true},
	{200, GRN_KEEP_DEFAULT, 1 << 19, true, false, fill_few, false},
	/* more than the least that graph and results take, less than those and the workspace */
	{9, exact, 1 << 20, true, false, fill_repeated, false}, {32, GRN_KEEP_COMPACT, 1 << 20, true, true, fill_repeated, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i += unit_all() ? 1 : 2)
	{
		Leader		l;
		const GrnBuildResult *r = &l.last.u.result;

		start_builder(&l);
		l.spec.work_limit = cases[i].limit;
		l.spec.may_move = cases[i].may_move;
		l.spec.keep = cases[i].keep;
		send_rows(&l, 14000, cases[i].dim, cases[i].fill, 11);
		CHECK(converse(&l, LIMIT_MS), "no answer");
		CHECK(l.last.type == GRN_MSG_DONE && r->moved == (!cases[i].may_move ? 0 : cases[i].copies ? 14000 : r->nodes) &&
			  (r->own_items != 0) == cases[i].own_items,
			  "case %zu: message %u, moved %u, own items %u", i, l.last.type, r->moved, r->own_items);
		take_back(&l, 14000, cases[i].fill);
		l.by_digests = r->moved && r->parts > 0;
		l.rounded = r->own_items && cases[i].keep == GRN_KEEP_DEFAULT;
		check_result(&l, 14000);
		check_codes(&l);
		check_curve(&l.spec, r);
		end_builder(&l);
	}
}

int
main(void)
{
	if (!find_builder("test_builder_moved"))
		return 1;
	grn_dist_init();
	RUN(test_moved);
	UNIT_END();
}
