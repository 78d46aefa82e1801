/*
 * pipeline_move.c - moves rows and renumbers vertices, for builds larger than memory.
 *
 * The steps after the graph's rounds follow edges: they read the lists and rows of near vertices.
 * In the order of the table, near rows are scattered, so beyond memory each row would cost a random
 * read of the disk.  So the space is cut into cells, and the rows of each cell move next to each
 * other.  Vertices are renumbered in the new order of rows.  A step that follows edges then stays
 * within a few cells.
 *
 * In most builds the first pass moves rows (pipeline_place.c).  This file moves rows if only the
 * first pass has shown that rows and build exceed memory.  The rows are read once more, in order,
 * and each row is written at the end of its cell.  Disks and the kernel's cache handle this pattern
 * well.
 */
#include "builder/pipeline_impl.h"

#include <stdlib.h>
#include <string.h>

#include "graph/cut.h"
#include "memory/memory.h"
#include "store/record.h"

#define STRETCHES 32			/* stretches of rows; after each copied stretch its memory is freed */

/* Least number of bytes that the graph and the results take for a row. */
#define LEAST_BYTES 64

typedef struct Move
{
	GrnPipeline *p;
	uint32_t   *to;				/* [n] new number of each row; GRN_INVALID_ID: another row has the
								 * vertex */
	uint8_t    *copy;			/* [m][row_bytes] */
	uint64_t	end;			/* end of the copy in WORK */
	uint64_t	first;			/* first row of the stretch */
} Move;

uint32_t
grn_pipeline_cells(uint64_t n)
{
	return n / GRN_LEAST_CELL_ROWS < GRN_MOST_CELLS ? (uint32_t) (n / GRN_LEAST_CELL_ROWS) : GRN_MOST_CELLS;
}

bool
grn_pipeline_should_move(const GrnPipeline *p, uint64_t workspace)
{
	const GrnBuildSpec *spec = p->build->spec;
	uint64_t	limit = grn_memory_limit(p->plan.choice.work_limit);
	uint64_t	m = p->rows.n;
	uint64_t	rows = m * p->rows.row_bytes;

	/* Rows that are in memory already take no more free memory. */
	if (rows > p->build->on_disk)
		rows = p->build->on_disk;
	return spec->may_move && spec->near.k == 0 && grn_pipeline_cells(m) >= 2 &&
		rows + p->work.kept_bytes + grn_pipeline_place_result(p, NULL).bytes + workspace > limit;
}

bool
grn_pipeline_may_move(const GrnPipeline *p)
{
	const GrnBuildSpec *spec = p->build->spec;
	uint64_t	limit = grn_memory_limit(p->plan.choice.work_limit);
	uint64_t	n = p->build->n;
	uint64_t	rows = n * p->rows.row_bytes;

	if (rows > p->build->on_disk)
		rows = p->build->on_disk;
	/* Scaled rows cannot move now, because their places are unknown before the first pass. */
	return spec->may_move && spec->near.k == 0 && grn_pipeline_cells(n) >= 2 &&
		!grn_is_scaled(p->rows.embedding) && rows + LEAST_BYTES * n > limit;
}

/* Numbers rows by cell, and within a cell in the order of vertices. */
static void
number_rows(Move *move, const GrnParts *parts)
{
	const GrnPipeline *p = move->p;
	const uint32_t *order = p->rows.order;
	uint32_t	next = 0;

	memset(move->to, 0xFF, p->build->n * sizeof(*move->to));
	for (uint32_t c = 0; c < parts->nparts; c++)
		for (size_t i = parts->start[c]; i < parts->guests[c]; i++)
			move->to[order ? order[parts->members[i]] : parts->members[i]] = next++;
}

/* Replaces the vertices of ranks by their new numbers. */
static void
number_range(void *arg, int worker, size_t begin, size_t end)
{
	Move	   *move = arg;
	GrnPipeline *p = move->p;

	(void) worker;
	for (size_t r = begin; r < end; r++)
	{
		uint32_t	vertex = p->vertex_of_rank[r];

		p->vertex_of_rank[r] = move->to[p->rows.order ? p->rows.order[vertex] : vertex];
	}
}

/* A GrnRangeFn: copies rows of the stretch to their new places, in their old order. */
static void
copy_range(void *arg, int worker, size_t begin, size_t end)
{
	Move	   *move = arg;
	const GrnRows *rows = &move->p->rows;
	const uint8_t *from = (const uint8_t *) rows->base + (move->first + begin) * rows->row_bytes;

	(void) worker;
	grn_prefetch_pages(from, (end - begin) * rows->row_bytes);
	for (size_t i = move->first + begin; i < move->first + end; i++, from += rows->row_bytes)
		if (move->to[i] != GRN_INVALID_ID)
			memcpy(move->copy + move->to[i] * rows->row_bytes, from, rows->row_bytes);
}

/*
 * Copies all rows, stretch by stretch.  No later step reads VECTORS, so the memory and the disk
 * space of copied rows are freed at once.  Pages that the kernel has not written yet are then never
 * written.
 */
static void
copy_rows(Move *move)
{
	const GrnPipeline *p = move->p;
	uint64_t	n = p->build->n;
	uint64_t	stretch = (n + STRETCHES - 1) / STRETCHES;
	size_t		grain = GRN_PREFETCH_PIECE / p->rows.row_bytes + 1;
	bool		removes = true;

	for (; move->first < n; move->first += stretch)
	{
		uint64_t	rows = n - move->first < stretch ? n - move->first : stretch;

		p->parallel->run(p->parallel, rows, grain, copy_range, move);
		removes = removes && grn_pages_remove((const char *) p->rows.base + move->first * p->rows.row_bytes,
											  rows * p->rows.row_bytes);
	}
}

/* Lays out the arrays in WORK behind the pipeline's arrays.  Returns the end. */
static uint64_t
lay_out_move(Move *move, char *work, uint32_t cells, void **cut)
{
	GrnPipeline *p = move->p;
	const GrnRows *rows = &p->rows;
	GrnArena	a = {work, p->work.bytes};

	move->copy = grn_take(&a, rows->n, rows->row_bytes);
	p->own = grn_take(&a, rows->n, p->own_bytes);
	move->end = a.used;
	move->to = grn_take(&a, p->build->n, sizeof(uint32_t));
	*cut = grn_take(&a, 1, grn_parts_bytes(rows->n, rows->dim, cells, 0));
	return a.used;
}

bool
grn_pipeline_move_rows(GrnPipeline *p, GrnFailure *failure)
{
	Move		move = {.p = p};
	uint32_t	cells = grn_pipeline_cells(p->rows.n);
	GrnParts	parts;
	void	   *cut;
	char	   *work;

	p->own_bytes = grn_pipeline_own_bytes(p);
	work = grn_pipeline_need(p, GRN_SEG_WORK, lay_out_move(&move, NULL, cells, &cut), failure);
	if (!work)
		return false;
	lay_out_move(&move, work, cells, &cut);
	/*
	 * The cut reads a sample, and read-ahead around sampled rows would be wasted.  Afterwards all
	 * rows are requested in order.
	 */
	p->rows.on_disk = true;
	grn_pages_scattered(p->rows.base, p->build->n * p->rows.row_bytes, true);
	grn_parts_make(&p->rows, cells, 0, p->result->params.seed, p->parallel, cut, &parts);
	grn_pages_scattered(p->rows.base, p->build->n * p->rows.row_bytes, false);
	number_rows(&move, &parts);
	p->parallel->run(p->parallel, p->build->n, GRN_GRAIN, number_range, &move);
	/*
	 * Rows are written to places spread over the copy.  The kernel must not read the pages around
	 * each place again.
	 */
	grn_pages_scattered(move.copy, p->rows.n * p->rows.row_bytes, true);
	copy_rows(&move);
	grn_pages_scattered(move.copy, p->rows.n * p->rows.row_bytes, false);
	p->work.bytes = move.end;
	p->rows.base = move.copy;
	p->rows.order = NULL;
	grn_pipeline_enter_move(p, p->rows.n);
	return true;
}

size_t
grn_pipeline_own_bytes(const GrnPipeline *p)
{
	GrnForm		form = (GrnForm) p->result->form;

	/* With few distinct rows the leader keeps a form that holds any values (write_index.c). */
	return p->plan.regime != GRN_ROUNDED && (form == p->rows.form || p->rows.n < GRN_LEAST_CELL_ROWS) ? 0
		: grn_own_item_bytes(form, p->rows.dim);
}

void
grn_pipeline_enter_move(GrnPipeline *p, uint64_t rows)
{
	GrnBuildResult *r = p->result;

	p->rows.on_disk = true;
	r->own_items = p->own_bytes > 0;
	if (!r->own_items)
		p->own = NULL;
	r->rows_in_place = p->plan.regime == GRN_IN_PLACE;
	r->moved = (uint32_t) (r->own_items && p->plan.regime != GRN_ROUNDED ? p->rows.n : rows);
	r->off_vectors = (uint64_t) ((r->own_items ? (const char *) p->own : (const char *) p->rows.base) - p->work.base);
}

void
grn_pipeline_sample_rows(const GrnPipeline *p, bool begin)
{
	if (p->rows.on_disk)
		grn_pages_scattered(p->rows.base, (p->rows.order ? p->build->n : p->rows.n) * p->rows.row_bytes, begin);
	if (p->own)
		grn_pages_scattered(p->own, p->rows.n * p->own_bytes, begin);
}
