/*
 * test_nearest.c - nearest vertices: exact lists against comparisons one by one, in every form and
 * by every comparison, and searches against exact lists.
 */
#include "graph/descent.h"
#include "graph/graph.h"
#include "space/form.h"
#include "unit.h"

#define MOST_K 40

typedef struct World
{
	GrnRows		rows;
	char	   *base;
	size_t		bytes;
} World;

/* n rows of dim numbers by fill; base ends at a page that nobody may touch. */
static World
make_world(size_t n, uint32_t dim, GrnForm form, float offset, float spread, uint32_t clusters)
{
	World		w = {.rows = {.n = n, .dim = dim, .form = form, .embedding = GRN_EMBED_ROW}};
	float	   *x = malloc(dim * sizeof(float));
	float	   *middle = malloc((size_t) (clusters + 1) * dim * sizeof(float));

	w.rows.row_bytes = grn_row_bytes(form, GRN_EMBED_ROW, dim);
	w.bytes = n * w.rows.row_bytes;
	w.base = unit_guarded(w.bytes);
	w.rows.base = w.base;
	for (size_t i = 0; i < (size_t) clusters * dim; i++)
		middle[i] = unit_normal();
	for (size_t i = 0; i < n; i++)
	{
		for (uint32_t j = 0; j < dim; j++)
		{
			x[j] = offset + spread * unit_normal();
			if (clusters > 0)
				x[j] += middle[i % clusters * dim + j];
			if (form == GRN_FORM_BITS)
				x[j] = x[j] > 0;
		}
		grn_form_store(form, x, dim, w.base + i * w.rows.row_bytes);
	}
	free(x);
	free(middle);
	return w;
}

static void
end_world(World *w)
{
	unit_guarded_free(w->base, w->bytes);
}

static float
compare(const GrnNearest *n, size_t v, size_t u)
{
	const GrnRows *rows = n->rows;
	float		x[512];
	const float *q = grn_row_values(rows, grn_row(rows, v), x);

	return grn_compare(n->comparison, rows->form, q, grn_row(rows, u), rows->dim);
}

/* How many vertices are nearer to v than a distance, v aside unless own. */
static uint32_t
nearer(const GrnNearest *n, size_t v, bool own, float than)
{
	uint32_t	count = 0;

	for (size_t u = 0; u < n->rows->n; u++)
		count += (own || u != v) && compare(n, v, u) < than;
	return count;
}

/* Sorted, no id twice, v itself only if it may be, distances those of the comparison. */
static void
check_list(const GrnNearest *n, size_t v, bool own, const GrnNear *list, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
	{
		float		d = list[i].id < n->rows->n ? compare(n, v, list[i].id) : -1;

		CHECK(list[i].id < n->rows->n && (own || list[i].id != v), "%zu: %u", v, list[i].id);
		CHECK(fabsf(d - list[i].compared) <= 1e-5f * (1 + fabsf(d)), "%zu: %g, not %g", v, list[i].compared, d);
		CHECK(i == 0 || list[i - 1].compared <= list[i].compared, "%zu: order", v);
		for (uint32_t j = 0; j < i; j++)
			CHECK(list[j].id != list[i].id, "%zu: %u twice", v, list[i].id);
	}
}

static GrnNear *
exact_lists(const GrnNearest *n, const bool *own, uint32_t *counts)
{
	size_t		bytes = grn_nearest_exact_bytes(n);
	void	   *work = unit_guarded(bytes);
	GrnNear    *lists = malloc(n->rows->n * n->k * sizeof(GrnNear));

	for (size_t v = 0; v < n->rows->n; v += GRN_NEAREST_BLOCK)
	{
		size_t		left = n->rows->n - v;

		grn_nearest_exact(n, work, v, (uint32_t) (left < GRN_NEAREST_BLOCK ? left : GRN_NEAREST_BLOCK),
						  own + v, lists + v * n->k, counts + v);
	}
	unit_guarded_free(work, bytes);
	return lists;
}

/* Every list holds the nearest, by counting what is nearer than its last. */
static void
exact_is_exact(void)
{
	static const struct
	{
		size_t		n;
		uint32_t	dim;
		GrnForm		form;
		GrnComparison comparison;
		float		offset;
		uint32_t	k;
	}			cases[] = {
		{300, 17, GRN_FORM_F32, GRN_COMPARE_L2, 0, 10},
		{129, 1, GRN_FORM_F32, GRN_COMPARE_L2, 0, 3},
		{257, 130, GRN_FORM_F32, GRN_COMPARE_L2, 1000, 10}, /* products say nothing so far out */
		{300, 33, GRN_FORM_F32, GRN_COMPARE_IP, 1, 10},
		{200, 24, GRN_FORM_F32, GRN_COMPARE_L1, 0, MOST_K},
		{300, 40, GRN_FORM_F16, GRN_COMPARE_L2, 0, 10},
		{150, 40, GRN_FORM_F16, GRN_COMPARE_IP, 0, 1},
		{300, 61, GRN_FORM_BITS, GRN_COMPARE_L2, 0, 10},
		{300, 200, GRN_FORM_BITS, GRN_COMPARE_JACCARD, 0, 10},
		{5, 8, GRN_FORM_F32, GRN_COMPARE_L2, 0, 10},
		{1, 8, GRN_FORM_F32, GRN_COMPARE_L2, 0, 10},
		{2, 300, GRN_FORM_F32, GRN_COMPARE_IP, 0, 1}
	};

	for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++)
	{
		World		w = make_world(cases[c].n, cases[c].dim, cases[c].form, cases[c].offset, 1, 0);
		GrnNearest	n = {.rows = &w.rows, .comparison = cases[c].comparison, .k = cases[c].k};
		bool	   *own = calloc(w.rows.n, sizeof(bool));
		uint32_t   *counts = malloc(w.rows.n * sizeof(uint32_t));
		GrnNear    *lists;

		for (size_t v = 0; v < w.rows.n; v += 3)
			own[v] = true;
		lists = exact_lists(&n, own, counts);
		for (size_t v = 0; v < w.rows.n; v++)
		{
			size_t		others = w.rows.n - !own[v];
			const GrnNear *list = lists + v * n.k;

			CHECK(counts[v] == (others < n.k ? others : n.k), "case %zu, %zu: %u", c, v, counts[v]);
			check_list(&n, v, own[v], list, counts[v]);
			if (counts[v] > 0)
			{
				float		last = list[counts[v] - 1].compared;

				CHECK(nearer(&n, v, own[v], last - 1e-4f * (1 + fabsf(last))) < counts[v], "case %zu, %zu", c, v);
			}
		}
		free(own);
		free(counts);
		free(lists);
		end_world(&w);
	}
}

static GrnGraph
make_graph(const GrnRows *rows, uint32_t degree)
{
	GrnParallel parallel = {1, unit_run};
	GrnGraphParams params = {.degree = degree, .seed = 1};
	GrnGraph	graph = {.n = (uint32_t) rows->n, .degree = degree};
	void	   *work;

	grn_default_params(&params, rows->dim, rows->n);
	graph.ids = malloc(rows->n * degree * sizeof(uint32_t));
	graph.counts = malloc(rows->n);
	work = malloc(grn_rnnd_bytes(&params, rows->n, grn_copied_dims(rows)));
	grn_rnnd_build(rows, &params, true, &parallel, work, &graph, NULL, NULL);
	free(work);
	return graph;
}

/* The share of the exact lists that searches find; their lists are sound. */
static double
search_recall(const GrnNearest *n, const bool *own)
{
	size_t		bytes = grn_nearest_search_bytes(n);
	void	   *work = unit_guarded(bytes);
	uint32_t   *counts = malloc(n->rows->n * sizeof(uint32_t));
	GrnNear    *lists = exact_lists(n, own, counts);
	uint64_t	hits = 0;
	uint64_t	all = 0;

	memset(work, 0, bytes);
	for (size_t v = 0; v < n->rows->n; v++)
	{
		GrnNear		found[MOST_K];
		uint32_t	count = grn_nearest_search(n, work, (uint32_t) v, own[v], found);
		float		last = counts[v] > 0 ? lists[v * n->k + counts[v] - 1].compared : 0;

		check_list(n, v, own[v], found, count);
		CHECK(count <= counts[v], "%zu: %u of %u", v, count, counts[v]);
		for (uint32_t i = 0; i < count; i++)
			hits += found[i].compared <= last;
		all += counts[v];
	}
	free(counts);
	free(lists);
	unit_guarded_free(work, bytes);
	return (double) hits / (double) all;
}

static void
searches_find_most(void)
{
	static const GrnComparison comparisons[] = {GRN_COMPARE_L2, GRN_COMPARE_L1};

	for (size_t c = 0; c < 4; c++)
	{
		World		w = make_world(1500, 24, c < 2 ? GRN_FORM_F32 : GRN_FORM_F16, 0, 0.3f, 30);
		GrnGraph	graph = make_graph(&w.rows, 24);
		uint32_t	entries[4] = {0, 401, 802, 1203};
		GrnNearest	n = {.rows = &w.rows, .comparison = comparisons[c % 2], .k = 10, .graph = &graph, .ef = 40,
			.entries = entries, .nentries = 4};
		bool	   *own = calloc(w.rows.n, sizeof(bool));
		double		recall = search_recall(&n, own);

		CHECK(recall > 0.98, "case %zu: %.4f", c, recall);
		for (size_t v = 0; v < w.rows.n; v += 2)
			own[v] = true;
		recall = search_recall(&n, own);
		CHECK(recall > 0.98, "case %zu, with themselves: %.4f", c, recall);
		free(own);
		free(graph.ids);
		free(graph.counts);
		end_world(&w);
	}
}

/* Each component has fewer vertices than are wanted: entries lead to others. */
static void
components_are_left(void)
{
	enum
	{
		SIZE = 5,
		COMPONENTS = 40
	};
	World		w = make_world(SIZE * COMPONENTS, 4, GRN_FORM_F32, 0, 0.01f, COMPONENTS);
	GrnGraph	graph = {.n = (uint32_t) w.rows.n, .degree = 8};
	uint32_t	entries[8];
	GrnNearest	n = {.rows = &w.rows, .comparison = GRN_COMPARE_L2, .k = 10, .graph = &graph, .ef = 20,
		.entries = entries, .nentries = 8};
	size_t		bytes = grn_nearest_search_bytes(&n);
	void	   *work = unit_guarded(bytes);

	memset(work, 0, bytes);
	graph.ids = malloc(w.rows.n * graph.degree * sizeof(uint32_t));
	graph.counts = malloc(w.rows.n);
	/* vertex i is of cluster i % COMPONENTS */
	for (uint32_t v = 0; v < w.rows.n; v++)
	{
		graph.counts[v] = 0;
		for (uint32_t u = v % COMPONENTS; u < w.rows.n; u += COMPONENTS)
			if (u != v)
				graph.ids[v * graph.degree + graph.counts[v]++] = u;
	}
	for (uint32_t i = 0; i < 8; i++)
		entries[i] = i;
	for (uint32_t v = 0; v < w.rows.n; v++)
	{
		GrnNear		found[10];
		uint32_t	count = grn_nearest_search(&n, work, v, false, found);

		CHECK(count == 10, "%u: %u", v, count);
		check_list(&n, v, false, found, count);
		for (uint32_t i = 0; i < SIZE - 1; i++)
			CHECK(found[i].id % COMPONENTS == v % COMPONENTS, "%u: %u", v, found[i].id);
	}
	free(graph.ids);
	free(graph.counts);
	unit_guarded_free(work, bytes);
	end_world(&w);
}

/* A search among many rows touches only what it has seen, whatever their number. */
static void
searches_touch_little(void)
{
	World		w = make_world(200, 4, GRN_FORM_F32, 0, 1, 0);
	GrnGraph	graph = make_graph(&w.rows, 8);
	GrnRows		many = w.rows;
	uint32_t	entry = 0;
	GrnNearest	n = {.rows = &many, .comparison = GRN_COMPARE_L2, .k = 10, .graph = &graph, .ef = 20,
		.entries = &entry, .nentries = 1};
	size_t		page = (size_t) sysconf(_SC_PAGESIZE);
	size_t		bytes;
	size_t		pages;
	uint8_t    *work;
	unsigned char *resident;
	size_t		touched = 0;
	GrnNear		found[10];

	many.n = (size_t) 1 << 30;
	bytes = grn_nearest_search_bytes(&n);
	pages = (bytes + page - 1) / page;
	work = unit_guarded(bytes);
	resident = malloc(pages);
	for (uint32_t v = 0; v < 10; v++)
		CHECK(grn_nearest_search(&n, work, v, false, found) == 10, "%u", v);
	CHECK(mincore(work + bytes - pages * page, pages * page, resident) == 0, "mincore");
	for (size_t i = 0; i < pages; i++)
		touched += resident[i] & 1;
	CHECK(touched < pages / 8, "%zu of %zu pages", touched, pages);
	free(resident);
	unit_guarded_free(work, bytes);
	free(graph.ids);
	free(graph.counts);
	end_world(&w);
}

int
main(void)
{
	grn_dist_init();
	RUN(exact_is_exact);
	RUN(searches_find_most);
	RUN(components_are_left);
	RUN(searches_touch_little);
	UNIT_END();
}
