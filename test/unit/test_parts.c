/*
 * test_parts.c - whole builds under limits, so in parts, on the processor's cores and on
 * stand-ins of GPUs, which fail as asked.
 */
#include "parts_build.h"

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
		check_navigable(&d, &b);
		some = recall(&d, &b.graph, fill_islands);
		CHECK(b.job.part_times.nparts >= 6, "%u parts", b.job.part_times.nparts);
		CHECK(some >= all - 0.01, "%d: recall %g in %u parts, %g as a whole", gpu, some,
			  b.job.part_times.nparts, all);
		free_built(&b);
	}
	free(d.base);
}

/* The same where a part has few of many clusters, and few landmarks. */
static void
test_archipelago(void)
{
	Data		d = make_data(12000, 32, fill_archipelago);
	GrnDeviceChoice cores = {.device = GRN_DEVICE_CPU};
	GrnGraphParams params = {.degree = 24};
	Built		b = build(&d, cores);
	double		all = recall(&d, &b.graph, fill_archipelago);
	double		some;

	free_built(&b);
	cores.work_limit = grn_rnnd_bytes(&params, 12000, 32) / 6;
	b = build(&d, cores);
	check_navigable(&d, &b);
	some = recall(&d, &b.graph, fill_archipelago);
	CHECK(b.job.part_times.nparts > 20, "%u parts", b.job.part_times.nparts);
	CHECK(all > 0.98 && some >= all - 0.05, "recall %g in %u parts, %g as a whole", some,
		  b.job.part_times.nparts, all);
	free_built(&b);
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
		double		all = i < 2 ? recall_by(&d, &whole.graph, fills[i], 1000) : 0;

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
				CHECK(recall_by(&d, &b.graph, fills[i], 1000) >= all - 0.01, "not as by cores");
				free_built(&b);
				continue;
			}
			check_built(&d, &b);
			CHECK(b.job.on_gpu == gpu && b.job.part_times.nparts >= 4, "data %d: %u parts", i,
				  b.job.part_times.nparts);
			CHECK(gpu || b.host.most <= cores.work_limit + 4096, "data %d: %llu bytes of workspace", i,
				  (unsigned long long) b.host.most);
			/* of digests as coarse as the stand-in's nothing can be said */
			if (b.fine && !gpu && i < 2)
			{
				double		some = recall_by(&d, &b.graph, fills[i], 1000);

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

/* Where no cells are even, rows are dealt out of the parts of the most even ones. */
static void
test_spreads(void)
{
	Data		d = make_data(20000, 16, fill_spreads);
	GrnGraphParams params = {.degree = 24};
	GrnDeviceChoice cores = {.device = GRN_DEVICE_CPU};
	Built		b = build(&d, cores);
	double		all = recall(&d, &b.graph, fill_spreads);
	double		some;

	free_built(&b);
	cores.work_limit = grn_rnnd_bytes(&params, 20000, 16) / 6;
	b = build(&d, cores);
	check_built(&d, &b);
	some = recall(&d, &b.graph, fill_spreads);
	/* cells alone, as many as are even, have less than half of it */
	CHECK(some >= all - 0.15, "recall %g in %u parts, %g as a whole", some, b.job.part_times.nparts, all);
	free_built(&b);
	free(d.base);
}

/* What rows come as: floats, bytes or wider digests, and whether one part is enough. */
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
	CHECK(standin.wide_builds == (int) b.job.part_times.nparts, "%d builds of wide digests", standin.wide_builds);
	CHECK(standin.builds[0] - before <= standin.wide_builds + 2, "%d builds, most of them in vain",
		  standin.builds[0] - before);
	free_built(&b);
	standin.coarse = false;

	/* floats of this width do not fit, their digests do */
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

	/* digests of all rows do not fit: the merge is the processor's */
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
	GrnDeviceChoice choice = {.device = GRN_DEVICE_GPU, .gpu_devices = "0,2,1"};
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
	CHECK(standin.kept_builds == 0 && standin.merges > 0, "%d builds of digests that would need more parts",
		  standin.kept_builds);
	free_built(&b);

	/* as many parts as devices and handles, with room for all digests */
	standin.memory = 400000;
	b = build(&d, choice);
	check_built(&d, &b);
	CHECK(b.job.part_times.nparts == 6 && standin.kept_builds == 6, "%u parts, %d of digests that stayed",
		  b.job.part_times.nparts, standin.kept_builds);
	CHECK(b.job.times.peak_bytes <= standin.memory, "%llu bytes", (unsigned long long) b.job.times.peak_bytes);
	free_built(&b);

	/* nearly as many parts as there may be, which is no multiple of the devices' handles */
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
 * Calls fail in turn, alone or with all after them: every one, or those that make check has time
 * for.  Of two GPUs the other one does the work; of one, the processor or nobody.
 */
static void
test_faults(void)
{
	static const GrnGpuStatus faults[] = {GRN_GPU_FAILED, GRN_GPU_MEMORY};
	const int	step = unit_all() ? 1 : 4;
	const int	many = unit_all() ? 40 : 4;
	Data		d = make_data(1200, 4, fill_bytes);
	int			survived = 0;
	int			refused = 0;
	int			stayed = 0;

	/* the devices' digests: there is room for them in half of the cases */
	for (int i = 0; i < 4; i++)
		for (int once = 0; once < 2; once++)
			for (int gpus = 1; gpus <= 2; gpus++)
				for (int at = 3; at < 60; at += at < 16 ? step : 11 * step)
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
					stayed += b.fine && b.job.part_times.digests_on_devices;
					refused += !b.fine;
					free_built(&b);
				}
	CHECK(survived > many && refused > many && stayed > many / 2, "%d survived, %d refused, %d with digests that stayed",
		  survived, refused, stayed);
	free(d.base);
}

/*
 * One GPU fails from each call on that a build makes, up to the last one, in each way that it
 * can: the build ends with that error, or without one where the call is not missed.  The next
 * build is as good as any.
 */
static void
test_every_call(void)
{
	static const struct
	{
		GrnGpuStatus status;
		const char *sqlstate;
	}			ways[] = {{GRN_GPU_ABSENT, "58000"}, {GRN_GPU_TOO_OLD, "58000"},
	{GRN_GPU_MEMORY, "53200"}, {GRN_GPU_FAILED, "58000"}};
	Data		d = make_data(400, 4, fill_bytes);
	GrnDeviceChoice choice = {.device = GRN_DEVICE_GPU, .gpu_devices = "0"};

	/* whole, and in parts */
	for (int parts = 0; parts < 2; parts++)
	{
		int			calls;
		int			refused = 0;
		Built		b;

		standin_reset();
		standin.memory = parts ? 30000 : 0;
		b = build(&d, choice);
		check_built(&d, &b);
		calls = standin.calls[0];
		free_built(&b);
		for (int at = 1; at <= calls; at++)
			for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
			{
				standin_reset();
				standin.memory = parts ? 30000 : 0;
				standin.fault_call = at;
				standin.fault = ways[i].status;
				b = build(&d, choice);
				if (b.fine)
					check_built(&d, &b);
				else
					CHECK(b.failure.text[0] != '\0' && strcmp(b.failure.sqlstate, ways[i].sqlstate) == 0,
						  "call %d of %d, status %d: %s: %s", at, calls, ways[i].status, b.failure.sqlstate,
						  b.failure.text);
				refused += !b.fine;
				free_built(&b);
			}
		CHECK(refused >= 2 * calls, "%d refused of 4 times %d calls", refused, calls);
		standin_reset();
		standin.memory = parts ? 30000 : 0;
		b = build(&d, choice);
		check_built(&d, &b);
		free_built(&b);
	}
	free(d.base);
}

/* A GPU that is lost, with those that were writing digests to it: one does the work. */
static void
test_lost_peer(void)
{
	Data		d = make_data(20000, 4, fill_bytes);
	GrnDeviceChoice choice = {.device = GRN_DEVICE_AUTO, .gpu_devices = "0,1"};
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

/* A parameter past what the device can use is told once, and a GPU before Ampere is no choice. */
static void
test_limits_are_told(void)
{
	Data		d = make_data(800, 12, fill_bytes);
	GrnDeviceChoice choice = {.device = GRN_DEVICE_GPU};
	Built		b;

	standin_reset();
	asked.r = 64;
	asked.s = 32;
	b = build(&d, choice);
	CHECK(b.fine && b.job.on_gpu && b.host.notices == 0, "%s", b.host.notice);
	free_built(&b);
	asked.r = 80;
	b = build(&d, choice);
	CHECK(b.fine && b.host.notices == 1 && strstr(b.host.notice, "r = 80") && strstr(b.host.notice, "it is 64"),
		  "%d notices: %s", b.host.notices, b.host.notice);
	free_built(&b);
	choice.device = GRN_DEVICE_CPU;
	b = build(&d, choice);
	CHECK(b.fine && b.host.notices == 0, "%s", b.host.notice);
	free_built(&b);
	asked.r = 20;
	b = build(&d, choice);
	CHECK(b.fine && b.host.notices == 1 && strstr(b.host.notice, "s = 32") && strstr(b.host.notice, "it is 20"),
		  "%d notices: %s", b.host.notices, b.host.notice);
	free_built(&b);
	asked.r = asked.s = 0;
	free(d.base);
}

/* The same rows in another form. */
static Data
in_form(const Data *d, GrnForm form, GrnEmbedding embedding)
{
	Data		other = *d;
	uint8_t    *base;

	other.rows.form = form;
	other.rows.embedding = embedding;
	other.rows.row_bytes = grn_row_bytes(form, embedding, d->rows.dim);
	base = malloc(d->rows.n * other.rows.row_bytes);
	for (size_t i = 0; i < d->rows.n; i++)
	{
		uint8_t    *row = base + i * other.rows.row_bytes;
		const float *x = grn_row(&d->rows, i);
		GrnScale	s = grn_scale(grn_norm2(x, d->rows.dim), 512, GRN_USUAL_POWER);

		CHECK(grn_form_store(form, x, d->rows.dim, row), "row %zu", i);
		if (embedding == GRN_EMBED_SCALED)
			memcpy(row + grn_row_scale_offset(&other.rows), &s, sizeof(s));
	}
	other.base = (float *) base;
	other.rows.base = base;
	return other;
}

/*
 * Rows of integers, whose distances no form rounds: their graph is the same, from cores and
 * from a device, whole and in parts.
 */
static void
test_halves(void)
{
	Data		bytes = make_data(6000, 16, fill_bytes);
	GrnGraphParams params = {.degree = 24};

	for (int way = 0; way < 8; way++)
	{
		GrnEmbedding embedding = way & 4 ? GRN_EMBED_SCALED : GRN_EMBED_ROW;
		GrnDeviceChoice choice = {.device = way & 1 ? GRN_DEVICE_GPU : GRN_DEVICE_CPU};
		Data		floats = in_form(&bytes, GRN_FORM_F32, embedding);
		Data		halves = in_form(&bytes, GRN_FORM_F16, embedding);
		Built		a;
		Built		b;

		standin_reset();
		standin.memory = way & 2 ? 500000 : 0;
		choice.work_limit = way & 2 ? grn_rnnd_bytes(&params, 6000, 16) / 3 : 0;
		a = build(&floats, choice);
		CHECK(standin.short_rows == 0, "%d rows", standin.short_rows);
		b = build(&halves, choice);
		CHECK((standin.short_rows >= 6000) == (way & 1), "way %d: %d rows went up as halves", way,
			  standin.short_rows);
		check_built(&floats, &a);
		check_built(&halves, &b);
		CHECK(b.job.on_gpu == (way & 1) && (b.job.part_times.nparts > 1) == (way & 2) / 2, "way %d: %u parts", way,
			  b.job.part_times.nparts);
		/* distances of scaled rows are rounded, one way or the other */
		CHECK(embedding == GRN_EMBED_SCALED ||
			  (memcmp(a.graph.counts, b.graph.counts, 6000) == 0 &&
			   memcmp(a.graph.ids, b.graph.ids, 6000 * sizeof(uint32_t)) == 0), "way %d: another graph", way);
		free_built(&a);
		free_built(&b);
		free(floats.base);
		free(halves.base);
	}
	free(bytes.base);
}

static void
fill_ones(float *x, size_t i, uint32_t dim)
{
	fill_bytes(x, i, dim);
	for (uint32_t j = 0; j < dim; j++)
		x[j] = x[j] > 128;
}

/* The same for rows of 0 and 1 that come as bits; cores compare them so. */
static void
test_bits(void)
{
	Data		ones = make_data(6000, 48, fill_ones);

	for (int way = 0; way < 4; way++)
	{
		GrnGraphParams params = {.degree = 24};
		GrnDeviceChoice choice = {.device = way & 1 ? GRN_DEVICE_GPU : GRN_DEVICE_CPU};
		Data		bits = in_form(&ones, GRN_FORM_BITS, GRN_EMBED_ROW);
		Built		a;
		Built		b;

		standin_reset();
		standin.memory = way & 2 ? 1000000 : 0;
		choice.work_limit = way & 2 ? grn_rnnd_bytes(&params, 6000, 0) / 2 : 0;
		a = build(&ones, choice);
		b = build(&bits, choice);
		CHECK((standin.short_rows >= 6000) == (way & 1), "way %d: %d rows went up as bits", way,
			  standin.short_rows);
		check_built(&ones, &a);
		check_built(&bits, &b);
		CHECK(b.job.on_gpu == (way & 1) && (b.job.part_times.nparts > 1) == (way & 2) / 2, "way %d: %u parts", way,
			  b.job.part_times.nparts);
		/* cores may plan fewer parts of bits, which they need not copy */
		CHECK(way == 2 || memcmp(a.graph.ids, b.graph.ids, 6000 * sizeof(uint32_t)) == 0,
			  "way %d: another graph", way);
		CHECK(way != 2 || b.job.part_times.nparts <= a.job.part_times.nparts, "%u parts, of floats %u",
			  b.job.part_times.nparts, a.job.part_times.nparts);
		free_built(&a);
		free_built(&b);
		free(bits.base);
	}
	free(ones.base);
}

/* Bits that are too many for bytes of digests are digests as they are, whole and in parts. */
static void
test_bit_digests(void)
{
	for (int way = 0; way < 8; way++)
	{
		uint32_t	dim = way & 4 ? 128 : 200;
		Data		ones = make_data(3000, dim, fill_ones);
		Data		bits = in_form(&ones, GRN_FORM_BITS, way & 2 ? GRN_EMBED_SCALED : GRN_EMBED_ROW);
		bool		are = dim > GRN_GPU_EXACT_DIMS && !(way & 2);
		GrnDeviceChoice choice = {.device = GRN_DEVICE_GPU};
		Built		b;

		standin_reset();
		standin.memory = way & 1 ? 700000 : 0;
		b = build(&bits, choice);
		CHECK(b.fine && b.job.on_gpu && (b.job.part_times.nparts > 1) == (way & 1), "way %d: %u parts", way,
			  b.job.part_times.nparts);
		CHECK((standin.bit_builds > 0) == are, "way %d: %d builds of bits", way, standin.bit_builds);
		check_built(&bits, &b);
		free_built(&b);
		free(bits.base);
		free(ones.base);
	}
}

int
main(void)
{
	grn_dist_init();
	/* the rows by which the limits below were set */
	unit_counter = 2830987;
	RUN(test_recall_in_parts);
	RUN(test_islands);
	RUN(test_coarse_parts);
	RUN(test_uneven);
	RUN(test_spreads);
	RUN(test_kinds_of_rows);
	RUN(test_several_gpus);
	RUN(test_faults);
	RUN(test_every_call);
	RUN(test_lost_peer);
	RUN(test_limits_are_told);
	RUN(test_halves);
	RUN(test_bits);
	/* builds that take half of the time of all */
	if (unit_all())
	{
		RUN(test_bit_digests);
		RUN(test_archipelago);
	}
	UNIT_END();
}
