/*
 * test_absent.c - a graph without one of its nodes: what lists that named it name instead.
 */
#include "search_world.h"

#include "graph/stored/absent.h"
#include "graph/stored/prune.h"

#define LOOKS 8					/* as in absent.c */

/* The estimate of the distance of two rows, by the code of the first. */
static float
estimate(const World *w, uint32_t from, uint32_t to)
{
	size_t		bytes = w->layout.code_bytes;
	GrnCodeQuery query;
	float		d;

	grn_code_query_from_code(&w->codec, w->codes + from * bytes, w->factors[from], &query);
	grn_estimate(&query, w->codes + to * bytes, &w->factors[to], 1, &d);
	return d;
}

/* Whether the list of y, without x, keeps z out. */
static bool
is_refused(const World *w, uint32_t x, uint32_t y, uint32_t z)
{
	float		d = estimate(w, y, z);

	for (int i = 0; i < w->counts[y]; i++)
	{
		uint32_t	v = w->graph[y][i];

		if (v != x && estimate(w, y, v) <= d && estimate(w, z, v) < d)
			return true;
	}
	return false;
}

/* What y lists instead of x, by the RNG rule among neighbors of neighbors; N: nothing. */
static uint32_t
expected(const World *w, uint32_t x, uint32_t y)
{
	bool		candidate[N] = {false};
	uint32_t	fill = N;

	for (int i = 0; i < w->counts[x]; i++)
	{
		uint32_t	z = w->graph[x][i];

		candidate[z] = true;
		for (int j = 0; j < w->counts[z]; j++)
			candidate[w->graph[z][j]] = true;
	}
	candidate[x] = candidate[y] = false;
	for (int i = 0; i < w->counts[y]; i++)
		candidate[w->graph[y][i]] = false;
	for (int look = 0; look < LOOKS; look++)
	{
		uint32_t	nearest = N;

		for (uint32_t z = 0; z < N; z++)
			if (candidate[z] && (nearest == N || estimate(w, y, z) < estimate(w, y, nearest)))
				nearest = z;
		if (nearest == N)
			break;
		if (!is_refused(w, x, y, nearest))
			return nearest;
		if (fill == N)
			fill = nearest;
		candidate[nearest] = false;
	}
	return fill;
}

/* What stands at position i of a list: the edge to id, or another one. */
static bool
is_edge(const World *w, const GrnRecord *rec, uint32_t i, uint32_t id)
{
	const GrnLayout *l = &w->layout;
	GrnFactor	factor = grn_rec_factor(l, rec, i);

	return grn_rec_ids(l, rec)[i] == id &&
		memcmp(grn_rec_codes(l, rec) + i * l->code_bytes, w->codes + (size_t) id * l->code_bytes,
			   l->code_bytes) == 0 &&
		memcmp(&factor, &w->factors[id], sizeof(factor)) == 0;
}

/* codes: else lists stay as they are.  Returns how many new edges lead to no neighbor of x. */
static uint32_t
check_lists(World *w, uint32_t x, bool codes)
{
	GrnAbsent  *a = grn_absent_begin(&w->store, &w->layout, codes ? &w->codec : &(GrnCodec) {0}, x);
	uint32_t	changed = 0;
	uint32_t	elsewhere = 0;

	CHECK(a != NULL, "node %u", x);
	/* (the second time it is remembered) */
	for (uint32_t n = 0; n < 2 * N; n++)
	{
		uint32_t	y = n % N;
		const GrnRecord *rec = record(w, y);
		const GrnRecord *seen = grn_absent_view(a, y, rec);
		int			at = grn_find_id(w->graph[y], w->counts[y], x);
		uint32_t	other = at < 0 || y == x || !codes ? N : expected(w, x, y);

		if (y == x || other == N)
		{
			CHECK(seen == (y == x ? NULL : rec), "%u is changed without %u", y, x);
			continue;
		}
		changed++;
		elsewhere += grn_find_id(w->graph[x], w->counts[x], other) < 0;
		CHECK(seen != NULL && seen != rec && seen->count == rec->count, "%u is as with %u", y, x);
		for (uint32_t i = 0; i < rec->count; i++)
			CHECK(is_edge(w, seen, i, i == (uint32_t) at ? other : w->graph[y][i]),
				  "edge %u of %u without %u: to %u", i, y, x, grn_rec_ids(&w->layout, seen)[i]);
	}
	CHECK(changed > 0 || !codes, "nobody lists %u", x);
	grn_absent_end(&w->store, a);
	CHECK(w->blocks == 0, "memory is left");
	return elsewhere;
}

static void
lists_are_pruned_anew(void)
{
	for (int metric = GRN_L2; metric <= GRN_IP; metric++)
	{
		World	   *w = make_world((GrnMetric) metric, 24, GRN_FORM_F32, 1);
		uint32_t	elsewhere = 0;

		for (uint32_t x = 0; x < N; x += 250)
			elsewhere += check_lists(w, x, true);
		CHECK(elsewhere > 0, "no edge leads elsewhere");
		free_world(w);
	}
}

/* Without codes the node alone is not there. */
static void
lists_without_codes_stay(void)
{
	World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, 0);

	for (uint32_t x = 0; x < N; x += 250)
		check_lists(w, x, false);
	free_world(w);
}

/* Neither a dead node nor a free slot. */
static void
what_is_no_node_is_not_absent(void)
{
	World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, 1);
	const GrnRecord *rec = record(w, 3);

	record(w, 7)->state = GRN_DEAD;
	CHECK(grn_absent_begin(&w->store, &w->layout, &w->codec, 7) == NULL, "a dead node");
	record(w, 7)->state = GRN_FREE;
	record(w, 7)->count = 0;
	CHECK(grn_absent_begin(&w->store, &w->layout, &w->codec, 7) == NULL, "a free slot");
	CHECK(w->blocks == 0, "memory is left");
	CHECK(grn_absent_view(NULL, 3, rec) == rec, "nothing is absent");
	free_world(w);
}

int
main(void)
{
	RUN(lists_are_pruned_anew);
	RUN(lists_without_codes_stay);
	RUN(what_is_no_node_is_not_absent);
	UNIT_END();
}
