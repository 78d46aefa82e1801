/*
 * descent.h - RNN-Descent on the processor's cores: the whole build of a graph.
 */
#ifndef GRN_DESCENT_H
#define GRN_DESCENT_H

#include "graph/graph.h"
#include "graph/projection.h"
#include "space/rows.h"

/*
 * Multi-threaded RNN-Descent (Algorithms 1 and 2 of the GRNND paper; Ono & Matsui, MM 2023),
 * in synchronous rounds.  The result does not depend on the number of threads.  workspace:
 * grn_rnnd_bytes() bytes.  The calling thread calls progress after each slice of a round.
 * Distances are squared L2 distances of places.  With fill, lists shorter than the degree are
 * filled with near neighbors of neighbors.
 */
extern GRN_EXPORT size_t grn_rnnd_bytes(const GrnGraphParams *params, size_t n, uint32_t copied);

/* Returns the dimensions of rows that are copied as bytes; 0: rows are compared in place. */
static inline uint32_t
grn_copied_dims(const GrnRows *rows)
{
	return grn_form(rows->form)->direct ? 0 : rows->dim;
}

extern void grn_rnnd_build(const GrnRows *rows, const GrnGraphParams *params,
						   bool fill, GrnParallel *parallel, void *workspace,
						   GrnGraph *graph, GrnProgressFn progress, void *progress_ctx);

/*
 * Builds the graph of one part of the rows.  project: a projection fitted to all rows, so that
 * parts need no fit of their own; NULL if rows are not copied.  workspace:
 * grn_rnnd_part_bytes() bytes.
 */
extern size_t grn_rnnd_part_bytes(const GrnGraphParams *params, size_t n, uint32_t copied);
extern void grn_rnnd_build_part(const GrnRows *rows, const GrnGraphParams *params,
								bool fill, GrnParallel *parallel, const GrnProject *project,
								void *workspace, GrnGraph *graph, GrnProgressFn progress,
								void *progress_ctx);

/* Replaces zeros in params by RNN-Descent's defaults (test/bench/decisions.md). */
extern GRN_EXPORT void grn_default_params(GrnGraphParams *params, uint32_t dim, size_t n);

#endif							/* GRN_DESCENT_H */
