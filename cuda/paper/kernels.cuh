/*
 * kernels.cuh - what launches the paper's kernels (kernels.cu).
 */
#ifndef GRN_PAPER_KERNELS_CUH
#define GRN_PAPER_KERNELS_CUH

#include "cuda/common.cuh"
#include "cuda/paper/paper.h"

/* The read pools and the write pools of all vertices, in device memory. */
struct PaperSpace
{
	Key		 *d_pool[2];  /* [n][r] entries (pools.cuh), in the order of their arrival */
	uint32_t *d_count[2]; /* [n] entries offered: may exceed r */
	size_t	  bytes;	  /* of all four arrays */
};
/* Lays out the pools at d_base; NULL: for the bytes alone. */
PaperSpace paper_layout(uint8_t *d_base, uint32_t n, uint32_t r);
/* Algorithm 3, line 1: s random neighbors for each row of d_rows [n][dim]. */
cudaError_t launch_paper_init(cudaStream_t stream, const float *d_rows, uint32_t n,
							  uint32_t dim, const PaperSpace &space, uint32_t r,
							  uint32_t s, uint64_t seed);
/* Algorithm 4, a round.  pairs: that each vertex compares, in the given order; 0: all. */
cudaError_t launch_paper_update(cudaStream_t stream, const float *d_rows, uint32_t n,
								uint32_t dim, PaperSpace &space, uint32_t r,
								GrnPairOrder order, uint32_t pairs, uint64_t seed,
								uint32_t round);
/* Section 3.6: reverse edges for the share rho of each pool. */
cudaError_t launch_paper_reverse(cudaStream_t stream, uint32_t n, const PaperSpace &space,
								 uint32_t r, float rho, GrnReverse which);
/* Pools become lists: d_ids [n][degree], d_counts [n], nearest first. */
cudaError_t launch_paper_lists(cudaStream_t stream, const float *d_rows, uint32_t n,
							   uint32_t dim, const PaperSpace &space, uint32_t r,
							   uint32_t degree, bool prune, uint32_t *d_ids,
							   uint8_t *d_counts);

#endif /* GRN_PAPER_KERNELS_CUH */
