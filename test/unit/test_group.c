/*
 * test_group.c - groups of near rows within a list: nothing is lost, near rows are together,
 * middles lie in the middle, and a closed search that reads the nearest groups finds what one of
 * all finds.
 */
#include "space/kernels/dist.h"
#include "store/group_impl.h"
#include "store/search.h"
#include "search_world.h"

#define ROOM 12
#define MANY 40000
#define LONG_ROWS 256
#define LONG_DIMS 96

/* Rows in their groups. */
typedef struct Groups
{
	uint32_t   *nodes;			/* of the rows as they come */
	uint32_t   *rows;			/* [ends[n - 1]] in the order of groups: the order that was made */
	uint32_t	n;
	GrnGroups	made;
} Groups;

static void
free_groups(Groups *groups)
{
	free(groups->nodes);
	free(groups->rows);
	free(groups->made.ends);
	free(groups->made.middles);
	free(groups->made.factors);
}

/* The first n rows, not yet in groups. */
static Groups
all_rows(const GrnGrouping *g, uint32_t n)
{
	Groups		groups = {.n = grn_groups(n, g->room)};

	groups.nodes = malloc(n * sizeof(uint32_t));
	groups.rows = groups.made.order = malloc(n * sizeof(uint32_t));
	groups.made.ends = malloc(groups.n * sizeof(uint32_t));
	groups.made.middles = malloc(groups.n * grn_code_bytes(g->codec->shape));
	groups.made.factors = malloc(groups.n * sizeof(GrnFactor));
	for (uint32_t i = 0; i < n; i++)
		groups.nodes[i] = groups.rows[i] = i;
	return groups;
}

static uint32_t
begin_of(const Groups *groups, uint32_t group)
{
	return group > 0 ? groups->made.ends[group - 1] : 0;
}

static double
apart(const World *w, uint32_t a, uint32_t b)
{
	double		d = 0;

	for (uint32_t j = 0; j < w->dim; j++)
		d += pow(world_row(w, a)[j] - world_row(w, b)[j], 2);
	return d;
}

/* The mean squared distance of two rows of a group. */
static double
spread(const World *w, const uint32_t *rows, const uint32_t *ends, uint32_t groups)
{
	double		sum = 0;
	uint32_t	pairs = 0;

	for (uint32_t group = 0, first = 0; group < groups; first = ends[group++])
		for (uint32_t i = first; i < ends[group]; i++)
			for (uint32_t j = first; j < i; j++, pairs++)
				sum += apart(w, rows[i], rows[j]);
	return sum / pairs;
}

/* No group is empty, none has more rows than its room, and together they have each row once. */
static void
check_groups(const Groups *groups, uint32_t n, uint32_t room)
{
	const uint32_t *ends = groups->made.ends;
	const uint32_t *rows = groups->rows;
	uint8_t    *seen = calloc(n, 1);
	uint32_t	at = 0;

	for (uint32_t group = 0; group < groups->n; group++)
	{
		CHECK(ends[group] > at && ends[group] - at <= room, "group %u of %u: %u to %u", group, groups->n, at, ends[group]);
		for (; at < ends[group]; at++)
			CHECK(rows[at] < n && seen[rows[at]]++ == 0, "row %u twice", rows[at]);
	}
	CHECK(at == n, "%u of %u rows", at, n);
	free(seen);
}

/* Puts the first n rows into groups. */
static Groups
make_groups(const GrnGrouping *g, uint32_t n)
{
	Groups		groups = all_rows(g, n);
	void	   *workspace = malloc(grn_group_bytes(g->codec, n, g->room));

	grn_group_rows(g, groups.nodes, n, &groups.made, workspace);
	check_groups(&groups, n, g->room);
	free(workspace);
	return groups;
}

static const GrnMetric metrics[] = {GRN_L2, GRN_COSINE, GRN_IP};

/* Two rows of a group are nearer to each other than any two, whatever the metric's codes. */
static void
near_rows_are_together(void)
{
	for (size_t m = 0; m < sizeof(metrics) / sizeof(metrics[0]); m++)
	{
		World	   *w = make_world(metrics[m], 32, GRN_FORM_F32, true);
		GrnGrouping g = world_grouping(w, ROOM);
		Groups		any = all_rows(&g, N);
		Groups		near = make_groups(&g, N);
		double		before;
		double		after;

		for (uint32_t i = 0; i < any.n; i++)
			any.made.ends[i] = (uint32_t) ((uint64_t) N * (i + 1) / any.n);
		before = spread(w, any.rows, any.made.ends, any.n);
		after = spread(w, near.rows, near.made.ends, near.n);
		/* (rows of inner product do not move) */
		CHECK(after < (metrics[m] == GRN_IP ? 0.75 : 0.55) * before, "metric %d: %g of %g", metrics[m], after, before);
		printf("# metric %d: %.2f of the squared distance\n", metrics[m], after / before);
		free_groups(&any);
		free_groups(&near);
		free_world(w);
	}
}

/* The middle of a group is nearer to its rows than another group's is, mostly. */
static void
middles_are_near(void)
{
	for (size_t m = 0; m < sizeof(metrics) / sizeof(metrics[0]); m++)
	{
		World	   *w = make_world(metrics[m], 32, GRN_FORM_F32, true);
		GrnGrouping g = world_grouping(w, ROOM);
		Groups		groups = make_groups(&g, N);
		uint32_t	all = groups.made.ends[groups.n - 1];
		float	   *estimates = malloc(groups.n * sizeof(float));
		uint32_t	nearer = 0;

		for (uint32_t i = 0, group = 0; i < all; i++)
		{
			GrnCodeQuery q;
			float		scratch[GRN_MAX_CODE_DIMS];
			uint32_t	rank = 0;

			while (i >= groups.made.ends[group])
				group++;
			grn_code_query(&w->codec, world_row(w, groups.rows[i]), &q, scratch);
			grn_estimate(&q, groups.made.middles, groups.made.factors, groups.n, estimates);
			for (uint32_t k = 0; k < groups.n; k++)
				rank += estimates[k] < estimates[group];
			nearer += rank < groups.n / 8;
		}
		/* (under inner product long rows' groups are near to every query) */
		CHECK(nearer > (metrics[m] == GRN_IP ? 0.3 : 0.8) * all, "metric %d: %u", metrics[m], nearer);
		free(estimates);
		free_groups(&groups);
		free_world(w);
	}
}

/* Rows of a list lie anywhere among the nodes. */
static void
nodes_lie_anywhere(void)
{
	World	   *w = make_world(GRN_L2, 32, GRN_FORM_F32, true);
	uint32_t	bytes = w->layout.code_bytes;
	uint32_t	n = N / 3;
	GrnGrouping g = world_grouping(w, ROOM);
	GrnGrouping packed = g;
	uint8_t    *codes = malloc(n * bytes);
	GrnFactor  *factors = malloc(n * sizeof(GrnFactor));
	Groups		scattered = all_rows(&g, n);
	Groups		expected;
	void	   *workspace = malloc(grn_group_bytes(g.codec, n, g.room));

	for (uint32_t i = 0; i < n; i++)
	{
		scattered.nodes[i] = (i * 7 + 5) % N;
		memcpy(codes + i * bytes, g.codes + scattered.nodes[i] * bytes, bytes);
		factors[i] = g.factors[scattered.nodes[i]];
	}
	packed.codes = codes;
	packed.factors = factors;
	expected = make_groups(&packed, n);
	grn_group_rows(&g, scattered.nodes, n, &scattered.made, workspace);
	for (uint32_t i = 0; i < expected.made.ends[expected.n - 1]; i++)
		CHECK(scattered.rows[i] == expected.rows[i], "row %u is %u, not %u", i, scattered.rows[i], expected.rows[i]);
	CHECK(memcmp(scattered.made.ends, expected.made.ends, expected.n * sizeof(uint32_t)) == 0, "other groups");
	CHECK(memcmp(scattered.made.middles, expected.made.middles, expected.n * bytes) == 0, "other middles");
	free(workspace);
	free(factors);
	free(codes);
	free_groups(&scattered);
	free_groups(&expected);
	free_world(w);
}

/* Any codes: all equal, of no length, no numbers; any number of rows. */
static void
any_codes(void)
{
	World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, true);
	uint32_t	bytes = w->layout.code_bytes;
	uint8_t    *codes = malloc(MANY * bytes);
	GrnFactor  *factors = malloc(MANY * sizeof(GrnFactor));
	GrnGrouping g = world_grouping(w, ROOM);

	g.codes = codes;
	g.factors = factors;
	for (uint32_t round = 0; round < 60; round++)
	{
		uint32_t	n = round < 40 ? 1 + unit_below(60) : 1 + unit_below(MANY / 2);
		Groups		groups;

		g.room = 2 + unit_below(40);
		any_codes_of(round, n, bytes, codes, factors);
		groups = make_groups(&g, n);
		free_groups(&groups);
	}
	free(factors);
	free(codes);
	free_world(w);
}

/*
 * Rows of bits that are their own codes: those of a group differ in few bits, and middles say
 * most.
 */
static void
bits(void)
{
	GrnCodec	codec = {.dim = 100};
	uint8_t		codes[1000 * 16] = {0};
	GrnFactor	factors[1000] = {{0}};
	GrnGrouping g = {.codec = &codec, .codes = codes, .factors = factors, .room = 20, .seed = 1};
	uint32_t	differ = 0;
	Groups		groups;
	uint32_t	all;

	codec.shape = grn_own_shape(grn_metric(GRN_HAMMING), GRN_FORM_BITS, codec.dim);
	CHECK(codec.shape.own == 13, "%u bytes", codec.shape.own);
	grn_codec_set_metric(&codec, grn_metric(GRN_HAMMING), 1);
	/* fifty kinds of rows, of which one bit in twenty is another */
	for (uint32_t i = 0; i < 1000; i++)
		for (uint32_t j = 0; j < codec.dim; j++)
			if ((grn_random(3, i % 50, j) & 1) ^ (unit_below(20) == 0))
				codes[i * 13 + j / 8] |= (uint8_t) (128 >> j % 8);
	groups = make_groups(&g, 1000);
	all = groups.made.ends[groups.n - 1];
	for (uint32_t i = 0; i < groups.n; i++)
		for (uint32_t k = begin_of(&groups, i); k < groups.made.ends[i]; k++)
			differ += grn_pairs->differ(groups.made.middles + i * 13, codes + groups.rows[k] * 13, 13);
	/* (50 of rows at random, and 5 where all rows of a group are of one kind) */
	CHECK(differ < 15 * all, "%u of %u", differ, all);
	free_groups(&groups);
}

static void
leave(void *arg)
{
	longjmp(*(jmp_buf *) arg, 1);
}

/* The caller may leave in the middle. */
static void
left_in_the_middle(void)
{
	World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, true);
	GrnGrouping g = world_grouping(w, ROOM);
	Groups		groups = all_rows(&g, N);
	void	   *workspace = malloc(grn_group_bytes(&w->codec, N, ROOM));
	jmp_buf		escape;
	volatile bool left = false;

	g.poll = leave;
	g.arg = &escape;
	if (setjmp(escape) == 0)
		grn_group_rows(&g, groups.nodes, N, &groups.made, workspace);
	else
		left = true;
	CHECK(left, "it did not poll");
	free(workspace);
	free_groups(&groups);
	free_world(w);
}

/* Offers a group's rows. */
static void
offer(const World *w, GrnSearch *s, const Groups *groups, uint32_t group)
{
	uint32_t	bytes = w->layout.code_bytes;

	for (uint32_t i = begin_of(groups, group); i < groups->made.ends[group]; i++)
	{
		const uint32_t *node = &groups->rows[i];

		grn_search_listed(s, node, w->codes + *node * bytes, &w->factors[*node], NULL, 1);
	}
}

/*
 * A search that reads the nearest groups until it is settled finds nearly all that one of all
 * groups finds, from a part of them; going on, it finds all rows, each once.
 */
static void
searches_by_groups(void)
{
	World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, true);
	GrnGrouping g = world_grouping(w, ROOM);
	Groups		groups = make_groups(&g, N);
	uint32_t	bytes = w->layout.code_bytes;
	uint32_t   *ids = malloc(groups.n * sizeof(uint32_t));
	uint32_t	third = groups.n / 3;
	uint32_t	hits = 0;
	uint32_t	read = 0;

	for (uint32_t i = 0; i < groups.n; i++)
		ids[i] = i;
	for (uint32_t q = 0; q < QUERIES; q++)
	{
		GrnSearchParams p = {.layout = &w->layout, .codec = &w->codec, .ef = 20,
			.metric = grn_metric(w->metric), .resumable = true, .closed = true, .nearest = 20,
			.patience = 10 * ROOM};
		GrnSearch  *s = grn_search_begin(&p, &w->store, world_row(w, N + q));
		Near	   *near = malloc(N * sizeof(Near));
		uint8_t		seen[N] = {0};
		uint8_t		taken[N] = {0};
		uint32_t	all = 0;
		uint32_t	group;
		uint32_t	n;

		/* in two parts, as the guides of two lists come */
		grn_search_groups(s, ids, groups.made.middles, groups.made.factors, third);
		grn_search_groups(s, ids + third, groups.made.middles + third * bytes, groups.made.factors + third,
						  groups.n - third);
		CHECK(!grn_search_settled(s), "settled without a row");
		while (!grn_search_settled(s) && (group = grn_search_next_group(s)) != GRN_INVALID_ID)
		{
			CHECK(group < groups.n && !taken[group], "group %u", group);
			taken[group] = 1;
			offer(w, s, &groups, group);
			read++;
		}
		truth(w, q, near);
		n = grn_search_run(s);
		CHECK(n == 20, "%u rows", n);
		for (uint32_t i = 0; i < K; i++)
			hits += grn_search_found(s)[i].distance <= near[i].distance * (1 + 1e-5f);
		do
		{
			for (uint32_t i = 0; i < n; i++)
				seen[grn_search_found(s)[i].id]++;
			all += n;
			/* as a scan goes on */
			for (uint32_t i = 0; i < 5 && (group = grn_search_next_group(s)) != GRN_INVALID_ID; i++)
			{
				CHECK(group < groups.n && !taken[group], "group %u later", group);
				taken[group] = 1;
				offer(w, s, &groups, group);
			}
		} while ((n = grn_search_run(s)) > 0 || grn_search_has_groups(s));
		for (uint32_t i = 0; i < N; i++)
			CHECK(seen[i] == 1, "row %u %u times", i, seen[i]);
		CHECK(all == N, "%u", all);
		free(near);
		grn_search_end(s);
	}
	CHECK(hits >= 0.95 * K * QUERIES, "%u", hits);
	CHECK(read < 0.6 * groups.n * QUERIES, "%u groups of %u", read / QUERIES, groups.n);
	printf("# .%03u of the ten nearest from %u of %u groups\n", hits * 1000 / K / QUERIES, read / QUERIES, groups.n);
	free(ids);
	free_groups(&groups);
	free_world(w);
}

/*
 * Equal distances are those of several rows, as codes of bits have many: they count each.  A row
 * that comes again does not.
 */
static void
equal_rows_count(void)
{
	World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, true);
	uint32_t	bytes = w->layout.code_bytes;
	GrnSearchParams p = {.layout = &w->layout, .codec = &w->codec, .ef = 20,
		.metric = grn_metric(w->metric), .resumable = true, .closed = true, .nearest = 20,
		.patience = 50};
	uint32_t	ids[100];
	uint8_t    *codes = malloc(100 * bytes);
	GrnFactor	factors[100];

	for (uint32_t i = 0; i < 100; i++)
	{
		ids[i] = i;
		factors[i] = w->factors[0];
		memcpy(codes + i * bytes, w->codes, bytes);
	}
	for (int same = 0; same < 2; same++)
	{
		GrnSearch  *s = grn_search_begin(&p, &w->store, world_row(w, N));
		uint32_t	read = 0;

		/* some come before there are groups */
		grn_search_listed(s, ids, codes, factors, NULL, 5);
		grn_search_groups(s, ids, codes, factors, 100);
		while (!grn_search_settled(s) && grn_search_next_group(s) != GRN_INVALID_ID)
			grn_search_listed(s, ids + (same ? 0 : 10 * (read++ % 10)), codes, factors, NULL, 10);
		CHECK(same ? !grn_search_settled(s) : grn_search_settled(s) && read < 20, "same %d: %u groups", same, read);
		CHECK(grn_search_run(s) == (same ? 10 : 20), "same %d", same);
		grn_search_end(s);
	}
	free(codes);
	free_world(w);
}

/* Rows of nearly the greatest length have a direction, though a sum of products overflows. */
static void
long_rows(void)
{
	static float values[LONG_ROWS][LONG_DIMS];
	const float *sample[LONG_ROWS];
	float		sums[2 * LONG_DIMS];
	float		w[LONG_DIMS];

	for (uint32_t i = 0; i < LONG_ROWS; i++)
	{
		for (uint32_t j = 0; j < LONG_DIMS; j++)
			values[i][j] = 1e18f * (float) (1 + (i % 2) + 0.01 * unit_below(10));
		sample[i] = values[i];
	}
	CHECK(grn_group_apart(sample, LONG_ROWS, LONG_DIMS, sums, w), "no direction");
	for (uint32_t j = 0; j < LONG_DIMS; j++)
		CHECK(fabsf(w[j]) > 0.8e18f && fabsf(w[j]) < 1.2e18f, "dimension %u: %g", j, w[j]);
}

int
main(void)
{
	grn_dist_init();
	RUN(near_rows_are_together);
	RUN(middles_are_near);
	RUN(nodes_lie_anywhere);
	RUN(any_codes);
	RUN(bits);
	RUN(left_in_the_middle);
	RUN(searches_by_groups);
	RUN(equal_rows_count);
	RUN(long_rows);
	UNIT_END();
}
