/*
 * descent.h - RNN-Descent on the processor's cores: the whole build of a graph.
 */
#ifndef GRN_DESCENT_H
#define GRN_DESCENT_H

#include "graph/construct/graph.h"
#include "graph/construct/projection.h"
#include "graph/rows.h"

/*
 * Multi-threaded RNN-Descent (Algorithms 1 and 2 of the GRNND paper; Ono &
 * Matsui, MM 2023), in synchronous rounds whose result does not depend on
 * the number of threads.  workspace: grn_rnnd_bytes() bytes.  progress is
 * called from the calling thread after each round; where it returns false the
 * build stops and grn_rnnd_build() returns false.  Distances are squared L2 of
 * the space.  With fill, lists shorter than the degree take near neighbours of
 * neighbours.
 */
extern size_t grn_rnnd_bytes(const GrnGraphParams *params, size_t n, uint32_t copied);

/* Dimensions of rows that are copied, to be compared as bytes; 0: as they are. */
static inline uint32_t
grn_copied_dims(const GrnRows *rows)
{
	return grn_form(rows->form)->direct ? 0 : rows->dim;
}

extern bool grn_rnnd_build(const GrnRows *rows, const GrnGraphParams *params,
						   bool fill, GrnParallel *parallel, void *workspace,
						   GrnGraph *graph, GrnProgressFn progress, void *progress_ctx);

/*
 * The same of a part of some rows, of which project is a projection; NULL where they are not
 * copied.  Other parts need not fit it again.  workspace: grn_rnnd_part_bytes() bytes.
 */
extern size_t grn_rnnd_part_bytes(const GrnGraphParams *params, size_t n, uint32_t copied);
extern bool grn_rnnd_build_part(const GrnRows *rows, const GrnGraphParams *params,
								bool fill, GrnParallel *parallel, const GrnProject *project,
								void *workspace, GrnGraph *graph, GrnProgressFn progress,
								void *progress_ctx);

/* RNN-Descent's defaults where the user gave 0 (test/bench/decisions.md). */
extern void grn_default_params(GrnGraphParams *params, uint32_t dim, size_t n);

#endif							/* GRN_DESCENT_H */
