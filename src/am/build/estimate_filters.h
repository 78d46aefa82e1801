/*
 * estimate_filters.h - what filter columns take of a build and of its index, by a sample.
 */
#ifndef GRNND_ESTIMATE_FILTERS_H
#define GRNND_ESTIMATE_FILTERS_H

#include "utils/array.h"

#include "am/build/build_state.h"

/* Columns of a table that are to be filter columns. */
typedef struct GrnndFilterColumns
{
	uint32		n;
	const char *names[GRNND_MAX_ATTRS];
	GrnndAttrs *attrs;
} GrnndFilterColumns;

/* Of the rows, in the table or the sample, that have a frequent value of some column. */
typedef struct GrnndMembers
{
	uint32		columns;
	uint32		(*counts)[256]; /* [columns] the sample's, by the bytes of segment VALUES */
} GrnndMembers;

/* What an index takes for its filter columns, beside what its records hold of them. */
typedef struct GrnndFilterNeeds
{
	double		records;		/* of lists */
	double		pages;			/* books, sample and directory */
	double		bytes;			/* of segment ATTRS behind the rows' values, while it is written */
} GrnndFilterNeeds;

/* A table's column by its name; error 42703 if there is none. */
extern Form_pg_attribute grnnd_table_column(Relation table, const char *name);
/*
 * The columns of a table by their names, palloc'd, with the operator classes that CREATE INDEX
 * takes by default.  Errors: 22004 for a name that is NULL, 42703 for one that there is not, 54011
 * for too many, 42704 and 42883 where the type of one cannot be filtered by, 0A000 for a vector
 * or a virtual generated column.
 */
extern GrnndFilterColumns *grnnd_filter_columns(Relation table, ArrayType * names);

/* Counts the rows of a sample by frequent value, after grnnd_fit_books(). */
extern GrnndMembers grnnd_count_members(const GrnndBuild *build);
/*
 * Rows of a table with that many, and so many distinct ones, that get a graph by some frequent
 * value of theirs, each counted once for each column.
 */
extern double grnnd_rows_with_edges(const GrnndBuild *build, const GrnndMembers *members, double rows,
									double nodes);

/*
 * By the last build over a sample, of so many rows: the needs of an index with that layout on
 * so many rows and distinct rows, which take `records` records.  The sample's arrays lose the
 * elements that would have no list.
 */
extern GrnndFilterNeeds grnnd_filter_needs(GrnndBuild *build, const GrnLayout *layout, uint64 sampled,
										   double rows, double nodes, double records);

#endif							/* GRNND_ESTIMATE_FILTERS_H */
