/*
 * projection.h - rows of floats as a few signed bytes, for the descent: their parts along
 * principal directions, which are rotated so that each has a like share of the variance.
 */
#ifndef GRN_PROJECTION_H
#define GRN_PROJECTION_H

#include "graph/rows.h"
#include "graph/stored/codec.h"

typedef struct GrnProject
{
	GrnCodec	codec;			/* no codes: coordinates themselves, less the mean */
	uint32_t	dims;			/* bytes of a row */
	float		scale;			/* bytes a unit of length */
} GrnProject;

/* The most bytes that a row takes. */
extern uint32_t grn_project_max_dims(uint32_t dim);
extern size_t grn_project_bytes(size_t n, uint32_t dim);
/*
 * Fits to a sample.  workspace: grn_project_bytes() bytes, of which the first grn_project_kept()
 * live as long as the projection.
 */
extern size_t grn_project_kept(uint32_t dim);
extern void grn_project_fit(GrnProject *project, const GrnRows *rows, uint64_t seed,
							GrnParallel *parallel, void *workspace);
/*
 * Makes a projection one of a part of its rows, with their mean, for which there is room [dim],
 * and scale: a part may be a cluster far from others, and small.  Directions stay, if they hold
 * enough of the part's variance.
 */
extern void grn_project_part(GrnProject *project, const GrnRows *rows, GrnParallel *parallel, float *mean);
/*
 * Rows [begin, end) into out [.][stride], zero padded, and what a GrnTile wants of each into terms
 * [.][2].
 */
extern void grn_project_rows(const GrnProject *project, const GrnRows *rows, size_t begin,
							 size_t end, size_t stride, int8_t *out, int32_t *terms);

#endif							/* GRN_PROJECTION_H */
