/*
 * test_rnnd.c - the CPU build and the steps around it: recall against exact
 * neighbors, the same graph from any number of threads, small and strange
 * inputs, connecting, ordering, duplicates.
 */
#include "builder/build_graph.h"
#include "graph/descent.h"
#include "graph/graph.h"
#include "recall.h"

#include <pthread.h>

static void
fill_bytes(float *x, size_t i, uint32_t dim)
{
	for (uint32_t j = 0; j < dim; j++)
		x[j] = (float) unit_below(256);
}

/* 20 clusters, far apart for their size. */
static void
fill_clusters(float *x, size_t i, uint32_t dim)
{
	for (uint32_t j = 0; j < dim; j++)
		x[j] = (float) (grn_random(3, i % 20, j) % 1000) + 0.01f * unit_normal();
}

/* Along a line, with a little noise. */
static void
fill_line(float *x, size_t i, uint32_t dim)
{
	float		at = (float) (grn_random(4, i, 0) % 100000);

	for (uint32_t j = 0; j < dim; j++)
		x[j] = at + unit_normal();
}

/* A fifth of the rows in such clusters, the others in a wide one. */
static void
fill_some_clusters(float *x, size_t i, uint32_t dim)
{
	if (i % 5 == 0)
		fill_clusters(x, i, dim);
	else
		for (uint32_t j = 0; j < dim; j++)
			x[j] = 500 + 300 * unit_normal();
}

/* Three different rows in all. */
static void
fill_same(float *x, size_t i, uint32_t dim)
{
	for (uint32_t j = 0; j < dim; j++)
		x[j] = (float) (i % 3);
}

static Data
make_data(size_t n, uint32_t dim, FillFn fill)
{
	Data		d;

	d.base = malloc((n ? n : 1) * dim * sizeof(float));
	for (size_t i = 0; i < n; i++)
		fill(d.base + i * dim, i, dim);
	d.rows = (GrnRows) {.base = d.base, .n = n, .row_bytes = dim * sizeof(float), .dim = dim,
						.embedding = GRN_EMBED_ROW, .form = GRN_FORM_F32};
	return d;
}

/* ---- a parallel-for with real threads ---- */

typedef struct Task
{
	GrnRangeFn	fn;
	void	   *arg;
	size_t		n;
	size_t		grain;
	size_t	   *next;
	int			worker;
} Task;

static void *
task_main(void *arg)
{
	Task	   *t = arg;

	for (;;)
	{
		size_t		begin = __atomic_fetch_add(t->next, t->grain, __ATOMIC_RELAXED);

		if (begin >= t->n)
			return NULL;
		t->fn(t->arg, t->worker, begin, begin + t->grain < t->n ? begin + t->grain : t->n);
	}
}

static void
threads_run(GrnParallel *self, size_t n, size_t grain, GrnRangeFn fn, void *arg)
{
	pthread_t	threads[16];
	Task		tasks[16];
	size_t		next = 0;

	for (int i = 0; i < self->nworkers; i++)
	{
		tasks[i] = (Task) {fn, arg, n, grain, &next, i};
		pthread_create(&threads[i], NULL, task_main, &tasks[i]);
	}
	for (int i = 0; i < self->nworkers; i++)
		pthread_join(threads[i], NULL);
}

static GrnParallel one = {1, unit_run};
static GrnParallel backwards = {3, unit_run};
static GrnParallel many = {5, threads_run};

static GrnGraph
build_with(const Data *d, GrnGraphParams params, bool fill, GrnParallel *parallel)
{
	GrnGraph	g = {0};
	size_t		n = d->rows.n ? d->rows.n : 1;
	size_t		bytes;
	void	   *work;

	if (params.degree == 0)
		params.degree = 32;
	g.degree = params.degree;
	g.ids = malloc(n * g.degree * sizeof(uint32_t));
	g.counts = malloc(n);
	memset(g.counts, 0xFF, n);
	bytes = grn_rnnd_bytes(&params, d->rows.n, d->rows.dim);
	work = unit_guarded(bytes);
	grn_rnnd_build(&d->rows, &params, fill, parallel, work, &g, NULL, NULL);
	unit_guarded_free(work, bytes);
	return g;
}

static GrnGraph
build(const Data *d, GrnGraphParams params, GrnParallel *parallel)
{
	return build_with(d, params, false, parallel);
}

static void
free_graph(GrnGraph *g)
{
	free(g->ids);
	free(g->counts);
}

static float
distance(const Data *d, size_t a, size_t b)
{
	return grn_dist->l2_f32(grn_row(&d->rows, a), grn_row(&d->rows, b), d->rows.dim);
}

static void
check_graph(const Data *d, const GrnGraph *g)
{
	uint32_t	bad = 0;
	const char *what = grn_graph_check(g, &many, &bad);

	CHECK(what == NULL, "vertex %u has %s", bad, what);
	CHECK(g->n == d->rows.n, "%u", g->n);
	for (size_t v = 0; v < g->n; v++)
		for (uint32_t i = 1; i < g->counts[v]; i++)
		{
			float		before = distance(d, v, g->ids[v * g->degree + i - 1]);
			float		here = distance(d, v, g->ids[v * g->degree + i]);

			CHECK(before <= here * 1.0001f, "vertex %zu: %g before %g", v, before, here);
		}
}

/* Makes every vertex reachable; work: grn_reach_bytes(n).  Returns how many were not. */
static uint32_t
connect_by(const Data *d, GrnGraph *g, uint32_t entry, GrnParallel *parallel, void *work)
{
	GrnFinish	f = {.metric = grn_metric(GRN_L2), .rows = &d->rows, .graph = g, .parallel = parallel, .entry = entry,
		.scratch = work};

	grn_finish_begin(&f);
	CHECK(grn_finish_connect(&f), "no memory");
	grn_finish_abandon(&f);
	return f.connected;
}

/* Makes every vertex reachable and checks that it is. */
static uint32_t
connect_all(const Data *d, GrnGraph *g, uint32_t entry)
{
	size_t		bytes = grn_reach_bytes(g->n);
	void	   *work = unit_guarded((bytes + 7) & ~(size_t) 7);
	uint32_t	connected = connect_by(d, g, entry, &one, work);

	CHECK(grn_reachable(g, entry, work) == g->n, "entry %u reaches %zu of %u", entry,
		  grn_reachable(g, entry, work), g->n);
	unit_guarded_free(work, (bytes + 7) & ~(size_t) 7);
	check_graph(d, g);
	return connected;
}

/* ---- recall ---- */

static void
recall_of(FillFn fill, size_t n, uint32_t dim, double least)
{
	Data		d = make_data(n, dim, fill);
	GrnGraph	g = build(&d, (GrnGraphParams) {.seed = 7}, &one);
	double		got;

	check_graph(&d, &g);
	connect_all(&d, &g, 0);
	got = recall(&d, &g, fill);
	CHECK(got >= least, "recall %g, expected %g", got, least);
	free_graph(&g);
	free(d.base);
}

static void
test_recall_floats(void)
{
	recall_of(fill_normal, 3000, 12, 0.97);
}

static void
test_recall_bytes(void)
{
	recall_of(fill_bytes, 3000, 12, 0.97);
}

static void
test_recall_odd_dimensions(void)
{
	recall_of(fill_normal, 500, 1, 0.99);
	recall_of(fill_bytes, 500, 67, 0.95);
	recall_of(fill_normal, 500, 129, 0.95);
}

/*
 * From 4,096 rows on, floats are compared as bytes: directions that hold the
 * variance, all coordinates where there are too many such directions, and
 * floats after all where bytes cannot tell neighbors apart.
 */
static void
test_recall_projected(void)
{
	recall_of(fill_normal, 4500, 12, 0.97);
	recall_of(fill_normal, 4500, 400, 0.80);
	recall_of(fill_clusters, 4500, 12, 0.97);
	recall_of(fill_some_clusters, 4500, 12, 0.97);
}

/* Few neighbors need many rounds. */
static void
test_recall_line(void)
{
	recall_of(fill_line, 12000, 24, 0.975);
}

static float middle_width;

/* Half of the rows in one cluster, the others all around it. */
static void
fill_middle(float *x, size_t i, uint32_t dim)
{
	for (uint32_t j = 0; j < dim; j++)
		x[j] = i % 2 ? 1000 * unit_uniform() : 500 + middle_width * unit_normal();
}

static void
count_rounds(void *ctx, uint64_t done, uint64_t total)
{
	CHECK(done >= 1 && done <= total, "%d of %d", (int) done, (int) total);
	++*(int *) ctx;
}

/* How many rounds more than t1 * t2 + 1 a build by bytes takes: 3 more by floats. */
static int
rounds_again(FillFn fill)
{
	Data		d = make_data(4500, 16, fill);
	GrnGraphParams p = {.degree = 16, .t1 = 2, .t2 = 2};
	GrnGraph	g = {malloc(4500 * 16 * 4), malloc(4500), 4500, 16};
	void	   *work = malloc(grn_rnnd_bytes(&p, 4500, 16));
	int			rounds = 0;

	grn_rnnd_build(&d.rows, &p, false, &one, work, &g, count_rounds, &rounds);
	free(work);
	free(g.ids);
	free(g.counts);
	free(d.base);
	return rounds - 5;
}

/* Bytes stay where rounding moves neighbors little, or those of few rows. */
static void
test_coarse(void)
{
	CHECK(rounds_again(fill_normal) == 0, "floats where bytes do");
	CHECK(rounds_again(fill_some_clusters) == 3, "bytes for a fifth of the rows in tight clusters");
	middle_width = 20;
	CHECK(rounds_again(fill_middle) == 0, "floats where bytes do");
	/* neighbors farther than what rounding adds, but not by ten times what it moves them */
	middle_width = 11;
	CHECK(rounds_again(fill_middle) == 3, "bytes where rounding moves neighbors");
}

/* ---- determinism ---- */

static bool
same_graph(const GrnGraph *a, const GrnGraph *b)
{
	if (memcmp(a->counts, b->counts, a->n) != 0)
		return false;
	for (size_t v = 0; v < a->n; v++)
		if (memcmp(a->ids + v * a->degree, b->ids + v * b->degree, 4 * a->counts[v]) != 0)
			return false;
	return true;
}

static void
test_same_for_any_threads(void)
{
	FillFn		fills[] = {fill_normal, fill_bytes, fill_clusters};

	for (int f = 0; f < 3; f++)
		for (int sampled = 0; sampled < 2; sampled++)
		{
			GrnGraphParams p = {.seed = 3, .rho = sampled ? 0.6f : 0};
			Data		d = make_data(3000, 20, fills[f]);
			GrnGraph	a = build(&d, p, &one);
			GrnGraph	b = build(&d, p, &backwards);
			GrnGraph	c = build(&d, p, &many);
			GrnGraph	e;

			CHECK(same_graph(&a, &b), "pieces in another order, data %d", f);
			CHECK(same_graph(&a, &c), "threads, data %d", f);
			p.seed = 4;
			e = build(&d, p, &one);
			CHECK(!same_graph(&a, &e), "another seed, data %d", f);
			free_graph(&a);
			free_graph(&b);
			free_graph(&c);
			free_graph(&e);
			free(d.base);
		}
}

/*
 * Filling adds to lists and removes nothing; what it adds are the nearest of the
 * neighbors' neighbors, so hardly a list is short.
 */
static void
test_fill(void)
{
	FillFn		fills[] = {fill_normal, fill_bytes, fill_clusters};

	for (int f = 0; f < 3; f++)
	{
		GrnGraphParams p = {.degree = f == 1 ? 40 : 32, .seed = 3};
		Data		d = make_data(6000, 20, fills[f]);
		GrnGraph	a = build(&d, p, &one);
		GrnGraph	b = build_with(&d, p, true, &many);
		GrnGraph	c = build_with(&d, p, true, &backwards);
		size_t		few = 0;

		check_graph(&d, &b);
		CHECK(same_graph(&b, &c), "threads, data %d", f);
		for (size_t v = 0; v < 6000; v++)
		{
			uint32_t	found = 0;

			for (uint32_t i = 0; i < a.counts[v]; i++)
				for (uint32_t j = 0; j < b.counts[v]; j++)
					found += a.ids[v * a.degree + i] == b.ids[v * b.degree + j];
			CHECK(found == a.counts[v], "vertex %zu kept %u of %u", v, found, a.counts[v]);
			few += b.counts[v] < b.degree;
		}
		CHECK(few < 60, "%zu lists are short", few);
		free_graph(&a);
		free_graph(&b);
		free_graph(&c);
		free(d.base);
	}
}

/* Graphs of few edges are sound, and equal for any number of threads. */
static void
test_few_edges(void)
{
	FillFn		fills[] = {fill_normal, fill_bytes, fill_clusters, fill_same};

	for (int f = 0; f < 4; f++)
	{
		GrnGraphParams p = {.degree = 8, .seed = 5};
		Data		d = make_data(5000, 20, fills[f]);
		GrnGraph	a = build_with(&d, p, true, &one);
		GrnGraph	b = build_with(&d, p, true, &many);

		check_graph(&d, &a);
		CHECK(same_graph(&a, &b), "threads, data %d", f);
		free_graph(&a);
		free_graph(&b);
		free(d.base);
	}
}

/* ---- small and strange ---- */

static void
test_sizes(void)
{
	static const size_t sizes[] = {0, 1, 2, 3, 5, 8, 19, 20, 21, 22, 33, 64, 65, 257};
	FillFn		fills[] = {fill_normal, fill_bytes, fill_clusters, fill_same};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (int f = 0; f < 4; f++)
		{
			Data		d = make_data(sizes[i], 5, fills[f]);
			GrnGraph	g = build_with(&d, (GrnGraphParams) {.degree = 8}, f % 2, &backwards);

			check_graph(&d, &g);
			if (sizes[i] > 0)
				connect_all(&d, &g, (uint32_t) sizes[i] / 2);
			free_graph(&g);
			free(d.base);
		}
}

static void
test_params(void)
{
	static const GrnGraphParams params[] = {
		{.degree = 8, .r = 4, .s = 2, .t1 = 1, .t2 = 1},
		{.degree = 96, .r = 96, .s = 96, .t1 = 2, .t2 = 2},
		{.degree = 96, .r = 8, .s = 90, .t1 = 2, .t2 = 2, .rho = 0.1f},
		{.degree = 8, .r = 96, .s = 20, .t1 = 3, .t2 = 1},
		{.degree = 500, .r = 500, .s = 500, .t1 = 1, .t2 = 1},
	};

	for (size_t i = 0; i < sizeof(params) / sizeof(*params); i++)
	{
		Data		d = make_data(1000, 9, fill_normal);
		GrnGraphParams p = params[i];
		GrnGraph	g;

		if (p.degree > GRN_MAX_DEGREE)
			p.degree = GRN_MAX_DEGREE;	/* r and s are cut by the build itself */
		g = build_with(&d, p, i % 2, &many);
		check_graph(&d, &g);
		connect_all(&d, &g, 0);
		free_graph(&g);
		free(d.base);
	}
}

/* ---- connecting ---- */

/*
 * Graphs that no descent made: every vertex reached before stays reached, every
 * other becomes so, degrees hold.
 */
static void
test_connect(void)
{
	for (int kind = 0; kind < 5; kind++)
	{
		Data		d = make_data(2000, 6, kind == 4 ? fill_same : fill_normal);
		GrnGraph	g = {malloc(2000 * 8 * 4), calloc(2000, 1), 2000, 8};

		for (uint32_t v = 0; v < 2000; v++)
		{
			uint32_t   *ids = g.ids + v * 8;

			switch (kind)
			{
				case 0:			/* no edges */
					break;
				case 1:			/* full lists within groups of 9 */
					for (uint32_t u = v / 9 * 9; u < v / 9 * 9 + 9 && u < 2000; u++)
						if (u != v)
							ids[g.counts[v]++] = u;
					break;
				case 2:			/* everyone looks at the first nine */
				case 4:
					for (uint32_t u = 0; u < 9 && g.counts[v] < 8; u++)
						if (u != v)
							ids[g.counts[v]++] = u;
					break;
				case 3:			/* random full lists to lower vertices only */
					for (uint32_t i = 0; i < 8 && i < v; i++)
					{
						uint32_t	u = v > 8 ? v / 8 * i + unit_below(v / 8) : i;

						ids[g.counts[v]++] = u;
					}
					break;
			}
			/* lists are nearest first, as connect expects */
			for (uint32_t i = 1; i < g.counts[v]; i++)
				for (uint32_t j = i; j > 0 && distance(&d, v, ids[j]) < distance(&d, v, ids[j - 1]); j--)
				{
					uint32_t	swap = ids[j];

					ids[j] = ids[j - 1];
					ids[j - 1] = swap;
				}
		}
		check_graph(&d, &g);
		CHECK(connect_all(&d, &g, 77) > 0, "kind %d was connected", kind);
		CHECK(connect_all(&d, &g, 77) == 0, "kind %d is connected once", kind);
		free_graph(&g);
		free(d.base);
	}
}

/*
 * Connecting and ordering come to the same with any number of threads, in a graph of several
 * pieces and of which a part is not reached: the rows on a line, with edges to the next two and
 * two further on, but none to every 40th.
 */
static void
test_finish_for_any_threads(void)
{
	enum
	{
	ROWS = 150000, DEGREE = 5};
	GrnParallel *ways[] = {&one, &backwards, &many};
	Data		d = make_data(ROWS, 1, fill_normal);
	void	   *work = malloc(16 * ROWS);
	uint64_t	sums[4] = {0};

	for (size_t v = 0; v < ROWS; v++)
		d.base[v] = (float) v;
	for (int i = 0; i < 3; i++)
	{
		static const uint32_t steps[] = {1, 2, 700, 20011};
		GrnGraph	g = {malloc(ROWS * DEGREE * 4), calloc(ROWS, 1), ROWS, DEGREE};

		for (uint32_t v = 0; v < ROWS; v++)
			for (int k = 0; k < 4; k++)
			{
				uint32_t	u = (v + steps[k]) % ROWS;

				/* nothing leads to every 40th; half of those have no neighbors themselves */
				if (u % 40 != 7 && v % 80 != 7)
					g.ids[(size_t) v * DEGREE + g.counts[v]++] = u;
			}
		CHECK(grn_reachable(&g, 3, work) == ROWS - ROWS / 40, "%zu reached",
			  grn_reachable(&g, 3, work));
		CHECK(connect_by(&d, &g, 3, ways[i], work) == ROWS / 40, "connected");
		CHECK(grn_reachable(&g, 3, work) == ROWS, "all reached");
		for (size_t v = 0; v < ROWS; v++)
			for (uint32_t k = 0; k < g.counts[v]; k++)
				sums[i] = grn_random(sums[i], v, g.ids[v * DEGREE + k]);
		CHECK(sums[i] == sums[0], "graph, way %d", i);

		free_graph(&g);
	}
	free(work);
	free(d.base);
}

static void
test_graph_check(void)
{
	uint32_t	ids[] = {1, 2, 0, 2, 0, 1};
	uint8_t		counts[] = {2, 2, 2};
	GrnGraph	g = {ids, counts, 3, 2};
	uint32_t	bad = 9;

	CHECK(grn_graph_check(&g, &one, &bad) == NULL, "sound");
	ids[3] = 0;
	CHECK(grn_graph_check(&g, &one, &bad) != NULL && bad == 1, "duplicate");
	ids[3] = 1;
	CHECK(grn_graph_check(&g, &one, &bad) != NULL && bad == 1, "self");
	ids[3] = 3;
	CHECK(grn_graph_check(&g, &one, &bad) != NULL && bad == 1, "range");
	ids[3] = 2;
	counts[2] = 3;
	CHECK(grn_graph_check(&g, &one, &bad) != NULL && bad == 2, "count");
}

/* ---- medoid, duplicates ---- */

static void
test_medoid(void)
{
	Data		d = make_data(1001, 2, fill_normal);
	uint32_t	m;

	for (size_t i = 0; i < 1001; i++)
	{
		d.base[2 * i] = (float) i;
		d.base[2 * i + 1] = 5;
	}
	m = grn_medoid(&d.rows, 1);
	CHECK(m == 500, "%u", m);
	free(d.base);
}

static void
test_duplicates(void)
{
	static const size_t sizes[] = {1, 2, 100, 200000};

	for (int i = 0; i < 4; i++)
	{
		size_t		n = sizes[i];
		Data		d = make_data(n, 3, fill_normal);
		uint32_t   *expected = malloc(n * 4);
		uint32_t   *first = malloc(n * 4);
		uint64_t   *hashes = malloc(n * sizeof(uint64_t));
		uint32_t   *order = malloc(n * 4);
		uint32_t   *visit = malloc(n * 4);
		float	   *lying = malloc(n * 12);
		void	   *work = unit_guarded(8 * n);
		size_t		distinct = 0;
		size_t		got;

		for (size_t r = 0; r < n; r++)
		{
			expected[r] = (uint32_t) r;
			if (r > 0 && unit_below(3) == 0)
			{
				uint32_t	from = unit_below((uint32_t) r);

				memcpy(d.base + 3 * r, d.base + 3 * from, 12);
				expected[r] = expected[from];
			}
			distinct += expected[r] == r;
		}
		for (int w = 0; w < 2; w++)
		{
			for (size_t i = 0; i < n; i++)
				hashes[i] = grn_hash_row(d.base + 3 * i, 12);
			got = grn_find_duplicates(&d.rows, hashes, NULL, w ? &many : &one, first, work);
			CHECK(got == distinct, "%zu of %zu", got, distinct);
			CHECK(memcmp(first, expected, n * 4) == 0, "n %zu", n);
		}
		/* rows that lie in another order, and are visited in a third one */
		for (size_t r = 0; r < n; r++)
		{
			size_t		at = (r * 7919 + 5) % n;

			memcpy(lying + 3 * at, d.base + 3 * r, 12);
			hashes[at] = grn_hash_row(d.base + 3 * r, 12);
			order[r] = (uint32_t) at;
			visit[r] = (uint32_t) ((r * 104729 + 3) % n);
		}
		d.rows.base = lying;
		d.rows.order = order;
		d.rows.on_disk = true;
		got = grn_find_duplicates(&d.rows, hashes, visit, &many, first, work);
		CHECK(got == distinct, "%zu of %zu by visits", got, distinct);
		CHECK(memcmp(first, expected, n * 4) == 0, "n %zu by visits", n);
		free(visit);
		free(order);
		free(lying);
		unit_guarded_free(work, 8 * n);
		free(hashes);
		free(expected);
		free(first);
		free(d.base);
	}
}

int
main(void)
{
	grn_dist_init();
	RUN(test_recall_floats);
	RUN(test_recall_bytes);
	RUN(test_recall_odd_dimensions);
	RUN(test_recall_projected);
	RUN(test_recall_line);
	RUN(test_coarse);
	RUN(test_same_for_any_threads);
	RUN(test_fill);
	RUN(test_few_edges);
	RUN(test_sizes);
	RUN(test_params);
	RUN(test_connect);
	RUN(test_finish_for_any_threads);
	RUN(test_graph_check);
	RUN(test_medoid);
	RUN(test_duplicates);
	UNIT_END();
}
