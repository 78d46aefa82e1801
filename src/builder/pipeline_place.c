/*
 * pipeline_place.c - the first pass over rows that memory cannot hold: checks and moves the rows.
 *
 * The steps after the graph's rounds follow edges: they read the lists and rows of near vertices.
 * In the order of the table, near rows are scattered, so beyond memory each row would cost a random
 * read of the disk.  So the space is cut into cells, and the rows of each cell move next to each
 * other.  A step that follows edges then stays within a few cells.
 *
 * The need to move rows is known before any row is read, and a sample of rows gives the cells.  So
 * a single pass does all work on a row while the row is in memory: it checks the values, computes
 * the hash, finds the cell, and copies the row to the places of the cell.  The number of rows in a
 * cell is unknown during the pass.  So a cell takes a piece of the copy, and the next free piece
 * when its piece is full.  At the end the cells' last pieces have gaps.  Rows at the lowest places
 * then move into the gaps.
 *
 * The place of a row in the copy is the row's new number.  Equal rows are found afterwards and stay
 * at their places.  If the copies of equal rows are many, the distinct rows then move next to each
 * other.
 *
 * If records keep floats rounded to bytes, the copy is already rounded and takes a quarter of the
 * bytes.  The copy then consists of own items, and the graph and the codes are made from these
 * items.  Rows are equal if the hashes of the unrounded rows and the rounded items are equal.
 *
 * Memory holds the pages that were written last.  So the pass begins with the last rows, which were
 * collected most recently, and takes pieces from the end of the copy.  A later step that reads the
 * copy from its beginning then finds its first pages in memory.
 */
#include "builder/pipeline_impl.h"

#include <stdlib.h>
#include <string.h>

#include "graph/cut.h"
#include "graph/graph.h"
#include "memory/memory.h"
#include "store/record.h"

/*
 * 10,000 sentences beyond memory (8 MB): recall and processor time differ as two builds do with
 * half and twice of PIECES, SERIAL_ROWS and GRN_PLACE_STRETCHES; GRN_LEAST_CELL_ROWS 2,048 as
 * well, and with 8,192, a single cell, recall is .990 instead of .984 and .987.
 */
#define PIECES 16				/* smallest number of pieces of an average cell, so that few rows
								 * land in another cell's piece */

/*
 * If more than 1 / COPIES_DIVISOR of all rows are copies of equal rows, the distinct rows are moved
 * together.  Fewer copies may stay: they only enlarge the memory that the distinct rows take.
 * Measured with 90% copies and a third of the memory: 7 s, instead of a build without end.
 */
#define COPIES_DIVISOR 8

#define SERIAL_ROWS 4096		/* rows that a single thread moves if the distance of the move is
								 * shorter */

/* Rows that grn_pipeline_has_many_rows() reads: four times the number that it looks for. */
#define SAMPLED_STRETCHES 64
#define SAMPLED_ROWS 256		/* rows of a stretch */

typedef struct Placement
{
	GrnPipeline *p;
	GrnPrepare	prepare;
	uint32_t	cells;
	uint32_t	piece;			/* places that a cell takes at a time */
	size_t		row_bytes;		/* bytes of a row in the copy */
	GrnLayout	rounding;		/* form and dimensions of the copy if the copy is rounded */
	uint64_t	places;			/* places in the copy, including gaps */
	uint64_t	stretch;		/* largest number of rows in a stretch */
	uint64_t	next;			/* end of the places that no cell has taken */
	uint64_t	at[GRN_MOST_CELLS]; /* next free place of each cell's last piece */
	uint64_t	end[GRN_MOST_CELLS];	/* end of each cell's last piece */
	uint64_t	gap;			/* places - n: the first place of the final copy */
	/* Arrays in WORK; the first two are indexed by place. */
	uint8_t    *copy;			/* [places][row_bytes] */
	uint64_t   *hashes;			/* [places] */
	uint8_t    *cell;			/* [places / piece + 1] cell of each piece, counted from the end of
								 * the copy */
	uint32_t   *order;			/* [n] place of each rank */
	uint32_t   *by_cell;		/* [n] places, cell by cell */
	/* [2n] workspace of duplicates.c after the pass; shares its bytes with the arrays below */
	uint32_t   *slots;
	uint32_t   *to;				/* [n] place of each row */
	uint64_t   *row_hashes;		/* [stretch] */
	uint8_t    *home;			/* [stretch] cell of each row in the stretch */
	void	   *cut;
} Placement;

/* Lays out the arrays in WORK.  Returns their size in bytes. */
static uint64_t
lay_out_placement(Placement *place, char *work)
{
	GrnPipeline *p = place->p;
	uint64_t	n = p->build->n;
	GrnArena	a = {work, 0};
	GrnArena	slots;

	place->copy = grn_take(&a, place->places, place->row_bytes);
	p->work.bytes = a.used;
	p->vertex_of_rank = grn_take(&a, n, sizeof(uint32_t));
	place->order = grn_take(&a, n, sizeof(uint32_t));
	place->by_cell = grn_take(&a, n, sizeof(uint32_t));
	place->hashes = grn_take(&a, place->places, sizeof(uint64_t));
	slots = a;
	place->slots = grn_take(&slots, 2 * n, sizeof(uint32_t));
	place->to = grn_take(&a, n, sizeof(uint32_t));
	place->cell = grn_take(&a, place->places / place->piece + 1, 1);
	place->row_hashes = grn_take(&a, place->stretch, sizeof(uint64_t));
	place->home = grn_take(&a, place->stretch, 1);
	place->cut = grn_take(&a, 1, grn_parts_bytes(n, p->rows.dim, place->cells, 0));
	return slots.used > a.used ? slots.used : a.used;
}

/* Rows without their scales, which the first pass does not know yet. */
static GrnRows
unscaled(const GrnRows *rows)
{
	return (GrnRows) {.base = rows->base, .n = rows->n, .row_bytes = rows->row_bytes, .dim = rows->dim,
					  .form = rows->form, .comparison = rows->comparison};
}

/* A GrnRangeFn of GrnPrepare: finds the cells of rows that were just checked. */
static void
home_range(void *arg, int worker, size_t begin, size_t end)
{
	Placement  *place = arg;
	GrnPipeline *p = place->p;
	GrnRows		rows = unscaled(&p->rows);

	(void) worker;
	grn_parts_home(&rows, place->cells, p->build->n, place->cut, begin, end, place->home - place->prepare.first);
}

/* The number of the piece that contains a place. */
static uint64_t
piece_of(const Placement *place, uint64_t at)
{
	return (place->places - 1 - at) / place->piece;
}

/* Assigns places to the rows of a stretch, in row order. */
static void
choose_places(Placement *place, uint64_t first, uint64_t rows)
{
	for (uint64_t i = 0; i < rows; i++)
	{
		uint32_t	c = place->home[i];

		if (place->at[c] == place->end[c])
		{
			place->end[c] = place->next;
			place->at[c] = place->next -= place->piece;
			place->cell[piece_of(place, place->next)] = (uint8_t) c;
		}
		place->to[first + i] = (uint32_t) place->at[c]++;
	}
}

/*
 * Copies rows [begin, end) of the stretch, and requests the same range of the next stretch from the
 * disk.
 */
static void
copy_range(void *arg, int worker, size_t begin, size_t end)
{
	Placement  *place = arg;
	const GrnRows *rows = &place->p->rows;
	uint64_t	first = place->prepare.first;
	float		values[GRN_MOST_DIMS];

	(void) worker;
	if (first > 0)
		grn_prefetch_rows(rows, first - place->stretch + begin, first - place->stretch + end);
	for (size_t i = begin; i < end; i++)
	{
		uint32_t	to = place->to[first + i];
		const void *row = grn_row(rows, first + i);
		uint8_t    *copy = place->copy + to * place->row_bytes;

		if (place->p->plan.regime == GRN_ROUNDED)
			grn_own_item_make(&place->rounding, grn_row_values(rows, row, values), copy);
		else
			memcpy(copy, row, place->row_bytes);
		place->hashes[to] = place->row_hashes[i];
	}
}

/*
 * Checks and copies all rows, stretch by stretch.  No later step reads VECTORS, so the memory and
 * the disk space of copied rows are freed.  Pages that the kernel has not written yet are then
 * never written.  Freeing waits for pages that are being written.  Rounded rows make a short copy,
 * so for rounded rows all memory is freed once, at the end.
 */
static bool
copy_rows(Placement *place, GrnFailure *failure)
{
	GrnPipeline *p = place->p;
	uint64_t	n = p->build->n;
	size_t		row_bytes = p->rows.row_bytes;
	size_t		grain = GRN_PREFETCH_PIECE / row_bytes + 1;
	bool		removes = p->plan.regime != GRN_ROUNDED;

	place->prepare = (GrnPrepare) {.rows = &p->rows, .hashes = place->row_hashes, .ahead = true,
								   .also = home_range, .arg = place};
	grn_prepare_begin(&place->prepare);
	for (uint64_t s = (n - 1) / place->stretch + 1; s-- > 0;)
	{
		uint64_t	first = s * place->stretch;
		uint64_t	rows = n - first < place->stretch ? n - first : place->stretch;

		if (!grn_prepare_stretch(&place->prepare, first, rows, p->parallel, grain, failure))
			return false;
		choose_places(place, first, rows);
		p->parallel->run(p->parallel, rows, grain, copy_range, place);
		removes = removes && grn_pages_remove((const char *) p->rows.base + first * row_bytes, rows * row_bytes);
	}
	if (p->plan.regime == GRN_ROUNDED)
		grn_pages_remove(p->rows.base, n * row_bytes);
	return true;
}

/* Moves rows from places below `gap` to free places from `gap` on. */
static void
close_gaps(Placement *place)
{
	GrnPipeline *p = place->p;
	size_t		row_bytes = place->row_bytes;
	uint32_t	c;

	for (c = 0; c < place->cells; c++)
		if (place->at[c] < place->gap)
			place->at[c] = place->end[c] < place->gap ? place->end[c] : place->gap;
	c = 0;
	for (uint64_t i = 0; i < p->build->n && place->next < place->gap; i++)
	{
		uint64_t	from = place->to[i];
		uint64_t	to;

		if (from >= place->gap)
			continue;
		while (place->at[c] == place->end[c])
			c++;
		to = place->at[c]++;
		memcpy(place->copy + to * row_bytes, place->copy + from * row_bytes, row_bytes);
		place->hashes[to] = place->hashes[from];
		place->to[i] = (uint32_t) to;
	}
}

/* Lists the places, counted from `gap`, cell by cell. */
static void
list_by_cell(Placement *place)
{
	uint64_t	pieces = piece_of(place, place->gap) + 1;
	uint64_t	at = 0;

	for (uint32_t c = 0; c < place->cells; c++)
		for (uint64_t k = pieces; k-- > 0;)
		{
			uint64_t	end = place->places - k * place->piece;
			uint64_t	begin = end > place->gap + place->piece ? end - place->piece : place->gap;

			for (uint64_t i = begin; i < end && place->cell[k] == c; i++)
				place->by_cell[at++] = (uint32_t) (i - place->gap);
		}
}

static void
order_range(void *arg, int worker, size_t begin, size_t end)
{
	Placement  *place = arg;

	(void) worker;
	for (size_t r = begin; r < end; r++)
		place->order[r] = place->to[place->p->build->order[r]] - (uint32_t) place->gap;
}

bool
grn_pipeline_place_rows(GrnPipeline *p, GrnPrepared *prepared, uint64_t **hashes,
						uint32_t **by_cell, uint32_t **slots, GrnFailure *failure)
{
	uint64_t	n = p->build->n;
	Placement	place = {.p = p, .cells = grn_pipeline_cells(n)};
	const GrnRows came = p->rows;
	GrnRows		all = unscaled(&p->rows);
	GrnParts	parts;
	GrnCells	found;
	char	   *work;

	place.row_bytes = p->plan.regime == GRN_ROUNDED ? grn_own_item_bytes(GRN_FORM_ROUNDED, all.dim) : all.row_bytes;
	place.rounding = grn_own_layout(GRN_FORM_ROUNDED, all.dim);
	place.piece = (uint32_t) (GRN_PREFETCH_PIECE / place.row_bytes + 1);
	if (place.piece > n / place.cells / PIECES)
		place.piece = (uint32_t) (n / place.cells / PIECES);
	place.gap = (uint64_t) place.cells * place.piece;
	place.places = place.next = n + place.gap;
	place.stretch = (n + GRN_PLACE_STRETCHES - 1) / GRN_PLACE_STRETCHES;
	work = grn_pipeline_need(p, GRN_SEG_WORK, lay_out_placement(&place, NULL), failure);
	if (!work)
		return false;
	lay_out_placement(&place, work);

	all.order = p->build->order;
	all.on_disk = true;
	/* The sample is read at random, and read-ahead around sampled rows would be wasted. */
	grn_pages_scattered(all.base, n * all.row_bytes, true);
	grn_parts_cells(&all, place.cells, 0, p->result->params.seed, p->parallel, place.cut, &parts, &found);
	grn_pages_scattered(all.base, n * all.row_bytes, false);
	/*
	 * Rows are written to places spread over the copy.  The kernel must not read the pages around
	 * each place again.
	 */
	grn_pages_scattered(place.copy, place.places * place.row_bytes, true);
	if (!copy_rows(&place, failure))
		return false;
	close_gaps(&place);
	grn_pages_scattered(place.copy, place.places * place.row_bytes, false);
	list_by_cell(&place);
	p->parallel->run(p->parallel, n, GRN_GRAIN, order_range, &place);
	p->rows.base = place.copy + place.gap * place.row_bytes;
	p->rows.row_bytes = place.row_bytes;
	if (p->plan.regime == GRN_ROUNDED)
		p->rows.form = GRN_FORM_ROUNDED;
	p->order = place.order;
	place.prepare.rows = &came;
	if (!grn_prepare_end(&place.prepare, &p->rows, p->order, p->metric, p->parallel, prepared, failure))
		return false;
	*hashes = place.hashes + place.gap;
	*by_cell = place.by_cell;
	*slots = place.slots;
	return true;
}

/* ---- distinct rows ---- */

static int
by_hash(const void *a, const void *b)
{
	uint64_t	x = *(const uint64_t *) a;
	uint64_t	y = *(const uint64_t *) b;

	return (x > y) - (x < y);
}

bool
grn_pipeline_has_many_rows(const GrnRows *rows)
{
	size_t		bytes = grn_form_bytes(rows->form, rows->dim);
	size_t		count = rows->n / SAMPLED_STRETCHES < SAMPLED_ROWS ? rows->n / SAMPLED_STRETCHES : SAMPLED_ROWS;
	uint64_t	hashes[SAMPLED_STRETCHES * SAMPLED_ROWS];
	size_t		n = 0;
	size_t		distinct = 0;

	for (size_t s = 0; s < SAMPLED_STRETCHES; s++)
		grn_prefetch_rows(rows, rows->n * s / SAMPLED_STRETCHES, rows->n * s / SAMPLED_STRETCHES + count);
	for (size_t s = 0; s < SAMPLED_STRETCHES; s++)
		for (size_t i = 0; i < count; i++)
			hashes[n++] = grn_hash_row(grn_row(rows, rows->n * s / SAMPLED_STRETCHES + i), bytes);
	qsort(hashes, n, sizeof(*hashes), by_hash);
	for (size_t i = 0; i < n; i++)
		distinct += i == 0 || hashes[i] != hashes[i - 1];
	return distinct >= GRN_LEAST_CELL_ROWS;
}

typedef struct Compaction
{
	GrnPipeline *p;
	uint64_t	first;			/* first vertex of the stretch */
} Compaction;

static void
compact_range(void *arg, int worker, size_t begin, size_t end)
{
	const Compaction *t = arg;
	const GrnPipeline *p = t->p;
	size_t		row_bytes = p->rows.row_bytes;
	uint8_t    *base = (uint8_t *) p->rows.base;

	(void) worker;
	begin += t->first;
	end += t->first;
	grn_prefetch_rows(&p->rows, begin, end);
	for (size_t v = begin; v < end; v++)
		memmove(base + v * row_bytes, base + p->distinct[v] * row_bytes, row_bytes);
}

bool
grn_pipeline_place_together(GrnPipeline *p)
{
	uint64_t	m = p->rows.n;
	size_t		row_bytes = p->rows.row_bytes;
	size_t		grain = GRN_PREFETCH_PIECE / row_bytes + 1;
	Compaction	t = {.p = p};

	if (p->build->n - m <= p->build->n / COPIES_DIVISOR)
		return false;
	while (t.first < m)
	{
		/* A row moves down by `by` places, and each later row by at least as many. */
		uint64_t	by = p->distinct[t.first] - t.first;
		uint64_t	rows = by > SERIAL_ROWS ? by : SERIAL_ROWS;

		if (rows > m - t.first)
			rows = m - t.first;
		/* The next `by` rows move to places that none of these rows occupies. */
		p->parallel->run(p->parallel, rows, by > SERIAL_ROWS ? grain : rows, compact_range, &t);
		t.first += rows;
	}
	grn_pages_remove((const char *) p->rows.base + m * row_bytes, (p->build->n - m) * row_bytes);
	p->rows.order = NULL;
	return true;
}

/* ---- what has moved ---- */

uint32_t
grn_pipeline_cells(uint64_t n)
{
	return n / GRN_LEAST_CELL_ROWS < GRN_MOST_CELLS ? (uint32_t) (n / GRN_LEAST_CELL_ROWS) : GRN_MOST_CELLS;
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
