/*
 * projection.h - projects rows of floats to a few signed bytes, for the descent: the
 * coordinates along principal directions, which are rotated so that all have a similar share
 * of the variance.
 */
#ifndef GRN_PROJECTION_H
#define GRN_PROJECTION_H

#include "space/rows.h"
#include "store/codec.h"

typedef struct GrnProject
{
	GrnCodec	codec;			/* GRN_NO_CODES: all coordinates, minus the mean */
	uint32_t	dims;			/* bytes of a row */
	float		scale;			/* byte steps in a unit of length */
} GrnProject;

/* Returns the most bytes of a projected row. */
extern uint32_t grn_project_max_dims(uint32_t dim);
extern size_t grn_project_bytes(size_t n, uint32_t dim);
/*
 * Fits a projection to a sample.  workspace: grn_project_bytes() bytes.  The first
 * grn_project_kept() bytes must remain as long as the projection.
 */
extern size_t grn_project_kept(uint32_t dim);
extern void grn_project_fit(GrnProject *project, const GrnRows *rows, uint64_t seed,
							GrnParallel *parallel, void *workspace);
/*
 * Adapts a projection to one part of the rows, with the part's own mean [dim] and scale,
 * because a part may be a small cluster far from other rows.  The directions remain if they
 * keep enough of the part's variance; otherwise all coordinates become bytes.
 */
extern void grn_project_part(GrnProject *project, const GrnRows *rows, GrnParallel *parallel, float *mean);
/* Projects rows [begin, end) to out [.][stride], padded with 0; terms [.][2]: of a GrnTile. */
extern void grn_project_rows(const GrnProject *project, const GrnRows *rows, size_t begin,
							 size_t end, size_t stride, int8_t *out, int32_t *terms);

#endif							/* GRN_PROJECTION_H */
