/*
 * paper.h - GRNND as the paper writes it (Algorithms 3 to 6), on one GPU, for the program
 * grnnd_paper.  It repeats the paper's ablations.  Indexes are not built by it: cuda/gpu.h has
 * their builds.
 */
#ifndef GRN_PAPER_H
#define GRN_PAPER_H

#include "graph/grn.h"

#ifdef __cplusplus
extern "C"
{
#endif

/* The largest r: neighbors in a pool. */
#define GRN_PAPER_MOST_R 128

	/* The order in which the pairs of a pool are compared (the ablation of section 3.3). */
	typedef enum GrnPairOrder
	{
		GRN_ORDER_DISORDERED = 0,
		GRN_ORDER_ASCENDING,
		GRN_ORDER_DESCENDING
	} GrnPairOrder;

	/* Which neighbors of a pool get reverse edges (section 3.6). */
	typedef enum GrnReverse
	{
		GRN_REVERSE_SLOTS =
			0, /* those in the first slots, in the order of their arrival */
		GRN_REVERSE_NEAREST
	} GrnReverse;

	typedef struct GrnPaperOptions
	{
		GrnGraphParams params; /* complete: grn_paper_defaults() */
		GrnPairOrder   order;
		uint32_t	   pairs; /* pairs that a vertex compares in a round; 0: all */
		GrnReverse	   reverse;
		bool		   prune; /* the RNG rule prunes the lists in the end */
	} GrnPaperOptions;

	/* Puts the paper's values where params hold 0.  Its lists are its pools, so the degree is r. */
	static inline void grn_paper_defaults(GrnGraphParams *params)
	{
		params->r = params->r ? params->r : 32;
		params->s = params->s ? params->s : 20;
		params->t1 = params->t1 ? params->t1 : 4;
		params->t2 = params->t2 ? params->t2 : 8;
		params->rho = params->rho > 0 ? params->rho : 0.6f;
		if (params->degree == 0)
			params->degree = params->r < GRN_MAX_DEGREE ? params->r : GRN_MAX_DEGREE;
	}

	/*
 * Builds a graph on a CUDA device.  rows: [n][stride] floats, stride >= dim.  ids [n][degree] and
 * counts [n] receive the lists, nearest first.  *seconds: of the kernels, by CUDA events.  False
 * where the device fails; error [size] then says why.
 */
	extern bool grn_paper_build(int device, const float *rows, uint32_t n, uint32_t dim,
								size_t stride, const GrnPaperOptions *options,
								uint32_t *ids, uint8_t *counts, double *seconds,
								char *error, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* GRN_PAPER_H */
