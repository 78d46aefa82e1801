/*
 * write_groups.c - the rows of long lists go into groups of near rows (store/group.h).
 *
 * The builder makes the groups with its threads, while leader and workers write pages with nodes.
 * In a small build, which has no builder process, the leader makes the groups.  The builder is
 * another program, so the leader checks groups before anybody reads them.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "am/create/create.h"
#include "am/create/write_index_impl.h"
#include "am/filter/filter.h"

static int
longer_first(const void *a, const void *b)
{
	const GrnListToGroup *x = a;
	const GrnListToGroup *y = b;

	if (x->n != y->n)
		return x->n < y->n ? 1 : -1;
	return (x->seed > y->seed) - (x->seed < y->seed);
}

/* Writes the head of LISTS, and what it says of each list with groups. */
static void
describe_lists(const GrnndNewIndex *new, char *base)
{
	const GrnLists *l = &new->plan.filters.lists;
	GrnListToGroup *lists = new->filters.lists.lists;
	uint32		n = 0;

	memcpy(base, l, sizeof(*l));
	for (uint32 b = 0; b < new->plan.filters.nbuckets; b++)
	{
		const GrnndBucket *of = &new->filters.buckets[b];

		if (grnnd_is_grouped(of))
			lists[n++] = (GrnListToGroup) {of->row, of->group, (uint32) (of[1].row - of->row),
										   of[1].group - of->group, b};
	}
	Assert(n == l->lists);
	qsort(lists, n, sizeof(*lists), longer_first);
}

void
grnnd_begin_groups(GrnndNewIndex *new, GrnndBuild *build)
{
	if (new->plan.filters.nbuckets == 0 || new->plan.filters.lists.lists == 0)
	{
		if (build->holds_builder)
			grnnd_build_release_builder(build);
		return;
	}
	describe_lists(new, build->map->base[GRN_SEG_LISTS]);
	if (build->holds_builder)
		grnnd_builder_group(&build->builder);
	else
		grnnd_group_in_backend(build);
}

/* Checks the groups of a bucket's list.  seen: room for a bit a row. */
static void
check_list(const GrnndNewIndex *new, const GrnndBucket *of, uint8 *seen)
{
	const uint32 *order = new->filters.lists.groups.order + of->row;
	uint32		n = (uint32) (of[1].row - of->row);
	uint32		room = grnnd_group_room(&new->layout);
	uint32		at = 0;

	memset(seen, 0, n / 8 + 1);
	for (uint32 group = of->group; group < of[1].group; group++)
	{
		uint32		end = new->filters.lists.groups.ends[group];

		if (end <= at || end - at > room || end > n)
			grnnd_bad_result("a group of a list has no row, or too many");
		for (; at < end; at++)
		{
			uint32		row = order[at];

			if (row >= n)
				grnnd_bad_result("a group has a row that is not in its list");
			if (seen[row / 8] >> row % 8 & 1)
				grnnd_bad_result("a row of a list is in two groups");
			seen[row / 8] |= (uint8) (1 << row % 8);
		}
	}
	if (at < n)
		grnnd_bad_result("a row of a list is in no group");
}

static void
check_groups(const GrnndNewIndex *new)
{
	uint8	   *seen = palloc(new->nodes / 8 + 1);

	for (uint32 b = 0; b < new->plan.filters.nbuckets; b++)
	{
		CHECK_FOR_INTERRUPTS();
		if (grnnd_is_grouped(&new->filters.buckets[b]))
			check_list(new, &new->filters.buckets[b], seen);
	}
	pfree(seen);
}

void
grnnd_take_groups(GrnndNewIndex *new, GrnndBuild *build)
{
	if (!build->holds_builder)
		return;
	grnnd_builder_await_end(&build->builder);
	check_groups(new);
	grnnd_build_release_builder(build);
}
