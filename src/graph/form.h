/* stand-in */
#ifndef GRN_FORM_H
#define GRN_FORM_H
#include "graph/kernels/dist.h"
#include "graph/metric.h"
static inline float
grn_compare(GrnComparison c, GrnVecFormat f, const float *q, const void *x, size_t n)
{
	const GrnDistTable *d = grn_dist;
	bool ip = c == GRN_COMPARE_IP;
	float r = 0;
	switch (f)
	{
		case GRN_VEC_F32: r = (ip ? d->ip_f32 : d->l2_f32) (q, x, n); break;
		case GRN_VEC_F16: r = (ip ? d->ip_f16 : d->l2_f16) (q, x, n); break;
		case GRN_VEC_U8: r = (ip ? d->ip_u8 : d->l2_u8) (q, x, n); break;
	}
	return ip ? -r : r;
}
#endif
