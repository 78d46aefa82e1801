/*
 * kernels.cuh - the functions that launch the paper's kernels (kernels.cu).
 */
#ifndef GRN_PAPER_KERNELS_CUH
#define GRN_PAPER_KERNELS_CUH

#include "cuda/common.cuh"
#include "cuda/paper/paper.h"

/* The read pools and the write pools of all vertices, in device memory. */
struct PaperSpace
{
	Key		 *d_pool[2];  /* [n][r] entries (pools.cuh), in order of insertion */
	uint32_t *d_count[2]; /* [n] number of entries offered; may exceed r */
	size_t	  bytes;	  /* bytes of all four arrays */
};
/* Places the four arrays at d_base.  With d_base NULL only `bytes` of the result is valid. */
PaperSpace paper_layout(uint8_t *d_base, uint32_t n, uint32_t r);
/* Algorithm 3, line 1: inserts s random neighbors into the pool of each row of d_rows [n][dim]. */
cudaError_t launch_paper_init(cudaStream_t stream, const float *d_rows, uint32_t n,
							  uint32_t dim, const PaperSpace &space, uint32_t r,
							  uint32_t s, uint64_t seed);
/*
 * One round of Algorithm 4.  Each vertex compares at most `pairs` pairs, in the given
 * order; 0 means all pairs.  Swaps the pools of `space`.
 */
cudaError_t launch_paper_update(cudaStream_t stream, const float *d_rows, uint32_t n,
								uint32_t dim, PaperSpace &space, uint32_t r,
								GrnPairOrder order, uint32_t pairs, uint64_t seed,
								uint32_t round);
/* Section 3.6: inserts reverse edges for the share rho of each pool. */
cudaError_t launch_paper_reverse(cudaStream_t stream, uint32_t n, const PaperSpace &space,
								 uint32_t r, float rho, GrnReverse which);
/* Makes lists of the pools: d_ids [n][degree] and d_counts [n], nearest first. */
cudaError_t launch_paper_lists(cudaStream_t stream, const float *d_rows, uint32_t n,
							   uint32_t dim, const PaperSpace &space, uint32_t r,
							   uint32_t degree, bool prune, uint32_t *d_ids,
							   uint8_t *d_counts);

#endif /* GRN_PAPER_KERNELS_CUH */
