/*
 * codec_impl.h - what encoding (codec.c) and estimates (estimate.c) share.
 */
#ifndef GRN_CODEC_IMPL_H
#define GRN_CODEC_IMPL_H

#include "graph/stored/codec.h"

#include <math.h>

#define GRN_CODE_LEVELS 16
#define GRN_CODE_MIDDLE 7.5f	/* code_j - GRN_CODE_MIDDLE is symmetric around 0 */

/* u = B (scale x - from) into u [code_dims], from: [dim] or NULL; returns its squared length. */
extern float grn_codec_project(const GrnCodec *codec, const float *x, float scale,
							   const float *from, float *u);

/*
 * The same of x / |x| - c, and *length = |x| in units.  A row that counts as zero
 * (grn_scale()) has length 0 and, for its direction, c.
 */
extern float grn_codec_project_direction(const GrnCodec *codec, const float *x, float *u,
										 float *length);

/* The largest |u_j| of k. */
static inline float
grn_largest(const float *u, uint32_t k)
{
	float		m = 0;

	for (uint32_t j = 0; j < k; j++)
		m = fabsf(u[j]) > m ? fabsf(u[j]) : m;
	return m;
}

#endif							/* GRN_CODEC_IMPL_H */
