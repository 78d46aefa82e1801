/*
 * test_finish.c - a finished graph connected and ordered, by a stand-in of the GPU that has built
 * it and by cores.
 */
#include "gpu_standin.h"
#include "parts_data.h"

#include "builder/build_graph.h"
#include "builder/threads.h"
#include "graph/graph.h"
#include "store/group.h"

static void *
need(void *ctx, GrnSegment segment, uint64_t bytes, GrnFailure *failure)
{
	(void) segment;
	(void) failure;
	return *(void **) ctx = realloc(*(void **) ctx, bytes);
}

static void
phase(void *ctx, GrnStep which, uint64_t done, uint64_t total)
{
	(void) ctx;
	(void) which;
	(void) done;
	(void) total;
}

static void
notice(void *ctx, const char *text, const char *hint)
{
	(void) ctx;
	CHECK(false, "%s: %s", text, hint);
}

/*
 * A graph that a GPU has built, or cores, is connected; a GPU orders it by cuts, or by the edges
 * of the graph as it was built, and cores by those of the connected one.  The calls after the build
 * fail in turn, or one alone; and a graph that was built in parts is given to a GPU.
 */
static void
test_finish(void)
{
	Data		d = make_data(6000, 16, fill_bytes);
	int			calls = 0;		/* of the device, for the build */
	size_t		scratch = grn_finish_bytes(d.rows.n);
	uint32_t   *position = malloc(d.rows.n * sizeof(*position));
	uint32_t   *want = malloc(d.rows.n * sizeof(*want));

	for (int way = 0; way < 7; way++)
	{
		GrnDeviceChoice choice = {.device = way == 0 ? GRN_DEVICE_CPU : GRN_DEVICE_GPU};
		GrnGraphParams params = {.degree = 24, .seed = 5};
		GrnGraph	graph = {malloc(d.rows.n * 24 * sizeof(uint32_t)), malloc(d.rows.n),
			(uint32_t) d.rows.n, 24};
		GrnGraphJob job;
		GrnFailure	failure;
		GrnGpuError err;
		void	   *memory = NULL;
		GrnHost		host = {.ctx = &memory, .need = need, .phase = phase, .notice = notice};
		GrnPool    *pool = grn_pool_start(2);
		GrnProgress progress;
		GrnFinish	f = {.metric = grn_metric(GRN_L2), .rows = &d.rows, .graph = &graph, .parallel = grn_pool_parallel(pool),
			.per_page = 6, .position = position, .scratch = malloc(scratch)};
		void	   *work = malloc(scratch);
		char		name[128];

		grn_progress_init(&progress, grn_pool_parallel(pool), &host);
		standin_reset();
		standin.halves = true;
		/* in parts: the device gets the graph afterwards */
		choice.options.memory_limit = way == 5 ? d.rows.n * 250 : 0;
		standin.fault = GRN_GPU_FAILED;
		standin.fault_call = way == 6 ? calls + 2 : way > 1 && way < 4 ? calls + way - 1 : 0;
		standin.once = way == 6;
		job = (GrnGraphJob) {.rows = &d.rows, .params = &params, .graph = &graph, .choice = &choice,
							 .progress = &progress, .host = &host, .hold = true};
		CHECK(grn_device_open(&choice, 2, &host, &job.gpu, name, sizeof(name), &failure) &&
			  grn_build_graph(&job, &failure), "%s", failure.text);
		CHECK((job.holder != NULL) == (way > 0) && (standin.held > 0) == (way > 0), "way %d: %d held", way,
			  standin.held);
		CHECK((job.part_times.nparts > 0) == (way == 5), "%u parts", job.part_times.nparts);
		if (way == 1)
			calls = standin.calls[0];
		f.gpu = job.holder;
		CHECK((way != 1 && way != 5) || grn_gpu_cut_order(job.holder, 6, want, &err) == GRN_GPU_OK, "%s", err.text);
		grn_finish_begin(&f);
		CHECK(grn_finish_connect(&f), "no memory");
		CHECK(grn_reachable(&graph, 0, work) == d.rows.n && (f.connected > 0) == (way > 0), "%u connected", f.connected);
		if (way == 4)
			grn_finish_abandon(&f);
		else
		{
			grn_finish_order(&f);
			CHECK(f.ordered, "way %d", way);
			if (way != 1 && way != 5)
				CHECK(grn_cut_order(&d.rows, 6, want, f.parallel, work), "no memory");
			CHECK(memcmp(position, want, d.rows.n * sizeof(*want)) == 0, "way %d: another order", way);
		}
		CHECK(standin.held == 0, "%d held", standin.held);
		grn_device_close();
		grn_pool_stop(pool);
		free(memory);
		free(f.scratch);
		free(work);
		free(graph.ids);
		free(graph.counts);
	}
	free(position);
	free(want);
	free(d.base);
}

int
main(void)
{
	grn_dist_init();
	RUN(test_finish);
	UNIT_END();
}
