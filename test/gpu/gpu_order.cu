/*
 * gpu_order.cu - tests of what is asked of a finished graph: whom an entry reaches, and the order
 * of pages by edges (cuda/page_order.cu), against plain C after src/graph/build/page_order.c; and
 * that by cuts (cuda/cut_order.cu), by what it must have.
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

/* Vertices by the number of the nearest source, the smallest of equals; EMPTY_ID: none. */
static std::vector<uint32_t>
oracle_labels(const TestGraph &g, const std::vector<uint32_t> &sources)
{
	std::vector<uint32_t> label(g.n, EMPTY_ID),
				level = sources;

	for (uint32_t i = 0; i < sources.size(); i++)
		label[sources[i]] = i;
	while (!level.empty())
	{
		std::vector<uint32_t> next,
					offered(g.n, EMPTY_ID);

		for (uint32_t v : level)
			for (uint32_t k = 0; k < g.counts[v]; k++)
				if (label[g.list(v)[k]] == EMPTY_ID)
				{
					uint32_t   &best = offered[g.list(v)[k]];

					if (best == EMPTY_ID)
						next.push_back(g.list(v)[k]);
					best = std::min(best, label[v]);
				}
		for (uint32_t v : next)
			label[v] = offered[v];
		level = next;
	}
	return label;
}

/* The positions of a region's vertices, which come in ascending order. */
static void
oracle_region(const TestGraph &g, const std::vector<uint32_t> &members, uint32_t start, uint32_t per_page,
			  const std::vector<uint32_t> &region, uint32_t mine, std::vector<uint32_t> &position)
{
	std::vector<uint32_t> candidates,
				links,
				seen;
	std::vector<uint32_t> at(g.n, EMPTY_ID);	/* among candidates */
	std::vector<uint8_t> was_seen(g.n);
	uint32_t	packed = 0,
				next_seen = 0,
				next = 0;
	auto		pack = [&](uint32_t v) {
		position[v] = start + packed++;
		if (at[v] != EMPTY_ID)
			links[at[v]] = 0;
		for (uint32_t k = 0; k < g.counts[v]; k++)
		{
			uint32_t	u = g.list(v)[k];

			if (region[u] != mine || position[u] != EMPTY_ID)
				continue;
			if (!was_seen[u])
				seen.push_back(u), was_seen[u] = 1;
			if (at[u] == EMPTY_ID)
			{
				if (candidates.size() == 2048)
					continue;
				at[u] = (uint32_t) candidates.size();
				candidates.push_back(u), links.push_back(0);
			}
			links[at[u]]++;
		}
	};
	auto		best = [&] {
		uint32_t	most = 0,
					found = EMPTY_ID;

		for (size_t i = 0; i < candidates.size(); i++)
			if (links[i] > most)
				most = links[i], found = candidates[i];
		return found;
	};

	while (packed < members.size())
	{
		uint32_t	v = best();

		for (uint32_t u : candidates)
			at[u] = EMPTY_ID;
		candidates.clear(), links.clear();
		for (; v == EMPTY_ID && next_seen < seen.size(); next_seen++)
			if (position[seen[next_seen]] == EMPTY_ID)
				v = seen[next_seen];
		for (; v == EMPTY_ID; next++)
			if (position[members[next]] == EMPTY_ID)
				v = members[next];
		pack(v);
		for (uint32_t i = 1; i < per_page && packed < members.size(); i++)
		{
			v = best();
			if (v == EMPTY_ID)
				break;
			pack(v);
		}
	}
}

static std::vector<uint32_t>
oracle_order(const TestGraph &g, const std::vector<uint32_t> &sources, uint32_t per_page)
{
	std::vector<uint32_t> region = oracle_labels(g, sources),
				position(g.n, EMPTY_ID);
	std::vector<std::vector<uint32_t>> members(sources.size() + 1);
	uint32_t	start = 0;

	for (uint32_t v = 0; v < g.n; v++)
	{
		region[v] = std::min(region[v], (uint32_t) sources.size());
		members[region[v]].push_back(v);
	}
	for (uint32_t r = 0; r < members.size(); r++)
	{
		oracle_region(g, members[r], start, per_page, region, r, position);
		start += (uint32_t) members[r].size();
	}
	return position;
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
	gpu->built = Lists {(uint32_t *) (gpu->d_arena + gpu->plan.inbox[0]), gpu->d_arena + gpu->plan.counts};
	must(cudaMemcpy(gpu->built.d_ids, g.ids.data(), g.ids.size() * 4, cudaMemcpyHostToDevice), "copy");
	must(cudaMemcpy(gpu->built.d_counts, g.counts.data(), g.n, cudaMemcpyHostToDevice), "copy");
	return true;
}

static void
test_order(GrnGpu *gpu, uint32_t n, uint32_t degree, uint32_t near, uint32_t nsources, uint32_t per_page,
		   uint32_t apart, bool hubs, bool take = false)
{
	TestGraph	g = make_graph(n, degree, near, apart, hubs);
	std::vector<uint32_t> sources,
				position(n + 1, 77),
				order;
	std::vector<uint64_t> reached((n + 63) / 64 + 1, 77);
	GrnGpuError err = {};
	uint64_t	count = 0;
	uint32_t	wrong = 0,
				expected = 0,
				entry = n / 3;

	for (uint32_t i = 0; i < nsources; i++)
		sources.push_back((uint32_t) ((uint64_t) n * i / nsources));

	bool		fine = hold(gpu, g, &err, take);

	fine = fine && grn_gpu_reach(gpu, entry, reached.data(), &count, &err) == GRN_GPU_OK;
	fine = fine && grn_gpu_page_order(gpu, sources.data(), nsources, per_page, position.data(), &err) == GRN_GPU_OK;
	grn_gpu_end(gpu);

	std::vector<uint32_t> label = oracle_labels(g, {entry}),
				want = oracle_order(g, sources, per_page);

	for (uint32_t v = 0; v < n && fine; v++)
	{
		expected += label[v] == 0;
		wrong += (reached[v / 64] >> v % 64 & 1) != (label[v] == 0);
	}
	std::string name = std::to_string(n) + " vertices of degree " + std::to_string(degree) + (hubs ? ", hubs" : "") +
		(apart < n ? ", some apart" : "") + (take ? ", from the host" : "");

	report("reached by an entry, " + name, fine && wrong == 0 && count == expected && reached.back() == 77,
		   fine ? std::to_string(wrong) + " differ, " + std::to_string(expected) + " reached" : err.text);
	wrong = 0;
	for (uint32_t v = 0; v < n && fine; v++)
		wrong += position[v] != want[v];
	report("order of pages, " + name + ", " + std::to_string(nsources) + " regions, " + std::to_string(per_page) +
		   " a page", fine && wrong == 0 && position[n] == 77,
		   fine ? std::to_string(wrong) + " differ" : err.text);
}

/* Rows for an order by cuts: each page's are copies of one. */
struct CutRows
{
	uint32_t	n,
				dim;
	bool		integers;		/* 0 to 255: digests are the rows */
	bool		near;			/* copies differ, but less than bytes tell */
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

			x[(size_t) i * r.dim + d] = r.integers ? (float) rnd(210, of, 256) : gaussian(211, of) +
				(r.near ? 1e-4f * gaussian(212, (uint64_t) i * r.dim + d) : 0);
		}
	return x;
}

/*
 * Rows of which per_page each are copies of one: every cut goes between those of two rows, so that
 * pages have copies of one row alone.  keep: by digests that the handle keeps, of a graph that the
 * host brings.
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

	options.keep = keep;
	options.few_directions = true;
	grn_gpu_default_params(&params, r.dim);

	std::vector<uint32_t> ids((size_t) n * params.degree);
	std::vector<uint8_t> counts(n);

	fine = grn_gpu_begin(gpu, n, r.dim, &options, &params, &err) == GRN_GPU_OK &&
		grn_gpu_rows(gpu, 0, n, x.data(), r.dim, &err) == GRN_GPU_OK &&
		grn_gpu_build(gpu, ids.data(), counts.data(), NULL, NULL, NULL, &err) == GRN_GPU_OK &&
		(!keep || grn_gpu_take_graph(gpu, n, params.degree, ids.data(), counts.data(), 0, &err) == GRN_GPU_OK) &&
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
		   (r.integers ? " integers" : r.near ? " floats, nearly copies" : " floats") +
		   (keep ? ", digests kept" : "") + ", " + std::to_string(per_page) + " a page",
		   fine && wrong == 0 && mixed <= (r.near ? n / 20 : 0) && position[n] == 77,
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
	test_cuts(gpu, {6 * 2000, 384, false, false}, 6, true);
	test_cuts(gpu, {40, 16, true, false}, 40, false);
	test_cuts(gpu, {40, 16, true, false}, 64, false);
	test_cuts(gpu, {128 * 30, 16, true, false}, 128, false);
	for (uint32_t n : {40u, 41u, 64u, 1000u})
		test_order(gpu, n, 8, 5, 1, 3, n, false);
	test_order(gpu, 20000, 34, 40, 3, 7, 20000, false);
	test_order(gpu, 20000, 34, 40, 3, 7, 5000, true);
	test_order(gpu, 50000, 96, 300, 7, 40, 50000, true);	/* more candidates than there is room for */
	test_order(gpu, 30000, 33, 2000, 200, 7, 100, true);
	test_order(gpu, 9000, 5, 3, 4096, 2, 9000, false);
	test_order(gpu, 70000, 1, 2, 9, 5, 70000, false);
	test_order(gpu, 40, 8, 5, 1, 3, 40, false, true);
	test_order(gpu, 20000, 34, 40, 3, 7, 5000, true, true);
	test_order(gpu, 9000, 5, 3, 4096, 2, 9000, false, true);

	/* a graph that is too deep, or that is not there, is left to the processor */
	TestGraph	chain = {5000, 8, std::vector<uint32_t>(40000, EMPTY_ID), std::vector<uint8_t>(5000, 1)};
	std::vector<uint32_t> position(5000);
	std::vector<uint64_t> reached(80);
	GrnGpuError err = {};
	uint64_t	count;
	uint32_t	source = 0;

	for (uint32_t v = 0; v < 5000; v++)
		chain.ids[8 * v] = (v + 1) % 5000;
	report("a graph for which there is no memory is not taken",
		   grn_gpu_take_graph(gpu, 5000, 8, chain.ids.data(), chain.counts.data(), 1000, &err) == GRN_GPU_MEMORY,
		   err.text);
	report("a deep graph is left to the processor", hold(gpu, chain, &err) &&
		   grn_gpu_reach(gpu, 0, reached.data(), &count, &err) == GRN_GPU_FAILED &&
		   grn_gpu_page_order(gpu, &source, 1, 7, position.data(), &err) == GRN_GPU_FAILED, err.text);
	grn_gpu_end(gpu);
	report("a graph without digests is not cut", hold(gpu, chain, &err) &&
		   grn_gpu_cut_order(gpu, 7, position.data(), &err) == GRN_GPU_FAILED, err.text);
	grn_gpu_end(gpu);
	report("and one that is not there", grn_gpu_reach(gpu, 0, reached.data(), &count, &err) == GRN_GPU_FAILED &&
		   grn_gpu_cut_order(gpu, 7, position.data(), &err) == GRN_GPU_FAILED &&
		   grn_gpu_page_order(gpu, &source, 1, 7, position.data(), &err) == GRN_GPU_FAILED, err.text);
}
