/*
 * test_absent.c - other views of a graph: without one of its nodes, what lists that named it name
 * instead; with edges where searches ended too early.
 */
#include "search_world.h"

#include "store/prune.h"
#include "store/search.h"

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

/* ---- ways between regions ---- */

static void
world_edit(GrnStore *self, uint32_t id, GrnEditFn fn, void *arg)
{
	World	   *w = (World *) self;
	GrnRecord  *rec = record(w, id);
	uint32_t	before = rec->count;

	fn(arg, rec);
	CHECK(before < DEGREE ? rec->count == before + 1 : rec->count == before, "%u edges, then %u", before, rec->count);
}

/* GrnUpkeep.poll() */
static void
note_poll(void *arg)
{
	CHECK((*(int *) arg & 1) == 0, "a pause while others wait");
}

/* GrnUpkeep.hold() */
static void
note_hold(void *arg, uint32_t id, bool begin)
{
	int		   *holds = arg;

	CHECK((*holds & 1) == !begin && id < N, "%d times, %u", *holds, id);
	++*holds;
}

/* Marks what node 0 reaches. */
static void
mark_reached(World *w, bool *reached)
{
	uint32_t	queue[N] = {0};
	uint32_t	n = 1;

	memset(reached, 0, N * sizeof(bool));
	reached[0] = true;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < record(w, queue[i])->count; j++)
		{
			uint32_t	id = grn_rec_ids(&w->layout, record(w, queue[i]))[j];

			if (!reached[id])
			{
				reached[id] = true;
				queue[n++] = id;
			}
		}
}

/* The share of nodes that a search with a list of 8 finds. */
static double
share_found(World *w)
{
	uint32_t	found = 0;

	for (uint32_t id = 0; id < N; id++)
	{
		GrnSearchParams p = {.layout = &w->layout, .codec = &w->codec, .metric = grn_metric(w->metric), .ef = 8,
			.by_row = true};
		GrnSearch  *s = grn_search_begin(&p, &w->store, world_row(w, id));
		uint32_t	entry = 0;

		grn_search_entries(s, &entry, w->codes, w->factors, 1);
		found += grn_search_run(s) > 0 && grn_search_found(s)->id == id;
		grn_search_end(s);
	}
	return (double) found / N;
}

/* One of four regions of about as many nodes. */
static int
region(const World *w, uint32_t id)
{
	int			above[2] = {0};

	for (int j = 0; j < 2; j++)
		for (uint32_t i = 0; i < N; i += 10)
			above[j] += world_row(w, id)[j] > world_row(w, i)[j];
	return (above[0] > N / 20) + 2 * (above[1] > N / 20);
}

/*
 * Edges lead from one region to another by a few nodes alone: searches end in the region where
 * they begin, until edges are added.  Lists have room, or are full; all nodes stay reachable.
 */
static void
searches_find_ways_between_regions(void)
{
	for (int full = 0; full < 2; full++)
	{
		bool		codes = !full;
		int			regions[N];
		World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, codes);
		GrnStore   *store = &w->store;
		int			holds = 0;
		uint32_t	entry = 0;
		GrnNavigation n = {
			.upkeep = {.graph = {&w->layout, &w->codec, grn_metric(GRN_L2), &store, &entry, w->codes, w->factors, 1},
			.poll = note_poll, .hold = note_hold, .arg = &holds},
			.seed = 3, .ids = N, .first = 64, .round = 128, .most = 4096};
		bool		reached[N];
		bool		still[N];
		double		before;
		double		after;

		w->store.edit = world_edit;
		for (uint32_t i = 0; i < N; i++)
			regions[i] = region(w, i);
		for (uint32_t i = 0; i < N; i++)
		{
			uint8_t		kept = 0;

			for (uint8_t j = 0; j < w->counts[i]; j++)
				if (i % 500 == 0 || regions[i] == regions[w->graph[i][j]])
					w->graph[i][kept++] = w->graph[i][j];
			for (uint32_t j = 1; full && kept < DEGREE && j < N; j++)
			{
				uint32_t	id = (i + 7 * j) % N;
				bool		has = regions[id] != regions[i] || id == i;

				for (uint8_t k = 0; k < kept; k++)
					has |= w->graph[i][k] == id;
				if (!has)
					w->graph[i][kept++] = id;
			}
			w->counts[i] = kept;
		}
		free(w->records);
		write_records(w);
		mark_reached(w, reached);
		before = share_found(w);
		grn_make_navigable(&n);
		after = share_found(w);
		mark_reached(w, still);
		for (uint32_t i = 0; i < N; i++)
			CHECK(still[i] || !reached[i], "node %u is no longer reached", i);
		CHECK(before < 0.7 && after > 0.75, "%d: %.3f of the nodes are found, and then %.3f", full, before, after);
		CHECK(w->blocks == 0, "%zu blocks left", w->blocks);
		CHECK((holds > 0) == (full > 0) && holds % 2 == 0, "%d", holds);
		free_world(w);
	}
}

/* mark_reached() as a set of bits. */
static void
set_reached(World *w, bool *reached, uint64_t *bits)
{
	mark_reached(w, reached);
	for (uint32_t i = 0; i < N; i++)
		bits[i / 64] = (i % 64 == 0 ? 0 : bits[i / 64]) | (uint64_t) reached[i] << i % 64;
}

/*
 * No edge leads to some nodes, of which half have no edges themselves.  Each becomes reached by few
 * edges, and none is lost: from lists with room, from full lists that give up an edge that
 * neighbors replace, and from lists without such an edge, since even nodes lead to odd ones alone
 * and odd ones to even ones.
 */
static void
nodes_that_are_cut_off_are_connected(void)
{
	for (int kind = 0; kind < 3; kind++)
	{
		World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, kind != 1);
		GrnStore   *store = &w->store;
		int			holds = 0;
		bool		reached[N];
		uint64_t	bits[N / 64 + 1];
		uint32_t	entry = 0;
		uint32_t	connected = 0;
		GrnUpkeep	u = {.graph = {&w->layout, &w->codec, grn_metric(GRN_L2), &store, &entry, w->codes, w->factors, 1},
			.reached = bits, .limit = N, .hold = note_hold, .arg = &holds};

		w->store.edit = world_edit;
		for (uint32_t i = 0; i < N; i++)
		{
			uint8_t		kept = 0;

			for (uint8_t j = 0; j < w->counts[i] && kind < 2; j++)
				if (w->graph[i][j] % 10 != 7)
					w->graph[i][kept++] = w->graph[i][j];
			while (kind > 0 && kept < DEGREE)
			{
				uint32_t	id = (uint32_t) (unit_random() % N);
				bool		has = id == i || id % 10 == 7 || (kind == 2 && id % 2 == i % 2);

				for (uint8_t k = 0; k < kept; k++)
					has |= w->graph[i][k] == id;
				if (!has)
					w->graph[i][kept++] = id;
			}
			w->counts[i] = i % 20 == 7 ? 0 : kind == 0 && kept == DEGREE ? DEGREE - 1 : kept;
		}
		free(w->records);
		write_records(w);
		set_reached(w, reached, bits);
		for (uint32_t id = 0; id < N; id++)
		{
			bool		before[N];

			if (reached[id])
				continue;
			memcpy(before, reached, sizeof(before));
			CHECK(grn_connect_node(&u, 0, id, id % 100 == 7 ? 1 : GRN_INVALID_ID), "%d: node %u", kind, id);
			set_reached(w, reached, bits);
			CHECK(reached[id], "%d: node %u is not reached", kind, id);
			for (uint32_t i = 0; i < N; i++)
				CHECK(reached[i] || !before[i], "%d: node %u is no longer reached", kind, i);
			connected++;
		}
		CHECK(connected >= N / 20, "%d: %u", kind, connected);
		CHECK((holds > 0 || kind == 0) && holds % 2 == 0, "%d: %d", kind, holds);
		CHECK(w->blocks == 0, "%zu blocks left", w->blocks);
		free_world(w);
	}
}

int
main(void)
{
	RUN(lists_are_pruned_anew);
	RUN(lists_without_codes_stay);
	RUN(what_is_no_node_is_not_absent);
	RUN(searches_find_ways_between_regions);
	RUN(nodes_that_are_cut_off_are_connected);
	UNIT_END();
}
