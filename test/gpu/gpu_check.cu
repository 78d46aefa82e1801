/*
 * gpu_check.cu - the kernels against plain C on the host, then the whole builds of
 * gpu_builds.cu.  Prints "ok NAME" or "not ok NAME" lines; exits 1 when one failed, 77
 * with a reason when there is no usable GPU.
 */
#include "gpu_check.h"

#include <functional>
#include <set>

#include <cuda_fp16.h>

static const uint32_t POOL = 56;	/* of the graphs tested alone */

static int	failures;
static Device device;

void
report(const std::string &name, bool good, const std::string &why)
{
	printf("%s %s%s%s\n", good ? "ok" : "not ok", name.c_str(), why.empty() ? "" : " # ",
		   why.c_str());
	fflush(stdout);
	failures += !good;
}

static void
must(cudaError_t rc, const char *what)
{
	if (rc != cudaSuccess)
	{
		printf("not ok %s # %s\n", what, cudaGetErrorString(rc));
		exit(1);
	}
}

/* Device memory with a host copy. */
template <class X> struct Both
{
	std::vector<X> h;
	X		   *d = NULL;

	explicit Both(size_t n, X fill = X())
		: h(std::max<size_t>(n, 1), fill)
	{
		must(cudaMalloc((void **) &d, sizeof(X) * h.size()), "cudaMalloc");
		push();
	}
	~Both()
	{
		cudaFree(d);
	}
	void
	push()
	{
		must(cudaMemcpy(d, h.data(), sizeof(X) * h.size(), cudaMemcpyHostToDevice), "copy");
	}
	void
	pull()
	{
		must(cudaStreamSynchronize(device.stream), "synchronise");
		must(cudaMemcpy(h.data(), d, sizeof(X) * h.size(), cudaMemcpyDeviceToHost), "copy");
	}
};

/* Random 8-bit rows as the descent holds them, with norms. */
struct Bytes
{
	uint32_t	n,
				stride;
	Both<uint8_t> rows;
	Both<uint32_t> norms;
	Codes		codes;

	Bytes(uint32_t n, uint32_t stride, uint64_t stream)
		: n(n), stride(stride), rows((size_t) n * stride), norms(n)
	{
		for (size_t i = 0; i < rows.h.size(); i++)
			rows.h[i] = (uint8_t) rnd(stream, i, 256);
		rows.push();
		codes = Codes{rows.d, norms.d, n, stride, std::min(stride, 128u),
			stride / std::min(stride, 128u), ROWS_S8};
		must(launch_norms(device, codes, norms.d), "launch_norms");
	}
	uint32_t
	distance(uint32_t a, uint32_t b) const
	{
		uint32_t	sum = 0;

		for (uint32_t d = 0; d < stride; d++)
		{
			int			x = (int8_t) rows.h[(size_t) a * stride + d] -
				(int8_t) rows.h[(size_t) b * stride + d];

			sum += x * x;
		}
		return sum;
	}
};

struct Pools
{
	Both<Key>	pool;
	Both<uint8_t> pool_count;
	Both<Key>	inbox0,
				inbox1;
	Both<uint32_t> count0,
				count1;
	Both<uint64_t> list;
	Both<uint32_t> list_count;
	TileGraph	graph;

	Pools(uint32_t n, uint32_t inbox)
		: pool((size_t) n * POOL, EMPTY_KEY), pool_count(n), inbox0((size_t) n * inbox, EMPTY_KEY),
		  inbox1((size_t) n * inbox, EMPTY_KEY), count0(n), count1(n), list(NCLASSES * (size_t) n),
		  list_count(NCLASSES)
	{
		graph = TileGraph{pool.d, pool_count.d, {inbox0.d, inbox1.d}, {count0.d, count1.d}, list.d,
			list_count.d, n, POOL, inbox, 0};
	}
};

static void
test_integers()
{
	uint32_t	n = 1000,
				dim = 37,
				stride = 64;
	Both<float> rows((size_t) n * dim);
	Both<uint8_t> codes((size_t) n * stride, 0xee);
	Both<int>	other(1);

	for (size_t i = 0; i < rows.h.size(); i++)
		rows.h[i] = (float) rnd(1, i, 256);
	rows.push();
	must(launch_integers(device, rows.d, n, dim, stride, codes.d, other.d), "launch_integers");
	codes.pull();
	other.pull();
	bool		same = other.h[0] == 0;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t d = 0; d < stride; d++)
			same &= codes.h[(size_t) i * stride + d] ==
				(d < dim ? (uint8_t) ((int) rows.h[(size_t) i * dim + d] - 128) : 0);
	report("integers are taken as they are", same);
	for (float odd : {0.5f, -1.0f, 256.0f, (float) NAN})
	{
		rows.h[n * dim - 1] = odd;
		rows.push();
		must(launch_integers(device, rows.d, n, dim, stride, codes.d, other.d), "launch_integers");
		other.pull();
		report("a value of " + std::to_string(odd) + " is noticed", other.h[0] == 1);
	}
}

/* Projections keep distances up to one common factor. */
static void
test_project(uint32_t dim, uint32_t rank, uint32_t code_dims, RowFormat format, float tolerance)
{
	uint32_t	n = 3001;
	uint32_t	stride = code_dims * (format == ROWS_F16 ? 2 : 1);
	Both<float> rows((size_t) n * dim);
	Both<uint8_t> codes((size_t) n * stride),
				space(project_bytes(n, dim, code_dims));
	std::vector<float> basis((size_t) rank * dim);

	for (size_t i = 0; i < basis.size(); i++)
		basis[i] = gaussian(2, i);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t r = 0; r < rank; r++)
		{
			float		x = gaussian(3, (uint64_t) i * rank + r);

			for (uint32_t d = 0; d < dim; d++)
				rows.h[(size_t) i * dim + d] += x * (rank == dim ? d == r : basis[(size_t) r * dim + d]);
		}
	for (size_t i = 0; i < rows.h.size(); i++)
		rows.h[i] += 100;		/* a mean far from 0 */
	rows.push();
	Projection	projection;

	must(launch_fit(device, rows.d, n, dim, code_dims, format, 7, space.d, &projection), "launch_fit");
	must(launch_apply(device, projection, rows.d, n, format, stride, codes.d), "launch_apply");
	codes.pull();
	double		num = 0,
				den = 0,
				worst = 0;
	std::vector<double> ratio;

	for (uint32_t i = 0; i < 2000; i++)
	{
		uint32_t	a = rnd(4, i, n),
					b = rnd(5, i, n);
		double		got = 0;

		if (a == b)
			continue;
		for (uint32_t d = 0; d < code_dims; d++)
		{
			double		x,
						y;

			if (format == ROWS_S8)
			{
				x = (int8_t) codes.h[(size_t) a * stride + d];
				y = (int8_t) codes.h[(size_t) b * stride + d];
			}
			else
			{
				x = (float) ((__half *) &codes.h[(size_t) a * stride])[d];
				y = (float) ((__half *) &codes.h[(size_t) b * stride])[d];
			}
			got += (x - y) * (x - y);
		}
		double		want = l2(&rows.h[(size_t) a * dim], &rows.h[(size_t) b * dim], dim);

		ratio.push_back(sqrt(got / want));
		num += sqrt(got * want);
		den += want;
	}
	for (double r : ratio)
		worst = std::max(worst, fabs(r / (num / den) - 1));
	char		text[64];

	snprintf(text, sizeof(text), "largest deviation %.4f", worst);
	report("projection " + std::to_string(dim) + " (rank " + std::to_string(rank) + ") to " +
		   std::to_string(code_dims) + (format == ROWS_S8 ? " s8" : " f16") + " keeps distances",
		   worst < tolerance, text);
}

/*
 * Of directions alike each holds the same share of the variance, and those fitted to a
 * sample a little more; all of them hold all of it.
 */
static void
test_share(uint32_t dim, uint32_t code_dims, float least, float most)
{
	uint32_t	n = 16384;
	Both<float> rows((size_t) n * dim);
	Both<uint8_t> space(project_bytes(n, dim, code_dims));
	Projection	projection;
	float		share;

	for (size_t i = 0; i < rows.h.size(); i++)
		rows.h[i] = 100 + gaussian(6, i);
	rows.push();
	must(launch_fit(device, rows.d, n, dim, code_dims, ROWS_S8, 7, space.d, &projection), "launch_fit");
	must(fitted_share(device, projection, &share), "fitted_share");
	report("the share that " + std::to_string(code_dims) + " of " + std::to_string(dim) + " directions hold",
		   share >= least && share <= most, std::to_string(share));
}

static void
test_random_edges()
{
	Bytes		b(500, 64, 6);
	Pools		p(b.n, 32);
	bool		good = true;

	must(launch_random_edges(device, b.codes, p.graph, 20, 9, true), "launch_random_edges");
	p.pool.pull();
	p.pool_count.pull();
	for (uint32_t v = 0; v < b.n; v++)
	{
		good &= p.pool_count.h[v] == 20;
		for (int k = 0; k < 20; k++)
		{
			Key			key = p.pool.h[v * POOL + k];
			uint32_t	id = (uint32_t) key;

			good &= id < b.n && id != v && key >> 32 == b.distance(v, id);
			good &= k == 0 || key >> 32 >= p.pool.h[v * POOL + k - 1] >> 32;
		}
	}
	report("random neighbours: distances, order, no self", good);
}

static void
test_start(uint32_t stride)
{
	Bytes		b(3000, stride, 10);
	Pools		p(b.n, 48);
	uint32_t	bins = 100,
				window = 512;
	Both<uint8_t> space(start_bytes(b.n, bins, stride));
	Both<uint32_t> order(b.n, 0xffffffff);
	StartSpace	s = start_layout(space.d, b.n, bins, stride);

	must(launch_order(device, b.codes, s, bins, 3, order.d), "launch_order");
	order.pull();
	std::vector<uint32_t> sorted = order.h;
	bool		good = true;

	std::sort(sorted.begin(), sorted.end());
	for (uint32_t i = 0; i < b.n; i++)
		good &= sorted[i] == i;
	report("order of bins is a permutation, stride " + std::to_string(stride), good);

	/* every row is in the bin whose centroid is nearest; bins are contiguous */
	std::vector<uint8_t> centroids((size_t) bins * stride);
	std::vector<uint32_t> rank(bins);

	must(cudaMemcpy(centroids.data(), s.d_centroids, centroids.size(), cudaMemcpyDeviceToHost), "copy");
	must(cudaMemcpy(rank.data(), s.d_rank, 4 * bins, cudaMemcpyDeviceToHost), "copy");
	uint32_t	last = 0;

	good = true;
	for (uint32_t i = 0; i < b.n; i++)
	{
		uint32_t	best = UINT32_MAX,
					bin = 0;

		for (uint32_t c = 0; c < bins; c++)
		{
			uint32_t	sum = 0;

			for (uint32_t d = 0; d < stride; d++)
			{
				int			x = (int8_t) b.rows.h[(size_t) order.h[i] * stride + d] -
					(int8_t) centroids[(size_t) c * stride + d];

				sum += x * x;
			}
			if (sum < best)
				best = sum, bin = c;
		}
		good &= rank[bin] >= last;
		last = rank[bin];
	}
	report("rows stand in the order of their nearest bins", good);

	must(launch_window(device, b.codes, p.graph, window), "launch_window");
	p.inbox0.pull();
	p.count0.pull();
	good = true;
	for (uint32_t v = 0; v < b.n; v++)
	{
		uint32_t	middle = v / 128 * 128 + 64,
					first = std::min(middle > window / 2 ? middle - window / 2 : 0, b.n - window);
		uint32_t	nearest = UINT32_MAX;
		Key			least = EMPTY_KEY;

		for (uint32_t u = first; u < first + window; u++)
			if (u != v)
				nearest = std::min(nearest, b.distance(u, v));
		for (uint32_t k = 0; k < p.count0.h[v]; k++)
		{
			Key			key = p.inbox0.h[(size_t) v * 48 + k];
			uint32_t	id = (uint32_t) key;

			good &= id >= first && id < first + window && id != v &&
				key >> 32 == b.distance(v, id);
			least = std::min(least, key);
		}
		good &= least >> 32 == nearest && p.count0.h[v] == 8;
	}
	report("window: true distances, the nearest among them", good);
}

/* What an update round must make of one vertex. */
struct Outcome
{
	std::vector<Key> pool;
	std::vector<std::pair<uint32_t, Key>> pushed;
};

/* A vertex's tile: the nearest of pool and inbox, distinct. */
static std::vector<Key>
oracle_rows(const std::vector<Key> &pool, const std::vector<Key> &inbox, bool choice)
{
	std::vector<std::pair<uint32_t, uint32_t>> all;	/* code, slot */
	std::vector<Key> key,
				row;
	bool		small = !choice && pool.size() + inbox.size() <= 32;

	for (size_t i = 0; i < pool.size(); i++)
		key.push_back(pool[i]), all.push_back({(uint32_t) (pool[i] >> 32), (uint32_t) (i < 32 ? i : 64 + i)});
	for (size_t i = 0; i < inbox.size(); i++)
		key.push_back(inbox[i]), all.push_back({(uint32_t) (inbox[i] >> 32),
												(uint32_t) ((small ? pool.size() : 32) + i)});
	std::vector<std::pair<std::pair<uint32_t, uint32_t>, Key>> sorted;

	for (size_t i = 0; i < all.size(); i++)
		sorted.push_back({all[i], key[i]});
	std::sort(sorted.begin(), sorted.end());
	if (sorted.size() > 64)
		sorted.resize(64);
	for (auto &x : sorted)
		if (row.empty() || (uint32_t) row.back() != (uint32_t) x.second)
			row.push_back(x.second);
	return row;
}

static Outcome
oracle_update(const Bytes &b, const std::vector<Key> &row, uint32_t keep)
{
	Outcome		out;
	std::vector<bool> kept(row.size());

	for (size_t i = 0; i < row.size(); i++)
	{
		kept[i] = true;
		for (size_t j = 0; j < i; j++)
			if (kept[j] && b.distance((uint32_t) row[i], (uint32_t) row[j]) <
				std::max<uint32_t>(row[i] >> 32, 1))
				kept[i] = false;
		if (kept[i] && out.pool.size() < keep)
			out.pool.push_back(row[i]);
	}
	for (size_t i = 0; i < row.size(); i++)
		if (!kept[i])
		{
			/* the products cover the columns of this row's block of 16 and before */
			std::pair<uint32_t, size_t> best(UINT32_MAX, 0);

			for (size_t j = 0; j < row.size() && j < i / 16 * 16 + 16; j++)
				if (kept[j])
					best = std::min(best, std::make_pair(b.distance((uint32_t) row[i],
																	 (uint32_t) row[j]), j));
			uint32_t	target = (uint32_t) row[best.second];

			if (target != (uint32_t) row[i])
				out.pushed.push_back({target, make_key(best.first, (uint32_t) row[i])});
		}
	return out;
}

/* The keep rows with the fewest nearer rows that occlude them. */
static Outcome
oracle_choice(const Bytes &b, const std::vector<Key> &row, uint32_t keep)
{
	std::vector<std::pair<uint32_t, size_t>> order;
	Outcome		out;

	for (size_t i = 0; i < row.size(); i++)
	{
		uint32_t	count = 0;

		for (size_t j = 0; j < i; j++)
			count += b.distance((uint32_t) row[i], (uint32_t) row[j]) <
				std::max<uint32_t>(row[i] >> 32, 1);
		order.push_back({count, i});
	}
	std::sort(order.begin(), order.end());
	order.resize(std::min<size_t>(order.size(), keep));
	std::sort(order.begin(), order.end(), [](auto &x, auto &y) { return x.second < y.second; });
	for (auto &x : order)
		out.pool.push_back(row[x.second]);
	return out;
}

/* An update round, or the choice of edges. */
static void
test_update(uint32_t stride, uint32_t pool_size, uint32_t inbox_size, bool choice = false)
{
	Bytes		b(400, stride, 20 + stride);
	Pools		p(b.n, 64);
	uint32_t	keep = 12;
	std::vector<std::vector<Key>> pools(b.n),
				inboxes(b.n);
	std::vector<std::multiset<Key>> want(b.n);
	std::vector<std::vector<Key>> want_pool(b.n);

	/* few different values, so that ties and duplicates are common */
	for (uint32_t v = 0; v < b.n; v++)
	{
		std::set<Key> some;

		while (some.size() < pool_size)
		{
			uint32_t	id = rnd(30, some.size() + 1000 * v + rnd(31, v * 77 + some.size(), 9999), b.n);

			if (id == v)
				id = (id + 1) % b.n;
			while (some.count(make_key(b.distance(v, id), id)) || id == v)
				id = (id + 1) % b.n;
			some.insert(make_key(b.distance(v, id), id));
		}
		pools[v].assign(some.begin(), some.end());
		for (uint32_t k = 0; k < (v % 7 == 0 ? 0 : inbox_size); k++)
		{
			uint32_t	id = rnd(32, 100 * v + k / 2, b.n);	/* most of them twice */

			if (id == v)
				id = (id + 1) % b.n;
			inboxes[v].push_back(make_key(b.distance(v, id), id));
		}
		std::copy(pools[v].begin(), pools[v].end(), p.pool.h.begin() + v * POOL);
		std::copy(inboxes[v].begin(), inboxes[v].end(), p.inbox0.h.begin() + v * 64);
		p.pool_count.h[v] = pools[v].size();
		p.count0.h[v] = inboxes[v].size();
	}
	for (uint32_t v = 0; v < b.n; v++)
	{
		if (inboxes[v].empty())
		{
			want_pool[v] = pools[v];
			continue;
		}
		std::vector<Key> row = oracle_rows(pools[v], inboxes[v], choice);
		Outcome		o = choice ? oracle_choice(b, row, keep) : oracle_update(b, row, keep);

		want_pool[v] = o.pool;
		for (auto &x : o.pushed)
			want[x.first].insert(x.second);
	}
	p.pool.push(), p.pool_count.push(), p.inbox0.push(), p.count0.push();
	must((choice ? launch_choice : launch_update_round)(device, b.codes, p.graph, keep), "round");
	p.pool.pull(), p.pool_count.pull(), p.inbox1.pull(), p.count0.pull(), p.count1.pull();
	uint32_t	bad_pool = 0,
				bad_push = 0,
				overflowed = 0;

	for (uint32_t v = 0; v < b.n; v++)
	{
		std::vector<Key> got(p.pool.h.begin() + v * POOL,
							 p.pool.h.begin() + v * POOL + p.pool_count.h[v]);

		bad_pool += got != want_pool[v];
		bad_push += p.count1.h[v] != want[v].size() || p.count0.h[v] != 0;
		if (want[v].size() > 64)
		{
			overflowed++;
			/* whichever keys won, each is one that was pushed */
			for (uint32_t k = 0; k < 64; k++)
				bad_push += want[v].count(p.inbox1.h[(size_t) v * 64 + k]) == 0;
		}
		else
			bad_push += std::multiset<Key>(p.inbox1.h.begin() + v * 64,
										   p.inbox1.h.begin() + v * 64 + want[v].size()) != want[v];
	}
	report((choice ? "choice of edges, stride " : "update round, stride ") + std::to_string(stride) + ", pool " + std::to_string(pool_size) +
		   ", inbox " + std::to_string(inbox_size), bad_pool + bad_push == 0,
		   std::to_string(bad_pool) + " pools, " + std::to_string(bad_push) + " inboxes differ, " +
		   std::to_string(overflowed) + " overflowed");
}

/* The nearest of the neighbours' neighbours; after two joins, nearer ones. */
static void
test_joins(uint32_t stride, uint32_t inbox)
{
	Bytes		b(700, stride, 80);
	std::vector<uint64_t> total(3);

	for (uint32_t joins : {1u, 2u})
	{
		Pools		p(b.n, inbox);
		Both<uint32_t> lists((size_t) b.n * 32, EMPTY_ID);
		Both<uint8_t> counts(b.n);
		uint32_t	bad = 0;

		must(launch_random_edges(device, b.codes, p.graph, 10, 4, true), "launch_random_edges");
		must(launch_reverse(device, p.graph, 1.0f), "launch_reverse");
		must(launch_fill(device, p.graph, NULL, 32, 32, Lists{lists.d, counts.d}), "launch_fill");
		must(launch_joins(device, b.codes, p.graph, joins, counts.d), "launch_joins");
		lists.pull(), p.inbox0.pull(), p.count0.pull(), p.pool_count.pull();
		for (uint32_t v = 0; v < b.n; v++)
		{
			std::set<Key> candidates;
			std::vector<Key> got(p.inbox0.h.begin() + v * inbox,
								 p.inbox0.h.begin() + v * inbox + p.count0.h[v]);
			auto		take = [&](uint32_t of) {
				for (uint32_t k = 0; k < 32; k++)
				{
					uint32_t	id = lists.h[(size_t) of * 32 + k];

					if (id != EMPTY_ID && id != v)
						candidates.insert(make_key(b.distance(v, id), id));
				}
			};
			size_t		want = std::min(inbox, 64u - p.pool_count.h[v]);

			take(v);
			for (uint32_t k = 0; k < 32 && lists.h[(size_t) v * 32 + k] != EMPTY_ID; k++)
				take(lists.h[(size_t) v * 32 + k]);
			want = std::min(want, candidates.size());
			/* a full table lets few ids in twice */
			size_t		ndistinct = std::set<Key>(got.begin(), got.end()).size();

			bad += joins == 1 && (got.size() != want || ndistinct + 2 < got.size());
			got.erase(std::unique(got.begin(), got.end()), got.end());
			auto		next = candidates.begin();

			for (Key key : got)
			{
				bad += (uint32_t) key == v || (uint32_t) key >= b.n ||
					key >> 32 != b.distance(v, (uint32_t) key);
				/* equal distances stand in any order */
				bad += joins == 1 && (!candidates.count(key) || key >> 32 != *next++ >> 32);
			}
			bad += !std::is_sorted(got.begin(), got.end(),
								   [](Key x, Key y) { return x >> 32 < y >> 32; });
			for (size_t k = 0; k < std::min<size_t>(got.size(), 20); k++)
				total[joins] += got[k] >> 32;
		}
		report(std::to_string(joins) + " joins, stride " + std::to_string(stride) + ", inbox " +
			   std::to_string(inbox), bad == 0 && (joins == 1 || total[2] < total[1]),
			   std::to_string(bad) + " differ");
	}
}

static void
test_finish(uint32_t inbox, uint32_t degree)
{
	Bytes		b(600, 32, 40);
	Pools		p(b.n, inbox);
	Both<uint32_t> order(b.n),
				ids((size_t) b.n * degree, 0xabababab);
	Both<uint8_t> counts(b.n, 0xab);
	std::vector<std::set<Key>> offered(b.n);
	std::vector<uint32_t> npushed(b.n);

	for (uint32_t i = 0; i < b.n; i++)
		order.h[i] = (i * 7 + 5) % b.n;	/* 7 and 600 have no common factor */
	order.push();
	must(launch_random_edges(device, b.codes, p.graph, 10, 4, true), "launch_random_edges");
	p.pool.pull(), p.pool_count.pull();
	for (uint32_t v = 0; v < b.n; v++)
	{
		/* distinct neighbours only, as a prune leaves them */
		std::set<Key> distinct(p.pool.h.begin() + v * POOL, p.pool.h.begin() + v * POOL + 10);

		std::copy(distinct.begin(), distinct.end(), p.pool.h.begin() + v * POOL);
		p.pool_count.h[v] = distinct.size();
		for (Key key : distinct)
		{
			offered[(uint32_t) key].insert(make_key(key >> 32, v));
			npushed[(uint32_t) key]++;
		}
	}
	p.pool.push(), p.pool_count.push();
	must(launch_reverse(device, p.graph, 1.0f), "launch_reverse");
	p.count0.pull(), p.inbox0.pull();
	bool		good = true;

	for (uint32_t v = 0; v < b.n; v++)
		good &= p.count0.h[v] == npushed[v] &&
			(npushed[v] > inbox ||
			 std::set<Key>(p.inbox0.h.begin() + v * inbox,
						   p.inbox0.h.begin() + v * inbox + npushed[v]) == offered[v]);
	report("reverse edges reach their inboxes, capacity " + std::to_string(inbox), good);

	must(launch_fill(device, p.graph, order.d, degree, degree, Lists{ids.d, counts.d}), "launch_fill");
	ids.pull(), counts.pull();
	uint32_t	bad = 0;

	for (uint32_t v = 0; v < b.n; v++)
	{
		std::vector<Key> own(p.pool.h.begin() + v * POOL,
							 p.pool.h.begin() + v * POOL + p.pool_count.h[v]),
					extra;

		if (npushed[v] > inbox)
			continue;
		for (Key key : offered[v])
			if (!std::count_if(own.begin(), own.end(), [&](Key o) {
					return (uint32_t) o == (uint32_t) key;
				}))
				extra.push_back(key);
		extra.resize(std::min<size_t>(extra.size(), degree > own.size() ? degree - own.size() : 0));
		own.resize(std::min<size_t>(own.size(), degree));
		own.insert(own.end(), extra.begin(), extra.end());
		std::stable_sort(own.begin(), own.end(), [](Key x, Key y) {
			return x >> 32 < y >> 32;
		});
		std::vector<uint32_t> want;

		for (Key key : own)
			want.push_back(order.h[(uint32_t) key]);
		uint32_t   *got = &ids.h[(size_t) order.h[v] * degree];

		bad += counts.h[order.h[v]] != want.size() || !std::equal(want.begin(), want.end(), got);
	}
	report("lists filled up to " + std::to_string(degree) + ", nearest first", bad == 0,
		   std::to_string(bad) + " lists differ");
}

static void
test_exact_order(uint32_t dim)
{
	uint32_t	n = 300,
				degree = 70;
	Both<float> rows((size_t) n * dim);
	Both<uint32_t> order(n),
				ids((size_t) n * degree);
	Both<uint8_t> counts(n);
	bool		good = true;

	for (size_t i = 0; i < rows.h.size(); i++)
		rows.h[i] = gaussian(50, i);
	for (uint32_t v = 0; v < n; v++)
	{
		order.h[v] = n - 1 - v;
		counts.h[v] = v % (degree + 1);
		for (uint32_t k = 0; k < counts.h[v]; k++)
			ids.h[(size_t) v * degree + k] = (v + 1 + 3 * k) % n;
	}
	std::vector<uint32_t> before = ids.h;

	rows.push(), order.push(), ids.push(), counts.push();
	must(launch_exact_order(device, rows.d, n, dim, degree, order.d, ids.d, counts.d),
		 "launch_exact_order");
	ids.pull();
	for (uint32_t v = 0; v < n; v++)
	{
		std::multiset<uint32_t> a(before.begin() + v * degree, before.begin() + v * degree + counts.h[v]),
					b(ids.h.begin() + v * degree, ids.h.begin() + v * degree + counts.h[v]);

		good &= a == b;
		for (uint32_t k = 1; k < counts.h[v]; k++)
			good &= l2(&rows.h[v * dim], &rows.h[ids.h[v * degree + k - 1] * dim], dim) <=
				l2(&rows.h[v * dim], &rows.h[ids.h[v * degree + k] * dim], dim) * 1.00001f;
	}
	report("exact order, " + std::to_string(dim) + " dimensions", good);
}

/* Lists filled up as src/graph/build/lists.c says: from those of the six nearest. */
static std::vector<uint32_t>
oracle_near(const std::vector<std::vector<uint32_t>> &lists, uint32_t v, uint32_t degree,
			const std::function<double(uint32_t, uint32_t)> &distance)
{
	std::vector<uint32_t> list = lists[v];
	std::set<std::pair<double, uint32_t>> candidates;

	for (uint32_t i = 0; i < lists[v].size() && i < 6; i++)
		for (uint32_t u : lists[lists[v][i]])
			if (u != v && !std::count(list.begin(), list.end(), u))
				candidates.insert({distance(v, u), u});
	if (list.size() == degree)
		return list;
	for (auto &c : candidates)
		if (list.size() < degree)
			list.push_back(c.second);
	std::sort(list.begin(), list.end(), [&](uint32_t a, uint32_t b) {
		return std::make_pair(distance(v, a), a) < std::make_pair(distance(v, b), b);
	});
	return list;
}

/*
 * Rows of small integers, whose distances are exact in all three forms: 8 bits,
 * binary16, and (stride 0) as the caller's floats.
 */
static void
test_near(RowFormat format, uint32_t stride, uint32_t dim, uint32_t degree)
{
	uint32_t	n = 900;
	Both<float> rows((size_t) n * dim);
	Both<uint8_t> bytes((size_t) n * std::max(stride, 1u));
	Both<uint32_t> norms(n),
				order(n),
				in_ids((size_t) n * degree, 0xabababab),
				ids((size_t) n * degree, 0xabababab);
	Both<uint8_t> in_counts(n),
				counts(n, 0xab);
	std::vector<std::vector<uint32_t>> lists(n);
	auto		distance = [&](uint32_t a, uint32_t b) {
		return (double) l2(&rows.h[(size_t) a * dim], &rows.h[(size_t) b * dim], dim);
	};

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t d = 0; d < dim; d++)
		{
			int			x = (int) rnd(80, (uint64_t) i * dim + d, 9) - 4;

			rows.h[(size_t) i * dim + d] = (float) x;
			if (stride > 0 && format == ROWS_S8)
				((int8_t *) &bytes.h[(size_t) i * stride])[d] = (int8_t) x;
			else if (stride > 0)
				((__half *) &bytes.h[(size_t) i * stride])[d] = __float2half((float) x);
		}
	for (uint32_t v = 0; v < n; v++)
	{
		/* none, a few, all, and everything in between */
		uint32_t	count = v % 5 == 0 ? degree : v % 11 == 1 ? 0 : rnd(81, v, degree + 1);

		order.h[v] = (v * 7 + 5) % n;	/* 7 and 900 have no common factor */
		while (lists[v].size() < count)
		{
			uint32_t	u = (v + 1 + rnd(82, v * 1000 + lists[v].size() * 13, 200)) % n;

			while (u == v || std::count(lists[v].begin(), lists[v].end(), u))
				u = (u + 1) % n;
			lists[v].push_back(u);
		}
		std::sort(lists[v].begin(), lists[v].end(), [&](uint32_t a, uint32_t b) {
			return std::make_pair(distance(v, a), a) < std::make_pair(distance(v, b), b);
		});
		std::copy(lists[v].begin(), lists[v].end(), in_ids.h.begin() + (size_t) v * degree);
		in_counts.h[v] = (uint8_t) count;
	}
	rows.push(), bytes.push(), order.push(), in_ids.push(), in_counts.push();
	Lists		in = {in_ids.d, in_counts.d},
				out = {ids.d, counts.d};

	if (stride > 0)
	{
		uint32_t	seg = std::min(stride, 128u);
		Codes		codes = {bytes.d, norms.d, n, stride, seg, stride / seg, format};

		must(launch_norms(device, codes, norms.d), "launch_norms");
		must(launch_near_codes(device, codes, in, degree, order.d, out), "launch_near_codes");
	}
	else
		must(launch_near_rows(device, rows.d, n, dim, in, degree, out), "launch_near_rows");
	ids.pull(), counts.pull();
	uint32_t	bad = 0,
				grown = 0;

	for (uint32_t v = 0; v < n; v++)
	{
		std::vector<uint32_t> want = oracle_near(lists, v, degree, distance);
		uint32_t	row = stride > 0 ? order.h[v] : v;

		grown += want.size() > lists[v].size();
		for (uint32_t &u : want)
			u = stride > 0 ? order.h[u] : u;
		bad += counts.h[row] != want.size() ||
			!std::equal(want.begin(), want.end(), &ids.h[(size_t) row * degree]);
	}
	report("lists filled with near neighbours, " +
		   std::string(stride == 0 ? "floats" : format == ROWS_S8 ? "s8" : "f16") + ", " +
		   std::to_string(dim) + " dimensions, degree " + std::to_string(degree),
		   bad == 0 && grown > n / 4, std::to_string(bad) + " lists differ, " +
		   std::to_string(grown) + " grew");
}

/* Lists merged as src/graph/build/merge.c says; rows of small integers, exact in both forms. */
static void
test_merge(RowFormat format, uint32_t stride, uint32_t dim, uint32_t degree, uint32_t fill)
{
	uint32_t	n = 700;
	Both<uint8_t> bytes((size_t) n * stride);
	Both<uint32_t> norms(n),
				rows(n),
				lists[2] = {Both<uint32_t>((size_t) n * degree, EMPTY_ID),
	Both<uint32_t>((size_t) n * degree, EMPTY_ID)};
	Both<uint32_t> ids((size_t) n * degree, 0xabababab);
	Both<uint8_t> counts(n, 0xab);
	std::vector<float> x((size_t) n * dim);
	uint32_t	bad = 0,
				shared = 0;
	auto		distance = [&](uint32_t a, uint32_t b) {
		return l2(&x[(size_t) a * dim], &x[(size_t) b * dim], dim);
	};

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t d = 0; d < dim; d++)
		{
			int			value = (int) rnd(90, (uint64_t) i * dim + d, 9) - 4;

			x[(size_t) i * dim + d] = (float) value;
			if (format == ROWS_S8)
				((int8_t *) &bytes.h[(size_t) i * stride])[d] = (int8_t) value;
			else
				((__half *) &bytes.h[(size_t) i * stride])[d] = __float2half((float) value);
		}
	for (uint32_t i = 0; i < n; i++)
	{
		rows.h[i] = (i * 3 + 1) % n;	/* 3 and 700 have no common factor */
		for (int part = 0; part < 2; part++)
		{
			/* none, all, and everything in between; each id once a list */
			uint32_t	count = i % 7 == (uint32_t) part ? 0 : i % 5 == 0 ? degree : rnd(91 + part, i, degree + 1);

			for (uint32_t k = 0; k < count; k++)
				lists[part].h[(size_t) i * degree + k] = (rows.h[i] + 1 + k * (part + 1)) % n;
		}
	}
	bytes.push(), rows.push(), lists[0].push(), lists[1].push();
	uint32_t	seg = std::min(stride, 128u);
	MergeArgs	args = {};

	args.codes = Codes{bytes.d, norms.d, n, stride, seg, stride / seg, format};
	args.d_rows = rows.d;
	args.d_lists[0] = lists[0].d, args.d_lists[1] = lists[1].d;
	args.count = n, args.degree = degree, args.fill = fill;
	args.d_ids = ids.d, args.d_counts = counts.d;
	must(launch_norms(device, args.codes, norms.d), "launch_norms");
	must(launch_merge(device, args), "launch_merge");
	ids.pull(), counts.pull();
	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t	v = rows.h[i];
		std::set<std::pair<float, uint32_t>> candidates,
					kept,
					want;

		for (int part = 0; part < 2; part++)
			for (uint32_t k = 0; k < degree; k++)
			{
				uint32_t	u = lists[part].h[(size_t) i * degree + k];

				if (u != EMPTY_ID)
					shared += !candidates.insert({distance(v, u), u}).second;
			}
		for (auto &c : candidates)
		{
			bool		refused = kept.size() == degree;

			for (auto &k : kept)
				refused |= distance(c.second, k.second) < std::max(c.first, 1.0f);
			if (!refused)
				kept.insert(c);
		}
		want = kept;
		for (auto &c : candidates)
			if (want.size() < fill)
				want.insert(c);
		std::vector<uint32_t> list;

		for (auto &c : want)
			list.push_back(c.second);
		bad += counts.h[i] != list.size() ||
			!std::equal(list.begin(), list.end(), &ids.h[(size_t) i * degree]);
	}
	report("lists merged, " + std::string(format == ROWS_S8 ? "s8" : "f16") + ", " +
		   std::to_string(dim) + " dimensions, degree " + std::to_string(degree),
		   bad == 0 && shared > n, std::to_string(bad) + " lists differ");
}

int
main(int argc, char **argv)
{
	GrnGpuError err = {};
	GrnGpu	   *gpu;
	GrnGpuStatus status = grn_gpu_open(0, &gpu, &err);

	if (status == GRN_GPU_ABSENT || status == GRN_GPU_TOO_OLD)
	{
		printf("# the GPU tests did not run: %s\n", err.text);
		return 77;
	}
	if (status != GRN_GPU_OK)
	{
		printf("not ok open # %s\n", err.text);
		return 1;
	}
	must(cudaDeviceGetAttribute(&device.sms, cudaDevAttrMultiProcessorCount, 0), "device");
	must(cudaStreamCreate(&device.stream), "stream");
	must(cudaEventCreate(&device.fork), "event");
	for (int i = 0; i < NCLASSES; i++)
	{
		must(cudaStreamCreate(&device.side[i]), "stream");
		must(cudaEventCreate(&device.join[i]), "event");
	}
	test_integers();
	test_project(20, 20, 32, ROWS_S8, 0.06f);
	test_project(100, 100, 128, ROWS_S8, 0.03f);
	test_project(100, 100, 128, ROWS_F16, 0.004f);
	test_project(301, 40, 128, ROWS_S8, 0.04f);
	test_project(960, 60, 128, ROWS_F16, 0.01f);
	test_project(700, 100, 256, ROWS_S8, 0.03f);
	test_project(200, 200, 256, ROWS_S8, 0.03f);
	test_share(512, 128, 0.25f, 0.4f);
	test_share(512, 256, 0.5f, 0.65f);
	test_share(200, 256, 0.99f, 1.01f);
	test_random_edges();
	for (uint32_t stride : {32u, 64u, 128u, 256u})
	{
		test_start(stride);
		test_update(stride, 10, 14);
		test_update(stride, 16, 30);
		test_update(stride, 25, 60);
	}
	test_update(128, 0, 20);
	test_update(128, 32, 64);
	test_update(128, 40, 5);
	test_update(64, 56, 64);
	for (uint32_t stride : {32u, 64u, 128u, 256u})
	{
		test_update(stride, 20, 44, true);
		test_joins(stride, 48);
	}
	test_update(128, 3, 5, true);
	test_update(128, 40, 24, true);
	test_joins(128, 32);
	test_joins(128, 64);
	for (uint32_t inbox : {32u, 48u, 64u})
		for (uint32_t degree : {8u, 16u, 40u, 96u})
			test_finish(inbox, degree);
	for (uint32_t degree : {8u, 32u, 37u, 96u})
	{
		test_near(ROWS_S8, 32, 30, degree);
		test_near(ROWS_S8, 128, 128, degree);
		test_near(ROWS_S8, 256, 200, degree);
		test_near(ROWS_F16, 64, 20, degree);
		test_near(ROWS_F16, 512, 256, degree);
		test_near(ROWS_S8, 0, 1, degree);
		test_near(ROWS_S8, 0, 150, degree);
	}
	test_exact_order(1);
	test_exact_order(30);
	test_exact_order(128);
	test_merge(ROWS_S8, 32, 30, 32, 24);
	test_merge(ROWS_S8, 128, 128, 32, 32);
	test_merge(ROWS_S8, 128, 100, 96, 96);
	test_merge(ROWS_S8, 256, 200, 32, 32);
	test_merge(ROWS_F16, 64, 20, 32, 32);
	test_merge(ROWS_F16, 256, 128, 8, 8);
	test_coded_builds(gpu);
	test_builds(gpu);
	grn_gpu_close(gpu);
	printf("# %d failed\n", failures);
	return failures != 0;
}
