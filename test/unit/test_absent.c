/*
 * test_absent.c - a graph without one of its nodes: what lists that named it name instead.
 */
#include "search_world.h"

#include "graph/stored/absent.h"
#include "graph/stored/prune.h"

/* The neighbour of node x that is nearest to y and that y lacks; -1: none. */
static int
expected(const World *w, uint32_t x, uint32_t y)
{
	int			best = -1;

	for (int i = 0; i < w->counts[x]; i++)
	{
		uint32_t	z = w->graph[x][i];

		if (z != y && grn_find_id(w->graph[y], w->counts[y], z) < 0 &&
			(best < 0 || between(w, y, z) < between(w, y, w->graph[x][best])))
			best = i;
	}
	return best;
}

static void
check_lists(World *w, uint32_t x)
{
	const GrnLayout *l = &w->layout;
	GrnAbsent  *a = grn_absent_begin(&w->store, l, grn_metric(w->metric), NORM_UNIT, x);
	uint32_t	changed = 0;

	CHECK(a != NULL, "node %u", x);
	for (uint32_t y = 0; y < N; y++)
	{
		const GrnRecord *rec = record(w, y);
		const GrnRecord *seen = grn_absent_view(a, y, rec, GRN_REC_PTR(rec, l->off_vec));
		int			at = grn_find_id(w->graph[y], w->counts[y], x);
		int			best = at < 0 || y == x ? -1 : expected(w, x, y);

		if (y == x || best < 0)
		{
			CHECK(seen == (y == x ? NULL : rec), "%u is changed without %u", y, x);
			continue;
		}
		changed++;
		CHECK(seen != NULL && seen != rec && seen->count == rec->count, "%u is as with %u", y, x);
		for (uint32_t i = 0; i < rec->count; i++)
		{
			const GrnRecord *from = i == (uint32_t) at ? record(w, x) : rec;
			uint32_t	j = i == (uint32_t) at ? (uint32_t) best : i;
			uint32_t	id = grn_rec_ids(l, seen)[i];

			if (i == (uint32_t) at)
				/* equally near ones aside */
				CHECK(between(w, y, id) <= between(w, y, w->graph[x][best]) * 1.0001f,
					  "%u for %u in the list of %u", id, x, y);
			else
				CHECK(id == w->graph[y][i], "edge %u of %u without %u", i, y, x);
			if (id != grn_rec_ids(l, from)[j])
				continue;
			CHECK(memcmp(grn_rec_codes(l, seen) + i * l->code_bytes,
						 grn_rec_codes(l, from) + j * l->code_bytes, l->code_bytes) == 0 &&
				  (l->factor_bytes == 0 ||
				   memcmp(&grn_rec_factors(l, seen)[i], &grn_rec_factors(l, from)[j],
						  sizeof(GrnFactor)) == 0), "code of edge %u of %u", i, y);
		}
	}
	CHECK(changed > 0, "nobody lists %u", x);
	grn_absent_end(&w->store, a);
	CHECK(w->blocks == 0, "memory is left");
}

static void
lists_get_the_nearest_successor(void)
{
	for (int metric = GRN_L2; metric <= GRN_IP; metric++)
		for (int codes = 0; codes < 2; codes++)
			for (int pages = 0; pages < 2; pages++)
			{
				World	   *w;

				world_pages = pages == 1 && codes == 1;
				w = make_world((GrnMetric) metric, 24, GRN_FORM_F32, codes);
				for (uint32_t x = 0; x < N; x += 250)
					check_lists(w, x);
				free_world(w);
			}
	world_pages = false;
}

/* Neither a dead node nor a free slot. */
static void
what_is_no_node_is_not_absent(void)
{
	World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, 1);
	const GrnRecord *rec = record(w, 3);

	record(w, 7)->state = GRN_DEAD;
	CHECK(grn_absent_begin(&w->store, &w->layout, grn_metric(GRN_L2), 1, 7) == NULL, "a dead node");
	record(w, 7)->state = GRN_FREE;
	record(w, 7)->count = 0;
	CHECK(grn_absent_begin(&w->store, &w->layout, grn_metric(GRN_L2), 1, 7) == NULL, "a free slot");
	CHECK(w->blocks == 0, "memory is left");
	CHECK(grn_absent_view(NULL, 3, rec, GRN_REC_PTR(rec, w->layout.off_vec)) == rec, "nothing is absent");
	free_world(w);
}

int
main(void)
{
	RUN(lists_get_the_nearest_successor);
	RUN(what_is_no_node_is_not_absent);
	UNIT_END();
}
