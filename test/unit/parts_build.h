/*
 * parts_build.h - a build under limits, on the processor's cores or stand-ins of GPUs.
 */
#ifndef PARTS_BUILD_H
#define PARTS_BUILD_H

#include "gpu_standin.h"
#include "parts_data.h"

#include "builder/build_graph.h"
#include "builder/pipeline_impl.h"
#include "builder/prepare.h"
#include "builder/threads.h"
#include "graph/graph.h"

typedef struct Host
{
	void	   *work;
	uint64_t	most;			/* bytes asked for */
	uint64_t	done;
	int			notices;
	char		notice[512];
} Host;

static inline void *
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

static inline void
phase(void *ctx, GrnStep which, uint64_t done, uint64_t total)
{
	Host	   *h = ctx;

	CHECK((which == GRN_STEP_DESCENT || which == GRN_STEP_PREPARE) && done <= total, "%llu of %llu", (unsigned long long) done,
		  (unsigned long long) total);
	__atomic_store_n(&h->done, done, __ATOMIC_RELAXED);
}

static inline void
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

/* What the next builds ask for, and the threads that they have to choose by. */
static GrnGraphParams asked = {.degree = 24, .seed = 5};
static int	threads = 2;

/* Opens what the choice names, builds and closes. */
static inline Built
build(const Data *d, GrnDeviceChoice choice)
{
	Built		b = {0};
	GrnGraphParams params = asked;
	GrnHost		host = {.ctx = &b.host, .need = need, .phase = phase, .notice = notice};
	GrnPool    *pool = grn_pool_start(2);
	GrnProgress progress;
	char		name[128];

	b.graph = (GrnGraph) {calloc(d->rows.n * 24, sizeof(uint32_t)), malloc(d->rows.n),
						  (uint32_t) d->rows.n, 24};
	b.job.rows = &d->rows;
	b.job.params = &params;
	b.job.graph = &b.graph;
	b.job.choice = &choice;
	grn_progress_init(&progress, grn_pool_parallel(pool), &host);
	b.job.progress = &progress;
	b.job.host = &host;
	b.job.work_offset = 100;
	b.opened = grn_device_open(&choice, threads, &host, &b.job.gpu, name, sizeof(name), &b.failure);
	b.fine = b.opened && grn_build_graph(&b.job, &b.failure);
	grn_device_close();
	CHECK(standin.held == 0, "device memory of %d handles was not given back", standin.held);
	CHECK(!standin.over, "more device memory than there is");
	for (int i = 0; i < 16; i++)
		CHECK(standin.taken[i] == 0, "%llu bytes of device %d", (unsigned long long) standin.taken[i], i);
	grn_pool_stop(pool);
	free(b.host.work);
	return b;
}

static inline void
free_built(Built *b)
{
	free(b->graph.ids);
	free(b->graph.counts);
}

static inline GrnFinish
finish_of(const Data *d, Built *b, GrnParallel *parallel, void *work)
{
	return (GrnFinish) {.metric = grn_metric(GRN_L2), .rows = &d->rows, .graph = &b->graph, .parallel = parallel, .scratch = work};
}

/* Sound, and all reachable once connected; returns how many had to be connected. */
static inline uint32_t
check_built(const Data *d, Built *b)
{
	uint32_t	bad = 0;
	const char *what;
	void	   *work = malloc(grn_reach_bytes(d->rows.n));
	GrnParallel alone = {1, unit_run};
	GrnFinish	f = finish_of(d, b, &alone, work);

	CHECK(b->fine, "%s: %s", b->failure.sqlstate, b->failure.text);
	if (b->fine)
	{
		what = grn_graph_check(&b->graph, &alone, &bad);
		CHECK(what == NULL, "vertex %u has %s", bad, what);
		CHECK(grn_finish_connect(&f), "no memory");
		CHECK(grn_reachable(&b->graph, 0, work) == d->rows.n, "not all reachable");
	}
	free(work);
	return f.connected;
}

/* check_built(), and edges where searches end too early, as a build of an index adds them. */
static inline void
check_navigable(const Data *d, Built *b)
{
	GrnPool    *pool = grn_pool_start(2);
	uint32_t	bad;
	void	   *work = malloc(grn_reach_bytes(d->rows.n));
	GrnFinish	f = finish_of(d, b, grn_pool_parallel(pool), work);

	check_built(d, b);
	grn_make_graph_navigable(&f, asked.seed);
	CHECK(grn_graph_check(&b->graph, grn_pool_parallel(pool), &bad) == NULL, "vertex %u", bad);
	CHECK(grn_reachable(&b->graph, 0, work) == d->rows.n, "not all reachable");
	free(work);
	grn_pool_stop(pool);
}

#endif							/* PARTS_BUILD_H */
