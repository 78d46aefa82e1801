/*
 * test_cut_order.c - an order of rows by cuts: each row has a place, near rows share pages, and
 * threads do not matter.
 */
#include "store/group.h"
#include "search_world.h"

#define MANY 40000				/* more than one thread cuts alone */
#define PER_PAGE 7

/* Three threads, of which the last pieces come first. */
static void
run_backwards(GrnParallel *self, size_t n, size_t grain, GrnRangeFn fn, void *arg)
{
	(void) self;
	for (size_t piece = (n + grain - 1) / grain; piece-- > 0;)
		fn(arg, (int) (piece % 3), piece * grain, (piece + 1) * grain < n ? (piece + 1) * grain : n);
}

/* The order of rows, made in two ways; it is a permutation. */
static void
order(const GrnRows *rows, uint32_t per_page, uint32_t *position)
{
	uint32_t	n = (uint32_t) rows->n;
	GrnParallel ways[2] = {{1, unit_run}, {3, run_backwards}};
	void	   *work = unit_guarded(GRN_CUT_ORDER_BYTES(n));
	uint32_t   *first = malloc(n * sizeof(*first));
	uint8_t    *taken = calloc(n, 1);

	for (int i = 0; i < 2; i++)
	{
		memset(position, 0xFF, n * sizeof(*position));
		CHECK(grn_cut_order(rows, per_page, position, &ways[i], work), "no memory");
		if (i == 0)
			memcpy(first, position, n * sizeof(*first));
	}
	CHECK(memcmp(first, position, n * sizeof(*first)) == 0, "n %u: threads make another order", n);
	for (uint32_t i = 0; i < n; i++)
	{
		CHECK(position[i] < n && !taken[position[i]], "n %u: row %u has place %u", n, i, position[i]);
		if (position[i] < n)
			taken[position[i]] = 1;
	}
	unit_guarded_free(work, GRN_CUT_ORDER_BYTES(n));
	free(first);
	free(taken);
}

/* Of the neighbors of a node, how many share its page, on average. */
static double
together(const World *w, const uint32_t *position)
{
	double		sum = 0;

	for (uint32_t i = 0; i < N; i++)
		for (uint8_t j = 0; j < w->counts[i]; j++)
			sum += position[w->graph[i][j]] / PER_PAGE == position[i] / PER_PAGE;
	return sum / N;
}

/* Near rows share pages, also where rows on a disk lie cell by cell already. */
static void
near_rows(void)
{
	GrnMetric	metrics[] = {GRN_L2, GRN_IP, GRN_COSINE};

	for (int m = 0; m < 3; m++)
	{
		World	   *w = make_world(metrics[m], 24, GRN_FORM_F32, true);
		GrnRows		rows = world_rows(w, NULL, N);
		uint32_t	position[N];
		double		share;

		order(&rows, PER_PAGE, position);
		share = together(w, position);
		printf("# metric %d: %.2f neighbors on a node's page\n", metrics[m], share);
		/* of a random order it is .07 */
		CHECK(share > 0.6, "metric %d: %.2f neighbors on a node's page", metrics[m], share);
		free_world(w);
	}
}

/* Many rows, some 26 of each kind: equal rows fill pages, but for where one kind ends. */
static void
equal_rows(void)
{
	World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, true);
	uint32_t   *kind = malloc(MANY * sizeof(uint32_t));
	uint32_t   *position = malloc(MANY * sizeof(uint32_t));
	uint32_t   *at = malloc(MANY * sizeof(uint32_t));
	GrnRows		rows = world_rows(w, kind, MANY);

	for (int on_disk = 0; on_disk < 2; on_disk++)
	{
		double		same = 0;

		rows.on_disk = on_disk;
		for (uint32_t i = 0; i < MANY; i++)
			kind[i] = on_disk ? (uint32_t) ((uint64_t) i * N / MANY) : i % N;
		order(&rows, PER_PAGE, position);
		for (uint32_t i = 0; i < MANY; i++)
			at[position[i]] = kind[i];
		for (uint32_t i = 1; i < MANY; i++)
			same += i % PER_PAGE > 0 && at[i] == at[i - 1];
		same /= MANY / PER_PAGE * (PER_PAGE - 1);
		printf("# %.2f of neighbors on a page are equal\n", same);
		CHECK(same > 0.8, "%.2f of neighbors are equal", same);
	}
	free(at);
	free(position);
	free(kind);
	free_world(w);
}

/* Any rows, all equal or too large to square, any number of rows and of rows a page. */
static void
any_rows(void)
{
	float	   *values = malloc(MANY * 3 * sizeof(float));
	uint32_t   *position = malloc(MANY * sizeof(uint32_t));
	GrnRows		rows = {.base = values, .row_bytes = 3 * sizeof(float), .dim = 3, .form = GRN_FORM_F32};

	for (uint32_t round = 0; round < 34; round++)
	{
		rows.n = round < 30 ? 1 + unit_below(60) : 1 + unit_below(MANY);
		for (size_t i = 0; i < 3 * rows.n; i++)
			values[i] = round % 3 == 0 ? 1 : round % 3 == 1 ? (float) unit_below(4) : ldexpf((float) unit_below(9) - 4, 125);
		order(&rows, 1 + unit_below(round % 2 ? 20 : 30000), position);
	}
	free(position);
	free(values);
}

int
main(void)
{
	grn_dist_init();
	RUN(near_rows);
	RUN(equal_rows);
	RUN(any_rows);
	UNIT_END();
}
