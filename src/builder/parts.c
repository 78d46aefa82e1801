/*
 * parts.c - graphs of more rows than a device, or a limit, has memory for, and
 * builds on several GPUs.
 *
 * Rows are cut into parts that overlap (graph/build/cut.h); each part's graph is
 * built as a whole one is, and of the lists that a row has in two parts one is
 * made.  On GPUs rows become codes first, of at most 256 bytes: a part takes up codes
 * alone, a device holds several times as many rows, and where that is enough there is but
 * one part.  As rows come by to be encoded the GPU finds the parts that they are in, too.
 * Where there is room every device keeps all codes, and hands its own to the others; else
 * they go to the host and from there to each part, and come back for the merge, which is
 * done on the devices if all codes fit beside a batch of lists.
 *
 * Each step is a queue of items that the devices take from (work_queue.h).
 */
#include "builder/parts.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/build/cut.h"
#include "graph/build/descent.h"
#include "graph/build/merge.h"
#include "builder/work_queue.h"

#define PLACES_BYTES ((uint64_t) 4 << 20)	/* inner product: rows copied to be encoded */
#define SAMPLE 16384			/* rows that a projection is fitted to, at most */
#define LEAST_SAMPLE 1024
#define PIECES 8				/* encoded or merged as one item, of a device's share */
#define LEAST_PIECE 4096		/* rows */
#define MOST_PIECE 262144
#define SLACK 1.1				/* a part's size over the mean of all */
#define MOST_UNCUT 3			/* cuts that leave a part of twice the size */
#define LEAST_DIVIDE 8			/* parts get this much smaller where memory runs out */
/*
 * Of many parts more rows lie near a border: the share of rows in two parts, by measured
 * recall (1,000,000 SIFT descriptors, at most 0.002 lost with 3 to 24 parts; 100,000 in 70
 * parts 0.009, with at most 0.7 in 63 parts 0.012).
 */
#define LEAST_OVERLAP 0.3f
#define OVERLAP_PER_PART 0.02f
#define MOST_OVERLAP 0.9f
#define GRAIN 1024
/*
 * So many GPUs share a build of so many rows that one of them could do.  Parts cost about
 * 1.7 times what the whole does, so that fewer gain nothing; of half as many rows four gain
 * 0.1 s once their handles are open, which takes as long (test/bench/graph/limits.md).
 */
#define SPREAD_GPUS 4
#define SPREAD_ROWS 8000000

typedef struct Partition
{
	GrnGraphJob *job;
	GrnParallel *parallel;
	GrnGraphParams params;		/* completed */
	GrnGpuOptions options;		/* of a part's build */
	GrnTeam		team;
	GrnGpuFit	fit;
	bool		coded;			/* else parts are built from floats */
	uint64_t	kept;			/* bytes of codes that stay on each device; 0: codes has them */
	uint8_t    *codes;			/* [n][fit.code_bytes] */
	GrnCells	cells;			/* n = 0: one part */
	pthread_mutex_t finding;	/* held until they are found */
	bool		other;			/* rows are no integers 0..255 */
	bool		coarse;			/* GrnGpuTimes.coarse of a part */
	bool		spread;			/* all would fit one device: for speed alone */
	bool		apart;			/* no device writes to another */
	float		overlap;		/* share of rows that are in two parts */
	size_t		piece;			/* rows of an item */
	GrnParts	parts;
	uint32_t	by_size[GRN_MAX_PARTS];	/* parts, largest first */
	uint32_t   *lists;			/* [members][degree] */
	uint8_t    *counts;			/* [members] */
	uint64_t	rounds;			/* of all parts, done by GPUs */
	uint64_t	finished;		/* parts that cores have built */
	GrnFailure *failure;
} Partition;

static uint64_t
aligned(uint64_t bytes)
{
	return (bytes + 63) & ~UINT64_C(63);
}

static uint64_t
members_bytes(const GrnGraphJob *job, float overlap)
{
	/* members are what the parts' arrays hold beside home and guest */
	uint64_t	most = grn_parts_kept(job->rows->n, overlap) / sizeof(uint32_t);

	most -= 2 * job->rows->n;
	return aligned(most * job->graph->degree * sizeof(uint32_t)) + aligned(most);
}

/* The rows of an item where there are so many in all. */
static void
set_piece(Partition *p, uint64_t rows)
{
	p->piece = rows / (size_t) (PIECES * GRN_LANES * p->team.n) + 1;
	p->piece = p->piece < LEAST_PIECE ? LEAST_PIECE : p->piece > MOST_PIECE ? MOST_PIECE : p->piece;
}

static GrnGpuStatus
run_queue(Partition *p, int lanes, size_t nitems, GrnBeginFn begin, GrnItemFn item, GrnGpuError *err)
{
	GrnQueue	q;

	grn_queue_start(&q, &p->team, lanes, nitems, begin, item, p);
	return grn_queue_finish(&q, err);
}

/* ---- codes ---- */

/* Rows to fit a projection to, in host memory. */
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

/* What the merge takes of a device at least. */
static uint64_t
merge_bytes(const Partition *p, const GrnGpuFit *fit)
{
	return grn_gpu_kept_bytes(fit, p->job->rows->n) +
		GRN_LANES * grn_gpu_merge_bytes(p->job->graph->degree);
}

static GrnGpuStatus
fit_codes(Partition *p, uint64_t limit, GrnGpuError *err)
{
	const GrnRows *rows = p->job->rows;
	GrnGpuStatus status = GRN_GPU_FAILED;
	/* exact codes need no sample, but the call */
	uint32_t	n = p->fit.rows == GRN_GPU_EXACT_CODES ? 1 :
		rows->n < SAMPLE ? (uint32_t) rows->n : SAMPLE;
	FitSample	sample = {.rows = rows};
	GrnGpuFit	larger = p->fit;

	/* also where larger codes would leave the merge to the processor */
	larger.code_bytes = GRN_GPU_MOST_CODE_BYTES;
	p->fit.few = grn_few_directions(rows) || merge_bytes(p, &larger) > limit;
	while (n / 2 >= LEAST_SAMPLE && grn_gpu_fit_bytes(&p->fit, n) > limit)
		n /= 2;
	sample.n = n;
	sample.out = malloc((size_t) n * rows->dim * sizeof(float));
	if (sample.out)
	{
		p->parallel->run(p->parallel, n, GRAIN, fit_range, &sample);
		for (int i = 0; i < p->team.n && status != GRN_GPU_OK && status != GRN_GPU_TOO_OLD; i++)
			if (!p->team.lost[i])
			{
				status = grn_gpu_fit(grn_open_lane(i, 0), sample.out, n, p->params.seed, &p->fit, err);
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
 * Where codes go: to all devices that have not failed, if they keep them.  keepers:
 * [GRN_MAX_GPUS], of which the encoding uses some.
 */
static GrnGpuEncoding
encoding_of(const Partition *p, GrnGpu **keepers)
{
	GrnGpuEncoding e = {.fit = &p->fit,.keepers = keepers,.codes = p->codes};

	if (p->cells.n > 0)
	{
		e.cells = &p->cells;
		e.home = p->parts.home;
		e.guest = p->parts.guest;
	}
	for (int i = 0; p->kept > 0 && i < p->team.n; i++)
		if (grn_team_has(&p->team, i))
			keepers[e.nkeepers++] = grn_lane(i, 0);
	return e;
}

static GrnGpuStatus
encode_begin(void *ctx, int device, GrnGpu *gpu, GrnGpuError *err)
{
	Partition  *p = ctx;
	GrnGpu	   *keepers[GRN_MAX_GPUS];
	GrnGpuEncoding e;

	(void) device;
	pthread_mutex_lock(&p->finding);
	pthread_mutex_unlock(&p->finding);
	e = encoding_of(p, keepers);
	return grn_gpu_encode_begin(gpu, &e, &p->options, err);
}

/* Rows that are elsewhere in the space: by way of copies. */
static GrnGpuStatus
encode_places(Partition *p, GrnGpu *gpu, const GrnGpuEncoding *e, uint64_t first, uint64_t n,
			  bool *other, GrnGpuError *err)
{
	const GrnRows *rows = p->job->rows;
	uint64_t	batch = PLACES_BYTES / (4 * (uint64_t) rows->dim);
	GrnGpuStatus status = GRN_GPU_OK;
	float	   *copy = malloc(batch * rows->dim * sizeof(float));
	GrnGpuSource source = {copy, NULL, rows->dim};

	if (!copy)
	{
		snprintf(err->text, sizeof(err->text), "out of host memory");
		return GRN_GPU_FAILED;
	}
	for (uint64_t end = first + n; first < end && status == GRN_GPU_OK && !*other; first += batch)
	{
		uint64_t	count = end - first < batch ? end - first : batch;

		grn_copy_rows(rows, first, count, copy);
		status = grn_gpu_encode(gpu, e, &source, 0, count, first, other, err);
	}
	free(copy);
	return status;
}

static GrnGpuStatus
encode_item(void *ctx, int device, GrnGpu *gpu, size_t item, GrnGpuError *err)
{
	Partition  *p = ctx;
	const GrnRows *rows = p->job->rows;
	GrnGpuSource source = {rows->base, rows->order, rows->stride};
	GrnGpu	   *keepers[GRN_MAX_GPUS];
	GrnGpuEncoding e = encoding_of(p, keepers);
	uint64_t	first = item * p->piece;
	uint64_t	n = rows->n - first < p->piece ? rows->n - first : p->piece;
	bool		other = __atomic_load_n(&p->other, __ATOMIC_RELAXED);
	GrnGpuStatus status = GRN_GPU_OK;

	(void) device;
	if (rows->scaled && !other)
		status = encode_places(p, gpu, &e, first, n, &other, err);
	else if (!other)
		status = grn_gpu_encode(gpu, &e, &source, first, n, first, &other, err);
	if (other)
		__atomic_store_n(&p->other, true, __ATOMIC_RELAXED);
	return status;
}

/* What steps leave for the next ones. */
static void
free_arenas(Partition *p)
{
	for (int i = 0; i < p->team.n; i++)
		for (int lane = 0; lane < GRN_LANES; lane++)
			if (grn_lane(i, lane))
				grn_gpu_end(grn_lane(i, lane));
	/* what they were is no part of the next step's peak */
	grn_team_note_peak(&p->team);
}

static void
drop_codes(Partition *p)
{
	for (int i = 0; i < p->team.n; i++)
		if (grn_lane(i, 0))
			grn_gpu_drop_codes(grn_lane(i, 0));
	p->kept = 0;
}

/*
 * Room for all rows' codes on all devices, each of which may take limit bytes.  A device
 * that fails is lost, but if there is no memory nobody keeps codes.
 */
static GrnGpuStatus
keep_codes(Partition *p, uint64_t limit, GrnGpuError *err)
{
	GrnGpuOptions options = p->options;
	GrnGpuStatus status = GRN_GPU_FAILED;
	int			keepers = 0;

	options.memory_limit = limit;
	for (int i = 0; i < p->team.n; i++)
	{
		if (p->team.lost[i])
			continue;
		status = grn_gpu_keep_codes(grn_open_lane(i, 0), &p->fit, p->job->rows->n, &options, err);
		if (status == GRN_GPU_MEMORY)
		{
			drop_codes(p);
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

/* ---- parts ---- */

static bool
part_progress(void *ctx, uint64_t round, uint64_t rounds)
{
	Partition  *p = ctx;
	const GrnHost *host = p->job->host;

	(void) round;
	host->phase(host->ctx, GRN_PHASE_DESCENT,
				__atomic_add_fetch(&p->rounds, 1, __ATOMIC_RELAXED), rounds * p->parts.nparts);
	return true;
}

typedef struct Naming
{
	const uint32_t *members;
	uint32_t   *ids;
	const uint8_t *counts;
	uint32_t	degree;
} Naming;

/* A part's lists name its members by number; now by row. */
static void
name_range(void *arg, int worker, size_t begin, size_t end)
{
	Naming	   *n = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		uint32_t   *ids = n->ids + i * n->degree;

		for (uint32_t j = 0; j < n->degree; j++)
			ids[j] = j < n->counts[i] ? n->members[ids[j]] : GRN_INVALID_ID;
	}
}

/* Rows and room for the lists of a part. */
static GrnRows
part_rows(const Partition *p, uint32_t part, uint32_t *order, GrnGraph *graph)
{
	GrnRows		rows = *p->job->rows;
	size_t		start = p->parts.start[part];

	rows.n = p->parts.start[part + 1] - start;
	for (size_t i = 0; order && i < rows.n; i++)
		order[i] = p->job->rows->order ?
			p->job->rows->order[p->parts.members[start + i]] : p->parts.members[start + i];
	rows.order = order;
	graph->ids = p->lists + start * p->job->graph->degree;
	graph->counts = p->counts + start;
	graph->n = (uint32_t) rows.n;
	graph->degree = p->job->graph->degree;
	return rows;
}

static void
name_lists(const Partition *p, uint32_t part, const GrnGraph *graph)
{
	Naming		naming = {p->parts.members + p->parts.start[part], graph->ids, graph->counts,
	graph->degree};

	p->parallel->run(p->parallel, graph->n, GRAIN, name_range, &naming);
}

typedef struct Single
{
	const Partition *p;
	size_t		start;			/* of the part */
} Single;

/* A row's only list is the graph's. */
static void
single_range(void *arg, int worker, size_t begin, size_t end)
{
	const Single *s = arg;
	const Partition *p = s->p;
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
	Partition  *p = ctx;
	const GrnGpu *keeper = p->kept > 0 ? grn_lane(device, 0) : NULL;
	uint32_t	part = p->by_size[item];
	GrnGpuTimes times = {0};
	GrnGraph	graph;
	GrnRows		rows = part_rows(p, part, NULL, &graph);
	uint32_t   *order = NULL;
	GrnGpuStatus status;

	/* where codes have turned out too coarse all is done once more */
	if (rows.n == 0 || __atomic_load_n(&p->coarse, __ATOMIC_RELAXED))
		return GRN_GPU_OK;
	status = grn_gpu_begin(gpu, rows.n, rows.dim, &p->options, &p->params, err);
	if (status == GRN_GPU_OK && p->coded)
		status = grn_gpu_coded_rows(gpu, p->codes, keeper, p->parts.members + p->parts.start[part],
									err);
	else if (status == GRN_GPU_OK)
	{
		order = malloc(rows.n * sizeof(*order));
		if (order)
		{
			rows = part_rows(p, part, order, &graph);
			status = grn_upload(gpu, &rows, p->parallel, err);
		}
		else
		{
			snprintf(err->text, sizeof(err->text), "out of host memory");
			status = GRN_GPU_FAILED;
		}
		free(order);
	}
	if (status == GRN_GPU_OK)
		status = grn_gpu_build(gpu, &p->params, &p->options, graph.ids, graph.counts,
							   part_progress, p, &times, err);
	if (status == GRN_GPU_OK && !p->coded)
		name_lists(p, part, &graph);
	/* now, when the cores have little to do: while lists are merged they copy those */
	if (status == GRN_GPU_OK && p->parts.nparts > 1)
	{
		Single		single = {p, p->parts.start[part]};

		p->parallel->run(p->parallel, rows.n, GRAIN, single_range, &single);
	}
	if (times.coarse)
		__atomic_store_n(&p->coarse, true, __ATOMIC_RELAXED);
	return status;
}

static void
sort_by_size(Partition *p)
{
	const GrnParts *parts = &p->parts;

	for (uint32_t i = 0; i < parts->nparts; i++)
	{
		size_t		size = parts->start[i + 1] - parts->start[i];
		uint32_t	j = i;

		for (; j > 0 && parts->start[p->by_size[j - 1] + 1] - parts->start[p->by_size[j - 1]] < size; j--)
			p->by_size[j] = p->by_size[j - 1];
		p->by_size[j] = i;
	}
}

/* ---- merge ---- */

static GrnGpuStatus
merge_begin(void *ctx, int device, GrnGpu *gpu, GrnGpuError *err)
{
	const Partition *p = ctx;

	return grn_gpu_merge_begin(gpu, p->job->graph->degree, grn_lane(device, 0), &p->options, err);
}

/* What devices that keep codes need beside them; one that fails is lost if there are others. */
static GrnGpuStatus
share_codes(Partition *p, GrnGpuError *err)
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
				keepers[n++] = grn_lane(i, 0);
			}
		if (n == 0)
			return GRN_GPU_FAILED;
		status = grn_gpu_share_codes(keepers, n, &p->fit, p->codes, &failed, err);
		if (status == GRN_GPU_OK || status == GRN_GPU_MEMORY)
			return status;
		grn_team_lose(&p->team, devices[failed], err);
	}
}

/* Rows with two lists; they come by part, so that what their lists name is near. */
static GrnGpuStatus
merge_item(void *ctx, int device, GrnGpu *gpu, size_t item, GrnGpuError *err)
{
	Partition  *p = ctx;
	const GrnParts *parts = &p->parts;
	const GrnGraph *graph = p->job->graph;
	GrnGpuMerge merge = {.lists = p->lists,.ids = graph->ids,.counts = graph->counts};
	size_t		first = item * p->piece;
	size_t		last = first + p->piece;
	uint32_t   *rows = malloc(3 * p->piece * sizeof(*rows));
	uint32_t   *home = rows + p->piece;
	uint32_t   *guest = home + p->piece;
	size_t		before = 0;		/* guests of earlier parts */
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
			size_t		place = parts->guests[part] + i;
			uint32_t	v = parts->members[place];

			home[merge.count] = parts->home[v];
			guest[merge.count] = (uint32_t) place;
			rows[merge.count++] = v;
		}
		before += n;
	}
	merge.rows = rows;
	merge.places[0] = home;
	merge.places[1] = guest;
	status = grn_gpu_merge(gpu, &p->fit, &merge, p->job->fill, err);
	free(rows);
	return status;
}

static GrnGpuStatus
merge_on_gpus(Partition *p, uint64_t limit, GrnGpuError *err)
{
	uint64_t	guests = 0;
	GrnGpuStatus status = GRN_GPU_OK;

	if (!p->coded || merge_bytes(p, &p->fit) > limit)
		return GRN_GPU_MEMORY;
	if (p->kept == 0)
	{
		free_arenas(p);
		status = keep_codes(p, limit, err);
	}
	if (status == GRN_GPU_OK)
		status = share_codes(p, err);
	if (status != GRN_GPU_OK)
		return status;
	p->options.memory_limit = (limit - p->kept) / GRN_LANES;
	for (uint32_t c = 0; c < p->parts.nparts; c++)
		guests += p->parts.others[c] - p->parts.guests[c];
	set_piece(p, guests);
	return run_queue(p, GRN_LANES, (guests + p->piece - 1) / p->piece, merge_begin, merge_item, err);
}

static void
merge_on_cores(Partition *p)
{
	GrnTile		tile;

	grn_tile_floats(&tile, p->job->rows);
	grn_parts_merge(&tile, &p->parts, p->lists, p->parallel, p->job->graph);
}

/* ---- all steps ---- */

/* The largest part that fits into limit. */
static uint64_t
capacity_of(const Partition *p, uint64_t limit)
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

/* How many parts are needed where none may have more than capacity rows; 0: too many. */
static uint32_t
parts_for(uint64_t n, float overlap, uint64_t capacity)
{
	double		members = (double) n * (1 + (double) overlap) * SLACK;
	uint32_t	parts = 2;

	if (capacity >= n)
		return 1;
	while (parts <= GRN_MAX_PARTS && members >
		   parts * ((double) capacity + 1 - (double) grn_parts_landmarks(n, parts)))
		parts++;
	return parts > GRN_MAX_PARTS || capacity * GRN_MAX_PARTS < n ? 0 : parts;
}

/* Raises the overlap to what so many parts need; false where it was enough. */
static bool
raise_overlap(Partition *p, uint32_t nparts)
{
	float		overlap = fminf(LEAST_OVERLAP + OVERLAP_PER_PART * (float) nparts, MOST_OVERLAP);

	if (p->job->choice->overlap > 0 || overlap <= p->overlap)
		return false;
	p->overlap = overlap;
	return true;
}

/* The most parts that cut() tries after nparts turned out too large. */
static uint32_t
most_parts(uint32_t nparts)
{
	return 2 * nparts + 2 < GRN_MAX_PARTS ? 2 * nparts + 2 : GRN_MAX_PARTS;
}

/* How many parts are tried next. */
static uint32_t
more_parts(uint32_t nparts, uint32_t most)
{
	return nparts + nparts / 8 + 1 < most ? nparts + nparts / 8 + 1 : most;
}

/*
 * Cuts rows, on cores, until no part is larger than capacity, of which nparts hold all rows.
 * w: grn_parts_bytes() of most.
 */
static void
cut(Partition *p, uint32_t nparts, uint32_t most, uint64_t capacity, void *w)
{
	const GrnRows *rows = p->job->rows;
	uint64_t	largest;
	int			uncut = 0;

	for (;; nparts = more_parts(nparts, most))
	{
		grn_parts_make(rows, nparts, p->overlap, p->params.seed, p->parallel, w, &p->parts);
		largest = grn_parts_largest(&p->parts);
		if (largest <= capacity)
			return;
		/* no border parts so many, whatever the cells, or there are no more parts */
		uncut += largest > 2 * capacity;
		if (uncut == MOST_UNCUT || nparts == most)
			break;
	}
	/* fewer cells leave more parts to deal out to; of one there are enough */
	while (!grn_parts_deal(rows, most, p->overlap, capacity, p->parallel, w, &p->parts))
	{
		nparts /= 2;
		grn_parts_make(rows, nparts, p->overlap, p->params.seed, p->parallel, w, &p->parts);
	}
}

static double
lap(double *since)
{
	double		start = *since;

	*since = grn_seconds();
	return *since - start;
}

/* Rows to codes and into parts none of which is larger than capacity. */
static GrnGpuStatus
encode(Partition *p, uint32_t nparts, uint32_t most, uint64_t capacity, void *w, GrnGpuError *err)
{
	const GrnRows *rows = p->job->rows;
	double		since = grn_seconds();
	GrnGpuStatus status;
	GrnQueue	q;

	/* the devices' second handles open meanwhile */
	p->cells.n = 0;
	pthread_mutex_init(&p->finding, NULL);
	pthread_mutex_lock(&p->finding);
	grn_queue_start(&q, &p->team, GRN_LANES, (rows->n + p->piece - 1) / p->piece, encode_begin,
					encode_item, p);
	if (nparts > 1)
		grn_parts_cells(rows, nparts, p->overlap, p->params.seed, p->parallel, w, &p->parts,
						&p->cells);
	pthread_mutex_unlock(&p->finding);
	if (nparts > 1)
		grn_parts_find_landmarks(rows, nparts, p->overlap, p->params.seed, p->parallel, w, &p->parts);
	p->job->part_times.split += lap(&since);
	if (nparts == 1)
		cut(p, 1, 1, capacity, w);
	status = grn_queue_finish(&q, err);
	pthread_mutex_destroy(&p->finding);
	if (status == GRN_GPU_OK && !p->other && nparts > 1)
	{
		grn_parts_place(rows, nparts, p->overlap, p->parallel, w, &p->parts);
		if (grn_parts_largest(&p->parts) > capacity)
			cut(p, more_parts(nparts, most), most, capacity, w);
	}
	p->job->part_times.encode = lap(&since);
	return status;
}

/* The least that any device may take; one that cannot say is lost. */
static GrnGpuStatus
least_limit(Partition *p, uint64_t *limit, GrnGpuError *err)
{
	GrnGpuStatus status = GRN_GPU_FAILED;

	*limit = UINT64_MAX;
	for (int i = 0; i < p->team.n; i++)
	{
		uint64_t	here;

		if (p->team.lost[i])
			continue;
		status = grn_gpu_limit(grn_open_lane(i, 0), &p->job->choice->options, &here, err);
		if (status != GRN_GPU_OK)
			grn_team_lose(&p->team, i, err);
		else if (here < *limit)
			*limit = here;
	}
	return *limit < UINT64_MAX ? GRN_GPU_OK : status;
}

/*
 * Lets the codes stay on the devices, from where parts and the merge take them, if the parts
 * need not be more for that; *capacity becomes what is left for one.
 */
static GrnGpuStatus
stay(Partition *p, uint64_t limit, uint32_t nparts, int lanes, uint64_t divide, uint64_t *capacity,
	 GrnGpuError *err)
{
	uint64_t	n = p->job->rows->n;
	uint64_t	kept = grn_gpu_kept_bytes(&p->fit, n);
	uint64_t	left = kept < limit ? capacity_of(p, (limit - kept) / (uint64_t) lanes) / divide : 0;
	uint32_t	needed = parts_for(n, p->overlap, left);
	GrnGpuStatus status;

	if (needed == 0 || needed > nparts || p->apart)
		return GRN_GPU_OK;
	status = keep_codes(p, limit, err);
	if (status == GRN_GPU_OK)
		*capacity = left;
	return status == GRN_GPU_MEMORY ? GRN_GPU_OK : status;
}

/* One try, with rows as the fit says and parts of 1/divide of the limit. */
static GrnGpuStatus
try_gpus(Partition *p, uint64_t divide, GrnGpuError *err)
{
	GrnGraphJob *job = p->job;
	GrnPartTimes *times = &job->part_times;
	uint64_t	n = job->rows->n;
	uint64_t	limit;
	uint64_t	capacity;
	uint64_t	codes = 0;
	uint64_t	room;
	uint32_t	nparts;
	int			lanes = 1;
	double		since = grn_seconds();
	char	   *w;
	GrnGpuStatus status = least_limit(p, &limit, err);

	if (status != GRN_GPU_OK)
		return status;
	p->options.rows = p->fit.rows;
	p->coded = p->fit.rows != GRN_GPU_FLOATS;
	if (p->coded)
		status = fit_codes(p, limit, err);
	if (status != GRN_GPU_OK)
		return status;
	p->options.code_dims = p->fit.code_dims;
	capacity = capacity_of(p, limit) / divide;
	if (capacity < n || p->spread)
	{
		/* two builds on a device: one copies while the other one computes */
		lanes = GRN_LANES;
		capacity = capacity_of(p, limit / lanes) / divide;
	}
	do
		nparts = parts_for(n, p->overlap, capacity);
	while (raise_overlap(p, nparts));
	if (nparts == 0)
	{
		snprintf(err->text, sizeof(err->text),
				 "%.1f GB of device memory may be used, too little even for %d parts",
				 (double) limit / 1e9, GRN_MAX_PARTS);
		return GRN_GPU_MEMORY;
	}
	/* as many for each, where there are few */
	if (lanes > 1)
	{
		uint32_t	workers = (uint32_t) (p->team.n * lanes);

		if ((nparts + workers - 1) / workers * workers <= GRN_MAX_PARTS)
			nparts = (nparts + workers - 1) / workers * workers;
	}
	if (p->coded)
		status = stay(p, limit, nparts, lanes, divide, &capacity, err);
	if (status != GRN_GPU_OK)
		return status;
	times->stayed = p->kept > 0;
	if (p->coded && p->kept == 0)
		codes = aligned(n * p->fit.code_bytes);
	room = grn_parts_kept(n, p->overlap) + members_bytes(job, p->overlap);
	if (room < grn_parts_bytes(n, job->rows->dim, most_parts(nparts), p->overlap))
		room = grn_parts_bytes(n, job->rows->dim, most_parts(nparts), p->overlap);
	w = job->host->need(job->host->ctx, GRN_SEG_WORK, job->work_offset + 64 + codes + room, p->failure);
	if (!w)
		return GRN_GPU_FAILED;
	w += aligned(job->work_offset);
	p->codes = codes ? (uint8_t *) w : NULL;
	w += codes;
	set_piece(p, n);
	p->options.memory_limit = (limit - p->kept) / GRN_LANES;
	times->split = lap(&since);
	if (p->coded)
		status = encode(p, nparts, most_parts(nparts), capacity, w, err);
	else
	{
		cut(p, nparts, most_parts(nparts), capacity, w);
		times->split += lap(&since);
	}
	since = grn_seconds();
	if (status != GRN_GPU_OK || p->other)
		return status;

	sort_by_size(p);
	times->nparts = p->parts.nparts;
	times->members = p->parts.start[p->parts.nparts];
	p->lists = (uint32_t *) (w + grn_parts_kept(n, p->overlap));
	p->counts = (uint8_t *) (p->lists + (size_t) times->members * job->graph->degree);
	if (p->parts.nparts == 1)
	{
		p->lists = job->graph->ids;
		p->counts = job->graph->counts;
	}
	p->rounds = 0;
	p->options.memory_limit = (limit - p->kept) / (uint64_t) lanes;
	if (lanes < GRN_LANES)
		free_arenas(p);
	status = run_queue(p, lanes, p->parts.nparts, NULL, build_item, err);
	times->build = lap(&since);
	if (status != GRN_GPU_OK || p->coarse || p->parts.nparts == 1)
		return status;

	status = merge_on_gpus(p, limit, err);
	if (status == GRN_GPU_MEMORY)
	{
		merge_on_cores(p);
		status = GRN_GPU_OK;
	}
	times->merge = lap(&since);
	return status;
}

/* Completed parameters, the devices, and the overlap. */
static void
begin_job(Partition *p, GrnGraphJob *job, GrnFailure *failure)
{
	memset(p, 0, sizeof(*p));
	p->job = job;
	p->parallel = grn_pool_parallel(job->pool);
	p->params = *job->params;
	p->options = job->choice->options;
	p->options.fill = job->fill;
	p->overlap = job->choice->overlap > 0 ? job->choice->overlap : LEAST_OVERLAP;
	p->failure = failure;
	p->team.n = job->gpu ? grn_open_gpus() : 0;
	p->team.host = job->host;
	memset(&job->part_times, 0, sizeof(job->part_times));
	failure->sqlstate[0] = '\0';
}

bool
grn_partition_spreads(const GrnGraphJob *job)
{
	return grn_open_gpus() >= SPREAD_GPUS && job->rows->n >= SPREAD_ROWS;
}

GrnGpuStatus
grn_partition_gpus(GrnGraphJob *job, GrnGpuError *err, GrnFailure *failure)
{
	Partition	p;
	GrnGpuStatus status;
	uint64_t	divide = 1;

	begin_job(&p, job, failure);
	grn_gpu_default_params(&p.params, job->rows->dim, job->rows->n);
	p.spread = grn_partition_spreads(job);
	grn_team_note_peak(&p.team);	/* of builds before */
	p.team.peak_bytes = 0;
	p.fit.dim = job->rows->dim;
	p.fit.rows = p.options.mode == GRN_GPU_PAPER ? GRN_GPU_FLOATS :
		p.fit.dim <= GRN_GPU_EXACT_DIMS ? GRN_GPU_EXACT_CODES : GRN_GPU_BYTE_CODES;
	for (;;)
	{
		status = try_gpus(&p, divide, err);
		drop_codes(&p);
		free_arenas(&p);
		free(p.fit.projection);
		p.fit.projection = NULL;
		if (failure->sqlstate[0])
			break;
		if (status == GRN_GPU_TOO_OLD && p.fit.rows != GRN_GPU_FLOATS)
			p.fit.rows = GRN_GPU_FLOATS;
		else if (status == GRN_GPU_MEMORY && divide < LEAST_DIVIDE)
			divide *= 2;
		else if (status == GRN_GPU_OK && p.other && p.fit.rows == GRN_GPU_EXACT_CODES)
			p.fit.rows = GRN_GPU_BYTE_CODES;
		else if (status == GRN_GPU_OK && p.coarse && p.fit.rows == GRN_GPU_BYTE_CODES)
			p.fit.rows = GRN_GPU_WIDE_CODES;
		/* a device that was lost took those along that were writing to it */
		else if (status == GRN_GPU_FAILED && p.team.n > 1 && job->part_times.stayed && !p.apart)
			p.apart = true;
		else
			break;
		p.other = p.coarse = false;
		/* only that it fails by itself is a reason to do without a device */
		if (status != GRN_GPU_OK)
			memset(p.team.lost, 0, sizeof(p.team.lost));
	}
	job->times.peak_bytes = p.team.peak_bytes;
	if (status == GRN_GPU_OK)
		*job->params = p.params;
	return status;
}

/* ---- the processor's cores ---- */

static bool
cores_progress(void *ctx, GrnPhase phase, uint64_t done, uint64_t total)
{
	Partition  *p = ctx;

	(void) phase;
	/* a part may start over */
	p->job->host->phase(p->job->host->ctx, GRN_PHASE_DESCENT, p->finished * total + done,
						total * p->parts.nparts);
	return true;
}

bool
grn_partition_cores(GrnGraphJob *job, uint64_t limit, GrnFailure *failure)
{
	Partition	p;
	uint64_t	n = job->rows->n;
	uint64_t	fixed;
	uint64_t	room;
	uint64_t	each;
	uint64_t	capacity;
	uint32_t	nparts;
	double		since = grn_seconds();
	char	   *w;

	begin_job(&p, job, failure);
	grn_default_params(&p.params, job->rows->dim, n);
	do
	{
		fixed = grn_parts_kept(n, p.overlap) + members_bytes(job, p.overlap);
		/* what parts take beside their lists; a quarter of the limit if that is too little */
		each = limit > fixed && limit - fixed > limit / 4 ? limit - fixed : limit / 4;
		capacity = n;
		while (capacity > 1 && capacity * sizeof(uint32_t) + 192 +
			   grn_rnnd_bytes(&p.params, capacity, job->rows->dim) > each)
			capacity -= capacity / 64 + 1;
		nparts = parts_for(n, p.overlap, capacity);
	} while (raise_overlap(&p, nparts));
	if (nparts == 0)
	{
		/* beyond the limit, as little as there can be */
		nparts = GRN_MAX_PARTS;
		capacity = (uint64_t) ((double) n * (1 + (double) p.overlap) * SLACK / nparts) + 1;
	}
	room = fixed + aligned(capacity * sizeof(uint32_t)) +
		aligned(grn_rnnd_bytes(&p.params, capacity, job->rows->dim));
	if (room < grn_parts_bytes(n, job->rows->dim, most_parts(nparts), p.overlap))
		room = grn_parts_bytes(n, job->rows->dim, most_parts(nparts), p.overlap);
	w = job->host->need(job->host->ctx, GRN_SEG_WORK, job->work_offset + 64 + room, failure);
	if (!w)
		return false;
	w += aligned(job->work_offset);
	cut(&p, nparts, most_parts(nparts), capacity, w);
	sort_by_size(&p);
	p.lists = (uint32_t *) (w + grn_parts_kept(n, p.overlap));
	p.counts = (uint8_t *) (p.lists + p.parts.start[p.parts.nparts] * job->graph->degree);
	w += fixed;
	job->part_times.split = lap(&since);
	job->part_times.nparts = p.parts.nparts;
	job->part_times.members = p.parts.start[p.parts.nparts];
	for (uint32_t i = 0; i < p.parts.nparts; i++)
	{
		GrnGraph	graph;
		GrnRows		rows = part_rows(&p, p.by_size[i], (uint32_t *) w, &graph);

		grn_rnnd_build(&rows, &p.params, job->fill, p.parallel,
					   w + aligned(capacity * sizeof(uint32_t)), &graph, cores_progress, &p);
		name_lists(&p, p.by_size[i], &graph);
		p.finished++;
	}
	job->part_times.build = lap(&since);
	merge_on_cores(&p);
	job->part_times.merge = lap(&since);
	*job->params = p.params;
	return true;
}
