/*
 * test_group.c - groups of near rows within a list: nothing is lost, near rows are together,
 * middles lie in the middle, and a closed search that reads the nearest groups finds what one of
 * all finds.
 */
#include "graph/stored/group.h"
#include "graph/stored/search.h"
#include "graph/kernels/pairs.h"
#include "search_world.h"

#define ROOM 12
#define GROUPS(n) grn_groups(n, ROOM)
#define MANY 20000

/* A world's rows by their codes. */
static GrnGrouping
grouping_of(const World *w)
{
	return (GrnGrouping) {.codec = &w->codec, .codes = w->codes, .factors = w->factors, .room = ROOM,
						  .seed = 7};
}

static GrnGrouped *
all_rows(uint32_t n)
{
	GrnGrouped *rows = malloc(n * sizeof(GrnGrouped));

	for (uint32_t i = 0; i < n; i++)
		rows[i] = (GrnGrouped) {i, 1000 + i};
	return rows;
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
spread(const World *w, const GrnGrouped *rows, const uint32_t *ends, uint32_t groups)
{
	double		sum = 0;
	uint32_t	pairs = 0;

	for (uint32_t group = 0, first = 0; group < groups; first = ends[group++])
		for (uint32_t i = first; i < ends[group]; i++)
			for (uint32_t j = first; j < i; j++, pairs++)
				sum += apart(w, rows[i].node, rows[j].node);
	return sum / pairs;
}

/* No group is empty, none has more rows than there is room for, and together they are all rows. */
static void
check_groups(const uint32_t *ends, uint32_t n, uint32_t room)
{
	uint32_t	groups = grn_groups(n, room);

	for (uint32_t group = 0, first = 0; group < groups; first = ends[group++])
		CHECK(ends[group] > first && ends[group] - first <= room, "group %u of %u: %u to %u", group, groups, first,
			  ends[group]);
	CHECK(ends[groups - 1] == n, "%u of %u rows", ends[groups - 1], n);
}

/* Puts rows into groups and returns their ends. */
static uint32_t *
make_groups(const GrnGrouping *g, GrnGrouped *rows, uint32_t n)
{
	uint32_t   *ends = malloc(grn_groups(n, g->room) * sizeof(uint32_t));
	void	   *workspace = malloc(grn_group_bytes(g->codec, n, g->room));

	grn_group_rows(g, rows, n, ends, workspace);
	check_groups(ends, n, g->room);
	free(workspace);
	return ends;
}

static void
check_all_there(const GrnGrouped *rows, uint32_t n)
{
	uint8_t    *seen = calloc(n, 1);

	for (uint32_t i = 0; i < n; i++)
	{
		CHECK(rows[i].node < n && !seen[rows[i].node], "row %u twice or not at all", rows[i].node);
		CHECK(rows[i].rank == 1000 + rows[i].node, "row %u has another's rank", rows[i].node);
		seen[rows[i].node] = 1;
	}
	free(seen);
}

static const GrnMetric metrics[] = {GRN_L2, GRN_COSINE, GRN_IP};

/* Two rows of a group are nearer to each other than any two, whatever the metric's codes. */
static void
near_rows_are_together(void)
{
	for (size_t m = 0; m < sizeof(metrics) / sizeof(metrics[0]); m++)
	{
		World	   *w = make_world(metrics[m], 32, GRN_FORM_F32, true);
		GrnGrouping g = grouping_of(w);
		GrnGrouped *rows = all_rows(N);
		uint32_t	any[GROUPS(N)];
		double		before;
		double		after;
		uint32_t   *ends;

		for (uint32_t i = 0; i < GROUPS(N); i++)
			any[i] = (uint32_t) ((uint64_t) N * (i + 1) / GROUPS(N));
		before = spread(w, rows, any, GROUPS(N));
		ends = make_groups(&g, rows, N);
		check_all_there(rows, N);
		after = spread(w, rows, ends, GROUPS(N));
		/* (rows of inner product do not move) */
		CHECK(after < (metrics[m] == GRN_IP ? 0.75 : 0.55) * before, "metric %d: %g of %g", metrics[m], after, before);
		printf("# metric %d: %.2f of the squared distance\n", metrics[m], after / before);
		free(ends);
		free(rows);
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
		GrnGrouping g = grouping_of(w);
		GrnGrouped *rows = all_rows(N);
		uint32_t   *ends = make_groups(&g, rows, N);
		uint32_t	groups = GROUPS(N);
		uint32_t	bytes = grn_code_bytes(w->codec.shape);
		uint8_t    *codes = malloc(groups * bytes);
		GrnFactor  *factors = malloc(groups * sizeof(GrnFactor));
		float	   *estimates = malloc(groups * sizeof(float));
		uint32_t	nearer = 0;

		for (uint32_t i = 0, first = 0; i < groups; first = ends[i++])
			grn_group_middle(&g, rows + first, ends[i] - first, codes + i * bytes, &factors[i]);
		for (uint32_t i = 0, group = 0; i < N; i++)
		{
			GrnCodeQuery q;
			float		scratch[GRN_MAX_CODE_DIMS];
			uint32_t	rank = 0;

			while (i >= ends[group])
				group++;
			grn_code_query(&w->codec, world_row(w, rows[i].node), &q, scratch);
			grn_estimate(&q, codes, factors, groups, estimates);
			for (uint32_t k = 0; k < groups; k++)
				rank += estimates[k] < estimates[group];
			nearer += rank < groups / 8;
		}
		/* (under inner product long rows' groups are near to every query) */
		CHECK(nearer > (metrics[m] == GRN_IP ? 0.3 : 0.8) * N, "metric %d: %u", metrics[m], nearer);
		free(estimates);
		free(factors);
		free(codes);
		free(ends);
		free(rows);
		free_world(w);
	}
}

/* Any codes: all equal, of no length, no numbers; any number of rows. */
static void
any_codes(void)
{
	World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, true);
	uint32_t	bytes = w->layout.code_bytes;
	uint8_t    *codes = malloc(MANY * bytes);
	GrnFactor  *factors = malloc(MANY * sizeof(GrnFactor));
	GrnGrouping g = grouping_of(w);

	g.codes = codes;
	g.factors = factors;
	for (uint32_t round = 0; round < 60; round++)
	{
		uint32_t	n = round < 40 ? 1 + unit_below(60) : 1 + unit_below(MANY);
		GrnGrouped *rows = all_rows(n);
		uint8_t		code[GRN_MAX_CODE_BYTES];
		GrnFactor	factor;
		uint32_t   *ends;

		g.room = 2 + unit_below(40);
		for (uint32_t i = 0; i < n; i++)
		{
			uint32_t	bits = round % 4 == 0 ? 0 : round % 4 == 1 ? 0x12345678 : (uint32_t) unit_random();

			memcpy(&factors[i], &bits, sizeof(bits));
			for (uint32_t j = 0; j < bytes; j++)
				codes[i * bytes + j] = (uint8_t) (round % 4 < 3 ? 17 * j : unit_random());
		}
		ends = make_groups(&g, rows, n);
		check_all_there(rows, n);
		grn_group_middle(&g, rows, ends[0], code, &factor);
		free(ends);
		free(rows);
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
	GrnGrouped *rows = all_rows(1000);
	uint32_t	differ = 0;
	uint32_t   *ends;

	codec.shape = grn_own_shape(grn_metric(GRN_HAMMING), GRN_FORM_BITS, codec.dim);
	CHECK(codec.shape.own == 13, "%u bytes", codec.shape.own);
	grn_codec_set_metric(&codec, grn_metric(GRN_HAMMING), 1);
	/* fifty kinds of rows, of which one bit in twenty is another */
	for (uint32_t i = 0; i < 1000; i++)
		for (uint32_t j = 0; j < codec.dim; j++)
			if ((grn_random(3, i % 50, j) & 1) ^ (unit_below(20) == 0))
				codes[i * 13 + j / 8] |= (uint8_t) (128 >> j % 8);
	ends = make_groups(&g, rows, 1000);
	check_all_there(rows, 1000);
	for (uint32_t i = 0, first = 0; i < grn_groups(1000, 20); first = ends[i++])
	{
		uint8_t		middle[16];
		GrnFactor	factor;

		grn_group_middle(&g, rows + first, ends[i] - first, middle, &factor);
		for (uint32_t k = first; k < ends[i]; k++)
			differ += grn_pairs->differ(middle, codes + rows[k].node * 13, 13);
	}
	/* (50 of rows at random, and 5 where all rows of a group are of one kind) */
	CHECK(differ < 15 * 1000, "%u", differ);
	free(ends);
	free(rows);
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
	GrnGrouping g = grouping_of(w);
	GrnGrouped *rows = all_rows(N);
	void	   *workspace = malloc(grn_group_bytes(&w->codec, N, ROOM));
	uint32_t	ends[GROUPS(N)];
	jmp_buf		escape;
	volatile bool left = false;

	g.look = leave;
	g.arg = &escape;
	if (setjmp(escape) == 0)
		grn_group_rows(&g, rows, N, ends, workspace);
	else
		left = true;
	CHECK(left, "it did not look");
	check_all_there(rows, N);
	free(workspace);
	free(rows);
	free_world(w);
}

/* Offers a group's rows. */
static void
offer(const World *w, GrnSearch *s, const GrnGrouped *rows, const uint32_t *ends, uint32_t group)
{
	uint32_t	bytes = w->layout.code_bytes;

	for (uint32_t i = group > 0 ? ends[group - 1] : 0; i < ends[group]; i++)
		grn_search_listed(s, &rows[i].node, w->codes + rows[i].node * bytes, &w->factors[rows[i].node],
						  NULL, 1);
}

/*
 * A search that reads the nearest groups until it is settled finds nearly all that one of all
 * groups finds, from a part of them; going on, it finds all rows, each once.
 */
static void
searches_by_groups(void)
{
	World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, true);
	GrnGrouping g = grouping_of(w);
	GrnGrouped *rows = all_rows(N);
	uint32_t   *ends = make_groups(&g, rows, N);
	uint32_t	groups = GROUPS(N);
	uint32_t	bytes = w->layout.code_bytes;
	uint8_t    *codes = malloc(groups * bytes);
	GrnFactor  *factors = malloc(groups * sizeof(GrnFactor));
	uint32_t   *ids = malloc(groups * sizeof(uint32_t));
	uint32_t	hits = 0;
	uint32_t	read = 0;

	for (uint32_t i = 0, first = 0; i < groups; first = ends[i++])
	{
		ids[i] = i;
		grn_group_middle(&g, rows + first, ends[i] - first, codes + i * bytes, &factors[i]);
	}
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
		grn_search_groups(s, ids, codes, factors, groups / 3);
		grn_search_groups(s, ids + groups / 3, codes + groups / 3 * bytes, factors + groups / 3, groups - groups / 3);
		CHECK(!grn_search_settled(s), "settled without a row");
		while (!grn_search_settled(s) && (group = grn_search_next_group(s)) != GRN_INVALID_ID)
		{
			CHECK(group < groups && !taken[group], "group %u", group);
			taken[group] = 1;
			offer(w, s, rows, ends, group);
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
				CHECK(group < groups && !taken[group], "group %u later", group);
				taken[group] = 1;
				offer(w, s, rows, ends, group);
			}
		} while ((n = grn_search_run(s)) > 0 || grn_search_has_groups(s));
		for (uint32_t i = 0; i < N; i++)
			CHECK(seen[i] == 1, "row %u %u times", i, seen[i]);
		CHECK(all == N, "%u", all);
		free(near);
		grn_search_end(s);
	}
	CHECK(hits >= 0.95 * K * QUERIES, "%u", hits);
	CHECK(read < 0.6 * groups * QUERIES, "%u groups of %u", read / QUERIES, groups);
	printf("# .%03u of the ten nearest from %u of %u groups\n", hits * 1000 / K / QUERIES, read / QUERIES, groups);
	free(ids);
	free(factors);
	free(codes);
	free(ends);
	free(rows);
	free_world(w);
}

int
main(void)
{
	grn_dist_init();
	RUN(near_rows_are_together);
	RUN(middles_are_near);
	RUN(any_codes);
	RUN(bits);
	RUN(left_in_the_middle);
	RUN(searches_by_groups);
	UNIT_END();
}
