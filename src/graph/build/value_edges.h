/*
 * value_edges.h - edges between vertices that share a frequent value of a filter column.
 *
 * A search with a filter goes from one vertex that passes to others that pass.  Of a value that a
 * tenth of the rows have, three of a vertex's 26 neighbours do, and they lead nowhere soon.  So the
 * rows of such a value get a graph of their own, and vertices take edges of it in the place of
 * their farthest neighbours.
 */
#ifndef GRN_VALUE_EDGES_H
#define GRN_VALUE_EDGES_H

#include "graph/build/graph.h"
#include "graph/rows.h"

/* Values of a build's rows: numbers of those that get edges of their own, 0 for others. */
typedef struct GrnValues
{
	const uint8_t *numbers;		/* [rows of the build][columns] */
	uint32_t	columns;
} GrnValues;

/* The number of a vertex's value. */
static inline uint8_t
grn_value(const GrnValues *values, const GrnRows *rows, uint32_t column, size_t vertex)
{
	return values->numbers[(rows->order ? rows->order[vertex] : vertex) * values->columns + column];
}

#define GRN_FEWEST_VALUE_EDGES 3	/* fewer lead nowhere */

/*
 * Edges of a value that a vertex takes at most, where it has values of so many columns that get
 * some: a fourth of the degree, and two more for each further column, in all.  Rows with short
 * codes get a sixth.  Of SIFT descriptors, which have such, searches without a filter make 5% more
 * visits for a fourth and 3% more for a sixth, and a tenth of the rows is searched as fast by its
 * list.  Of sentences they make 2% more for a fourth, and a filter that a tenth of the rows passes
 * takes a seventh more visits with a sixth (test/bench/tried.md).  0: a list has none to spare.
 */
#define GRN_SHORT_CODE 32		/* bytes */
static inline uint32_t
grn_most_value_edges(uint32_t degree, uint32_t columns, size_t code_bytes)
{
	uint32_t	part = code_bytes <= GRN_SHORT_CODE ? 6 : 4;
	uint32_t	all = (degree + part - 1) / part + 2 * (columns - 1);
	uint32_t	edges = (all < 2 * degree / 5 ? all : 2 * degree / 5) / columns;

	return edges < GRN_FEWEST_VALUE_EDGES ? 0 : edges;
}

/*
 * Whether a value gets edges of its own where so many of n vertices have it.  The list of one that
 * has fewer rows is read as fast as a search takes (am/lists.h); of a value that is more
 * frequent, enough of a vertex's neighbours have it anyway.  Edges for half of a million rows spare
 * a search 5 to 8% of its visits, but their graph takes cores a fifth of the build's time, so
 * cores make none.
 */
#define GRN_LEAST_VALUE_SHARE 0.025
#define GRN_MOST_VALUE_SHARE 0.55
#define GRN_MOST_VALUE_SHARE_ON_CORES 0.45
#ifdef GRNND_TEST_POINTS		/* tests have few rows */
#define GRN_LEAST_VALUE_ROWS 1000
#else
#define GRN_LEAST_VALUE_ROWS 20000
#endif
static inline bool
grn_has_value_edges(double count, double n, bool on_gpu)
{
	double		most = on_gpu ? GRN_MOST_VALUE_SHARE : GRN_MOST_VALUE_SHARE_ON_CORES;

	return count >= GRN_LEAST_VALUE_ROWS && count >= GRN_LEAST_VALUE_SHARE * n && count < most * n;
}

/* So many neighbours that share a value are enough. */
static inline uint32_t
grn_enough_sharing(uint32_t degree)
{
	return 5 * degree / 8;
}

/* How many neighbours share a vertex's value of a column. */
extern uint32_t grn_sharing(const GrnRows *rows, const GrnValues *values, uint32_t column,
							const GrnGraph *graph, uint32_t vertex);

/*
 * Adds to a vertex's list up to `most` of near [n]: its neighbours among those that share its value
 * of a column, nearest first.  The nearest neighbours stay, and those that share a value of
 * any column.  Others give way from the end on, and new ones stand in their places, so the end of a
 * list may be out of order.
 */
extern void grn_add_value_edges(const GrnRows *rows, const GrnValues *values, uint32_t column, GrnGraph *graph,
								uint32_t vertex, const uint32_t *near, uint32_t n, uint32_t most);

#endif							/* GRN_VALUE_EDGES_H */
