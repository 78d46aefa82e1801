/*
 * estimate_distinct.h - how many distinct rows a table has, by a sample of its pages.
 *
 * Copies that lie on one page come into the sample together and would say that all rows have as
 * many.  So what is counted of a value is the pages that have it, and its pages are drawn
 * independently: the "collapse" of Chaudhuri, Das and Srivastava (2004).
 *
 * Values on more pages of the sample than GRNND_MOST_RARE are taken as all there are of their kind:
 * Haas and Stokes (1998) set frequent values aside, since they say nothing of the others.  If the
 * rest may all have equally many copies, Haas and Stokes' estimator counts them, by which
 * ANALYZE goes.  Where the sample contradicts that, the most likely mixture of values with one
 * copy, two, and so on does.
 */
#ifndef GRNND_ESTIMATE_DISTINCT_H
#define GRNND_ESTIMATE_DISTINCT_H

#include <stddef.h>
#include <stdint.h>

#define GRNND_MOST_RARE 30

/* Kinds of rare values that are told apart, by how many pages have one. */
#define GRNND_MOST_KINDS 64

/* A row of the sample. */
typedef struct GrnndSeenRow
{
	uint64_t	hash;
	uint32_t	page;
} GrnndSeenRow;

/* So many distinct values, each on so many pages of the table, with so many rows. */
typedef struct GrnndRareKind
{
	double		values;
	double		pages;
	double		rows;
} GrnndRareKind;

typedef struct GrnndDistinct
{
	double		frequent;		/* values */
	double		frequent_rows;	/* of the sample, that have one of these */
	double		rare;			/* values, those that the sample lacks among them */
	uint32_t	kinds;
	GrnndRareKind kind[GRNND_MOST_KINDS];	/* of the rare ones */
} GrnndDistinct;

/* Told of a frequent value: the sample's rows that have it. */
typedef void (*GrnndFrequentFn) (void *arg, double rows);

/*
 * By the rows [n] of all pages of a sample, which it sorts.  share: of the table's pages, in
 * (0, 1]; 1: the sample is the table, and all values count as frequent.  frequent may be NULL.
 */
extern GrnndDistinct grnnd_estimate_distinct(GrnndSeenRow *rows, size_t n, double share,
											 GrnndFrequentFn frequent, void *arg);

#endif							/* GRNND_ESTIMATE_DISTINCT_H */
