/*
 * row_graph.h - grnnd_graph(): the arguments, and the rows read from the table.
 */
#ifndef GRNND_ROW_GRAPH_H
#define GRNND_ROW_GRAPH_H

#include "am/create/create.h"
#include "nodes/primnodes.h"

typedef struct GrnndRowGraph
{
	GrnndBuild	build;			/* before the first row only builder.sock is set */
	/* arguments */
	Relation	rel;			/* in AccessShareLock */
	Oid			type;			/* of the column, below domains */
	GrnndKey	key;
	const char *column;
	const char *row_column;		/* the values name rows: "ctid" or a key */
	Expr	   *vector;			/* of column */
	Expr	   *row;			/* of row_column */
	bool		by_tid;
	uint32		k;
	uint32		ef;
	bool		exact;
	double		farthest;
	/* rows */
	MemoryContext context;		/* for data that outlives the SELECT */
	bool		begun;
	bool		row_by_value;	/* of row_column's type */
	int16		row_length;
	uint64		room;			/* rows that fit in the segments */
	uint64		stored;			/* used bytes of ATTRS */
	uint64		stored_room;	/* allocated bytes of ATTRS */
	uint32		until_check;
	double		seconds;		/* for reading rows */
} GrnndRowGraph;

/* ---- row_graph_rows.c ---- */

/*
 * Reads the rows as the user: vectors into VECTORS, row names into TIDS.  Names
 * of more than 8 bytes lie in ATTRS.  If no row has a vector, build.rows is 0 and the build is not
 * begun.  Error: 54000 for a sparse row with too many elements.
 */
extern void grnnd_row_graph_collect(GrnndRowGraph *g);
/* Returns the name of a row: ctid or key. */
extern Datum grnnd_row_graph_row(const GrnndRowGraph *g, uint32 row);

#endif							/* GRNND_ROW_GRAPH_H */
