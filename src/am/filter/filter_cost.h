/*
 * filter_cost.h - the costs of the ways to find the nearest rows that pass a filter: by the graph,
 * by a list of rows, or by all rows in turn.  The planner (cost.c) and scans (scan_filter.c) use
 * these functions.
 *
 * The unit of cost is a visit of the graph whose page is in shared buffers.  ef is the number of
 * candidates of a search: its width, times grnnd_beam().
 */
#ifndef GRNND_FILTER_COST_H
#define GRNND_FILTER_COST_H

#include "am/filter/lists.h"

/* How a scan with a filter finds its rows. */
typedef enum GrnndWay
{
	GRNND_WAY_CHECK = 0,		/* by the graph; values are tested at visits, without signatures */
	GRNND_WAY_GRAPH,
	GRNND_WAY_LIST,
	GRNND_WAY_HANDED_OVER,		/* first by the graph, then by a list */
	GRNND_WAY_REST,				/* by reading all rows in turn */
	GRNND_WAY_SET				/* by reading the rows of a bitmap from the table */
} GrnndWay;

/*
 * Visits of a search of the graph without any limit.  share: of the rows that pass, over 0.
 * near_share: of the rows near the query, 0 if none passes there, `share` if unknown.
 */
extern double grnnd_graph_visits(double ef, double share, double near_share);
/* The cost of these visits and of reading the sample (sample.h). */
extern double grnnd_graph_cost(double ef, double share, double near_share);

/* Expansions of the graph for each row that a scan returns after its first search. */
extern double grnnd_expansions_per_row(const GrnCodec *codec, bool strict);

/*
 * The width of a scan's first search if conditions that the index does not test let a share of the
 * rows pass, by the planner's statistics.  0: the scan begins with a search of width ef, because
 * few rows are wanted, or because statistics of so few rows may be far wrong.
 */
/*
 * GRNND_FIRST_SHARE, 20,000 sentences and image patches, conditions of another index that 10 and
 * 30% pass, ef 40: half takes 50 to 71% more visits for .01 to .03 more recall, twice has .02 to
 * .11 less recall.  GRNND_LEAST_FILTERED: the same with half, with twice 37 to 129% more visits
 * for .03 more recall at most.  Half and twice of GRNND_TESTS_PER_VISIT change nothing.
 */
#define GRNND_FIRST_SHARE 0.5	/* see scan_width.c */
#define GRNND_LEAST_FILTERED 10
extern double grnnd_filtered_width(double ef, double limit, double share);

/* Visits that cost as much as reading all rows in turn.  rows: records of the index. */
extern double grnnd_all_rows_cost(const GrnndIndex *ix, double rows);

/*
 * Searches for the rows of a bitmap of other indexes (scan_tids.c), without any signature: the cost
 * until ef rows are found, and the cost of reading `rows` rows from the table instead.
 */
#define GRNND_TESTS_PER_VISIT 4 /* tests of rows' addresses that cost as much as a visit */
extern double grnnd_set_visits(const GrnndIndex *ix, double ef, double share);
extern double grnnd_set_rows_cost(const GrnndIndex *ix, double rows);

/* The way with the least cost.  Infinity: a way that does not exist. */
extern GrnndWay grnnd_cheapest_way(double graph, double list, double rest);

/* The search of a list. */
typedef struct GrnndListWork
{
	double		rows;			/* rows on the list, or a few more */
	double		pages;			/* pages read of the list; visits come on top */
	double		cost;			/* of pages, rows and visits */
} GrnndListWork;

/* pieces: the number of places where parts of the list begin. */
extern GrnndListWork grnnd_list_work(const GrnndIndex *ix, GrnndListSize size, uint32 pieces, double ef);
/* The cost of a visit by a list. */
extern double grnnd_list_visit_cost(const GrnLayout *l);
/* The size of the list of a value with n rows, as a build makes lists; of an array, of several. */
extern GrnndListSize grnnd_size_of_list(const GrnndIndex *ix, GrnndAttrKind kind, double n, double rows);

#endif							/* GRNND_FILTER_COST_H */
