/*
 * descent.h - the graph build on the CPU's cores, and the steps that GPU and CPU
 * builds share: duplicates, pruning, connecting, ordering.
 */
#ifndef GRN_RNND_H
#define GRN_RNND_H

#include "graph/kernels/dist.h"
#include "graph/space.h"

#include <string.h>

/* Rows of the build: row i is base + order[i] * stride (order NULL: i itself). */
typedef struct GrnRows
{
	const float *base;
	const uint32_t *order;
	size_t		n;
	size_t		stride;			/* floats between rows, >= dim */
	uint32_t	dim;
	bool		scaled;			/* a GrnScale follows a row's dim floats (GRN_IP) */
} GrnRows;

static inline const float *
grn_row(const GrnRows *rows, size_t i)
{
	return rows->base + (rows->order ? rows->order[i] : i) * rows->stride;
}

/* What takes row x to its place in the space. */
static inline float
grn_row_scale(const GrnRows *rows, const float *x)
{
	return rows->scaled ? x[rows->dim] : 1;
}

/* Squared distance in the space of rows x and y; the same for y and x. */
static inline float
grn_row_distance(const GrnRows *rows, const float *x, const float *y)
{
	GrnScale	a,
				b;
	float		d;

	if (!rows->scaled)
		return grn_dist->l2_f32(x, y, rows->dim);
	if (x == y)
		return 0;				/* whatever rounding would leave */
	memcpy(&a, x + rows->dim, sizeof(a));
	memcpy(&b, y + rows->dim, sizeof(b));
	d = (a.norm2 + b.norm2) - 2 * (a.scale * b.scale) * grn_dist->ip_f32(x, y, rows->dim);
	return d > 0 ? d : 0;
}

/* Adjacency: ids[i * degree .. + counts[i]), nearest first. */
typedef struct GrnGraph
{
	uint32_t   *ids;			/* [n][degree] */
	uint8_t    *counts;			/* [n] */
	uint32_t	n;
	uint32_t	degree;
} GrnGraph;

/*
 * Multi-threaded RNN-Descent (Algorithms 1 and 2 of the GRNND paper; Ono &
 * Matsui, MM 2023), in synchronous rounds whose result does not depend on
 * the number of threads.  workspace: grn_rnnd_bytes() bytes.  progress is
 * called from the calling thread after each round; where it returns false the
 * build stops and grn_rnnd_build() returns false.  Distances are squared L2 of
 * the space.  With fill, lists shorter than the degree take near neighbours of
 * neighbours.
 */
extern size_t grn_rnnd_bytes(const GrnGraphParams *params, size_t n, uint32_t dim);
extern bool grn_rnnd_build(const GrnRows *rows, const GrnGraphParams *params,
						   bool fill, GrnParallel *parallel, void *workspace,
						   GrnGraph *graph, GrnProgressFn progress, void *progress_ctx);

/*
 * Groups identical rows.  first[i] is the smallest j with row j equal to row i (i
 * itself for the first of its kind); returns the number of distinct rows.
 * workspace: 16 * n bytes.
 */
extern size_t grn_find_duplicates(const GrnRows *rows, GrnParallel *parallel,
								  uint32_t *first, void *workspace);

/*
 * Makes every vertex reachable from entry by adding or replacing edges, each
 * replaced edge redirected so that nothing else gets lost; returns the number
 * of vertices that had to be connected.  parallel may be NULL here and below.
 * workspace: grn_connect_bytes(n).
 */
extern size_t grn_connect_bytes(size_t n);
extern size_t grn_connect(const GrnRows *rows, GrnGraph *graph, uint32_t entry,
						  GrnParallel *parallel, void *workspace);
/* Number of vertices reachable from entry. workspace: grn_connect_bytes(n). */
extern size_t grn_reachable(const GrnGraph *graph, uint32_t entry,
							GrnParallel *parallel, void *workspace);

/* NULL when sound: counts <= degree, ids < n, no self, no duplicate; else what is wrong. */
extern const char *grn_graph_check(const GrnGraph *graph, uint32_t *bad_vertex);
/* The same for vertices [begin, end), so that threads can share the work. */
extern const char *grn_graph_check_range(const GrnGraph *graph, size_t begin, size_t end,
										 uint32_t *bad_vertex);

/* The row nearest to the mean of a sample. */
extern uint32_t grn_medoid(const GrnRows *rows, GrnParallel *parallel, uint64_t seed);

/*
 * Graph-local order: position[i] is where vertex i goes, such that groups of
 * per_page consecutive positions hold vertices that are neighbours (greedy
 * packing).  workspace: 12 * n bytes.
 */
extern void grn_order(const GrnGraph *graph, uint32_t per_page, uint32_t *position,
					  GrnParallel *parallel, void *workspace);

/* RNN-Descent's defaults where the user gave 0 (test/bench/graph/defaults). */
extern void grn_default_params(GrnGraphParams *params, uint32_t dim, size_t n);

#endif							/* GRN_RNND_H */
