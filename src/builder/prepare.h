/*
 * prepare.h - the first pass over the rows as they were collected.
 */
#ifndef GRN_PREPARE_H
#define GRN_PREPARE_H

#include "builder/host.h"
#include "builder/thread_pool.h"
#include "graph/form.h"
#include "graph/metric.h"

typedef struct GrnPrepared
{
	float		norm_unit;		/* of scaled rows: a typical norm, unit of grn_scale() */
	GrnForm		form;			/* smallest that holds every row exactly */
} GrnPrepared;

/*
 * Checks base [n][stride] for values that are not finite (reported by row, from
 * 1) and for norms out of range, and writes a GrnScale behind each row that has one.
 */
extern bool grn_prepare(float *base, size_t n, size_t stride, const GrnMetricInfo *metric,
						uint32_t dim, GrnPool *pool, GrnPrepared *out,
						GrnFailure *failure);

#endif							/* GRN_PREPARE_H */
