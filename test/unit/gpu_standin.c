/*
 * gpu_standin.c - cuda/gpu.h on the processor: RNN-Descent on what rows came as, and
 * the merge by plain loops.  Device memory is counted, not taken.
 */
#include "gpu_standin.h"
#include "gpu_standin_cuts.h"
#include "gpu_standin_rows.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/descent.h"
#include "graph/graph.h"

#define ROW_BYTES 200			/* of a build, beside digests or floats */
#define DIGESTING_BYTES 1000000 /* of rows to digest, or half of the limit */
#define MERGE_BYTES 100			/* of a merge, beside digests, for each of the degree */

StandIn		standin;

struct GrnGpu
{
	int			number;
	bool		begun;
	uint64_t	arena;			/* bytes; stays until it is ended */
	uint64_t	n;
	uint32_t	dim;
	uint32_t	degree;
	GrnGraphParams params;
	GrnGpuOptions options;
	float	   *rows;			/* [n][dim] of a build */
	const uint32_t *members;
	GrnGraph	graph;			/* of the last build as a whole, */
	bool		digested;		/* with digests of its vertices, or one that was brought */
	uint8_t    *kept;			/* [rows of all][digest bytes] */
	uint64_t	kept_rows;
	uint64_t	kept_bytes;
	GrnGpuRows	kept_kind;
	bool		shared;			/* they are ready for a merge */
	const GrnGpu *keeper;		/* of a merge */
	uint64_t	peak;
};

static void
drop_graph(GrnGpu *gpu)
{
	free(gpu->graph.ids);
	free(gpu->graph.counts);
	memset(&gpu->graph, 0, sizeof(gpu->graph));
}

void
standin_reset(void)
{
	memset(&standin, 0, sizeof(standin));
}

static GrnGpuStatus
say(GrnGpuError *err, GrnGpuStatus status, const char *text)
{
	if (err)
	{
		err->status = status;
		snprintf(err->text, sizeof(err->text), "%s", text);
	}
	return status;
}

/* Counts a call; whether it is to fail. */
static GrnGpuStatus
call(int device, GrnGpuError *err)
{
	int			number = __atomic_add_fetch(&standin.calls[device], 1, __ATOMIC_RELAXED);

	if (standin.fault_call == 0 || device != standin.fault_device ||
		(standin.once ? number != standin.fault_call : number < standin.fault_call))
		return GRN_GPU_OK;
	return say(err, standin.fault, "a fault for the test");
}

#define CALL(gpu) \
	do { \
		GrnGpuStatus call_status = call((gpu)->number, err); \
		if (call_status != GRN_GPU_OK) \
			return call_status; \
	} while (0)

static void
count_bytes(int device, int64_t bytes)
{
	uint64_t	taken = __atomic_add_fetch(&standin.taken[device], (uint64_t) bytes, __ATOMIC_RELAXED);

	if (standin.memory && taken > standin.memory)
		__atomic_store_n(&standin.over, true, __ATOMIC_RELAXED);
}

static void
hold(GrnGpu *gpu, uint64_t bytes)
{
	if (gpu->arena >= bytes)
		return;
	if (gpu->arena == 0)
		__atomic_add_fetch(&standin.held, 1, __ATOMIC_RELAXED);
	count_bytes(gpu->number, (int64_t) (bytes - gpu->arena));
	gpu->arena = bytes;
	if (gpu->kept_bytes + bytes > gpu->peak)
		gpu->peak = gpu->kept_bytes + bytes;
}

/* Takes room for n digests. */
static void
keep(GrnGpu *gpu, uint64_t n, uint64_t bytes)
{
	gpu->kept_rows = n;
	gpu->kept_bytes = bytes;
	gpu->kept = malloc(bytes);
	count_bytes(gpu->number, (int64_t) bytes);
	__atomic_add_fetch(&standin.held, 1, __ATOMIC_RELAXED);
}

/*
 * Of a process whose tester is another one: "devices memory fault_call", and the fault is
 * FAILED.
 */
static void
ask_environment(void)
{
	const char *text = getenv("GRNND_STANDIN");
	unsigned long long memory = 0;

	if (text == NULL || standin.devices > 0)
		return;
	sscanf(text, "%d %llu %d", &standin.devices, &memory, &standin.fault_call);
	standin.memory = memory;
	standin.fault = GRN_GPU_FAILED;
}

GrnGpuStatus
grn_gpu_count(int *count, GrnGpuError *err)
{
	(void) err;
	ask_environment();
	*count = standin.devices ? standin.devices : 1;
	return GRN_GPU_OK;
}

GrnGpuStatus
grn_gpu_open(int device, GrnGpu **gpu, GrnGpuError *err)
{
	int			count;
	GrnGpuStatus status;

	*gpu = NULL;
	grn_gpu_count(&count, err);
	if (device >= count)
		return say(err, GRN_GPU_ABSENT, "there is no such device");
	status = call(device, err);
	if (status != GRN_GPU_OK)
		return status;
	*gpu = calloc(1, sizeof(**gpu));
	(*gpu)->number = device;
	return GRN_GPU_OK;
}

GrnGpuStatus
grn_gpu_info(GrnGpu *gpu, GrnGpuInfo *info, GrnGpuError *err)
{
	CALL(gpu);
	memset(info, 0, sizeof(*info));
	snprintf(info->name, sizeof(info->name), "stand-in %d", gpu->number);
	return GRN_GPU_OK;
}

void
grn_gpu_close(GrnGpu *gpu)
{
	grn_gpu_end(gpu);
	grn_gpu_drop_digests(gpu);
	free(gpu);
}

uint64_t
grn_gpu_plan(GrnGpu *gpu, const GrnGraphParams *params, const GrnGpuOptions *options,
			 uint64_t n, uint32_t dim)
{
	uint64_t	row = options->rows == GRN_GPU_FLOATS ? 5 * (uint64_t) dim :
		options->rows == GRN_GPU_WIDE_DIGESTS ? 2 * dim : dim;

	(void) gpu;
	(void) params;
	return n * (ROW_BYTES + row);
}

GrnGpuStatus
grn_gpu_limit(GrnGpu *gpu, uint64_t memory_limit, uint64_t *limit, GrnGpuError *err)
{
	CALL(gpu);
	*limit = standin.memory ? standin.memory : UINT64_MAX;
	if (memory_limit && memory_limit < *limit)
		*limit = memory_limit;
	return GRN_GPU_OK;
}

static GrnGpuStatus
take(GrnGpu *gpu, uint64_t memory_limit, uint64_t bytes, GrnGpuError *err)
{
	uint64_t	limit;
	GrnGpuStatus status = grn_gpu_limit(gpu, memory_limit, &limit, err);

	if (status != GRN_GPU_OK)
		return status;
	if (bytes > limit && bytes > gpu->arena)
		return say(err, GRN_GPU_MEMORY, "the build needs more");
	hold(gpu, bytes);
	return GRN_GPU_OK;
}

GrnGpuStatus
grn_gpu_begin(GrnGpu *gpu, uint64_t n, uint32_t dim, const GrnGpuOptions *options,
			  const GrnGraphParams *params, GrnGpuError *err)
{
	GrnGpuStatus status;

	CALL(gpu);
	free(gpu->rows);
	drop_graph(gpu);
	gpu->rows = NULL;
	gpu->begun = false;
	status = take(gpu, options->memory_limit, grn_gpu_plan(gpu, params, options, n, dim), err);
	if (status != GRN_GPU_OK)
		return status;
	gpu->n = n;
	gpu->dim = dim;
	gpu->params = *params;
	gpu->options = *options;
	gpu->rows = malloc(n * dim * sizeof(float));
	gpu->begun = true;
	return GRN_GPU_OK;
}

GrnGpuStatus
grn_gpu_rows(GrnGpu *gpu, uint64_t first, uint64_t nrows, const float *host, uint64_t stride,
			 GrnGpuError *err)
{
	CALL(gpu);
	for (uint64_t i = 0; i < nrows; i++)
		memcpy(gpu->rows + (first + i) * gpu->dim, host + i * stride, gpu->dim * sizeof(float));
	return GRN_GPU_OK;
}

/* Row i of a source, as the device reads it. */
static void
read_source(const GrnGpuSource *source, uint64_t i, uint32_t dim, float *out)
{
	const uint8_t *row = (const uint8_t *) source->base +
		(source->order ? source->order[i] : i) * source->row_bytes;
	float		head = 1;
	float		scale = 1;

	if (!grn_gpu_expands(source))
	{
		memcpy(out, row, dim * sizeof(float));
		return;
	}
	__atomic_add_fetch(&standin.short_rows, 1, __ATOMIC_RELAXED);
	if (source->head > 0)
		memcpy(&head, row, sizeof(head));
	if (source->scale > 0)
		memcpy(&scale, row + source->scale, sizeof(scale));
	if (source->numbers == GRN_NUMBERS_HALVES)
		grn_dist->f16_load(row + source->head, dim, out);
	for (uint32_t j = 0; j < dim && source->numbers == GRN_NUMBERS_BITS; j++)
		out[j] = (float) (row[j / 8] >> (7 - j % 8) & 1);
	for (uint32_t j = 0; j < dim; j++)
		out[j] = scale * (out[j] * head);
}

GrnGpuStatus
grn_gpu_rows_from(GrnGpu *gpu, const GrnGpuSource *source, uint64_t first, uint64_t n,
				  GrnGpuError *err)
{
	CALL(gpu);
	for (uint64_t i = first; i < first + n; i++)
		read_source(source, i, gpu->dim, gpu->rows + i * gpu->dim);
	gpu->members = NULL;
	if (gpu->options.rows == GRN_GPU_BIT_DIGESTS &&
		(source->numbers != GRN_NUMBERS_BITS || source->head || source->scale))
		return say(err, GRN_GPU_FAILED, "rows in another form than was said");
	__atomic_add_fetch(&standin.bit_builds, first == 0 && gpu->options.rows == GRN_GPU_BIT_DIGESTS,
					   __ATOMIC_RELAXED);
	return GRN_GPU_OK;
}

GrnGpuStatus
grn_gpu_device_rows(GrnGpu *gpu, const float *d_rows, GrnGpuError *err)
{
	(void) gpu;
	(void) d_rows;
	return say(err, GRN_GPU_FAILED, "no device memory here");
}

GrnGpuStatus
grn_gpu_digested_rows(GrnGpu *gpu, const uint8_t *digests, const GrnGpu *keeper,
					  const uint32_t *members, GrnGpuError *err)
{
	uint32_t	bytes = gpu->dim * (gpu->options.rows == GRN_GPU_WIDE_DIGESTS ? 2 : 1);

	CALL(gpu);
	if (!digests && (keeper->number != gpu->number || !keeper->kept))
		return say(err, GRN_GPU_FAILED, "there are no digests");
	if (!digests)
		__atomic_add_fetch(&standin.kept_builds, 1, __ATOMIC_RELAXED);
	digests = digests ? digests : keeper->kept;
	if (!gpu->begun || gpu->options.rows == GRN_GPU_FLOATS)
		return say(err, GRN_GPU_FAILED, "no build of digests was begun");
	for (uint64_t i = 0; i < gpu->n; i++)
		for (uint32_t j = 0; j < gpu->dim; j++)
			gpu->rows[i * gpu->dim + j] = undigest(gpu->options.rows, digests + (size_t) members[i] * bytes, j);
	gpu->members = members;
	__atomic_add_fetch(&standin.bit_builds, gpu->options.rows == GRN_GPU_BIT_DIGESTS, __ATOMIC_RELAXED);
	return GRN_GPU_OK;
}

static void
run(GrnParallel *self, size_t n, size_t grain, GrnRangeFn fn, void *arg)
{
	(void) self;
	for (size_t i = 0; i < n; i += grain)
		fn(arg, 0, i, n - i < grain ? n : i + grain);
}

typedef struct Progress
{
	GrnGpuProgressFn fn;
	void	   *ctx;
} Progress;

static void
progress_of(void *ctx, uint64_t done, uint64_t total)
{
	Progress   *p = ctx;

	if (p->fn)
		(void) p->fn(p->ctx, done, total);
}

/* As the device keeps it, whatever the host does to its copy. */
static void
copy_graph(GrnGpu *gpu, const GrnGraph *graph)
{
	size_t		ids = graph->n * (size_t) graph->degree * sizeof(uint32_t);

	gpu->graph = *graph;
	gpu->graph.ids = malloc(ids);
	gpu->graph.counts = malloc(graph->n);
	memcpy(gpu->graph.ids, graph->ids, ids);
	memcpy(gpu->graph.counts, graph->counts, graph->n);
}

bool
grn_gpu_has_digests(const GrnGpu *gpu)
{
	return gpu->kept != NULL;
}

GrnGpuStatus
grn_gpu_build(GrnGpu *gpu, uint32_t *ids, uint8_t *counts, GrnGpuProgressFn progress, void *ctx,
			  GrnGpuTimes *times, GrnGpuError *err)
{
	const GrnGraphParams *params = &gpu->params;
	const GrnGpuOptions *options = &gpu->options;
	GrnRows		rows = {.base = gpu->rows, .n = gpu->n, .row_bytes = gpu->dim * sizeof(float),
		.dim = gpu->dim, .embedding = GRN_EMBED_ROW, .form = GRN_FORM_F32};
	GrnGraph	graph = {ids, counts, (uint32_t) gpu->n, params->degree};
	GrnParallel one = {1, run};
	Progress	p = {progress, ctx};
	void	   *work;

	CALL(gpu);
	__atomic_add_fetch(&standin.builds[gpu->number], 1, __ATOMIC_RELAXED);
	if (options->rows == GRN_GPU_WIDE_DIGESTS)
		__atomic_add_fetch(&standin.wide_builds, 1, __ATOMIC_RELAXED);
	work = malloc(grn_rnnd_bytes(params, gpu->n, gpu->dim));
	grn_rnnd_build(&rows, params, false, &one, work, &graph, progress_of, &p);
	free(work);
	for (uint64_t i = 0; standin.halves && i < gpu->n; i++)
	{
		uint32_t	kept = 0;

		for (uint32_t j = 0; j < counts[i]; j++)
			if ((ids[i * params->degree + j] < gpu->n / 2) == (i < gpu->n / 2))
				ids[i * params->degree + kept++] = ids[i * params->degree + j];
		counts[i] = (uint8_t) kept;
	}
	for (uint64_t i = 0; options->rows != GRN_GPU_FLOATS && gpu->members && i < gpu->n; i++)
		for (uint32_t j = 0; j < params->degree; j++)
		{
			uint32_t   *id = &ids[i * params->degree + j];

			*id = j < counts[i] ? gpu->members[*id] : GRN_INVALID_ID;
		}
	if (options->rows == GRN_GPU_FLOATS || !gpu->members)
		copy_graph(gpu, &graph);
	gpu->digested = true;
	if (times)
		times->peak_bytes = gpu->peak;
	if (times)
		times->coarse = standin.coarse && options->rows == GRN_GPU_BYTE_DIGESTS;
	return GRN_GPU_OK;
}

GrnGpuStatus
grn_gpu_take_graph(GrnGpu *gpu, uint64_t n, uint32_t degree, const uint32_t *ids,
				   const uint8_t *counts, uint64_t memory_limit, GrnGpuError *err)
{
	GrnGraph	graph = {(uint32_t *) ids, (uint8_t *) counts, (uint32_t) n, degree};
	GrnGpuStatus status;

	CALL(gpu);
	grn_gpu_end(gpu);
	status = take(gpu, memory_limit, n * (2 * degree * sizeof(uint32_t) + 24), err);
	if (status == GRN_GPU_OK)
		copy_graph(gpu, &graph);
	gpu->digested = false;
	return status;
}

GrnGpuStatus
grn_gpu_reach(GrnGpu *gpu, uint32_t entry, uint64_t *reached, uint64_t *count, GrnGpuError *err)
{
	uint32_t   *queue;

	CALL(gpu);
	if (gpu->graph.n == 0)
		return say(err, GRN_GPU_FAILED, "the device has no graph");
	queue = malloc(gpu->graph.n * sizeof(*queue));
	memset(reached, 0, GRN_REACH_WORDS(gpu->graph.n) * sizeof(*reached));
	*count = grn_reach(&gpu->graph, entry, reached, queue);
	free(queue);
	return GRN_GPU_OK;
}

GrnGpuStatus
grn_gpu_cut_order(GrnGpu *gpu, uint32_t per_page, uint32_t *position, GrnGpuError *err)
{
	uint32_t	n = gpu->graph.n;
	bool		kept = gpu->kept && gpu->kept_rows == n;
	float	   *x;

	CALL(gpu);
	if (n == 0 || (!gpu->digested && !kept))
		return say(err, GRN_GPU_FAILED, "the device has no digests");
	if (!kept)
	{
		order_by_cuts(gpu->rows, n, gpu->dim, per_page, position);
		return GRN_GPU_OK;
	}
	x = malloc((size_t) n * gpu->dim * sizeof(*x));
	for (size_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < gpu->dim; j++)
			x[i * gpu->dim + j] = undigest(gpu->kept_kind, gpu->kept + i * (gpu->kept_bytes / n), j);
	order_by_cuts(x, n, gpu->dim, per_page, position);
	free(x);
	return GRN_GPU_OK;
}

uint64_t
grn_gpu_peak(GrnGpu *gpu)
{
	uint64_t	peak = gpu->peak;

	/* what stays counts for the next step, too */
	gpu->peak = gpu->kept_bytes + gpu->arena;
	return peak;
}

void
grn_gpu_end(GrnGpu *gpu)
{
	if (gpu->arena > 0)
		__atomic_sub_fetch(&standin.held, 1, __ATOMIC_RELAXED);
	count_bytes(gpu->number, -(int64_t) gpu->arena);
	free(gpu->rows);
	drop_graph(gpu);
	gpu->rows = NULL;
	gpu->arena = 0;
	gpu->begun = false;
}

GrnGpuStatus
grn_gpu_fit(GrnGpu *gpu, const float *sample, uint32_t n, uint64_t seed, GrnGpuFit *fit,
			GrnGpuError *err)
{
	(void) sample;
	(void) n;
	(void) seed;
	CALL(gpu);
	fit->digest_dims = fit->dim;
	fit->digest_bytes = fit->dim * (fit->rows == GRN_GPU_WIDE_DIGESTS ? 2 : 1);
	return GRN_GPU_OK;
}

uint64_t
grn_gpu_fit_bytes(const GrnGpuFit *fit, uint32_t n)
{
	return 4 * (uint64_t) n * fit->dim;
}

uint64_t
grn_gpu_kept_bytes(const GrnGpuFit *fit, uint64_t n)
{
	return n * fit->digest_bytes;
}

GrnGpuStatus
grn_gpu_keep_digests(GrnGpu *gpu, const GrnGpuFit *fit, uint64_t n, uint64_t memory_limit,
					 GrnGpuError *err)
{
	uint64_t	limit;
	GrnGpuStatus status;

	CALL(gpu);
	status = grn_gpu_limit(gpu, memory_limit, &limit, err);
	if (status != GRN_GPU_OK)
		return status;
	if (n * fit->digest_bytes > limit)
		return say(err, GRN_GPU_MEMORY, "the digests need more");
	grn_gpu_drop_digests(gpu);
	keep(gpu, n, n * fit->digest_bytes);
	gpu->kept_kind = fit->rows;
	return GRN_GPU_OK;
}

void
grn_gpu_drop_digests(GrnGpu *gpu)
{
	if (gpu->kept)
		__atomic_sub_fetch(&standin.held, 1, __ATOMIC_RELAXED);
	count_bytes(gpu->number, -(int64_t) gpu->kept_bytes);
	free(gpu->kept);
	gpu->kept = NULL;
	gpu->kept_bytes = 0;
	gpu->shared = false;
}

GrnGpuStatus
grn_gpu_share_digests(GrnGpu *const *keepers, int nkeepers, const GrnGpuFit *fit,
					  const uint8_t *digests, int *failed, GrnGpuError *err)
{
	(void) fit;
	for (*failed = 0; *failed < nkeepers; ++*failed)
	{
		GrnGpu	   *gpu = keepers[*failed];

		CALL(gpu);
		if (digests)
			memcpy(gpu->kept, digests, gpu->kept_bytes);
		gpu->shared = true;
	}
	return GRN_GPU_OK;
}

GrnGpuStatus
grn_gpu_digest_begin(GrnGpu *gpu, const GrnGpuDigesting *e, uint64_t memory_limit, GrnGpuError *err)
{
	uint64_t	limit;
	GrnGpuStatus status;

	(void) e;
	CALL(gpu);
	status = grn_gpu_limit(gpu, memory_limit, &limit, err);
	if (status != GRN_GPU_OK)
		return status;
	return take(gpu, memory_limit, limit / 2 < DIGESTING_BYTES ? limit / 2 : DIGESTING_BYTES, err);
}

GrnGpuStatus
grn_gpu_digest(GrnGpu *gpu, const GrnGpuDigesting *e, const GrnGpuSource *source, uint64_t first,
			   uint64_t n, uint64_t at, bool *other, GrnGpuError *err)
{
	uint8_t		digest[2 * 1024];
	uint32_t	bytes = e->fit->digest_bytes;

	CALL(gpu);
	for (uint64_t i = first; i < first + n; i++, at++)
	{
		float		x[1024];

		read_source(source, i, e->fit->dim, x);

		*other |= !digest_row(e->fit->rows, x, e->fit->dim, digest);
		if (*other)
			return GRN_GPU_OK;
		for (int k = 0; k < e->nkeepers; k++)
		{
			if (standin.peers_fail && e->keepers[k]->number == standin.fault_device &&
				gpu->number != standin.fault_device)
				return say(err, GRN_GPU_FAILED, "the peer is lost");
			memcpy(e->keepers[k]->kept + at * bytes, digest, bytes);
		}
		if (e->digests)
			memcpy(e->digests + at * bytes, digest, bytes);
		if (e->cells)
			find_cells(e->cells, x, &e->home[at], &e->guest[at]);
	}
	return GRN_GPU_OK;
}

uint64_t
grn_gpu_merge_bytes(uint32_t degree)
{
	return MERGE_BYTES * degree;
}

GrnGpuStatus
grn_gpu_merge_begin(GrnGpu *gpu, uint32_t degree, const GrnGpu *keeper,
					uint64_t memory_limit, GrnGpuError *err)
{
	CALL(gpu);
	if (keeper->number != gpu->number || !keeper->shared)
		return say(err, GRN_GPU_FAILED, "there are no digests");
	gpu->degree = degree;
	gpu->keeper = keeper;
	return take(gpu, memory_limit, grn_gpu_merge_bytes(degree), err);
}

static float
apart(const GrnGpu *gpu, const GrnGpuFit *fit, uint32_t a, uint32_t b)
{
	float		sum = 0;

	for (uint32_t j = 0; j < fit->dim; j++)
	{
		float		d = undigest(fit->rows, gpu->keeper->kept + (size_t) a * fit->digest_bytes, j) -
			undigest(fit->rows, gpu->keeper->kept + (size_t) b * fit->digest_bytes, j);

		sum += d * d;
	}
	return sum;
}

/* The nearest of both lists by the RNG rule, then those it refuses, up to fill; unsorted. */
static uint32_t
merge_row(const GrnGpu *gpu, const GrnGpuFit *fit, uint32_t v, const uint32_t *lists[2],
		  uint32_t fill, uint32_t *out)
{
	uint32_t	ids[2 * GRN_MAX_DEGREE];
	float		distances[2 * GRN_MAX_DEGREE];
	bool		taken[2 * GRN_MAX_DEGREE] = {false};
	uint32_t	n = 0;
	uint32_t	kept = 0;

	for (int part = 0; part < 2; part++)
		for (uint32_t i = 0; lists[part] && i < gpu->degree && lists[part][i] != GRN_INVALID_ID; i++)
		{
			uint32_t	at = n;

			for (uint32_t j = 0; j < n; j++)
				if (ids[j] == lists[part][i])
					at = GRN_INVALID_ID;
			if (at == GRN_INVALID_ID)
				continue;
			distances[n] = apart(gpu, fit, v, lists[part][i]);
			for (; at > 0 && distances[at - 1] > distances[n]; at--)
				ids[at] = ids[at - 1];
			ids[at] = lists[part][i];
			for (uint32_t j = n; j > at; j--)
			{
				float		swap = distances[j];

				distances[j] = distances[j - 1];
				distances[j - 1] = swap;
			}
			n++;
		}
	for (int pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < n && kept < (pass ? fill : gpu->degree); i++)
		{
			bool		refused = taken[i];

			for (uint32_t j = 0; pass == 0 && j < kept && !refused; j++)
				refused = apart(gpu, fit, ids[i], out[j]) < distances[i];
			if (refused)
				continue;
			taken[i] = true;
			out[kept++] = ids[i];
		}
	return kept;
}

GrnGpuStatus
grn_gpu_merge(GrnGpu *gpu, const GrnGpuFit *fit, const GrnGpuMerge *merge, bool fill,
			  GrnGpuError *err)
{
	(void) fill;
	CALL(gpu);
	if (!gpu->keeper->shared)
		return say(err, GRN_GPU_FAILED, "there are no digests");
	__atomic_add_fetch(&standin.merges, 1, __ATOMIC_RELAXED);
	for (uint64_t i = 0; i < merge->count; i++)
	{
		uint32_t	v = merge->rows[i];
		const uint32_t *lists[2] = {NULL, NULL};

		for (int part = 0; part < 2; part++)
			if (merge->positions[part][i] != GRN_INVALID_ID)
				lists[part] = merge->lists + (size_t) merge->positions[part][i] * gpu->degree;
		merge->counts[v] = (uint8_t) merge_row(gpu, fit, v, lists, gpu->degree,
											   merge->ids + (size_t) v * gpu->degree);
	}
	return GRN_GPU_OK;
}

void
grn_gpu_default_params(GrnGraphParams *params, uint32_t dim)
{
	grn_default_params(params, dim, 0);
}
