/*
 * gpu_order.cu - tests of what is asked of a finished graph: whom an entry reaches (cuda/reach.cu),
 * and the order of pages by cuts (cuda/cut_order.cu), by what it must have.
 */
#include "gpu_check.h"

#include <numeric>

#include "../../cuda/handle.h"

struct TestGraph
{
	uint32_t	n,
				degree;
	std::vector<uint32_t> ids;
	std::vector<uint8_t> counts;

	const uint32_t *list(uint32_t v) const
	{
		return &ids[(size_t) v * degree];
	}
};

/*
 * Edges to vertices within `near`, of which one in 16 goes anywhere; of every hundred vertices from
 * `apart` on nobody knows one.  hubs: half of all lists name one of three vertices, too.
 */
static TestGraph
make_graph(uint32_t n, uint32_t degree, uint32_t near, uint32_t apart, bool hubs)
{
	TestGraph	g = {n, degree, std::vector<uint32_t>((size_t) n * degree, EMPTY_ID), std::vector<uint8_t>(n)};

	for (uint32_t v = 0; v < n; v++)
	{
		uint32_t	want = v % 9 == 5 ? rnd(200, v, degree + 1) : degree;
		uint32_t   *list = &g.ids[(size_t) v * degree];

		for (uint32_t k = 0; k < 3 * degree && g.counts[v] < want; k++)
		{
			uint64_t	at = (uint64_t) v * 300 + k;
			uint32_t	u = rnd(201, at, 16) == 0 ? rnd(202, at, n) : (v + n + rnd(203, at, 2 * near + 1) - near) % n;

			if (hubs && k == 0 && v % 2)
				u = n / 2 + rnd(204, v, 3);
			if (u >= apart && u % 100 == 0)
				continue;
			if (u != v && std::find(list, list + g.counts[v], u) == list + g.counts[v])
				list[g.counts[v]++] = u;
		}
	}
	return g;
}

/* Whether an entry reaches each vertex. */
static std::vector<bool>
oracle_reached(const TestGraph &g, uint32_t entry)
{
	std::vector<bool> reached(g.n);
	std::vector<uint32_t> waiting = {entry};

	reached[entry] = true;
	while (!waiting.empty())
	{
		uint32_t	v = waiting.back();

		waiting.pop_back();
		for (uint32_t k = 0; k < g.counts[v]; k++)
			if (!reached[g.list(v)[k]])
			{
				reached[g.list(v)[k]] = true;
				waiting.push_back(g.list(v)[k]);
			}
	}
	return reached;
}

/* Lets a handle hold the graph as if it had just been built there, or takes it from the host. */
static bool
hold(GrnGpu *gpu, const TestGraph &g, GrnGpuError *err, bool take = false)
{
	if (take)
		return grn_gpu_take_graph(gpu, g.n, g.degree, g.ids.data(), g.counts.data(), 0, err) == GRN_GPU_OK;

	GrnGpuOptions options = {};
	GrnGraphParams params = {};

	params.degree = g.degree;
	if (grn_gpu_begin(gpu, g.n, 16, &options, &params, err) != GRN_GPU_OK)
		return false;
	gpu->built.lists = Lists {(uint32_t *) (gpu->d_arena + gpu->plan.inbox[0]), gpu->d_arena + gpu->plan.counts};
	must(cudaMemcpy(gpu->built.lists.d_ids, g.ids.data(), g.ids.size() * 4, cudaMemcpyHostToDevice), "copy");
	must(cudaMemcpy(gpu->built.lists.d_counts, g.counts.data(), g.n, cudaMemcpyHostToDevice), "copy");
	return true;
}

static void
test_reach(GrnGpu *gpu, uint32_t n, uint32_t degree, uint32_t near, uint32_t apart, bool hubs, bool take = false)
{
	TestGraph	g = make_graph(n, degree, near, apart, hubs);
	std::vector<uint64_t> reached((n + 63) / 64 + 1, 77);
	GrnGpuError err = {};
	uint64_t	count = 0;
	uint32_t	wrong = 0,
				expected = 0,
				entry = n / 3;
	bool		fine = hold(gpu, g, &err, take) &&
		grn_gpu_reach(gpu, entry, reached.data(), &count, &err) == GRN_GPU_OK;

	grn_gpu_end(gpu);

	std::vector<bool> want = oracle_reached(g, entry);

	for (uint32_t v = 0; v < n && fine; v++)
	{
		expected += want[v];
		wrong += (reached[v / 64] >> v % 64 & 1) != want[v];
	}
	report("reached by an entry, " + std::to_string(n) + " vertices of degree " + std::to_string(degree) +
		   (hubs ? ", hubs" : "") + (apart < n ? ", some apart" : "") + (take ? ", from the host" : ""),
		   fine && wrong == 0 && count == expected && reached.back() == 77,
		   fine ? std::to_string(wrong) + " differ, " + std::to_string(expected) + " reached" : err.text);
}

/* Rows for an order by cuts: each page's are copies of one. */
struct CutRows
{
	uint32_t	n,
				dim;
	bool		integers;		/* 0 to 255: digests are the rows */
	bool		near;			/* copies differ, but less than bytes tell */
	bool		bits;			/* 0 or 1: digests are the rows */
};

static std::vector<float>
make_cut_rows(const CutRows &r, uint32_t per_page)
{
	std::vector<float> x((size_t) r.n * r.dim);
	uint32_t	pages = (r.n - 1) / per_page + 1;

	for (uint32_t i = 0; i < r.n; i++)
		for (uint32_t d = 0; d < r.dim; d++)
		{
			/* rows i, i + pages, i + 2 pages and so on are copies */
			uint64_t	of = (uint64_t) (i % pages) * r.dim + d;

			x[(size_t) i * r.dim + d] = r.bits ? (float) rnd(213, of, 2) : r.integers ? (float) rnd(210, of, 256) :
				gaussian(211, of) + (r.near ? 1e-4f * gaussian(212, (uint64_t) i * r.dim + d) : 0);
		}
	return x;
}

/*
 * Rows of which per_page each are copies of one: every cut goes between those of two rows, so that
 * pages have copies of one row alone.  keep: by digests of integers that the handle keeps, of
 * a graph that the host brings.
 */
static void
test_cuts(GrnGpu *gpu, const CutRows &r, uint32_t per_page, bool keep)
{
	uint32_t	n = r.n,
				pages = (n - 1) / per_page + 1,
				mixed = 0,
				wrong = 0;
	std::vector<float> x = make_cut_rows(r, per_page);
	std::vector<uint32_t> position(n + 1, 77),
				again(n + 1, 77),
				on_page(n, EMPTY_ID);
	GrnGpuOptions options = {};
	GrnGraphParams params = {};
	GrnGpuError err = {};
	bool		fine;

	options.few_directions = true;
	options.rows = r.bits ? GRN_GPU_BIT_DIGESTS : GRN_GPU_FLOATS;
	grn_gpu_default_params(&params, r.dim);

	/* a byte's highest bit first, and rows of whole words */
	uint64_t	row_bytes = (r.dim + 31) / 32 * 4;
	std::vector<uint8_t> bits(r.bits ? n * row_bytes : 0);
	GrnGpuSource source = {bits.data(), NULL, row_bytes, 0, 0, GRN_NUMBERS_BITS};

	for (size_t i = 0; r.bits && i < x.size(); i++)
		if (x[i] != 0)
			bits[i / r.dim * row_bytes + i % r.dim / 8] |= 0x80 >> i % r.dim % 8;

	std::vector<uint32_t> ids((size_t) n * params.degree);
	std::vector<uint8_t> counts(n);
	GrnGpuFit	fit = {};
	int			failed;

	fit.rows = GRN_GPU_EXACT_DIGESTS;
	fit.dim = r.dim;
	fine = !keep || grn_gpu_fit(gpu, NULL, 0, 0, &fit, &err) == GRN_GPU_OK;

	std::vector<uint8_t> digests(keep ? (size_t) n * fit.digest_bytes : 0);

	for (size_t i = 0; keep && i < x.size(); i++)
		digests[i / r.dim * fit.digest_bytes + i % r.dim] = (uint8_t) x[i];

	fine = fine && grn_gpu_begin(gpu, n, r.dim, &options, &params, &err) == GRN_GPU_OK &&
		(r.bits ? grn_gpu_rows_from(gpu, &source, 0, n, &err) : grn_gpu_rows(gpu, 0, n, x.data(), r.dim, &err)) == GRN_GPU_OK &&
		grn_gpu_build(gpu, ids.data(), counts.data(), NULL, NULL, NULL, &err) == GRN_GPU_OK &&
		(!keep || (grn_gpu_keep_digests(gpu, &fit, n, 0, &err) == GRN_GPU_OK &&
				   grn_gpu_share_digests(&gpu, 1, &fit, digests.data(), &failed, &err) == GRN_GPU_OK &&
				   grn_gpu_take_graph(gpu, n, params.degree, ids.data(), counts.data(), 0, &err) == GRN_GPU_OK)) &&
		grn_gpu_cut_order(gpu, per_page, position.data(), &err) == GRN_GPU_OK &&
		grn_gpu_cut_order(gpu, per_page, again.data(), &err) == GRN_GPU_OK;
	grn_gpu_end(gpu);
	grn_gpu_drop_digests(gpu);
	for (uint32_t i = 0; i < n && fine; i++)
	{
		wrong += position[i] >= n || on_page[position[i]] != EMPTY_ID || position[i] != again[i];
		if (position[i] < n)
			on_page[position[i]] = i % pages;
	}
	for (uint32_t page = 0; page < pages && fine && wrong == 0; page++)
		for (uint32_t at = page * per_page + 1; at < std::min(n, (page + 1) * per_page); at++)
			mixed += on_page[at] != on_page[page * per_page];
	report("order by cuts, " + std::to_string(n) + " rows of " + std::to_string(r.dim) +
		   (r.bits ? " bits" : r.integers ? " integers" : r.near ? " floats, nearly copies" : " floats") +
		   (keep ? ", digests kept" : "") + ", " + std::to_string(per_page) + " a page",
		   fine && wrong == 0 && mixed <= (r.near ? n / 20 : r.bits ? n / 100 : 0) && position[n] == 77,
		   fine ? std::to_string(wrong) + " wrong, " + std::to_string(mixed) + " on another's page" : err.text);
}

void
test_orders(GrnGpu *gpu)
{
	for (uint32_t per_page : {1u, 2u, 7u, 16u, 64u})
		for (uint32_t dim : {16u, 32u, 100u, 128u})
			test_cuts(gpu, {per_page * 700, dim, true, false}, per_page, per_page == 7);
	test_cuts(gpu, {6 * 30000, 128, true, false}, 6, false);
	test_cuts(gpu, {6 * 30000, 384, false, false}, 6, false);
	test_cuts(gpu, {6 * 2000, 64, false, true}, 6, false);
	test_cuts(gpu, {6 * 2000, 384, false, true}, 6, false);
	for (uint32_t dim : {64u, 512u, 1024u, 2048u})
		test_cuts(gpu, {6 * 2000, dim, false, false, true}, 6, false);
	test_cuts(gpu, {40, 16, true, false}, 40, false);
	test_cuts(gpu, {40, 16, true, false}, 64, false);
	test_cuts(gpu, {128 * 30, 16, true, false}, 128, false);
	for (uint32_t n : {40u, 41u, 64u, 1000u})
		test_reach(gpu, n, 8, 5, n, false);
	test_reach(gpu, 20000, 34, 40, 20000, false);
	test_reach(gpu, 20000, 34, 40, 5000, true);
	test_reach(gpu, 50000, 96, 300, 50000, true);
	test_reach(gpu, 30000, 33, 2000, 100, true);
	test_reach(gpu, 9000, 5, 3, 9000, false);
	test_reach(gpu, 70000, 1, 2, 70000, false);
	test_reach(gpu, 40, 8, 5, 40, false, true);
	test_reach(gpu, 20000, 34, 40, 5000, true, true);
	test_reach(gpu, 9000, 5, 3, 9000, false, true);

	/* a graph that is too deep, or that is not there, is left to the processor */
	TestGraph	chain = {5000, 8, std::vector<uint32_t>(40000, EMPTY_ID), std::vector<uint8_t>(5000, 1)};
	std::vector<uint32_t> position(5000);
	std::vector<uint64_t> reached(80);
	GrnGpuError err = {};
	uint64_t	count;

	for (uint32_t v = 0; v < 5000; v++)
		chain.ids[8 * v] = (v + 1) % 5000;
	report("a graph for which there is no memory is not taken",
		   grn_gpu_take_graph(gpu, 5000, 8, chain.ids.data(), chain.counts.data(), 1000, &err) == GRN_GPU_MEMORY,
		   err.text);
	report("a deep graph is left to the processor", hold(gpu, chain, &err) &&
		   grn_gpu_reach(gpu, 0, reached.data(), &count, &err) == GRN_GPU_FAILED, err.text);
	grn_gpu_end(gpu);
	report("a graph without digests is not cut", hold(gpu, chain, &err) &&
		   grn_gpu_cut_order(gpu, 7, position.data(), &err) == GRN_GPU_FAILED, err.text);
	grn_gpu_end(gpu);
	report("and one that is not there", grn_gpu_reach(gpu, 0, reached.data(), &count, &err) == GRN_GPU_FAILED &&
		   grn_gpu_cut_order(gpu, 7, position.data(), &err) == GRN_GPU_FAILED, err.text);
}
