/*
 * descent.h - RNN-Descent on the processor's cores: the whole build of a graph.
 */
#ifndef GRN_DESCENT_H
#define GRN_DESCENT_H

#include "graph/graph.h"
#include "memory/memory.h"
#include "space/rows.h"
#include "store/codec.h"

/*
 * projection.c: projects rows of floats to a few signed bytes, for the descent: the
 * coordinates along principal directions, which are rotated so that all have a similar share
 * of the variance.
 */

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

/*
 * workspace.c: the arrays of a build, except the graph's own, and their bytes.  The builder
 * places the arrays, and grnnd_build_estimate() counts their bytes.
 */

/* The parameters that determine the bytes of a workspace. */
typedef struct GrnWorkNeeds
{
	uint64_t	rows;			/* n */
	uint64_t	nodes;			/* m, the distinct rows */
	uint32_t	dim;
	uint32_t	degree;
	uint32_t	code_bytes;		/* bytes of the longest possible code */
	uint32_t	code_dims;		/* the most directions of a codec; 0: no codes */
	bool		centered;
	/* If rows have moved into the workspace (src/builder/pipeline_place.c): */
	uint64_t	placed_bytes;	/* bytes of the rows, at the start of the workspace; 0: rows have
								 * not moved */
	uint64_t	own_bytes;		/* bytes of a record's own vector, if kept in the workspace;
								 * otherwise 0 */
} GrnWorkNeeds;

/* The arrays; NULL for arrays that the build does not need. */
typedef struct GrnWork
{
	uint32_t   *vertex_of_rank; /* [n] */
	uint32_t   *order;			/* [n] order of rows that have moved */
	uint8_t    *own;			/* [m][own_bytes] */
	uint32_t   *distinct;		/* [m] */
	uint32_t   *position;		/* [m] */
	GrnFactor  *factors;		/* [m] */
	uint32_t   *ids;			/* [m][degree] */
	uint8_t    *counts;			/* [m] */
	uint8_t    *codes;			/* [m][code_bytes] */
	float	   *codec;			/* grn_codec_floats() */
	float	   *center;			/* [dim] */
	char	   *scratch;
	uint64_t	kept_bytes;		/* bytes of all arrays except scratch */
	uint64_t	bytes;			/* bytes of all arrays */
} GrnWork;

/* Places the arrays in the workspace.  With work NULL only the bytes are valid. */
extern GRN_EXPORT GrnWork grn_place_work_arrays(const GrnWorkNeeds *needs, char *work);

/* Returns the bytes of the earlier comparison of n rows: ranks, hashes and their table. */
static inline uint64_t
grn_compare_work_bytes(uint64_t n)
{
	return grn_aligned(n * sizeof(uint32_t)) + n * (sizeof(uint64_t) + 2 * sizeof(uint32_t));
}

/* Returns the bytes of scratch for connecting and ordering a graph of n vertices. */
extern size_t grn_finish_bytes(size_t n);

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
