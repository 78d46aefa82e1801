/*
 * select_rows.h - reads rows of a relation by a SELECT without names.  The SELECT is a query tree
 * whose relation, columns, functions and operators are OIDs and numbers, so a concurrent rename
 * cannot change its meaning.  Privileges, row security and views apply as in a statement of the
 * current user.
 */
#ifndef GRNND_SELECT_ROWS_H
#define GRNND_SELECT_ROWS_H

#include "postgres.h"

#include "access/attnum.h"
#include "nodes/params.h"
#include "nodes/plannodes.h"
#include "utils/relcache.h"

typedef struct GrnndSelect
{
	Relation	rel;			/* the caller holds at least AccessShareLock */
	bool		only;			/* exclude children and partitions */
	List	   *values;			/* expressions of a row; columns are Vars of range table entry 1 */
	List	   *where;			/* conditions, combined by AND */
	/* if > 0: the first rows in the order of the last value */
	int64		limit;
	Oid			less;			/* the ordering operator */
} GrnndSelect;

/* Receives a row.  CurrentMemoryContext and the values last until the next row. */
typedef void (*GrnndRowFn) (void *arg, const Datum *values, const bool *isnull);

/* A column of the relation, or a system column such as ctid. */
extern PGDLLEXPORT Expr * grnnd_select_column(Relation rel, AttrNumber number);
/*
 * Plans the SELECT, in CurrentMemoryContext.  The plan is valid while the caller's lock lasts.
 * The planner does not know the values of parameters.
 */
extern PGDLLEXPORT PlannedStmt * grnnd_plan_select(const GrnndSelect *select);
/* Runs a plan under the active snapshot.  params may be NULL.  Errors: 42501, and those of fn. */
extern PGDLLEXPORT void grnnd_run_select(PlannedStmt * plan, ParamListInfo params, GrnndRowFn fn, void *arg);

#endif							/* GRNND_SELECT_ROWS_H */
