/*
 * gpu_paper.cu - tests of the kernels of cuda/paper/kernels.cu, step by step against the plain
 * C of test/unit/paper_reference.h.
 */
#include "gpu_check.h"

#include <set>

#include "../../cuda/paper/kernels.cuh"
#include "../unit/paper_reference.h"

/* Pools on the device, and what the reference makes of them. */
struct PaperWorld
{
	uint32_t	n, dim, r;
	Both<float> rows;
	Both<uint8_t> memory;
	PaperSpace	space;
	Ref			ref;
	std::vector<RefPool> before, after;

	PaperWorld(uint32_t n, uint32_t dim, uint32_t r)
		: n(n), dim(dim), r(r), rows((size_t) n * dim), memory(paper_layout(NULL, n, r).bytes), before(n), after(n)
	{
		/* small integers: sums of floats are exact, in any order */
		for (size_t i = 0; i < rows.h.size(); i++)
			rows.h[i] = (float) rnd(40, i, 50);
		rows.push();
		space = paper_layout(memory.d, n, r);
		ref = Ref{rows.h.data(), n, dim, r, 0, 0, 7};
	}

	/* The pools that the device has, with distances; entries without any order. */
	struct Pool
	{
		std::vector<uint32_t> ids;	/* in the order of their slots, twice where twice there */
		bool		sound;		/* distances are right, no id is the vertex's own */
		uint32_t	twice;		/* entries of ids that another entry has, too */
	};
	Pool
	pool(uint32_t v)
	{
		std::vector<Key> entries(r);
		uint32_t	count;
		Pool		p = {{}, true, 0};

		must(cudaMemcpy(&count, space.d_count[0] + v, sizeof(count), cudaMemcpyDeviceToHost), "copy");
		must(cudaMemcpy(entries.data(), space.d_pool[0] + (size_t) v * r, sizeof(Key) * r, cudaMemcpyDeviceToHost),
			 "copy");
		for (uint32_t i = 0; i < std::min(count, r); i++)
		{
			uint32_t	id = (uint32_t) entries[i] >> 1,
						bits = (uint32_t) (entries[i] >> 32);
			float		distance;

			memcpy(&distance, &bits, sizeof(distance));
			p.sound &= id < n && id != v && distance == (float) ref_distance(&ref, v, id);
			p.ids.push_back(id);
		}
		for (uint32_t i = std::min(count, r); i < r; i++)
			p.sound &= entries[i] == EMPTY_KEY;
		p.twice = (uint32_t) (p.ids.size() - std::set<uint32_t>(p.ids.begin(), p.ids.end()).size());
		return p;
	}

	/* Makes what the device has the reference's starting point; ids once each, as kernels read them. */
	void
	pull()
	{
		for (uint32_t v = 0; v < n; v++)
		{
			Pool		p = pool(v);

			before[v].count = 0;
			before[v].again = p.twice;	/* they stay where reverse edges are added */
			for (uint32_t id : p.ids)
			{
				bool		there = false;

				for (uint32_t i = 0; i < before[v].count; i++)
					there |= before[v].id[i] == id;
				if (!there)
					before[v].id[before[v].count++] = id;
			}
		}
	}

	/*
	 * How many pools on the device are not the reference's `after`.
	 *
	 * Two warps that offer one id to a pool with free slots may each miss the other and take a
	 * slot each: so do those of the paper's Algorithm 6.  Kernels drop the second one when they
	 * read the pool.  How often that happens depends on the device, but no id is there more
	 * often than it was offered, and what it costs is exact: the pool holds the nearest of what
	 * it was offered, fewer by the slots that are taken twice, where they left too few.  (What
	 * a full pool turns away or gives up is farther than all that it holds, and what it holds
	 * only gets nearer.)
	 */
	std::string
	compare(bool *good)
	{
		uint32_t	differ = 0,
					unsound = 0,
					twice = 0,
					full = 0;

		for (uint32_t v = 0; v < n; v++)
		{
			Pool		p = pool(v);
			RefPool    &want = after[v];
			std::set<uint32_t> got(p.ids.begin(), p.ids.end());
			uint32_t	most = std::min(want.count, r - std::min(p.twice, r));

			unsound += !p.sound;
			twice += p.twice > 0;
			full += want.count == r;
			ref_sort(&ref, v, &want);
			differ += p.twice > want.again ||
				got != std::set<uint32_t>(want.id, want.id + most);
		}
		*good = unsound == 0 && differ == 0;
		return std::to_string(differ) + " differ, " + std::to_string(unsound) + " unsound, " +
			std::to_string(twice) + " with an id twice, " + std::to_string(full) + " full";
	}
};

static void
test_rounds(uint32_t n, uint32_t dim, uint32_t r, uint32_t s, GrnPairOrder order, uint32_t pairs,
			GrnReverse reverse)
{
	static const char *const orders[] = {"disordered", "ascending", "descending"};
	PaperWorld	w(n, dim, r);
	std::string name = "paper: R " + std::to_string(r) + ", " + std::to_string(dim) + " dimensions, " +
		orders[order] + ", " + (pairs ? std::to_string(pairs) : "all") + " pairs: ";
	bool		good = true,
				all = true;
	std::string why;

	w.ref.order = order;
	w.ref.pairs = pairs;
	must(launch_paper_init(device.stream, w.rows.d, n, dim, w.space, r, s, 3), "launch_paper_init");
	must(cudaStreamSynchronize(device.stream), "synchronize");
	for (uint32_t v = 0; v < n; v++)
	{
		PaperWorld::Pool p = w.pool(v);

		all &= p.sound && p.twice == 0 && p.ids.size() <= std::min(s, n - 1) &&
			2 * p.ids.size() >= std::min(std::min(s, r), n - 1);
	}
	report(name + "start", all);
	for (uint32_t round = 0; round < 7; round++)
	{
		std::string step;

		w.pull();
		if (round == 3)
		{
			ref_reverse(&w.ref, w.before.data(), w.after.data(), 0.6f, reverse == GRN_REVERSE_NEAREST);
			must(launch_paper_reverse(device.stream, n, w.space, r, 0.6f, reverse), "launch_paper_reverse");
			step = "reverse edges";
		}
		else
		{
			ref_update(&w.ref, w.before.data(), w.after.data(), round);
			must(launch_paper_update(device.stream, w.rows.d, n, dim, w.space, r, order, pairs, w.ref.seed, round),
				 "launch_paper_update");
			step = "round " + std::to_string(round);
		}
		must(cudaStreamSynchronize(device.stream), "synchronize");
		why = w.compare(&good);
		if (!good || round == 3 || round == 6)
			report(name + step, good, why);
		if (!good)
			return;
	}

	/* The lists, as they are and pruned. */
	uint32_t	degree = std::min(r, 24u);

	w.pull();
	for (bool prune : {false, true})
	{
		Both<uint32_t> ids((size_t) n * degree, 0xabababab);
		Both<uint8_t> counts(n, 0xab);
		uint32_t	differ = 0;

		must(launch_paper_lists(device.stream, w.rows.d, n, dim, w.space, r, degree, prune, ids.d, counts.d),
			 "launch_paper_lists");
		ids.pull(), counts.pull();
		for (uint32_t v = 0; v < n; v++)
		{
			std::vector<uint32_t> want;

			ref_sort(&w.ref, v, &w.before[v]);
			for (uint32_t i = 0; i < w.before[v].count && want.size() < degree; i++)
			{
				uint32_t	x = w.before[v].id[i];
				bool		keep = true;

				for (uint32_t y : want)
					keep &= !prune || ref_distance(&w.ref, x, y) >= ref_distance(&w.ref, v, x);
				if (keep)
					want.push_back(x);
			}
			differ += counts.h[v] != want.size() ||
				!std::equal(want.begin(), want.end(), &ids.h[(size_t) v * degree]);
		}
		report(name + (prune ? "pruned lists" : "lists"), differ == 0, std::to_string(differ) + " differ");
	}
}

void
test_paper()
{
	/* n, dimensions, R, S, ...: pools that never, sometimes and always overflow */
	test_rounds(400, 8, 32, 20, GRN_ORDER_DISORDERED, 0, GRN_REVERSE_SLOTS);
	test_rounds(400, 33, 32, 32, GRN_ORDER_DISORDERED, 0, GRN_REVERSE_NEAREST);
	test_rounds(300, 130, 32, 20, GRN_ORDER_DISORDERED, 40, GRN_REVERSE_SLOTS);
	test_rounds(400, 7, 8, 8, GRN_ORDER_DISORDERED, 0, GRN_REVERSE_SLOTS);
	test_rounds(300, 128, 64, 40, GRN_ORDER_DISORDERED, 0, GRN_REVERSE_SLOTS);
	/* as many as there are, one by one, are all */
	test_rounds(300, 20, 64, 60, GRN_ORDER_DISORDERED, 64 * 63 / 2 - 1, GRN_REVERSE_SLOTS);
	test_rounds(300, 12, 50, 50, GRN_ORDER_ASCENDING, 0, GRN_REVERSE_NEAREST);
	test_rounds(300, 12, 33, 30, GRN_ORDER_ASCENDING, 64, GRN_REVERSE_SLOTS);
	test_rounds(300, 12, 64, 64, GRN_ORDER_DESCENDING, 0, GRN_REVERSE_SLOTS);
	test_rounds(300, 12, 32, 20, GRN_ORDER_DESCENDING, 20, GRN_REVERSE_NEAREST);
	test_rounds(200, 16, 96, 70, GRN_ORDER_DISORDERED, 0, GRN_REVERSE_SLOTS);
	test_rounds(200, 16, 128, 120, GRN_ORDER_DISORDERED, 0, GRN_REVERSE_SLOTS);
	test_rounds(5, 3, 32, 20, GRN_ORDER_DISORDERED, 0, GRN_REVERSE_SLOTS);
	test_rounds(2, 1, 4, 2, GRN_ORDER_DISORDERED, 0, GRN_REVERSE_SLOTS);
}
