/*
 * parts_digests.c - the digests of a build in parts on GPUs: how digests are made, and where
 * digests are kept.
 *
 * A digest has at most 256 bytes a row.  A part's build needs only digests, so a device can hold
 * several times as many rows, and often a single part is enough.  While a GPU digests rows, the GPU
 * also finds the parts of each row.  If memory allows, every device keeps the digests of all rows:
 * each device sends its own digests to the rest of the team.  Otherwise the host keeps the digests,
 * and devices copy them for each part and again for the merge.
 */
#include "builder/parts_impl.h"

#include <stdio.h>
#include <stdlib.h>

#include "builder/gpus.h"

#define PLACES_BYTES ((uint64_t) 4 << 20)	/* bytes of rows whose places are computed on the host
											 * for digests */
/*
 * The largest number of rows to which a projection is fitted.  Half and twice take as long and have
 * the same recall (a million SIFT rows, 200,000 GIST rows).
 */
#define SAMPLE 16384
#define LEAST_SAMPLE 1024		/* smallest number of rows to which a projection is fitted if
								 * memory is short */
/*
 * Items for each thread of a device, and the largest number of rows in an item.  Digests of a
 * million SIFT rows take .022 to .028 s in items of 62,501 rows, with half of PIECES .023 s, with
 * twice .027 s, in items of 16,384 rows .034 s.
 */
#define PIECES 8
#define MOST_PIECE 65536

void
grn_parts_set_piece(GrnPartsBuild *p, uint64_t rows)
{
	p->items.rows = rows / (size_t) (PIECES * GRN_HANDLES * p->team.n) + 1;
	if (p->items.rows > MOST_PIECE)
		p->items.rows = MOST_PIECE;
	p->items.n = (rows + p->items.rows - 1) / p->items.rows;
	p->items.counted = 0;
	grn_progress_done(p->job->progress, 0, p->items.n);
}

void
grn_parts_count_item(GrnPartsBuild *p)
{
	grn_progress_done(p->job->progress, __atomic_add_fetch(&p->items.counted, 1, __ATOMIC_RELAXED), p->items.n);
}

/* Rows in host memory to which a projection is fitted. */
typedef struct FitSample
{
	const GrnRows *rows;
	uint32_t	n;
	float	   *out;			/* [n][dim] */
} FitSample;

static void
fit_range(void *arg, int worker, size_t begin, size_t end)
{
	const FitSample *s = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
		grn_copy_rows(s->rows, s->rows->n * i / s->n, 1, s->out + i * s->rows->dim);
}

uint64_t
grn_parts_merge_bytes(const GrnPartsBuild *p, const GrnGpuFit *fit)
{
	return grn_gpu_kept_bytes(fit, p->job->rows->n) +
		GRN_HANDLES * grn_gpu_merge_bytes(p->job->graph->degree);
}

GrnGpuStatus
grn_parts_fit_digests(GrnPartsBuild *p, uint64_t limit, GrnGpuError *err)
{
	const GrnRows *rows = p->job->rows;
	GrnGpuStatus status = GRN_GPU_FAILED;
	/* Digests that equal the rows need no sample, but the call is needed. */
	uint32_t	n = p->fit.rows == GRN_GPU_EXACT_DIGESTS || p->fit.rows == GRN_GPU_BIT_DIGESTS ? 1 :
		rows->n < SAMPLE ? (uint32_t) rows->n : SAMPLE;
	FitSample	sample = {.rows = rows};
	GrnGpuFit	larger = p->fit;

	/* Larger digests must not force the merge onto the processor. */
	larger.digest_bytes = GRN_GPU_MOST_DIGEST_BYTES;
	p->fit.few_directions = grn_few_directions(rows) || grn_parts_merge_bytes(p, &larger) > limit;
	while (n / 2 >= LEAST_SAMPLE && grn_gpu_fit_bytes(&p->fit, n) > limit)
		n /= 2;
	sample.n = n;
	sample.out = malloc((size_t) n * rows->dim * sizeof(float));
	if (sample.out)
	{
		p->parallel->run(p->parallel, n, GRN_GRAIN, fit_range, &sample);
		for (int i = 0; i < p->team.n && status != GRN_GPU_OK && status != GRN_GPU_TOO_OLD; i++)
			if (!p->team.lost[i])
			{
				status = grn_gpu_fit(grn_open_handle(i, 0), sample.out, n, p->params.seed, &p->fit, err);
				if (status != GRN_GPU_OK && status != GRN_GPU_TOO_OLD)
					grn_team_lose(&p->team, i, err);
			}
	}
	else
		snprintf(err->text, sizeof(err->text), "out of host memory");
	free(sample.out);
	return status;
}

/*
 * Describes where digests go: to all usable devices if devices keep digests, otherwise to the host.
 * keepers: [GRN_MAX_GPUS], filled with the devices that keep digests.
 */
static GrnGpuDigesting
digesting_of(const GrnPartsBuild *p, GrnGpu **keepers)
{
	GrnGpuSource source = grn_gpu_source(p->job->rows);
	GrnGpuDigesting e = {.fit = &p->fit, .keepers = keepers, .digests = p->digests,
		.raw_bytes = grn_gpu_takes(p->job->rows) && grn_gpu_expands(&source) ? (uint32_t) source.row_bytes : 0};

	if (p->cells.n > 0)
	{
		e.cells = &p->cells;
		e.home = p->parts.home;
		e.guest = p->parts.guest;
	}
	for (int i = 0; p->kept > 0 && i < p->team.n; i++)
		if (grn_team_has(&p->team, i))
			keepers[e.nkeepers++] = grn_handle(i, 0);
	return e;
}

static GrnGpuStatus
digest_begin(void *ctx, int device, GrnGpu *gpu, GrnGpuError *err)
{
	GrnPartsBuild *p = ctx;
	GrnGpu	   *keepers[GRN_MAX_GPUS];
	GrnGpuDigesting e;

	(void) device;
	pthread_mutex_lock(&p->finding);
	pthread_mutex_unlock(&p->finding);
	e = digesting_of(p, keepers);
	return grn_gpu_digest_begin(gpu, &e, p->options.memory_limit, err);
}

/* Digests rows whose places are computed on the host: scaled, or of a form no device takes. */
static GrnGpuStatus
digest_places(GrnPartsBuild *p, GrnGpu *gpu, const GrnGpuDigesting *e, uint64_t first, uint64_t n,
			  bool *other, GrnGpuError *err)
{
	const GrnRows *rows = p->job->rows;
	uint64_t	batch = PLACES_BYTES / (4 * (uint64_t) rows->dim);
	GrnGpuStatus status = GRN_GPU_OK;
	float	   *copy = malloc(batch * rows->dim * sizeof(float));
	GrnGpuSource source = {.base = copy, .row_bytes = rows->dim * sizeof(float), .numbers = GRN_NUMBERS_FLOATS};

	if (!copy)
	{
		snprintf(err->text, sizeof(err->text), "out of host memory");
		return GRN_GPU_FAILED;
	}
	for (uint64_t end = first + n; first < end && status == GRN_GPU_OK && !*other; first += batch)
	{
		uint64_t	count = end - first < batch ? end - first : batch;

		grn_copy_rows(rows, first, count, copy);
		status = grn_gpu_digest(gpu, e, &source, 0, count, first, other, err);
	}
	free(copy);
	return status;
}

static GrnGpuStatus
digest_item(void *ctx, int device, GrnGpu *gpu, size_t item, GrnGpuError *err)
{
	GrnPartsBuild *p = ctx;
	const GrnRows *rows = p->job->rows;
	GrnGpuSource source = grn_gpu_source(rows);
	GrnGpu	   *keepers[GRN_MAX_GPUS];
	GrnGpuDigesting e = digesting_of(p, keepers);
	uint64_t	first = item * p->items.rows;
	uint64_t	n = rows->n - first < p->items.rows ? rows->n - first : p->items.rows;
	bool		other = __atomic_load_n(&p->other, __ATOMIC_RELAXED);
	GrnGpuStatus status = GRN_GPU_OK;

	(void) device;
	if ((!grn_gpu_takes(rows) || (!grn_gpu_expands(&source) && grn_is_scaled(rows->embedding))) && !other)
		status = digest_places(p, gpu, &e, first, n, &other, err);
	else if (!other)
		status = grn_gpu_digest(gpu, &e, &source, first, n, first, &other, err);
	if (other)
		__atomic_store_n(&p->other, true, __ATOMIC_RELAXED);
	grn_parts_count_item(p);
	return status;
}

void
grn_parts_free_arenas(GrnPartsBuild *p)
{
	for (int i = 0; i < p->team.n; i++)
		for (int handle = 0; handle < GRN_HANDLES; handle++)
			if (grn_handle(i, handle))
				grn_gpu_end(grn_handle(i, handle));
	/* The freed memory must not count in the next step's peak. */
	grn_team_note_peak(&p->team);
}

void
grn_parts_drop_digests(GrnPartsBuild *p, int first)
{
	for (int i = first; i < p->team.n; i++)
		if (grn_handle(i, 0))
			grn_gpu_drop_digests(grn_handle(i, 0));
	p->kept = 0;
}

GrnGpuStatus
grn_parts_keep_digests(GrnPartsBuild *p, uint64_t limit, GrnGpuError *err)
{
	GrnGpuStatus status = GRN_GPU_FAILED;
	int			keepers = 0;

	for (int i = 0; i < p->team.n; i++)
	{
		if (p->team.lost[i])
			continue;
		status = grn_gpu_keep_digests(grn_open_handle(i, 0), &p->fit, p->job->rows->n, limit, err);
		if (status == GRN_GPU_MEMORY)
		{
			grn_parts_drop_digests(p, 0);
			return status;
		}
		keepers += status == GRN_GPU_OK;
		if (status != GRN_GPU_OK)
			grn_team_lose(&p->team, i, err);
	}
	if (keepers == 0)
		return status;
	p->kept = grn_gpu_kept_bytes(&p->fit, p->job->rows->n);
	return GRN_GPU_OK;
}

GrnGpuStatus
grn_parts_digest(GrnPartsBuild *p, uint32_t nparts, uint32_t most, uint64_t capacity,
				 GrnGpuError *err)
{
	const GrnRows *rows = p->job->rows;
	double		since = grn_seconds();
	GrnGpuStatus status;
	GrnTeamStep step;

	/* The devices' second handles open while the host finds the cells. */
	p->cells.n = 0;
	pthread_mutex_init(&p->finding, NULL);
	pthread_mutex_lock(&p->finding);
	grn_team_start(&step, &p->team, GRN_HANDLES, p->items.n, digest_begin, digest_item, p);
	if (nparts > 1)
		grn_parts_cells(rows, nparts, p->overlap, p->params.seed, p->parallel, p->cutting,
						&p->parts, &p->cells);
	pthread_mutex_unlock(&p->finding);
	if (nparts > 1)
		grn_parts_find_landmarks(rows, nparts, p->overlap, p->params.seed, p->parallel, p->cutting,
								 &p->parts);
	p->job->part_times.split += grn_lap(&since);
	if (nparts == 1)
		grn_parts_cut(p, 1, 1, capacity);
	status = grn_team_finish(&step, err);
	pthread_mutex_destroy(&p->finding);
	if (status == GRN_GPU_OK && !p->other && nparts > 1)
	{
		grn_parts_list_members(rows, nparts, p->overlap, p->parallel, p->cutting, &p->parts);
		if (grn_parts_largest(&p->parts) > capacity)
			grn_parts_cut(p, grn_parts_more(nparts, most), most, capacity);
	}
	p->job->part_times.digest = grn_lap(&since);
	return status;
}
