/*
 * parts_gpus.c - builds in parts on GPUs.
 *
 * Rows become digests first (parts_digests.c).  Each step is a queue of items for the devices
 * (gpu_team.c).  The devices merge the lists if all digests and a batch of lists fit a device;
 * otherwise the processor's cores merge.
 */
#include "builder/parts_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builder/gpus.h"

#define LEAST_DIVIDE 8			/* if memory runs out, parts shrink at most by this factor */

static GrnGpuStatus
run_step(GrnPartsBuild *p, int handles, size_t nitems, GrnBeginFn begin, GrnItemFn item,
		 GrnGpuError *err)
{
	GrnTeamStep step;

	grn_team_start(&step, &p->team, handles, nitems, begin, item, p);
	return grn_team_finish(&step, err);
}

static bool
part_progress(void *ctx, uint64_t round, uint64_t rounds)
{
	GrnPartsBuild *p = ctx;

	(void) round;
	grn_progress_done(p->job->progress, __atomic_add_fetch(&p->items.counted, 1, __ATOMIC_RELAXED),
					  rounds * p->parts.nparts);
	return true;
}

typedef struct Single
{
	const GrnPartsBuild *p;
	size_t		start;			/* first member of the part */
} Single;

/* Copies the lists of rows that are in a single part to the graph. */
static void
copy_single_range(void *arg, int worker, size_t begin, size_t end)
{
	const Single *s = arg;
	const GrnPartsBuild *p = s->p;
	const GrnGraph *graph = p->job->graph;

	(void) worker;
	for (size_t i = s->start + begin; i < s->start + end; i++)
	{
		size_t		v = p->parts.members[i];

		if (p->parts.home[v] != i || p->parts.guest[v] != GRN_INVALID_ID)
			continue;
		memcpy(graph->ids + v * graph->degree, p->lists + i * graph->degree,
			   graph->degree * sizeof(uint32_t));
		graph->counts[v] = p->counts[i];
	}
}

static GrnGpuStatus
build_item(void *ctx, int device, GrnGpu *gpu, size_t item, GrnGpuError *err)
{
	GrnPartsBuild *p = ctx;
	const GrnGpu *keeper = p->kept > 0 ? grn_handle(device, 0) : NULL;
	uint32_t	part = p->by_size[item];
	GrnGpuTimes times = {0};
	GrnGraph	graph;
	GrnRows		rows = grn_part_rows(p, part, NULL, &graph);
	GrnGpuStatus status;

	/* Digests that are too coarse start the whole build anew, so a part is not worth building. */
	if (rows.n == 0 || __atomic_load_n(&p->coarse, __ATOMIC_RELAXED))
		return GRN_GPU_OK;
	status = grn_gpu_begin(gpu, rows.n, rows.dim, &p->options, &p->params, err);
	if (status == GRN_GPU_OK)
		status = grn_gpu_digested_rows(gpu, p->digests, keeper, p->parts.members + p->parts.start[part],
									   err);
	if (status == GRN_GPU_OK)
		status = grn_gpu_build(gpu, graph.ids, graph.counts, part_progress, p, &times, err);
	/* Copied now, because cores have little work now and much work during the merge. */
	if (status == GRN_GPU_OK && p->parts.nparts > 1)
	{
		Single		single = {p, p->parts.start[part]};

		p->parallel->run(p->parallel, rows.n, GRN_GRAIN, copy_single_range, &single);
	}
	if (times.coarse)
		__atomic_store_n(&p->coarse, true, __ATOMIC_RELAXED);
	return status;
}

static GrnGpuStatus
merge_begin(void *ctx, int device, GrnGpu *gpu, GrnGpuError *err)
{
	const GrnPartsBuild *p = ctx;

	return grn_gpu_merge_begin(gpu, p->job->graph->degree, grn_handle(device, 0),
							   p->options.memory_limit, err);
}

/*
 * Completes the digests on the devices that keep digests.  A device that fails is lost, if another
 * device is left.
 */
static GrnGpuStatus
share_digests(GrnPartsBuild *p, GrnGpuError *err)
{
	for (;;)
	{
		GrnGpu	   *keepers[GRN_MAX_GPUS];
		int			devices[GRN_MAX_GPUS];
		int			n = 0;
		int			failed;
		GrnGpuStatus status;

		for (int i = 0; i < p->team.n; i++)
			if (!p->team.lost[i])
			{
				devices[n] = i;
				keepers[n++] = grn_handle(i, 0);
			}
		if (n == 0)
			return GRN_GPU_FAILED;
		status = grn_gpu_share_digests(keepers, n, &p->fit, p->digests, &failed, err);
		if (status == GRN_GPU_OK || status == GRN_GPU_MEMORY)
			return status;
		grn_team_lose(&p->team, devices[failed], err);
	}
}

/*
 * Merges the lists of an item's rows, each of which is in two parts.  Rows come part by part, so
 * the rows in their lists are near each other.
 */
static GrnGpuStatus
merge_item(void *ctx, int device, GrnGpu *gpu, size_t item, GrnGpuError *err)
{
	GrnPartsBuild *p = ctx;
	const GrnParts *parts = &p->parts;
	const GrnGraph *graph = p->job->graph;
	GrnGpuMerge merge = {.lists = p->lists, .ids = graph->ids, .counts = graph->counts};
	size_t		first = item * p->items.rows;
	size_t		last = first + p->items.rows;
	uint32_t   *rows = malloc(3 * p->items.rows * sizeof(*rows));
	uint32_t   *home = rows + p->items.rows;
	uint32_t   *guest = home + p->items.rows;
	size_t		before = 0;		/* guests in earlier parts */
	GrnGpuStatus status;

	(void) device;
	if (!rows)
	{
		snprintf(err->text, sizeof(err->text), "out of host memory");
		return GRN_GPU_FAILED;
	}
	for (uint32_t part = 0; part < parts->nparts && before < last; part++)
	{
		size_t		n = parts->others[part] - parts->guests[part];

		for (size_t i = first > before ? first - before : 0; i < n && before + i < last; i++)
		{
			size_t		position = parts->guests[part] + i;
			uint32_t	v = parts->members[position];

			home[merge.count] = parts->home[v];
			guest[merge.count] = (uint32_t) position;
			rows[merge.count++] = v;
		}
		before += n;
	}
	merge.rows = rows;
	merge.positions[0] = home;
	merge.positions[1] = guest;
	status = grn_gpu_merge(gpu, &p->fit, &merge, p->job->fill, err);
	free(rows);
	grn_parts_count_item(p);
	return status;
}

static GrnGpuStatus
merge_on_gpus(GrnPartsBuild *p, uint64_t limit, GrnGpuError *err)
{
	uint64_t	guests = 0;
	GrnGpuStatus status = GRN_GPU_OK;

	if (grn_parts_merge_bytes(p, &p->fit) > limit)
		return GRN_GPU_MEMORY;
	if (p->kept == 0)
	{
		grn_parts_free_arenas(p);
		status = grn_parts_keep_digests(p, limit, err);
	}
	if (status == GRN_GPU_OK)
		status = share_digests(p, err);
	if (status != GRN_GPU_OK)
		return status;
	p->options.memory_limit = (limit - p->kept) / GRN_HANDLES;
	for (uint32_t c = 0; c < p->parts.nparts; c++)
		guests += p->parts.others[c] - p->parts.guests[c];
	grn_parts_set_piece(p, guests);
	return run_step(p, GRN_HANDLES, p->items.n, merge_begin, merge_item, err);
}

/* Number of rows in the largest part whose build fits `limit` bytes. */
static uint64_t
capacity_of(const GrnPartsBuild *p, uint64_t limit)
{
	uint64_t	low = 0;
	uint64_t	high = p->job->rows->n;

	while (low < high)
	{
		uint64_t	n = (low + high + 1) / 2;

		if (grn_gpu_plan(p->job->gpu, &p->params, &p->options, n, p->job->rows->dim) <= limit)
			low = n;
		else
			high = n - 1;
	}
	return low;
}

/* Sets *limit to the least memory limit of all devices.  A device that reports an error is lost. */
static GrnGpuStatus
least_limit(GrnPartsBuild *p, uint64_t *limit, GrnGpuError *err)
{
	GrnGpuStatus status = GRN_GPU_FAILED;

	*limit = UINT64_MAX;
	for (int i = 0; i < p->team.n; i++)
	{
		uint64_t	here;

		if (p->team.lost[i])
			continue;
		status = grn_gpu_limit(grn_open_handle(i, 0), p->job->choice->options.memory_limit, &here, err);
		if (status != GRN_GPU_OK)
			grn_team_lose(&p->team, i, err);
		else if (here < *limit)
			*limit = here;
	}
	return *limit < UINT64_MAX ? GRN_GPU_OK : status;
}

/* An attempt with the digests of fit.rows, and parts of 1 / divide of a device's capacity. */
typedef struct Try
{
	uint64_t	divide;
	uint64_t	limit;			/* memory limit in bytes, the least of all devices */
	int			handles;		/* builds that run together on a device */
	uint32_t	nparts;
	uint64_t	capacity;		/* largest number of rows in a part */
} Try;

/*
 * Lets devices keep the digests for the parts and the merge, unless the build would need more
 * parts.  Then reduces the capacity to the memory that is left.
 */
static GrnGpuStatus
keep_digests_on_devices(GrnPartsBuild *p, Try *t, GrnGpuError *err)
{
	uint64_t	n = p->job->rows->n;
	uint64_t	kept = grn_gpu_kept_bytes(&p->fit, n);
	uint64_t	left = kept < t->limit ?
		capacity_of(p, (t->limit - kept) / (uint64_t) t->handles) / t->divide : 0;
	uint32_t	needed = grn_parts_needed(n, p->overlap, left);
	GrnGpuStatus status;

	if (needed == 0 || needed > t->nparts || p->apart)
		return GRN_GPU_OK;
	status = grn_parts_keep_digests(p, t->limit, err);
	if (status == GRN_GPU_OK)
		t->capacity = left;
	return status == GRN_GPU_MEMORY ? GRN_GPU_OK : status;
}

/* Chooses the digests, and the number and largest size of parts by the devices' memory. */
static GrnGpuStatus
choose_parts(GrnPartsBuild *p, Try *t, GrnGpuError *err)
{
	uint64_t	n = p->job->rows->n;
	GrnGpuStatus status = least_limit(p, &t->limit, err);

	if (status != GRN_GPU_OK)
		return status;
	p->options.rows = p->fit.rows;
	status = grn_parts_fit_digests(p, t->limit, err);
	if (status != GRN_GPU_OK)
		return status;
	p->options.digest_dims = p->fit.digest_dims;
	t->handles = 1;
	t->capacity = capacity_of(p, t->limit) / t->divide;
	if (t->capacity < n || p->spread)
	{
		/* With two builds on a device, a build copies while the second build computes. */
		t->handles = GRN_HANDLES;
		t->capacity = capacity_of(p, t->limit / (uint64_t) t->handles) / t->divide;
	}
	do
		t->nparts = grn_parts_needed(n, p->overlap, t->capacity);
	while (grn_parts_raise_overlap(p, t->nparts));
	if (t->nparts == 0)
	{
		snprintf(err->text, sizeof(err->text),
				 "%.1f GB of device memory may be used, too little even for %d parts",
				 (double) t->limit / 1e9, GRN_MAX_PARTS);
		return GRN_GPU_MEMORY;
	}
	/* Rounds the number of parts up so that all handles build the same number of parts. */
	if (t->handles > 1)
	{
		uint32_t	workers = (uint32_t) (p->team.n * t->handles);

		if ((t->nparts + workers - 1) / workers * workers <= GRN_MAX_PARTS)
			t->nparts = (t->nparts + workers - 1) / workers * workers;
	}
	return keep_digests_on_devices(p, t, err);
}

/* Lays out the host's workspace.  Returns its size in bytes. */
static size_t
lay_out_try(GrnPartsBuild *p, const Try *t, void *workspace)
{
	GrnArena	a = grn_arena(workspace);
	size_t		cut_end;

	p->digests = NULL;
	if (p->kept == 0)
		p->digests = grn_take(&a, p->job->rows->n, p->fit.digest_bytes);
	cut_end = grn_parts_take_cut(p, a, t->nparts);
	grn_parts_take_lists(p, &a);
	a.used = a.used > cut_end ? a.used : cut_end;
	return grn_arena_bytes(&a);
}

/* Cuts rows into parts, and makes digests. */
static GrnGpuStatus
make_parts(GrnPartsBuild *p, const Try *t, double *since, GrnGpuError *err)
{
	GrnGraphJob *job = p->job;
	uint32_t	most = grn_parts_most(t->nparts);
	char	   *w;

	job->part_times.digests_on_devices = p->kept > 0;
	w = job->host->need(job->host->ctx, GRN_SEG_WORK, job->work_offset + lay_out_try(p, t, NULL),
						p->failure);
	if (!w)
		return GRN_GPU_FAILED;
	lay_out_try(p, t, w + job->work_offset);
	grn_parts_set_piece(p, job->rows->n);
	p->options.memory_limit = (t->limit - p->kept) / GRN_HANDLES;
	job->part_times.split = grn_lap(since);
	return grn_parts_digest(p, t->nparts, most, t->capacity, err);
}

static GrnGpuStatus
build_parts(GrnPartsBuild *p, const Try *t, GrnGpuError *err)
{
	grn_parts_report_cut(p);
	if (p->parts.nparts == 1)
	{
		p->lists = p->job->graph->ids;
		p->counts = p->job->graph->counts;
	}
	p->items.counted = 0;
	grn_progress_phase(p->job->progress, GRN_STEP_DESCENT, p->job->rows->n);
	grn_progress_done(p->job->progress, 0, p->parts.nparts);
	p->options.memory_limit = (t->limit - p->kept) / (uint64_t) t->handles;
	if (t->handles < GRN_HANDLES)
		grn_parts_free_arenas(p);
	return run_step(p, t->handles, p->parts.nparts, NULL, build_item, err);
}

static GrnGpuStatus
merge_parts(GrnPartsBuild *p, const Try *t, GrnGpuError *err)
{
	GrnGpuStatus status = merge_on_gpus(p, t->limit, err);

	if (status == GRN_GPU_MEMORY)
	{
		grn_parts_merge_on_cores(p, NULL, NULL);
		status = GRN_GPU_OK;
	}
	return status;
}

static GrnGpuStatus
try_gpus(GrnPartsBuild *p, uint64_t divide, GrnGpuError *err)
{
	GrnPartTimes *times = &p->job->part_times;
	Try			t = {.divide = divide};
	double		since = grn_seconds();
	GrnGpuStatus status;

	/* An earlier attempt may have begun a later phase. */
	if (p->job->progress->phase != GRN_STEP_PREPARE)
		grn_progress_phase(p->job->progress, GRN_STEP_PREPARE, p->job->rows->n);
	status = choose_parts(p, &t, err);
	if (status == GRN_GPU_OK)
		status = make_parts(p, &t, &since, err);
	since = grn_seconds();
	if (status != GRN_GPU_OK || p->other)
		return status;
	status = build_parts(p, &t, err);
	times->build = grn_lap(&since);
	if (status != GRN_GPU_OK || p->coarse || p->parts.nparts == 1)
		return status;
	status = merge_parts(p, &t, err);
	times->merge = grn_lap(&since);
	return status;
}

GrnGpuStatus
grn_build_parts_on_gpus(GrnGraphJob *job, GrnGpuError *err, GrnFailure *failure)
{
	GrnPartsBuild p;
	GrnGpuStatus status;
	uint64_t	divide = 1;

	grn_parts_begin(&p, job, failure);
	grn_gpu_default_params(&p.params, job->rows->dim);
	p.spread = grn_parts_are_faster(p.team.n, job->rows->n);
	grn_team_note_peak(&p.team);	/* resets the peak of earlier builds */
	p.team.peak_bytes = 0;
	p.fit.dim = job->rows->dim;
	p.fit.rows = grn_has_bit_digests(job->rows) ? GRN_GPU_BIT_DIGESTS :
		p.fit.dim <= GRN_GPU_EXACT_DIMS ? GRN_GPU_EXACT_DIGESTS : GRN_GPU_BYTE_DIGESTS;
	for (;;)
	{
		status = try_gpus(&p, divide, err);
		/* The device that will keep the graph orders the pages by the digests. */
		grn_parts_drop_digests(&p, status == GRN_GPU_OK && job->hold && !p.other && !p.coarse ? 1 : 0);
		grn_parts_free_arenas(&p);
		free(p.fit.projection);
		p.fit.projection = NULL;
		if (failure->sqlstate[0])
			break;
		if (status == GRN_GPU_MEMORY && divide < LEAST_DIVIDE)
			divide *= 2;
		else if (status == GRN_GPU_OK && p.other && p.fit.rows == GRN_GPU_EXACT_DIGESTS)
			p.fit.rows = GRN_GPU_BYTE_DIGESTS;
		else if (status == GRN_GPU_OK && p.coarse && p.fit.rows == GRN_GPU_BYTE_DIGESTS)
			p.fit.rows = GRN_GPU_WIDE_DIGESTS;
		/* Devices that were writing digests to a lost device have failed too. */
		else if (status == GRN_GPU_FAILED && p.team.n > 1 && job->part_times.digests_on_devices && !p.apart)
			p.apart = true;
		else
			break;
		p.other = p.coarse = false;
		/* A device is given up only if the device itself fails, so all devices try again. */
		if (status != GRN_GPU_OK)
			memset(p.team.lost, 0, sizeof(p.team.lost));
	}
	job->times.peak_bytes = p.team.peak_bytes;
	if (status == GRN_GPU_OK)
		*job->params = p.params;
	return status;
}
