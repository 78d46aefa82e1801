/*
 * gpu_descent.cu - tests of the first neighbors (cuda/initial_graph.cu) and of update rounds
 * (cuda/tile.cu).
 */
#include "gpu_check.h"

#include <set>

static std::string
format_name(RowFormat format)
{
	return format == ROWS_B1 ? ", bits" : "";
}

static void
test_random_edges(RowFormat format)
{
	Bytes		b(500, 64, 6, format);
	Pools		p(b.n, 32);
	bool		good = true;

	must(launch_random_edges(device, b.digests, p.graph, 20, 9, true), "launch_random_edges");
	p.pool.pull();
	p.pool_count.pull();
	for (uint32_t v = 0; v < b.n; v++)
	{
		good &= p.pool_count.h[v] == 20;
		for (int k = 0; k < 20; k++)
		{
			Key			key = p.pool.h[v * TEST_POOL + k];
			uint32_t	id = (uint32_t) key;

			good &= id < b.n && id != v && key >> 32 == b.distance(v, id);
			good &= k == 0 || key >> 32 >= p.pool.h[v * TEST_POOL + k - 1] >> 32;
		}
	}
	report("random neighbors: distances, order, no self" + format_name(format), good);
}

static void
test_start(uint32_t stride, RowFormat format)
{
	Bytes		b(3000, stride, 10, format);
	Pools		p(b.n, 48);
	uint32_t	bins = 100,
				window = 512;
	Both<uint8_t> space(start_layout(NULL, b.n, bins, stride).bytes);
	Both<uint32_t> order(b.n, 0xffffffff);
	StartSpace	s = start_layout(space.d, b.n, bins, stride);

	must(launch_order(device, b.digests, s, bins, 3, order.d), "launch_order");
	order.pull();
	std::vector<uint32_t> sorted = order.h;
	bool		good = true;

	std::sort(sorted.begin(), sorted.end());
	for (uint32_t i = 0; i < b.n; i++)
		good &= sorted[i] == i;
	report("order of bins is a permutation, stride " + std::to_string(stride) + format_name(format), good);

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
			uint32_t	sum = digest_distance(format, &b.rows.h[(size_t) order.h[i] * stride],
											  &centroids[(size_t) c * stride], stride);

			if (sum < best)
				best = sum, bin = c;
		}
		good &= rank[bin] >= last;
		last = rank[bin];
	}
	report("rows stand in the order of their nearest bins", good);

	must(launch_window(device, b.digests, p.graph, window), "launch_window");
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
oracle_rows(const std::vector<Key> &pool, const std::vector<Key> &inbox)
{
	std::vector<std::pair<uint32_t, uint32_t>> all;	/* ordinal, slot */
	std::vector<Key> key,
				row;
	bool		small = pool.size() + inbox.size() <= 32;

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

static void
test_update(uint32_t stride, uint32_t pool_size, uint32_t inbox_size, RowFormat format = ROWS_S8)
{
	Bytes		b(400, stride, 20 + stride, format);
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
		std::copy(pools[v].begin(), pools[v].end(), p.pool.h.begin() + v * TEST_POOL);
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
		std::vector<Key> row = oracle_rows(pools[v], inboxes[v]);
		Outcome		o = oracle_update(b, row, keep);

		want_pool[v] = o.pool;
		for (auto &x : o.pushed)
			want[x.first].insert(x.second);
	}
	p.pool.push(), p.pool_count.push(), p.inbox0.push(), p.count0.push();
	must(launch_update_round(device, b.digests, p.graph, keep), "launch_update_round");
	p.pool.pull(), p.pool_count.pull(), p.inbox1.pull(), p.count0.pull(), p.count1.pull();
	uint32_t	bad_pool = 0,
				bad_push = 0,
				overflowed = 0;

	for (uint32_t v = 0; v < b.n; v++)
	{
		std::vector<Key> got(p.pool.h.begin() + v * TEST_POOL,
							 p.pool.h.begin() + v * TEST_POOL + p.pool_count.h[v]);

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
	report("update round, stride " + std::to_string(stride) + ", pool " + std::to_string(pool_size) +
		   ", inbox " + std::to_string(inbox_size) + format_name(format), bad_pool + bad_push == 0,
		   std::to_string(bad_pool) + " pools, " + std::to_string(bad_push) + " inboxes differ, " +
		   std::to_string(overflowed) + " overflowed");
}

void
test_descent()
{
	for (RowFormat format : {ROWS_S8, ROWS_B1})
		test_random_edges(format);
	for (uint32_t stride : {64u, 128u, 256u})
	{
		test_start(stride, ROWS_B1);
		test_update(stride, 10, 14, ROWS_B1);
		test_update(stride, 16, 30, ROWS_B1);
		test_update(stride, 25, 60, ROWS_B1);
	}
	for (uint32_t stride : {32u, 64u, 128u, 256u})
	{
		test_start(stride, ROWS_S8);
		test_update(stride, 10, 14);
		test_update(stride, 16, 30);
		test_update(stride, 25, 60);
	}
	test_update(128, 0, 20);
	test_update(128, 32, 64);
	test_update(128, 40, 5);
	test_update(64, 56, 64);
}
