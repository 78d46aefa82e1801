/*
 * cut_order.c - an order of rows that puts near rows onto one page; see group.h.
 *
 * A cut splits a part of the rows across the direction in which halves of a sample differ most.
 * All rows are cut in two, then each part, as groups of lists are (group.c), but down to pages.
 * Threads take the parts of a level, and once parts are small, each thread cuts some parts down to
 * their pages.  A cut depends only on the rows of its part, so the order does not depend on the
 * number of threads.
 */
#include "store/group.h"

#include <string.h>

#include "memory/memory.h"
#include "store/group_impl.h"

/*
 * Maximum number of rows of a part for one thread, and rows per work item.  One thread orders
 * 20,000 sentences as fast with half and twice.
 */
#define PART 16384
/*
 * Parts per thread in one loop, about.  The build on a GPU shares the threads, and its own loops
 * wait until the running loop ends.
 */
#define PARTS_A_LOOP 8
#define CELLS 64				/* rows on a disk come in 64 cells at most (GRN_MOST_CELLS) */

/* A part of the rows: pages [first, end). */
typedef struct PagePart
{
	uint32_t	first;
	uint32_t	end;
} PagePart;

/* A thread's workspace. */
typedef struct Space
{
	float	   *sample;			/* [GRN_GROUP_SAMPLED][dim] */
	float	   *w;				/* [dim] */
	float	   *row;			/* [dim] */
	float	   *sums;			/* [2][dim] */
} Space;

typedef struct Order
{
	const GrnRows *of;
	uint32_t	n;
	uint32_t	per_page;
	uint32_t   *position;
	uint32_t   *rows;			/* [n] */
	float	   *along;			/* [n] */
	Space	   *spaces;			/* [nworkers] */
	PagePart   *parts;			/* the parts of this level, in order */
	uint32_t	nparts;
	uint32_t	begun;			/* number of parts cut to pages before the current loop */
} Order;

static uint32_t
first_row(const Order *o, uint32_t page)
{
	uint64_t	row = (uint64_t) page * o->per_page;

	return row < o->n ? (uint32_t) row : o->n;
}

/* The first page of a part's second half. */
static uint32_t
middle_page(const PagePart *part)
{
	return part->first + (part->end - part->first) / 2;
}

/* Loads the place of a row as floats. */
static void
load_row(const Order *o, uint32_t node, float *x)
{
	grn_row_place(o->of, grn_row(o->of, node), 0, o->of->dim, x);
}

/*
 * Finds the direction s->w in which halves of a sample of n rows differ most.  Returns false if all
 * rows are equal.
 */
static bool
find_direction(const Order *o, const Space *s, uint32_t first, uint32_t n)
{
	const float *sample[GRN_GROUP_SAMPLED];
	uint32_t	sampled = n < GRN_GROUP_SAMPLED ? n : GRN_GROUP_SAMPLED;

	for (uint32_t i = 0; i < sampled; i++)
	{
		float	   *x = s->sample + (size_t) i * o->of->dim;

		load_row(o, o->rows[first + (uint64_t) n * i / sampled], x);
		sample[i] = x;
	}
	return grn_group_apart(sample, sampled, o->of->dim, s->sums, s->w);
}

static void
begin_range(void *arg, int worker, size_t begin, size_t end)
{
	Order	   *o = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
		o->rows[i] = (uint32_t) i;
}

/* Cuts a part in two. */
static void
cut(const Order *o, int worker, PagePart part)
{
	const Space *s = &o->spaces[worker];
	uint32_t	first = first_row(o, part.first);
	uint32_t	n = first_row(o, part.end) - first;

	if (!find_direction(o, s, first, n))
		return;
	for (uint32_t i = first; i < first + n; i++)
	{
		load_row(o, o->rows[i], s->row);
		o->along[i] = grn_dist->ip_f32(s->w, s->row, o->of->dim);
	}
	grn_group_select(o->rows + first, o->along + first, n, first_row(o, middle_page(&part)) - first);
}

/* Cuts parts [begin, end) of the level in two. */
static void
cut_range(void *arg, int worker, size_t begin, size_t end)
{
	Order	   *o = arg;

	for (size_t i = begin; i < end; i++)
		cut(o, worker, o->parts[i]);
}

/*
 * Cuts a part down to its pages.  Each cut reads the rows where they are: copies of the rows of
 * small parts save a tenth of the time (20,000 sentences, a million rows of 16 dimensions).
 */
static void
cut_down(const Order *o, int worker, PagePart part)
{
	uint32_t	middle = middle_page(&part);

	if (part.end - part.first < 2)
		return;
	cut(o, worker, part);
	cut_down(o, worker, (PagePart) {part.first, middle});
	cut_down(o, worker, (PagePart) {middle, part.end});
}

/* Cuts parts [begin, end) of the loop down to their pages. */
static void
finish_range(void *arg, int worker, size_t begin, size_t end)
{
	Order	   *o = arg;

	for (size_t i = begin; i < end; i++)
		cut_down(o, worker, o->parts[o->begun + i]);
}

static void
place_range(void *arg, int worker, size_t begin, size_t end)
{
	Order	   *o = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
		o->position[o->rows[i]] = (uint32_t) i;
}

/*
 * Cuts each part of a level in two.  Rows on a disk lie cell by cell of the space already, so their
 * first parts are halved where they are.
 */
static void
cut_parts(Order *o, GrnParallel *parallel)
{
	if (!o->of->on_disk || o->nparts >= CELLS)
		parallel->run(parallel, o->nparts, 1, cut_range, o);
	for (uint32_t i = o->nparts; i-- > 0;)
	{
		PagePart	part = o->parts[i];
		uint32_t	middle = middle_page(&part);

		o->parts[2 * i] = (PagePart) {part.first, middle};
		o->parts[2 * i + 1] = (PagePart) {middle, part.end};
	}
	o->nparts *= 2;
}

/* Places the threads' workspaces in an arena.  Returns false if their size overflows. */
static bool
place_spaces(Order *o, GrnArena *a, int nworkers, uint32_t most)
{
	size_t		dim = o->of->dim;

	o->spaces = grn_take(a, (size_t) nworkers, sizeof(*o->spaces));
	o->parts = grn_take(a, most, sizeof(*o->parts));
	for (int i = 0; i < nworkers; i++)
	{
		Space		s;

		s.sample = grn_take(a, GRN_GROUP_SAMPLED, dim * sizeof(float));
		s.w = grn_take(a, dim, sizeof(float));
		s.row = grn_take(a, dim, sizeof(float));
		s.sums = grn_take(a, 2 * dim, sizeof(float));
		if (a->base != NULL)
			o->spaces[i] = s;
	}
	return grn_arena_bytes(a) != GRN_NO_SIZE;
}

bool
grn_cut_order(const GrnRows *rows, uint32_t per_page, uint32_t *position, GrnParallel *parallel, void *workspace)
{
	uint32_t	n = (uint32_t) rows->n;
	Order		o = {.of = rows, .n = n, .per_page = per_page, .position = position};
	uint32_t	pages = n / per_page + (n % per_page > 0);
	uint32_t	most = 1;
	GrnArena	a = grn_arena(NULL);
	void	   *own;

	/* a part has at least one page */
	while (n / most > PART && pages / most > 1)
		most *= 2;
	if (!place_spaces(&o, &a, parallel->nworkers, most) || (own = grn_alloc(grn_arena_bytes(&a))) == NULL)
		return false;
	a = grn_arena(own);
	(void) place_spaces(&o, &a, parallel->nworkers, most);
	a = grn_arena(workspace);
	o.rows = grn_take(&a, n, sizeof(uint32_t));
	o.along = grn_take(&a, n, sizeof(float));
	o.parts[0] = (PagePart) {0, pages};
	o.nparts = 1;
	parallel->run(parallel, n, PART, begin_range, &o);
	while (o.nparts < most)
		cut_parts(&o, parallel);
	for (uint32_t loop = PARTS_A_LOOP * (uint32_t) parallel->nworkers; o.begun < o.nparts; o.begun += loop)
		parallel->run(parallel, o.nparts - o.begun < loop ? o.nparts - o.begun : loop, 1, finish_range, &o);
	parallel->run(parallel, n, PART, place_range, &o);
	grn_free(own);
	return true;
}
