/*
 * select_rows.h - rows of a relation, read by a SELECT that names nothing.
 *
 * The SELECT is a query tree: the relation, its columns, functions and operators are OIDs and
 * numbers, so no rename changes the meaning of the SELECT.  Privileges, row security and views
 * count as they do in a statement of the current user.
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
	Relation	rel;			/* the caller holds AccessShareLock or more */
	bool		only;			/* not its children or partitions */
	List	   *values;			/* expressions of a row; columns are those of range table entry 1 */
	List	   *where;			/* conditions, all of which hold */
	/* the rows in the order of the last value, if `limit` is not 0 */
	int64		limit;
	Oid			less;			/* the operator that sorts */
} GrnndSelect;

/*
 * Takes a row.  CurrentMemoryContext lasts until the next row.  Values may be in the executor's
 * memory, which lasts as long.
 */
typedef void (*GrnndRowFn) (void *arg, const Datum *values, const bool *isnull);

/* A column of the relation, or a system column such as ctid. */
extern Expr * grnnd_select_column(Relation rel, AttrNumber number);
/*
 * A plan, in CurrentMemoryContext, for as long as the caller's lock lasts.  Parameters are unknown
 * to the planner.
 */
extern PlannedStmt * grnnd_plan_select(const GrnndSelect *select);
/* Runs a plan under the active snapshot.  params may be NULL.  Errors: 42501 and those of fn. */
extern void grnnd_run_select(PlannedStmt * plan, ParamListInfo params, GrnndRowFn fn, void *arg);

#endif							/* GRNND_SELECT_ROWS_H */
