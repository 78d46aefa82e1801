/*
 * workspace.h - the arrays of a build, except the graph's own, and their bytes.  The builder
 * places the arrays, and grnnd_build_estimate() counts their bytes.
 */
#ifndef GRN_WORKSPACE_H
#define GRN_WORKSPACE_H

#include "memory/arena.h"
#include "store/codec_fit.h"

/* The parameters that determine the bytes of a workspace. */
typedef struct GrnWorkNeeds
{
	uint64_t	rows;			/* n */
	uint64_t	nodes;			/* m, the distinct rows */
	uint32_t	dim;
	uint32_t	degree;
	uint32_t	code_bytes;		/* bytes of the longest possible code */
	uint32_t	code_dims;		/* the most directions of a codec; 0: no codes */
	bool		centered;
	/* If rows have moved into the workspace (src/builder/pipeline_place.c): */
	uint64_t	placed_bytes;	/* bytes of the rows, at the start of the workspace; 0: rows have
								 * not moved */
	uint64_t	own_bytes;		/* bytes of a record's own vector, if kept in the workspace;
								 * otherwise 0 */
} GrnWorkNeeds;

/* The arrays; NULL for arrays that the build does not need. */
typedef struct GrnWork
{
	uint32_t   *vertex_of_rank; /* [n] */
	uint32_t   *order;			/* [n] order of rows that have moved */
	uint8_t    *own;			/* [m][own_bytes] */
	uint32_t   *distinct;		/* [m] */
	uint32_t   *position;		/* [m] */
	GrnFactor  *factors;		/* [m] */
	uint32_t   *ids;			/* [m][degree] */
	uint8_t    *counts;			/* [m] */
	uint8_t    *codes;			/* [m][code_bytes] */
	float	   *codec;			/* grn_codec_floats() */
	float	   *center;			/* [dim] */
	char	   *scratch;
	uint64_t	kept_bytes;		/* bytes of all arrays except scratch */
	uint64_t	bytes;			/* bytes of all arrays */
} GrnWork;

/* Places the arrays in the workspace.  With work NULL only the bytes are valid. */
extern GRN_EXPORT GrnWork grn_place_work_arrays(const GrnWorkNeeds *needs, char *work);

/* Returns the bytes of the earlier comparison of n rows: ranks, hashes and their table. */
static inline uint64_t
grn_compare_work_bytes(uint64_t n)
{
	return grn_aligned(n * sizeof(uint32_t)) + n * (sizeof(uint64_t) + 2 * sizeof(uint32_t));
}

/* Returns the bytes of scratch for connecting and ordering a graph of n vertices. */
extern size_t grn_finish_bytes(size_t n);

#endif							/* GRN_WORKSPACE_H */
