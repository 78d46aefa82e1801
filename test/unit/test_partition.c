/*
 * test_partition.c - builds in parts: how rows are cut, how lists are merged, and
 * whole builds under limits, on the processor and on stand-ins of GPUs, which fail
 * as asked.
 */
#include "gpu_standin.h"
#include "recall.h"

#include "builder/parts.h"
#include "graph/build/connect.h"
#include "graph/build/cut.h"
#include "graph/build/merge.h"
#include "graph/kernels/tile.h"

static GrnParallel one = {1, unit_run};
static GrnParallel backwards = {3, unit_run};

/* Bytes whose neighbourhoods have about six dimensions, as those of descriptors. */
static void
fill_bytes(float *x, size_t i, uint32_t dim)
{
	float		hidden[6];

	fill_normal(hidden, i, 6);
	for (uint32_t j = 0; j < dim; j++)
	{
		float		sum = 0;

		for (uint32_t k = 0; k < 6; k++)
			sum += hidden[k] * ((float) (grn_random(9, j, k) % 1000) / 500 - 1);
		x[j] = roundf(fminf(fmaxf(128 + 25 * sum + 3 * unit_normal(), 0), 255));
	}
}

static void
fill_one(float *x, size_t i, uint32_t dim)
{
	for (uint32_t j = 0; j < dim; j++)
		x[j] = 7;
}

static void
fill_uniform(float *x, size_t i, uint32_t dim)
{
	for (uint32_t j = 0; j < dim; j++)
		x[j] = unit_uniform();
}

static void
fill_cluster(float *x, uint32_t cluster, float width, uint32_t dim)
{
	for (uint32_t j = 0; j < dim; j++)
		x[j] = (float) (grn_random(11, j, cluster) % 1000) / 1000 + width * unit_normal();
}

/* Nine of ten rows in one of 50 clusters. */
static void
fill_dense(float *x, size_t i, uint32_t dim)
{
	fill_cluster(x, unit_below(10) ? 0 : 1 + unit_below(49), 0.01f, dim);
}

/* Clusters whose rows a GPU's floats do not tell from each other. */
static void
fill_narrow(float *x, size_t i, uint32_t dim)
{
	fill_cluster(x, unit_below(5), 1e-6f, dim);
}

/* Integers in 100 clusters far from each other, a few of them with most rows. */
static void
fill_islands(float *x, size_t i, uint32_t dim)
{
	uint32_t	cluster = (uint32_t) pow(100, (double) unit_uniform());

	for (uint32_t j = 0; j < dim; j++)
		x[j] = fminf(fmaxf(roundf((float) (grn_random(13, j, cluster) % 256) +
								  (float) (1 + cluster % 5) * unit_normal()), 0), 255);
}

/* Every second row the same. */
static void
fill_half(float *x, size_t i, uint32_t dim)
{
	if (i % 2)
		fill_one(x, i, dim);
	else
		fill_normal(x, i, dim);
}

static Data
make_data(size_t n, uint32_t dim, FillFn fill)
{
	Data		d;

	d.base = malloc(n * dim * sizeof(float));
	for (size_t i = 0; i < n; i++)
		fill(d.base + i * dim, i, dim);
	d.rows = (GrnRows) {d.base, NULL, n, dim, dim, false};
	return d;
}

/* ---- cutting ---- */

static GrnParts
make_parts(const Data *d, uint32_t nparts, float overlap, GrnParallel *parallel, char **work)
{
	size_t		bytes = grn_parts_bytes(d->rows.n, d->rows.dim, nparts, overlap);
	GrnParts	parts;

	*work = unit_guarded(bytes);
	grn_parts_make(&d->rows, nparts, overlap, 3, parallel, *work, &parts);
	CHECK((char *) (parts.members + parts.start[nparts]) <= *work + grn_parts_kept(d->rows.n, overlap),
		  "more members than room for them");
	return parts;
}

static void
check_parts(const Data *d, const GrnParts *parts)
{
	size_t		n = d->rows.n;
	uint8_t    *seen = calloc(n, 1);
	uint32_t   *in = malloc(n * sizeof(uint32_t));

	memset(in, 0xff, n * sizeof(uint32_t));
	CHECK(parts->start[0] == 0, "%zu", parts->start[0]);
	for (uint32_t c = 0; c < parts->nparts; c++)
	{
		CHECK(parts->others[c] >= parts->guests[c] && parts->start[c + 1] >= parts->others[c] &&
			  parts->start[c + 1] - parts->others[c] <= grn_parts_landmarks(n, parts->nparts),
			  "part %u has %zu landmarks", c, parts->start[c + 1] - parts->others[c]);
		for (size_t i = parts->start[c]; i < parts->start[c + 1]; i++)
		{
			CHECK(parts->members[i] < n && in[parts->members[i]] != c, "row %u is twice in part %u",
				  parts->members[i], c);
			in[parts->members[i]] = c;
		}
		for (size_t i = parts->start[c]; i < parts->others[c]; i++)
		{
			uint32_t	v = parts->members[i];
			bool		guest = i >= parts->guests[c];

			CHECK(v < n && (guest ? parts->guest[v] : parts->home[v]) == i, "place %zu", i);
			CHECK(guest || !seen[v], "row %u is at home twice", v);
			seen[v] |= !guest;
			/* a guest's home is another part */
			CHECK(!guest || parts->home[v] < parts->start[c] || parts->home[v] >= parts->start[c + 1],
				  "row %u is its own guest", v);
			CHECK(i == parts->start[c] || i == parts->guests[c] || parts->members[i - 1] < v,
				  "members of part %u not by row", c);
		}
	}
	for (size_t v = 0; v < n; v++)
		CHECK(seen[v], "row %zu is in no part", v);
	free(seen);
	free(in);
}

/* Guests in all parts. */
static size_t
count_guests(const GrnParts *parts)
{
	size_t		guests = 0;

	for (uint32_t c = 0; c < parts->nparts; c++)
		guests += parts->others[c] - parts->guests[c];
	return guests;
}

static void
test_parts(void)
{
	static const uint32_t counts[] = {1, 2, 7, 33};
	static const float overlaps[] = {0.2f, 0.5f, 1};
	Data		d = make_data(20000, 8, fill_bytes);

	for (int i = 0; i < 4; i++)
		for (int j = 0; j < 3; j++)
		{
			char	   *work;
			char	   *again_work;
			GrnParts	parts = make_parts(&d, counts[i], overlaps[j], &one, &work);
			GrnParts	again = make_parts(&d, counts[i], overlaps[j], &backwards, &again_work);
			size_t		members = parts.start[counts[i]];
			double		share = (double) count_guests(&parts) / 20000;

			check_parts(&d, &parts);
			CHECK(counts[i] == 1 ? share == 0 : fabs(share - overlaps[j]) < 0.05, "%u parts: %g",
				  counts[i], share);
			CHECK((double) grn_parts_largest(&parts) * counts[i] / (double) members < 1.2,
				  "%u parts: the largest has %zu of %zu", counts[i], grn_parts_largest(&parts), members);
			CHECK(again.start[counts[i]] == members &&
				  memcmp(again.members, parts.members, members * sizeof(uint32_t)) == 0,
				  "another order of work, other parts");
			unit_guarded_free(work, grn_parts_bytes(20000, 8, counts[i], overlaps[j]));
			unit_guarded_free(again_work, grn_parts_bytes(20000, 8, counts[i], overlaps[j]));
		}
	free(d.base);
}

/* Whose members a place is among; their number where it is none. */
static uint32_t
part_of(const GrnParts *parts, uint32_t place)
{
	uint32_t	c = 0;

	while (c < parts->nparts && place >= parts->start[c + 1])
		c++;
	return c;
}

/* Cells that another tells rows by: the same parts, but for rounding at the borders. */
static void
test_parts_in_steps(void)
{
	enum
	{
	N = 5000, DIM = 6, PARTS = 9};
	Data		d = make_data(N, DIM, fill_bytes);
	char	   *work;
	GrnParts	parts = make_parts(&d, PARTS, 0.4f, &one, &work);
	char	   *steps_work = unit_guarded(grn_parts_bytes(N, DIM, PARTS, 0.4f));
	GrnParts	steps;
	GrnCells	cells;
	int			moved = 0;

	grn_parts_cells(&d.rows, PARTS, 0.4f, 3, &one, steps_work, &steps, &cells);
	CHECK(cells.n == PARTS && cells.dim == DIM, "%u cells of %u", cells.n, cells.dim);
	for (size_t i = 0; i < N; i++)
	{
		uint32_t	home = GRN_INVALID_ID;
		uint32_t	guest = GRN_INVALID_ID;
		double		sums[PARTS];

		for (uint32_t c = 0; c < PARTS; c++)
		{
			sums[c] = (double) cells.weights[c];
			for (uint32_t j = 0; j < DIM; j++)
				sums[c] += pow((double) d.base[i * DIM + j] - (double) cells.centres[c * DIM + j], 2);
			if (home == GRN_INVALID_ID || sums[c] < sums[home])
				home = c;
		}
		for (uint32_t c = 0; c < PARTS; c++)
			if (c != home && (guest == GRN_INVALID_ID || sums[c] < sums[guest]))
				guest = c;
		steps.home[i] = home;
		steps.guest[i] = (double) cells.across[home * PARTS + guest] * (sums[guest] - sums[home]) <=
			(double) cells.border ? guest : GRN_INVALID_ID;
	}
	grn_parts_find_landmarks(&d.rows, PARTS, 0.4f, 3, &backwards, steps_work, &steps);
	CHECK(steps.nlandmarks == grn_parts_landmarks(N, PARTS) && steps.nlandmarks == N / 20 / PARTS,
		  "%u landmarks", steps.nlandmarks);
	grn_parts_place(&d.rows, PARTS, 0.4f, &one, steps_work, &steps);
	check_parts(&d, &steps);
	for (uint32_t c = 0; c < PARTS; c++)
	{
		/* others' landmarks, but for those that are guests here */
		size_t		here = steps.start[c + 1] - steps.others[c];

		CHECK(here > steps.nlandmarks / 2 && here <= steps.nlandmarks - steps.nlandmarks / PARTS,
			  "%zu landmarks in part %u", here, c);
		CHECK(here == parts.start[c + 1] - parts.others[c] &&
			  memcmp(steps.members + steps.others[c], parts.members + parts.others[c],
					 here * sizeof(uint32_t)) == 0, "other landmarks in part %u", c);
	}
	for (size_t i = 0; i < N; i++)
	{
		/* the same parts', whatever the place in them */
		moved += part_of(&steps, steps.home[i]) != part_of(&parts, parts.home[i]) ||
			part_of(&steps, steps.guest[i]) != part_of(&parts, parts.guest[i]);
	}
	CHECK(moved < N / 500, "%d rows elsewhere", moved);
	unit_guarded_free(work, grn_parts_bytes(N, DIM, PARTS, 0.4f));
	unit_guarded_free(steps_work, grn_parts_bytes(N, DIM, PARTS, 0.4f));
	free(d.base);
}

static void
test_parts_of_equal_rows(void)
{
	Data		d = make_data(3000, 4, fill_one);
	char	   *work;
	GrnParts	parts = make_parts(&d, 5, 0.5f, &one, &work);

	check_parts(&d, &parts);
	unit_guarded_free(work, grn_parts_bytes(3000, 4, 5, 0.5f));
	free(d.base);
}

/* Clusters fall into parts of like size, too. */
static void
test_parts_of_clusters(void)
{
	static const FillFn fills[] = {fill_dense, fill_narrow};
	static const uint32_t counts[] = {12, 61, 113};

	for (int i = 0; i < 2; i++)
	{
		Data		d = make_data(30000, 16, fills[i]);

		for (int j = 0; j < 3; j++)
		{
			char	   *work;
			GrnParts	parts = make_parts(&d, counts[j], 0.5f, &one, &work);
			size_t		largest = grn_parts_largest(&parts);

			check_parts(&d, &parts);
			CHECK((double) largest * counts[j] / (double) parts.start[counts[j]] < 2,
				  "data %d, %u parts: the largest has %zu of %zu", i, counts[j], largest,
				  parts.start[counts[j]]);
			unit_guarded_free(work, grn_parts_bytes(30000, 16, counts[j], 0.5f));
		}
		free(d.base);
	}
}

/* What no border parts is dealt out, as far as there may be parts. */
static void
test_deal(void)
{
	enum
	{
	N = 20000, DIM = 8, MOST = 30, CAPACITY = 1500};
	Data		d = make_data(N, DIM, fill_half);
	size_t		bytes = grn_parts_bytes(N, DIM, MOST, 0.5f);
	char	   *work = unit_guarded(bytes);
	GrnParts	parts;
	int			guests = 0;

	grn_parts_make(&d.rows, 12, 0.5f, 3, &one, work, &parts);
	CHECK(grn_parts_largest(&parts) >= N / 2, "equal rows in several parts");
	CHECK(!grn_parts_deal(&d.rows, 12, 0.5f, 900, &one, work, &parts), "dealt out to too few parts");
	check_parts(&d, &parts);
	for (size_t capacity = 1100; capacity <= CAPACITY; capacity += 200)
	{
		size_t		landmarks = 0;

		grn_parts_make(&d.rows, 12, 0.5f, 3, &one, work, &parts);
		CHECK(grn_parts_deal(&d.rows, MOST, 0.5f, capacity, &backwards, work, &parts), "not dealt out");
		check_parts(&d, &parts);
		CHECK(parts.nparts <= MOST && grn_parts_largest(&parts) <= capacity, "%u parts, the largest of %zu",
			  parts.nparts, grn_parts_largest(&parts));
		for (uint32_t c = 0; c < parts.nparts; c++)
			landmarks += parts.start[c + 1] - parts.others[c];
		CHECK(landmarks > 0, "no landmarks");
	}
	for (size_t v = 1; v < N; v += 2)
		guests += parts.guest[v] != GRN_INVALID_ID;
	CHECK(guests > N / 5, "%d of the equal rows are guests", guests);
	unit_guarded_free(work, bytes);
	free(d.base);
}

/* ---- merging ---- */

static float
distance(const Data *d, uint32_t a, uint32_t b)
{
	return grn_dist->l2_f32(grn_row(&d->rows, a), grn_row(&d->rows, b), d->rows.dim);
}

/* What the merge of v's lists must keep: by the rule, one candidate at a time. */
static uint32_t
expected_list(const Data *d, uint32_t v, uint32_t *candidates, uint32_t n, uint32_t degree,
			  uint32_t *out)
{
	bool		kept[64] = {false};
	uint32_t	count = 0;

	for (uint32_t i = 1; i < n; i++)
		for (uint32_t j = i; j > 0 && distance(d, v, candidates[j - 1]) > distance(d, v, candidates[j]); j--)
		{
			uint32_t	swap = candidates[j];

			candidates[j] = candidates[j - 1];
			candidates[j - 1] = swap;
		}
	for (int pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < n && count < degree; i++)
		{
			bool		refused = kept[i];

			for (uint32_t j = 0; j < i && pass == 0 && !refused; j++)
				refused = kept[j] && distance(d, candidates[i], candidates[j]) <= distance(d, v, candidates[i]);
			if (refused)
				continue;
			kept[i] = true;
			count++;
		}
	count = 0;
	for (uint32_t i = 0; i < n; i++)
		if (kept[i])
			out[count++] = candidates[i];
	return count;
}

static void
test_merge(void)
{
	enum
	{
		N = 600, DEGREE = 12
	};
	Data		d = make_data(N, 5, fill_normal);
	char	   *work;
	GrnParts	parts = make_parts(&d, 4, 0.6f, &one, &work);
	size_t		members = parts.start[4];
	uint32_t   *lists = malloc(members * DEGREE * sizeof(uint32_t));
	GrnGraph	g = {malloc(N * DEGREE * sizeof(uint32_t)), malloc(N), N, DEGREE};
	GrnTile		tile;
	uint32_t	shared = 0;

	/* every member: 0 to DEGREE different members of its part */
	for (uint32_t c = 0; c < 4; c++)
		for (size_t i = parts.start[c]; i < parts.start[c + 1]; i++)
		{
			uint32_t	size = (uint32_t) (parts.start[c + 1] - parts.start[c]);
			uint32_t	first = unit_below(size);
			uint32_t	n = unit_below(DEGREE + 1);
			uint32_t	k = 0;

			for (uint32_t j = 0; k < n; j++)
				if (parts.members[parts.start[c] + (first + 3 * j) % size] != parts.members[i])
					lists[i * DEGREE + k++] = parts.members[parts.start[c] + (first + 3 * j) % size];
			for (; k < DEGREE; k++)
				lists[i * DEGREE + k] = GRN_INVALID_ID;
		}
	grn_tile_floats(&tile, &d.rows);
	grn_parts_merge(&tile, &parts, lists, &backwards, &g);
	for (uint32_t v = 0; v < N; v++)
	{
		uint32_t	candidates[2 * DEGREE];
		uint32_t	expected[DEGREE];
		uint32_t	n = 0;
		uint32_t	count;

		for (int guest = 0; guest < 2; guest++)
		{
			uint32_t	place = guest ? parts.guest[v] : parts.home[v];

			for (uint32_t i = 0; place != GRN_INVALID_ID && i < DEGREE; i++)
			{
				uint32_t	id = lists[place * DEGREE + i];
				bool		known = id == GRN_INVALID_ID;

				for (uint32_t j = 0; j < n && !known; j++)
				{
					known = candidates[j] == id;
					shared += known;
				}
				if (!known)
					candidates[n++] = id;
			}
		}
		count = expected_list(&d, v, candidates, n, DEGREE, expected);
		CHECK(g.counts[v] == count && memcmp(g.ids + v * DEGREE, expected, count * sizeof(uint32_t)) == 0,
			  "row %u: %u of %u candidates, expected %u", v, g.counts[v], n, count);
	}
	CHECK(shared > 0, "no candidate was in both lists of a row");
	unit_guarded_free(work, grn_parts_bytes(N, 5, 4, 0.6f));
	free(lists);
	free(g.ids);
	free(g.counts);
	free(d.base);
}

/* ---- whole builds ---- */

typedef struct Host
{
	void	   *work;
	uint64_t	most;			/* bytes asked for */
	uint64_t	done;
	int			notices;
	char		notice[512];
} Host;

static void *
need(void *ctx, GrnSegment segment, uint64_t bytes, GrnFailure *failure)
{
	Host	   *h = ctx;

	(void) segment;
	(void) failure;
	if (bytes > h->most)
	{
		h->most = bytes;
		h->work = realloc(h->work, bytes);
	}
	return h->work;
}

static void
phase(void *ctx, GrnPhase which, uint64_t done, uint64_t total)
{
	Host	   *h = ctx;

	CHECK(which == GRN_PHASE_DESCENT && done <= total, "%llu of %llu", (unsigned long long) done,
		  (unsigned long long) total);
	__atomic_store_n(&h->done, done, __ATOMIC_RELAXED);
}

static void
notice(void *ctx, const char *text, const char *hint)
{
	Host	   *h = ctx;

	h->notices++;
	snprintf(h->notice, sizeof(h->notice), "%s: %s", text, hint);
}

typedef struct Built
{
	GrnGraph	graph;
	GrnGraphJob job;
	GrnFailure	failure;
	Host		host;
	bool		opened;
	bool		fine;
} Built;

/* Opens what the choice names, builds and closes. */
static Built
build(const Data *d, GrnDeviceChoice choice)
{
	Built		b = {0};
	const GrnGraphParams given = {.degree = 24,.seed = 5};
	GrnGraphParams params = given;
	GrnHost		host = {.ctx = &b.host,.need = need,.phase = phase,.notice = notice};
	GrnPool    *pool = grn_pool_start(2);
	char		name[128];

	b.graph = (GrnGraph) {malloc(d->rows.n * 24 * sizeof(uint32_t)), malloc(d->rows.n),
		(uint32_t) d->rows.n, 24};
	b.job.rows = &d->rows;
	/* more rounds on a GPU, as an index's builds have */
	if (choice.device == GRN_DEVICE_AUTO)
	{
		params.t1 = 9;
		b.job.given = &given;
	}
	b.job.params = &params;
	b.job.graph = &b.graph;
	b.job.choice = &choice;
	b.job.pool = pool;
	b.job.host = &host;
	b.job.work_offset = 100;
	b.opened = grn_device_open(&choice, 2, &host, &b.job.gpu, name, sizeof(name), &b.failure);
	b.fine = b.opened && grn_build_graph(&b.job, &b.failure);
	CHECK(!b.job.given || !b.fine || (params.t1 == 9) == b.job.on_gpu, "t1 %u", params.t1);
	grn_device_close();
	CHECK(standin.held == 0, "device memory of %d handles was not given back", standin.held);
	CHECK(!standin.over, "more device memory than there is");
	for (int i = 0; i < 16; i++)
		CHECK(standin.taken[i] == 0, "%llu bytes of device %d", (unsigned long long) standin.taken[i], i);
	grn_pool_stop(pool);
	free(b.host.work);
	return b;
}

static void
free_built(Built *b)
{
	free(b->graph.ids);
	free(b->graph.counts);
}

/* Sound, and all reachable once connected; returns how many had to be connected. */
static size_t
check_built(const Data *d, Built *b)
{
	uint32_t	bad = 0;
	const char *what;
	void	   *work = malloc(grn_connect_bytes(d->rows.n));
	size_t		connected = 0;

	CHECK(b->fine, "%s: %s", b->failure.sqlstate, b->failure.text);
	if (b->fine)
	{
		what = grn_graph_check(&b->graph, &bad);
		CHECK(what == NULL, "vertex %u has %s", bad, what);
		connected = grn_connect(&d->rows, &b->graph, 0, NULL, work);
		CHECK(grn_reachable(&b->graph, 0, NULL, work) == d->rows.n, "not all reachable");
	}
	free(work);
	return connected;
}

/* 20,000 rows whole, and in parts under a quarter of the memory, on cores and GPUs. */
static void
test_recall_in_parts(void)
{
	Data		d = make_data(20000, 16, fill_bytes);
	GrnDeviceChoice cores = {.device = GRN_DEVICE_CPU};
	GrnDeviceChoice gpus = {.device = GRN_DEVICE_GPU};
	GrnGraphParams params = {.degree = 24};
	Built		whole;
	Built		parts;
	double		all;
	double		some;

	standin_reset();
	whole = build(&d, cores);
	CHECK(whole.job.part_times.nparts == 0, "%u parts", whole.job.part_times.nparts);
	check_built(&d, &whole);
	all = recall(&d, &whole.graph, fill_bytes);

	cores.work_limit = grn_rnnd_bytes(&params, 20000, 16) / 4;
	parts = build(&d, cores);
	CHECK(parts.job.part_times.nparts > 4, "%u parts", parts.job.part_times.nparts);
	CHECK(parts.host.most <= cores.work_limit + 4096, "%llu bytes of workspace where %llu may be",
		  (unsigned long long) parts.host.most, (unsigned long long) cores.work_limit);
	CHECK(parts.host.notices == 0, "%s", parts.host.notice);
	check_built(&d, &parts);
	some = recall(&d, &parts.graph, fill_bytes);
	CHECK(some >= all - 0.01, "recall %g in parts, %g as a whole", some, all);
	free_built(&parts);

	standin.memory = 1200000;
	parts = build(&d, gpus);
	CHECK(parts.job.on_gpu && parts.job.part_times.nparts >= 4, "%u parts", parts.job.part_times.nparts);
	CHECK(parts.job.times.peak_bytes <= standin.memory, "%llu bytes",
		  (unsigned long long) parts.job.times.peak_bytes);
	CHECK(standin.merges > 0, "not merged on the device");
	check_built(&d, &parts);
	some = recall(&d, &parts.graph, fill_bytes);
	CHECK(some >= all - 0.01, "recall %g in parts of a device, %g as a whole", some, all);
	free_built(&parts);
	free_built(&whole);
	free(d.base);
}

/* Searches find their way from clusters to others that lie in another part. */
static void
test_islands(void)
{
	Data		d = make_data(20000, 16, fill_islands);
	GrnDeviceChoice cores = {.device = GRN_DEVICE_CPU};
	GrnDeviceChoice gpus = {.device = GRN_DEVICE_GPU};
	GrnGraphParams params = {.degree = 24};
	Built		b = build(&d, cores);
	double		all = recall(&d, &b.graph, fill_islands);

	free_built(&b);
	standin_reset();
	standin.memory = 1700000;
	cores.work_limit = grn_rnnd_bytes(&params, 20000, 16) / 3;
	for (int gpu = 0; gpu < 2; gpu++)
	{
		double		some;

		b = build(&d, gpu ? gpus : cores);
		check_built(&d, &b);
		some = recall(&d, &b.graph, fill_islands);
		CHECK(b.job.part_times.nparts >= 6, "%u parts", b.job.part_times.nparts);
		CHECK(some >= all - 0.01, "%d: recall %g in %u parts, %g as a whole", gpu, some,
			  b.job.part_times.nparts, all);
		free_built(&b);
	}
	free(d.base);
}

/* Parts whose bytes are too coarse start over, within the progress that there may be. */
static void
test_coarse_parts(void)
{
	Data		d = make_data(20000, 16, fill_narrow);
	GrnGraphParams params = {.degree = 24};
	GrnDeviceChoice cores = {.device = GRN_DEVICE_CPU};
	Built		b;

	cores.work_limit = grn_rnnd_bytes(&params, 20000, 16) / 2;
	b = build(&d, cores);
	check_built(&d, &b);
	/* of as many rows as are compared as bytes */
	CHECK(b.job.part_times.nparts > 1 && b.job.part_times.nparts <= 6, "%u parts", b.job.part_times.nparts);
	CHECK(recall(&d, &b.graph, fill_narrow) > 0.98, "recall");
	free_built(&b);
	free(d.base);
}

/* Data of which the largest part is not like the others, and nearly as many parts as may be. */
static void
test_uneven(void)
{
	static const FillFn fills[] = {fill_dense, fill_narrow, fill_half};
	GrnDeviceChoice cores = {.device = GRN_DEVICE_CPU};
	GrnDeviceChoice gpus = {.device = GRN_DEVICE_GPU};
	GrnGraphParams params = {.degree = 24};
	Data		uniform = make_data(20000, 16, fill_uniform);
	Built		b;

	standin_reset();
	standin.memory = 800000;
	for (int i = 0; i < 3; i++)
	{
		Data		d = make_data(10000, 16, fills[i]);
		Built		whole = build(&d, (GrnDeviceChoice) {.device = GRN_DEVICE_CPU});
		double		all = i < 2 ? recall(&d, &whole.graph, fills[i]) : 0;

		cores.work_limit = grn_rnnd_bytes(&params, 10000, 16) / 3;
		for (int gpu = 0; gpu < 2; gpu++)
		{
			b = build(&d, gpu ? gpus : cores);
			if (gpu && fills[i] == fill_narrow)
			{
				CHECK(!b.fine && strstr(b.failure.text, "too close together"), "%s", b.failure.text);
				free_built(&b);
				b = build(&d, (GrnDeviceChoice) {.device = GRN_DEVICE_AUTO});
				check_built(&d, &b);
				CHECK(!b.job.on_gpu && b.host.notices == 1, "%d notices", b.host.notices);
				CHECK(recall(&d, &b.graph, fills[i]) >= all - 0.01, "not as by cores");
				free_built(&b);
				continue;
			}
			check_built(&d, &b);
			CHECK(b.job.on_gpu == gpu && b.job.part_times.nparts >= 4, "data %d: %u parts", i,
				  b.job.part_times.nparts);
			CHECK(gpu || b.host.most <= cores.work_limit + 4096, "data %d: %llu bytes of workspace", i,
				  (unsigned long long) b.host.most);
			/* of codes as coarse as the stand-in's nothing can be said */
			if (b.fine && !gpu && i < 2)
			{
				double		some = recall(&d, &b.graph, fills[i]);

				CHECK(some >= all - 0.01, "data %d: recall %g in %u parts, %g as a whole", i, some,
					  b.job.part_times.nparts, all);
			}
			free_built(&b);
		}
		free_built(&whole);
		free(d.base);
	}

	/* parts of at most 174 rows */
	cores.work_limit = 4 * (grn_rnnd_bytes(&params, 174, 16) + 174 * sizeof(uint32_t) + 192);
	b = build(&uniform, cores);
	check_built(&uniform, &b);
	CHECK(b.job.part_times.nparts > 228, "%u parts", b.job.part_times.nparts);
	free_built(&b);
	free(uniform.base);
}

/* What rows come as: floats, bytes or wider codes, and whether one part is enough. */
static void
test_kinds_of_rows(void)
{
	Data		bytes = make_data(3000, 12, fill_bytes);
	Data		floats = make_data(3000, 12, fill_normal);
	Data		wide = make_data(1000, 200, fill_normal);
	GrnDeviceChoice choice = {.device = GRN_DEVICE_GPU};
	Built		b;
	int			before;

	standin_reset();
	standin.memory = 250000;
	b = build(&bytes, choice);
	check_built(&bytes, &b);
	CHECK(b.job.part_times.nparts > 1 && standin.wide_builds == 0, "%u parts", b.job.part_times.nparts);
	free_built(&b);

	b = build(&floats, choice);
	check_built(&floats, &b);
	CHECK(recall(&floats, &b.graph, fill_normal) > 0.9, "recall");
	free_built(&b);

	standin.coarse = true;
	before = standin.builds[0];
	b = build(&floats, choice);
	check_built(&floats, &b);
	CHECK(standin.wide_builds == (int) b.job.part_times.nparts, "%d builds of wide codes", standin.wide_builds);
	CHECK(standin.builds[0] - before <= standin.wide_builds + 2, "%d builds, most of them in vain",
		  standin.builds[0] - before);
	free_built(&b);
	standin.coarse = false;

	choice.options.mode = GRN_GPU_PAPER;
	standin.merges = 0;
	b = build(&floats, choice);
	check_built(&floats, &b);
	CHECK(b.job.part_times.nparts > 1 && standin.merges == 0, "%d merges of floats", standin.merges);
	free_built(&b);
	choice.options.mode = GRN_GPU_TILE;

	/* floats of this width do not fit, their codes do */
	standin.memory = 500000;
	b = build(&wide, choice);
	check_built(&wide, &b);
	CHECK(b.job.part_times.nparts == 1, "%u parts", b.job.part_times.nparts);
	free_built(&b);

	/* too little even for that */
	standin.memory = 2000;
	b = build(&bytes, choice);
	CHECK(!b.fine && strcmp(b.failure.sqlstate, "53200") == 0, "%s: %s", b.failure.sqlstate, b.failure.text);
	free_built(&b);
	choice.device = GRN_DEVICE_AUTO;
	b = build(&bytes, choice);
	CHECK(!b.job.on_gpu && b.host.notices == 1, "%d notices", b.host.notices);
	check_built(&bytes, &b);
	free_built(&b);

	/* codes of all rows do not fit: the merge is the processor's */
	standin.memory = 100000;
	standin.merges = 0;
	b = build(&wide, (GrnDeviceChoice) {.device = GRN_DEVICE_GPU});
	check_built(&wide, &b);
	CHECK(b.job.on_gpu && standin.merges == 0, "%d merges", standin.merges);
	free_built(&b);
	free(bytes.base);
	free(floats.base);
	free(wide.base);
}

static void
test_several_gpus(void)
{
	Data		d = make_data(3000, 12, fill_bytes);
	Data		many = make_data(10000, 12, fill_bytes);
	GrnDeviceChoice choice = {.device = GRN_DEVICE_GPU,.gpu_devices = "0,2,1"};
	Built		b;

	standin_reset();
	standin.devices = 3;
	standin.memory = 125000;
	b = build(&d, choice);
	check_built(&d, &b);
	CHECK(b.job.part_times.nparts >= 6, "%u parts", b.job.part_times.nparts);
	CHECK(standin.builds[0] + standin.builds[1] + standin.builds[2] == (int) b.job.part_times.nparts,
		  "%u parts, other builds", b.job.part_times.nparts);
	CHECK(b.host.notices == 0, "%s", b.host.notice);
	CHECK(standin.kept_builds == 0 && standin.merges > 0, "%d builds of codes that would need more parts",
		  standin.kept_builds);
	free_built(&b);

	/* as many parts as devices and lanes, with room for all codes */
	standin.memory = 400000;
	b = build(&d, choice);
	check_built(&d, &b);
	CHECK(b.job.part_times.nparts == 6 && standin.kept_builds == 6, "%u parts, %d of codes that stayed",
		  b.job.part_times.nparts, standin.kept_builds);
	CHECK(b.job.times.peak_bytes <= standin.memory, "%llu bytes", (unsigned long long) b.job.times.peak_bytes);
	free_built(&b);

	/* nearly as many parts as there may be, which is no multiple of the devices' lanes */
	standin.memory = 34800;
	b = build(&many, choice);
	CHECK(b.fine && b.job.part_times.nparts == 255, "%u parts: %s", b.job.part_times.nparts, b.failure.text);
	free_built(&b);
	free(many.base);
	standin.memory = 125000;

	/* one that is not there: an error, or a notice */
	choice.gpu_devices = "0,7";
	b = build(&d, choice);
	CHECK(!b.opened && strstr(b.failure.text, "no such device"), "%s", b.failure.text);
	free_built(&b);
	choice.device = GRN_DEVICE_AUTO;
	b = build(&d, choice);
	check_built(&d, &b);
	CHECK(b.job.on_gpu && b.host.notices == 1 && strstr(b.host.notice, "GPU 7"), "%s", b.host.notice);
	free_built(&b);

	choice.device = GRN_DEVICE_GPU;
	for (int i = 0; i < 5; i++)
	{
		static const char *const lists[] = {"0,0", "x", "1,", "-1", "1;2"};

		choice.gpu_devices = lists[i];
		b = build(&d, choice);
		CHECK(!b.opened && strcmp(b.failure.sqlstate, "22023") == 0, "%s: %s", lists[i], b.failure.text);
		free_built(&b);
	}
	free(d.base);
}

/*
 * Every call fails in turn, alone or with all after it.  Of two GPUs the other one does
 * the work; of one, the processor or nobody.
 */
static void
test_faults(void)
{
	static const GrnGpuStatus faults[] = {GRN_GPU_FAILED, GRN_GPU_MEMORY};
	Data		d = make_data(1200, 4, fill_bytes);
	int			survived = 0;
	int			refused = 0;
	int			stayed = 0;

	/* the devices' codes: there is room for them in half of the cases */
	for (int i = 0; i < 4; i++)
		for (int once = 0; once < 2; once++)
			for (int gpus = 1; gpus <= 2; gpus++)
				for (int at = 3; at < 60; at += at < 16 ? 1 : 11)
				{
					GrnDeviceChoice choice = {.device = gpus == 2 ? GRN_DEVICE_AUTO : GRN_DEVICE_GPU,
					.gpu_devices = gpus == 2 ? "0,1" : "0"};
					Built		b;

					standin_reset();
					standin.devices = gpus;
					standin.memory = i < 2 ? 90000 : 200000;
					standin.fault_device = gpus - 1;
					standin.fault_call = at;
					standin.fault = faults[i % 2];
					standin.once = once;
					b = build(&d, choice);
					if (b.fine)
						check_built(&d, &b);
					else
						CHECK(gpus == 1 && strstr(b.failure.text, "fault for the test") &&
							  strcmp(b.failure.sqlstate, faults[i % 2] == GRN_GPU_MEMORY ? "53200" : "58000") == 0,
							  "call %d: %s", at, b.failure.text);
					CHECK(gpus == 1 || (b.fine && b.job.on_gpu), "call %d: not on the other GPU: %s", at,
						  b.host.notice);
					survived += b.fine && standin.calls[gpus - 1] > at;
					stayed += b.fine && b.job.part_times.stayed;
					refused += !b.fine;
					free_built(&b);
				}
	CHECK(survived > 40 && refused > 40 && stayed > 20, "%d survived, %d refused, %d with codes that stayed",
		  survived, refused, stayed);
	free(d.base);
}

/* A GPU that is lost, with those that were writing codes to it: one does the work. */
static void
test_lost_peer(void)
{
	Data		d = make_data(20000, 4, fill_bytes);
	GrnDeviceChoice choice = {.device = GRN_DEVICE_AUTO,.gpu_devices = "0,1"};
	Built		b;

	/* from the fit on: opens are calls 1 and 2 of each */
	for (int at = 5; at < 20; at += 2)
	{
		standin_reset();
		standin.devices = 2;
		standin.memory = 3500000;
		standin.fault_device = 1;
		standin.fault_call = at;
		standin.fault = GRN_GPU_FAILED;
		standin.peers_fail = true;
		b = build(&d, choice);
		check_built(&d, &b);
		CHECK(b.job.on_gpu, "call %d: not on the other GPU: %s", at, b.host.notice);
		free_built(&b);
	}
	free(d.base);
}

int
main(void)
{
	grn_dist_init();
	RUN(test_parts);
	RUN(test_parts_in_steps);
	RUN(test_parts_of_equal_rows);
	RUN(test_parts_of_clusters);
	RUN(test_deal);
	RUN(test_merge);
	RUN(test_recall_in_parts);
	RUN(test_islands);
	RUN(test_coarse_parts);
	RUN(test_uneven);
	RUN(test_kinds_of_rows);
	RUN(test_several_gpus);
	RUN(test_faults);
	RUN(test_lost_peer);
	UNIT_END();
}
