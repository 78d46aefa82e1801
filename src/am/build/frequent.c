/*
 * frequent.c - frequent values of filter columns: their books, and which rows have them.
 *
 * The builder gives rows of a frequent value edges of its own (graph/build/value_edges.h).  It is
 * told of such values by the bytes of their signatures, and of no others.  The leader fits the
 * books; leader and workers look at all rows.
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

/* Rows that a process takes at a time. */
#define STRETCH_ROWS 65536

static const uint8 *
values_of(const GrnndMapping *map, const GrnndAttrs *attrs, uint64 row)
{
	return (const uint8 *) map->base[GRN_SEG_ATTRS] + row * grnnd_row_bytes(attrs);
}

Size
grnnd_frequent_bytes(uint32 columns)
{
	return add_size(offsetof(GrnndFrequent, column), mul_size(columns, sizeof(GrnndFrequentColumn)));
}

/*
 * Fits a column's book, and finds the bytes of frequent values among so many rows, of which the
 * build's are all or a sample.  keys: [BOOK_ROWS] scratch.
 */
static void
fit_book(const GrnndBuild *build, uint32 column, double rows, int64 *keys, GrnndFrequentColumn *f)
{
	uint32		sampled = (uint32) Min(build->rows, BOOK_ROWS);
	uint32		counts[GRNND_SIG_BYTES] = {0};
	uint32		n = 0;

	for (uint32 i = 0; i < sampled; i++)
		if (grnnd_attr_key(build->attrs, column,
						   values_of(build->map, build->attrs, i * build->rows / sampled), &keys[n]))
			n++;
	grn_sig_fit(&f->book, build->attrs->attr[column].type->kind == GRNND_ATTR_ORDER, keys, n);
	for (uint32 i = 0; i < n; i++)
		counts[grn_sig_byte(&f->book, keys[i])]++;
	counts[GRN_SIG_NULL] += sampled - n;
	for (int byte = 1; byte < GRNND_SIG_BYTES; byte++)
	{
		double		share = (double) counts[byte] / sampled;

		f->frequent[byte] = share >= ERRS * GRN_LEAST_VALUE_SHARE && share < GRN_MOST_VALUE_SHARE / ERRS &&
			share * rows >= ERRS * GRN_LEAST_VALUE_ROWS;
		f->any |= f->frequent[byte];
	}
}

void
grnnd_find_frequent(GrnndBuild *build, double rows, GrnndFrequent *f)
{
	int64	   *keys = palloc(BOOK_ROWS * sizeof(int64));
	bool		any = false;

	f->columns = build->spec.sig_bytes;
	pg_atomic_init_u64(&f->next_row, 0);
	build->books = palloc0(f->columns * sizeof(GrnSigBook));
	for (uint32 c = 0; c < f->columns; c++)
	{
		if (build->attrs->attr[c].type->kind != GRNND_ATTR_ARRAY)
			fit_book(build, c, rows, keys, &f->column[c]);
		build->books[c] = f->column[c].book;
		any |= f->column[c].any;
	}
	pfree(keys);
	/* another host's builder is told nothing of values, and edges go by codes */
	if (any && build->spec.use_codes && build->spec.remote == GRN_REMOTE_NONE)
	{
		f->rows = build->rows;
		grnnd_mapping_grow(build->map, GRN_SEG_VALUES, f->rows * f->columns);
	}
}

/* Writes the numbers of a column's values. */
static void
mark_column(const GrnndFrequentColumn *f, const GrnndAttrs *attrs, const GrnndMapping *map, uint32 column,
			uint64 begin, uint64 end)
{
	uint8	   *numbers = (uint8 *) map->base[GRN_SEG_VALUES] + column;
	uint32		columns = attrs->n;

	for (uint64 row = begin; row < end; row++)
	{
		uint8		byte = GRN_SIG_NULL;
		int64		key;

		if (!f->any)
		{
			numbers[row * columns] = 0;
			continue;
		}
		if (grnnd_attr_key(attrs, column, values_of(map, attrs, row), &key))
			byte = grn_sig_byte(&f->book, key);
		numbers[row * columns] = f->frequent[byte] ? byte : 0;
	}
}

void
grnnd_mark_frequent(GrnndFrequent *f, const GrnndAttrs *attrs, GrnndMapping *map, GrnndBuild *build)
{
	const GrnndStretch stretch = {GRN_PHASE_COLLECT, f->rows, GRNND_ROWS_RANKED, 1};
	uint64		begin;

	while ((begin = pg_atomic_fetch_add_u64(&f->next_row, STRETCH_ROWS)) < f->rows)
	{
		uint64		end = Min(begin + STRETCH_ROWS, f->rows);

		CHECK_FOR_INTERRUPTS();
		if (build)
		{
			grnnd_report_stretch(&stretch, begin, f->rows);
			grnnd_builder_poll(&build->builder);
		}
		grnnd_mapping_populate(map, GRN_SEG_VALUES, begin * f->columns, end * f->columns);
		for (uint32 c = 0; c < f->columns; c++)
			mark_column(&f->column[c], attrs, map, c, begin, end);
	}
}
