/*
 * pipeline_move.c - rows and vertices in an order of places, for builds that memory does not
 * hold.
 *
 * What comes after the graph's rounds follows edges: it reads the lists and rows of near
 * vertices.  Where rows lie in the order of the table, near ones lie anywhere, and beyond
 * memory each would be a read of the disk at random.  So the space is cut into cells, and rows
 * move to where their cell's lie.  Vertices then have the same order, and all that follows
 * edges stays within a few cells.  The cells are found from a sample, and each row's while the
 * first pass has it in memory.  Then rows are read once more, in order, and written at the end of
 * one of some dozens of cells; both are what disks and the kernel's cache do well.
 */
#include "builder/pipeline_impl.h"

#include <stdlib.h>
#include <string.h>

#include "graph/arena.h"
#include "graph/build/cut.h"
#include "graph/file_pages.h"
#include "graph/free_memory.h"

#define MOST_CELLS 64
#define LEAST_CELL_ROWS 4096
#define STRETCHES 32			/* of rows: each gives its memory back once it is copied */

/* Bytes of graph and results that a row takes at least. */
#define LEAST_BYTES 64

typedef struct Move
{
	GrnPipeline *p;
	uint32_t   *to;				/* [n] new number of a row, or GRN_INVALID_ID: no vertex is its own */
	uint8_t    *copy;			/* [m][row_bytes] */
	uint64_t	end;			/* of the copy, in WORK */
	uint64_t	first;			/* row of the stretch */
} Move;

static uint32_t
cells_of(size_t m)
{
	return m / LEAST_CELL_ROWS < MOST_CELLS ? (uint32_t) (m / LEAST_CELL_ROWS) : MOST_CELLS;
}

bool
grn_pipeline_should_move(const GrnPipeline *p, uint64_t workspace, uint64_t work_limit)
{
	const GrnBuildSpec *spec = p->build->spec;
	uint64_t	limit = work_limit > 0 ? work_limit : grn_free_memory();
	uint64_t	m = p->rows.n;
	uint64_t	rows = m * p->rows.row_bytes;

	/* what lies in memory is not free any more */
	if (rows > p->build->on_disk)
		rows = p->build->on_disk;
	return spec->may_move && spec->near.k == 0 && cells_of(m) >= 2 &&
		rows + p->kept_bytes + grn_pipeline_result_bytes(p) + workspace > limit;
}

bool
grn_pipeline_may_move(const GrnPipeline *p, uint64_t work_limit)
{
	const GrnBuildSpec *spec = p->build->spec;
	uint64_t	limit = work_limit > 0 ? work_limit : grn_free_memory();
	uint64_t	n = p->build->n;
	uint64_t	rows = n * p->rows.row_bytes;

	if (rows > p->build->on_disk)
		rows = p->build->on_disk;
	/* (places of scaled rows are not known before all have been looked at) */
	return spec->may_move && spec->near.k == 0 && cells_of(n) >= 2 &&
		!grn_is_scaled(p->rows.embedding) && rows + LEAST_BYTES * n > limit;
}

void
grn_pipeline_home_range(void *arg, int worker, size_t begin, size_t end)
{
	GrnPipeline *p = arg;

	(void) worker;
	grn_parts_home(&p->rows, cells_of(p->build->n), p->build->n, p->cut, begin, end, p->cell_of_row);
}

bool
grn_pipeline_find_cells(GrnPipeline *p, uint64_t at, GrnFailure *failure)
{
	GrnRows		all = p->rows;
	uint32_t	cells = cells_of(all.n);
	char	   *work = grn_pipeline_need(p, GRN_SEG_WORK, at + grn_parts_bytes(all.n, all.dim, cells, 0),
										 failure);
	GrnParts	parts;
	GrnCells	found;

	if (!work)
		return false;
	p->cell_of_row = malloc(all.n);
	if (!p->cell_of_row)
		return true;
	p->cut = work + at;
	all.order = p->build->order;
	/* a sample, of which the kernel would read the neighbours as well */
	grn_pages_scattered(all.base, all.n * all.row_bytes, true);
	grn_parts_cells(&all, cells, 0, p->result->params.seed, p->parallel, p->cut, &parts, &found);
	grn_pages_scattered(all.base, all.n * all.row_bytes, false);
	return true;
}

/* The cells of vertices whose rows had none when they were looked at. */
static bool
find_cells_now(GrnPipeline *p, uint32_t cells, void *cut, GrnFailure *failure)
{
	GrnParts	parts;

	p->cell_of_row = malloc(p->build->n);
	if (!p->cell_of_row)
		return grn_fail(failure, "53200", "", "the builder process is out of memory");
	grn_parts_make(&p->rows, cells, 0, p->result->params.seed, p->parallel, cut, &parts);
	for (uint32_t c = 0; c < cells; c++)
		for (size_t i = parts.start[c]; i < parts.guests[c]; i++)
			p->cell_of_row[p->rows.order ? p->rows.order[parts.members[i]] : parts.members[i]] = (uint8_t) c;
	return true;
}

/* Numbers rows by cell, and in each as their vertices were. */
static void
number_rows(Move *move)
{
	const GrnPipeline *p = move->p;
	const uint32_t *order = p->rows.order;
	uint32_t	next[GRN_MAX_PARTS + 1] = {0};

	for (size_t v = 0; v < p->rows.n; v++)
		next[p->cell_of_row[order ? order[v] : v] + 1]++;
	for (uint32_t c = 1; c < GRN_MAX_PARTS; c++)
		next[c] += next[c - 1];
	memset(move->to, 0xFF, p->build->n * sizeof(*move->to));
	for (size_t v = 0; v < p->rows.n; v++)
	{
		size_t		row = order ? order[v] : v;

		move->to[row] = next[p->cell_of_row[row]]++;
	}
}

/* From the row of a vertex to its new number. */
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

/* Rows of the stretch to where they belong, in the order in which they lie. */
static void
copy_range(void *arg, int worker, size_t begin, size_t end)
{
	Move	   *move = arg;
	const GrnRows *rows = &move->p->rows;
	const uint8_t *from = (const uint8_t *) rows->base + (move->first + begin) * rows->row_bytes;

	(void) worker;
	grn_pages_ahead(from, (end - begin) * rows->row_bytes);
	for (size_t i = move->first + begin; i < move->first + end; i++, from += rows->row_bytes)
		if (move->to[i] != GRN_INVALID_ID)
			memcpy(move->copy + move->to[i] * rows->row_bytes, from, rows->row_bytes);
}

/*
 * Copies all, stretch by stretch.  Nobody reads VECTORS any more, so what it has of memory and of
 * the disk goes back as its rows are copied: what is not written yet need not be.
 */
static void
copy_rows(Move *move)
{
	const GrnPipeline *p = move->p;
	uint64_t	n = p->build->n;
	uint64_t	stretch = (n + STRETCHES - 1) / STRETCHES;
	size_t		grain = GRN_AHEAD_PIECE / p->rows.row_bytes + 1;
	bool		removes = true;

	for (; move->first < n; move->first += stretch)
	{
		uint64_t	rows = n - move->first < stretch ? n - move->first : stretch;

		p->parallel->run(p->parallel, rows, grain, copy_range, move);
		removes = removes && grn_pages_remove((const char *) p->rows.base + move->first * p->rows.row_bytes,
											  rows * p->rows.row_bytes);
	}
}

/* Where all lies in WORK, the copy behind what is there already; returns its end. */
static uint64_t
lay_out(Move *move, char *work, uint32_t cells, void **cut)
{
	const GrnRows *rows = &move->p->rows;
	GrnArena	a = {work, move->p->work_bytes};

	move->copy = grn_take(&a, rows->n, rows->row_bytes);
	move->end = a.used;
	move->to = grn_take(&a, move->p->build->n, sizeof(uint32_t));
	*cut = grn_take(&a, 1, move->p->cell_of_row ? 0 : grn_parts_bytes(rows->n, rows->dim, cells, 0));
	return a.used;
}

bool
grn_pipeline_move_rows(GrnPipeline *p, GrnFailure *failure)
{
	Move		move = {.p = p};
	uint32_t	cells = cells_of(p->rows.n);
	void	   *cut;
	char	   *work = grn_pipeline_need(p, GRN_SEG_WORK, lay_out(&move, NULL, cells, &cut), failure);

	if (!work)
		return false;
	lay_out(&move, work, cells, &cut);
	if (!p->cell_of_row && !find_cells_now(p, cells, cut, failure))
		return false;
	number_rows(&move);
	grn_pipeline_drop_cells(p);
	p->parallel->run(p->parallel, p->build->n, GRN_PIPELINE_GRAIN, number_range, &move);
	/* no reading back of what was written a while ago, around each page that rows come to */
	grn_pages_scattered(move.copy, p->rows.n * p->rows.row_bytes, true);
	copy_rows(&move);
	grn_pages_scattered(move.copy, p->rows.n * p->rows.row_bytes, false);
	p->result->off_vectors = (uint64_t) ((char *) move.copy - work);
	p->work_bytes = move.end;
	p->rows.base = move.copy;
	p->rows.order = NULL;
	p->result->moved = true;
	p->result->off_moved = p->result->off_rows + grn_aligned(p->build->n * 4);
	return true;
}

void
grn_pipeline_drop_cells(GrnPipeline *p)
{
	free(p->cell_of_row);
	p->cell_of_row = NULL;
}

void
grn_pipeline_sample_rows(const GrnPipeline *p, bool begin)
{
	if (p->result->moved)
		grn_pages_scattered(p->rows.base, p->rows.n * p->rows.row_bytes, begin);
}
