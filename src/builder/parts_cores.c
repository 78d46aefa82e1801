/*
 * parts_cores.c - builds in parts on the processor's cores, part after part.
 */
#include "builder/parts_impl.h"

#include "graph/descent.h"
#include "memory/memory.h"

static void
cores_progress(void *ctx, uint64_t done, uint64_t total)
{
	GrnPartsBuild *p = ctx;

	/* The cut counts as a part.  A part's count starts anew with each part. */
	grn_progress_done(p->job->progress, (1 + p->finished) * total + done, total * (1 + p->parts.nparts));
}

/* Parts that are built in sequence. */
typedef struct Series
{
	uint32_t	nparts;
	uint64_t	capacity;		/* largest number of rows in a part */
	uint32_t	copied;			/* grn_copied_dims() */
	GrnProject	project;		/* projection of all rows, if copied > 0 */
	void	   *fit;			/* workspace of the projection's fit; its first bytes are kept */
	uint32_t   *order;			/* [capacity] rows of the part in work */
	void	   *workspace;		/* workspace of the part's descent */
	void	   *merge;			/* workspace of the merge if the merge compares projections,
								 * otherwise NULL */
} Series;

/* Chooses the smallest number of parts for which the workspace stays under `limit` bytes. */
static void
choose_parts(GrnPartsBuild *p, uint64_t limit, Series *s)
{
	uint64_t	n = p->job->rows->n;

	do
	{
		GrnArena	lists = grn_arena(NULL);
		uint64_t	each;

		grn_parts_take_lists(p, &lists);
		/* Memory for a part's build: the limit less the lists, at least a quarter of the limit. */
		each = limit > lists.used && limit - lists.used > limit / 4 ? limit - lists.used : limit / 4;
		s->capacity = n;
		while (s->capacity > 1 && s->capacity * sizeof(uint32_t) + 3 * GRN_ALIGNMENT +
			   grn_rnnd_part_bytes(&p->params, s->capacity, s->copied) > each)
			s->capacity -= s->capacity / 64 + 1;
		s->nparts = grn_parts_needed(n, p->overlap, s->capacity);
	} while (grn_parts_raise_overlap(p, s->nparts));
	if (s->nparts == 0)
	{
		/* The limit cannot be kept: the largest number of parts needs the least memory. */
		s->nparts = GRN_MAX_PARTS;
		s->capacity = (uint64_t) ((double) n * (1 + (double) p->overlap) * GRN_PART_SLACK /
								  s->nparts) + 1;
	}
}

/* Lets the arrays of two arenas share the same bytes. */
static void
use_more(GrnArena *a, const GrnArena *other)
{
	a->used = a->used > other->used ? a->used : other->used;
}

/*
 * Lays out the workspace and returns its size in bytes.  The fit of the projection, the cut, the
 * builds of parts and the merge run in sequence.  So their arrays share the same bytes, except
 * arrays that a step leaves for the next step.
 */
static size_t
lay_out_series(GrnPartsBuild *p, Series *s, void *workspace)
{
	const GrnRows *rows = p->job->rows;
	GrnArena	fit = grn_arena(workspace);
	GrnArena	a = fit;
	GrnArena	merge;
	GrnArena	cut;

	if (s->copied > 0)
	{
		s->fit = grn_take(&fit, 1, grn_project_bytes(rows->n, rows->dim));
		(void) grn_take(&a, 1, grn_project_kept(rows->dim));
	}
	cut = a;
	cut.used = grn_parts_take_cut(p, a, s->nparts);
	grn_parts_take_lists(p, &a);
	merge = a;
	s->merge = s->copied > 0 && rows->on_disk ? grn_take(&merge, 1, grn_parts_merge_workspace(rows)) : NULL;
	s->order = grn_take(&a, s->capacity, sizeof(uint32_t));
	s->workspace = grn_take(&a, 1, grn_rnnd_part_bytes(&p->params, s->capacity, s->copied));
	use_more(&a, &fit);
	use_more(&a, &cut);
	use_more(&a, &merge);
	return grn_arena_bytes(&a);
}

/*
 * Begins or ends the time of random reads of an array on a disk.  Cells come from a sample, the
 * rows of a part lie in several places, and the merge goes from a row to its neighbors.  Without
 * this hint the kernel would read more pages around each requested page, and drop pages that are
 * needed next.
 */
static void
read_scattered(const GrnPartsBuild *p, const void *begin, const void *end, bool scattered)
{
	if (p->job->rows->on_disk)
		grn_pages_scattered(begin, (size_t) ((const char *) end - (const char *) begin), scattered);
}

bool
grn_build_parts_on_cores(GrnGraphJob *job, uint64_t limit, GrnFailure *failure)
{
	GrnPartsBuild p;
	Series		s;
	double		since = grn_seconds();
	const char *rows = job->rows->base;
	const char *rows_end = (const char *) grn_row(job->rows, job->rows->n - 1) + job->rows->row_bytes;
	char	   *w;

	grn_parts_begin(&p, job, failure);
	grn_default_params(&p.params, job->rows->dim, job->rows->n);
	s.copied = grn_copied_dims(job->rows);
	choose_parts(&p, limit, &s);
	w = job->host->need(job->host->ctx, GRN_SEG_WORK, job->work_offset + lay_out_series(&p, &s, NULL),
						failure);
	if (!w)
		return false;
	lay_out_series(&p, &s, w + job->work_offset);
	grn_progress_phase(job->progress, GRN_STEP_DESCENT, job->rows->n);
	grn_progress_done(job->progress, 0, s.nparts + 1);
	read_scattered(&p, rows, rows_end, true);
	if (s.copied > 0)
		grn_project_fit(&s.project, job->rows, p.params.seed, p.parallel, s.fit);
	grn_parts_cut(&p, s.nparts, grn_parts_most(s.nparts), s.capacity);
	grn_parts_report_cut(&p);
	job->part_times.split = grn_lap(&since);
	read_scattered(&p, p.lists, p.counts, true);
	for (uint32_t i = 0; i < p.parts.nparts; i++)
	{
		GrnGraph	graph;
		GrnRows		members = grn_part_rows(&p, p.by_size[i], s.order, &graph);

		if (members.on_disk)
			grn_prefetch_rows(&members, 0, members.n);
		grn_rnnd_build_part(&members, &p.params, job->fill, p.parallel,
							s.copied > 0 ? &s.project : NULL, s.workspace, &graph, cores_progress, &p);
		grn_part_name_lists(&p, p.by_size[i], &graph);
		p.finished++;
	}
	job->part_times.build = grn_lap(&since);
	grn_parts_merge_on_cores(&p, s.merge ? &s.project : NULL, s.merge);
	read_scattered(&p, p.lists, p.counts, false);
	read_scattered(&p, rows, rows_end, false);
	job->part_times.merge = grn_lap(&since);
	*job->params = p.params;
	return true;
}
