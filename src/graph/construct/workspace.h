/*
 * workspace.h - the arrays that a build has in its workspace beside the graph's own, and their
 * bytes.  The builder lays them out, and grnnd_build_estimate() counts them.
 */
#ifndef GRN_WORKSPACE_H
#define GRN_WORKSPACE_H

#include "graph/arena.h"
#include "graph/stored/codec_fit.h"

/* What fixes the bytes of a workspace. */
typedef struct GrnWorkNeeds
{
	uint64_t	rows;			/* n */
	uint64_t	nodes;			/* m, the distinct rows */
	uint32_t	dim;
	uint32_t	degree;
	uint32_t	code_bytes;		/* of the longest codes that there may be */
	uint32_t	code_dims;		/* the most directions of a codec; 0: there are no codes */
	bool		centred;
	/* where rows have moved into the workspace (src/builder/pipeline_place.c): */
	uint64_t	placed_bytes;	/* of the rows, with which the workspace begins; 0: not moved */
	uint64_t	own_bytes;		/* of what a record keeps of a row, where that is kept here; else 0 */
} GrnWorkNeeds;

/* The arrays; NULL where there is none. */
typedef struct GrnWork
{
	uint32_t   *vertex_of_rank; /* [n] */
	uint32_t   *order;			/* [n] where rows have moved */
	uint8_t    *own;			/* [m][own_bytes] */
	uint32_t   *distinct;		/* [m] */
	uint32_t   *position;		/* [m] */
	GrnFactor  *factors;		/* [m] */
	uint32_t   *ids;			/* [m][degree] */
	uint8_t    *counts;			/* [m] */
	uint8_t    *codes;			/* [m][code_bytes] */
	float	   *codec;			/* grn_codec_floats() */
	float	   *centre;			/* [dim] */
	char	   *scratch;
	uint64_t	kept_bytes;		/* of all but scratch, */
	uint64_t	bytes;			/* and with scratch */
} GrnWork;

/* Lays the arrays out in the workspace.  work NULL: the bytes alone are found. */
extern GrnWork grn_lay_out_work(const GrnWorkNeeds *needs, char *work);

/* Bytes in which n rows are compared before that: n ranks, n hashes, and slots to look them up. */
static inline uint64_t
grn_compare_work_bytes(uint64_t n)
{
	return grn_aligned(n * sizeof(uint32_t)) + n * (sizeof(uint64_t) + 2 * sizeof(uint32_t));
}

/* Bytes of scratch in which a graph of n vertices is connected and put into the order of pages. */
extern size_t grn_finish_bytes(size_t n);

#endif							/* GRN_WORKSPACE_H */
