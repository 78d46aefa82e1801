/*
 * callbacks.h - the access method's callbacks, by file.
 */
#ifndef GRNND_CALLBACKS_H
#define GRNND_CALLBACKS_H

#include "postgres.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "nodes/execnodes.h"

/* ---- create/build.c; grnnd_buildphasename() is in create/progress.c ---- */

extern IndexBuildResult *grnnd_build(Relation heap, Relation index, IndexInfo *info);
extern void grnnd_buildempty(Relation index);
extern char *grnnd_buildphasename(int64 phase);

/* ---- write/insert.c ---- */

extern bool grnnd_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid,
						 Relation heap, IndexUniqueCheck unique, bool unchanged,
						 IndexInfo *info);

/* ---- scan/scan.c ---- */

extern IndexScanDesc grnnd_beginscan(Relation index, int nkeys, int norderbys);
extern void grnnd_rescan(IndexScanDesc scan, ScanKey keys, int nkeys,
						 ScanKey orderbys, int norderbys);
extern bool grnnd_gettuple(IndexScanDesc scan, ScanDirection dir);
extern void grnnd_endscan(IndexScanDesc scan);

/* ---- write/vacuum.c ---- */

extern IndexBulkDeleteResult *grnnd_bulkdelete(IndexVacuumInfo *info,
											   IndexBulkDeleteResult *stats,
											   IndexBulkDeleteCallback callback,
											   void *callback_state);
extern IndexBulkDeleteResult *grnnd_vacuumcleanup(IndexVacuumInfo *info,
												  IndexBulkDeleteResult *stats);

/* ---- scan/cost.c (options.c and opclass.h declare the other callbacks) ---- */

struct PlannerInfo;
struct IndexPath;
extern void grnnd_costestimate(struct PlannerInfo *root, struct IndexPath *path,
							   double loop_count, Cost *startup, Cost *total,
							   Selectivity *selectivity, double *correlation,
							   double *pages);
/*
 * The cost of a search among the rows of a bitmap.  path: the index path in the order of
 * distances; heap: the planner's own path for the bitmap.  Returns false if the index does not have
 * the rows that the conditions want.
 */
struct BitmapHeapPath;
extern bool grnnd_bitmap_cost(struct PlannerInfo *root, struct IndexPath *path, struct BitmapHeapPath *heap,
							  Cost *startup, Cost *total);

/* ---- scan/first_rows.c ---- */

/* How a query uses rows in the order of distance, some of which are missing. */
typedef enum GrnndFirstRows
{
	GRNND_FIRST_ROWS,			/* uses the first rows, by LIMIT */
	GRNND_ALL_ROWS,				/* uses all rows, and would lack some */
	GRNND_WRONG_VALUES			/* computes values from all rows, which would be wrong */
} GrnndFirstRows;

extern GrnndFirstRows grnnd_first_rows(struct PlannerInfo *root, const struct IndexPath *path);

#endif							/* GRNND_CALLBACKS_H */
