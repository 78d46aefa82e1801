/*
 * gpu_lists.cu - tests of what makes adjacency lists: reverse edges and exact order
 * (cuda/lists.cu), near neighbors of neighbors (cuda/two_hop_fill.cu), and the merge of the
 * lists of two parts (cuda/merge.cu).
 */
#include "gpu_check.h"

#include <functional>
#include <set>

#include <cuda_fp16.h>

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
	must(launch_random_edges(device, b.digests, p.graph, 10, 4, true), "launch_random_edges");
	p.pool.pull(), p.pool_count.pull();
	for (uint32_t v = 0; v < b.n; v++)
	{
		/* distinct neighbors only, as a prune leaves them */
		std::set<Key> distinct(p.pool.h.begin() + v * TEST_POOL, p.pool.h.begin() + v * TEST_POOL + 10);

		std::copy(distinct.begin(), distinct.end(), p.pool.h.begin() + v * TEST_POOL);
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
		std::vector<Key> own(p.pool.h.begin() + v * TEST_POOL,
							 p.pool.h.begin() + v * TEST_POOL + p.pool_count.h[v]),
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

/* Lists filled up as src/graph/lists.c says: from those of the six nearest. */
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

static const char *
format_name(RowFormat format)
{
	return format == ROWS_S8 ? "s8" : format == ROWS_F16 ? "f16" : "bits";
}

/*
 * Rows of small integers, whose distances are exact in all forms: 8 bits, binary16 and, of 0 and 1,
 * bits.
 */
static void
test_near(RowFormat format, uint32_t stride, uint32_t dim, uint32_t degree)
{
	uint32_t	n = 900;
	Both<float> rows((size_t) n * dim);
	Both<uint8_t> bytes((size_t) n * stride);
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
			if (format == ROWS_B1)
			{
				x = x > 0;
				rows.h[(size_t) i * dim + d] = (float) x;
				bytes.h[(size_t) i * stride + d / 8] |= (uint8_t) (x << (7 - d % 8));
			}
			else if (format == ROWS_S8)
				((int8_t *) &bytes.h[(size_t) i * stride])[d] = (int8_t) x;
			else
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
	bytes.push(), order.push(), in_ids.push(), in_counts.push();
	Lists		in = {in_ids.d, in_counts.d},
				out = {ids.d, counts.d};

	uint32_t	seg = std::min(stride, 128u);
	Digests		digests = {bytes.d, norms.d, n, stride, seg, stride / seg, format};

	must(launch_norms(device, digests, norms.d), "launch_norms");
	must(launch_near_digests(device, digests, in, degree, order.d, out), "launch_near_digests");
	ids.pull(), counts.pull();
	uint32_t	bad = 0,
				grown = 0;

	for (uint32_t v = 0; v < n; v++)
	{
		std::vector<uint32_t> want = oracle_near(lists, v, degree, distance);
		uint32_t	row = order.h[v];

		grown += want.size() > lists[v].size();
		for (uint32_t &u : want)
			u = order.h[u];
		bad += counts.h[row] != want.size() ||
			!std::equal(want.begin(), want.end(), &ids.h[(size_t) row * degree]);
	}
	report("lists filled with near neighbors, " +
		   std::string(format_name(format)) + ", " +
		   std::to_string(dim) + " dimensions, degree " + std::to_string(degree),
		   bad == 0 && grown > n / 4, std::to_string(bad) + " lists differ, " +
		   std::to_string(grown) + " grew");
}

/* Lists merged as src/graph/merge.c says; rows of small integers, exact in all forms. */
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
			if (format == ROWS_B1)
			{
				value = value > 0;
				x[(size_t) i * dim + d] = (float) value;
				bytes.h[(size_t) i * stride + d / 8] |= (uint8_t) (value << (7 - d % 8));
			}
			else if (format == ROWS_S8)
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

	args.digests = Digests{bytes.d, norms.d, n, stride, seg, stride / seg, format};
	args.d_rows = rows.d;
	args.d_lists[0] = lists[0].d, args.d_lists[1] = lists[1].d;
	args.count = n, args.degree = degree, args.fill = fill;
	args.d_ids = ids.d, args.d_counts = counts.d;
	must(launch_norms(device, args.digests, norms.d), "launch_norms");
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
	report("lists merged, " + std::string(format_name(format)) + ", " +
		   std::to_string(dim) + " dimensions, degree " + std::to_string(degree),
		   bad == 0 && shared > n, std::to_string(bad) + " lists differ");
}

void
test_lists()
{
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
		test_near(ROWS_B1, 64, 300, degree);
		test_near(ROWS_B1, 128, 1001, degree);
		test_near(ROWS_B1, 256, 2048, degree);
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
	test_merge(ROWS_B1, 64, 300, 32, 24);
	test_merge(ROWS_B1, 128, 1024, 96, 96);
	test_merge(ROWS_B1, 256, 1500, 32, 32);
}
