/*
 * parts_cores.c - builds in parts on the processor's cores, one part after the other.
 */
#include "builder/parts_impl.h"

#include "graph/build/descent.h"
#include "graph/file_pages.h"

/* Shares of the time, about: when parts are cut, and when they are built. */
#define CUT 0.1
#define CUT_LOOPS 40
#define BUILT 0.9

#define NEXT_BYTES 4096			/* between rows that are asked for together, at most */

static bool
cores_progress(void *ctx, GrnPhase phase, uint64_t done, uint64_t total)
{
	GrnPartsBuild *p = ctx;

	(void) phase;
	/* a part may start over */
	grn_progress_done(p->job->progress, p->finished * total + done, total * p->parts.nparts);
	return true;
}

/* Parts that are built one after the other. */
typedef struct Series
{
	uint32_t	nparts;
	uint64_t	capacity;		/* rows of each, at most */
	uint32_t   *order;			/* [capacity] rows of the one that is built */
	void	   *workspace;		/* of its descent */
} Series;

/* Chooses as few parts as can be, so that the workspace stays under limit bytes. */
static void
choose_parts(GrnPartsBuild *p, uint64_t limit, Series *s)
{
	uint64_t	n = p->job->rows->n;

	do
	{
		GrnArena	lists = grn_arena(NULL);
		uint64_t	each;

		grn_parts_take_lists(p, &lists);
		/* what parts take beside their lists; a quarter of the limit if that is too little */
		each = limit > lists.used && limit - lists.used > limit / 4 ? limit - lists.used : limit / 4;
		s->capacity = n;
		while (s->capacity > 1 && s->capacity * sizeof(uint32_t) + 3 * GRN_ALIGNMENT +
			   grn_rnnd_bytes(&p->params, s->capacity, grn_copied_dims(p->job->rows)) > each)
			s->capacity -= s->capacity / 64 + 1;
		s->nparts = grn_parts_needed(n, p->overlap, s->capacity);
	} while (grn_parts_raise_overlap(p, s->nparts));
	if (s->nparts == 0)
	{
		/* beyond the limit, as little as there can be */
		s->nparts = GRN_MAX_PARTS;
		s->capacity = (uint64_t) ((double) n * (1 + (double) p->overlap) * GRN_PART_SLACK /
								  s->nparts) + 1;
	}
}

/* Lays out the workspace; returns its bytes. */
static size_t
lay_out(GrnPartsBuild *p, Series *s, void *workspace)
{
	GrnArena	a = grn_arena(workspace);
	size_t		cut_end = grn_parts_take_cut(p, a, s->nparts);

	grn_parts_take_lists(p, &a);
	s->order = grn_take(&a, s->capacity, sizeof(uint32_t));
	s->workspace = grn_take(&a, 1, grn_rnnd_bytes(&p->params, s->capacity, grn_copied_dims(p->job->rows)));
	a.used = a.used > cut_end ? a.used : cut_end;
	return grn_arena_bytes(&a);
}

/*
 * Begins and ends the time when rows and lists that lie on a disk are read here and there.  A part
 * has rows of several places, and the merge goes from a row to near ones.  Around each page that
 * they read the kernel would read more, and drop pages for it that the next rows want.
 */
static void
read_scattered(const GrnPartsBuild *p, bool begin)
{
	const GrnRows *rows = p->job->rows;

	if (!p->job->beyond_memory)
		return;
	grn_pages_scattered(rows->base, rows->n * rows->row_bytes, begin);
	grn_pages_scattered(p->lists, (size_t) ((const char *) (p->counts + p->parts.start[p->parts.nparts]) -
											(const char *) p->lists), begin);
}

/* Asks for the rows of a part, which lie on a disk: in stretches, as far as they lie together. */
static void
ask_for_rows(const GrnRows *rows)
{
	size_t		begin = 0;

	for (size_t i = 1; i < rows->n; i++)
	{
		const char *end = (const char *) grn_row(rows, i - 1) + rows->row_bytes;
		const char *row = grn_row(rows, i);

		if (row < end || row > end + NEXT_BYTES)
		{
			grn_rows_ahead(rows, begin, i);
			begin = i;
		}
	}
	grn_rows_ahead(rows, begin, rows->n);
}

bool
grn_build_parts_on_cores(GrnGraphJob *job, uint64_t limit, GrnFailure *failure)
{
	GrnPartsBuild p;
	Series		s;
	double		since = grn_seconds();
	char	   *w;

	grn_parts_begin(&p, job, failure);
	grn_default_params(&p.params, job->rows->dim, job->rows->n);
	choose_parts(&p, limit, &s);
	w = job->host->need(job->host->ctx, GRN_SEG_WORK, job->work_offset + lay_out(&p, &s, NULL),
						failure);
	if (!w)
		return false;
	lay_out(&p, &s, w + job->work_offset);
	grn_progress_phase(job->progress, GRN_PHASE_DESCENT, job->rows->n);
	grn_progress_step(job->progress, CUT, CUT_LOOPS);
	grn_parts_cut(&p, s.nparts, grn_parts_most(s.nparts), s.capacity);
	grn_parts_are_cut(&p);
	job->part_times.split = grn_lap(&since);
	grn_progress_step(job->progress, BUILT, 0);
	read_scattered(&p, true);
	for (uint32_t i = 0; i < p.parts.nparts; i++)
	{
		GrnGraph	graph;
		GrnRows		rows = grn_part_rows(&p, p.by_size[i], s.order, &graph);

		if (job->beyond_memory)
			ask_for_rows(&rows);
		grn_rnnd_build(&rows, &p.params, job->fill, p.parallel, s.workspace, &graph,
					   cores_progress, &p);
		grn_part_name_lists(&p, p.by_size[i], &graph);
		p.finished++;
	}
	job->part_times.build = grn_lap(&since);
	grn_progress_step(job->progress, 1, 1);
	grn_parts_merge_on_cores(&p);
	read_scattered(&p, false);
	job->part_times.merge = grn_lap(&since);
	*job->params = p.params;
	return true;
}
