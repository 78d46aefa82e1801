/*
 * test_gpu_build.c - what the leader sees of builds on GPUs: a builder with stand-ins, which the
 * environment describes.
 *
 * The program is $GRNND_BUILD_GPUS.
 */
#define _GNU_SOURCE
#include "moved.h"


#define ROWS 20000
#define DIM 12
#define FEW_ROWS 9000			/* that still have cells */
#define SPREAD_DIM 96
#define STEP 11					/* rank i is row i * STEP, */
#define STEP_BACK 9091			/* and row i rank i * STEP_BACK, of ROWS */
_Static_assert(STEP * STEP_BACK % ROWS == 1, "they are inverse");

/* Starts a build; standin: what GRNND_STANDIN says. */
static Leader
start_on(const char *standin, GrnDevice device)
{
	Leader		l;

	setenv("GRNND_STANDIN", standin, 1);
	start_builder(&l);
	l.spec.device = device;
	strcpy(l.spec.gpu_devices, standin[0] == '2' ? "0,1" : "0");
	return l;
}

/* A build of rows of bytes. */
static Leader
build_on(const char *standin, GrnDevice device, bool short_memory, uint64_t gpu_memory)
{
	Leader		l = start_on(standin, device);

	l.spec.gpu_memory_limit = gpu_memory;
	l.spec.may_move = 1;
	l.spec.work_limit = short_memory ? 1 << 19 : 1 << 30;
	send_rows(&l, ROWS, DIM, fill_repeated, STEP);
	CHECK(converse(&l, LIMIT_MS), "no answer");
	CHECK(l.last.type == GRN_MSG_DONE, "message %u: %s", l.last.type, l.last.u.say.text);
	l.by_digests = l.last.u.result.parts > 0;
	return l;
}

static void
check_and_end(Leader *l)
{
	take_back(l, ROWS, fill_repeated);
	check_result(l, ROWS);
	check_codes(l);
	check_curve(&l->spec, &l->last.u.result);
	end_builder(l);
}

/* Each phase says often how far it is. */
static void
check_progress(const Leader *l)
{
	for (GrnStep phase = GRN_STEP_PREPARE; phase <= GRN_STEP_CODES; phase++)
		CHECK(l->states[phase] >= 10, "%d states of phase %d", l->states[phase], (int) phase);
}

/* Rows that memory does not hold move before a device takes them, whole and in parts. */
static void
test_moved(void)
{
	/* make check: neither two GPUs nor parts, and both */
	for (int way = 0; way < 4; way += unit_all() ? 1 : 3)
	{
		Leader		l = build_on(way & 1 ? "2 0 0" : "1 0 0", GRN_DEVICE_GPU, true, way & 2 ? ROWS * 100 : 0);

		CHECK(l.last.u.result.on_gpu && l.last.u.result.moved, "on a GPU %u, moved %u",
			  l.last.u.result.on_gpu, l.last.u.result.moved);
		CHECK(l.last.u.result.gpus == 1u + (way & 1), "%u GPUs", l.last.u.result.gpus);
		CHECK((l.last.u.result.parts > 1) == (way > 1), "%u parts", l.last.u.result.parts);
		check_progress(&l);
		check_and_end(&l);
	}
	{
		Leader		l = build_on("1 0 0", GRN_DEVICE_GPU, false, 0);

		CHECK(l.last.u.result.on_gpu && !l.last.u.result.moved, "there is memory");
		check_progress(&l);
		check_and_end(&l);
	}
}

/*
 * Rows that memory does not hold are rounded as they move, if records keep them so, and the device
 * takes them so.  Cores do, too, where it fails.
 */
static void
test_rounded(void)
{
	static const struct
	{
		GrnKeep		keep;
		const char *standin;
		FillFn		fill;
	}			ways[] = {{GRN_KEEP_DEFAULT, "1 0 0", fill_normal}, {GRN_KEEP_DEFAULT, "1 0 0", fill_seldom_repeated},
	{GRN_KEEP_DEFAULT, "1 0 5", fill_normal}};

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
	{
		bool		fails = strcmp(ways[i].standin, "1 0 0") != 0;
		Leader		l = start_on(ways[i].standin, fails ? GRN_DEVICE_AUTO : GRN_DEVICE_GPU);
		const GrnBuildResult *r = &l.last.u.result;

		l.spec.keep = ways[i].keep;
		l.spec.may_move = 1;
		l.spec.work_limit = 5 << 20;
		l.on_disk = UINT64_C(1) << 40;
		send_rows(&l, FEW_ROWS, 200, ways[i].fill, STEP);
		CHECK(converse(&l, LIMIT_MS), "no answer");
		CHECK(l.last.type == GRN_MSG_DONE, "message %u: %s", l.last.type, l.last.u.say.text);
		CHECK(!r->on_gpu == fails && r->moved && r->own_items,
			  "way %zu: on a GPU %u, moved %u, own %u", i, r->on_gpu, r->moved, r->own_items);
		l.by_digests = l.rounded = true;
		take_back(&l, FEW_ROWS, ways[i].fill);
		check_result(&l, FEW_ROWS);
		check_codes(&l);
		check_curve(&l.spec, r);
		end_builder(&l);
	}
}

/*
 * Where the GPU fails cores build: by their own parameters, and with rows where the first pass has
 * moved them.
 */
static void
test_cores_after_a_gpu(void)
{
	for (int way = 0; way < 2; way++)
	{
		Leader		l = build_on("1 0 5", GRN_DEVICE_AUTO, way == 1, 0);
		Leader		cores = build_on("1 0 0", GRN_DEVICE_CPU, way == 1, 0);
		const GrnBuildResult *r = &l.last.u.result;
		const GrnBuildResult *want = &cores.last.u.result;
		size_t		bytes = r->nodes * r->degree * sizeof(uint32_t);

		CHECK(!r->on_gpu && l.notices == 1 && strstr(l.notice, "the GPU cannot build"), "%s", l.notice);
		CHECK((r->moved != 0) == (way == 1) && r->params.t1 == want->params.t1, "moved %u, t1 %u", r->moved,
			  r->params.t1);
		/* in one order of the vertices, which a move changes, the graph is the same */
		CHECK(way == 1 || memcmp(built_by(&l).ids, built_by(&cores).ids, bytes) == 0, "another graph than that of cores");
		check_progress(&cores);
		check_and_end(&l);
		check_and_end(&cores);
	}
}

/* Of 8 numbers, and a little noise: rows whose codes tell them apart. */
static void
fill_spread(float *x, uint32_t rank, uint32_t dim)
{
	float		of[8];
	float		by[SPREAD_DIM];

	fill_normal(of, rank, 8);
	fill_normal(x, rank, dim);
	for (uint32_t k = 0; k < 8; k++)
	{
		fill_normal(by, ROWS + k, dim);
		for (uint32_t j = 0; j < dim; j++)
			x[j] = (k > 0 ? x[j] : x[j] * 0.1f) + of[k] * by[j];
	}
}

/*
 * The mean squared distance of rows from the first one on their page, where node order[i] is
 * record i; NULL: node i is.
 */
static double
apart_on_pages(const Leader *l, uint32_t per_page, const uint32_t *order)
{
	const GrnBuildResult *r = &l->last.u.result;
	const uint32_t *start = built_by(l).row_start;
	const uint32_t *rows = built_by(l).rows;
	float		x[2][SPREAD_DIM];
	double		sum = 0;

	for (uint32_t i = 0; i < r->nodes; i++)
	{
		uint32_t	node = order ? order[i] : i;

		fill_spread(x[i % per_page > 0], rows[start[node]] * STEP_BACK % ROWS, SPREAD_DIM);
		if (i % per_page > 0)
			sum += grn_dist->l2_f32(x[0], x[1], SPREAD_DIM);
	}
	return sum / r->nodes;
}

/* The same, if rows were in the order in which they came. */
static double
apart_by_rank(const Leader *l, uint32_t per_page)
{
	const GrnBuildResult *r = &l->last.u.result;
	const uint32_t *start = built_by(l).row_start;
	const uint32_t *rows = built_by(l).rows;
	uint32_t   *order = calloc(ROWS, sizeof(uint32_t));
	double		apart;

	for (uint32_t i = 0; i < r->nodes; i++)
		order[rows[start[i]]] = i;
	apart = apart_on_pages(l, per_page, order);
	free(order);
	return apart;
}

/*
 * Pages are ordered by cuts whoever builds: of digests by a GPU, of codes and rows by cores, which
 * also do so where a GPU fails.  How good an order is depends on the last bits of sums, which
 * differ among processors.  So each order is compared with that of the rows as they came, which lie
 * twelve times as far from each other, and by edges 1.6 times.
 */
static void
test_order(void)
{
	static const struct
	{
		const char *standin;
		GrnDevice	device;
	}			builds[] = {{"1 0 0", GRN_DEVICE_CPU}, {"1 0 0", GRN_DEVICE_GPU}, {"1 0 5", GRN_DEVICE_AUTO}};
	uint64_t	lists[3];

	for (int i = 0; i < 3; i++)
	{
		Leader		l = start_on(builds[i].standin, builds[i].device);
		const GrnBuildResult *r = &l.last.u.result;
		GrnLayout	layout;
		double		apart;
		double		by_rank;

		l.spec.keep = GRN_KEEP_COMPACT;
		l.spec.params.degree = 10;
		send_rows(&l, ROWS, SPREAD_DIM, fill_spread, STEP);
		CHECK(converse(&l, LIMIT_MS) && l.last.type == GRN_MSG_DONE, "message %u: %s", l.last.type,
			  l.last.u.say.text);
		CHECK((r->on_gpu != 0) == (i == 1), "build %d on a GPU: %u", i, r->on_gpu);
		CHECK(grn_result_layout(&layout, &l.spec, r) && layout.per_page >= 10, "%u records a page, %u edges",
			  layout.per_page, layout.degree);
		apart = apart_on_pages(&l, layout.per_page, NULL);
		by_rank = apart_by_rank(&l, layout.per_page);
		printf("# build %d: %.4f apart on pages, %.4f as they came\n", i, apart, by_rank);
		CHECK(apart < 0.1 * by_rank, "build %d: %.4f apart on pages, %.4f as they came", i, apart, by_rank);
		lists[i] = grn_checksum(built_by(&l).ids, r->nodes * r->degree * sizeof(uint32_t));
		end_builder(&l);
	}
	CHECK(lists[2] == lists[0], "other lists than those of cores");
}

int
main(void)
{
	program = getenv("GRNND_BUILD_GPUS");
	if (!program || access(program, X_OK) != 0)
	{
		printf("# set GRNND_BUILD_GPUS\nnot ok test_gpu_build\n");
		return 1;
	}
	grn_dist_init();
	RUN(test_moved);
	RUN(test_rounded);
	RUN(test_cores_after_a_gpu);
	RUN(test_order);
	UNIT_END();
}
