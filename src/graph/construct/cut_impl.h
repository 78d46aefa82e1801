/*
 * cut_impl.h - what the steps of cutting rows into parts share: cells and borders (cells.c),
 * landmarks (landmarks.c) and members (cut.c).
 */
#ifndef GRN_CUT_IMPL_H
#define GRN_CUT_IMPL_H

#include "graph/construct/cut.h"

#define ROWS 64					/* rows whose nearest centres are found together */
#define CENTRES_SHARE 4			/* one row of so many in the sample takes part in k-means */

typedef struct Split
{
	const GrnRows *rows;
	GrnRows    *sample;
	GrnParts   *parts;
	uint32_t	nparts;
	float	   *centres;		/* [nparts][dim] */
	float	   *weights;		/* [nparts] */
	float	   *across;			/* [nparts][nparts], GrnCells */
	uint32_t   *order;			/* [sample] where the rows lie */
	uint32_t   *numbers;		/* [sample] which rows they are */
	char	   *copies;			/* [sample / CENTRES_SHARE], of rows on a disk: for k-means */
	float	   *distances;		/* [sample / ROWS][nparts][ROWS], squared */
	uint32_t   *homes;			/* [sample] */
	float	   *borders;		/* [sample]: distances from the border, or gaps */
	float	   *by_part;		/* [sample]: the same by home; then distances from landmarks */
	uint32_t   *rows_by_part;	/* [sample] */
	size_t		ends[GRN_MAX_PARTS];	/* of each part's items in by_part and rows_by_part */
	uint64_t	seed;
	uint32_t	sizes[GRN_MAX_PARTS];	/* of the sample */
	float		units[GRN_MAX_PARTS];	/* of weights */
	float		border;			/* rows as near to the border as this, by across, are guests */
	uint32_t   *counts;			/* [blocks][2 * nparts]: at home, guests; then positions */
} Split;

/* Of some rows the nearest part, the next, and how much farther that is. */
typedef struct Nearest
{
	uint32_t	home[ROWS];
	uint32_t	second[ROWS];	/* GRN_INVALID_ID: there is none */
	float		gap[ROWS];		/* of squared distances with weights */
} Nearest;

/* cut.c: arrays in the workspace, whose bytes it returns; rows of the sample. */
extern size_t grn_cut_lay_out(Split *s, void *workspace, size_t n, uint32_t dim,
							  uint32_t nparts, float overlap);
extern size_t grn_cut_sample_size(size_t n, uint32_t nparts);

/* cells.c */
/* Squared distances of count rows from the centres, [nparts][ROWS]. */
extern void grn_cut_to_centres(const Split *s, const GrnRows *rows, size_t first, size_t count,
							   float *distances);
/* The nearest parts by these distances. */
extern void grn_cut_find_nearest(const Split *s, const float *distances, Nearest *out);
/* The part that a row is a guest of, or GRN_INVALID_ID. */
extern uint32_t grn_cut_guest_of(const Split *s, const Nearest *nearest, size_t i);
/* The sample's rows, and their distances from borders, by part. */
extern void grn_cut_sort_by_part(Split *s);

#endif							/* GRN_CUT_IMPL_H */
