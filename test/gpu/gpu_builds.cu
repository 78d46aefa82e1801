/*
 * gpu_builds.cu - whole builds through gpu.h: sound graphs, their recall, and refusals.
 */
#include "gpu_check.h"

#include "../../cuda/paper/paper.h"

#include <map>
#include <numeric>
#include <set>

static std::vector<float>
make_rows(uint32_t n, uint32_t dim, const char *kind)
{
	const uint32_t plane = 12;
	std::vector<float> x((size_t) n * dim),
				within,			/* "bits": where rows lie in a plane, and axes there */
				axes;

	for (uint64_t k = 0; !strcmp(kind, "bits") && k < (uint64_t) n * plane; k++)
		within.push_back(gaussian(66, k));
	for (uint64_t k = 0; !strcmp(kind, "bits") && k < (uint64_t) dim * plane; k++)
		axes.push_back(gaussian(67, k));
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t d = 0; d < dim; d++)
		{
			float	   &y = x[(size_t) i * dim + d];
			uint64_t	at = (uint64_t) i * dim + d;

			if (!strcmp(kind, "integers"))
				y = (float) rnd(60, at, 200);
			else if (!strcmp(kind, "bits"))	/* the side of the axis, but for noise */
			{
				y = 0.5f * gaussian(65, at);
				for (uint32_t k = 0; k < plane; k++)
					y += within[i * plane + k] * axes[d * plane + k];
				y = y > 0;
			}
			else if (!strcmp(kind, "identical"))
				y = (float) d;
			else if (!strcmp(kind, "clusters"))	/* of 20, a thousandth as wide as apart */
				y = gaussian(61, (uint64_t) (i / 20) * dim + d) + 0.001f * gaussian(62, at);
			else if (!strcmp(kind, "nan"))
				y = i % 10 == 3 ? (float) NAN : i % 10 == 4 ? 3e38f : gaussian(63, at);
			else
				y = gaussian(63, at);
		}
	return x;
}

struct Built
{
	GrnGpuStatus status;
	GrnGpuError err;
	uint32_t	degree;
	std::vector<uint32_t> ids;
	std::vector<uint8_t> counts;
};

static Built
build(GrnGpu *gpu, const std::vector<float> &x, uint32_t n, uint32_t dim, GrnGraphParams params,
	  GrnGpuOptions options = {}, uint32_t stride = 0, GrnGpuProgressFn progress = NULL)
{
	Built		b = {};

	grn_gpu_default_params(&params, dim);
	b.degree = params.degree;
	b.ids.assign((size_t) n * b.degree + 1, 0xabababab);
	b.counts.assign(n + 1, 0xab);
	b.status = grn_gpu_begin(gpu, n, dim, &options, &params, &b.err);
	if (b.status == GRN_GPU_OK && n > 0)
		b.status = grn_gpu_rows(gpu, 0, n / 2, x.data(), stride ? stride : dim, &b.err);
	if (b.status == GRN_GPU_OK && n > 0)
		b.status = grn_gpu_rows(gpu, n / 2, n - n / 2,
								x.data() + (size_t) (n / 2) * (stride ? stride : dim),
								stride ? stride : dim, &b.err);
	if (b.status == GRN_GPU_OK)
		b.status = grn_gpu_build(gpu, b.ids.data(), b.counts.data(), progress, NULL, NULL, &b.err);
	grn_gpu_end(gpu);
	return b;
}

/* Rows of 0 and 1 as bits, in rows of 16 bytes each. */
struct BitRows
{
	std::vector<uint8_t> bytes;
	GrnGpuSource source = {};

	BitRows(const std::vector<float> &x, uint32_t n, uint32_t dim)
	{
		source.row_bytes = (dim + 127) / 128 * 16;
		source.numbers = GRN_NUMBERS_BITS;
		bytes.assign(n * source.row_bytes, 0);
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t d = 0; d < dim; d++)
				if (x[(size_t) i * dim + d] > 0)
					bytes[i * source.row_bytes + d / 8] |= (uint8_t) (0x80 >> d % 8);
		source.base = bytes.data();
	}
};

/* A build of bits that are their own digests. */
static Built
build_bits(GrnGpu *gpu, const BitRows &rows, uint32_t n, uint32_t dim, GrnGpuOptions options)
{
	Built		b = {};
	GrnGraphParams params = {};

	options.rows = GRN_GPU_BIT_DIGESTS;
	grn_gpu_default_params(&params, dim);
	b.degree = params.degree;
	b.ids.assign((size_t) n * b.degree + 1, 0xabababab);
	b.counts.assign(n + 1, 0xab);
	b.status = grn_gpu_begin(gpu, n, dim, &options, &params, &b.err);
	if (b.status == GRN_GPU_OK)
		b.status = grn_gpu_rows_from(gpu, &rows.source, 0, n, &b.err);
	if (b.status == GRN_GPU_OK)
		b.status = grn_gpu_build(gpu, b.ids.data(), b.counts.data(), NULL, NULL, NULL, &b.err);
	grn_gpu_end(gpu);
	return b;
}

/* NULL if the graph is sound, else what is wrong. */
static const char *
unsound(const Built &b, uint32_t n)
{
	if (b.status != GRN_GPU_OK)
		return b.err.text;
	for (uint32_t v = 0; v < n; v++)
	{
		const uint32_t *ids = &b.ids[(size_t) v * b.degree];

		if (b.counts[v] > b.degree)
			return "a count over the degree";
		for (uint32_t k = 0; k < b.counts[v]; k++)
		{
			if (ids[k] >= n)
				return "an id out of range";
			if (ids[k] == v)
				return "an edge to itself";
			if (std::count(ids, ids + b.counts[v], ids[k]) != 1)
				return "an edge twice";
		}
	}
	return NULL;
}

/* recall@10 of 200 rows looked for by beam search with 64 places from 32 entries. */
static double
recall(const Built &b, const std::vector<float> &x, uint32_t n, uint32_t dim)
{
	uint64_t	hits = 0;
	uint32_t	queries = 200;

	for (uint32_t i = 0; i < queries; i++)
	{
		uint32_t	q = rnd(70, i, n);
		std::vector<std::pair<float, uint32_t>> truth;

		for (uint32_t u = 0; u < n; u++)
			truth.push_back({l2(&x[(size_t) q * dim], &x[(size_t) u * dim], dim), u});
		std::partial_sort(truth.begin(), truth.begin() + 10, truth.end());
		std::map<uint32_t, float> seen;
		std::set<std::pair<float, uint32_t>> beam,
					open;
		auto		offer = [&](uint32_t u) {
			if (seen.count(u))
				return;
			float		d = seen[u] = l2(&x[(size_t) q * dim], &x[(size_t) u * dim], dim);

			beam.insert({d, u});
			open.insert({d, u});
			if (beam.size() > 64)
			{
				open.erase(*beam.rbegin());
				beam.erase(std::prev(beam.end()));
			}
		};

		for (uint32_t e = 0; e < 32; e++)
			offer(rnd(71, e, n));
		while (!open.empty())
		{
			uint32_t	v = open.begin()->second;

			open.erase(open.begin());
			for (uint32_t k = 0; k < b.counts[v]; k++)
				offer(b.ids[(size_t) v * b.degree + k]);
		}
		auto		at = beam.begin();

		for (int k = 0; k < 10 && at != beam.end(); k++, ++at)
			hits += at->first <= truth[9].first;
	}
	return hits / (10.0 * queries);
}

/* Five cells around rows, of which the rows' are to be told. */
struct TestCells
{
	static constexpr uint32_t N = 5;
	std::vector<float> centers, weights, across;
	GrnCells	cells;

	TestCells(const std::vector<float> &x, uint32_t dim)
		: centers(x.begin(), x.begin() + N * dim), weights(N), across(N * N)
	{
		std::vector<float> apart;

		for (uint32_t a = 0; a < N; a++)
			for (uint32_t b = 0; b < N; b++)
			{
				float		d = l2(&centers[a * dim], &centers[b * dim], dim);

				across[a * N + b] = a == b ? 0 : 1 / (2 * sqrtf(d));
				apart.push_back(d);
			}
		for (uint32_t a = 0; a < N; a++)
			weights[a] = 0.05f * a * apart[1];
		cells = {N, dim, centers.data(), weights.data(), across.data(), 0.1f * sqrtf(apart[1])};
	}

	/* How many of the rows have another home or guest, but for those near a border. */
	uint32_t wrong(const std::vector<float> &x, uint32_t n, const uint32_t *home, const uint32_t *guest) const
	{
		uint32_t	bad = 0;

		for (uint32_t i = 0; i < n; i++)
		{
			std::vector<std::pair<double, uint32_t>> sums;

			for (uint32_t c = 0; c < N; c++)
				sums.push_back({(double) l2(&x[(size_t) i * cells.dim], &centers[c * cells.dim], cells.dim) +
								weights[c], c});
			std::sort(sums.begin(), sums.end());

			double		gap = sums[1].first - sums[0].first, scale = 1e-3 * sums[1].first,
						border = cells.border / across[sums[0].second * N + sums[1].second];
			bool		is_guest = gap <= border;

			if (gap > scale && home[i] != sums[0].second)
				bad++;
			else if (gap > scale && sums[2].first - sums[1].first > scale && fabs(gap - border) > scale &&
					 guest[i] != (is_guest ? sums[1].second : GRN_INVALID_ID))
				bad++;
		}
		return bad;
	}
};

/*
 * Builds of digests, those that the device keeps unless some are given, of all rows but the first
 * 100, backwards.
 */
static void
build_members(GrnGpu *gpu, uint32_t n, uint32_t dim, const GrnGpuOptions &options, const GrnGraphParams &params,
			  const uint8_t *digests, Built &b)
{
	std::vector<uint32_t> members(n - 100);

	for (uint32_t i = 0; i < n - 100; i++)
		members[i] = n - 1 - i;
	b.degree = params.degree;
	b.ids.assign((size_t) n * b.degree + 1, 0xabababab);
	b.counts.assign(n + 1, 0xab);
	b.status = grn_gpu_begin(gpu, n - 100, dim, &options, &params, &b.err);
	if (b.status == GRN_GPU_OK)
		b.status = grn_gpu_digested_rows(gpu, digests, gpu, members.data(), &b.err);
	if (b.status == GRN_GPU_OK)
		b.status = grn_gpu_build(gpu, b.ids.data(), b.counts.data(), NULL, NULL, NULL, &b.err);
	grn_gpu_end(gpu);
	grn_gpu_drop_digests(gpu);
}

/* Recall of what build_members() has built of x [n][dim]; *wrong: what is wrong, or NULL. */
static double
recall_of_members(const Built &b, const std::vector<float> &x, uint32_t n, uint32_t dim, const char **wrong)
{
	/* in the order of rows 100 to n */
	std::vector<float> part(x.begin() + (size_t) 100 * dim, x.end());
	Built		mine = b;

	*wrong = b.status != GRN_GPU_OK ? b.err.text : NULL;
	for (uint32_t i = 0; i < n - 100 && !*wrong; i++)
		for (uint32_t k = 0; k < b.degree; k++)
		{
			uint32_t	id = b.ids[(size_t) i * b.degree + k];

			if ((id == EMPTY_ID) != (k >= b.counts[i]) || (id != EMPTY_ID && id < 100))
				*wrong = "a list that is not ended, or names no member";
			mine.ids[(size_t) (n - 101 - i) * b.degree + k] = id - 100;
			mine.counts[n - 101 - i] = b.counts[i];
		}
	if (!*wrong && unsound(mine, n - 100))
		*wrong = "the graph is unsound";
	return *wrong ? 0 : recall(mine, part, n - 100, dim);
}

/*
 * Digests rows and builds from the digests of all but the first 100, backwards; keep: digests
 * that never leave the device.  *other: a row is no integers.  Rows in the wrong cell: an
 * error.
 */
static Built
build_digested(GrnGpu *gpu, const std::vector<float> &x, uint32_t n, uint32_t dim, GrnGpuRows kind,
			bool few, bool keep, bool *other, uint32_t *dims)
{
	Built		b = {};
	GrnGpuFit	fit = {};
	GrnGpuOptions options = {};
	GrnGraphParams params = {};
	GrnGpuSource source = {x.data(), NULL, dim * sizeof(float), 0, 0, GRN_NUMBERS_FLOATS};
	BitRows		bits(x, kind == GRN_GPU_BIT_DIGESTS ? n : 0, dim);
	TestCells	cells(x, dim);
	std::vector<uint8_t> digests;
	std::vector<uint32_t> home(n + 1, 99), guest(n + 1, 99);
	GrnGpuDigesting e = {&fit, &cells.cells, &gpu, keep, 0, NULL, home.data(), guest.data()};

	if (kind == GRN_GPU_BIT_DIGESTS)
	{
		source = bits.source;
		e.raw_bytes = (uint32_t) source.row_bytes;
	}
	grn_gpu_default_params(&params, dim);
	options.rows = fit.rows = kind;
	fit.dim = dim;
	fit.few_directions = few;
	*other = false;
	b.status = grn_gpu_fit(gpu, x.data(), n, 1, &fit, &b.err);
	options.digest_dims = *dims = fit.digest_dims;
	digests.resize((size_t) n * fit.digest_bytes);
	e.digests = keep ? NULL : digests.data();
	if (b.status == GRN_GPU_OK && keep)
		b.status = grn_gpu_keep_digests(gpu, &fit, n, 0, &b.err);
	if (b.status == GRN_GPU_OK)
		b.status = grn_gpu_digest_begin(gpu, &e, 0, &b.err);
	for (uint32_t first = 0; b.status == GRN_GPU_OK && first < n; first += 1000)
		b.status = grn_gpu_digest(gpu, &e, &source, first, std::min(n - first, 1000u), first, other, &b.err);
	free(fit.projection);
	if (b.status == GRN_GPU_OK && !*other)
	{
		uint32_t	wrong = cells.wrong(x, n, home.data(), guest.data());

		if (wrong > 0 || home[n] != 99 || guest[n] != 99)
		{
			b.status = GRN_GPU_FAILED;
			snprintf(b.err.text, sizeof(b.err.text), "%u rows in other cells", wrong);
		}
	}
	if (b.status == GRN_GPU_OK && !*other)
		build_members(gpu, n, dim, options, params, e.digests, b);
	return b;
}

void
test_digested_builds(GrnGpu *gpu)
{
	struct
	{
		GrnGpuRows	kind;
		const char *data;
		uint32_t	dim;
		bool		few;
		uint32_t	dims;
		double		least;
	}			cases[] = {
		{GRN_GPU_EXACT_DIGESTS, "integers", 16, false, 32, 0.99}, {GRN_GPU_BYTE_DIGESTS, "gaussian", 16, false, 32, 0.98},
		{GRN_GPU_WIDE_DIGESTS, "gaussian", 16, false, 32, 0.98}, {GRN_GPU_BYTE_DIGESTS, "gaussian", 130, false, 128, 0.5},
		{GRN_GPU_WIDE_DIGESTS, "gaussian", 131, false, 128, 0.5}, {GRN_GPU_BYTE_DIGESTS, "gaussian", 384, false, 256, 0.8},
		{GRN_GPU_BYTE_DIGESTS, "gaussian", 384, true, 128, 0.6}, {GRN_GPU_WIDE_DIGESTS, "gaussian", 384, false, 128, 0.6},
		{GRN_GPU_BIT_DIGESTS, "bits", 129, false, 512, 0.98}, {GRN_GPU_BIT_DIGESTS, "bits", 1000, false, 1024, 0.98},
		{GRN_GPU_BIT_DIGESTS, "bits", 2048, false, 2048, 0.98},
	};
	uint32_t	n = 4100,
				dims;
	bool		other;

	for (size_t at = 0; at < 2 * sizeof(cases) / sizeof(cases[0]); at++)
	{
		auto	   &c = cases[at / 2];
		bool		keep = at % 2;
		auto		x = make_rows(n, c.dim, c.data);
		Built		b = build_digested(gpu, x, n, c.dim, c.kind, c.few, keep, &other, &dims);
		const char *wrong;
		double		r = recall_of_members(b, x, n, c.dim, &wrong);

		report("build from digests, kind " + std::to_string(c.kind) + ", " + std::to_string(c.dim) + " dimensions" +
			   (c.few ? ", few directions" : "") + (keep ? ", kept" : ""), !wrong && r >= c.least && dims == c.dims,
			   wrong ? wrong : "recall " + std::to_string(r) + ", " + std::to_string(dims) + " directions");
	}
	auto		x = make_rows(n, 16, "gaussian");
	Built		b = build_digested(gpu, x, n, 16, GRN_GPU_EXACT_DIGESTS, false, false, &other, &dims);

	report("rows that are no integers are noticed", b.status == GRN_GPU_OK && other);
	grn_gpu_end(gpu);
}

/* Digests are larger where the usual ones would hold too little, as far as the limit goes. */
static void
test_directions(GrnGpu *gpu)
{
	GrnGraphParams params = {};
	GrnGpuOptions options = {};
	uint32_t	n = 3000,
				dim = 384;
	uint64_t	plain = grn_gpu_plan(gpu, &params, &options, n, dim),
				peak;
	auto		flat = make_rows(n, dim, "gaussian"),
				steep = flat;
	auto		check = [&](const char *name, const std::vector<float> &x, uint64_t limit, bool more) {
		options.memory_limit = limit;
		grn_gpu_peak(gpu);
		Built		b = build(gpu, x, n, dim, params, options);
		const char *wrong = unsound(b, n);

		peak = grn_gpu_peak(gpu);
		report(name, !wrong && (more ? peak > plain : peak == plain) &&
				   (limit == 0 || peak <= limit),
			   wrong ? wrong : std::to_string(peak) + " bytes, planned " + std::to_string(plain));
	};

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t d = 100; d < dim; d++)
			steep[(size_t) i * dim + d] *= 0.1f;
	check("more directions where 128 hold too little", flat, 0, true);
	check("within the memory limit", flat, 2 * plain, true);
	check("not past it", flat, plain, false);
	check("128 where they hold enough", steep, 0, false);
	options.few_directions = true;
	check("or no more are asked for", flat, 0, false);
}

/* Graphs of bits as they are are no worse than those of the same rows as floats. */
static void
test_bit_builds(GrnGpu *gpu)
{
	for (uint32_t n : {2u, 3u, 33u, 257u})
	{
		auto		x = make_rows(n, 300, "bits");
		Built		b = build_bits(gpu, BitRows(x, n, 300), n, 300, {});
		const char *wrong = unsound(b, n);

		report("bits, " + std::to_string(n) + " rows", !wrong, wrong ? wrong : "");
	}
	for (uint32_t dim : {129u, 384u, 2047u})
		for (int kind = 0; kind < 2; kind++)
		{
			uint32_t	n = 3000;
			auto		x = make_rows(n, dim, "bits");
			GrnGpuOptions options = {};

			options.fill = kind == 1;

			Built		floats = build(gpu, x, n, dim, {}, options),
						bits = build_bits(gpu, BitRows(x, n, dim), n, dim, options);
			const char *wrong = unsound(bits, n);
			double		r = wrong ? 0 : recall(bits, x, n, dim),
						before = recall(floats, x, n, dim);

			report("bits, " + std::to_string(dim) + " dimensions" +
				   (kind == 1 ? ", filled" : ""), !wrong && r >= before - 0.005,
				   wrong ? wrong : "recall " + std::to_string(r) + ", of floats " + std::to_string(before));
		}

	GrnGpuOptions options = {};
	GrnGraphParams params = {};
	GrnGpuError err = {};
	auto		x = make_rows(100, 300, "bits");
	GrnGpuSource floats = {x.data(), NULL, 300 * sizeof(float), 0, 0, GRN_NUMBERS_FLOATS};
	bool		refused;

	options.rows = GRN_GPU_BIT_DIGESTS;
	grn_gpu_default_params(&params, 300);
	refused = grn_gpu_begin(gpu, 100, GRN_GPU_MOST_BITS + 1, &options, &params, &err) == GRN_GPU_FAILED &&
		grn_gpu_begin(gpu, 100, 300, &options, &params, &err) == GRN_GPU_OK &&
		grn_gpu_rows_from(gpu, &floats, 0, 100, &err) == GRN_GPU_FAILED;
	grn_gpu_end(gpu);
	report("too many bits, and rows that are not bits, are refused", refused, err.text);
}

void
test_builds(GrnGpu *gpu)
{
	test_bit_builds(gpu);
	for (int kind = 0; kind < 2; kind++)
	{
		GrnGpuOptions options = {};
		std::string mode = kind == 1 ? "filled, " : "";

		options.fill = kind == 1;
		for (uint32_t n : {0u, 1u, 2u, 3u, 5u, 31u, 32u, 33u, 34u, 100u, 257u})
		{
			GrnGraphParams params = {};
			auto		x = make_rows(n, 7, "gaussian");
			Built		b = build(gpu, x, n, 7, params, options);
			const char *wrong = unsound(b, n);

			for (uint32_t v = 0; v < n && n > 1; v++)
				if (b.counts[v] == 0)
					wrong = "a vertex without neighbors";
			report(mode + std::to_string(n) + " rows", !wrong, wrong ? wrong : "");
		}
		for (uint32_t degree : {8u, 32u, 96u})
			for (const char *data : {"identical", "nan", "integers"})
			{
				GrnGraphParams params = {};

				params.degree = degree;
				auto		x = make_rows(1500, 20, data);
				Built		b = build(gpu, x, 1500, 20, params, options);
				const char *wrong = unsound(b, 1500);

				report(mode + data + " rows, degree " + std::to_string(degree), !wrong,
					   wrong ? wrong : "");
			}
		for (uint32_t dim : {1u, 3u, 31u, 33u, 100u, 129u, 384u, 961u, 16000u})
		{
			GrnGraphParams params = {};
			uint32_t	n = dim > 1000 ? 700 : 3000;
			auto		x = make_rows(n, dim, "gaussian");
			Built		b = build(gpu, x, n, dim, params, options);
			const char *wrong = unsound(b, n);

			report(mode + std::to_string(dim) + " dimensions", !wrong, wrong ? wrong : "");
		}
	}
	/*
	 * Parameters that are not the defaults.  Bounds are what was measured on an H200, with two to
	 * three times as many neighbors missed.
	 */
	struct
	{
		const char *name;
		GrnGraphParams params;
		double		least;
	}			others[] = {
		{"rho 0.5", {.rho = 0.5f}, 0.992},
		{"r 8", {.r = 8}, 0.97},
		{"r 48", {.r = 48}, 0.995},
		{"r 64, s 64", {.r = 64, .s = 64}, 0.995},
		{"s 8", {.s = 8}, 0.99},
		{"t1 1, t2 1", {.t1 = 1, .t2 = 1}, 0.992},
	};

	for (auto &o : others)
	{
		uint32_t	n = 5000;
		GrnGpuOptions options = {};

		auto		x = make_rows(n, 16, "gaussian");
		Built		b = build(gpu, x, n, 16, o.params, options);
		const char *wrong = unsound(b, n);
		double		r = wrong ? 0 : recall(b, x, n, 16);

		report(std::string(o.name) + ", recall", r >= o.least, wrong ? wrong : std::to_string(r));
	}
	struct
	{
		const char *kind;
		uint32_t	dim;
		double		least;
	}			cases[] = {
		{"integers", 16, 0.99}, {"gaussian", 16, 0.99}, {"gaussian", 13, 0.99}, {"clusters", 24, 0.97},
	};

	for (auto &c : cases)
	{
		GrnGraphParams params = {};
		GrnGpuOptions options = {};
		uint32_t	n = 20000;

		auto		x = make_rows(n, c.dim, c.kind);
		Built		b = build(gpu, x, n, c.dim, params, options);
		const char *wrong = unsound(b, n);
		double		r = wrong ? 0 : recall(b, x, n, c.dim);

		report(std::string("recall on 20000 ") + c.kind +
			   " rows of " + std::to_string(c.dim), r >= c.least,
			   wrong ? wrong : std::to_string(r));
		options.fill = true;
		uint64_t	before = std::accumulate(b.counts.begin(), b.counts.begin() + n, (uint64_t) 0);

		b = build(gpu, x, n, c.dim, params, options);
		wrong = unsound(b, n);
		double		filled = wrong ? 0 : recall(b, x, n, c.dim);
		uint64_t	after = std::accumulate(b.counts.begin(), b.counts.begin() + n, (uint64_t) 0);

		report("the same, filled", filled >= r - 0.002 && after > before,
			   wrong ? wrong : std::to_string(filled) + ", edges " +
			   std::to_string((double) before / n) + " -> " + std::to_string((double) after / n));
	}

	GrnGraphParams params = {};
	GrnGpuOptions options = {};
	auto		x = make_rows(5000, 24, "integers");
	std::vector<float> wide(5000 * 32, 1e30f);

	for (int i = 0; i < 5000; i++)
		memcpy(&wide[i * 32], &x[i * 24], 24 * sizeof(float));
	Built		b = build(gpu, wide, 5000, 24, params, options, 32);
	const char *wrong = unsound(b, 5000);
	double		r = wrong ? 0 : recall(b, x, 5000, 24);

	report("rows with a stride", r >= 0.98, wrong ? wrong : std::to_string(r));

	b = build(gpu, x, 5000, 24, params, options, 0, [](void *, uint64_t done, uint64_t) {
		return done < 3;
	});
	report("canceled by the progress callback", b.status == GRN_GPU_CANCELLED, b.err.text);
	test_directions(gpu);
	options.memory_limit = 100000;
	b = build(gpu, x, 5000, 24, params, options);
	report("over the memory limit", b.status == GRN_GPU_MEMORY && b.err.needed > 100000, b.err.text);

	GrnGpuError err = {};

	options.memory_limit = 0;
	params.degree = 32;
	bool		good = grn_gpu_begin(gpu, 100, 24, &options, &params, &err) == GRN_GPU_OK;

	good &= grn_gpu_rows(gpu, 90, 20, x.data(), 24, &err) == GRN_GPU_FAILED;
	good &= grn_gpu_build(gpu, NULL, NULL, NULL, NULL, NULL, &err) == GRN_GPU_FAILED;
	report("rows past the end, and a build without rows, are refused", good, err.text);
	good = grn_gpu_begin(gpu, 100, GRN_MOST_DIMS + 1, &options, &params, &err) == GRN_GPU_FAILED;
	report("too many dimensions are refused", good, err.text);
	grn_gpu_end(gpu);
}

/* Whole builds of grnnd_paper.  Bounds as above. */
void
test_paper_builds()
{
	struct
	{
		const char *name;
		GrnPaperOptions options;
		double		least;
	}			cases[] = {
		{"as the paper has it", {}, 0.983},
		{"ascending", {.order = GRN_ORDER_ASCENDING}, 0.975},
		{"descending", {.order = GRN_ORDER_DESCENDING}, 0.983},
		{"64 pairs", {.pairs = 64}, 0.978},
		{"rho 0.2", {.params = {.rho = 0.2f}}, 0.97},
		{"r 64, s 32", {.params = {.r = 64, .s = 32}}, 0.987},
		{"r 96, s 90, pruned", {.params = {.r = 96, .s = 90}, .prune = true}, 0.992},
		{"r 128, s 20", {.params = {.r = 128, .s = 20}}, 0.987},
	};

	for (auto &c : cases)
		for (uint32_t n : {0u, 1u, 2u, 33u, 5000u})
		{
			GrnPaperOptions options = c.options;
			auto		x = make_rows(n, 16, "gaussian");
			Built		b = {};
			char		error[256] = "";
			double		seconds;

			grn_paper_defaults(&options.params);
			b.degree = options.params.degree;
			b.ids.assign((size_t) n * b.degree + 1, 0xabababab);
			b.counts.assign(n + 1, 0xab);
			b.status = grn_paper_build(0, x.data(), n, 16, 16, &options, b.ids.data(), b.counts.data(), &seconds,
									   error, sizeof(error)) ? GRN_GPU_OK : GRN_GPU_FAILED;
			const char *wrong = b.status == GRN_GPU_OK ? unsound(b, n) : error;
			double		r = wrong || n < 5000 ? 1 : recall(b, x, n, 16);

			report(std::string("paper: build, ") + c.name + ", " + std::to_string(n) + " rows", !wrong && r >= c.least,
				   wrong ? wrong : std::to_string(r));
		}
	GrnPaperOptions options = {};
	float		row[2] = {};
	uint32_t	ids[96];
	uint8_t		counts[2];
	double		seconds;
	char		error[256] = "";

	grn_paper_defaults(&options.params);
	report("paper: a GPU that is not there",
		   !grn_paper_build(999, row, 2, 1, 1, &options, ids, counts, &seconds, error, sizeof(error)) &&
		   strstr(error, "GPU 999"), error);
}
