/*
 * queries.h - a few queries, and the nearest to each of all rows, which are compared with them.
 */
#ifndef GRN_QUERIES_H
#define GRN_QUERIES_H

#include "graph/grn.h"
#include "graph/metric.h"
#include "graph/rows.h"

#define GRN_MOST_QUERIES 400

/* The least distances of a query, sorted. */
typedef struct GrnLeast
{
	uint32_t	n;
	float		d[GRN_CURVE_MOST_K];
} GrnLeast;

typedef struct GrnQueries
{
	GrnComparison comparison;
	GrnRows		rows;			/* their form and dimensions are those of all */
	uint32_t	n;
	int			threads;
	float	   *floats;			/* [n][dim] */
	char	   *made;			/* [n][made_bytes] made ready for rows of that form, or NULL */
	size_t		made_bytes;
	bool		by_products;	/* inner products tell which rows are far */
	float		norm2[GRN_MOST_QUERIES];	/* |q|^2 */
	GrnLeast   *nearest;		/* [threads][n]; once they are joined, of the first all */
} GrnQueries;

/*
 * Makes queries of n of these rows, at most GRN_MOST_QUERIES.  False where there is no memory;
 * then, too, grn_queries_free() is the caller's.
 */
extern bool grn_queries_make(GrnQueries *q, GrnComparison comparison, const GrnRows *rows,
							 const void *const *of, uint32_t n, int threads);
extern void grn_queries_free(GrnQueries *q);

/* Query i and a row. */
extern float grn_queries_compare(const GrnQueries *q, uint32_t i, const void *row);
/*
 * One thread compares a row with all queries but those whose entry in ids [n] is the row's id.
 * scratch: [dim].
 */
extern void grn_queries_see(GrnQueries *q, int thread, const uint32_t *ids, uint32_t id,
							const void *row, float *scratch);
/* Of all threads' nearest to one. */
extern void grn_queries_join(GrnQueries *q);

#endif							/* GRN_QUERIES_H */
