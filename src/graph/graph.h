/*
 * graph.h - graphs of neighbor lists in memory: checks, reachability, middles, copies and nearest
 * rows.
 */
#ifndef GRN_GRAPH_H
#define GRN_GRAPH_H

#include "space/grn.h"
#include "space/rows.h"

/* graph.c: a graph of neighbor lists, and the check that a graph is sound. */

/*
 * Adjacency lists: the neighbors of vertex v are ids[v * degree ..  + counts[v]), nearest first.
 */
typedef struct GrnGraph
{
	uint32_t   *ids;			/* [n][degree] */
	uint8_t    *counts;			/* [n] */
	uint32_t	n;
	uint32_t	degree;
} GrnGraph;

/*
 * Returns NULL if the graph is sound: counts <= degree, ids < n, no vertex is its own neighbor, no
 * neighbor is repeated.  Otherwise returns a description of any fault, and *bad_vertex.
 */
extern const char *grn_graph_check(const GrnGraph *graph, GrnParallel *parallel,
								   uint32_t *bad_vertex);

/* reach.c: finds the vertices that an entry reaches. */

/* Words of a set of n vertices, one bit for each vertex. */
#define GRN_REACH_WORDS(n) (((size_t) (n) + 63) / 64)

/*
 * Adds to reached [GRN_REACH_WORDS(n)] the entry, which the set must not have, and all vertices
 * that the entry reaches by vertices outside the set.  Returns their number.  queue: [n].
 */
extern size_t grn_reach(const GrnGraph *graph, uint32_t entry, uint64_t *reached, uint32_t *queue);
/*
 * Returns the number of vertices reachable from entry.  workspace: grn_reach_bytes(n) bytes, which
 * begin with the set of these vertices afterwards.
 */
extern size_t grn_reach_bytes(size_t n);
extern size_t grn_reachable(const GrnGraph *graph, uint32_t entry, void *workspace);

/* medoid.c: finds the row in the middle, where searches of a graph start. */

/* Returns the row of a sample that is nearest to the sample's mean; GRN_INVALID_ID without rows. */
extern uint32_t grn_medoid(const GrnRows *rows, uint64_t seed);

/* duplicates.c: finds rows that are identical in every bit. */

/* The most loops that grn_find_duplicates() runs over the rows. */
#define GRN_DUPLICATE_STRETCHES 16

/* Hashes the first `bytes` bytes of a row, which exclude the row's scale. */
extern uint64_t grn_hash_row(const void *row, size_t bytes);

/*
 * Groups identical rows.  first[i] is the smallest j for which row j equals row i (i itself
 * for the first of equal rows).  Returns the number of distinct rows.  hashes: [n] results of
 * grn_hash_row(), by storage order and not by rank.  workspace: 8 * n bytes.  visit: NULL, or
 * [n] places of rows in the order of comparison.  With visit, rows->order must be an order of
 * all rows.  If memory does not hold the rows, copies should be near each other in visit.
 */
extern size_t grn_find_duplicates(const GrnRows *rows, const uint64_t *hashes, const uint32_t *visit,
								  GrnParallel *parallel, uint32_t *first, void *workspace);

/*
 * nearest.c: finds the nearest vertices of every vertex by the metric's comparison of rows:
 * by a search of the graph that begins at the vertex, or exactly, by comparing all pairs.
 *
 * On request a vertex is among its own nearest vertices, because a vertex may stand for
 * several rows.
 */

/* The most vertices of one call of grn_nearest_exact(). */
#define GRN_NEAREST_BLOCK 64

typedef struct GrnNear
{
	uint32_t	id;
	float		compared;		/* result of the metric's comparison */
} GrnNear;

typedef struct GrnNearest
{
	const GrnRows *rows;		/* the vertices */
	GrnComparison comparison;
	uint32_t	k;				/* longest list wanted */
	/* The following fields are for searches only. */
	const GrnGraph *graph;
	uint32_t	ef;				/* candidates that a search keeps, >= k */
	const uint32_t *entries;	/* further candidates of each search, for vertices in small
								 * components */
	uint32_t	nentries;
} GrnNearest;

/*
 * Returns the bytes of a thread's workspace for searches.  The caller zeroes the workspace
 * before the first search and passes it unchanged to further searches.
 */
extern size_t grn_nearest_search_bytes(const GrnNearest *n);
/* Writes the nearest vertices of v to out [k], in order; returns their number.  own: v too. */
extern uint32_t grn_nearest_search(const GrnNearest *n, void *work, uint32_t v, bool own,
								   GrnNear *out);

/* Returns the bytes of a thread's workspace for exact lists. */
extern size_t grn_nearest_exact_bytes(const GrnNearest *n);
/*
 * Writes the nearest vertices of vertices [begin, begin + count), count <= GRN_NEAREST_BLOCK,
 * to out [count][k] and counts [count].  own [count]: whether a vertex is among its own
 * nearest.  Of equally near vertices the smaller ids are taken.
 */
extern void grn_nearest_exact(const GrnNearest *n, void *work, size_t begin, uint32_t count,
							  const bool *own, GrnNear *out, uint32_t *counts);

#endif							/* GRN_GRAPH_H */
