/*
 * paper.h - GRNND as the paper describes the algorithm (Algorithms 3 to 6), on one GPU,
 * for the program grnnd_paper.  The program repeats the paper's ablations.  Builds of
 * indexes use cuda/gpu.h instead.
 */
#ifndef GRN_PAPER_H
#define GRN_PAPER_H

#include "space/grn.h"

#ifdef __cplusplus
extern "C"
{
#endif

/* The largest r, the number of neighbors in a pool. */
#define GRN_PAPER_MOST_R 128

	/* The order in which the pairs of a pool are compared (the ablation of section 3.3). */
	typedef enum GrnPairOrder
	{
		GRN_ORDER_DISORDERED = 0,
		GRN_ORDER_ASCENDING,
		GRN_ORDER_DESCENDING
	} GrnPairOrder;

	/* The neighbors of a pool that get reverse edges (section 3.6). */
	typedef enum GrnReverse
	{
		GRN_REVERSE_SLOTS =
			0, /* the neighbors in the first slots, in order of insertion */
		GRN_REVERSE_NEAREST
	} GrnReverse;

	typedef struct GrnPaperOptions
	{
		GrnGraphParams params; /* every field is set; see grn_paper_defaults() */
		GrnPairOrder   order;
		uint32_t	   pairs; /* pairs that a vertex compares in a round; 0: all */
		GrnReverse	   reverse;
		bool		   prune; /* lists are pruned by the RNG rule at the end */
	} GrnPaperOptions;

	/* Replaces zeros in params by the paper's values.  The degree is r: lists are the pools. */
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
	 * Builds a graph on a CUDA device.  rows: [n][stride] floats, stride >= dim.  ids
	 * [n][degree] and counts [n] receive the lists, nearest first.  *seconds is the time
	 * of the kernels, measured by CUDA events.  Returns false if the device fails, with
	 * the reason in error [size].
	 */
	extern bool grn_paper_build(int device, const float *rows, uint32_t n, uint32_t dim,
								size_t stride, const GrnPaperOptions *options,
								uint32_t *ids, uint8_t *counts, double *seconds,
								char *error, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* GRN_PAPER_H */
