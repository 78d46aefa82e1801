/*
 * frequent.h - frequent values of filter columns.
 */
#ifndef GRNND_FREQUENT_H
#define GRNND_FREQUENT_H

#include "am/build/build_state.h"

/* Bytes that stand for a column's values. */
#define GRNND_SIG_BYTES 256

typedef struct GrnndFrequentColumn
{
	GrnSigBook	book;
	bool		any;
	bool		frequent[GRNND_SIG_BYTES];	/* by the byte of a value */
} GrnndFrequentColumn;

/* Which values are frequent; in shared memory where workers look for the rows that have them. */
typedef struct GrnndFrequent
{
	pg_atomic_uint64 next_row;	/* first row that no process has taken */
	uint64		rows;			/* 0: no value is frequent, or the builder is not told of any */
	uint32		columns;
	GrnndFrequentColumn column[FLEXIBLE_ARRAY_MEMBER];
} GrnndFrequent;

/* Bytes of one for so many columns; must be zero at first. */
extern Size grnnd_frequent_bytes(uint32 columns);

/*
 * Fits the books of the columns to a sample of the collected rows' values (build->books), and finds
 * frequent values.  Where there are some it lengthens segment VALUES.  rows: of the table, where
 * those collected are a sample (estimate.c).
 */
extern void grnnd_find_frequent(GrnndBuild *build, double rows, GrnndFrequent *f);

/*
 * A process's share of segment VALUES: which rows have frequent values, for the builder.  build: in
 * the leader, which reports and hears the builder meanwhile; NULL in a worker.
 */
extern void grnnd_mark_frequent(GrnndFrequent *f, const GrnndAttrs *attrs, GrnndMapping *map,
								GrnndBuild *build);

#endif							/* GRNND_FREQUENT_H */
