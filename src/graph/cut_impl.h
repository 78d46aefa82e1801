/*
 * cut_impl.h - shared by the steps that divide rows into parts: cells and borders (cells.c),
 * landmarks (landmarks.c) and members (cut.c).
 */
#ifndef GRN_CUT_IMPL_H
#define GRN_CUT_IMPL_H

#include "graph/cut.h"

#define ROWS 64					/* rows whose nearest centers are found together */
/* Recall at ef 40 as in cells.c: half .008 more and .002 less, twice .001 and .0005 less. */
#define CENTERS_SHARE 4			/* k-means uses one in CENTERS_SHARE rows of the sample */

typedef struct Split
{
	const GrnRows *rows;
	GrnRows    *sample;
	GrnParts   *parts;
	uint32_t	nparts;
	float	   *centers;		/* [nparts][dim] */
	float	   *weights;		/* [nparts] */
	float	   *across;			/* [nparts][nparts], GrnCells */
	uint32_t   *order;			/* [sample] order of the sample (GrnRows.order) */
	uint32_t   *numbers;		/* [sample] numbers of the sample's rows */
	char	   *copies;			/* [sample / CENTERS_SHARE] copies of rows on a disk, for k-means */
	float	   *distances;		/* [sample / ROWS][nparts][ROWS] squared distances */
	uint32_t   *homes;			/* [sample] */
	float	   *borders;		/* [sample] gaps, or distances from the border */
	float	   *by_part;		/* [sample] borders by home; later distances from landmarks */
	uint32_t   *rows_by_part;	/* [sample] rows of the sample by home */
	size_t		ends[GRN_MAX_PARTS];	/* end of each part's range in by_part and rows_by_part */
	uint64_t	seed;
	uint32_t	sizes[GRN_MAX_PARTS];	/* the sample's rows of each part */
	float		units[GRN_MAX_PARTS];	/* units of the weights */
	float		border;			/* rows within this distance from the border (by across) are guests */
	uint32_t   *counts;			/* [blocks][2 * nparts] rows at home, and guests; later positions */
} Split;

/* The nearest part of some rows, the second nearest part, and the difference of their distances. */
typedef struct NearestParts
{
	uint32_t	home[ROWS];
	uint32_t	second[ROWS];	/* GRN_INVALID_ID: there is only one part */
	float		gap[ROWS];		/* difference of the squared distances with weights */
} NearestParts;

/*
 * cut.c: grn_cut_place_arrays() places the arrays in the workspace and returns its bytes.
 * grn_cut_sample_size() returns the rows of the sample.
 */
extern size_t grn_cut_place_arrays(Split *s, void *workspace, size_t n, uint32_t dim,
								   uint32_t nparts, float overlap);
extern size_t grn_cut_sample_size(size_t n, uint32_t nparts);

/* cells.c */
/* Computes the squared distances of count rows from the centers, [nparts][ROWS]. */
extern void grn_cut_to_centers(const Split *s, const GrnRows *rows, size_t first, size_t count,
							   float *distances);
/* Finds the two nearest parts of ROWS rows from their distances. */
extern void grn_cut_find_nearest(const Split *s, const float *distances, NearestParts *out);
/* Returns the part that a row is a guest of, or GRN_INVALID_ID. */
extern uint32_t grn_cut_guest_of(const Split *s, const NearestParts *nearest, size_t i);
/* Sorts the sample's rows, and their distances from borders, by part. */
extern void grn_cut_sort_by_part(Split *s);

#endif							/* GRN_CUT_IMPL_H */
