/*
 * bench.cu - builds graphs of a vectors folder under several settings in one
 * run and judges each by the beam search of the project's evaluator: recall@10 of
 * the first 3,000 queries at L = 32, 64, 128, and distances a query.
 *
 *   bench DIR SETTING...
 *
 * DIR holds base.fbin, query.fbin and gt.ibin.  A setting is a comma-separated list
 * of name=value (see set()), for example  t1=4,t2=3,inbox=48.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "../../cuda/common.cuh"

static const int ENTRIES = 32;
static const uint32_t QUERIES = 3000;
static const int K = 10;

struct Matrix
{
	uint32_t	n = 0,
				dim = 0;
	std::vector<float> x;
};

static Matrix
read_fbin(const std::string &path, uint32_t most)
{
	Matrix		m;
	FILE	   *f = fopen(path.c_str(), "rb");
	uint32_t	head[2];

	if (!f || fread(head, 4, 2, f) != 2)
	{
		fprintf(stderr, "bench: cannot read %s\n", path.c_str());
		exit(1);
	}
	m.n = std::min(head[0], most);
	m.dim = head[1];
	m.x.resize((size_t) m.n * m.dim);
	if (fread(m.x.data(), 4, m.x.size(), f) != m.x.size())
	{
		fprintf(stderr, "bench: %s is cut short\n", path.c_str());
		exit(1);
	}
	fclose(f);
	return m;
}

static double
now()
{
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class F> static void
parallel(size_t n, F f)
{
	unsigned	workers = std::max(1u, std::thread::hardware_concurrency());
	std::vector<std::thread> threads;

	for (unsigned w = 0; w < workers; w++)
		threads.emplace_back([=] {
			for (size_t i = n * w / workers; i < n * (w + 1) / workers; i++)
				f(i);
		});
	for (auto &t : threads)
		t.join();
}

static float
l2(const float *a, const float *b, uint32_t dim)
{
	float		s[16] = {};
	uint32_t	d = 0;

	for (; d + 16 <= dim; d += 16)
		for (int k = 0; k < 16; k++)
			s[k] += (a[d + k] - b[d + k]) * (a[d + k] - b[d + k]);
	for (; d < dim; d++)
		s[0] += (a[d] - b[d]) * (a[d] - b[d]);
	for (int k = 1; k < 16; k++)
		s[0] += s[k];
	return s[0];
}

struct Graph
{
	uint32_t	n,
				degree;
	std::vector<uint32_t> ids;
	std::vector<uint8_t> counts;
};

/* One beam search; returns the number of distances. */
static uint32_t
search(const Graph &g, const Matrix &base, const float *q, uint32_t L,
	   const std::vector<uint32_t> &entries, std::vector<uint32_t> &seen, uint32_t stamp,
	   std::vector<std::pair<float, uint32_t>> &beam)
{
	uint32_t	distances = 0;
	std::vector<char> open;

	beam.clear();
	auto		offer = [&](uint32_t id)
	{
		if (seen[id] == stamp)
			return SIZE_MAX;
		seen[id] = stamp;
		distances++;
		std::pair<float, uint32_t> x(l2(q, &base.x[(size_t) id * base.dim], base.dim), id);

		if (beam.size() == L && !(x < beam.back()))
			return SIZE_MAX;
		size_t		at = std::lower_bound(beam.begin(), beam.end(), x) - beam.begin();

		beam.insert(beam.begin() + at, x);
		open.insert(open.begin() + at, 1);
		if (beam.size() > L)
			beam.pop_back(), open.pop_back();
		return at;
	};

	for (uint32_t e : entries)
		offer(e);
	for (size_t i = 0; i < beam.size();)
	{
		if (!open[i])
		{
			i++;
			continue;
		}
		open[i] = 0;
		uint32_t	v = beam[i].second;
		size_t		first = i + 1;

		for (uint32_t k = 0; k < g.counts[v]; k++)
			first = std::min(first, offer(g.ids[(size_t) v * g.degree + k]));
		i = std::min(first, i + 1);
		/* an insertion before i moved the expanded vertex back */
	}
	return distances;
}

static void
evaluate(const Graph &g, const Matrix &base, const Matrix &query,
		 const std::vector<int32_t> &truth, uint32_t truth_k)
{
	std::vector<uint32_t> entries;
	uint32_t	queries = std::min(QUERIES, query.n);

	for (int i = 0; i < ENTRIES; i++)
		entries.push_back(random_below(random64(99, 0, i), g.n));
	for (uint32_t L : {32u, 64u, 128u})
	{
		unsigned	workers = std::max(1u, std::thread::hardware_concurrency());
		std::vector<uint64_t> hits(workers),
					distances(workers);
		std::vector<std::thread> threads;

		for (unsigned w = 0; w < workers; w++)
			threads.emplace_back([&, w] {
				std::vector<uint32_t> seen(g.n, 0);
				std::vector<std::pair<float, uint32_t>> beam;

				for (uint32_t i = w; i < queries; i += workers)
				{
					distances[w] += search(g, base, &query.x[(size_t) i * query.dim], L,
										   entries, seen, i + 1, beam);
					for (size_t k = 0; k < beam.size() && k < K; k++)
						for (int j = 0; j < K; j++)
							hits[w] += beam[k].second == (uint32_t) truth[(size_t) i * truth_k + j];
				}
			});
		for (auto &t : threads)
			t.join();
		uint64_t	h = 0,
					d = 0;

		for (unsigned w = 0; w < workers; w++)
			h += hits[w], d += distances[w];
		printf(" %.4f@%-4.0f", (double) h / (queries * K), (double) d / queries);
	}
}

/* Says what is wrong with a graph, if anything. */
static void
check(const Graph &g, const Matrix &base)
{
	std::vector<uint8_t> bad(g.n, 0);
	uint64_t	edges = 0;
	uint32_t	most = 0,
				least = UINT32_MAX;

	parallel(g.n, [&](size_t v) {
		const uint32_t *ids = &g.ids[v * g.degree];
		float		last = -1;

		if (g.counts[v] > g.degree)
		{
			bad[v] = 1;
			return;
		}
		for (uint32_t k = 0; k < g.counts[v]; k++)
		{
			if (ids[k] >= g.n)
			{
				bad[v] = 2;
				return;
			}
			if (ids[k] == v)
				bad[v] = 3;
			for (uint32_t j = 0; j < k; j++)
				if (ids[j] == ids[k])
					bad[v] = 4;
			float		d = l2(&base.x[v * base.dim], &base.x[(size_t) ids[k] * base.dim], base.dim);

			if (d < last * 0.9999f && bad[v] == 0)
				bad[v] = 5;
			last = d;
		}
	});
	uint64_t	wrong[6] = {};

	for (uint32_t v = 0; v < g.n; v++)
	{
		wrong[bad[v]]++;
		edges += g.counts[v];
		most = std::max<uint32_t>(most, g.counts[v]);
		least = std::min<uint32_t>(least, g.counts[v]);
	}
	printf(" deg %4.1f %u-%u", (double) edges / g.n, least, most);
	if (wrong[1] + wrong[2] + wrong[3] + wrong[4])
		printf(" BAD: count %lu range %lu self %lu twice %lu", wrong[1], wrong[2], wrong[3], wrong[4]);
	if (wrong[5])
		printf(" unsorted %lu", wrong[5]);

	std::vector<uint8_t> reached(g.n, 0);
	std::vector<uint32_t> queue;

	for (int i = 0; i < ENTRIES; i++)
	{
		uint32_t	e = random_below(random64(99, 0, i), g.n);

		if (!reached[e])
			reached[e] = 1, queue.push_back(e);
	}
	if (wrong[1] + wrong[2] == 0)
		for (size_t i = 0; i < queue.size(); i++)
			for (uint32_t k = 0; k < g.counts[queue[i]]; k++)
			{
				uint32_t	u = g.ids[(size_t) queue[i] * g.degree + k];

				if (!reached[u])
					reached[u] = 1, queue.push_back(u);
			}
	printf(" lost %zu", (size_t) g.n - queue.size());
}

struct Setting
{
	GrnGraphParams params = {};
	GrnGpuOptions options = {};
	std::vector<std::pair<std::string, double>> tuning;
	int			runs = 2;
	bool		host = false;
	bool		judge = true;
};

static void
set(Setting &s, const std::string &name, double v)
{
	if (name == "degree")
		s.params.degree = v;
	else if (name == "r")
		s.params.r = v;
	else if (name == "s")
		s.params.s = v;
	else if (name == "t1")
		s.params.t1 = v;
	else if (name == "t2")
		s.params.t2 = v;
	else if (name == "rho")
		s.params.rho = v;
	else if (name == "seed")
		s.params.seed = v;
	else if (name == "near")	/* as an index wants it */
		s.options.fill = v;
	else if (name == "runs")
		s.runs = v;
	else if (name == "host")
		s.host = v;
	else if (name == "judge")
		s.judge = v;
	else
		s.tuning.push_back({name, v});
}

static bool
tune(Tuning &t, const std::string &name, double v)
{
	struct
	{
		const char *name;
		uint32_t   *at;
	}			fields[] = {
		{"inbox", &t.inbox}, {"bins", &t.bins}, {"window", &t.window}, {"first", &t.first},
		{"pool", &t.pool}, {"keep", &t.keep}, {"format", &t.format},
		{"random", &t.random_edges}, {"fill", &t.fill},
	};

	for (auto &f : fields)
		if (name == f.name)
		{
			*f.at = (uint32_t) v;
			return true;
		}
	return false;
}

static Setting
parse(const char *text)
{
	Setting		s;
	std::string all = text;

	for (size_t at = 0; at < all.size();)
	{
		size_t		end = std::min(all.find(',', at), all.size()),
					eq = all.find('=', at);

		if (eq < end)
			set(s, all.substr(at, eq - at), atof(all.substr(eq + 1, end - eq - 1).c_str()));
		at = end + 1;
	}
	return s;
}

#define OR_DIE(call) \
	do { \
		if ((call) != GRN_GPU_OK) \
		{ \
			printf("%s\n", err.text); \
			return 1; \
		} \
	} while (0)

int
main(int argc, char **argv)
{
	GrnGpuError err = {};
	GrnGpu	   *gpu;
	double		t0 = now();
	uint32_t	most = getenv("BENCH_ROWS") ? atoi(getenv("BENCH_ROWS")) : UINT32_MAX;

	if (argc < 3)
	{
		fprintf(stderr, "usage: bench DIR SETTING...\n");
		return 2;
	}
	OR_DIE(grn_gpu_open(0, &gpu, &err));
	printf("open %.3f s\n", now() - t0);

	std::string dir = argv[1];
	Matrix		base = read_fbin(dir + "/base.fbin", most),
				query = read_fbin(dir + "/query.fbin", UINT32_MAX);
	Matrix		as_int = read_fbin(dir + "/gt.ibin", UINT32_MAX);
	std::vector<int32_t> truth(as_int.x.size());

	memcpy(truth.data(), as_int.x.data(), 4 * truth.size());
	if (getenv("BENCH_ROTATE"))
	{
		if (base.dim & (base.dim - 1))
		{
			fprintf(stderr, "BENCH_ROTATE takes a power of two of dimensions\n");
			return 1;
		}
		/* an orthogonal map that leaves no integer: Hadamard of random signs */
		auto		rotate = [](Matrix &m) {
			parallel(m.n, [&](size_t i) {
				float	   *x = &m.x[i * m.dim];

				for (uint32_t d = 0; d < m.dim; d++)
					x[d] *= (random64(7, 0, d) & 1) ? 1.0f : -1.0f;
				for (uint32_t h = 1; h < m.dim; h *= 2)
					for (uint32_t d = 0; d < m.dim; d++)
						if (!(d & h))
						{
							float		a = x[d],
										b = x[d + h];

							x[d] = a + b, x[d + h] = a - b;
						}
				for (uint32_t d = 0; d < m.dim; d++)
					x[d] /= sqrtf((float) m.dim);
			});
		};

		rotate(base);
		rotate(query);
	}
	float	   *d_rows;

	if (cudaMalloc((void **) &d_rows, base.x.size() * 4) != cudaSuccess ||
		cudaMemcpy(d_rows, base.x.data(), base.x.size() * 4, cudaMemcpyHostToDevice) != cudaSuccess)
	{
		printf("cannot put the rows on the device\n");
		return 1;
	}
	printf("%s: %u x %u\n", dir.c_str(), base.n, base.dim);
	for (int a = 2; a < argc; a++)
	{
		Setting		s = parse(argv[a]);
		Tuning		t = tuning_for(&s.params, base.dim, base.n);
		GrnGpuTimes best = {};
		double		best_total = 1e9,
					wall = 0;
		Graph		g;

		grn_gpu_default_params(&s.params, base.dim);
		for (auto &p : s.tuning)
			if (!tune(t, p.first, p.second))
			{
				printf("no setting %s\n", p.first.c_str());
				return 1;
			}
		grn_gpu_override(gpu, &t);
		g.n = base.n;
		g.degree = s.params.degree;
		g.ids.assign((size_t) g.n * g.degree, 0xabababab);
		g.counts.assign(g.n, 0xff);
		for (int run = 0; run < s.runs; run++)
		{
			GrnGpuTimes times;
			double		w = now();

			OR_DIE(grn_gpu_begin(gpu, base.n, base.dim, &s.options, &s.params, &err));
			if (s.host)
				OR_DIE(grn_gpu_rows(gpu, 0, base.n, base.x.data(), base.dim, &err));
			else
				OR_DIE(grn_gpu_device_rows(gpu, d_rows, &err));
			OR_DIE(grn_gpu_build(gpu, g.ids.data(), g.counts.data(), NULL, NULL, &times, &err));
			w = now() - w;
			double		total = times.convert + times.descent + times.finish;

			if (total < best_total)
				best = times, best_total = total;
			wall = run == 0 ? w : std::min(wall, w);
			grn_gpu_end(gpu);
		}
		printf("%-40s %6.1f ms (conv %.1f desc %.1f fin %.1f) up %.0f down %.0f wall %.0f MB %.0f |",
			   argv[a], best_total * 1e3, best.convert * 1e3, best.descent * 1e3,
			   best.finish * 1e3, best.upload * 1e3, best.download * 1e3, wall * 1e3,
			   (best.peak_bytes - base.x.size() * 4.0) / 1e6);
		fflush(stdout);
		check(g, base);
		if (s.judge)
			evaluate(g, base, query, truth, as_int.dim);
		printf("\n");
		fflush(stdout);
	}
	grn_gpu_close(gpu);
	return 0;
}
