/*
 * pipeline_place.c - the first look at rows that memory does not hold, which moves them.
 *
 * Whether rows are to move is known before anybody has looked at them, and by which cells after a
 * sample.  So all that there is to do of a row is done while it is in memory: its values are
 * checked, it is hashed, its cell is found, and it is copied to where that cell's rows lie.  How
 * many rows a cell has is not known then.  So cells take pieces of the copy in turn, each its
 * next one when the last is full.  In the end rows of the first places move into the places that
 * the cells' last pieces have left over.
 *
 * The copy's places are the rows' new numbers, so rows that are equal are found afterwards, as
 * elsewhere, and keep their places.  Where they are many, the distinct ones then move together.
 *
 * Where records will keep floats rounded to bytes, the copy has them so, in a quarter of their
 * bytes: as own items, of which graph and codes are made as well.  Copies of other rows are then
 * told by hashes of what rows were, and by their roundings.
 *
 * Memory has what was written last.  So the last rows come first, which have just been collected,
 * and pieces are taken from the end of the copy: whoever reads it from its beginning finds what was
 * copied last.
 */
#include "builder/pipeline_impl.h"

#include <stdlib.h>
#include <string.h>

#include "graph/arena.h"
#include "graph/construct/cut.h"
#include "graph/construct/duplicates.h"
#include "graph/file_pages.h"
#include "graph/stored/own.h"

#define PIECES 16				/* of a cell at least, so that few rows lie in another one's */

/*
 * Copies of other rows, one of so many rows, that may stay among the distinct ones: these then take
 * that much more of memory's pages than they have bytes.
 */
#define COPIES_STAY 8

#define SERIAL_ROWS 4096		/* that one thread moves, where they move by less than that */

/* Rows that grn_pipeline_shows_many() looks at. */
#define SHOWN_STRETCHES 64
#define SHOWN_ROWS 256			/* of a stretch */

typedef struct Place
{
	GrnPipeline *p;
	GrnPrepare	prepare;
	uint32_t	cells;
	uint32_t	piece;			/* places that a cell takes at a time */
	size_t		row_bytes;		/* of the copy */
	GrnLayout	rounding;		/* its form and dimensions, where it is rounded */
	uint64_t	places;			/* of the copy, while it has gaps */
	uint64_t	stretch;		/* rows, at most */
	uint64_t	next;			/* end of the places that no cell has */
	uint64_t	at[GRN_MOST_CELLS]; /* next place of a cell, */
	uint64_t	end[GRN_MOST_CELLS];	/* and the end of its last piece */
	uint64_t	gap;			/* places - n: the first place, in the end */
	/* in WORK, by place for the first two */
	uint8_t    *copy;			/* [places][row_bytes] */
	uint64_t   *hashes;			/* [places] */
	uint8_t    *cell;			/* [places / piece + 1] of a piece, from the end of the copy */
	uint32_t   *order;			/* [n] place of a rank */
	uint32_t   *by_cell;		/* [n] places, cell by cell */
	uint32_t   *slots;			/* [2n] of duplicates.h, afterwards; the others lie in the same
								 * bytes */
	uint32_t   *to;				/* [n] place of a row */
	uint64_t   *row_hashes;		/* [stretch] */
	uint8_t    *home;			/* [stretch] cell */
	void	   *cut;
} Place;

/* Where all lies; returns its bytes. */
static uint64_t
lay_out(Place *place, char *work)
{
	GrnPipeline *p = place->p;
	uint64_t	n = p->build->n;
	GrnArena	a = {work, 0};
	GrnArena	slots;

	place->copy = grn_take(&a, place->places, place->row_bytes);
	p->placed_bytes = a.used;
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

/* A GrnRangeFn of GrnPrepare: rows that have just been looked at. */
static void
home_range(void *arg, int worker, size_t begin, size_t end)
{
	Place	   *place = arg;
	GrnPipeline *p = place->p;

	(void) worker;
	grn_parts_home(&p->rows, place->cells, p->build->n, place->cut, begin, end,
				   place->home - place->prepare.first);
}

/* The piece that a place is in. */
static uint64_t
piece_of(const Place *place, uint64_t at)
{
	return (place->places - 1 - at) / place->piece;
}

/* The places of a stretch's rows, in their order. */
static void
choose_places(Place *place, uint64_t first, uint64_t rows)
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

/* Copies rows [begin, end) of the stretch, while the disk brings those of the next one. */
static void
copy_range(void *arg, int worker, size_t begin, size_t end)
{
	Place	   *place = arg;
	const GrnRows *rows = &place->p->rows;
	uint64_t	first = place->prepare.first;
	float		values[GRN_MOST_DIMS];

	(void) worker;
	if (first > 0)
		grn_rows_ahead(rows, first - place->stretch + begin, first - place->stretch + end);
	for (size_t i = begin; i < end; i++)
	{
		uint32_t	to = place->to[first + i];
		const void *row = grn_row(rows, first + i);
		uint8_t    *copy = place->copy + to * place->row_bytes;

		if (place->p->rounded)
			grn_own_item_make(&place->rounding, grn_row_values(rows, row, values), copy);
		else
			memcpy(copy, row, place->row_bytes);
		place->hashes[to] = place->row_hashes[i];
	}
}

/*
 * Looks at all rows and copies them, stretch by stretch.  Nobody reads VECTORS after that, so what
 * it has of memory and of the disk goes back as its rows are copied: what is not written yet need
 * not be.  But that waits for what is being written, so that of rounded rows, whose copy is short,
 * all goes back in the end.
 */
static bool
copy_rows(Place *place, GrnFailure *failure)
{
	GrnPipeline *p = place->p;
	uint64_t	n = p->build->n;
	size_t		row_bytes = p->rows.row_bytes;
	size_t		grain = GRN_AHEAD_PIECE / row_bytes + 1;
	bool		removes = !p->rounded;

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
	if (p->rounded)
		grn_pages_remove(p->rows.base, n * row_bytes);
	return true;
}

/* Rows of places below the first one, to those from it on that no cell has filled. */
static void
close_gaps(Place *place)
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

/* Lists the places, less the first, cell by cell. */
static void
list_by_cell(Place *place)
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
	Place	   *place = arg;

	(void) worker;
	for (size_t r = begin; r < end; r++)
		place->order[r] = place->to[place->p->build->order[r]] - (uint32_t) place->gap;
}

bool
grn_pipeline_place_rows(GrnPipeline *p, GrnPrepared *prepared, uint64_t **hashes,
						uint32_t **by_cell, uint32_t **slots, GrnFailure *failure)
{
	uint64_t	n = p->build->n;
	Place		place = {.p = p, .cells = grn_pipeline_cells(n)};
	GrnRows		all = p->rows;
	GrnParts	parts;
	GrnCells	found;
	char	   *work;

	place.row_bytes = p->rounded ? grn_own_item_bytes(GRN_FORM_ROUNDED, all.dim) : all.row_bytes;
	place.rounding = grn_rounded_layout(all.dim);
	place.piece = (uint32_t) (GRN_AHEAD_PIECE / place.row_bytes + 1);
	if (place.piece > n / place.cells / PIECES)
		place.piece = (uint32_t) (n / place.cells / PIECES);
	place.gap = (uint64_t) place.cells * place.piece;
	place.places = place.next = n + place.gap;
	place.stretch = (n + GRN_PLACE_STRETCHES - 1) / GRN_PLACE_STRETCHES;
	work = grn_pipeline_need(p, GRN_SEG_WORK, lay_out(&place, NULL), failure);
	if (!work)
		return false;
	lay_out(&place, work);

	all.order = p->build->order;
	all.on_disk = true;
	/* a sample, of which the kernel would read the neighbours as well */
	grn_pages_scattered(all.base, n * all.row_bytes, true);
	grn_parts_cells(&all, place.cells, 0, p->result->params.seed, p->parallel, place.cut, &parts, &found);
	grn_pages_scattered(all.base, n * all.row_bytes, false);
	/* no reading back of what was written a while ago, around each page that rows come to */
	grn_pages_scattered(place.copy, place.places * place.row_bytes, true);
	if (!copy_rows(&place, failure) || !grn_prepare_end(&place.prepare, prepared, failure))
		return false;
	close_gaps(&place);
	grn_pages_scattered(place.copy, place.places * place.row_bytes, false);
	list_by_cell(&place);
	p->parallel->run(p->parallel, n, GRN_PIPELINE_GRAIN, order_range, &place);
	p->rows.base = place.copy + place.gap * place.row_bytes;
	p->rows.row_bytes = place.row_bytes;
	if (p->rounded)
		p->rows.form = GRN_FORM_ROUNDED;
	p->order = place.order;
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
grn_pipeline_shows_many(const GrnRows *rows)
{
	size_t		bytes = grn_form_bytes(rows->form, rows->dim);
	size_t		count = rows->n / SHOWN_STRETCHES < SHOWN_ROWS ? rows->n / SHOWN_STRETCHES : SHOWN_ROWS;
	uint64_t	hashes[SHOWN_STRETCHES * SHOWN_ROWS];
	size_t		n = 0;
	size_t		distinct = 0;

	for (size_t s = 0; s < SHOWN_STRETCHES; s++)
		grn_rows_ahead(rows, rows->n * s / SHOWN_STRETCHES, rows->n * s / SHOWN_STRETCHES + count);
	for (size_t s = 0; s < SHOWN_STRETCHES; s++)
		for (size_t i = 0; i < count; i++)
			hashes[n++] = grn_hash_row(grn_row(rows, rows->n * s / SHOWN_STRETCHES + i), bytes);
	qsort(hashes, n, sizeof(*hashes), by_hash);
	for (size_t i = 0; i < n; i++)
		distinct += i == 0 || hashes[i] != hashes[i - 1];
	return distinct >= GRN_LEAST_CELL_ROWS;
}

typedef struct Together
{
	GrnPipeline *p;
	uint64_t	first;			/* vertex of the stretch */
} Together;

static void
together_range(void *arg, int worker, size_t begin, size_t end)
{
	const Together *t = arg;
	const GrnPipeline *p = t->p;
	size_t		row_bytes = p->rows.row_bytes;
	uint8_t    *base = (uint8_t *) p->rows.base;

	(void) worker;
	begin += t->first;
	end += t->first;
	grn_rows_ahead(&p->rows, begin, end);
	for (size_t v = begin; v < end; v++)
		memmove(base + v * row_bytes, base + p->distinct[v] * row_bytes, row_bytes);
}

bool
grn_pipeline_place_together(GrnPipeline *p)
{
	uint64_t	m = p->rows.n;
	size_t		row_bytes = p->rows.row_bytes;
	size_t		grain = GRN_AHEAD_PIECE / row_bytes + 1;
	Together	t = {.p = p};

	if (p->build->n - m <= p->build->n / COPIES_STAY)
		return false;
	while (t.first < m)
	{
		/* a row moves towards the beginning, by so many places, and those behind it by as many */
		uint64_t	by = p->distinct[t.first] - t.first;
		uint64_t	rows = by > SERIAL_ROWS ? by : SERIAL_ROWS;

		if (rows > m - t.first)
			rows = m - t.first;
		/* so many go to where none of them has been */
		p->parallel->run(p->parallel, rows, by > SERIAL_ROWS ? grain : rows, together_range, &t);
		t.first += rows;
	}
	grn_pages_remove((const char *) p->rows.base + m * row_bytes, (p->build->n - m) * row_bytes);
	p->rows.order = NULL;
	return true;
}
