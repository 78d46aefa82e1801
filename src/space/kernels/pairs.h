/*
 * pairs.h - kernels for two rows of one short form.  grn_dist_init() chooses the version.
 */
#ifndef GRN_PAIRS_H
#define GRN_PAIRS_H

#include "space/kernels/dist.h"

typedef struct GrnPairTable
{
	/* squared Euclidean distance of a and ratio * b, n binary16 each (unaligned) */
	float		(*l2_f16) (const void *a, const void *b, float ratio, size_t n);
	/* squared Euclidean distance of a + offset and ratio * b, n bytes each */
	float		(*l2_u8) (const uint8_t *a, const uint8_t *b, float ratio, float offset, size_t n);
	/* bits that differ between a and b, `bytes` bytes each (unaligned) */
	uint32_t	(*differ) (const void *a, const void *b, size_t bytes);
	/* bits that are set in both a and b */
	uint32_t	(*common) (const void *a, const void *b, size_t bytes);
} GrnPairTable;

extern const GrnPairTable *grn_pairs;	/* set by grn_dist_init() */

/* Returns the pair kernels that belong to a version of dist.h. */
extern const GrnPairTable *grn_pairs_of(const GrnDistTable *dist);

#endif							/* GRN_PAIRS_H */
