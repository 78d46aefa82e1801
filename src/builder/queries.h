/*
 * queries.h - finds, for a few queries, the nearest of all rows by comparison.
 */
#ifndef GRN_QUERIES_H
#define GRN_QUERIES_H

#include "space/grn.h"
#include "space/metric.h"
#include "space/rows.h"

#define GRN_MOST_QUERIES 400

/* The smallest distances of a query, in ascending order. */
typedef struct GrnLeast
{
	uint32_t	n;
	float		d[GRN_CURVE_MOST_K];
} GrnLeast;

typedef struct GrnQueries
{
	GrnComparison comparison;
	GrnRows		rows;			/* form and dimensions of all rows */
	uint32_t	n;
	int			threads;
	float	   *floats;			/* [n][dim] */
	char	   *made;			/* [n][made_bytes] queries prepared for rows of this form, or NULL */
	size_t		made_bytes;
	bool		by_products;	/* inner products show which rows are far */
	float		norm2[GRN_MOST_QUERIES];	/* |q|^2 */
	GrnLeast   *nearest;		/* [threads][n]; after grn_queries_merge() the first n entries
								 * cover all rows */
} GrnQueries;

/*
 * Makes queries of n rows, at most GRN_MOST_QUERIES.  Returns false if memory is short.  The caller
 * must call grn_queries_free() in either case.
 */
extern bool grn_queries_make(GrnQueries *q, GrnComparison comparison, const GrnRows *rows,
							 const void *const *of, uint32_t n, int threads);
extern void grn_queries_free(GrnQueries *q);

/* The distance of a row from query i. */
extern float grn_queries_compare(const GrnQueries *q, uint32_t i, const void *row);
/*
 * Compares a row with all queries, except queries whose entry in ids [n] equals the row's id.
 * `thread` is the number of the calling thread.  scratch: [dim].
 */
extern void grn_queries_compare_row(GrnQueries *q, int thread, const uint32_t *ids, uint32_t id,
									const void *row, float *scratch);
/* Merges the nearest rows that all threads have found. */
extern void grn_queries_merge(GrnQueries *q);

#endif							/* GRN_QUERIES_H */
