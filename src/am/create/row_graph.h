/*
 * row_graph.h - grnnd_graph(): what is asked for, and the rows that it has read.
 */
#ifndef GRNND_ROW_GRAPH_H
#define GRNND_ROW_GRAPH_H

#include "am/create/build_state.h"
#include "nodes/primnodes.h"

typedef struct GrnndRowGraph
{
	GrnndBuild	build;			/* but for its builder unset before a row has come */
	/* what is asked for */
	Relation	rel;			/* in AccessShareLock */
	Oid			type;			/* of the column, below domains */
	GrnndKey	key;
	Oid			family;			/* of the operator class */
	const char *column;
	const char *row_column;		/* whose values stand for rows: "ctid" or a key */
	Expr	   *vector;			/* these two */
	Expr	   *row;
	bool		by_tid;
	uint32		k;
	uint32		ef;
	bool		exact;
	double		farthest;
	/* rows */
	MemoryContext context;		/* of what outlives the SELECT */
	bool		begun;
	bool		row_by_value;	/* of row_column's type */
	int16		row_length;
	uint64		room;			/* rows that the segments have room for */
	uint64		stored;			/* bytes of ATTRS that are used */
	uint64		stored_room;	/* and that may be */
	uint32		until_look;
	double		seconds;		/* of reading them */
} GrnndRowGraph;

/* ---- row_graph_rows.c ---- */

/*
 * Reads the rows as the user: into VECTORS, in TIDS what stands for each row, and of a
 * type with stand-ins the values; what is not 8 bytes long lies in ATTRS.  Does nothing more where
 * no row has a vector: build.rows is 0 then.
 */
extern void grnnd_row_graph_collect(GrnndRowGraph *g);
/* What stands for a row. */
extern Datum grnnd_row_graph_row(const GrnndRowGraph *g, uint32 row);
/* Its value, of a type with stand-ins. */
extern Datum grnnd_row_graph_value(const GrnndRowGraph *g, uint32 row);

#endif							/* GRNND_ROW_GRAPH_H */
