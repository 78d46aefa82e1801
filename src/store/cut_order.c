/*
 * cut_order.c - an order of rows that puts near rows onto one page; see cut_order.h.
 *
 * A cut splits a part of the rows across the direction in which halves of a sample differ most.
 * All rows are cut in two, then each part, as groups of lists are (group.c), but down to pages.
 * First all threads cut all parts together, level by level.  Once parts are small, each thread
 * cuts some parts down to their pages.  A cut depends only on the rows of its part, so the order
 * does not depend on the number of threads.
 *
 * The first cuts use codes if the index has codes: codes have a tenth of the rows' bytes and are
 * exact enough for large parts.  The last cuts use the rows, which show better which rows should
 * share a page: of 150,000 sentences with codes a search at recall .95 then reads 57 pages instead
 * of 66.
 */
#include "store/cut_order.h"

#include <string.h>

#include "memory/arena.h"
#include "memory/memory.h"
#include "store/group_impl.h"

/* Maximum number of rows of a part for one thread, so that the rows' codes stay in its caches. */
#define PART 16384
/* Maximum size of a part that is cut by rows in memory: rows, and bytes of floats. */
#define LEAF 4096
#define LEAF_BYTES ((size_t) 512 << 10)
#define LEAF_SAMPLED 256		/* maximum sample of such a part */
#define GRAIN 4096				/* rows per work item of a projection */
/*
 * Parts per thread in one loop, about.  The build on a GPU shares the threads, and its own loops
 * wait until the running loop ends.
 */
#define PARTS_A_LOOP 8

/*
 * Larger samples than those of groups of lists: 8% fewer pages, measured on the sentences above.
 * Twice this sample saves 1% of the pages, and a quarter costs 9% (test/bench/decisions.md).
 */
static const GrnGroupSampling sampling = {.least = 256, .most = 512, .rows_each = 16};

/* A part of the rows: pages [first, end). */
typedef struct PagePart
{
	uint32_t	first;
	uint32_t	end;
	bool		cuts;			/* the part is cut along the direction; false: all rows are equal */
} PagePart;

/* A thread's workspace for cuts by rows. */
typedef struct Leaf
{
	float	   *values;			/* [rows of a leaf, or of a sample][dim] */
	float	   *w;				/* [dim] */
	float	   *row;			/* [dim] */
	float	   *sums;			/* [2][dim] */
} Leaf;

typedef struct Order
{
	const GrnGrouping *g;		/* NULL: all cuts are by rows */
	const GrnRows *of;			/* the rows; NULL: all cuts are by codes */
	uint32_t	leaf;			/* maximum number of pages of a part that is cut by rows in memory;
								 * 0: none */
	uint32_t	n;
	uint32_t	per_page;
	uint32_t	dims;			/* dimensions of the first cuts */
	uint32_t   *position;
	GrnGrouped *rows;			/* [n] */
	float	   *along;			/* [n] */
	GrnGroupTree *trees;		/* [nworkers] */
	Leaf	   *leaves;			/* [nworkers] */
	PagePart   *parts;			/* the parts of this level, in order */
	uint32_t	nparts;
	uint32_t	begun;			/* number of parts cut to pages before the current loop */
	float	   *directions;		/* [nparts][width] */
	uint32_t	width;			/* dims, and the room that a projection of codes needs */
} Order;

bool
grn_has_code_order(const GrnCodec *codec)
{
	return grn_has_codes(codec) && !grn_codes_exact(codec);
}

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

/* A thread's workspace for cuts of rows from `first` on. */
static GrnGroupTree
tree_at(const Order *o, int worker, uint32_t first)
{
	GrnGroupTree tree = o->trees[worker];

	tree.along = o->along + first;
	return tree;
}

/* Loads the place of a row as floats. */
static void
load_row(const Order *o, uint32_t node, float *x)
{
	grn_row_place(o->of, grn_row(o->of, node), 0, o->of->dim, x);
}

/*
 * Finds the direction w [dims] in which halves of a sample of n rows differ most.  Returns false
 * if all rows are equal.
 */
static bool
find_direction(const Order *o, int worker, uint32_t first, uint32_t n, float *w)
{
	const Leaf *leaf = &o->leaves[worker];
	GrnGroupTree tree = tree_at(o, worker, first);
	const float *sample[GRN_GROUP_SAMPLED];
	uint32_t	sampled = n < LEAF_SAMPLED ? n : LEAF_SAMPLED;

	if (o->g != NULL)
		return grn_group_direction(o->g, &tree, o->rows + first, n, w);
	for (uint32_t i = 0; i < sampled; i++)
	{
		sample[i] = leaf->values + (size_t) i * o->dims;
		load_row(o, o->rows[first + (uint64_t) n * i / sampled].node, leaf->values + (size_t) i * o->dims);
	}
	return grn_group_apart(sample, sampled, o->dims, leaf->sums, w);
}

/* Computes the positions of n rows along w. */
static void
project(const Order *o, int worker, uint32_t first, uint32_t n, const float *w)
{
	float	   *x = o->leaves[worker].row;
	GrnGroupTree tree = tree_at(o, worker, first);
	float		of_codes[GRN_MAX_CODE_DIMS];

	if (o->g != NULL)
	{
		memcpy(of_codes, w, o->dims * sizeof(float));
		grn_group_project(o->g, &tree, o->rows + first, n, of_codes);
		return;
	}
	for (uint32_t i = first; i < first + n; i++)
	{
		load_row(o, o->rows[i].node, x);
		o->along[i] = grn_dist->ip_f32(w, x, o->dims);
	}
}

static void
begin_range(void *arg, int worker, size_t begin, size_t end)
{
	Order	   *o = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
		o->rows[i] = (GrnGrouped) {(uint32_t) i, 0};
}

static void
direct_range(void *arg, int worker, size_t begin, size_t end)
{
	Order	   *o = arg;

	for (size_t i = begin; i < end; i++)
	{
		PagePart   *part = &o->parts[i];
		uint32_t	first = first_row(o, part->first);

		part->cuts = find_direction(o, worker, first, first_row(o, part->end) - first, o->directions + i * o->width);
	}
}

/* Computes the positions of rows [begin, end) along the directions of their parts. */
static void
project_range(void *arg, int worker, size_t begin, size_t end)
{
	Order	   *o = arg;
	uint32_t	page = (uint32_t) (begin / o->per_page);
	uint32_t	i = 0;

	for (uint32_t step = o->nparts; step > 0; step /= 2)
		while (i + step < o->nparts && o->parts[i + step].first <= page)
			i += step;
	for (; begin < end; i++)
	{
		size_t		stop = first_row(o, o->parts[i].end);

		stop = stop < end ? stop : end;
		if (o->parts[i].cuts)
			project(o, worker, (uint32_t) begin, (uint32_t) (stop - begin), o->directions + (size_t) i * o->width);
		begin = stop;
	}
}

static void
select_range(void *arg, int worker, size_t begin, size_t end)
{
	Order	   *o = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		const PagePart *part = &o->parts[i];
		uint32_t	first = first_row(o, part->first);

		if (part->cuts)
			grn_group_select(o->rows + first, o->along + first, first_row(o, part->end) - first,
							 first_row(o, middle_page(part)) - first);
	}
}

/* Cuts a part of at least two pages in two, by rows in memory. */
static void
cut_by_rows(Order *o, const Leaf *leaf, const PagePart *part)
{
	uint32_t	first = first_row(o, part->first);
	uint32_t	n = first_row(o, part->end) - first;
	uint32_t	sampled = n < LEAF_SAMPLED ? n : LEAF_SAMPLED;
	uint32_t	dim = o->of->dim;
	GrnGrouped *rows = o->rows + first;
	const float *sample[GRN_GROUP_SAMPLED];

	sample[0] = leaf->values + (size_t) rows[0].rank * dim;
	for (uint32_t i = 1; i < sampled; i++)
		sample[i] = leaf->values + (size_t) rows[(uint64_t) n * i / sampled].rank * dim;
	if (!grn_group_apart(sample, sampled, dim, leaf->sums, leaf->w))
		return;
	for (uint32_t i = 0; i < n; i++)
		o->along[first + i] = grn_dist->ip_f32(leaf->w, leaf->values + (size_t) rows[i].rank * dim, dim);
	grn_group_select(rows, o->along + first, n, first_row(o, middle_page(part)) - first);
}

/* Loads the rows of a part and cuts it down to its pages. */
static void
cut_leaf(Order *o, const Leaf *leaf, PagePart part)
{
	PagePart	parts[32];		/* parts still to be cut */
	uint32_t	waiting = 0;
	uint32_t	first = first_row(o, part.first);

	for (uint32_t i = 0; i < first_row(o, part.end) - first; i++)
	{
		GrnGrouped *row = &o->rows[first + i];

		load_row(o, row->node, leaf->values + (size_t) i * o->of->dim);
		row->rank = i;
	}
	for (parts[waiting++] = part; waiting > 0;)
	{
		part = parts[--waiting];
		if (part.end - part.first < 2)
			continue;
		cut_by_rows(o, leaf, &part);
		parts[waiting++] = (PagePart) {middle_page(&part), part.end, false};
		parts[waiting++] = (PagePart) {part.first, middle_page(&part), false};
	}
}

/* Cuts a part down to its pages.  Each cut reads the rows again until a part fits memory. */
static void
cut_large(Order *o, int worker, PagePart part)
{
	uint32_t	first = first_row(o, part.first);
	uint32_t	n = first_row(o, part.end) - first;
	uint32_t	middle = middle_page(&part);

	if (part.end - part.first <= o->leaf)
		cut_leaf(o, &o->leaves[worker], part);
	if (part.end - part.first < 2 || part.end - part.first <= o->leaf)
		return;
	if (find_direction(o, worker, first, n, o->leaves[worker].w))
	{
		project(o, worker, first, n, o->leaves[worker].w);
		grn_group_select(o->rows + first, o->along + first, n, first_row(o, middle) - first);
	}
	cut_large(o, worker, (PagePart) {part.first, middle, false});
	cut_large(o, worker, (PagePart) {middle, part.end, false});
}

/* Cuts parts [begin, end) of the loop down to their pages. */
static void
finish_range(void *arg, int worker, size_t begin, size_t end)
{
	Order	   *o = arg;

	for (size_t i = begin; i < end; i++)
	{
		const PagePart *part = &o->parts[o->begun + i];
		uint32_t	pages = part->end - part->first;
		uint32_t	first = first_row(o, part->first);
		uint32_t	size = o->leaf > 0 ? o->leaf : 1;	/* pages of a part at which cuts by codes
														 * end */
		GrnGroupTree tree = tree_at(o, worker, first);

		if (o->g == NULL)
		{
			cut_large(o, worker, *part);
			continue;
		}
		if (pages > size)
			grn_group_cut(o->g, &tree, o->rows + first, first_row(o, part->end) - first, NULL,
						  (pages + size - 1) / size, size * o->per_page);
		for (uint32_t at = part->first; at < part->end && o->leaf > 0; at += size)
			cut_leaf(o, &o->leaves[worker], (PagePart) {at, part->end - at < size ? part->end : at + size, false});
	}
}

static void
place_range(void *arg, int worker, size_t begin, size_t end)
{
	Order	   *o = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
		o->position[o->rows[i].node] = (uint32_t) i;
}

/* Cuts each part of a level in two. */
static void
cut_parts(Order *o, GrnParallel *parallel)
{
	parallel->run(parallel, o->nparts, 1, direct_range, o);
	parallel->run(parallel, o->n, GRAIN, project_range, o);
	parallel->run(parallel, o->nparts, 1, select_range, o);
	for (uint32_t i = o->nparts; i-- > 0;)
	{
		PagePart	part = o->parts[i];
		uint32_t	middle = middle_page(&part);

		o->parts[2 * i] = (PagePart) {part.first, middle, false};
		o->parts[2 * i + 1] = (PagePart) {middle, part.end, false};
	}
	o->nparts *= 2;
}

/* Places the threads' workspaces in an arena.  Returns false if their size overflows. */
static bool
make_trees(Order *o, GrnArena *a, int nworkers, uint32_t most)
{
	o->trees = grn_take(a, (size_t) nworkers, sizeof(*o->trees));
	o->leaves = grn_take(a, (size_t) nworkers, sizeof(*o->leaves));
	o->parts = grn_take(a, most, sizeof(*o->parts));
	o->directions = grn_take(a, (size_t) most * o->width, sizeof(float));
	for (int i = 0; i < nworkers; i++)
	{
		GrnGroupTree tree = {0};
		size_t		dim = o->leaf > 0 || o->g == NULL ? o->of->dim : 0;
		size_t		rows = (size_t) o->leaf * o->per_page;
		Leaf		leaf;

		if (o->g != NULL)
			tree = grn_group_tree(a, o->g->codec, &sampling);
		leaf.values = grn_take(a, o->g == NULL && rows < LEAF_SAMPLED ? LEAF_SAMPLED : rows, dim * sizeof(float));
		leaf.w = grn_take(a, dim, sizeof(float));
		leaf.row = grn_take(a, dim, sizeof(float));
		leaf.sums = grn_take(a, 2 * dim, sizeof(float));
		if (a->base == NULL)
			continue;
		o->trees[i] = tree;
		o->leaves[i] = leaf;
	}
	return grn_arena_bytes(a) != GRN_NO_SIZE;
}

bool
grn_cut_order(const GrnGrouping *g, const GrnRows *rows, uint32_t n, uint32_t per_page,
			  uint32_t *position, GrnParallel *parallel, void *workspace)
{
	Order		o = {.g = g, .of = rows, .n = n, .per_page = per_page, .position = position};
	uint32_t	pages = n / per_page + (n % per_page > 0);
	uint32_t	most = 1;
	GrnArena	a = grn_arena(NULL);
	void	   *own;

	if (g == NULL && rows == NULL)
		return false;
	o.dims = g != NULL ? grn_group_dims(g->codec, grn_group_blocks(g->codec)) : rows->dim;
	o.width = g != NULL ? GRN_MAX_CODE_DIMS : o.dims;
	if (rows != NULL)
	{
		size_t		leaf = LEAF_BYTES / (rows->dim * sizeof(float));

		o.leaf = (uint32_t) (leaf < LEAF ? leaf : LEAF) / per_page;
		/* a single page is not cut */
		o.leaf = o.leaf > 1 ? o.leaf : 0;
	}
	/* a part has at least one page */
	while (n / most > PART && pages / most > 1)
		most *= 2;
	if (!make_trees(&o, &a, parallel->nworkers, most) || (own = grn_alloc(grn_arena_bytes(&a))) == NULL)
		return false;
	a = grn_arena(own);
	(void) make_trees(&o, &a, parallel->nworkers, most);
	a = grn_arena(workspace);
	o.rows = grn_take(&a, n, sizeof(GrnGrouped));
	o.along = grn_take(&a, n, sizeof(float));
	o.parts[0] = (PagePart) {0, pages, false};
	o.nparts = 1;
	parallel->run(parallel, n, GRAIN, begin_range, &o);
	while (o.nparts < most)
		cut_parts(&o, parallel);
	for (uint32_t loop = PARTS_A_LOOP * (uint32_t) parallel->nworkers; o.begun < o.nparts; o.begun += loop)
		parallel->run(parallel, o.nparts - o.begun < loop ? o.nparts - o.begun : loop, 1, finish_range, &o);
	parallel->run(parallel, n, GRAIN, place_range, &o);
	grn_free(own);
	return true;
}
