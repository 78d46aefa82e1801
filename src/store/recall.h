/*
 * recall.h - measures the recall of searches of a graph in any store.
 *
 * Queries are nodes of the graph, each absent from its own searches because queries of applications
 * are seldom rows, or queries that scans have left.  A comparison with all rows finds the nearest
 * rows of the queries.  Then searches run at all widths of the curve.
 */
#ifndef GRN_RECALL_H
#define GRN_RECALL_H

#include "store/record.h"
#include "store/search.h"

/* ---- queries.c: finds, for a few queries, the nearest of all rows by comparison. ---- */

/*
 * Recall .95 is known to .019 by 24 queries, to .027 by half and .013 by twice as many; by 400 to
 * .005, by half to .007, by twice to .003 (grn_recall_chance()).
 */
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
	const GrnLayout *rows;		/* form, dimensions and center of all rows */
	uint32_t	n;
	uint32_t	ids[GRN_MOST_QUERIES];	/* a row of this id is not compared with the query */
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
 * Places the arrays of n queries, at most GRN_MOST_QUERIES, in a workspace, and returns its bytes;
 * workspace NULL: only that.  Then the caller fills ids and floats (of sparse rows: their words).
 */
extern size_t grn_queries_place(GrnQueries *q, GrnComparison comparison, const GrnLayout *rows, uint32_t n,
								int threads, void *workspace);
/* Prepares the queries for comparisons, none made yet. */
extern void grn_queries_ready(GrnQueries *q);

/* The distance of a stored row from query i. */
extern float grn_queries_compare(const GrnQueries *q, uint32_t i, const void *row);
/*
 * Compares a row with all queries, except queries with the row's id.  `thread` is the number of the
 * calling thread.  scratch: [dim].
 */
extern void grn_queries_compare_row(GrnQueries *q, int thread, uint32_t id, const void *row, float *scratch);
/* Merges the nearest rows that all threads have found. */
extern void grn_queries_merge(GrnQueries *q);

/* ---- recall.c: measures recall by searches. ---- */

/* What the searches of a query have found; arrays by width. */
typedef struct GrnQueryOutcome
{
	uint32_t	wanted[GRN_CURVE_KS];	/* the number of nearest rows: k, or all rows */
	uint32_t	hits[GRN_CURVE_KS][GRN_CURVE_POINTS];	/* how many of these were found */
	uint32_t	visits[GRN_CURVE_POINTS];
	float		contrast[GRN_CURVE_POINTS]; /* 0: not known */
} GrnQueryOutcome;

typedef struct GrnRecall
{
	const GrnStoredGraph *graph;
	GrnParallel *parallel;		/* each thread has a store */
	const GrnLayout *rows;		/* of the rows that read() compares */
	bool		of_scans;		/* the queries are of scans */
	uint32_t	n;				/* number of queries */
	uint32_t	ids[GRN_MOST_QUERIES];	/* node of each query, or GRN_INVALID_ID of scans */
	/* writes query i: floats, or the words of a sparse row */
	void		(*load) (void *arg, uint32_t i, float *x);
	/* compares all rows with the queries of a round */
	void		(*read) (void *arg, GrnQueries *q);
	/* optional: distance of a node from query i of a round; otherwise that of the search counts */
	float		(*distance) (void *arg, const GrnQueries *q, uint32_t i, uint32_t id);
	void	   *arg;
	GrnQueries	round;			/* queries of the round */
	uint32_t	from;			/* number of its first query */
	GrnQueryOutcome outcomes[GRN_MOST_QUERIES];
} GrnRecall;

/*
 * Draws up to `want` different ids below `limit` as queries, but no entry points: searches without
 * an entry point begin elsewhere.  takes(arg, id) says whether an id may be a query; NULL: all may.
 */
extern void grn_recall_draw(GrnRecall *r, uint64_t seed, uint32_t limit, uint32_t want,
							bool (*takes) (void *arg, uint32_t id));
/* The bytes of a workspace for a round of n queries. */
extern size_t grn_recall_bytes(const GrnRecall *r, uint32_t n);
/* A round: measures queries [begin, end).  Each round reads all rows anew. */
extern void grn_recall_measure(GrnRecall *r, uint32_t begin, uint32_t end, void *workspace);
/* Sums up the first n queries, all measured.  No query in the curve: nothing is known. */
extern void grn_recall_sum_up(const GrnRecall *r, uint32_t n, GrnRecallCurve *curve, GrnContrast *contrast);

/* The usual standard deviation of a recall of ten rows measured by so many queries. */
extern double grn_recall_chance(double recall, uint32_t queries);

#endif							/* GRN_RECALL_H */
