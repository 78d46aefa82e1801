/*
 * in_backend.c - builds of few rows in the leader, without a builder process.
 *
 * The start of a process, its threads and a device takes longer than the graph of a few hundred
 * rows.  So the leader itself runs the builder's pipeline, on a single thread without a GPU, in the
 * same segments.  The index's pages equal the pages that a builder on cores would make.
 *
 * An error may leave the pipeline in any loop and at any allocation.  The pipeline owns nothing
 * except memory, and this memory belongs to a memory context and to the build's mapping.
 */
#include "am/create/create.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "am/test_point.h"
#include "builder/forming.h"
#include "builder/pipeline.h"
#include "memory/memory.h"

/*
 * Estimated processor seconds up to which the leader builds alone.  The threads of a builder would
 * save no noticeable time.  Processor time in the leader and in a builder: 1,900 sentences (.1 s by
 * the estimate) .31 and .34 s, 3,800 .44 and .49 s.
 */
#define MOST_SECONDS 0.1

bool
grnnd_builds_in_backend(const GrnndBuild *build, double rows)
{
	return grnnd_small_in_backend && build->spec.device != GRN_DEVICE_GPU &&
		build->spec.remote == GRN_REMOTE_NONE &&
		grnnd_core_seconds(build, rows) <= MOST_SECONDS;
}

/* ---- GrnMemory ---- */

static void *
memory_alloc(size_t bytes)
{
	return palloc_extended(bytes, MCXT_ALLOC_HUGE);
}

static void
memory_free(void *p)
{
	pfree(p);
}

/* ---- GrnParallel ---- */

static void
run_loop(GrnParallel *self, size_t n, size_t grain, GrnRangeFn fn, void *arg)
{
	for (size_t begin = 0; begin < n; begin += Max(grain, 1))
	{
		CHECK_FOR_INTERRUPTS();
		grnnd_test_point("build-loop");
		fn(arg, 0, begin, Min(begin + Max(grain, 1), n));
	}
}

/* ---- GrnHost ---- */

static void *
host_need(void *ctx, GrnSegment segment, uint64_t bytes, GrnFailure *failure)
{
	GrnndMapping *map = ctx;

	grnnd_mapping_grow(map, segment, bytes);
	grnnd_mapping_populate(map, segment, 0, bytes);
	return map->base[segment];
}

static void
host_expect(void *ctx, GrnSegment segment, uint64_t bytes)
{
}

static bool
host_device(void *ctx, bool wait, GrnGpu **gpu)
{
	*gpu = NULL;
	return true;
}

static void
host_phase(void *ctx, GrnStep phase, uint64_t done, uint64_t total)
{
	grnnd_report_phase(phase, done, total);
}

static void
host_notice(void *ctx, const char *text, const char *hint)
{
	ereport(NOTICE,
			(errmsg("%s", text),
			 hint[0] ? errhint("%s", hint) : 0));
}

/* Only a build that moves rows while the leader collects rows calls this, never a small build. */
static uint64_t
host_rows(void *ctx, uint64_t have, int ms, bool *all)
{
	*all = true;
	return have;
}

static void
host_written(void *ctx)
{
}

/* ctx: the mapping of the build that runs */
static GrnHost host = {NULL, host_need, host_expect, host_device, host_phase, host_notice, host_rows, host_written};
static GrnParallel alone = {.nworkers = 1, .run = run_loop};

/* ---- */

void
grnnd_build_in_backend(GrnndBuild *build)
{
	GrnndMapping *map = build->map;
	GrnBuild	job = {.spec = &build->spec, .threads = &alone, .host = &host,
		.vectors = map->base[GRN_SEG_VECTORS], .order = (const uint32_t *) map->base[GRN_SEG_ORDER],
		.n = build->rows, .on_disk = map->file_size[GRNND_FILE_DISK]};
	GrnFailure	failure;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "grnnd build", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	build->spec.device = GRN_DEVICE_CPU;
	build->spec.threads = 1;
	/* The rows are few and already in memory, so free memory need not be measured. */
	build->spec.work_limit = UINT64_MAX;
	host.ctx = map;
	grn_memory = (GrnMemory) {memory_alloc, memory_free};
	if (!grn_build(&job, &build->builder.result, &failure))
		grnnd_builder_failed(failure.sqlstate, failure.text, failure.hint);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

GrnForming *
grnnd_form_in_backend(GrnndBuild *build, const GrnFormSpec *form)
{
	GrnForming *f = palloc(sizeof(GrnForming));
	GrnFailure	failure;

	*f = (GrnForming) {.spec = &build->spec, .result = &build->builder.result, .form = *form, .rows = build->rows,
					   .host = &host, .parallel = &alone};
	for (int i = 0; i < GRN_NSEGMENTS; i++)
	{
		f->base[i] = build->map->base[i];
		f->bytes[i] = build->map->size[i];
	}
	if (!grn_forming_begin(f, &failure))
		grnnd_builder_failed(failure.sqlstate, failure.text, failure.hint);
	return f;
}
