/*
 * frequent.c - frequent values of filter columns: their books, and which rows have them.
 *
 * The builder gives rows of a frequent value edges of its own (graph/build/value_edges.h).  It is
 * told of such values by the bytes of their signatures, and of no others.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "am/build/collect.h"
#include "am/build/frequent.h"
#include "am/build/progress.h"
#include "graph/build/value_edges.h"

/* Values of a column that its book is fitted to. */
#define BOOK_ROWS 30000

/* The sample errs by some rows, and the builder counts them all. */
#define ERRS 0.8

#define BYTES 256

static const uint8 *
values_of(const GrnndBuild *build, uint64 row)
{
	return (const uint8 *) build->map->base[GRN_SEG_ATTRS] + row * grnnd_row_bytes(build->attrs);
}

/*
 * Fits a column's book, and finds the bytes of frequent values among so many rows, of which the
 * build's are all or a sample; returns how many there are.  keys: [BOOK_ROWS] scratch.
 */
static uint32
fit_book(const GrnndBuild *build, uint32 column, double rows, int64 *keys, bool *frequent)
{
	GrnSigBook *book = &build->books[column];
	uint32		sampled = (uint32) Min(build->rows, BOOK_ROWS);
	uint32		counts[BYTES] = {0};
	uint32		n = 0;
	uint32		nfrequent = 0;

	for (uint32 i = 0; i < sampled; i++)
		if (grnnd_attr_key(build->attrs, column, values_of(build, i * build->rows / sampled), &keys[n]))
			n++;
	grn_sig_fit(book, build->attrs->attr[column].type->kind == GRNND_ATTR_ORDER, keys, n);
	for (uint32 i = 0; i < n; i++)
		counts[grn_sig_byte(book, keys[i])]++;
	counts[GRN_SIG_NULL] += sampled - n;
	for (int byte = 1; byte < BYTES; byte++)
	{
		double		share = (double) counts[byte] / sampled;

		frequent[byte] = share >= ERRS * GRN_LEAST_VALUE_SHARE && share < GRN_MOST_VALUE_SHARE / ERRS &&
			share * rows >= ERRS * GRN_LEAST_VALUE_ROWS;
		nfrequent += frequent[byte];
	}
	return nfrequent;
}

/* Writes segment VALUES; frequent: by column and byte. */
static void
number_rows(GrnndBuild *build, bool (*frequent)[BYTES])
{
	const GrnndAttrs *attrs = build->attrs;
	uint32		columns = build->spec.sig_bytes;
	uint64		bytes = build->rows * columns;
	uint8	   *numbers;
	const GrnndStretch stretch = {GRN_PHASE_COLLECT, build->rows, GRNND_ROWS_RANKED, 1};

	grnnd_mapping_grow(build->map, GRN_SEG_VALUES, bytes);
	grnnd_mapping_populate(build->map, GRN_SEG_VALUES, 0, bytes);
	numbers = (uint8 *) build->map->base[GRN_SEG_VALUES];
	for (uint64 row = 0; row < build->rows; row++)
	{
		uint8		sig[GRN_MAX_SIG_BYTES];

		grnnd_look(&stretch, row, build->rows);
		if (row % GRNND_LOOK_TURNS == 0)
			grnnd_builder_poll(&build->builder);
		grnnd_sign(attrs, build->books, values_of(build, row), sig);
		for (uint32 c = 0; c < columns; c++)
			numbers[row * columns + c] = frequent[c][sig[c]] ? sig[c] : 0;
	}
}

void
grnnd_fit_books(GrnndBuild *build, double rows)
{
	uint32		columns = build->spec.sig_bytes;
	bool		(*frequent)[BYTES] = palloc0(columns * sizeof(*frequent));
	int64	   *keys = palloc(BOOK_ROWS * sizeof(int64));
	uint32		nfrequent = 0;

	build->books = palloc0(columns * sizeof(GrnSigBook));
	for (uint32 c = 0; c < columns; c++)
		if (build->attrs->attr[c].type->kind != GRNND_ATTR_ARRAY)
			nfrequent += fit_book(build, c, rows, keys, frequent[c]);
	/* another host's builder is told nothing of values, and edges go by codes */
	if (nfrequent > 0 && build->spec.use_codes && build->spec.remote == GRN_REMOTE_NONE)
		number_rows(build, frequent);
	pfree(keys);
	pfree(frequent);
}
