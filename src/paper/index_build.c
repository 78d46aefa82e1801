/*
 * index_build.c - builds the graph of all rows of a file by the functions of CREATE INDEX.  Unlike
 * an index, the graph has a vertex for every row, even for equal rows.
 */
#include "paper/index_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "builder/build_graph.h"
#include "builder/pipeline_impl.h"
#include "builder/prepare.h"
#include "builder/threads.h"
#include "graph/graph.h"
#include "paper/options.h"

/* records of a page whose order is timed; a page holds as many records of 128 dimensions */
#define RECORDS_A_PAGE 7

typedef struct ToolMemory
{
	void	   *work;
	uint64_t	work_bytes;
} ToolMemory;

/*
 * Maps memory that is read at random.  With huge pages the TLB misses less often: a build takes a
 * tenth less time, and the search for reachable vertices takes half.  Returns NULL if memory is
 * short.
 */
static void *
map_memory(uint64_t bytes)
{
	void	   *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, bytes, MADV_HUGEPAGE);
	return memory;
}

static void *
tool_need(void *ctx, GrnSegment segment, uint64_t bytes, GrnFailure *failure)
{
	ToolMemory *tool = ctx;

	(void) segment;
	if (bytes > tool->work_bytes)
	{
		if (tool->work)
			munmap(tool->work, tool->work_bytes);
		tool->work = map_memory(bytes);
		tool->work_bytes = tool->work ? bytes : 0;
		if (!tool->work)
			grn_fail(failure, "53200", "", "out of memory: the build needs %llu MB of workspace",
					 (unsigned long long) (bytes >> 20));
	}
	return tool->work;
}

static void
tool_phase(void *ctx, GrnStep phase, uint64_t done, uint64_t total)
{
	(void) ctx;
	(void) phase;
	(void) done;
	(void) total;
}

static void
tool_notice(void *ctx, const char *text, const char *hint)
{
	(void) ctx;
	grn_cli_error("%s%s%s%s", text, hint[0] ? " (" : "", hint, hint[0] ? ")" : "");
}

/*
 * Checks and connects the graph.  seconds[0] receives the seconds of this; seconds[1] the seconds
 * of the page order, if `position` is given.
 */
static bool
finish_graph(const GrnIndexBuild *wanted, const GrnPrepared *prepared, GrnGraphJob *job, uint32_t *position, double *seconds,
			 GrnFailure *failure)
{
	GrnParallel *parallel = &job->progress->parallel;
	const char *bad;
	uint32_t	vertex;
	GrnFinish	f = {.metric = wanted->metric, .norm_unit = prepared->norm_unit, .power = prepared->power, .rows = job->rows, .graph = job->graph, .parallel = parallel,
		.gpu = job->holder, .per_page = RECORDS_A_PAGE, .position = position};
	double		since = grn_seconds();

	f.scratch = job->host->need(job->host->ctx, GRN_SEG_WORK, grn_finish_bytes(job->graph->n), failure);
	if (!f.scratch)
		return false;
	f.entry = grn_medoid(job->rows, job->params->seed);
	grn_finish_begin(&f);
	bad = grn_graph_check(job->graph, parallel, &vertex);
	if (bad)
	{
		grn_finish_abandon(&f);
		return grn_fail(failure, "XX000", "", "built a faulty graph: vertex %u has %s",
						vertex, bad);
	}
	if (!grn_finish_connect(&f))
	{
		grn_finish_abandon(&f);
		return grn_fail(failure, "53200", "", "out of memory");
	}
	printf("connected %u vertices to entry %u\n", f.connected, f.entry);
	if (job->part_times.nparts > 1)
		grn_make_graph_navigable(&f, job->params->seed);
	seconds[0] = grn_lap(&since);
	if (position)
		grn_finish_order(&f);
	else
		grn_finish_abandon(&f);
	seconds[1] = grn_lap(&since);
	return true;
}

static void
print_times(const GrnGraphJob *job, double build, const double *finish)
{
	const GrnGraphParams *p = job->params;
	const ToolMemory *tool = job->host->ctx;

	printf("degree %u r %u s %u t1 %u t2 %u rho %g seed %llu\n", p->degree, p->r, p->s,
		   p->t1, p->t2, p->rho, (unsigned long long) p->seed);
	if (job->part_times.nparts > 0)
		printf("%u parts, %.2f rows a row%s: split %.4f digest %.4f build %.4f merge %.4f s, peak %.0f MB\n",
			   job->part_times.nparts, (double) job->part_times.members / (double) job->rows->n,
			   job->part_times.digests_on_devices ? ", digests stay" : "",
			   job->part_times.split, job->part_times.digest, job->part_times.build,
			   job->part_times.merge, (double) job->times.peak_bytes / 1048576.0);
	else if (job->on_gpu)
		printf("upload %.4f convert %.4f descent %.4f finish %.4f download %.4f s, peak %.0f MB\n",
			   job->times.upload, job->times.convert, job->times.descent, job->times.finish,
			   job->times.download, (double) job->times.peak_bytes / 1048576.0);
	printf("workspace %.0f MB\n", (double) tool->work_bytes / 1048576.0);
	printf("build %.3f s, check and connect %.3f s, page order %.3f s\n", build, finish[0],
		   finish[1]);
}

static bool
build_once(const GrnIndexBuild *wanted, const GrnPrepared *prepared, GrnGraphJob *job, GrnFailure *failure)
{
	GrnGraphParams params = {.degree = job->graph->degree};
	double		start = grn_seconds();
	double		built;
	double		seconds[2] = {0};
	size_t		bytes = job->rows->n * sizeof(uint32_t);
	uint32_t   *position = wanted->times ? map_memory(bytes) : NULL;
	bool		fine;

	job->params = &params;
	job->hold = position != NULL;
	if (!grn_build_graph(job, failure))
		return false;
	built = grn_seconds() - start;
	fine = finish_graph(wanted, prepared, job, position, seconds, failure);
	if (fine && wanted->times)
		print_times(job, built, seconds);
	if (position)
		munmap(position, bytes);
	return fine;
}

/* Converts rows of 0 and 1 in place to bits, the form of rows of type bit. */
static void
make_bits(GrnRows *rows, uint8_t *base)
{
	GrnForm		bits = rows->form;
	size_t		bytes;
	float		x[GRN_MOST_DIMS];

	for (size_t i = 0; i < rows->n; i++)
	{
		const float *row = grn_row(rows, i);

		for (uint32_t j = 0; j < rows->dim; j++)
			if (row[j] != 0 && row[j] != 1)
				return;
	}
	while (grn_form(bits)->bits != 1 || grn_form(bits)->head != 0)
		bits++;
	bytes = grn_row_bytes(bits, rows->embedding, rows->dim);
	for (size_t i = 0; i < rows->n; i++)
	{
		memcpy(x, grn_row(rows, i), rows->dim * sizeof(float));
		grn_form_store(bits, x, rows->dim, base + i * bytes);
	}
	rows->row_bytes = bytes;
	rows->form = bits;
}

bool
grn_build_as_index(const GrnIndexBuild *wanted)
{
	ToolMemory	tool = {0};
	GrnHost		host = {.ctx = &tool, .need = tool_need, .phase = tool_phase, .notice = tool_notice};
	GrnVectors	v;
	GrnPrepared prepared;
	GrnFailure	failure;
	GrnGraph	graph = {0};
	GrnRows		rows = {0};
	GrnGraphJob job = {0};
	GrnPool    *pool = grn_pool_start((int) wanted->threads);
	GrnProgress progress;
	char		name[128];
	uint32_t	degree;

	if (!pool)
	{
		grn_cli_error("out of memory");
		return false;
	}
	grn_progress_init(&progress, grn_pool_parallel(pool), &host);
	if (!grn_read_vectors(wanted->vectors, wanted->metric, wanted->rows, &v))
		return false;
	rows.base = v.base;
	rows.n = v.n;
	rows.row_bytes = v.stride * sizeof(float);
	rows.dim = v.dim;
	rows.embedding = wanted->metric->embedding;
	rows.form = GRN_FORM_FLOATS;
	if (!grn_prepare(&rows, NULL, wanted->metric, grn_pool_parallel(pool), NULL, &prepared,
					 &failure))
	{
		grn_cli_error("%s: %s", wanted->vectors, failure.text);
		return false;
	}
	if (!grn_is_scaled(rows.embedding))
		make_bits(&rows, (uint8_t *) v.base);
	degree = wanted->degree ? wanted->degree : grn_bare_degree(v.dim);
	graph.ids = map_memory(v.n * degree * sizeof(uint32_t));
	graph.counts = malloc(v.n);
	graph.degree = degree;
	graph.n = (uint32_t) v.n;
	if (!graph.ids || !graph.counts)
	{
		grn_cli_error("out of memory");
		return false;
	}
	job.rows = &rows;
	job.graph = &graph;
	job.choice = &wanted->choice;
	job.progress = &progress;
	job.fill = wanted->fill;
	job.host = &host;
	if (!grn_device_open(&wanted->choice, (int) wanted->threads, &host, &job.gpu, name,
						 sizeof(name), &failure))
		goto failed;
	printf("%s: %zu rows of %u dimensions, on %s\n", wanted->vectors, v.n, v.dim, name);
	for (uint32_t i = 0; i < wanted->repeat; i++)
		if (!build_once(wanted, &prepared, &job, &failure))
			goto failed;
	grn_device_close();
	if (!grn_write_graph(wanted->graph, &graph))
		return false;
	grn_pool_stop(pool);
	munmap(graph.ids, v.n * degree * sizeof(uint32_t));
	grn_free_vectors(&v);
	free(graph.counts);
	if (tool.work)
		munmap(tool.work, tool.work_bytes);
	return true;

failed:
	grn_cli_error("%s", failure.text);
	if (failure.hint[0])
		fprintf(stderr, "%s\n", failure.hint);
	return false;
}
