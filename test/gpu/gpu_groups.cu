/*
 * gpu_groups.cu - tests of groups of lists (cuda/groups.cu), by what they must have: each row one
 * group, none too many rows, and rows of a group near each other.
 */
#include "gpu_check.h"

#define MIXED 5					/* clusters that come at a time */

/* Lists whose rows lie in clusters, and come in an order in which few clusters are mixed. */
struct TestLists
{
	GrnGpuCodes codes;
	uint32_t	clusters;
	uint32_t	room;
	uint32_t	nodes;
	std::vector<GrnListToGroup> lists;
	std::vector<uint8_t> code;
	std::vector<uint32_t> factor,
				members,
				chosen,
				copied;

	TestLists(std::vector<uint32_t> dims, uint32_t used, uint32_t clusters, uint32_t room)
		: codes(), clusters(clusters), room(room), nodes(0)
	{
		for (int b = 0; b < GRN_GPU_CODE_BLOCKS; b++)
		{
			codes.bits[b] = 4u >> b;
			codes.dims[b] = dims[b];
			codes.steps[b] = b == 0 ? 0.3352f : b == 1 ? 0.9957f : 1.5958f;
			codes.bytes += dims[b] * codes.bits[b] / 8;
		}
		codes.used = used;
	}
	void
	add(uint32_t n, uint32_t groups)
	{
		lists.push_back({members.size(), n, groups});
		for (uint32_t i = 0; i < n; i++)
			members.push_back(nodes++);
	}
	/* Makes the codes: a row's are its cluster's, but that some of its numbers are one level off. */
	GrnGpuGrouping
	make()
	{
		code.assign((size_t) nodes * codes.bytes, 0);
		factor.resize(nodes);
		/* nodes lie anywhere */
		for (uint32_t i = nodes - 1; i > 0; i--)
			std::swap(members[i], members[rnd(303, i, i + 1)]);
		for (const GrnListToGroup &list : lists)
			for (uint32_t i = 0; i < list.n; i++)
			{
				/* a length of one unit times some more, and an alpha */
				uint64_t	at = list.first + i;
				float		length = (1 + 0.01f * rnd(300, at, 10)) / 0x1p63f;
				uint32_t	bits,
							cluster = ((uint32_t) ((uint64_t) i * clusters / list.n) + rnd(301, at, MIXED)) % clusters;

				memcpy(&bits, &length, sizeof(bits));
				factor[members[at]] = (bits >> 12) << 14 | 5000;
				for (uint32_t j = 0; j < dims(); j++)
					put(members[at], j, level(cluster, j, rnd(302, at * 1024 + j, 4)));
			}
		chosen.assign(nodes, 77);
		copied.assign(nodes, 77);
		codes.codes = code.data();
		codes.factors = factor.data();
		return {codes, lists.data(), (uint32_t) lists.size(), members.data(), room, chosen.data(), copied.data()};
	}
	uint32_t
	dims() const
	{
		return codes.dims[0] + codes.dims[1] + codes.dims[2];
	}
	uint32_t
	bits_of(uint32_t j) const
	{
		return j < codes.dims[0] ? 4 : j < codes.dims[0] + codes.dims[1] ? 2 : 1;
	}
	uint32_t
	level(uint32_t cluster, uint32_t j, uint32_t off) const
	{
		uint32_t	top = (1u << bits_of(j)) - 1,
					at = rnd(304, (uint64_t) cluster * 1024 + j, top + 1);

		return off != 0 ? at : at < top ? at + 1 : at - 1;
	}
	/* Where number j of a code is: its byte, and how far to shift it. */
	std::pair<uint32_t, uint32_t>
	place(uint32_t j) const
	{
		uint32_t	at = 0;

		for (int b = 0; b < GRN_GPU_CODE_BLOCKS; b++)
		{
			uint32_t	bytes = codes.dims[b] * codes.bits[b] / 8;

			if (j < codes.dims[b])
				return {at + j % bytes, j / bytes * codes.bits[b]};
			j -= codes.dims[b];
			at += bytes;
		}
		abort();
	}
	void
	put(uint32_t node, uint32_t j, uint32_t level)
	{
		code[(size_t) node * codes.bytes + place(j).first] |= (uint8_t) (level << place(j).second);
	}
	/* The numbers of the row at a position of members, in the unit of the largest alpha. */
	std::vector<float>
	row(uint64_t at) const
	{
		std::vector<float> x(codes.used);
		uint32_t	node = members[at],
					bits = factor[node] >> 14 << 12;
		float		length;

		memcpy(&length, &bits, sizeof(length));
		for (uint32_t j = 0; j < codes.used; j++)
		{
			uint32_t	top = (1u << bits_of(j)) - 1;

			x[j] = (float) (code[(size_t) node * codes.bytes + place(j).first] >> place(j).second & top) - top / 2.0f;
			x[j] *= codes.steps[bits_of(j) == 4 ? 0 : bits_of(j) == 2 ? 1 : 2] * length * 0x1p63f;
		}
		return x;
	}
	/* The mean squared distance of a list's rows from the mean of their group, by any numbers of groups. */
	double
	spread(const GrnListToGroup &list, const std::vector<uint32_t> &group) const
	{
		std::vector<std::vector<double>> mean(list.groups, std::vector<double>(codes.used));
		std::vector<uint32_t> count(list.groups);
		double		sum = 0;

		for (int pass = 0; pass < 2; pass++)
			for (uint32_t i = 0; i < list.n; i++)
			{
				std::vector<float> x = row(list.first + i);
				std::vector<double> &m = mean[group[i]];

				count[group[i]] += pass == 0;
				for (uint32_t j = 0; j < codes.used; j++)
					if (pass == 0)
						m[j] += x[j];
					else
						sum += (x[j] - m[j] / count[group[i]]) * (x[j] - m[j] / count[group[i]]);
			}
		return sum / list.n;
	}
};

/*
 * best: what the rows' mean squared distance from the mean of their group should be below, in units
 * of what it is where groups are rows as they come.  (The same steps in numpy come to .10 of the
 * first lists, .05, .10, and .38 of those with hardly any room.)
 */
static void
test_groups(GrnGpu *gpu, TestLists &t, double best, const std::string &name)
{
	GrnGpuGrouping g = t.make();
	GrnGpuError err = {};
	bool		sound = true;
	double		copies = 0,
				room = 0,
				worst = 0;

	if (grn_gpu_group(gpu, &g, 0, &err) != GRN_GPU_OK)
	{
		report(name, false, err.text);
		return;
	}
	for (const GrnListToGroup &list : t.lists)
	{
		std::vector<uint32_t> count(list.groups),
					chosen,
					dealt;

		for (uint64_t i = list.first; i < list.first + list.n; i++)
		{
			uint32_t	to = t.chosen[i],
						copy = t.copied[i];

			if (to >= list.groups || (copy != GRN_INVALID_ID && (copy >= list.groups || copy == to)))
			{
				sound = false;
				continue;
			}
			count[to]++;
			if (copy != GRN_INVALID_ID)
				count[copy]++, copies++;
			chosen.push_back(to);
			dealt.push_back((uint32_t) ((i - list.first) * list.groups / list.n));
		}
		for (uint32_t n : count)
			sound = sound && n <= t.room;
		room += (double) list.groups * t.room - list.n;
		if (sound && list.n >= 2000)
			worst = std::max(worst, t.spread(list, chosen) / t.spread(list, dealt));
	}
	report(name + ": each row has a group, and none too many", sound);
	if (!sound || worst == 0)
		return;
	report(name + ": rows of a group are near", worst < best, std::to_string(worst) + " of " + std::to_string(best));
	/* a row remembers six groups, of which others may have filled all */
	if (room > t.nodes / 10)
		report(name + ": groups are filled with copies", copies > 0.5 * std::min(room, (double) t.nodes),
		   std::to_string(copies) + " of " + std::to_string(room));
}

void
test_list_groups(GrnGpu *gpu)
{
	GrnGpuError err = {};

	{
		/* as many groups as clusters, and half as many again; lists too short for tiles */
		TestLists	t({32, 64, 96}, 96, 50, 60);

		t.add(3000, 75);
		t.add(7, 1);
		t.add(6000, 150);
		t.add(64, 2);
		t.add(65, 65);
		test_groups(gpu, t, 0.15, "groups of codes of three widths");
	}
	{
		TestLists	t({128, 0, 0}, 128, 100, 151);

		t.add(20000, 211);
		test_groups(gpu, t, 0.1, "groups of codes of four bits");
	}
	{
		/* numbers that do not fill a tile, and all blocks */
		TestLists	t({24, 16, 8}, 48, 30, 40);

		t.add(4000, 150);
		test_groups(gpu, t, 0.15, "groups of few numbers");
	}
	{
		/* several stretches, of which each has rows of all clusters */
		TestLists	t({16, 32, 0}, 48, 1000, 14);

		t.add(70000, 5400);
		test_groups(gpu, t, 0.25, "groups in stretches");
	}
	{
		/* hardly more room than rows */
		TestLists	t({32, 32, 0}, 64, 20, 16);

		t.add(4000, 251);
		test_groups(gpu, t, 0.5, "groups without room for copies");
	}
	{
		TestLists	t({32, 0, 0}, 32, 1, 16);

		t.add(160, 11);
		GrnGpuGrouping g = t.make();

		/* equal rows */
		std::fill(t.code.begin(), t.code.end(), 0x44);
		std::fill(t.factor.begin(), t.factor.end(), 0);
		report("equal rows have groups", grn_gpu_group(gpu, &g, 0, &err) == GRN_GPU_OK &&
			   *std::max_element(t.chosen.begin(), t.chosen.end()) < 11, err.text);
		report("groups for which there is no memory are not made",
			   grn_gpu_group(gpu, &g, 1000, &err) == GRN_GPU_MEMORY, err.text);
		t.lists[0].groups = 9;
		report("nor those without room for all rows", grn_gpu_group(gpu, &g, 0, &err) == GRN_GPU_FAILED, err.text);
		t.lists[0].groups = 11;
		g.codes.used = 129;
		report("nor those of too many numbers", grn_gpu_group(gpu, &g, 0, &err) == GRN_GPU_FAILED, err.text);
	}
}
