/*
 * prepare.h - the first pass over the rows as they were collected.
 */
#ifndef GRN_PREPARE_H
#define GRN_PREPARE_H

#include "builder/host.h"
#include "graph/rows.h"

typedef struct GrnPrepared
{
	float		norm_unit;		/* of scaled rows: a typical norm, unit of grn_scale() */
	GrnForm		form;			/* smallest that holds every row exactly */
} GrnPrepared;

/*
 * Checks the rows, without their order, for values that are not finite (reported by row, from
 * 1) and for norms out of range, and writes a GrnScale behind each row that has one. hashes:
 * [n] what grn_find_duplicates() wants, or NULL.  Rows are read once for all of this: they may
 * lie on a disk.  also() (NULL: nothing) does whatever else is to be done of rows that have
 * just been read.
 */
extern bool grn_prepare(const GrnRows *rows, const GrnMetricInfo *metric, GrnParallel *parallel,
						uint64_t *hashes, GrnRangeFn also, void *arg, GrnPrepared *out,
						GrnFailure *failure);

#endif							/* GRN_PREPARE_H */
