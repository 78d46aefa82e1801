/*
 * pipeline_move.c - rows and vertices in an order of places, for builds that memory does not
 * hold.
 *
 * What comes after the graph's rounds follows edges: it reads the lists and rows of near
 * vertices.  Where rows lie in the order of the table, near ones lie anywhere, and beyond
 * memory each would be a read of the disk at random.  So the space is cut into cells, and rows
 * move to where their cell's lie.  Vertices then have the same order, and all that follows
 * edges stays within a few cells.  Rows are read twice, in order, and written once, at the end
 * of one of some dozens of cells; both are what disks and the kernel's cache do well.
 */
#include "builder/pipeline_impl.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "builder/free_memory.h"
#include "graph/arena.h"
#include "graph/build/cut.h"

#define MOST_CELLS 64
#define LEAST_CELL_ROWS 4096
#define FORGET_PIECE ((uint64_t) 1 << 30)

typedef struct Move
{
	GrnPipeline *p;
	uint32_t   *to;				/* [m] new number of a vertex */
	uint8_t    *copy;			/* [m][row_bytes] */
	uint64_t	end;			/* of the copy, in WORK */
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

static void
copy_range(void *arg, int worker, size_t begin, size_t end)
{
	Move	   *move = arg;
	const GrnRows *rows = &move->p->rows;

	(void) worker;
	for (size_t v = begin; v < end; v++)
		memcpy(move->copy + move->to[v] * rows->row_bytes, grn_row(rows, v), rows->row_bytes);
}

static void
number_range(void *arg, int worker, size_t begin, size_t end)
{
	Move	   *move = arg;

	(void) worker;
	for (size_t r = begin; r < end; r++)
		move->p->vertex_of_rank[r] = move->to[move->p->vertex_of_rank[r]];
}

/* Where all lies in WORK, the copy behind what is there already; returns its end. */
static uint64_t
lay_out(Move *move, char *work, uint32_t cells, void **cut)
{
	const GrnRows *rows = &move->p->rows;
	GrnArena	a = {work, move->p->work_bytes};

	move->copy = grn_take(&a, rows->n, rows->row_bytes);
	move->end = a.used;
	*cut = grn_take(&a, 1, grn_parts_bytes(rows->n, rows->dim, cells, 0));
	move->to = grn_take(&a, rows->n, sizeof(uint32_t));
	return a.used;
}

/*
 * VECTORS is not read any more.  What it has of memory and of the disk goes back, where the
 * file system can do that.
 */
static void
forget_vectors(GrnPipeline *p)
{
	uint64_t	page = (uint64_t) sysconf(_SC_PAGESIZE);
	uint64_t	bytes = p->build->n * p->rows.row_bytes / page * page;

	for (uint64_t at = 0; at < bytes; at += FORGET_PIECE)
		if (madvise((char *) p->build->vectors + at, bytes - at < FORGET_PIECE ? bytes - at : FORGET_PIECE,
					MADV_REMOVE) != 0)
			return;
}

bool
grn_pipeline_move_rows(GrnPipeline *p, GrnFailure *failure)
{
	Move		move = {.p = p};
	uint32_t	cells = cells_of(p->rows.n);
	uint32_t	next = 0;
	GrnParts	parts;
	void	   *cut;
	char	   *work = grn_pipeline_need(p, GRN_SEG_WORK, lay_out(&move, NULL, cells, &cut), failure);

	if (!work)
		return false;
	lay_out(&move, work, cells, &cut);
	grn_parts_make(&p->rows, cells, 0, p->result->params.seed, p->parallel, cut, &parts);
	for (uint32_t c = 0; c < cells; c++)
		for (size_t i = parts.start[c]; i < parts.guests[c]; i++)
			move.to[parts.members[i]] = next++;
	p->parallel->run(p->parallel, p->rows.n, GRN_PIPELINE_GRAIN, copy_range, &move);
	p->parallel->run(p->parallel, p->build->n, GRN_PIPELINE_GRAIN, number_range, &move);
	forget_vectors(p);
	p->result->off_vectors = (uint64_t) ((char *) move.copy - work);
	p->work_bytes = move.end;
	p->rows.base = move.copy;
	p->rows.order = NULL;
	p->result->moved = true;
	p->result->off_moved = p->result->off_rows + grn_aligned(p->build->n * 4);
	return true;
}
