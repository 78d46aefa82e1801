/*
 * write_groups.c - the rows of long lists go into groups of near ones (stored/group.h).
 *
 * Where a GPU has built the graph, it chooses the groups, too, while pages of nodes are written: on
 * cores that takes as long as writing does.  The lists go to the builder, and come back as numbers
 * of groups, in segment WORK, which it needs no more.  Leader and workers then place the rows, list
 * by list, and find the middles.  Else they make the groups, before they write.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "utils/wait_event.h"

#include "am/create/write_index_impl.h"
#include "am/lists.h"

/* So few rows are in groups on cores before a GPU has them. */
#ifdef GRNND_TEST_POINTS
#define LEAST_ROWS 1			/* for small builds to have that, too */
#else
#define LEAST_ROWS 30000
#endif

/* Groups whose middles a process finds in one go. */
#define GROUPS_AT_ONCE 64

/* ---- who chooses ---- */

void
grnnd_groups_init(GrnndGrouping *grouping)
{
	pg_atomic_init_u64(&grouping->next_list, 0);
	pg_atomic_init_u64(&grouping->placed, 0);
	pg_atomic_init_u64(&grouping->next_group, 0);
	pg_atomic_init_u64(&grouping->middles, 0);
	pg_atomic_init_u32(&grouping->awaited, 0);
	ConditionVariableInit(&grouping->changed);
}

bool
grnnd_may_choose_groups(const GrnndBuild *build, const GrnBuildResult *result)
{
	/* beyond memory WORK has rows, or lies on a disk */
	return build->spec.sig_bytes > 0 && result->on_gpu && build->builder.spec.remote == GRN_REMOTE_NONE &&
		!result->moved && grn_code_bytes(result->shape) > 0 && build->map->file_size[GRNND_FILE_DISK] == 0;
}

/* Rows of all lists with groups. */
static uint64
rows_to_group(const GrnndNewIndex *new)
{
	return new->filters.buckets > 0 ? new->list_group_rows[new->filters.buckets] : 0;
}

/* Puts the lists with groups into WORK, as the builder is to have them; returns how many. */
static uint32
put_lists(const GrnndNewIndex *new, GrnListToGroup *lists)
{
	uint32		n = 0;

	for (uint32 b = 0; b < new->filters.buckets; b++)
	{
		if (!grnnd_is_grouped(new, b))
			continue;
		if (lists != NULL)
			lists[n] = (GrnListToGroup) {new->list_group_rows[b], new->list_lengths[b],
										 new->list_group_starts[b + 1] - new->list_group_starts[b]};
		n++;
	}
	return n;
}

void
grnnd_plan_groups(GrnndNewIndex *new, GrnndBuild *build, GrnndGrouping *grouping)
{
	uint64		rows = rows_to_group(new);
	uint32		lists = rows >= LEAST_ROWS ? put_lists(new, NULL) : 0;
	GrnCodec	codec;

	if (!build->holds_builder)
		return;
	if (lists > 0 && grn_group_places(lists, rows).bytes <= build->map->size[GRN_SEG_WORK])
	{
		grnnd_find_codec(new, &codec);
		if (grn_group_refined_dims(&codec) > 0)
		{
			new->filters.to_group = lists;
			/* before a worker looks */
			pg_atomic_write_u32(&grouping->awaited, 1);
			grnnd_find_groups(new, build->map);
			put_lists(new, (GrnListToGroup *) build->map->base[GRN_SEG_WORK]);
			return;
		}
	}
	grnnd_build_release_builder(build);
}

void
grnnd_find_groups(GrnndNewIndex *new, const GrnndMapping *map)
{
	const GrnndFilterPlan *p = &new->filters;
	GrnGroupPlaces places;

	if (p->to_group == 0)
		return;
	places = grn_group_places(p->to_group, rows_to_group(new));
	new->group_members = (uint32 *) (map->base[GRN_SEG_WORK] + places.members);
	new->group_chosen = (const uint32 *) (map->base[GRN_SEG_WORK] + places.chosen);
	new->group_copied = (const uint32 *) (map->base[GRN_SEG_WORK] + places.copied);
}

void
grnnd_begin_groups(GrnndNewIndex *new, GrnndBuild *build)
{
	if (new->filters.to_group == 0)
		return;
#ifdef GRNND_TEST_POINTS
	/* workers come to their pages first, and must not make groups then */
	pg_usleep(50000);
#endif
	grnnd_builder_group(&build->builder, new->filters.to_group, rows_to_group(new),
						grnnd_group_room(&new->layout));
}

/* ---- groups ---- */

/* GrnGrouping.look() */
static void
look(void *unused)
{
	CHECK_FOR_INTERRUPTS();
}

/* Puts the rows of a bucket's list into groups, if it is to have any. */
static void
group_list(GrnndNewIndex *new, uint32 bucket, bool chosen)
{
	const GrnLayout *l = &new->layout;
	uint32		group = new->list_group_starts[bucket];
	uint32		ngroups = new->list_group_starts[bucket + 1] - group;
	uint32		n = new->list_lengths[bucket];
	GrnGrouped *rows = new->list_rows + new->list_row_starts[bucket];
	GrnCodec	codec;
	GrnGrouping g = {.codec = &codec, .codes = new->codes, .factors = new->factors,
		.room = grnnd_group_room(l), .seed = bucket, .look = look};
	GrnGroups	groups = {new->group_ends + group, new->middles + (uint64) group * l->code_bytes,
		new->middle_factors + group};
	void	   *workspace;

	if (!grnnd_is_grouped(new, bucket))
		return;
	grnnd_find_codec(new, &codec);
	workspace = palloc_extended(chosen ? grn_group_place_bytes(n, ngroups)
								: grn_group_bytes(&codec, n, g.room), MCXT_ALLOC_HUGE);
	if (!chosen)
		grn_group_rows(&g, rows, n, &groups, workspace);
	else if (!grn_group_place(rows, n, new->group_chosen + new->list_group_rows[bucket],
							  new->group_copied + new->list_group_rows[bucket], ngroups, g.room,
							  groups.ends, new->group_own + group, workspace))
		grnnd_bad_result("a group of a list has too many rows, or does not exist");
	pfree(workspace);
}

/* Finds the middles of groups that have been chosen: [begin, end) of all lists'. */
static void
find_middles(GrnndNewIndex *new, uint32 begin, uint32 end)
{
	const GrnLayout *l = &new->layout;
	GrnCodec	codec;
	GrnGrouping g = {.codec = &codec, .codes = new->codes, .factors = new->factors};

	grnnd_find_codec(new, &codec);
	for (uint32 group = begin; group < end; group++)
	{
		uint32		bucket = grnnd_bucket_of(new->list_group_starts, new->filters.buckets, group);
		const GrnGrouped *rows = new->list_rows + new->list_row_starts[bucket];

		if (group > new->list_group_starts[bucket])
			rows += new->group_ends[group - 1];
		if (new->group_own[group] == 0)
			grnnd_bad_result("a group of a list has no row");
		grn_group_middle(&g, rows, new->group_own[group], new->middles + (uint64) group * l->code_bytes,
						 &new->middle_factors[group]);
	}
}

/* The builder has nothing more to say of groups: tells the workers, and lets it go. */
static void
end_awaiting(GrnndBuild *build, GrnndGrouping *grouping)
{
	grouping->chosen = build->builder.grouped;
	pg_write_barrier();
	pg_atomic_write_u32(&grouping->awaited, 0);
	ConditionVariableBroadcast(&grouping->changed);
	grnnd_build_release_builder(build);
}

/* Groups of all lists. */
static uint64
all_groups(const GrnndNewIndex *new)
{
	return new->filters.buckets > 0 ? new->list_group_starts[new->filters.buckets] : 0;
}

/* This process's share of the lists. */
static void
group_lists(GrnndNewIndex *new, GrnndGrouping *grouping)
{
	uint64		done = 0;
	uint64		bucket;

	for (; (bucket = pg_atomic_fetch_add_u64(&grouping->next_list, 1)) < new->filters.buckets; done++)
	{
		CHECK_FOR_INTERRUPTS();
		group_list(new, (uint32) bucket, grouping->chosen);
	}
	if (pg_atomic_fetch_add_u64(&grouping->placed, done) + done == new->filters.buckets)
		ConditionVariableBroadcast(&grouping->changed);
}

bool
grnnd_make_groups(GrnndNewIndex *new, GrnndBuild *build, GrnndGrouping *grouping)
{
	uint64		begin;

	if (build != NULL && pg_atomic_read_u32(&grouping->awaited) == 1)
	{
		grnnd_builder_poll(&build->builder);
		if (!build->builder.waiting)
			end_awaiting(build, grouping);
	}
	if (new->group_step == GRNND_GROUP_LISTS && pg_atomic_read_u32(&grouping->awaited) == 0)
	{
		pg_read_barrier();
		group_lists(new, grouping);
		new->group_step = grouping->chosen ? GRNND_GROUP_MIDDLES : GRNND_GROUP_NOTHING;
	}
	if (new->group_step == GRNND_GROUP_MIDDLES && pg_atomic_read_u64(&grouping->placed) == new->filters.buckets)
	{
		pg_read_barrier();
		while ((begin = pg_atomic_fetch_add_u64(&grouping->next_group, GROUPS_AT_ONCE)) < all_groups(new))
		{
			uint64		end = Min(begin + GROUPS_AT_ONCE, all_groups(new));

			CHECK_FOR_INTERRUPTS();
			find_middles(new, (uint32) begin, (uint32) end);
			pg_atomic_fetch_add_u64(&grouping->middles, end - begin);
		}
		new->group_step = GRNND_GROUP_NOTHING;
	}
	return new->group_step == GRNND_GROUP_NOTHING;
}

void
grnnd_await_groups(GrnndNewIndex *new, GrnndBuild *build, GrnndGrouping *grouping)
{
	if (build != NULL && pg_atomic_read_u32(&grouping->awaited) == 1)
		grnnd_builder_await_end(&build->builder);
	ConditionVariablePrepareToSleep(&grouping->changed);
	while (!grnnd_make_groups(new, build, grouping))
		ConditionVariableSleep(&grouping->changed, PG_WAIT_EXTENSION);
	ConditionVariableCancelSleep();
}

bool
grnnd_are_grouped(const GrnndNewIndex *new, GrnndGrouping *grouping)
{
	bool		are = pg_atomic_read_u64(&grouping->placed) == new->filters.buckets &&
		(!grouping->chosen || pg_atomic_read_u64(&grouping->middles) == all_groups(new));

	pg_read_barrier();
	return are;
}
